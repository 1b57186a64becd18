"""Installed distributions by the names and text files of their folders; none of them is imported."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

import msgspec

from envcheck.model.stack import Package
from envcheck.probes.tree import Tree, Unreadable, shown
from envcheck.probes.witness import WITNESSES, Witness, parse_witness
from envcheck.versions import cuda_from_tag, local_variant

CONDA_NAMES = {"pytorch": "torch"}  # where conda calls a distribution otherwise than Python does
# Parts of CUDA come under these names from every channel, known to the matrix or not.
CUDA_NAMES = ("nvidia-", "cuda-", "cudatoolkit", "cudnn", "nccl", "libcu", "libnv", "libnpp", "pytorch-cuda")
_SEPARATORS = re.compile(r"[-_.]+")
_NAME = re.compile(r"[\w.-]+")
_PATH_FILE = re.compile(r"^[^/,]+\.(pth|egg-link),", re.MULTILINE)


class _Entry(NamedTuple):
    site: str
    folder: str
    name: str
    version: str


def inspect_distributions(
    tree: Tree, sites: tuple[str, ...], prefix: str, known: frozenset[str]
) -> tuple[tuple[Package, ...], list[str]]:
    """The distributions that `known` or CUDA's names hold (all, where `known` is empty), and what couldn't be read.

    They come in import order: where a name appears twice, the first is the one that is imported.
    """
    unread: list[str] = []
    packages: list[Package] = []
    for site in sites:
        try:
            names = tree.names(site)
        except Unreadable as failure:
            unread.append(str(failure))
            continue
        beside = frozenset(names)
        here = [_read_package(tree, entry, beside, known) for entry in _entries(site, names, known)]
        twice = {p.name for p in here if sum(q.name == p.name for q in here) > 1}
        # pip leaves an empty dist-info behind after an interrupted upgrade: no second install.
        packages += [p for p in here if not (p.name in twice and p.broken == NO_METADATA)]
    try:
        return _with_conda(tree, packages, prefix, known), unread
    except Unreadable as failure:
        return tuple(packages), [*unread, str(failure)]


NO_METADATA = "its METADATA is missing"


def normalise(name: str) -> str:
    """PEP 503: 'Nvidia_cuDNN.cu12' -> 'nvidia-cudnn-cu12'."""
    return _SEPARATORS.sub("-", name).lower()


def _entries(site: str, names: list[str], known: frozenset[str]) -> list[_Entry]:
    found = []
    for folder in names:
        if folder.endswith(".dist-info"):
            stem = folder[:-10]
        elif folder.endswith(".egg-info"):
            stem = re.sub(r"-py\d+(\.\d+)?$", "", folder[:-9])
        else:
            continue
        name, _, version = stem.rpartition("-")
        if not name:
            name, version = stem, ""
        name = normalise(name)
        if _wanted(name, known) and not name.startswith("~"):
            found.append(_Entry(site, folder, name, version))
    return found


def _wanted(name: str, known: frozenset[str]) -> bool:
    return not known or name in known or name.startswith(CUDA_NAMES)


def _read_package(tree: Tree, entry: _Entry, beside: frozenset[str], known: frozenset[str]) -> Package:
    place = f"{entry.site}/{entry.folder}"
    metadata = _headers(tree, place, egg=entry.folder.endswith(".egg-info"))
    told = _told(tree, entry, metadata.get("version", [entry.version])[0])
    wheel = tree.find_text(f"{place}/WHEEL", 16384) or ""
    tag = re.search(r"^Tag:\s*((\S+?)-\S+)", wheel, re.MULTILINE)
    variant = local_variant(told.version) or told.variant
    installer = (tree.find_text(f"{place}/INSTALLER", 256) or "").strip()
    if not installer and entry.site.endswith("/dist-packages") and "/local/" not in entry.site:
        installer = "apt"
    return Package(
        name=entry.name,
        version=shown(told.version) or None,
        variant=variant,
        cuda=told.cuda or (cuda_from_tag(variant) if variant else None),
        cudnn=told.cudnn,
        hip=told.hip,
        capabilities=told.capabilities,
        installer=shown(installer),
        location=shown(entry.site),
        build=tag.group(1) if tag else "",
        python_tag=tag.group(2) if tag else "",
        requires=tuple(  # of a list: one empty tuple on every Python, so that the default is recognised
            [
                shown(line)
                for line in metadata.get("requires-dist", ())
                if _wanted(normalise((_NAME.match(line) or [""])[0]), known)
            ]
        ),
        broken=_fault(tree, entry, bool(metadata), beside),
        source=shown(told.source or place),
    )


def _headers(tree: Tree, place: str, egg: bool) -> dict[str, list[str]]:
    """Version and Requires-Dist of METADATA; empty where there is none. Its description is not read."""
    text = tree.find_text(f"{place}/PKG-INFO" if egg else f"{place}/METADATA", 131072)
    if text is None and egg:
        text = tree.find_text(place, 131072)  # distutils wrote one file
    found: dict[str, list[str]] = {}
    for line in (text or "").splitlines():
        if not line:
            break
        key, sep, value = line.partition(":")
        if sep and key.lower() in ("name", "version", "requires-dist"):
            found.setdefault(key.lower(), []).append(value.strip())
    return found


def _told(tree: Tree, entry: _Entry, version: str) -> Witness:
    """What the build's own text files say; where they say nothing, the version of the metadata alone."""
    module = entry.name.replace("-", "_")
    for file in WITNESSES.get(entry.name, (f"{module}/version.py", f"{module}/_version.py")):
        text = tree.find_text(f"{entry.site}/{file}", 131072)
        if text:
            return parse_witness(text, version, f"{entry.site}/{file}")
    return Witness(version)


