"""Asks NVML through the child process: every GPU that answers is kept, whatever the others do."""

from __future__ import annotations

import importlib.machinery
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Optional

import msgspec

from envcheck.model.machine import DriverFault, Gpu, MigDevice
from envcheck.probes.pci import same_bus
from envcheck.probes.runner import Run, Runner, Stall

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvml_child.py")
_STATES = ("not supported", "not started", "in progress", "completed")
# These mean that the device is sick; other refusals (NOT_SUPPORTED, NO_PERMISSION …) say nothing of its health.
_SICK = {
    "GPU_IS_LOST": "GPU is lost",
    "UNKNOWN": "Unknown Error",
    "RESET_REQUIRED": "GPU requires reset",
    "TIMEOUT": "Timeout",
    "IRQ_ISSUE": "interrupts don't arrive",
    "GPU_NOT_FOUND": "GPU not found",
}


class Answer(msgspec.Struct, frozen=True):
    """What NVML told. `fault` is NVML's own refusal; `trouble` says why it couldn't be asked (a hang, a crash)."""

    gpus: tuple[Gpu, ...] = ()
    count: Optional[int] = None
    driver: Optional[str] = None
    nvml: Optional[str] = None
    cuda: Optional[int] = None
    fault: Optional[DriverFault] = None
    trouble: str = ""
    control_errno: Optional[int] = None  # of opening /dev/nvidiactl
    fabric: str = ""
    nvlink: Optional[bool] = None


