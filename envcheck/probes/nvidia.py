"""GPUs and driver: NVML's word first, nvidia-smi's where NVML fails, the PCI bus's where both do."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.machine import Driver, FabricManager, Gpu
from envcheck.probes.container import find_container_engine
from envcheck.probes.kernel_driver import (
    find_driver,
    inspect_modules,
    inspect_nodes,
    inspect_secure_boot,
    inspect_xids,
)
from envcheck.probes.ld_cache import read_cache
from envcheck.probes.pci import Bus, inspect_bus
from envcheck.probes.probe import Scene, Told
from envcheck.probes.system import find_jetson
from envcheck.probes.tree import Tree, Unreadable
from envcheck.probes.trust import trusted
from envcheck.versions import cuda_from_integer

if TYPE_CHECKING:
    from envcheck.probes.nvml import Answer

LIBRARY = "libnvidia-ml.so.1"
FOLDERS = (
    *("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64"),
    *("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/aarch64-linux-gnu/nvidia"),
)
NO_BUS = "there is no /sys/bus"
_MODULE = re.compile(r"nvidia(_uvm|_modeset|_drm)?|nvgpu")
_PACKAGES = re.compile(
    r"(lib)?nvidia-(driver|compute|utils|dkms|kernel|open|fabricmanager|ml\d|cfg|headless|imex)|libcuda\d|nvidia-smi"
)


def inspect(scene: Scene) -> Iterator[Told]:
    """Yield what the kernel shows first: it can't hang. NVML comes last."""
    tree = scene.tree
    modules = inspect_modules(tree)
    nodes = inspect_nodes(tree)
    yield "machine.modules", modules
    yield "machine.device_nodes", nodes
    yield "machine.secure_boot", inspect_secure_boot(tree)
    yield "machine.driver_packages", _driver_packages(scene)
    kernel = find_driver(tree)
    loaded = kernel is not None or "nvidia" in (modules.value or ())
    bus, no_bus = _bus(tree)
    in_container = bool(find_container_engine(tree, scene.env)[0])
    yield "machine.xids", inspect_xids(tree, loaded)
    library = find_library(scene)
    yield "machine.nvml_version", known(_file_version(tree, library), library or "library folders")
    answer, source = _ask(scene, library, loaded or bool(nodes.value))
    yield "machine.driver", _driver(kernel, answer, modules, tree)
    yield "machine.driver_fault", _fault(answer, source)
    if answer and answer.control_errno in (errno.EPERM, errno.EACCES):
        yield "machine.device_nodes", _refused(nodes)
    gpus = _gpus(scene, answer, bus, no_bus, source, hidden=in_container, nodes=bool(nodes.value))
    yield "machine.gpus", gpus
    switched = bool((bus and bus.nvswitch) or (answer and answer.fabric in ("not started", "in progress", "completed")))
    if switched or (bus and not in_container):
        yield "machine.nvswitch", known(switched, "NVML: fabric state" if not (bus and bus.nvswitch) else "PCI bus")
    else:
        yield "machine.nvswitch", unknown("NVSwitch: the machine's PCI bus isn't wholly visible here")
    yield "machine.fabric_manager", _fabric_manager(scene, answer, switched, in_container)
    yield "machine.interconnect", _interconnect(answer, gpus, switched)


