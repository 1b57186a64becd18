"""The system around the GPU: kernel, distribution, C library, virtual machine, container, memory, environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.stack import Distro
from envcheck.probes.container import find_container
from envcheck.probes.probe import Scene, Told, ask
from envcheck.probes.tree import Tree, Unreadable

# Variables that change what loads, what is seen or how frameworks compute. Nothing else of the environment is kept.
ENV_PREFIXES = (
    *("CUDA_", "CUDNN_", "NVIDIA_", "NCCL_", "TORCH_", "PYTORCH_", "XLA_", "JAX_", "TRITON_", "BNB_", "UCX_"),
    *("HIP_", "ROCR_", "HSA_", "ROCM_", "SLURM_GPUS", "SLURM_JOB_GPUS", "GPU_DEVICE_ORDINAL"),
    # Not all of TF_: Terraform's variables begin so, and hold secrets.
    *("TF_CPP_", "TF_CUDNN", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_USE_", "TF_XLA_"),
)
ENV_NAMES = frozenset(
    (
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CC", "CXX", "CUDAHOSTCXX", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
        "OMP_NUM_THREADS",
    )
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)
_ARCHES = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0xF3: "riscv64", 0x03: "i686"}
_LIB_FOLDERS = (
    *("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
    *("/lib64", "/usr/lib64", "/usr/lib", "/lib"),
)


def inspect(scene: Scene) -> Iterator[Told]:
    """Yield every fact; those of the kernel's own files first."""
    tree = scene.tree
    yield "machine.os", known(sys.platform if tree.live else "linux", "sys.platform" if tree.live else "the tree")
    version = ask("kernel version", lambda: _kernel(tree))
    yield "machine.kernel", version if version.value else unknown("kernel version: /proc says nothing of it")
    yield from _arch(tree)
    yield "machine.wsl", known(_wsl(tree, version.value or ""), "/proc/sys/kernel/osrelease")
    yield "machine.jetson", ask("Jetson", lambda: find_jetson(tree))
    yield "machine.container", ask("container", lambda: find_container(scene))
    yield "machine.hypervisor", ask("hypervisor", lambda: _hypervisor(tree))
    yield "machine.cloud", ask("cloud instance type", lambda: (_cloud(tree), "/sys/class/dmi/id"))
    yield "machine.ram_bytes", _number("RAM", _ram(tree), "/proc/meminfo")
    yield "machine.shm_bytes", _shm(tree)
    yield "machine.memlock_bytes", _memlock(tree)
    yield "machine.disk_free_bytes", _disk(tree)
    yield (
        "machine.rdma",
        ask("RDMA devices", lambda: (bool(tree.names("/sys/class/infiniband")), "/sys/class/infiniband")),
    )
    yield "stack.distro", _distro(tree)
    yield "stack.glibc", _glibc(tree)
    yield "stack.glibcxx", _glibcxx(tree)
    yield "stack.env", known(kept_env(scene.env), "environment")


