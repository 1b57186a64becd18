"""Says what the loader will make of a compiled file: an Opening, with the fault if there is one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Optional

import msgspec

from envcheck.model.stack import Opening, Python
from envcheck.probes.abi import (
    SymbolFault,
    Symbols,
    abi_of_names,
    unbound_framework_symbols,
    unbound_library_symbols,
    version_faults,
)
from envcheck.probes.deciding import decides
from envcheck.probes.elf import NotElf
from envcheck.probes.extensions import Extension, other_python
from envcheck.probes.load_plans import FRAMEWORK_LIBRARIES
from envcheck.probes.loader import LoadFault, Process
from envcheck.probes.tree import Unreadable, shown

_FRAMEWORK = frozenset(FRAMEWORK_LIBRARIES)
_with = msgspec.structs.replace


def judge_opening(
    process: Process, known: Symbols, path: str, package: str, fault: Optional[LoadFault], start: int
) -> Opening:
    """The Opening of a file that was just opened: `start` is how many objects were loaded before."""
    opening = Opening(path=shown(path), package=package, source="dynamic sections")
    if fault:
        return _failed(opening, fault)
    return _bound(process, known, opening, start)


def _failed(opening: Opening, fault: LoadFault) -> Opening:
    missing = fault.why.startswith("cannot open")
    return _with(
        opening,
        fault="missing" if missing else "damaged",
        name=shown(fault.name),
        wanted_by=shown(fault.by),
        text=f"{shown(fault.name)}: {fault.why}" if missing else fault.why,
    )


def _bound(process: Process, known: Symbols, opening: Opening, start: int) -> Opening:
    """Versions of everything that was newly loaded, then symbols between CUDA libraries of different sources."""
    system = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
    new = [i for i in range(start, len(process.objects)) if not process.objects[i].path.startswith(system)]
    for version in version_faults(process, known, new):
        return _with(
            opening,
            fault="version",
            name=version.need,
            wanted_by=shown(version.by),
            provider=shown(version.provider),
            text=f"{shown(version.provider)}: version `{version.need}' not found (required by {shown(version.by)})",
        )
    for index in new:
        fault = _mixed(process, known, index)
        if fault:
            return _with_symbols(opening, fault)
    return opening


def _mixed(process: Process, known: Symbols, index: int) -> Optional[SymbolFault]:
    consumer = process.objects[index]
    for name in consumer.dynamic.needed:
        provider = process.find(name)
        if provider is None or not name.startswith(("libcu", "libnv", "libnccl")) or not decides(name):
            continue
        if _source(provider.path) == _source(consumer.path):
            continue  # built and shipped together
        try:
            fault = unbound_library_symbols(process, known, index, name)
        except (NotElf, Unreadable):
            continue
        if fault:
            return fault
    return None


def _source(path: str) -> str:
    """The site folder or library folder that a file was shipped in."""
    plain = posixpath.normpath(path)
    site, found, _ = plain.partition("-packages/")
    return site + found if found else plain.rpartition("/")[0]


def _with_symbols(opening: Opening, fault: SymbolFault) -> Opening:
    version = f", version {fault.version}" if fault.version else ""
    return _with(
        opening,
        fault="symbol",
        name=fault.names[0],
        symbols=fault.names,
        wanted_by=shown(fault.by),
        provider=shown(fault.provider),
        text=f"{shown(fault.by)}: undefined symbol: {fault.names[0]}{version}",
    )


def open_extension(process: Process, python: Python, extension: Extension, known: Symbols) -> Optional[Opening]:
    """Open an extension in `process` and judge it; None for a file that has nothing to do with a framework."""
    needed = process.peek(extension.path)
    if needed is None or not _FRAMEWORK & set(needed):
        return None
    opening = Opening(
        path=shown(extension.path),
        package=extension.package,
        source="dynamic section",
        built_for=_built_for(extension, needed),
    )
    other = other_python(extension.path, python.version or "", bool(python.free_threaded))
    if other:
        return _with(opening, fault="python", name=other, text=f"built for Python {other}")
    start = len(process.objects)
    fault = process.open(extension.path, reason=f"import {extension.package}")
    if fault:
        return _failed(opening, fault)
    opening = _bound(process, known, opening, start)
    index = process.index_of_path(extension.path)
    if opening.fault or index is None:
        return opening
    try:
        names = [s.name for s in known.undefined(extension.path) if s.name.startswith("_Z")]
        opening = _with(opening, cxx11_abi=abi_of_names(names))
        for at in range(start, len(process.objects)):
            if at != index and not _FRAMEWORK & set(process.objects[at].dynamic.needed):
                continue
            unbound = unbound_framework_symbols(process, known, at)
            if unbound:
                return _with_symbols(opening, unbound)
    except (NotElf, Unreadable) as failure:
        return _with(opening, fault="damaged", text=str(failure))
    return opening


def _built_for(extension: Extension, needed: Sequence[str]) -> str:
    """What tells of the framework release and CUDA that it was built for: its version's tag, its libcudart."""
    local = extension.version.partition("+")[2]
    torch = re.search(r"(?:torch|pt)(\d+)\.?(\d+)", local)
    told = [f"torch {torch.group(1)}.{torch.group(2)} ({extension.package} {extension.version})"] if torch else []
    told += [f"CUDA {name.split('.so.')[1].split('.')[0]}" for name in needed if name.startswith("libcudart.so.")]
    return ", ".join(told)
