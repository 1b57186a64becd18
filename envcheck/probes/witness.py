"""What a build says of itself in a text file beside its code, read as text: version, CUDA, cuDNN, HIP, capabilities."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

# Text that builds leave beside their code; elsewhere `version.py` tells version, CUDA and HIP.
WITNESSES: dict[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow/python/platform/build_info.py",),
    "onnxruntime": ("onnxruntime/capi/build_and_package_info.py", "onnxruntime/capi/version_info.py"),
    "onnxruntime-gpu": ("onnxruntime/capi/build_and_package_info.py", "onnxruntime/capi/version_info.py"),
    "paddlepaddle": ("paddle/version/__init__.py",),
    "paddlepaddle-gpu": ("paddle/version/__init__.py",),
}
_KEYS = r"__version__|full_version|cuda_version|cuda|cudnn_version|hip|rocm_version|is_cuda_build|is_rocm_build"
_VALUE = r"""(?P<value>None|True|False|['"][^'"\n]*['"])"""
_TOLD = re.compile(rf"^(?P<key>{_KEYS})\s*(?::[^=\n]*)?=\s*{_VALUE}", re.MULTILINE)  # cuda: Optional[str] = '12.4'
_PAIR = re.compile(rf"""\(?['"](?P<key>{_KEYS})['"]\s*[:,]\s*{_VALUE}""")  # ('cuda_version', '12.5.1')
_CAPABILITIES = re.compile(r"""cuda_compute_capabilities['"]?\s*[=:,]\s*\[([^\]]*)\]""")


class Witness(NamedTuple):
    """The version is the metadata's where the file doesn't fit it; `source` is empty where the file tells nothing."""

    version: str
    variant: Optional[str] = None
    cuda: Optional[str] = None
    cudnn: Optional[str] = None
    hip: Optional[str] = None
    capabilities: Optional[tuple[str, ...]] = None
    source: str = ""


def parse_witness(text: str, version: str, source: str) -> Witness:
    """Read a version file as text: `cuda: Optional[str] = '12.4'`, `('cuda_version', '12.5.1')`."""
    matches = (*_PAIR.finditer(text), *_TOLD.finditer(text))
    said = {match["key"]: match["value"].strip("'\"") for match in matches}
    own = said.get("__version__") or said.get("full_version") or ""
    # The package index's metadata lacks the local part; a file of another version is left from another install.
    fits = "+" in own and own.partition("+")[0] == version.partition("+")[0]
    no_gpu = said.get("cuda") == "None" and said.get("hip", "None") == "None"
    variant = None
    if said.get("is_rocm_build") == "True":
        variant = "rocm"
    elif said.get("is_cuda_build") == "False" or no_gpu:
        variant = "cpu"
    listed = _CAPABILITIES.search(text)
    witness = Witness(
        version=own if fits else version,
        variant=variant,
        cuda=_number(said, "cuda", "cuda_version"),
        cudnn=_number(said, "cudnn_version"),
        hip=_number(said, "hip", "rocm_version"),
        capabilities=_capabilities(listed.group(1)) if listed else None,
        source=source,
    )
    return witness if witness != Witness(version, source=source) else Witness(version)


def _number(said: Mapping[str, str], *keys: str) -> Optional[str]:
    return next((said[key] for key in keys if re.match(r"\d", said.get(key, ""))), None)


def _capabilities(text: str) -> tuple[str, ...]:
    found = []
    for kind, digits in re.findall(r"(sm|compute)_(\d{2,3})", text):
        found.append(f"{digits[:-1]}.{digits[-1]}" + ("+PTX" if kind == "compute" else ""))
    return tuple(found)
