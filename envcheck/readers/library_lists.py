"""Lines that show libraries: ldd, ldconfig -p, ls, dpkg -l and rpm -qa."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from envcheck import versions
from envcheck.model.stack import Library
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "library lists"
_ARROW = re.compile(
    r"(lib(?:cuda|cudart|cudnn\w*|nccl|cublas\w*|nvidia-ml|cusparse|cusolver|nvJitLink|stdc\+\+|cupti)\.so[\w.]*)"
    r"(?: \([^)]*\))? => (/\S+|not found)"
)
_LS = re.compile(
    r"(?:^|\s|/)(lib(?:cuda|cudart|cudnn\w*|nccl|cublas\w*|nvidia-ml|nvJitLink)\.so(?:\.\d+)*)(?:\s*->\s*(\S+))?\s*$"
)
_DPKG = re.compile(r"^(ii|hi|rc|iU|iF)\s+(\S+?)(?::\w+)?\s+(\S+)")
_DRIVER_PACKAGE = re.compile(
    r"^(?:nvidia-(?:driver|smi|utils|kernel|dkms|open)[\w.-]*|libnvidia-(?:compute|ml)\d*[\w.-]*|libcuda1)$"
)
# libnvidia-container is released with the toolkit, under its number.
_TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
_DEB_VERSION = re.compile(r"^(?:\d:)?(\d[\d.]*)")
_RPM = re.compile(r"^(?:kmod-)?(nvidia-driver[\w-]*?|libcudnn\d[\w-]*?|cuda-compat-[\d-]+)-(\d[\d.]+)-\S+$")


def recognises(text: str) -> bool:
    """By an arrow, a shared library's name, or dpkg's state column."""
    return ".so" in text or "ii  " in text or "nvidia-driver" in text


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Arrows tell what loads; a listing tells only what is there."""
    listing = False
    ordered: dict[str, int] = {}
    for line in lines:
        text = line.text
        if line.shell:
            listing = bool(re.match(r"(?:sudo )?(?:ls|find|locate|ldconfig)\b", line.shell))
            continue
        if "=>" in text and (arrow := _ARROW.search(text)) is not None:
            soname, path = arrow.groups()
            draft.facts += 1
            if path != "not found":
                order = ordered.get(soname, 0)
                ordered[soname] = order + 1
                draft.libraries.append(library(path, soname, order, line.source))
        elif (dpkg := _DPKG.match(text)) is not None:
            _dpkg(dpkg.group(1), dpkg.group(2), dpkg.group(3), line.source, draft)
        elif (rpm := _RPM.match(text.strip())) is not None:
            _installed(rpm.group(1), rpm.group(2), line.source, draft)
        elif listing and (listed := _LS.search(text)) is not None:
            draft.facts += 1
            name = listed.group(1)
            draft.libraries.append(library(text.split()[-1] if "/" in text else name, _soname(name), None, line.source))


def _soname(name: str) -> str:
    match = re.match(r"(.+\.so(?:\.\d+)?)", name)
    return match.group(1) if match else name


def library(path: str, soname: str, order: Optional[int], source: str) -> Library:
    """A row for a path that the paste shows, with the version that its name carries."""
    version = re.search(r"\.so\.(\d+(?:\.\d+)+)$", path)
    return Library(
        _soname(soname), path, version.group(1) if version else None, origin(path), order=order, source=source
    )


def origin(path: str) -> str:
    """Whose a library is by its path."""
    for mark, name in (
        ("/compat/", "compat"),
        ("/stubs/", "stub"),
        ("/wsl/", "wsl"),
        ("site-packages/nvidia/", "wheel"),
        ("site-packages/", "wheel"),
        ("dist-packages/", "wheel"),
        ("/envs/", "conda"),
        ("conda", "conda"),
        ("/usr/local/cuda", "toolkit"),
    ):
        if mark in path:
            return name
    return "driver" if re.search(r"lib(?:cuda|nvidia-ml)\.so", path) else "system"


def _dpkg(state: str, name: str, text: str, source: str, draft: Draft) -> None:
    version = _DEB_VERSION.match(text)
    if state in ("ii", "hi") and version:
        _installed(name, version.group(1), source, draft)


def _installed(name: str, version: str, source: str, draft: Draft) -> None:
    draft.facts += 1
    if _DRIVER_PACKAGE.match(name):
        draft.driver_packages.append(f"{name} {version}")
    elif re.match(r"(?:lib)?cudnn\d*(?:-cuda-[\d-]+)?$", name):
        draft.put("stack", "cudnn", version, source)
    elif name.startswith("cuda-compat-"):
        draft.put("stack", "compat", version, source)
    elif name == "nvidia-fabricmanager" or name.startswith("nvidia-fabricmanager-"):
        from envcheck.model.machine import FabricManager

        draft.put("machine", "fabric_manager", FabricManager(version), source)
    elif name in _TOOLKIT:
        from envcheck.model.machine import ContainerToolkit

        draft.put("machine", "toolkit", ContainerToolkit(str(versions.find(version)), source=source), source)
    elif name == "libc6":
        draft.put("stack", "glibc", version, source)
