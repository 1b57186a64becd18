"""Foretells what the loader says once every file is found: 'version not found', 'undefined symbol'."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from envcheck.probes.elf import Elf, NotElf, open_elf
from envcheck.probes.elf_symbols import Exporter, Needed, Symbol, exporter, gnu_hash, symbols, version_definitions
from envcheck.probes.elf_symbols import version_needs as read_needs
from envcheck.probes.load_plans import FRAMEWORK_LIBRARIES, FRAMEWORK_SYMBOL
from envcheck.probes.loader import Process
from envcheck.probes.tree import Tree, Unreadable, shown

MAX_SYMBOLS = 50  # that are named; the first would do to stop the loader
_NEW_STRING = "NSt7__cxx1112basic_string"
_TOKEN = re.compile(r"S[\dA-Z]*_|T\d*_|L[a-z]\d+E|(\d+)|.")
# A constructor that every framework of this family has, in both C++ ABIs.
_WITNESS = (
    ("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", True),
    ("_ZN3c105ErrorC1ENS_14SourceLocationESs", False),
)


class VersionFault(NamedTuple):
    """A version that a file needs and its provider doesn't define."""

    need: str
    by: str
    provider: str


class SymbolFault(NamedTuple):
    """Symbols that a file needs and nobody in its scope defines; `provider` is who should, where that is told."""

    names: tuple[str, ...]
    by: str
    provider: str = ""
    version: str = ""


class Symbols:
    """The files of one process, opened when first asked, each kept open until `close`."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._files: dict[str, Elf] = {}
        self._exporters: dict[str, Exporter] = {}
        self._versions: dict[str, frozenset[str]] = {}
        self._undefined: dict[str, tuple[Symbol, ...]] = {}

    def close(self) -> None:
        """Close them all."""
        for file in self._files.values():
            file.__exit__()
        self._files.clear()

    def __enter__(self) -> Symbols:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _file(self, path: str) -> Elf:
        if path not in self._files:
            file = open_elf(self._tree, path)
            if file is None:
                raise NotElf(f"{shown(path)}: it is gone")
            self._files[path] = file
        return self._files[path]

    def defines(self, path: str, name: str, value: int) -> bool:
        """Does the file define the symbol? Raises Unreadable, NotElf."""
        if path not in self._exporters:
            self._exporters[path] = exporter(self._file(path))
        return self._exporters[path].has(name, value)

    def versions(self, path: str) -> frozenset[str]:
        """The version names that a file defines."""
        if path not in self._versions:
            self._versions[path] = frozenset(version_definitions(self._file(path)).values())
        return self._versions[path]

    def needs(self, path: str) -> tuple[Needed, ...]:
        """The versions that a file needs."""
        return tuple(read_needs(self._file(path)).values())

    def undefined(self, path: str) -> tuple[Symbol, ...]:
        """The symbols that a file must have from others."""
        if path not in self._undefined:
            self._undefined[path] = tuple(s for s in symbols(self._file(path), undefined=True) if not s.weak)
        return self._undefined[path]


def version_faults(process: Process, known: Symbols, indices: Iterable[int]) -> Iterator[VersionFault]:
    """What `ld.so` complains of after it has found every file: it checks versions before it binds symbols."""
    for index in indices:
        thing = process.objects[index]
        try:
            for need in known.needs(thing.path):
                provider = process.find(need.library)
                if provider is None or need.weak:
                    continue
                defined = known.versions(provider.path)
                # A library without versions gives a warning only.
                if defined and need.version not in defined:
                    yield VersionFault(need.version, thing.path, provider.path)
        except (NotElf, Unreadable):
            continue  # whether it can be read at all is the loader's question, answered before


def unbound_framework_symbols(process: Process, known: Symbols, index: int) -> Optional[SymbolFault]:
    """The framework's symbols that the object at `index` needs and nothing in its scope defines.

    Modules are opened with RTLD_NOW, so the first such symbol stops the import. Raises Unreadable, NotElf.
    """
    thing = process.objects[index]
    scope = process.scope(index)
    by_name = {path.rpartition("/")[2]: path for path in scope}
    first = [by_name[name] for name in FRAMEWORK_LIBRARIES if name in by_name]
    rest = [path for path in scope if path not in first]
    missing = []
    for symbol in known.undefined(thing.path):
        if symbol.version or not FRAMEWORK_SYMBOL.match(symbol.name):
            continue
        value = gnu_hash(symbol.name)
        if not any(known.defines(path, symbol.name, value) for path in (*first, *rest)):
            missing.append(symbol.name)
    return SymbolFault(tuple(missing[:MAX_SYMBOLS]), thing.path) if missing else None


def unbound_library_symbols(process: Process, known: Symbols, consumer: int, provider: str) -> Optional[SymbolFault]:
    """The symbols that a CUDA library wants of exactly `provider` (its soname) and the loaded one doesn't have."""
    loaded = process.find(provider)
    thing = process.objects[consumer]
    if loaded is None:
        return None
    wanted = [symbol for symbol in known.undefined(thing.path) if symbol.library == provider]
    missing = [s for s in wanted if not known.defines(loaded.path, s.name, gnu_hash(s.name))]
    if not missing:
        return None
    names = tuple(symbol.name for symbol in missing[:MAX_SYMBOLS])
    return SymbolFault(names, thing.path, loaded.path, missing[0].version)


def cxx11_abi(known: Symbols, path: str) -> Optional[bool]:
    """The C++ ABI of the framework whose core library lies at `path`, by what it exports; None: not told."""
    for name, answer in _WITNESS:
        if known.defines(path, name, gnu_hash(name)):
            return answer
    return None


def abi_of_names(names: Iterable[str]) -> Optional[bool]:
    """The C++ ABI that mangled names tell of: True where a new string is in them, False for an old one."""
    old = False
    for name in names:
        if _NEW_STRING in name:
            return True
        old = old or "Ss" in _without_identifiers(name)
    return False if old else None


def _without_identifiers(name: str) -> str:
    """A mangled name less its identifiers, which may hold anything ('8ClassSsX')."""
    kept, at = [], 0
    while at < len(name):
        token = _TOKEN.match(name, at)
        if token is None:
            break
        at = token.end()
        if token.group(1):
            at += int(token.group(1)[:6])
        elif len(token.group()) == 1:
            kept.append(token.group())
        else:
            kept.append("_")
    return "".join(kept)


def readable(name: str) -> str:
    """The nested name in a mangled one: '_ZN3c105ErrorC2E…' -> 'c10::Error'; the name itself where there is none."""
    match = re.match(r"_Z(?:T[IVST]|GV)?N[KVrRO]*", name)
    parts, at = [], match.end() if match else len(name)
    while at < len(name):
        number = re.match(r"\d+", name[at:])
        if not number:
            break
        start = at + number.end()
        end = start + int(number.group()[:6])
        parts.append(name[start:end])
        at = end
    return "::".join(parts) or name