def find_binding() -> Optional[str]:
    """The file of nvidia-ml-py, without importing it; never one that lies in the working directory."""
    here = os.getcwd()
    path = [folder for folder in sys.path if folder and os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("pynvml", path)
    return spec.origin if spec else None


def ask_nvml(runner: Runner, library: str, *, timeout: float) -> Answer:
    """Ask the NVML library at `library`. One device that hangs costs itself alone: the rest is asked again."""
    binding = find_binding()
    if binding is None:
        return Answer(trouble="the NVML binding (nvidia-ml-py) isn't installed beside envcheck")
    ends = time.monotonic() + timeout
    argv = [sys.executable, "-I", "-S", CHILD, binding, library]
    first = runner.run(argv, timeout=timeout, stall=Stall(b'"count"', max(0.5, min(5.0, timeout / 4))))
    steps = read_steps(first.out)
    count = next((step["value"] for step in steps if step["step"] == "count" and "value" in step), None)
    told = {step["index"] for step in steps if step["step"] == "gpu"}
    silent: dict[int, str] = {}
    if count and "end" not in {step["step"] for step in steps}:
        missing = [index for index in range(min(count, 64)) if index not in told]
        runs = _ask_each(runner, argv, missing, timeout=max(0.3, min(ends - time.monotonic(), 10.0)))
        for index, run in runs.items():
            found = [step for step in read_steps(run.out) if step["step"] == "gpu"]
            steps += found
            if not found:
                silent[index] = f"NVML {run.outcome} when asked for GPU {index}"
    return to_answer(steps, first, library, silent)


def _ask_each(runner: Runner, argv: list[str], missing: Iterable[int], *, timeout: float) -> dict[int, Run]:
    runs: dict[int, Run] = {}

    def ask(index: int) -> None:
        runs[index] = runner.run([*argv, str(index)], timeout=timeout)

    threads = [threading.Thread(target=ask, args=(index,), daemon=True) for index in missing]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return runs


def read_steps(out: bytes) -> list[dict[str, Any]]:
    """The child's lines; one that a crash cut short is left out."""
    steps = []
    for line in out.splitlines():
        try:
            step = json.loads(line)
        except ValueError:
            continue
        if isinstance(step, dict) and isinstance(step.get("step"), str):
            steps.append(step)
    return steps


def to_answer(steps: list[dict[str, Any]], run: Run, library: str, silent: Mapping[int, str]) -> Answer:
    """Steps to values; pure, so that recordings give the same."""
    by_name: dict[str, dict[str, Any]] = {step["step"]: step for step in steps}
    fault = None
    for name in ("load", "init", "count"):
        step = by_name.get(name, {})
        if "code" in step:
            code = "LIBRARY_NOT_FOUND" if name == "load" else step["code"]
            fault = DriverFault(code=code, message=step.get("message", ""), source=f"NVML ({library})")
    gpus = {step["index"]: _gpu(step) for step in steps if step["step"] == "gpu"}
    for index, reason in silent.items():
        # Not `lost`: nobody has said so. Everything about it stays unknown, and so does NVML's health.
        gpus[index] = Gpu(name="NVIDIA GPU", index=index, source=reason)
    driver = by_name.get("driver", {})
    read = [step["values"] for step in steps if step["step"] == "gpu"]
    states = [_STATES[v["fabric"][0]] for v in read if "fabric" in v and 0 <= v["fabric"][0] < len(_STATES)]
    links = [bool(values["nvlink"]) for values in read if "nvlink" in values]
    count = by_name.get("count", {}).get("value")
    finished = fault is not None or "end" in by_name or (count is not None and not silent and len(gpus) == count)
    trouble = "" if finished else _trouble(run, by_name)
    return Answer(
        gpus=tuple(gpus[index] for index in sorted(gpus)),
        count=count,
        driver=driver.get("version"),
        nvml=driver.get("nvml"),
        cuda=driver.get("cuda"),
        fault=fault,
        trouble=trouble,
        control_errno=by_name.get("open", {}).get("errno"),
        fabric=next((state for state in _STATES[1:] if state in states), states[0] if states else ""),
        nvlink=any(links) if read else None,
    )


def _trouble(run: Run, by_name: Mapping[str, dict[str, Any]]) -> str:
    if run.not_started:
        return f"NVML {run.outcome}"
    last = next((name for name in ("gpu", "begin", "count", "driver", "init", "load", "open") if name in by_name), "")
    if last in ("gpu", "begin"):
        where = f"at device {by_name['begin']['index']} of {by_name.get('count', {}).get('value', '?')}"
    else:
        where = {"load": "in nvmlInit", "open": "while libnvidia-ml was loaded", "": "at its start"}.get(last, "")
    detail = run.err.decode("utf-8", "replace").strip().splitlines()[-1:] if run.rc not in (0, None) else []
    return " ".join(filter(None, ("NVML", run.outcome, where, f"({detail[0][:200]})" if detail else "")))


def _gpu(step: Mapping[str, Any]) -> Gpu:
    values, errors = step["values"], step["errors"]
    bus, device = values.get("pci") or ("", 0)
    memory = values.get("memory") or (None, None)
    pending, failed = values.get("remap") or (None, None)
    if values.get("retired"):
        pending = 1
    capability = values.get("capability")
    mig = values.get("mig")
    if mig is None and errors.get("mig") == "NOT_SUPPORTED":
        mig = 0
    pci_id = f"{device >> 16:04X}" if device else None
    sick = sorted({code for code in errors.values() if code in _SICK})
    unread = "handle" in errors or "name" in errors
    return Gpu(
        name=values.get("name") or (f"NVIDIA GPU 10de:{pci_id}" if pci_id else "NVIDIA GPU"),
        index=step["index"],
        capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_mib=memory[0] // 2**20 if memory[0] is not None else None,
        memory_used_mib=memory[1] // 2**20 if memory[1] is not None else None,
        pci_id=pci_id,
        pci_bus=same_bus(bus),
        uuid=values.get("uuid", ""),
        mig_enabled=None if mig is None else bool(mig),
        mig_devices=tuple([_mig(one) for one in values.get("migs", ())]),
        persistence=None if values.get("persistence") is None else bool(values["persistence"]),
        ecc_errors=values.get("ecc"),
        remap_pending=None if pending is None else bool(pending),
        remap_failed=None if failed is None else bool(failed),
        kernel_driver="nvidia",
        lost=_lost(sick, errors) if unread or "GPU_IS_LOST" in sick else "",
        source="NVML",
    )


def _lost(sick: list[str], errors: Mapping[str, str]) -> str:
    refused = errors.get("handle", "NO_PERMISSION")
    if not sick:  # without permission, others may well use it
        return "" if refused == "NO_PERMISSION" else f"NVML gives no handle for it: {refused}"
    code = "GPU_IS_LOST" if "GPU_IS_LOST" in sick else sick[0]
    return f"{_SICK[code]} (NVML: {code})"


def _mig(one: Mapping[str, Any]) -> MigDevice:
    profile = one.get("name", "").rpartition("MIG ")[2]
    memory = one.get("memory")
    return MigDevice(profile=profile, memory_mib=None if memory is None else memory // 2**20, uuid=one.get("uuid", ""))
