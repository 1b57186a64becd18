"""What an index really offers: the release and wheel that pip would take, and what its metadata asks for."""

from __future__ import annotations

import configparser
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urlsplit, urlunsplit

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from envcheck.errors import InspectError

MAX_PAGE = 64 << 20
MAX_METADATA = 4 << 20
CONFIGS = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")


class Wheel(msgspec.Struct, frozen=True, omit_defaults=True):
    """The chosen wheel: version, file, what it requires of Python and glibc, and its pins."""

    name: str
    version: str
    filename: str
    index: str
    requires_python: str = ""
    glibc: Optional[str] = None
    requires: tuple[str, ...] = ()


class NoWheel(InspectError):
    """The index offers nothing that fits; `pythons` are those for which there is a wheel of the newest release."""

    def __init__(self, message: str, pythons: tuple[str, ...] = ()) -> None:
        super().__init__(message, "Another Python, another release or another index.")
        self.pythons = pythons


def default_index(env: Optional[Mapping[str, str]] = None) -> str:
    """The index that pip here would use: PIP_INDEX_URL, pip's configuration, else the library's own default."""
    environment = os.environ if env is None else env
    if environment.get("PIP_INDEX_URL"):
        return environment["PIP_INDEX_URL"]
    files = [environment.get("PIP_CONFIG_FILE", ""), *(str(Path(text).expanduser()) for text in reversed(CONFIGS))]
    for file in filter(None, files):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue
        found = parser.get("global", "index-url", fallback="")
        if found:
            return found
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return PYPI_SIMPLE_ENDPOINT


def shown(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def find_wheel(
    name: str, specifier: SpecifierSet, *, python: str, arch: str = "x86_64", index: str = "", seconds: float = 20.0
) -> Wheel:
    """The wheel that pip takes for this Python ('3.11') on Linux. Raises NoWheel, InspectError."""
    import requests
    from pypi_simple import PyPISimple

    endpoint = index or default_index()
    started = time.monotonic()
    try:
        with PyPISimple(endpoint=endpoint) as client:
            page = client.get_project_page(name, timeout=(5.0, seconds))
            best = max(_wheels(page, python, arch, specifier), key=lambda found: found[:2], default=None)
            left = max(1.0, seconds - (time.monotonic() - started))
            requires = _requires(client, best[2], left) if best else ()
    except requests.HTTPError as fault:
        status = fault.response.status_code if fault.response is not None else 0
        raise InspectError(f"{shown(endpoint)} answers {status} for {name}", "Check the index and the name.") from None
    except Exception as fault:  # requests, urllib3 and pypi-simple have an error type each for what an index may do
        raise InspectError(
            f"{shown(endpoint)} gives nothing usable for {name} ({type(fault).__name__})",
            "Check the network, or judge without --online.",
        ) from None
    if best is None:
        raise NoWheel(
            f"{shown(endpoint)} has no wheel of {name}{specifier} for Python {python} on {arch}",
            _pythons(page, specifier),
        )
    version, _, package = best
    return Wheel(
        canonicalize_name(name),
        str(version),
        package.filename,
        shown(endpoint),
        package.requires_python or "",
        glibc_of(package.filename),
        requires,
    )


def _wheels(page: Any, python: str, arch: str, specifier: SpecifierSet) -> Iterator[tuple[Version, int, Any]]:
    """(version, rank of its tag, file) of every wheel that fits; pre-releases only where the specifier asks."""
    for package in page.packages:
        if package.package_type != "wheel" or package.is_yanked:
            continue
        try:
            _, version, _, tags = parse_wheel_filename(package.filename)
        except (InvalidWheelFilename, ValueError):
            continue
        if version.is_prerelease and not specifier.prereleases:  # contains() lets them by where no operator is
            continue
        if not specifier.contains(version) or not _supports(package.requires_python, python):
            continue
        rank = max((_rank(tag, python, arch) for tag in tags), default=0)
        if rank:
            yield version, rank, package


def _rank(tag: Any, python: str, arch: str) -> int:
    """0: not for us; the higher, the nearer to this interpreter."""
    if tag.platform != "any" and not (tag.platform.endswith(f"_{arch}") and "linux" in tag.platform):
        return 0
    short = python.replace(".", "")
    if tag.interpreter == f"cp{short}" and tag.abi in (f"cp{short}", "none"):
        return 3
    if tag.abi == "abi3" and tag.interpreter.startswith("cp3") and int(tag.interpreter[3:] or 0) <= int(short[1:]):
        return 2
    return 1 if tag.interpreter in ("py3", "py2.py3") and tag.abi == "none" else 0


def _supports(requires_python: Optional[str], python: str) -> bool:
    try:
        return not requires_python or SpecifierSet(requires_python).contains(f"{python}.99")
    except InvalidSpecifier:
        return True


def _pythons(page: Any, specifier: SpecifierSet) -> tuple[str, ...]:
    """The Pythons of the wheels of the newest release that the specifier admits."""
    found: dict[Version, set[str]] = {}
    for package in page.packages:
        if package.package_type != "wheel" or package.is_yanked:
            continue
        try:
            _, version, _, tags = parse_wheel_filename(package.filename)
        except (InvalidWheelFilename, ValueError):
            continue
        if specifier.contains(version):
            numbers = {tag.interpreter[2:] for tag in tags if re.fullmatch(r"cp3\d+", tag.interpreter)}
            found.setdefault(version, set()).update(f"3.{number[1:]}" for number in numbers)
    if not found:
        return ()
    return tuple(sorted(found[max(found)], key=lambda text: int(text.partition(".")[2])))


def _requires(client: Any, package: Any, seconds: float) -> tuple[str, ...]:
    """Requires-Dist lines, where the index serves the metadata beside the wheel (PEP 658)."""
    if not package.has_metadata:
        return ()
    from pypi_simple import NoDigestsError, NoMetadataError

    try:
        data: bytes = client.get_package_metadata_bytes(package, timeout=(5.0, seconds))
    except (NoDigestsError, NoMetadataError):  # nothing to verify it by, or announced and not there
        return ()
    if len(data) > MAX_METADATA:
        return ()
    head = data.decode("utf-8", "replace").partition("\n\n")[0]
    return tuple(match.strip() for match in re.findall(r"(?m)^Requires-Dist:(.+)$", head))


def glibc_of(filename: str) -> Optional[str]:
    """The lowest glibc that a wheel's platform tags ask for: manylinux_2_28 is 2.28, manylinux2014 2.17."""
    numbers = [(int(a), int(b)) for a, b in re.findall(r"manylinux_(\d+)_(\d+)", filename)]
    legacy = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    numbers += [value for name, value in legacy.items() if re.search(rf"{name}_", filename)]
    return ".".join(map(str, min(numbers))) if numbers else None


def cuda_of(requires: tuple[str, ...]) -> Optional[str]:
    """The CUDA X.Y that pins of NVIDIA's wheels tell: cuda-toolkit==13.0.2, nvidia-cuda-runtime-cu12==12.8.90."""
    for pattern in (
        r"cuda-toolkit(?:\[[^\]]*\])?\s*\(?==\s*(\d+\.\d+)",
        r"nvidia-cuda-runtime-cu\d+\s*\(?==\s*(\d+\.\d+)",
    ):
        for text in requires:
            match = re.match(pattern, text.strip())
            if match:
                return match.group(1)
    return None
