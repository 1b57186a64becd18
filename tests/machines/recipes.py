"""Forty machines as small recipes: each says what is special about it, the parts do the rest."""

# ruff: noqa: E501 - rows of data read better whole

from __future__ import annotations

from collections.abc import Callable

from envcheck.probes.runner import Run
from tests.machines.parts import (
    ELF_ARM,
    ELF_X86,
    Files,
    Link,
    Machine,
    Mode,
    distribution,
    dpkg,
    driver_libraries,
    gcc,
    gpu,
    ld_cache,
    module,
    nodes,
    nvml,
    pci,
    python,
    toolkit,
    torch,
    ubuntu,
    venv,
)

MACHINES: dict[str, Callable[[], Machine]] = {}
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/user"}
SITE = "/home/user/.venv/lib/python3.10/site-packages"
VENV = {**PATH, "VIRTUAL_ENV": "/home/user/.venv", "PATH": "/home/user/.venv/bin:/usr/bin:/bin"}


def machine(recipe: Callable[[], Machine]) -> Callable[[], Machine]:
    MACHINES[recipe.__name__.replace("_", "-")] = recipe
    return recipe


def workstation(version: str = "535.104.05") -> Files:
    """Ubuntu with one RTX 4090 and a working driver."""
    return {
        **ubuntu(),
        **pci("0000:01:00.0", "2684", kind="030000"),
        **module(version),
        **nodes(),
        **driver_libraries(version),
        **python(),
    }


def with_venv(*parts: Files) -> Files:
    return {**venv("/home/user/.venv"), **{path: content for part in parts for path, content in part.items()}}


@machine
def bare_metal_without_gpu() -> Machine:
    return Machine({**ubuntu(), **python()}, env=PATH)


@machine
def bare_metal_rtx_4090_with_torch() -> Machine:
    return Machine({**workstation(), **with_venv(torch(SITE))}, nvml(gpu()), VENV)


@machine
def open_kernel_module() -> Machine:
    files = {**workstation("570.86.10"), **module("570.86.10", flavour="open"), **pci("0000:01:00.0", "2B85")}
    five = gpu(name="NVIDIA GeForce RTX 5090", pci=["00000000:01:00.0", 0x2B8510DE], capability=[12, 0])
    return Machine(files, nvml(five, driver="570.86.10", cuda=12080), PATH)


@machine
def gpu_without_any_driver() -> Machine:
    return Machine({**ubuntu(), **pci("0000:01:00.0", "2684", driver=""), **python()}, env=PATH)


@machine
def nouveau_holds_the_card() -> Machine:
    files = {**ubuntu(), **pci("0000:01:00.0", "1B80", driver="nouveau", kind="030000"), **python()}
    files["/proc/modules"] = "nouveau 1 0 - Live 0x0\nvideo 1 0 - Live 0x0\n"
    return Machine(files, env=PATH)


