"""Adds to a snapshot's stack what only its binaries tell: device code, the libraries that will load, and the ABI."""

from __future__ import annotations

import itertools
import os
import posixpath
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import msgspec

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Binary, ForwardNote, Library, Package, Stack
from envcheck.probes.abi import Symbols, cxx11_abi
from envcheck.probes.deciding import decides
from envcheck.probes.elf import Dynamic, NotElf
from envcheck.probes.extensions import Extension, find_extensions
from envcheck.probes.fatbin import read_binary
from envcheck.probes.forward import read_forward_note
from envcheck.probes.load_environment import Installed, Played, find_installed, play_imports
from envcheck.probes.loader import Object, Process
from envcheck.probes.owners import Owner, Site, find_owners, foreign_sites, origin_of, owner_of, read_sites, version_of
from envcheck.probes.ptxas import find_ptxas
from envcheck.probes.tree import Tree, Unreadable, shown

COMPAT_FOLDERS = ("/usr/local/cuda/compat", "/usr/local/cuda/compat/lib.real")
_MOSTLY = 0.25  # a capability is the build's when this share of the main library's modules has it


def inspect_binaries(
    snapshot: Snapshot, *, root: Path = Path("/"), env: Optional[Mapping[str, str]] = None, deadline: float = 5.0
) -> Stack:
    """The snapshot's stack with `binaries`, `libraries`, `openings`, `ptxas` and `forward`, read under `root`.

    `env` is the environment of the process that will import the framework. Where no framework is installed that has
    device code, only the compat library is looked at. After `deadline` seconds no further extension is read, which is
    said in the fact's source.
    """
    stack, tree = snapshot.stack, Tree(str(root))
    ends = time.monotonic() + deadline
    unasked = unknown("ptxas of JIT compilers: looked at only beside a GPU")
    changes: dict[str, Any] = {"forward": _forward(tree, None), "ptxas": unasked}
    python, packages = stack.python.find(), stack.packages.find() or ()
    if python is None or not python.executable:
        return msgspec.structs.replace(stack, **changes)
    sites = read_sites(tree, site_folders(stack))
    if any(gpu.vendor == "nvidia" for gpu in snapshot.machine.gpus.find() or ()):
        changes["ptxas"] = known(tuple(find_ptxas(tree, sites, env or {})), "files of packages")
    installed = find_installed(sites, packages)
    if not installed:
        return msgspec.structs.replace(stack, **changes)
    extensions = [e for e in find_extensions(tree, sites, packages) if time.monotonic() < ends]
    conda = python.prefix if python.kind == "conda" else ""
    with Symbols(tree) as symbols:
        try:
            played = play_imports(tree, env or {}, python, sites, installed, extensions, symbols)
        except (Unreadable, NotElf, OSError) as failure:
            why = unknown(f"what will load: {failure}")
            return msgspec.structs.replace(
                stack, **changes, openings=why, binaries=_binaries(tree, installed, (), ends)
            )
        changes["packages"] = _with_abi(stack.packages, installed, played, symbols)
    paths = [posixpath.normpath(thing.path) for thing in played.process.objects]
    owners = find_owners(tree, [*sites, *read_sites(tree, foreign_sites(paths, sites))], packages)
    libraries = tuple(_libraries(tree, played.process, sites, owners, conda))
    changes["libraries"] = known(_joined(libraries, stack.libraries.find() or ()), _source(env))
    changes["openings"] = known(tuple(played.openings), _source(env))
    compiled = [e for e in extensions if any(o.path == shown(e.path) for o in played.openings)]
    changes["binaries"] = _binaries(tree, installed, compiled, ends)
    changes["packages"] = _with_capabilities(changes["packages"], installed, changes["binaries"])
    libcuda = played.process.find("libcuda.so.1")
    changes["forward"] = _forward(tree, libcuda.path if libcuda else None)
    return msgspec.structs.replace(stack, **changes)


def site_folders(stack: Stack) -> list[str]:
    """The folders that the interpreter imports from: the probe of packages names them as its source."""
    named = [part for part in stack.packages.source.split(", ") if part.startswith("/")]
    return [*named, *(package.location for package in stack.packages.find() or () if package.location)]


def _source(env: Optional[Mapping[str, str]]) -> str:
    told = [name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if (env or {}).get(name)]
    return f"the loader's search worked out (with {', '.join(told)})" if told else "the loader's search worked out"


# ---- device code
def _binaries(
    tree: Tree, installed: Sequence[Installed], extensions: Sequence[Extension], ends: float
) -> Fact[tuple[Binary, ...]]:
    found: list[Binary] = []
    files = [(t.path(file), t.package.name, True) for t in installed for file in t.plan.main]
    files += [(t.path(file), t.package.name, False) for t in installed for file in t.plan.more]
    files += [(e.path, e.package, False) for e in extensions]
    left = 0
    for path, package, main in files:
        if time.monotonic() > ends:
            left += 1
            continue
        try:
            binary = read_binary(tree, path, package)
        except (NotElf, Unreadable) as failure:
            binary = Binary(path=shown(path), package=package, unread=str(failure))
        if binary:
            found.append(msgspec.structs.replace(binary, main=main))
    return known(tuple(found), "ELF headers" + (f" ({left} files not read in time)" if left else ""))


