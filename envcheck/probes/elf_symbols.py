"""The dynamic symbols of an ELF file and their versions, and a look-up of single ones as the loader does it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Optional

from envcheck.probes.elf import MAX_TABLE, Elf, NotElf, text_at
from envcheck.probes.tree import shown

_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_DT_VERNEED, _DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


class Needed(NamedTuple):
    """A version that a file needs of a library: ('libstdc++.so.6', 'GLIBCXX_3.4.29')."""

    library: str
    version: str
    weak: bool


class Symbol(NamedTuple):
    """A dynamic symbol. `version` is its version name, `library` the file that an undefined one's version names."""

    name: str
    weak: bool
    defined: bool
    version: str = ""
    library: str = ""


class _Window:
    """Reads small records that lie close together with one read for many."""

    def __init__(self, file: Elf) -> None:
        self._file, self._start, self._data = file, 0, b""

    def unpack(self, form: str, offset: int) -> tuple[int, ...]:
        size = struct.calcsize(form)
        if not self._start <= offset <= self._start + len(self._data) - size:
            left = self._file.size - offset
            self._start, self._data = offset, self._file.read(offset, max(size, min(4096, left)))
        return struct.unpack_from(form, self._data, offset - self._start)


def version_needs(file: Elf) -> dict[int, Needed]:
    """Version index -> what is needed of which library (section .gnu.version_r)."""
    start, count = file.first(_DT_VERNEED), min(file.first(_DT_VERNEEDNUM) or 0, 4096)
    found: dict[int, Needed] = {}
    if start is None:
        return found
    at, window = file.offset_of(start), _Window(file)
    for _ in range(count):
        _, parts, name_at, aux, following = window.unpack("<HHIII", at)
        library = file.word(name_at)
        place = at + aux
        for _ in range(min(parts, 4096)):
            _, flags, index, name, step = window.unpack("<IHHII", place)
            found[index & 0x7FFF] = Needed(library, file.word(name), bool(flags & 2))
            if not step:
                break
            place += step
        if not following:
            break
        at += following
    return found


def version_definitions(file: Elf) -> dict[int, str]:
    """Version index -> name that this file defines (section .gnu.version_d), without the file's own name."""
    start, count = file.first(_DT_VERDEF), min(file.first(_DT_VERDEFNUM) or 0, 4096)
    found: dict[int, str] = {}
    if start is None:
        return found
    at, window = file.offset_of(start), _Window(file)
    for _ in range(count):
        _, flags, index, parts, _, aux, following = window.unpack("<HHHHIII", at)
        if parts and not flags & 1:
            name, _ = window.unpack("<II", at + aux)
            found[index & 0x7FFF] = file.word(name)
        if not following:
            break
        at += following
    return found


def symbols(file: Elf, *, undefined: bool = False) -> Iterator[Symbol]:
    """Every dynamic symbol with a name, or only the undefined ones. Big libraries are asked by `exporter` instead."""
    place = file.first(_DT_SYMTAB)
    if place is None:
        return
    count = _symbol_count(file)
    if count * 24 > MAX_TABLE:
        raise NotElf(f"{shown(file.path)}: {count} symbols")
    place_of_names, size = file.string_table()
    if size > MAX_TABLE:
        raise NotElf(f"{shown(file.path)}: a string table of {size} bytes")
    strings, needs, defines = file.read(place_of_names, size), version_needs(file), version_definitions(file)
    versym = file.first(_DT_VERSYM)
    indices: tuple[int, ...] = ()
    if versym is not None:
        indices = struct.unpack(f"<{count}H", file.read(file.offset_of(versym), 2 * count))
    rows = struct.iter_unpack("<IBBHQQ", file.read(file.offset_of(place), 24 * count))
    for number, (name, info, _, section, _, _) in enumerate(rows):
        if not name or (section and undefined):
            continue
        index = indices[number] & 0x7FFF if indices else 0
        need = needs.get(index) if not section else None
        yield Symbol(
            name=text_at(strings, name),
            weak=info >> 4 == 2,
            defined=section != 0,
            version=need.version if need else defines.get(index, ""),
            library=need.library if need else "",
        )


