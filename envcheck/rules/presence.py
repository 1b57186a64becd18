"""Which GPUs a process of this snapshot can use, and whether it is meant to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Optional

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Severity

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.machine import Gpu
    from envcheck.model.snapshot import Snapshot

PASSED_ON = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})  # held for a virtual machine, on purpose
VISIBLE = "CUDA_VISIBLE_DEVICES"
_HIDES_ALL = re.compile(r"|-\d+|NoDevFiles|none|void", re.IGNORECASE)


def nvidia_gpus(snap: Snapshot) -> list[Gpu]:
    """The NVIDIA GPUs of the machine that are not passed on to a guest; raises UnknownFact."""
    return [gpu for gpu in snap.machine.gpus.get() if gpu.vendor == "nvidia" and gpu.kernel_driver not in PASSED_ON]


def visible_gpus(snap: Snapshot) -> list[Gpu]:
    """The GPUs that answer and that CUDA_VISIBLE_DEVICES leaves; all where it isn't told. Raises UnknownFact."""
    gpus = [gpu for gpu in nvidia_gpus(snap) if not gpu.lost]
    value = (snap.stack.env.find() or {}).get(VISIBLE)
    if value is None:
        return gpus
    chosen = [entry.strip() for entry in value.split(",")]
    if not all(entry.isdigit() for entry in chosen):
        return [] if hides_all(value) else gpus
    numbers = {int(entry) for entry in chosen}
    return [gpu for position, gpu in enumerate(gpus) if (position if gpu.index is None else gpu.index) in numbers]


def hides_all(value: str) -> bool:
    """Does this CUDA_VISIBLE_DEVICES hide every GPU? CUDA stops at the first entry that it can't use."""
    return _HIDES_ALL.fullmatch(value.partition(",")[0].strip()) is not None


def has_working_gpu(snap: Snapshot) -> bool:
    """Is there an NVIDIA GPU that answers, with a driver? Raises UnknownFact."""
    if not any(not gpu.lost for gpu in nvidia_gpus(snap)):
        return False
    return snap.machine.driver.get() is not None


def gpu_is_meant(snap: Snapshot) -> bool:
    """Does something ask for a GPU, or is a usable one there? Raises UnknownFact."""
    return bool(snap.wants.gpu) or has_working_gpu(snap)


def capability_of(gpu: Gpu, matrix: Matrix) -> str:
    """The compute capability of a GPU; raises UnknownFact where neither it nor its model is known."""
    found = matrix.capability_of(gpu)
    if found is None:
        raise UnknownFact(f"compute capability of {gpu.name}: neither told nor in the matrix")
    return found


def only_a_log_tells(snap: Snapshot) -> None:
    """For causes that show only in an error text: raise UnknownFact where there is no text."""
    if not snap.events:
        raise UnknownFact("error text of the failure: no log was given")


def in_image(snap: Snapshot) -> bool:
    """Does the stack come from a container image, as far as told?"""
    return bool(snap.stack.image.find() or snap.machine.container.find() or snap.origin.kind in ("image", "container"))


def short(name: str) -> str:
    """'NVIDIA GeForce RTX 5090' -> 'RTX 5090'."""
    return re.sub(r"^(NVIDIA )?(GeForce |Tesla )?", "", name)


def names(gpus: list[Gpu]) -> str:
    """'2 × NVIDIA GeForce RTX 5090', several models joined by commas."""
    counted: dict[str, int] = {}
    for gpu in gpus:
        counted[gpu.name] = counted.get(gpu.name, 0) + 1
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counted.items())


def driver_os(snap: Snapshot) -> str:
    """Whose driver numbers count: Windows' on Windows and in WSL, else Linux'."""
    return "windows" if snap.machine.os.find() == "windows" or snap.machine.wsl.find() else "linux"


def said(value: Optional[object]) -> str:
    """A value for a person: 'none' where there is none."""
    return "none" if value in (None, "") else str(value)


def level_of_wish(snap: Snapshot) -> Optional[Severity]:
    """An error where a GPU is asked for; else a warning: it runs, on the CPU."""
    return "error" if snap.wants.gpu else "warning"
