"""A driver with GPUs for tests: a real shared library, built with the C compiler, that answers as a script says.

    library = scripted_nvml(folder, [H100] * 8, do={("nvmlDeviceGetHandleByIndex_v2", 3): 15})

writes `folder/libnvidia-ml.so.1`, which the shipped NVML child loads like NVIDIA's own (by LD_LIBRARY_PATH=folder, or
by its path). `do` maps (function, device or '*') to a return code, 'hang', 'segv', 'bus', 'abort', 'kill', 'noise',
'sleep 100' or '= values'; it comes last, so it overrides what the GPUs say.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional, Union

import msgspec

SOURCE = Path(__file__).with_name("nvml.c")


class ScriptedGpu(msgspec.Struct, frozen=True):
    """What one device answers; None: NOT_SUPPORTED."""

    name: Union[str, bytes] = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)
    memory_mib: int = 81559
    pci_id: str = "2330"
    bus: str = "00000000:1B:00.0"
    persistence: Optional[bool] = True
    mig: Optional[bool] = None
    mig_name: str = ""
    mig_count: int = 0
    ecc: Optional[int] = 0
    remap: Optional[tuple[int, int]] = (0, 0)
    fabric: Optional[int] = None
    nvlink: Optional[bool] = None


H100 = ScriptedGpu()
A100_MIG = ScriptedGpu(
    "NVIDIA A100-SXM4-40GB", (8, 0), 40960, "20B0", mig=True, mig_name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", mig_count=2
)
RTX_5090 = ScriptedGpu("NVIDIA GeForce RTX 5090", (12, 0), 32607, "2B85", "00000000:01:00.0", ecc=None, remap=None)
K80 = ScriptedGpu("Tesla K80", (3, 7), 11441, "102D", "00000000:05:00.0", remap=None)


def scripted_nvml(
    folder: Path,
    gpus: Sequence[ScriptedGpu] = (),
    *,
    driver: str = "535.104.05",
    cuda: int = 12020,
    do: Mapping[tuple[str, Union[int, str]], Union[int, str]] = {},
) -> Path:
    """Write the library with its script into `folder`; returns the library."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    shutil.copy(_built(), library)
    lines = [
        "nvmlInit * 0",
        f"nvmlSystemGetDriverVersion * = {_hex(driver)}",
        f"nvmlSystemGetNVMLVersion * = {_hex(f'12.{driver}')}",
        f"nvmlSystemGetCudaDriverVersion_v2 * = {cuda}",
        f"nvmlDeviceGetCount_v2 * = {len(gpus)}",
        "nvmlDeviceGetHandleByIndex_v2 * 0",
        *(line for index, gpu in enumerate(gpus) for line in _lines(index, gpu)),
        *(f"{function} {index} {action}" for (function, index), action in do.items()),
    ]
    (folder / "libnvidia-ml.so.1.script").write_text("\n".join(lines) + "\n", encoding="ascii")
    return library


def eight(gpu: ScriptedGpu = H100, count: int = 8) -> list[ScriptedGpu]:
    """`count` of one model, on buses of their own."""
    return [msgspec.structs.replace(gpu, bus=f"00000000:{16 + n:02X}:00.0") for n in range(count)]


def _lines(index: int, gpu: ScriptedGpu) -> list[str]:
    mib = 2**20
    told = {
        "nvmlDeviceGetName": _hex(gpu.name),
        "nvmlDeviceGetUUID": _hex(f"GPU-{index:08x}-0000-0000-0000-000000000000"),
        "nvmlDeviceGetPciInfo_v3": f"{gpu.bus} {int(gpu.pci_id, 16) << 16 | 0x10DE}",
        "nvmlDeviceGetCudaComputeCapability": f"{gpu.capability[0]} {gpu.capability[1]}",
        "nvmlDeviceGetMemoryInfo": f"{gpu.memory_mib * mib} {4 * mib}",
        "nvmlDeviceGetPersistenceMode": gpu.persistence,
        "nvmlDeviceGetMigMode": gpu.mig,
        "nvmlDeviceGetMaxMigDeviceCount": 7 if gpu.mig else None,
        "nvmlDeviceGetMigDeviceHandleByIndex": gpu.mig_count,
        "mig": f"{gpu.memory_mib * mib // 8} 0",
        "migName": _hex(gpu.mig_name),
        "nvmlDeviceGetTotalEccErrors": gpu.ecc,
        "nvmlDeviceGetRemappedRows": None if gpu.remap is None else f"{gpu.remap[0]} {gpu.remap[1]}",
        "nvmlDeviceGetGpuFabricInfo": gpu.fabric,
        "nvmlDeviceGetVirtualizationMode": 0,
        "nvmlDeviceGetNvLinkState": gpu.nvlink,
    }
    return [
        f"{name} {index} = {int(value) if isinstance(value, bool) else value}"
        for name, value in told.items()
        if value is not None
    ]


def _hex(text: Union[str, bytes]) -> str:
    return (text if isinstance(text, bytes) else text.encode()).hex()


@functools.lru_cache(maxsize=1)
def _built() -> Path:
    """Compile once a process; the compiler is one of the parts that tests need."""
    folder = Path(tempfile.mkdtemp(prefix="scripted-nvml-"))
    out = folder / "libnvidia-ml.so.1"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wl,-soname,libnvidia-ml.so.1",
        "-o",
        str(out),
        str(SOURCE),
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return out
