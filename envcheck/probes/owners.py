"""Tells whose a library file is and which version: by the wheels' RECORD, its real name, or its version symbols."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Optional

from envcheck.model.stack import Package
from envcheck.probes.elf import NotElf, open_elf
from envcheck.probes.elf_symbols import version_definitions
from envcheck.probes.tree import Tree, Unreadable, shown
from envcheck.versions import find

_RECORDED = re.compile(r"^([^,\n]+\.so[^,\n]*),[^,\n]*,(\d*)", re.MULTILINE)
_NUMBERED = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_SEPARATORS = re.compile(r"[-_.]+")
MAX_RECORD = 4 * 2**20


class Owner(NamedTuple):
    """A package that says of a file that it is its own; `size` is what its RECORD says, None where it doesn't."""

    package: str
    version: str
    size: Optional[int]


class Site(NamedTuple):
    """A folder that distributions are imported from, as it was read once: its names and its metadata folders."""

    path: str
    names: tuple[str, ...]
    metadata: dict[str, str]  # normalised name -> folder


def read_sites(tree: Tree, paths: Sequence[str]) -> tuple[Site, ...]:
    """The sites that can be read."""
    sites = []
    for path in dict.fromkeys(paths):
        names = tree.find_names(path)
        metadata = {
            _SEPARATORS.sub("-", name[:-10].rpartition("-")[0]).lower(): name
            for name in names
            if name.endswith(".dist-info")
        }
        if names:
            sites.append(Site(path, tuple(names), metadata))
    return tuple(sites)


def foreign_sites(paths: Iterable[str], sites: Sequence[Site]) -> list[str]:
    """The site folders of other environments that some of these paths lie in."""
    own = {site.path for site in sites}
    found = (path.partition("-packages/") for path in paths)
    return sorted({f"{start}-packages" for start, inside, _ in found if inside} - own)


def recorded_libraries(tree: Tree, site: Site, package: str) -> list[tuple[str, Optional[int]]]:
    """(path in the site, size) of every shared library in a distribution's RECORD."""
    folder = site.metadata.get(package)
    text = tree.find_text(f"{site.path}/{folder}/RECORD", MAX_RECORD) if folder else None
    return [(path, int(size) if size else None) for path, size in _RECORDED.findall(text or "")]


def find_owners(tree: Tree, sites: Sequence[Site], packages: Sequence[Package]) -> dict[str, list[Owner]]:
    """Absolute path -> the wheels of CUDA libraries that claim it. Two majors of one library claim the same files."""
    versions = {(package.location, package.name): package.version or "" for package in packages}
    owners: dict[str, list[Owner]] = {}
    for site in sites:
        for name, folder in site.metadata.items():
            if not name.startswith(("nvidia-", "cuda-", "tensorrt")):
                continue
            version = versions.get((shown(site.path), name)) or folder[:-10].rpartition("-")[2]
            for path, size in recorded_libraries(tree, site, name):
                owners.setdefault(f"{site.path}/{path}", []).append(Owner(name, version, size))
    return owners


def owner_of(tree: Tree, owners: Mapping[str, list[Owner]], path: str) -> Optional[Owner]:
    """The wheel that the file at `path` is from; of several claims the one whose size fits."""
    claims = owners.get(path)
    if not claims:
        return None
    if len(claims) > 1:
        try:
            status = tree.stat(path)
        except Unreadable:
            status = None
        fitting = [claim for claim in claims if status and claim.size == status.st_size]
        return fitting[0] if len(fitting) == 1 else None
    return claims[0]


def version_of(tree: Tree, path: str) -> Optional[str]:
    """By the real file's name ('libcudnn.so.9.1.0'), or the newest version symbol of libstdc++; None: not told."""
    try:
        real = tree.resolve(path)
        match = _NUMBERED.search(real)
        if match and "libstdc++" not in real:
            return match.group(1)
        if "libstdc++" in real:
            return newest_symbol_version(tree, path, "GLIBCXX_")
    except (Unreadable, NotElf):
        return None
    return None


def newest_symbol_version(tree: Tree, path: str, prefix: str) -> Optional[str]:
    """'3.4.30' for libstdc++ and 'GLIBCXX_'. Raises Unreadable, NotElf."""
    file = open_elf(tree, path)
    if file is None:
        return None
    with file:
        names = [name[len(prefix) :] for name in version_definitions(file).values() if name.startswith(prefix)]
    numbers = [(version, name) for name in names if (version := find(name)) and name[0].isdigit()]
    return max(numbers)[1] if numbers else None


def origin_of(path: str, sites: Sequence[Site], conda: str) -> str:
    """wheel, conda, other-environment, compat, stub, wsl, toolkit, driver or system."""
    name = path.rpartition("/")[2]
    if "/stubs/" in path:
        return "stub"
    if "/compat/" in path or path.rpartition("/")[0].endswith("/compat"):
        return "compat"
    if path.startswith("/usr/lib/wsl/"):
        return "wsl"
    if any(path.startswith(f"{site.path}/") for site in sites):
        return "wheel"
    if conda and path.startswith(f"{conda}/"):
        return "conda"
    if "-packages/" in path:
        return "other-environment"
    if name.startswith(("libcuda.so", "libnvidia-ml.so")):
        return "driver"
    return "toolkit" if re.match(r"(/usr/local|/opt)/(cuda|nvidia)", path) else "system"