@machine
def secure_boot_refuses_the_module() -> Machine:
    files = {**ubuntu(), **pci("0000:01:00.0", "2684", driver=""), **driver_libraries("550.54.14"), **python()}
    files["/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = b"\x06\0\0\0\x01"
    files["/var/lib/dpkg/status"] = dpkg(
        {"nvidia-driver-550": "550.54.14-0ubuntu1", "nvidia-dkms-550": "550.54.14-0ubuntu1"}
    )
    return Machine(files, nvml(fault="DRIVER_NOT_LOADED"), PATH)


@machine
def driver_library_mismatch_after_upgrade() -> Machine:
    files = {**workstation("535.104.05"), **driver_libraries("535.161.07")}
    for name in ("libcuda", "libnvidia-ml"):
        del files[f"/usr/lib/x86_64-linux-gnu/{name}.so.535.104.05"]
    return Machine(files, nvml(fault="LIB_RM_VERSION_MISMATCH"), PATH)


@machine
def eight_gpus_one_lost() -> Machine:
    files = {**ubuntu(), **module("535.104.05"), **nodes(8), **driver_libraries("535.104.05"), **python()}
    for n in range(8):
        files |= pci(f"0000:{n + 16:02x}:00.0", "2330")
    h100 = {
        "name": "NVIDIA H100 80GB HBM3",
        "capability": [9, 0],
        "mig": 0,
        "nvlink": 1,
        "fabric": [3, 0],
        "errors": {},
    }
    gpus = [gpu(n, pci=[f"00000000:{n + 16:02X}:00.0", 0x233010DE], **h100) for n in range(8)]
    gpus[3] = {"step": "gpu", "index": 3, "values": {}, "errors": {"handle": "GPU_IS_LOST"}}
    files["/var/log/kern.log"] = (
        "Linux version 5.15\nkernel: NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    return Machine(files, nvml(*gpus), PATH)


@machine
def nvml_hangs_at_one_of_two() -> Machine:
    files = {**workstation(), **pci("0000:02:00.0", "2684"), **nodes(2)}
    runs = nvml(gpu(0), gpu(1), end=False)
    lines = runs["nvml"].out.splitlines(keepends=True)
    runs["nvml"] = Run((), out=b"".join(lines[:-1]), timed_out=True)
    runs["nvml 1"] = Run((), out=b"".join(lines[:5]) + lines[-2], timed_out=True)
    return Machine(files, runs, PATH)


@machine
def nvml_crashes_and_smi_answers() -> Machine:
    files = {**workstation(), "/usr/bin/nvidia-smi": ELF_X86}
    fields = "index,name,pci.bus_id,uuid,memory.total,memory.used,persistence_mode,driver_version"
    query = f"nvidia-smi --query-gpu={fields},mig.mode.current,compute_cap --format=csv,noheader,nounits"
    row = b"0, NVIDIA GeForce RTX 4090, 00000000:01:00.0, GPU-1, 24564, 1, Disabled, 535.104.05, [N/A], 8.9\n"
    runs = {"nvml": Run((), rc=-11, out=b'{"step": "open", "errno": 0}\n'), query: Run((), rc=0, out=row)}
    return Machine(files, runs, PATH)


@machine
def old_nvidia_smi_without_newer_fields() -> Machine:
    files = {**workstation("450.80.02"), "/usr/bin/nvidia-smi": ELF_X86}
    fields = "index,name,pci.bus_id,uuid,memory.total,memory.used,persistence_mode,driver_version"
    newer = f"nvidia-smi --query-gpu={fields},mig.mode.current,compute_cap --format=csv,noheader,nounits"
    older = f"nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits"
    runs = {
        "nvml": Run((), rc=-7, out=b""),
        newer: Run((), rc=2, out=b'Field "compute_cap" is not a valid field to query.\n'),
        older: Run((), rc=0, out=b"0, Tesla T4, 00000000:01:00.0, GPU-1, 15109, 0, Enabled, 450.80.02\n"),
    }
    return Machine(files, runs, PATH)


@machine
def no_proc_driver_but_sysfs() -> Machine:
    files = workstation()
    del files["/proc/driver/nvidia/version"]
    files["/sys/module/nvidia/taint"] = "POE\n"
    return Machine(files, nvml(gpu()), PATH)


@machine
def no_nvidia_smi_no_libraries() -> Machine:
    files = workstation()
    for path in list(files):
        if "libcuda" in path or "libnvidia-ml" in path:
            del files[path]
    return Machine(files, env=PATH)


def container(files: Files) -> Files:
    return {
        **{path: content for path, content in files.items() if path != "/sbin/init"},
        "/.dockerenv": "",
        "/proc/mounts": "overlay / overlay rw,lowerdir=a,upperdir=b 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\n",
    }


@machine
def docker_container_with_gpu() -> Machine:
    files = {**container({**workstation(), **toolkit("12.1.105", nvcc=False)}), **with_venv(torch(SITE))}
    return Machine(files, nvml(gpu()), {**VENV, "CUDA_VERSION": "12.1.1", "NVIDIA_VISIBLE_DEVICES": "all"})


@machine
def docker_container_without_gpu_flag() -> Machine:
    files = container({**workstation(), **toolkit("12.1.105", nvcc=False)})
    for path in list(files):
        if path.startswith("/dev/nvidia") or "libcuda.so" in path or "libnvidia-ml" in path:
            del files[path]
    return Machine(files, env={**PATH, "CUDA_VERSION": "12.1.1", "NVIDIA_VISIBLE_DEVICES": "all"})


@machine
def container_that_sees_one_of_eight() -> Machine:
    files = container(workstation())
    for n in range(2, 9):
        files |= pci(f"0000:{n:02x}:00.0", "2684")
    return Machine(files, nvml(gpu()), PATH)


@machine
def container_lost_its_gpu_to_cgroups() -> Machine:
    runs = nvml(fault="UNKNOWN")
    runs["nvml"] = Run((), rc=0, out=runs["nvml"].out.replace(b'"errno": 0', b'"errno": 1'))
    return Machine(container(workstation()), runs, PATH)


@machine
def container_with_compat_first() -> Machine:
    files = container({**workstation("560.35.03"), **toolkit("12.2.140", nvcc=False)})
    files["/usr/local/cuda-12.2/compat/libcuda.so.535.161.08"] = ELF_X86
    files["/usr/local/cuda-12.2/compat/libcuda.so.1"] = Link("libcuda.so.535.161.08")
    env = {**PATH, "CUDA_VERSION": "12.2.2", "LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/cuda/lib64"}
    return Machine(files, nvml(gpu(), driver="560.35.03", cuda=12060), env)


@machine
def kubernetes_pod() -> Machine:
    files = container(workstation())
    files["/proc/1/cgroup"] = "0::/kubepods.slice/pod1\n"
    return Machine(files, nvml(gpu()), {**PATH, "KUBERNETES_SERVICE_HOST": "10.0.0.1"})


@machine
def podman_rootless() -> Machine:
    files = container(workstation())
    del files["/.dockerenv"]
    files["/run/.containerenv"] = 'engine="podman-4.9.3"\nrootless=1\n'
    return Machine(files, nvml(gpu()), {**PATH, "container": "podman"})


@machine
def apptainer() -> Machine:
    files = {**workstation(), "/.singularity.d": None}
    return Machine(files, nvml(gpu()), {**PATH, "APPTAINER_CONTAINER": "/images/x.sif"})


@machine
def gvisor_sandbox() -> Machine:
    files = {**ubuntu(), **python()}
    for path in ("/sys/bus/pci/devices", "/sys/class", "/sys/firmware", "/proc/modules"):
        del files[path]
    files["/proc/version"] = "Linux version 4.4.0 gVisor\n"
    return Machine(files, env=PATH)


def wsl(release: str) -> Files:
    files = {**ubuntu(), **python(), "/proc/sys/kernel/osrelease": release}
    files["/proc/modules"] = ""
    return files


@machine
def wsl1() -> Machine:
    return Machine(wsl("4.4.0-19041-Microsoft\n"), env=PATH)


@machine
def wsl2_with_gpu() -> Machine:
    files = {**wsl("5.15.90.1-microsoft-standard-WSL2\n"), "/dev/dxg": Mode(0o666)}
    for name in ("libcuda.so.1", "libcuda.so.1.1", "libcuda.so", "libnvidia-ml.so.1"):
        files[f"/usr/lib/wsl/lib/{name}"] = ELF_X86
    files |= ld_cache({n: f"/usr/lib/wsl/lib/{n}" for n in ("libcuda.so.1", "libnvidia-ml.so.1")})
    return Machine(files, nvml(gpu(), driver="546.33", cuda=12030), PATH)


@machine
def wsl2_with_a_linux_driver_before_its_own() -> Machine:
    files = dict(wsl2_with_gpu().files)
    files |= driver_libraries("535.104.05")
    names = ("libcuda.so.1", "libnvidia-ml.so.1")
    files |= ld_cache({n: f"/usr/lib/x86_64-linux-gnu/{n}" for n in names})
    return Machine(files, nvml(fault="DRIVER_NOT_LOADED"), PATH)


@machine
def wsl2_without_gpu() -> Machine:
    return Machine(wsl("5.15.90.1-microsoft-standard-WSL2\n"), env=PATH)


@machine
def jetson_orin() -> Machine:
    files = {**ubuntu(triple="aarch64-linux-gnu"), **python()}
    files["/etc/nv_tegra_release"] = "# R36 (release), REVISION: 3.0, GCID: 36106755, BOARD: generic, EABI: aarch64\n"
    files["/proc/device-tree/model"] = "NVIDIA Jetson AGX Orin Developer Kit\0"
    files["/proc/modules"] = "nvgpu 1 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n"
    files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.3.0  Release Build\n"
    )
    return Machine(files, env=PATH)


@machine
def jetson_xavier_with_l4t_as_driver_version() -> Machine:
    files = {**ubuntu("20.04", "2.31", "3.4.28", "aarch64-linux-gnu"), **python()}
    files["/etc/nv_tegra_release"] = "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64\n"
    files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  35.4.1  Release Build\n"
    )
    return Machine(files, env=PATH)