def _with_capabilities(
    packages: Fact[tuple[Package, ...]], installed: Sequence[Installed], binaries: Fact[tuple[Binary, ...]]
) -> Fact[tuple[Package, ...]]:
    told: dict[str, tuple[str, ...]] = {}
    for binary in binaries.find() or ():
        if binary.main and binary.modules:
            counts = {**binary.sass, **{f"{name}+PTX": count for name, count in binary.ptx.items()}}
            told[binary.package] = tuple(name for name, count in counts.items() if count >= _MOSTLY * binary.modules)
    return _changed(
        packages, installed, lambda package: {"capabilities": told[package.name]} if package.name in told else {}
    )


def _with_abi(
    packages: Fact[tuple[Package, ...]], installed: Sequence[Installed], played: Played, symbols: Symbols
) -> Fact[tuple[Package, ...]]:
    core = played.process.find("libc10.so")
    try:
        abi = cxx11_abi(symbols, core.path) if core else None
    except (NotElf, Unreadable):
        abi = None
    return _changed(packages, installed[:1], lambda _: {"cxx11_abi": abi} if abi is not None else {})


def _changed(
    packages: Fact[tuple[Package, ...]], installed: Sequence[Installed], changes: Any
) -> Fact[tuple[Package, ...]]:
    ours = [thing.package for thing in installed]
    if not packages.known:
        return packages
    places = {(package.name, package.location) for package in ours}
    return msgspec.structs.replace(
        packages,
        value=tuple(
            msgspec.structs.replace(p, **changes(p)) if (p.name, p.location) in places else p
            for p in packages.value or ()
        ),
    )


# ---- what will load
def _libraries(
    tree: Tree, process: Process, sites: Sequence[Site], owners: Mapping[str, list[Owner]], conda: str
) -> Iterator[Library]:
    for thing in process.objects:
        asked = thing.name.rpartition("/")[2]
        soname = thing.dynamic.soname or asked
        if decides(soname) and decides(asked):  # not a wheel's private copy under a name of its own
            first = process.find(soname) is thing
            again = "" if first else "loaded too, but symbols are bound to the first copy: "
            named = thing._replace(reason=again + thing.reason)
            rows = _rows(tree, process, named, soname, sites, owners, conda)
            yield from rows if first else (msgspec.structs.replace(row, order=1) for row in itertools.islice(rows, 1))
    for name, place, fault in process.halfway:
        thing = Object(name, place.path, f"{place.reason}; it lacks {fault.name}", None, Dynamic())
        yield from _rows(tree, process, thing, name, sites, owners, conda)


def _rows(
    tree: Tree,
    process: Process,
    thing: Object,
    soname: str,
    sites: Sequence[Site],
    owners: Mapping[str, list[Owner]],
    conda: str,
) -> Iterator[Library]:
    by = process.objects[thing.by].path.rpartition("/")[2] if thing.by is not None else ""
    asked = f", asked for by {shown(by)}" if by else ""
    seen: set[object] = set()
    places = [(thing.path, f"{thing.reason}{asked}")]
    places += [(place.path, place.reason) for place in (*thing.others, *process.lying(soname))]
    named = [path for path in owners if path.endswith(f"/{soname}")]
    own = [path for path in named if any(path.startswith(f"{site.path}/") for site in sites)]
    places += [(path, "no step of the search leads there first") for path in own]
    order = -1
    for path, reason in places:
        plain = posixpath.normpath(path)
        status = _status(tree, plain)
        identity = (status.st_dev, status.st_ino) if status else plain
        if plain in seen or identity in seen:
            continue
        seen |= {plain, identity}
        order += 1
        owner = owner_of(tree, owners, plain)
        yield Library(
            soname=soname,
            path=shown(plain),
            version=owner.version if owner else version_of(tree, plain),
            origin=origin_of(plain, sites, conda),
            package=owner.package if owner else "",
            order=order,
            reason=reason if order == 0 else f"not loaded: {reason}",
            source="RECORD" if owner else "file name",
        )


def _status(tree: Tree, path: str) -> Optional[os.stat_result]:
    try:
        return tree.stat(path)
    except Unreadable:
        return None


def _joined(ours: Sequence[Library], theirs: Sequence[Library]) -> tuple[Library, ...]:
    """Ours, which know the order, then those that only lie about."""
    seen = {library.path for library in ours}
    return (*ours, *(library for library in theirs if library.path not in seen))


def _forward(tree: Tree, libcuda: Optional[str]) -> Fact[Optional[ForwardNote]]:
    """The note of the libcuda that loads, else of the one in the compat folder."""
    for path in (libcuda, *(f"{folder}/libcuda.so.1" for folder in COMPAT_FOLDERS)):
        try:
            note = read_forward_note(tree, path) if path else None
        except (NotElf, Unreadable) as failure:
            return unknown(f"ELF note of the cuda-compat libcuda: {failure}")
        if note:
            return known(msgspec.structs.replace(note, loads=path == libcuda), note.source)
    return known(None, "no cuda-compat libcuda")