def _fault(tree: Tree, entry: _Entry, metadata: bool, beside: frozenset[str]) -> str:
    """Why it can't be imported although it is installed; empty where nothing speaks against it."""
    place = f"{entry.site}/{entry.folder}"
    if not metadata:
        return NO_METADATA
    record = tree.find_text(f"{place}/RECORD", 262144)
    if not record or "__editable__" in record or _is_linked(record):
        return ""
    tops = set(_packages(record))
    named = (tree.find_text(f"{place}/top_level.txt", 4096) or "").split()
    named = [name.partition("/")[0] for name in named]  # some of NVIDIA's name 'nvidia/cusparselt'
    tops |= {name for name in named if f"\n{name}/" in f"\n{record}"}
    tops = {name for name in tops if normalise(name) == entry.name} or tops
    if tops and not tops & beside:
        return f"its folder {shown(min(tops))}/ is missing"
    for top in sorted(tops & beside):
        if f"\n{top}/__init__.py," in f"\n{record}" and not _there(tree, f"{entry.site}/{top}/__init__.py"):
            return f"{shown(top)}/__init__.py is missing"
    return ""


def _is_linked(record: str) -> bool:
    """Does a path file in the site folder lead to what is installed?"""
    return (".pth," in record or ".egg-link," in record) and bool(_PATH_FILE.search(record))


def _packages(record: str) -> Iterator[str]:
    """The top folders with an __init__.py; torch's record has thousands of deeper ones, a line each."""
    end = record.find("/__init__.py,")
    while end >= 0:
        name = record[record.rfind("\n", 0, end) + 1 : end]
        if name and not set(name) & set("/,."):
            yield name
        end = record.find("/__init__.py,", end + 1)


def _there(tree: Tree, path: str) -> bool:
    try:
        return tree.exists(path)
    except Unreadable:
        return True  # there, if unreadable


def _with_conda(tree: Tree, packages: list[Package], prefix: str, known: frozenset[str]) -> tuple[Package, ...]:
    """Join conda's records: they name channel and build of what conda put there, and its libraries without metadata."""
    result = list(packages)
    for file in tree.names(f"{prefix}/conda-meta"):
        if not file.endswith(".json") or file.count("-") < 2:
            continue
        conda_name, version, build = file[:-5].rsplit("-", 2)
        name = CONDA_NAMES.get(conda_name, normalise(conda_name))
        if not _wanted(name, known):
            continue
        place = f"{prefix}/conda-meta/{file}"
        head = tree.find_text(place, 16384) or ""
        match = re.search(r'"channel"\s*:\s*"([^"]*)"', head)
        channel = re.sub(r"/(linux-\S+|noarch)$", "", match.group(1)).rpartition("/")[2] if match else ""
        conda = _of_conda(name, version, build, channel, prefix, place)
        for index, package in enumerate(result):
            ours = package.name == name and package.installer in ("conda", "")
            if ours and _public(package.version) == _public(version):
                result[index] = _joined(package, conda)
                break
        else:
            result.append(conda)
    return tuple(result)


def _of_conda(name: str, version: str, build: str, channel: str, prefix: str, place: str) -> Package:
    match = re.search(r"cuda_?(\d{2})\.?(\d)(?!\d)", build)  # py3.11_cuda12.1_cudnn8.9.2_0, cuda126_mkl_py312h…
    return Package(
        name=name,
        version=version,
        variant="cpu" if re.match(r"(py\d[\d.]*_)?cpu", build) else None,
        cuda=f"{match.group(1)}.{match.group(2)}" if match else None,
        installer="conda",
        location=shown(prefix),
        channel=channel,
        build=build,
        source=shown(place),
    )


def _joined(package: Package, conda: Package) -> Package:
    return msgspec.structs.replace(
        package,
        installer="conda",
        channel=conda.channel,
        build=conda.build,
        cuda=package.cuda or conda.cuda,
        variant=package.variant or conda.variant,
    )


def _public(version: Optional[str]) -> str:
    return (version or "").partition("+")[0]
