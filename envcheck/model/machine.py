"""The machine: what an image can't change (driver, GPUs, kernel, container engine, memory, fabric).

In every value below `None` means that this detail is not known; `False`, `0` and `""` are measurements.
Versions are strings as printed by their source; `envcheck.versions` parses them at the edge.
"""

from __future__ import annotations

from typing import Optional

import msgspec

from envcheck.model.fact import Fact, not_told


class Driver(msgspec.Struct, frozen=True, omit_defaults=True):
    """The NVIDIA kernel driver. `version` may be a branch alone ('525')."""

    version: Optional[str] = None
    flavour: Optional[str] = None  # 'open' or 'proprietary' kernel modules
    cuda: Optional[str] = None  # newest CUDA that the driver reports, X.Y
    source: str = ""


class DriverFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What NVML (or nvidia-smi) answered instead of working."""

    code: str  # the NVML name without its prefix: DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, UNKNOWN …
    message: str = ""
    source: str = ""


class MigDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One MIG instance of a GPU; `profile` is like '1g.10gb'."""

    profile: str = ""
    memory_mib: Optional[int] = None
    uuid: str = ""


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU. `capability` is the CUDA compute capability 'major.minor'; memory is MiB."""

    name: str
    index: Optional[int] = None
    vendor: str = "nvidia"  # nvidia, amd or intel
    capability: Optional[str] = None
    memory_mib: Optional[int] = None
    pci_id: Optional[str] = None  # PCI device id, four upper-case hex digits ('2684')
    pci_bus: str = ""
    uuid: str = ""
    mig_enabled: Optional[bool] = None
    mig_devices: tuple[MigDevice, ...] = ()
    persistence: Optional[bool] = None
    ecc_errors: Optional[int] = None  # uncorrected, volatile
    remap_pending: Optional[bool] = None  # row remap or page retirement waits for a reset
    remap_failed: Optional[bool] = None
    memory_used_mib: Optional[int] = None
    kernel_driver: Optional[str] = None  # bound driver: nvidia, nouveau, vfio-pci, amdgpu …
    architectures: tuple[str, ...] = ()  # AMD: gfx names
    lost: str = ""  # why this GPU does not answer ('GPU is lost'); empty: it answers
    source: str = ""


class DeviceNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device file; `usable` is whether this user may read and write it (None: not tried)."""

    path: str
    usable: Optional[bool] = None
    mode: str = ""


class FabricManager(msgspec.Struct, frozen=True, omit_defaults=True):
    """NVIDIA Fabric Manager as installed and as running on this machine."""

    version: Optional[str] = None
    running: Optional[bool] = None
    state: str = ""  # the GPU fabric state that NVML reports: completed, in progress, not started, not supported


class Engine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The container engine of the machine."""

    kind: str  # docker, podman, containerd, cri-o, apptainer
    version: Optional[str] = None
    snap: Optional[bool] = None
    rootless: Optional[bool] = None
    runtimes: Optional[tuple[str, ...]] = None
    default_runtime: Optional[str] = None
    cgroup_driver: Optional[str] = None
    cgroup_version: Optional[int] = None
    cdi: Optional[bool] = None  # the engine's CDI feature is on
    source: str = ""


class ContainerToolkit(msgspec.Struct, frozen=True, omit_defaults=True):
    """NVIDIA Container Toolkit: version, mode (auto, legacy, cdi, csv), no-cgroups, CDI device names."""

    version: Optional[str] = None
    mode: Optional[str] = None
    no_cgroups: Optional[bool] = None
    cdi_devices: Optional[tuple[str, ...]] = None
    config_path: str = ""
    source: str = ""


class Container(msgspec.Struct, frozen=True, omit_defaults=True):
    """The container that we stand in."""

    engine: str  # docker, podman, kubernetes, apptainer, lxc, gvisor, unknown
    gpu_devices: Optional[bool] = None  # NVIDIA devices or libraries were passed in
    docker_socket: Optional[bool] = None
    source: str = ""


class XidEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An Xid line of the kernel log."""

    code: int
    message: str = ""
    source: str = ""


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything known of one machine; every field starts as 'not told'."""

    os: Fact[str] = not_told("operating system")  # linux, windows, darwin
    kernel: Fact[str] = not_told("kernel version")
    arch: Fact[str] = not_told("CPU architecture")  # x86_64, aarch64 …
    wsl: Fact[int] = not_told("WSL version")  # 0: not WSL
    jetson: Fact[Optional[str]] = not_told("Jetson")  # model or L4T release; None: not a Jetson
    hypervisor: Fact[Optional[str]] = not_told("hypervisor")
    container: Fact[Optional[Container]] = not_told("container")
    secure_boot: Fact[bool] = not_told("Secure Boot")
    modules: Fact[tuple[str, ...]] = not_told("loaded kernel modules")  # of the GPU kind only
    driver: Fact[Optional[Driver]] = not_told("NVIDIA driver")
    driver_packages: Fact[tuple[str, ...]] = not_told("installed driver packages")  # 'name version'
    nvml_version: Fact[Optional[str]] = not_told("version of libnvidia-ml")
    libcuda_version: Fact[Optional[str]] = not_told("version of the driver's libcuda")
    driver_fault: Fact[Optional[DriverFault]] = not_told("NVML's answer")
    gpus: Fact[tuple[Gpu, ...]] = not_told("GPUs")  # of every vendor; () means looked, none
    device_nodes: Fact[tuple[DeviceNode, ...]] = not_told("NVIDIA device nodes")
    fabric_manager: Fact[Optional[FabricManager]] = not_told("Fabric Manager")
    nvswitch: Fact[bool] = not_told("NVSwitch")
    xids: Fact[tuple[XidEvent, ...]] = not_told("kernel log")
    engine: Fact[Optional[Engine]] = not_told("container engine")
    toolkit: Fact[Optional[ContainerToolkit]] = not_told("NVIDIA Container Toolkit")
    runc: Fact[Optional[str]] = not_told("runc version")
    ram_bytes: Fact[int] = not_told("RAM")
    shm_bytes: Fact[int] = not_told("/dev/shm size")
    memlock_bytes: Fact[int] = not_told("locked-memory limit")  # -1: unlimited
    disk_free_bytes: Fact[int] = not_told("free disk")
    rdma: Fact[bool] = not_told("RDMA devices")
    interconnect: Fact[Optional[str]] = not_told("GPU interconnect")  # nvlink, nvswitch, pcie
    cloud: Fact[Optional[str]] = not_told("cloud instance type")  # 'aws:p4d.24xlarge'
