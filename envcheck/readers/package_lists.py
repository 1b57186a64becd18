"""What package managers print: pip list, freeze and show, uv pip list, conda list, env export and info."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional
from urllib.parse import unquote

from envcheck import versions
from envcheck.model.stack import Package
from envcheck.readers.draft import Draft, normal
from envcheck.readers.lines import Line

NAME = "package list"
_VERSION = r"v?\d+(?:\.\d+)*(?:\.?(?:a|b|rc|post|dev)\d*)*(?:\.\w+)?(?:\+[\w.]+)?"
_FREEZE = re.compile(rf"^\s*(?:[-+~] )?([A-Za-z][\w.-]*)==({_VERSION})(?=$|[\s;,\\])")
_DIRECT = re.compile(r"^\s*([A-Za-z][\w.-]*) @ (\S+)")
_WHEEL = re.compile(r"([A-Za-z]\w*(?:\.\w+)*)-(\d[\w.+!]*?)-(?:\d\w*-)?(cp\d+\w*|py\d[\w.]*)-\w+-([\w.]+)\.whl")
_COLUMNS = re.compile(rf"^\s*([A-Za-z][\w.-]*)\s{{2,}}({_VERSION})(?:\s+(\S.*))?$")
_ONE_SPACE = re.compile(rf"^\s*([A-Za-z][\w.-]*) ({_VERSION})$")
_CONDA = re.compile(rf"^\s*([a-z_][\w.-]*)\s+({_VERSION})\s+(\S+)(?:\s+(\S.*))?$")
_EXPORT = re.compile(r"^\s*- (?:([\w-]+)::)?([a-z][\w.-]*)=(\d[\w.]*)(?:=(\S+))?$")
_SHOW = re.compile(r"^(Name|Version|Location|Required-by|Requires): (.*)$")
_HEADER = re.compile(r"^\s*Package\s+Version\b")
_CONDA_HEADER = re.compile(r"^# (?:packages in environment at|Name\s+Version\s+Build)")
_BUILD_CUDA = re.compile(r"cuda(?:_?(\d{2})_?(\d)|(\d{1,2})\.(\d))|(?:^|_)cu(\d{2})(\d)(?:_|$)")
_VIRTUAL = re.compile(r"\b__(cuda|glibc)=(\d+\.\d+)")  # conda info
_LEGACY = re.compile(rf"^\s*([A-Za-z][\w.-]*) \(({_VERSION})\)$")
_JSON = re.compile(rf'\{{"name": ?"([A-Za-z][\w.-]*)", ?"version": ?"({_VERSION})"')
_LIST_COMMAND = re.compile(r"\b(?:pip\d?(?:\.\d+)?|uv pip|conda|mamba|micromamba) (?:list|freeze)\b")
_NEVER = frozenset(
    {
        "python",
        "version",
        "driver",
        "cuda",
        "line",
        "gpu",
        "release",
        "build",
        "error",
        "ii",
        "of",
        "sm",
        "cudnn version",
        "nvcc",
        "linux",
        "windows",
        "ubuntu",
        "file",
        "the",
        "file-line",
        "since",
        "is",
    }
)


def recognises(text: str) -> bool:
    """By '==', a list's command or header, conda's, or two columns."""
    return (
        "=" in text
        or '"version"' in text
        or " @ " in text
        or "ersion" in text
        or "list" in text
        or "freeze" in text
        or "Name: " in text
        or "# Name" in text
        or "   " in text
        or "dependencies:" in text
    )


def conda_build(build: str, variant: Optional[str]) -> tuple[Optional[str], Optional[str]]:
    """CUDA and variant of a conda build string: 'py3.10_cuda11.8_cudnn8.7.0_0', 'cuda112py39h…', 'py3.7_cpu_0'."""
    match = _BUILD_CUDA.search(build)
    if match:
        major, low = (part for part in match.groups() if part)
        cuda = f"{major}.{low}"
        return cuda, variant or f"cu{cuda.replace('.', '')}"
    if re.search(r"(?:^|_)cpu(?:_|py|$)", build) or build.startswith("cpu"):
        return "", "cpu"
    return None, variant


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Lists by their command or header; single lines where their shape leaves no doubt."""
    mode, command_filtered, before, seen = "", False, 0, 0
    shown: dict[str, str] = {}
    where = ""
    for line in lines:
        text = line.text
        if line.shell:
            mode = _mode(line.shell)
            command_filtered = "|" in line.shell or "grep" in line.shell
            seen = 0
            continue
        if _HEADER.match(text):
            mode, seen = "pip", 0
            continue
        if text.startswith("#") and _CONDA_HEADER.match(text):
            mode = "conda"
            continue
        if "__" in text and (virtual := _VIRTUAL.search(text)) is not None:
            if virtual.group(1) == "cuda":
                draft.add_driver(None, line.source, virtual.group(2))
            else:
                draft.put("stack", "glibc", virtual.group(2), line.source)
            continue
        if (field := _SHOW.match(text)) is not None:
            if field.group(1) == "Name":
                _show(shown, where, draft)
                shown, where = {}, line.source
            shown[field.group(1)] = field.group(2)
            continue
        if '"version"' in text:  # pip list --format=json: all in one line
            for name, version in _JSON.findall(text):
                draft.add_package(_package(name, version, line.source, "pip"))
            continue
        package = _read_line(text, mode, line.source)
        if package is not None:
            seen = seen + 1 if line.number - before <= 1 else 1
            before = line.number
            draft.add_package(package)
            if package.name == "pip" and seen > 5 and not command_filtered:
                draft.whole = True
        elif mode and text.strip(" -\t") and not text.startswith(("#", "[", "WARNING", "DEPRECATION")):
            mode = mode if line.number - before <= 1 and seen else ("" if seen else mode)
    _show(shown, where, draft)