def find_library(scene: Scene) -> Optional[str]:
    """The libnvidia-ml.so.1 that a process of this environment would load; None: there is none that we may load."""
    tree = scene.tree
    told = [folder for folder in scene.env.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    for folder in told:
        if trusted(tree, f"{folder}/{LIBRARY}"):
            return f"{folder.rstrip('/')}/{LIBRARY}"
    try:
        cached = [entry.path for entry in read_cache(tree, LIBRARY)]
    except Unreadable:
        cached = []
    usual = (f"{folder}/{LIBRARY}" for folder in FOLDERS)
    return next((path for path in (*cached, *usual) if trusted(tree, path)), None)


def _file_version(tree: Tree, library: Optional[str]) -> Optional[str]:
    match = re.search(r"\.so\.(\d+(?:\.\d+)+)$", tree.resolve(library)) if library else None
    return match.group(1) if match else None


def _ask(scene: Scene, library: Optional[str], driver_here: bool) -> tuple[Optional[Answer], str]:
    """What NVML or nvidia-smi says, and who said it; None where neither is there."""
    answer: Optional[Answer] = None
    if library and scene.left > 0:
        from envcheck.probes.nvml import ask_nvml

        answer = ask_nvml(scene.runner, library, timeout=scene.left - min(0.9, scene.left * 0.3))
        if not answer.trouble or answer.gpus:
            return answer, f"NVML ({library})"
    if not (library or driver_here):
        return None, "no libnvidia-ml.so.1 and no NVIDIA module or device node"
    from envcheck.probes.nvidia_smi import ask_smi, find_smi

    program = find_smi(scene.tree, scene.env.get("PATH", ""))
    if program and scene.left > 0.2:
        second = ask_smi(scene.runner, program, timeout=scene.left - min(0.7, scene.left * 0.3))
        if not second.trouble:
            return second, program
    return answer, library or "no libnvidia-ml.so.1"


def _bus(tree: Tree) -> tuple[Optional[Bus], str]:
    try:
        bus = inspect_bus(tree)
    except Unreadable as failure:
        return None, str(failure)
    return bus, "" if bus else NO_BUS


def _driver(kernel: Optional[Driver], answer: Optional[Answer], modules: Fact[Any], tree: Tree) -> Fact[Any]:
    cuda = cuda_from_integer(answer.cuda) if answer and answer.cuda else None
    if kernel:
        if find_jetson(tree)[0] and kernel.version and int(kernel.version.partition(".")[0]) < 300:
            kernel = msgspec.structs.replace(kernel, version=None)  # that is the L4T release, no driver's number
        return known(msgspec.structs.replace(kernel, cuda=cuda), kernel.source)
    if answer and answer.driver:
        return known(Driver(answer.driver, cuda=cuda, source="NVML"), "NVML")
    if tree.there("/dev/dxg"):  # WSL: the driver is in Windows, and only NVML tells its version
        return unknown("NVIDIA driver: it is in Windows, and NVML doesn't tell its version")
    if modules.known and not any(_MODULE.fullmatch(name) for name in modules.value or ()):
        return known(None, "/proc/modules, /proc/driver/nvidia")
    if answer and answer.fault and answer.fault.code == "DRIVER_NOT_LOADED":
        return known(None, answer.fault.source)
    return unknown(f"NVIDIA driver: {(answer and answer.trouble) or 'the kernel shows no version of it here'}")


def _fault(answer: Optional[Answer], source: str) -> Fact[Any]:
    if answer is None or not answer.trouble or answer.fault:
        fault = answer.fault if answer else None
        return known(fault, fault.source if fault else source)
    return unknown(f"NVML's answer: {answer.trouble}", source)


def _refused(nodes: Fact[Any]) -> Fact[Any]:
    return known(
        tuple(
            msgspec.structs.replace(node, usable=False) if node.path == "/dev/nvidiactl" else node
            for node in nodes.value or ()
        ),
        "/dev, open()",
    )


def _gpus(
    scene: Scene, answer: Optional[Answer], bus: Optional[Bus], no_bus: str, source: str, *, hidden: bool, nodes: bool
) -> Fact[Any]:
    """Join NVML's list with the bus's. In a container the bus shows GPUs of the host that aren't ours: `hidden`."""
    from_nvml = answer.gpus if answer else ()
    jetson = find_jetson(scene.tree)[0]
    if not from_nvml and jetson:
        board = (scene.tree.find_text("/proc/device-tree/model", 256) or "").strip()
        # 'NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super': the module's name is what counts.
        name = re.split(r"\s+(?:Engineering|Developer|Module|Super)\b", board)[0] or "NVIDIA Jetson"
        return known(
            (Gpu(name=name, kernel_driver="nvgpu", source="/proc/device-tree/model"),), "/proc/device-tree/model"
        )
    if not from_nvml and scene.tree.there("/dev/dxg"):
        return unknown("GPUs: they are behind WSL's /dev/dxg, and NVML gives none", source)
    on_bus = bus.gpus if bus else ()
    if from_nvml:
        return known(_join(from_nvml, on_bus, hidden=hidden), source)
    if answer and answer.trouble and not on_bus:
        return unknown(f"GPUs: {answer.trouble}", source)
    if bus is None:
        if nodes or (answer and answer.fault) or no_bus != NO_BUS:
            return unknown(f"GPUs: {no_bus}, and NVML gives none", source)
        return known((), NO_BUS) if scene.tree.there("/proc/self") else unknown(f"GPUs: {NO_BUS}")
    if answer and answer.trouble:
        return known(tuple(_silent(gpu, answer.trouble) for gpu in on_bus), "PCI bus")
    if answer and answer.count == 0 and not hidden:
        return known(tuple(_unlisted(gpu) for gpu in on_bus), "PCI bus")
    return known(on_bus, "PCI bus")


def _join(from_nvml: tuple[Gpu, ...], on_bus: tuple[Gpu, ...], *, hidden: bool) -> tuple[Gpu, ...]:
    by_bus = {gpu.pci_bus: gpu for gpu in on_bus}
    seen = {gpu.pci_bus for gpu in from_nvml}
    rest = [gpu for gpu in on_bus if gpu.pci_bus not in seen]
    nameless = [gpu for gpu in from_nvml if not gpu.pci_bus]
    ours = [gpu for gpu in rest if gpu.vendor == "nvidia" and gpu.kernel_driver == "nvidia"]
    if len(nameless) == len(ours) and not hidden:  # the lost ones are those that only the bus shows
        spare = iter(ours)
        named = tuple(gpu if gpu.pci_bus else _placed(gpu, next(spare)) for gpu in from_nvml)
        rest = [gpu for gpu in rest if gpu not in ours]
    else:
        named = from_nvml
        rest = [gpu for gpu in rest if gpu.vendor != "nvidia"] if hidden else [_unlisted(gpu) for gpu in rest]
    joined = (
        msgspec.structs.replace(gpu, kernel_driver=by_bus[gpu.pci_bus].kernel_driver) if gpu.pci_bus in by_bus else gpu
        for gpu in named
    )
    return (*joined, *rest)


def _placed(gpu: Gpu, place: Gpu) -> Gpu:
    return msgspec.structs.replace(gpu, name=place.name, pci_id=place.pci_id, pci_bus=place.pci_bus)


def _unlisted(gpu: Gpu) -> Gpu:
    """A GPU that the driver holds and NVML doesn't list: its initialisation failed."""
    if gpu.vendor != "nvidia" or gpu.kernel_driver != "nvidia":
        return gpu
    return msgspec.structs.replace(gpu, lost="the nvidia module holds it, and NVML doesn't list it")


def _silent(gpu: Gpu, trouble: str) -> Gpu:
    return gpu if gpu.vendor != "nvidia" else msgspec.structs.replace(gpu, source=f"{gpu.source} ({trouble})")


def _driver_packages(scene: Scene) -> Fact[Any]:
    try:
        packages, source = scene.database.packages()
    except Unreadable as failure:
        return unknown(f"installed driver packages: {failure}")
    pattern = re.compile(
        r"(lib)?nvidia-(driver|compute|utils|dkms|kernel|open|fabricmanager|ml\d|cfg|headless|imex)|libcuda\d|nvidia-smi"
    )
    return known(tuple(f"{n} {packages[n]}" for n in sorted(packages) if pattern.match(n)), source)


def _fabric_manager(scene: Scene, answer: Optional[Answer], switched: bool, in_container: bool) -> Fact[Any]:
    tree = scene.tree
    state = answer.fabric if answer else ""
    installed = tree.there("/usr/bin/nv-fabricmanager")
    try:
        packages = scene.database.packages()[0]
    except Unreadable:
        packages = {}
    version = next(
        (packages[n].partition("-")[0] for n in sorted(packages) if n.startswith("nvidia-fabricmanager")), None
    )
    if not (installed or version or switched or state in ("in progress", "not started")):
        return known(None, "/usr/bin/nv-fabricmanager, package database")
    running = None
    if not in_container:
        running = any(
            (tree.find_text(f"/proc/{pid}/comm", 64) or "").startswith("nv-fabricmanage")
            for pid in tree.find_names("/proc")
            if pid.isdigit()
        )
    return known(FabricManager(version, running, state), "/proc, package database" + (", NVML" if state else ""))


def _interconnect(answer: Optional[Answer], gpus: Fact[Any], switched: bool) -> Fact[Any]:
    if switched:
        return known("nvswitch", "PCI bus, NVML")
    if answer and answer.nvlink is not None and answer.gpus:
        linked = "nvlink" if answer.nvlink else "pcie"
        return known(linked if len(answer.gpus) > 1 else None, "NVML")
    if gpus.known and len(gpus.value or ()) < 2:
        return known(None, gpus.source)
    return unknown("GPU interconnect: only NVML tells it")
