"""Asks NVML for everything, in a process of its own: a lost GPU may hang it, a broken library may kill it.

Run as `python -I -S nvml_child.py PYNVML_FILE LIBRARY [INDEX]…`. One JSON line a step, so that what was learnt before a
hang or a crash is kept:
{"step": "open", …} {"step": "load"} {"step": "init"} {"step": "driver", …} {"step": "count", "value": 8}
{"step": "begin", "index": 0} {"step": "gpu", "index": 0, "values": {…}, "errors": {call: code}} … {"step": "end"}
A step that failed carries "code" (NVML's name without NVML_ERROR_) and "message". It imports nothing of envcheck.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import resource
import signal
import sys

TYPE_CHECKING = False  # typing itself costs milliseconds to import
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable

PR_SET_PDEATHSIG = 1
MAX_LINKS = 18  # NVLinks of a GPU


def main(argv: list[str]) -> None:
    """Stream the steps to standard output; whatever the library prints there goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash of the library must leave no file

    def tell(step: str, **values: Any) -> None:
        os.write(out, json.dumps({"step": step, **values}).encode() + b"\n")

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphan, even where the parent is killed
    tell("open", errno=_open_control_device())
    pynvml = _load_pynvml(argv[0])
    names = _code_names(pynvml)
    try:
        # By its full path first: glibc then gives this one to everybody who asks for its soname.
        ctypes.CDLL(argv[1], mode=ctypes.RTLD_GLOBAL)
    except OSError as failure:
        tell("load", code="LIBRARY_NOT_LOADABLE", message=str(failure)[:500])
        return
    tell("load")

    def ask(step: str, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except pynvml.NVMLError as failure:
            tell(step, code=_code(names, failure.value), message=str(failure)[:500])
            return None

    if ask("init", _init, pynvml) is None:
        return
    tell("init")
    driver: dict[str, Any] = {}
    errors: dict[str, str] = {}
    keep = _keeper(pynvml, names, driver, errors)
    keep("version", lambda: _text(pynvml.nvmlSystemGetDriverVersion()))
    keep("nvml", lambda: _text(pynvml.nvmlSystemGetNVMLVersion()))
    keep("cuda", pynvml.nvmlSystemGetCudaDriverVersion_v2)
    tell("driver", errors=errors, **driver)
    count = ask("count", pynvml.nvmlDeviceGetCount)
    if count is None:
        return
    tell("count", value=count)
    for index in [int(text) for text in argv[2:]] or range(count):
        tell("begin", index=index)
        values, errors = _read_gpu(pynvml, names, index)
        tell("gpu", index=index, values=values, errors=errors)
    tell("end")


def _open_control_device() -> int | None:
    """The errno of opening /dev/nvidiactl: a cgroup refuses where the file mode allows. 0: it opens."""
    try:
        os.close(os.open("/dev/nvidiactl", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        return 0
    except OSError as failure:
        return failure.errno


def _load_pynvml(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("pynvml", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pynvml"] = module
    spec.loader.exec_module(module)
    return module


def _code_names(pynvml: ModuleType) -> dict[int, str]:
    prefix = "NVML_ERROR_"
    return {value: name[len(prefix) :] for name, value in vars(pynvml).items() if name.startswith(prefix)}


def _code(names: dict[int, str], number: int) -> str:
    return names.get(number, f"ERROR_{number}")


def _init(pynvml: ModuleType) -> bool:
    pynvml.nvmlInit()
    return True


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _keeper(
    pynvml: ModuleType, names: dict[int, str], values: dict[str, Any], errors: dict[str, str]
) -> Callable[[str, Callable[[], Any]], None]:
    """A function that calls NVML and keeps the value, or the code of the refusal, under a key."""

    def keep(key: str, call: Callable[[], Any]) -> None:
        try:
            values[key] = call()
        except pynvml.NVMLError as failure:
            errors[key] = _code(names, failure.value)
        except Exception as failure:  # a binding that doesn't know this struct or name: no fault of the GPU
            errors[key] = f"BINDING_{type(failure).__name__}"

    return keep


def _read_gpu(pynvml: ModuleType, names: dict[int, str], index: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Every value of one GPU that NVML gives, and the code of every call that it refuses."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}

    ask = _keeper(pynvml, names, values, errors)

    def pci() -> list[Any]:
        told = pynvml.nvmlDeviceGetPciInfo(handle)
        return [_text(told.busId), told.pciDeviceId]

    def memory() -> list[int]:
        told = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return [told.total, told.used]

    def fabric() -> list[int]:
        told = pynvml.c_nvmlGpuFabricInfo_t()
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(told))
        return [told.state, told.status]

    def migs() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            except pynvml.NVMLError:  # a free place
                continue
            one: dict[str, Any] = {}
            for key, call in (("name", pynvml.nvmlDeviceGetName), ("uuid", pynvml.nvmlDeviceGetUUID)):
                with contextlib.suppress(pynvml.NVMLError):
                    one[key] = _text(call(mig))
            with contextlib.suppress(pynvml.NVMLError):
                one["memory"] = pynvml.nvmlDeviceGetMemoryInfo(mig).total
            found.append(one)
        return found

    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as failure:
        errors["handle"] = _code(names, failure.value)
        return values, errors
    ask("name", lambda: _text(pynvml.nvmlDeviceGetName(handle)))
    ask("uuid", lambda: _text(pynvml.nvmlDeviceGetUUID(handle)))
    ask("pci", pci)
    ask("capability", lambda: list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)))
    ask("memory", memory)
    ask("persistence", lambda: pynvml.nvmlDeviceGetPersistenceMode(handle))
    ask("mig", lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    if values.get("mig"):
        ask("migs", migs)
    ask("ecc", lambda: pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0))  # uncorrected, since the last reset
    ask("remap", lambda: list(pynvml.nvmlDeviceGetRemappedRows(handle))[2:4])  # pending, failed
    ask("retired", lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))
    ask("fabric", fabric)
    ask("virtual", lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle))
    for link in range(MAX_LINKS):
        ask("nvlink", lambda: pynvml.nvmlDeviceGetNvLinkState(handle, link))  # noqa: B023 - called at once
        if values.get("nvlink") or "nvlink" in errors:
            break
    return values, errors


if __name__ == "__main__":
    main(sys.argv[1:])