def _symbol_count(file: Elf) -> int:
    table = file.first(_DT_HASH)
    if table is not None:
        count: int = struct.unpack("<II", file.read(file.offset_of(table), 8))[1]
        return count
    gnu = file.first(_DT_GNU_HASH)
    if gnu is None:
        # Neither table: the string table follows the symbols in every linker's output.
        place, strings = file.first(_DT_SYMTAB) or 0, file.first(_DT_STRTAB) or 0
        return max(0, strings - place) // 24
    at = file.offset_of(gnu)
    buckets, first, bloom, _ = struct.unpack("<IIII", file.read(at, 16))
    if buckets * 4 > MAX_TABLE or bloom * 8 > MAX_TABLE:
        raise NotElf(f"{shown(file.path)}: strange hash table")
    chains = at + 16 + 8 * bloom + 4 * buckets
    heads = struct.unpack(f"<{buckets}I", file.read(at + 16 + 8 * bloom, 4 * buckets))
    last = max(heads, default=0)
    if last < first:
        return int(first)
    while True:
        piece = file.read(chains + 4 * (last - first), min(4096, file.size - chains - 4 * (last - first)) & ~3)
        if not piece:
            raise NotElf(f"{shown(file.path)}: hash table without end")
        for value in struct.unpack(f"<{len(piece) // 4}I", piece):
            last += 1
            if value & 1:
                return int(last)
        if last * 24 > MAX_TABLE:
            raise NotElf(f"{shown(file.path)}: more than {last} symbols")


def exporter(file: Elf) -> Exporter:
    """A look-up of single symbols by the hash table, as the loader does. Raises NotElf where there is none."""
    gnu, symtab = file.first(_DT_GNU_HASH), file.first(_DT_SYMTAB)
    if gnu is None or symtab is None:
        return Exporter(file, None, 0, frozenset(s.name for s in symbols(file) if s.defined))
    return Exporter(file, file.offset_of(gnu), file.offset_of(symtab), frozenset())


class Exporter:
    """Asks an open file whether it defines a symbol: bloom filter, bucket, chain; no table is read whole."""

    def __init__(self, elf: Elf, table: Optional[int], symbols: int, names: frozenset[str]) -> None:
        self._elf, self._table, self._symbols, self._names = elf, table, symbols, names
        if table is not None:
            self._buckets, self._first, self._bloom, self._shift = struct.unpack("<IIII", elf.read(table, 16))
            if not self._buckets or not self._bloom:
                raise NotElf(f"{shown(elf.path)}: empty hash table")
            self._strings, self._size = elf.string_table()

    def has(self, name: str, value: Optional[int] = None) -> bool:
        """Does the file define `name`? `value` is its hash, where it is known already. Raises NotElf."""
        if self._table is None:
            return name in self._names
        value = gnu_hash(name) if value is None else value
        read = self._elf.read
        word = int.from_bytes(read(self._table + 16 + 8 * (value // 64 % self._bloom), 8), "little")
        if not (word >> value % 64) & (word >> (value >> self._shift) % 64) & 1:
            return False
        place = self._table + 16 + 8 * self._bloom
        index = int.from_bytes(read(place + 4 * (value % self._buckets), 4), "little")
        if index < self._first:
            return False
        chains = place + 4 * self._buckets
        wanted = name.encode() + b"\0"
        for _ in range(65536):
            held = int.from_bytes(read(chains + 4 * (index - self._first), 4), "little")
            if held | 1 == value | 1:
                text, _, _, section = struct.unpack("<IBBH", read(self._symbols + 24 * index, 8))
                if section and text + len(wanted) <= self._size and read(self._strings + text, len(wanted)) == wanted:
                    return True
            if held & 1:
                return False
            index += 1
        raise NotElf(f"{shown(self._elf.path)}: hash chain without end")


def gnu_hash(name: str) -> int:
    """The hash of the GNU hash table."""
    value = 5381
    for byte in name.encode():
        value = value * 33 + byte & 0xFFFFFFFF
    return value
