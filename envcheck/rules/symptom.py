"""What a log says by itself: problems from error texts that name a cause, or that only suggest some."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.finding import Evidence, Problem, Severity
from envcheck.rules.settle import in_wsl, settle

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Symptom
    from envcheck.model.snapshot import Event, Snapshot

# An event that only suggests, and with this rank or a higher one, is silent beside any other fault.
WEAK_RANK = 24
# From this rank on it is a note: a program goes on without a GPU, or only hints at a cause.
NOTE_RANK = 32
# A cause that is a mere consequence of another one of the same log.
CONSEQUENCE_OF = {
    "driver-not-loaded": frozenset({
        "secure-boot-module-rejected", "nouveau-loaded", "open-kernel-module-required", "gpu-dropped-by-driver",
        "nvml-driver-library-mismatch", "gpu-fell-off-bus", "wsl-no-gpu", "no-nvidia-gpu", "container-lost-gpu-cgroup",
        "gpu-not-passed-to-container", "cuda-build-on-amd",
    }),
    "driver-too-old-for-cuda": frozenset({"cuda-build-on-amd"}),
    "cuda-driver-library-mismatch": frozenset({"nvml-driver-library-mismatch", "cuda-compat-shadows-driver"}),
    "nvml-driver-library-mismatch": frozenset({"cuda-compat-shadows-driver"}),
    "uvm-broken-after-suspend": frozenset({
        "gpu-fell-off-bus", "fabric-manager-not-running", "driver-too-old-for-cuda", "nvml-driver-library-mismatch",
        "cuda-visible-devices-wrong", "driver-not-loaded", "gpu-dropped-by-driver", "cuda-driver-library-mismatch",
        "cuda-compat-shadows-driver", "container-lost-gpu-cgroup", "gpu-ecc-row-remap-pending", "mig-misconfigured",
    }),
    "extension-abi-mismatch": frozenset({"cpu-only-build", "torch-torchvision-mismatch", "cuda-lib-shadowed"}),
    "bitsandbytes-cuda-binary-missing": frozenset({"cpu-only-build"}),
    "cuda-lib-shadowed": frozenset({"conda-pip-cuda-mix", "nccl-version-conflict", "cudnn-too-old"}),
    "jax-cpu-jaxlib": frozenset({
        "cudnn-too-old", "jax-plugin-version-mismatch", "driver-not-loaded", "driver-too-old-for-cuda",
        "cuda-lib-shadowed", "cuda-visible-devices-wrong", "no-nvidia-gpu", "uvm-broken-after-suspend",
        "fabric-manager-not-running", "nvml-driver-library-mismatch", "cuda-driver-library-mismatch",
    }),
    "tf-cuda-libs-missing": frozenset({"tf-cuda-version-mismatch", "tf-gpu-package-removed", "no-nvidia-gpu"}),
    "cuda-toolkit-missing": frozenset({"nvcc-torch-cuda-mismatch", "gcc-too-new-for-nvcc"}),
    "container-toolkit-missing": frozenset({"container-runtime-snap-docker", "container-runtime-misconfigured"}),
    "gpu-ecc-row-remap-pending": frozenset({"gpu-fell-off-bus"}),
    "no-nvidia-gpu": frozenset({"gpu-fell-off-bus", "open-kernel-module-required"}),
}  # fmt: skip
# Names both sides of its fault, and so is none's consequence.
SPEAKS_FOR_ITSELF = frozenset({"tf-kernel-dso-mismatch"})
NONE: frozenset[str] = frozenset()
_INTEGER = re.compile(r"\d{4,5}")


def told(snap: Snapshot, matrix: Matrix, cause: str, found: frozenset[str] = frozenset()) -> Iterable[Problem]:
    """The problem that the log shows of `cause`, or none. `found` are the causes that facts proved already."""
    rows = _rows(matrix)
    if snap.machine.wsl.find():
        rows = {event.symptom: in_wsl(rows[event.symptom]) for event in snap.events if event.symptom in rows}
    if not any(
        cause == row.proves or cause in row.suggests
        for event in snap.events
        if (row := rows.get(event.symptom)) is not None
    ):
        return
    events = [(rows[event.symptom], event) for event in snap.events if event.symptom in rows]
    events.sort(key=lambda pair: pair[0].rank)
    mine = [(row, event) for row, event in events if row.proves == cause]
    sure = True
    proven = {row.proves for row, _ in events if row.proves and not row.harmless} | found
    if not mine:
        mine = _suggested(snap, matrix, cause, events, frozenset(proven))
        sure = False
    elif (
        not mine[0][0].harmless and mine[0][0].id not in SPEAKS_FOR_ITSELF and CONSEQUENCE_OF.get(cause, NONE) & proven
    ):
        return
    if not mine or _contradicted(snap, matrix, cause):
        return
    row, event = mine[0]
    weak: Optional[Severity] = None
    if not sure and row.rank >= WEAK_RANK:
        weak = "note" if row.rank >= NOTE_RANK else "warning"
    message = _fill(row.message, event) or event.text
    yield Problem(
        message if sure else f"{message} ({matrix.meaning(cause)})",
        fix=tuple(_fill(line, event) for line in row.fix),
        subject=cause,
        evidence=tuple(Evidence("log", other.text, other.source, "found") for _, other in mine[:3]),
        severity=weak,
        cause=cause,
        ask=_untold(row.settle, snap),
    )


def _rows(matrix: Matrix) -> dict[str, Symptom]:
    cached: Optional[dict[str, Symptom]] = matrix.__dict__.get("_symptoms_by_id")
    if cached is None:
        cached = {row.id: row for row in matrix.symptoms}
        matrix.__dict__["_symptoms_by_id"] = cached
    return cached


def _suggested(
    snap: Snapshot, matrix: Matrix, cause: str, events: list[tuple[Symptom, Event]], proven: frozenset[str]
) -> list[tuple[Symptom, Event]]:
    """The events that suggest `cause` and for which the facts settle on it."""
    spoken: set[str] = set()
    lines: set[str] = {event.source for row, event in events if row.proves and not row.harmless}
    gpus = snap.machine.gpus
    no_gpu = gpus.known and not any(gpu.vendor == "nvidia" for gpu in gpus.value or ())
    chosen = []
    for row, event in events:
        if not row.suggests or event.source in lines:
            continue
        explained = proven & set(row.suggests) or spoken & set(row.suggests)
        weak = row.rank >= WEAK_RANK and (proven or spoken)
        if explained or weak:
            continue
        decided = settle(row, event, snap, matrix)
        if no_gpu and decided not in ("no-nvidia-gpu", "rocm-build-on-nvidia"):
            continue
        lines.add(event.source)
        if decided is None or CONSEQUENCE_OF.get(decided, frozenset()) & proven:
            continue
        spoken.update(row.suggests)
        if decided == cause:
            chosen.append((row, event))
    return chosen


def _untold(asked: tuple[str, ...], snap: Snapshot) -> tuple[str, ...]:
    """Of the facts that would settle it the first two that the paste doesn't have."""
    machine, stack = snap.machine, snap.stack
    env = stack.env.find() or {}
    packages = stack.packages.find() or ()
    told = {
        "nvidia-smi -L": machine.gpus.known,
        "nvidia-smi": machine.driver.known,
        "/proc/driver/nvidia/version": machine.driver.known,
        "import torch": any(package.version and (package.variant or package.cuda) for package in packages),
        "pip list": len(packages) > 3,
        "LD_LIBRARY_PATH": "LD_LIBRARY_PATH" in env,
        "CUDA_VISIBLE_DEVICES": "CUDA_VISIBLE_DEVICES" in env,
        "nvcc --version": bool(stack.toolkits.find()),
        "python --version": stack.python.known,
        "ldd --version": stack.glibc.known,
    }
    left = []
    for line in asked:
        mark = next((mark for mark in told if mark in line), None)
        if mark is None or not told[mark]:
            left.append(line)
    return tuple(left[:2])


def _contradicted(snap: Snapshot, matrix: Matrix, cause: str) -> bool:
    """Do the facts say that this can't be?"""
    packages = snap.stack.packages.find() or ()
    if cause == "jax-cpu-jaxlib":
        kinds = [matrix.package_kind(package.name) for package in packages]
        plugin = any(kind is not None and kind.role == "plugin" for kind in kinds)
        return plugin or any("cuda" in (package.version or "") for package in packages)
    if cause in ("uvm-broken-after-suspend", "nouveau-loaded", "fabric-manager-not-running"):
        return bool(snap.machine.wsl.find()) and cause == "nouveau-loaded"
    return False


def _fill(text: str, event: Event) -> str:
    """The text with the event's values, packed numbers decoded; a field that the event lacks reads 'it'."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        raw = event.values.get(name, "")
        if name == "driver_cuda" and _INTEGER.fullmatch(raw):
            return f"{versions.cuda_from_integer(int(raw))} ('found version {raw}')"
        if name in ("built", "found", "least") and _INTEGER.fullmatch(raw):
            return versions.cudnn_from_integer(int(raw))
        return raw or {"driver_cuda": "an older release"}.get(name, "it")

    return re.sub(r"\{(\w+)\}", value, text)