@machine
def grace_hopper_aarch64() -> Machine:
    files = {
        **ubuntu(triple="aarch64-linux-gnu"),
        **pci("0009:01:00.0", "2342"),
        **module("550.54.15", flavour="open"),
        **nodes(),
    }
    files |= driver_libraries("550.54.15", "/usr/lib/aarch64-linux-gnu")
    files |= {**python(), "/usr/bin/python3.10": ELF_ARM}
    gh = gpu(name="NVIDIA GH200 480GB", capability=[9, 0], pci=["00000009:01:00.0", 0x234210DE], mig=0, errors={})
    return Machine(files, nvml(gh, driver="550.54.15", cuda=12040), PATH)


@machine
def mig_with_two_instances() -> Machine:
    migs = [{"name": "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "uuid": f"MIG-{n}", "memory": 20937965568} for n in (1, 2)]
    a100 = gpu(
        name="NVIDIA A100-SXM4-40GB",
        pci=["00000000:01:00.0", 0x20B010DE],
        capability=[8, 0],
        mig=1,
        migs=migs,
        errors={},
    )
    files = {**workstation(), **pci("0000:01:00.0", "20B0"), "/dev/nvidia-caps/nvidia-cap21": Mode(0o444)}
    return Machine(files, nvml(a100), PATH)


@machine
def mig_mode_without_instances() -> Machine:
    a100 = gpu(
        name="NVIDIA A100-SXM4-40GB", pci=["00000000:01:00.0", 0x20B010DE], capability=[8, 0], mig=1, migs=[], errors={}
    )
    return Machine({**workstation(), **pci("0000:01:00.0", "20B0")}, nvml(a100), PATH)


@machine
def vgpu_guest() -> Machine:
    files = {**workstation("535.129.03"), "/sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}
    files |= {"/sys/class/dmi/id/product_name": "VMware Virtual Platform\n"}
    grid = gpu(name="NVIDIA A40-16Q", pci=["00000000:01:00.0", 0x223510DE], capability=[8, 6], virtual=2)
    return Machine(files, nvml(grid, driver="535.129.03"), PATH)


@machine
def passthrough_to_a_virtual_machine() -> Machine:
    files = {**ubuntu(), **pci("0000:01:00.0", "2684", driver="vfio-pci"), **python()}
    files["/proc/modules"] = "vfio_pci 1 0 - Live 0x0\n"
    return Machine(files, env=PATH)


@machine
def amd_mi300x() -> Machine:
    files = {**ubuntu(), **pci("0000:05:00.0", "74a1", "amdgpu", "1002", "120000"), **python()}
    files["/proc/modules"] = "amdgpu 1 0 - Live 0x0\n"
    files["/sys/bus/pci/devices/0000:05:00.0/mem_info_vram_total"] = "206141652992\n"
    files["/sys/class/kfd/kfd/topology/nodes/1/properties"] = "location_id 1280\ndomain 0\ngfx_target_version 90402\n"
    files |= with_venv(torch(SITE, "2.5.1+rocm6.2", None, "6.2.41133-dd7f95766"))
    return Machine(files, env=VENV)


@machine
def intel_laptop_with_nvidia_asleep() -> Machine:
    files = {**workstation(), **pci("0000:00:02.0", "9a60", "i915", "8086", "030000")}
    return Machine(files, nvml(gpu()), PATH)


@machine
def nvswitch_without_fabric_manager() -> Machine:
    files = {
        **workstation(),
        **pci("0000:01:00.0", "2330"),
        **pci("0000:08:00.0", "22a3", "nvidia-nvswitch", kind="068000"),
    }
    files |= {"/usr/bin/nv-fabricmanager": ELF_X86, "/proc/77/comm": "bash\n"}
    files["/var/lib/dpkg/status"] = dpkg({"nvidia-fabricmanager-535": "535.161.08-1"})
    h100 = gpu(
        name="NVIDIA H100 80GB HBM3", pci=["00000000:01:00.0", 0x233010DE], capability=[9, 0], fabric=[2, 0], nvlink=1
    )
    return Machine(files, nvml(h100), PATH)


@machine
def nvswitch_with_fabric_manager() -> Machine:
    files = dict(nvswitch_without_fabric_manager().files)
    files["/proc/77/comm"] = "nv-fabricmanage\n"
    h100 = gpu(
        name="NVIDIA H100 80GB HBM3", pci=["00000000:01:00.0", 0x233010DE], capability=[9, 0], fabric=[3, 0], nvlink=1
    )
    return Machine(files, nvml(h100), PATH)


@machine
def conda_and_pip_mixed() -> Machine:
    prefix = "/opt/conda/envs/ml"
    site = f"{prefix}/lib/python3.10/site-packages"
    files = {**workstation(), **python(prefix), **torch(site, "2.5.1+cu124", "12.4")}
    meta = '{"build": "py3.10_cuda12.1_cudnn8.9.2_0", "channel": "https://conda.anaconda.org/pytorch/linux-64"}'
    files[f"{prefix}/conda-meta/pytorch-2.1.0-py3.10_cuda12.1_cudnn8.9.2_0.json"] = meta
    files[f"{prefix}/conda-meta/cuda-cudart-12.1.105-0.json"] = (
        '{"channel": "https://conda.anaconda.org/nvidia/linux-64"}'
    )
    files[f"{prefix}/conda-meta/python-3.10.13-h955ad1f_0.json"] = "{}"
    files[f"{prefix}/conda-meta/history"] = ""
    return Machine(files, nvml(gpu()), {**PATH, "CONDA_PREFIX": prefix, "PATH": f"{prefix}/bin:/usr/bin"})


@machine
def conda_forge_torch() -> Machine:
    prefix = "/opt/conda/envs/ml"
    site = f"{prefix}/lib/python3.10/site-packages"
    files = {**workstation(), **python(prefix), **torch(site, "2.5.1", "12.6", installer="conda")}
    meta = '{"build": "cuda126_py310h7d4d9b5_0", "channel": "https://conda.anaconda.org/conda-forge/linux-64"}'
    files[f"{prefix}/conda-meta/pytorch-2.5.1-cuda126_py310h7d4d9b5_0.json"] = meta
    return Machine(files, nvml(gpu()), {**PATH, "CONDA_PREFIX": prefix, "PATH": f"{prefix}/bin:/usr/bin"})


@machine
def cpu_wheel_on_a_gpu_machine() -> Machine:
    return Machine({**workstation(), **with_venv(torch(SITE, "2.13.0+cpu", None))}, nvml(gpu()), VENV)


@machine
def tensorflow_build_info() -> Machine:
    info = (
        "import collections\nbuild_info = collections.OrderedDict([('cpu_compiler', '/usr/bin/clang'), "
        "('cuda_compute_capabilities', ['sm_60', 'sm_70', 'sm_89', 'compute_90']), ('cuda_version', '12.5.1'), "
        "('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False)])\n"
    )
    files = {"tensorflow/python/platform/build_info.py": info}
    return Machine(
        {**workstation(), **with_venv(distribution(SITE, "tensorflow", "2.18.0", files=files))}, nvml(gpu()), VENV
    )


@machine
def torch_twice_and_broken() -> Machine:
    broken = {k: v for k, v in distribution(SITE, "torchvision", "0.16.0").items() if "dist-info" in k}
    half = {k: v for k, v in distribution(SITE, "numpy", "1.26.4").items() if not k.endswith("numpy/__init__.py")}
    half[f"{SITE}/numpy/__pycache__"] = None
    user = "/home/user/.local/lib/python3.10/site-packages"
    files = {
        **workstation(),
        **venv("/home/user/.venv", shared=True),
        **torch(SITE),
        **torch(user, "2.0.1+cu118", "11.8"),
    }
    return Machine({**files, **broken, **half}, nvml(gpu()), VENV)


@machine
def mixed_cuda_majors_from_pip() -> Machine:
    parts = [
        torch(
            SITE, "2.9.0+cu130", "13.0", requires=["nvidia-cudnn-cu13==9.13.0.50; platform_system == 'Linux'", "sympy"]
        ),
        *(
            distribution(SITE, name, version)
            for name, version in (("nvidia-cudnn-cu12", "9.1.0.70"), ("nvidia-cudnn-cu13", "9.13.0.50"))
        ),
    ]
    return Machine({**workstation("580.95.05"), **with_venv(*parts)}, nvml(gpu(), driver="580.95.05", cuda=13000), VENV)


@machine
def two_cuda_toolkits() -> Machine:
    files = {**workstation(), **toolkit("11.8.0", default=False), **toolkit("12.4.1"), **gcc("11")}
    files["/var/lib/dpkg/status"] = dpkg({"gcc-11": "11.4.0-1ubuntu1~22.04"})
    return Machine(
        files, nvml(gpu()), {**PATH, "CUDA_HOME": "/usr/local/cuda-11.8", "PATH": "/usr/local/cuda/bin:/usr/bin"}
    )


@machine
def stub_on_the_library_path() -> Machine:
    files = {**workstation(), **toolkit("12.4.1")}
    files["/usr/local/cuda-12.4/lib64/stubs/libcuda.so"] = ELF_X86
    return Machine(files, nvml(gpu()), {**PATH, "LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"})


@machine
def docker_host_with_toolkit_and_cdi() -> Machine:
    files = workstation()
    files["/usr/bin/dockerd"] = ELF_X86
    files["/var/lib/dpkg/status"] = dpkg(
        {"docker-ce": "5:27.3.1-1~ubuntu.22.04~jammy", "nvidia-container-toolkit": "1.17.4-1"}
    )
    files["/etc/docker/daemon.json"] = (
        '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}, "features": {"cdi": true}}'
    )
    files["/etc/nvidia-container-runtime/config.toml"] = (
        '[nvidia-container-cli]\nno-cgroups = true\n[nvidia-container-runtime]\nmode = "auto"\n'
    )
    files["/etc/cdi/nvidia.yaml"] = (
        "cdiVersion: 0.5.0\ncontainerEdits:\n  env:\n  - NVIDIA_VISIBLE_DEVICES=void\ndevices:\n- containerEdits:\n"
        '    deviceNodes:\n    - path: /dev/nvidia0\n  name: "0"\n- name: all\nkind: nvidia.com/gpu\n'
    )
    return Machine(files, nvml(gpu()), PATH)


@machine
def snap_docker() -> Machine:
    files = {**workstation(), "/snap/docker/current/bin/dockerd": ELF_X86}
    files["/snap/docker/current/meta/snap.yaml"] = "name: docker\nversion: '27.2.0'\n"
    return Machine(files, nvml(gpu()), PATH)


@machine
def rocky_linux_with_rpm() -> Machine:
    files = workstation()
    del files["/var/lib/dpkg/status"]
    files["/var/lib/rpm/rpmdb.sqlite"] = b"SQLite format 3\0"
    files["/etc/os-release"] = 'ID="rocky"\nVERSION_ID="9.4"\nPRETTY_NAME="Rocky Linux 9.4 (Blue Onyx)"\n'
    files |= {"/usr/bin/gcc": ELF_X86, "/usr/lib/gcc/x86_64-redhat-linux/11/crtbegin.o": ""}
    files["/usr/lib64/libnvidia-container.so.1.16.1"] = ELF_X86
    return Machine(files, nvml(gpu()), PATH)


@machine
def alpine_with_musl() -> Machine:
    files = {**ubuntu(), "/lib/ld-musl-x86_64.so.1": ELF_X86}
    for path in list(files):
        if "/usr/lib/x86_64-linux-gnu" in path or path.startswith("/var/lib/dpkg"):
            del files[path]
    files["/etc/os-release"] = 'ID=alpine\nVERSION_ID=3.20.3\nPRETTY_NAME="Alpine Linux v3.20"\n'
    files["/lib/apk/db/installed"] = "P:musl\nV:1.2.5-r0\n\nP:docker\nV:26.1.5-r0\n\n"
    return Machine(files, env=PATH)


@machine
def amazon_p4d() -> Machine:
    files = {**ubuntu(), **module("535.104.05"), **nodes(2), **driver_libraries("535.104.05"), **python()}
    files |= {"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/class/dmi/id/product_name": "p4d.24xlarge\n"}
    files |= {**pci("0000:10:1c.0", "20B0"), **pci("0000:10:1d.0", "20B0"), "/sys/class/infiniband/efa_0": None}
    a100 = {"name": "NVIDIA A100-SXM4-40GB", "capability": [8, 0], "nvlink": 1, "remap": [1, 0]}
    gpus = [gpu(n, pci=[f"00000000:10:1{c}.0", 0x20B010DE], **a100) for n, c in enumerate("CD")]
    return Machine(files, nvml(*gpus), PATH)


@machine
def driver_held_card_that_nvml_does_not_list() -> Machine:
    return Machine(workstation(), nvml(), PATH)


@machine
def python_that_is_not_there() -> Machine:
    return Machine(workstation(), nvml(gpu()), PATH, python="/opt/none/bin/python")


@machine
def venv_whose_base_is_gone() -> Machine:
    files = {
        **workstation(),
        **venv("/home/user/.venv", "3.8", "3.8.10"),
        "/home/user/.venv/bin/python": Link("/usr/bin/python3.8"),
    }
    return Machine(files, nvml(gpu()), VENV)


@machine
def recorded_without_any_run() -> Machine:
    return Machine(workstation(), env=PATH)