def _mode(command: str) -> str:
    if not _LIST_COMMAND.search(command):
        return ""
    return "conda" if re.search(r"\b(conda|mamba|micromamba) list", command) else "pip"


def _show(shown: dict[str, str], where: str, draft: Draft) -> None:
    name, version = shown.get("Name", ""), shown.get("Version", "")
    if re.fullmatch(r"[A-Za-z][\w.-]*", name) and re.match(r"\d", version):
        draft.add_package(_package(name, version, where, "pip", location=shown.get("Location", "")))


def _read_line(text: str, mode: str, source: str) -> Optional[Package]:
    if "==" in text:
        match = _FREEZE.match(text)
        return _package(match.group(1), match.group(2), source, "pip") if match else None
    if " @ " in text:
        return _direct(text, source)
    if mode == "conda":
        if (match := _CONDA.match(text)) is not None:
            return _conda(match, source)
        match = _COLUMNS.match(text)
        return _package(match.group(1), match.group(2), source, "conda") if match else None
    if (exported := _EXPORT.match(text)) is not None:
        channel, name, version, build = exported.groups()
        cuda, variant = conda_build(build or "", None)
        return Package(
            normal(name),
            version,
            variant,
            cuda=cuda,
            installer="conda",
            channel=channel or "",
            build=build or "",
            source=source,
        )
    if (legacy := _LEGACY.match(text)) is not None and mode:
        return _package(legacy.group(1), legacy.group(2), source, "pip")
    match = _COLUMNS.match(text) or (_ONE_SPACE.match(text) if mode else None)
    if match is None or normal(match.group(1)) in _NEVER or ("." not in match.group(2) and not mode):
        return None
    rest = (match.group(3) or "") if match.lastindex and match.lastindex > 2 else ""
    if not mode and rest and not _looks_conda(rest):
        return None
    if not mode and rest:
        conda = _CONDA.match(text)
        return _conda(conda, source) if conda else None
    # A '+cpu' or '+cu' tag and 'nvidia-…' are Python's; without them and without a list around, still a list line.
    return _package(match.group(1), match.group(2), source, "pip", location=rest if rest.startswith("/") else "")


def _looks_conda(rest: str) -> bool:
    return bool(re.match(r"(?:py|cuda|h|cpu|gpu|mkl|\d)[\w.]*(?:\s+\S+)?$|pypi_0", rest))


def _conda(match: re.Match[str], source: str) -> Package:
    name, version, build, rest = match.groups()
    channel = (rest or "").split()[-1] if rest else ""
    if "pypi" in build or channel == "pypi" or build == "<pip>":
        return _package(name, version, source, "pip", channel="pypi")
    cuda, variant = conda_build(build, None)
    return Package(
        normal(name), version, variant, cuda=cuda, installer="conda", channel=channel, build=build, source=source
    )


def _direct(text: str, source: str) -> Optional[Package]:
    match = _DIRECT.match(text)
    if match is None:
        return None
    wheel = _WHEEL.search(unquote(match.group(2)))
    if wheel is None:
        return None
    return _package(match.group(1), wheel.group(2), source, "pip", tag=wheel.group(3))


def _package(
    name: str, version: str, source: str, installer: str, location: str = "", channel: str = "", tag: str = ""
) -> Package:
    return Package(
        normal(name),
        version,
        versions.local_variant(version),
        installer=installer,
        location=location,
        channel=channel,
        python_tag=tag,
        source=source,
    )
