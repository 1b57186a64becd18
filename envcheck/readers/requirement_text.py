"""One requirement as people write it ('torch==2.1.0', a wheel's URL, 'name @ url') to a Package."""

from __future__ import annotations

import re
from typing import Optional
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envcheck import versions
from envcheck.model.stack import Package

VARIANT = re.compile(r"(cu\d{2,3}|cpu|rocm\d[\d.]*|xpu)")
MAX_LENGTH = 2000


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where requirements come from: the tool that installs, the index whose path names a variant, the source."""

    installer: str = "pip"
    index: str = ""
    variant: Optional[str] = None
    python: str = ""  # '3.11', to drop requirements whose marker says otherwise
    source: str = ""


def variant_of(url: str) -> Optional[str]:
    """The build variant that an index URL names: '…/whl/cu121' is 'cu121'; None for any other index."""
    for part in reversed(urlsplit(url).path.rstrip("/").split("/")):
        match = VARIANT.fullmatch(part)
        if match:
            return match.group(1)
    return None


def read_requirement(text: str, origin: Origin) -> Optional[Package]:
    """The package that `text` asks for; None for what is no requirement, or not for this Python or Linux."""
    line = text.strip()
    if not line or len(line) > MAX_LENGTH or any(ord(c) < 32 for c in line):
        return None
    if re.match(r"(https?|file)://|.*\.whl$", line) and " @ " not in line:
        return _wheel(line, origin)
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return None
    if requirement.marker is not None and not _applies(requirement, origin.python):
        return None
    if requirement.url:
        wheel = _wheel(requirement.url, origin)
        if wheel is not None:
            return wheel
        return Package(
            canonicalize_name(requirement.name), installer=origin.installer, channel=requirement.url,
            requirement=line, pinned=False, source=origin.source,
        )  # fmt: skip
    return from_specifier(requirement.name, requirement.specifier, origin, line)


def from_specifier(name: str, specifier: SpecifierSet, origin: Origin, text: str = "") -> Package:
    """A package by name and PEP 440 specifier; one '==' without a wildcard is a pin."""
    pins = [s.version for s in specifier if s.operator in ("==", "===") and not s.version.endswith(".*")]
    version = pins[0] if len(pins) == 1 and versions.find(pins[0]) is not None else None
    variant = versions.local_variant(version) or origin.variant
    return Package(
        canonicalize_name(name),
        version=version,
        variant=variant,
        cuda=versions.cuda_from_tag(variant) if variant else None,
        installer=origin.installer,
        channel=origin.index,
        requirement="" if version or not str(specifier) else (text or f"{name}{specifier}"),
        pinned=version is not None,
        source=origin.source,
    )


def _applies(requirement: Requirement, python: str) -> bool:
    assert requirement.marker is not None
    environment = {
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "extra": "",
    }
    if python:
        environment["python_version"] = ".".join(python.split(".")[:2])
        environment["python_full_version"] = python if python.count(".") > 1 else f"{python}.0"
    elif "python" in str(requirement.marker):
        return True  # we don't know the Python: better to look at it than to miss it
    if "platform_machine" in str(requirement.marker):
        return True
    try:
        return requirement.marker.evaluate(environment)
    except Exception:  # a marker with an undefined name or an odd version
        return True


def _wheel(url: str, origin: Origin) -> Optional[Package]:
    name = unquote(urlsplit(url).path).rpartition("/")[2] if "://" in url else url.rpartition("/")[2]
    try:
        project, version, _, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, ValueError):
        return None
    variant = versions.local_variant(str(version)) or variant_of(url.rpartition("/")[0]) or origin.variant
    return Package(
        project,
        version=str(version),
        variant=variant,
        cuda=versions.cuda_from_tag(variant) if variant else None,
        installer=origin.installer,
        channel=url if "://" in url else "",
        build=name,
        python_tag=min(tag.interpreter for tag in tags),
        source=origin.source,
    )