def kept_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the allow-list, sorted; none whose name smells of a secret."""
    return {
        name: env[name]
        for name in sorted(env)
        if (name in ENV_NAMES or name.startswith(ENV_PREFIXES)) and not _SECRET.search(name)
    }


def _number(what: str, value: Optional[int], source: str) -> Fact[Any]:
    return unknown(f"{what}: {source} says nothing of it", source) if value is None else known(value, source)


def _kernel(tree: Tree) -> tuple[Optional[str], str]:
    if tree.live:
        return os.uname().release, "uname"
    text = tree.read_text("/proc/sys/kernel/osrelease", 4096)
    return text.strip() if text else None, "/proc/sys/kernel/osrelease"


def _arch(tree: Tree) -> Iterator[Told]:
    """Kernel and userland may differ; the userland's is that of its shell's ELF header."""
    userland = None
    for path in ("/bin/sh", "/usr/bin/env", "/sbin/ldconfig"):
        try:
            header = tree.read_bytes(path, 20) or b""
        except Unreadable:
            continue
        if header[:4] == b"\x7fELF":
            userland = _ARCHES.get(int.from_bytes(header[18:20], "little"))
            break
    told = userland or next((f.split("/")[-1].partition("-")[0] for f in _LIB_FOLDERS[:2] if tree.find_names(f)), None)
    source = "ELF header of /bin/sh" if userland else "library folders"
    if tree.live:
        yield "machine.arch", known(os.uname().machine, "uname")
    else:
        yield "machine.arch", known(told, source) if told else unknown("CPU architecture: no ELF file tells it")
    yield "stack.arch", known(told, source) if told else unknown("architecture of the stack: no ELF file tells it")


def _wsl(tree: Tree, kernel: str) -> int:
    """0, 1 or 2. WSL 1 has no kernel of its own: its release ends in -Microsoft and it has no /dev/dxg."""
    if "microsoft" not in kernel.lower():
        return 0
    return 1 if re.search(r"-Microsoft$", kernel) else 2


def find_jetson(tree: Tree) -> tuple[Optional[str], str]:
    """The L4T release or model of a Jetson (None: no Jetson), and the files that tell."""
    release = tree.read_text("/etc/nv_tegra_release", 4096) or ""
    match = re.search(r"R(\d+)\s*\(release\).*?REVISION:\s*([\d.]+)", release)
    model = (tree.find_text("/proc/device-tree/model", 256) or "").strip()
    if match:
        return f"L4T {match.group(1)}.{match.group(2)}" + (f" ({model})" if model else ""), "/etc/nv_tegra_release"
    if re.search(r"jetson|tegra|\bnvidia\b.*(orin|xavier|nano)", model, re.IGNORECASE):
        return model, "/proc/device-tree/model"
    return None, "/etc/nv_tegra_release, /proc/device-tree/model"


def _dmi(tree: Tree, name: str) -> str:
    return (tree.find_text(f"/sys/class/dmi/id/{name}", 256) or "").strip()


def _hypervisor(tree: Tree) -> tuple[Optional[str], str]:
    kind = (tree.find_text("/sys/hypervisor/type", 64) or "").strip()
    if kind:
        return kind, "/sys/hypervisor/type"
    said = f"{_dmi(tree, 'sys_vendor')} {_dmi(tree, 'product_name')}"
    for name, pattern in (
        ("vmware", "vmware"),
        ("hyper-v", "microsoft corporation.*virtual machine"),
        ("virtualbox", "virtualbox|innotek"),
        ("kvm", "qemu|kvm|openstack|google compute|amazon ec2|proxmox|rhev|ovirt"),
        ("xen", "xen"),
    ):
        if re.search(pattern, said, re.IGNORECASE):
            # Amazon's .metal instances are bare
            return (None if ".metal" in said else name), "/sys/class/dmi/id"
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", tree.find_text("/proc/cpuinfo", 16384) or "", re.MULTILINE)
    return ("unknown" if flags else None), "/proc/cpuinfo"


def _cloud(tree: Tree) -> Optional[str]:
    vendor, product = _dmi(tree, "sys_vendor"), _dmi(tree, "product_name")
    if vendor == "Amazon EC2" and re.fullmatch(r"[a-z][\w-]*\.[\w-]+", product):
        return f"aws:{product}"
    return None  # the other clouds don't tell the type on the machine itself, and nothing here asks the network


def _ram(tree: Tree) -> Optional[int]:
    match = re.search(r"^MemTotal:\s*(\d+) kB", tree.find_text("/proc/meminfo", 16384) or "", re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _shm(tree: Tree) -> Fact[Any]:
    if tree.live:
        try:
            status = os.statvfs("/dev/shm")
        except OSError as failure:
            return unknown(f"/dev/shm size: {failure.strerror}", "/dev/shm")
        return known(status.f_frsize * status.f_blocks, "/dev/shm")
    mounts = tree.find_text("/proc/mounts", 1 << 20) or ""
    match = re.search(r"^\S+ /dev/shm tmpfs \S*?\bsize=(\d+)([kmg]?)", mounts, re.MULTILINE)
    if not match:
        return unknown("/dev/shm size: /proc/mounts doesn't tell it", "/proc/mounts")
    return known(int(match.group(1)) * 1024 ** " kmg".index(match.group(2) or " "), "/proc/mounts")


def _memlock(tree: Tree) -> Fact[Any]:
    text = tree.find_text("/proc/self/limits", 16384) or ""
    match = re.search(r"^Max locked memory\s+(\S+)", text, re.MULTILINE)
    if not match:
        return unknown("locked-memory limit: /proc/self/limits doesn't tell it", "/proc/self/limits")
    return known(-1 if match.group(1) == "unlimited" else int(match.group(1)), "/proc/self/limits")


def _disk(tree: Tree) -> Fact[Any]:
    if not tree.live:
        return unknown("free disk: a recorded tree has no disk")
    try:
        status = os.statvfs(os.getcwd())
    except OSError as failure:
        return unknown(f"free disk: {failure.strerror}")
    return known(status.f_frsize * status.f_bavail, "working directory")


def _distro(tree: Tree) -> Fact[Any]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = tree.find_text(path, 65536)
        if text:
            pairs = (line.partition("=") for line in text.splitlines())
            told = {key.strip(): value.strip().strip("'\"") for key, sep, value in pairs if sep}
            return known(Distro(told.get("ID", ""), told.get("VERSION_ID", ""), told.get("PRETTY_NAME", "")), path)
    return unknown("distribution: no readable os-release", "/etc/os-release")


def _glibc(tree: Tree) -> Fact[Any]:
    """From the C library's own banner: its file name tells the version only on old systems."""
    for folder in _LIB_FOLDERS:
        path = f"{folder}/libc.so.6"
        try:
            data = tree.read_bytes(path)
        except Unreadable:
            continue
        if data is None:
            continue
        match = re.search(rb"GNU C Library [^\n\0]*?version (\d+\.\d+)", data)
        named = re.search(r"libc-(\d+\.\d+)\.so$", tree.resolve(path))
        if match or named:
            return known(match.group(1).decode() if match else named.group(1) if named else "", path)
        return unknown(f"glibc version: {path} doesn't tell it", path)
    if any(name.startswith("ld-musl-") for name in tree.find_names("/lib")):
        return unknown("glibc version: this system has musl, no glibc", "/lib/ld-musl-*")
    return unknown("glibc version: no libc.so.6 in the usual folders")


def _glibcxx(tree: Tree) -> Fact[Any]:
    """The newest symbol version of the system's libstdc++; LD_LIBRARY_PATH and conda are the loader probe's."""
    for folder in _LIB_FOLDERS:
        path = f"{folder}/libstdc++.so.6"
        try:
            data = tree.read_bytes(path)
        except Unreadable:
            continue
        if data:
            numbers = [
                tuple(int(n) for n in v.split(b".")) for v in re.findall(rb"GLIBCXX_(\d+\.\d+(?:\.\d+)?)\0", data)
            ]
            if numbers:
                return known(".".join(str(n) for n in max(numbers)), path)
    return unknown("newest GLIBCXX of libstdc++: no libstdc++.so.6 in the usual folders")
