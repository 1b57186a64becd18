"""Versions of drivers, CUDA, cuDNN and wheels, parsed at the edge and compared as numbers.

`packaging.Version` orders all of them: NVIDIA's four-part numbers ('450.80.02', '9.1.0.70') are valid release segments.
"""

from __future__ import annotations

import functools
import re
from typing import Optional

from packaging.version import InvalidVersion, Version

_LEADING = re.compile(r"\d+(?:\.\d+)*")
_CU_TAG = re.compile(r"cu(\d{2,3})")


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Version:
    """The version in `text`; raises InvalidVersion. Surrounding space is refused, as it hides injected lines."""
    if text != text.strip():
        raise InvalidVersion(f"white space around a version: {text!r}")
    return Version(text)


@functools.lru_cache(maxsize=4096)
def find(text: Optional[str]) -> Optional[Version]:
    """The version in `text`, leniently: else its leading numbers ('9 (major only)' is 9), else None."""
    if not text:
        return None
    try:
        return Version(text.strip())
    except InvalidVersion:
        match = _LEADING.match(text.strip().lstrip("vVrR"))
        return Version(match.group()) if match else None


def minor(text: str) -> str:
    """'12.1.105' -> '12.1'; a bare major stays one."""
    version = parse(text)
    return f"{version.major}.{version.minor}" if len(version.release) > 1 else str(version.major)


def same_minor(left: str, right: str) -> bool:
    """Do both name the same X.Y?"""
    return parse(left).release[:2] == parse(right).release[:2]


def cuda_from_integer(number: int) -> str:
    """CUDA's packed integer: 12020 -> '12.2' (cuDriverGetVersion, 'found version 12020')."""
    return f"{number // 1000}.{number % 1000 // 10}"


def cudnn_from_integer(number: int) -> str:
    """cuDNN's packed integer: 8902 -> '8.9.2', 90100 -> '9.1.0' (five digits from cuDNN 9)."""
    if number >= 10000:
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def nccl_from_integer(number: int) -> str:
    """NCCL's packed integer: 2708 -> '2.7.8', 21805 -> '2.18.5' (five digits from 2.9)."""
    if number >= 10000:
        return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"


def cuda_from_tag(tag: str) -> Optional[str]:
    """'cu121' -> '12.1', 'cu92' -> '9.2', 'cu130' -> '13.0'; None for another tag."""
    match = _CU_TAG.fullmatch(tag)
    if not match:
        return None
    digits = match.group(1)
    return f"{digits[:-1]}.{digits[-1]}"


def tag_from_cuda(cuda: str) -> str:
    """'12.1' or '12.1.105' -> 'cu121'."""
    version = parse(cuda)
    return f"cu{version.major}{version.minor}"


def local_variant(version: Optional[str]) -> Optional[str]:
    """The accelerator tag in a local part: '2.5.1+cu124' -> 'cu124', '+rocm6.2', '+cpu'; None where there is none."""
    if not version or "+" not in version:
        return None
    match = re.search(r"(cu\d{2,3}|rocm[\d.]+\d|cpu|xpu)(?![a-z\d])", version.partition("+")[2])
    return match.group(1) if match else None


def branch(driver: str) -> int:
    """The driver branch: '535.104.05' -> 535."""
    return parse(driver).major


@functools.lru_cache(maxsize=4096)
def capability(text: str) -> tuple[int, int]:
    """'9.0', 'sm_90', 'compute_90a', '90' -> (9, 0); raises ValueError."""
    match = re.fullmatch(r"(?:(?:sm|compute)_?)?(\d+)(?:\.(\d))?([af]?)(?:\+PTX)?", text.strip())
    if not match:
        raise ValueError(f"not a compute capability: {text!r}")
    if match.group(2) is not None:
        return int(match.group(1)), int(match.group(2))
    digits = match.group(1)
    if len(digits) < 2:
        raise ValueError(f"not a compute capability: {text!r}")
    return int(digits[:-1]), int(digits[-1])


def sm(text: str) -> str:
    """'9.0' -> 'sm_90'; a suffix stays: '9.0a' -> 'sm_90a'."""
    suffix = text[-1] if text[-1] in "af" else ""
    major, low = capability(text)
    return f"sm_{major}{low}{suffix}"
