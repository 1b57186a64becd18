"""Reads the few parts of ELF files that decide what loads and runs: headers, sections, notes, dynamic entries.

By struct instead of pyelftools, whose import alone costs half of what doctor may take; a test holds both to one answer.
By pread instead of mmap: a file that is truncated under our hands is then a short read, not a SIGBUS.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple, Optional

from envcheck.probes.tree import Tree, shown

MAX_SECTIONS = 4096
MAX_SEGMENTS = 512
MAX_TABLE = 64 * 2**20  # no string or symbol table of a real library is larger
MAX_DYNAMIC = 2**20
SMALL_TABLE = 2**18  # names of such a table are read at once, of a larger one each by itself
MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0xF3: "riscv64", 0x03: "i386", 0x28: "arm"}
EM_CUDA = 190

_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 14, 15, 29
_DT_FLAGS_1 = 0x6FFFFFFB
_NODEFLIB = 0x800


class NotElf(Exception):
    """The file is no ELF file, or a damaged one; `str()` says which and where. `harmless`: a loader passes it over."""

    def __init__(self, message: str, *, harmless: bool = False) -> None:
        super().__init__(message)
        self.harmless = harmless


class Section(NamedTuple):
    """A section header; `offset` and `size` are bytes in the file."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int


class Segment(NamedTuple):
    """A program header."""

    kind: int
    offset: int
    address: int
    size: int


class Dynamic(NamedTuple):
    """What the dynamic section asks of the loader."""

    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str = ""
    runpath: str = ""
    no_default: bool = False


class Elf:
    """An open ELF file (64-bit, little-endian), every offset checked against its size. Close it, or use `with`."""

    def __init__(self, handle: int, path: str, *, strict: bool = True) -> None:
        """Takes over the descriptor. Unless `strict`, a file of another format opens too, with `is_elf` False."""
        self.path = path
        self._handle = handle
        self._entries: Optional[dict[int, list[int]]] = None
        self._table: Optional[tuple[int, int]] = None
        self._names: Optional[bytes] = None
        self.is_elf = True
        try:
            status = os.fstat(handle)
            self.size, self.identity = status.st_size, (status.st_dev, status.st_ino)
            if strict or self.size < 4 or self.read(0, 4) == b"\x7fELF":
                self._read_header()
            else:
                self.is_elf = False
        except BaseException:
            os.close(handle)
            raise

    def __enter__(self) -> Elf:  # noqa: PYI034 (Self needs Python 3.11)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def fileno(self) -> int:
        """The descriptor, for reads whose bounds are known."""
        return self._handle

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes at `offset`; raises NotElf where the file doesn't have them."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise NotElf(f"{shown(self.path)}: truncated (needs bytes up to {offset + size}, has {self.size})")
        try:
            data = os.pread(self._handle, size, offset)
        except OSError as failure:
            raise NotElf(f"{shown(self.path)}: {failure.strerror}") from failure
        if len(data) != size:
            raise NotElf(f"{shown(self.path)}: it was cut while it was read")
        return data

    def _read_header(self) -> None:
        if self.size < 64:
            raise NotElf(f"{shown(self.path)}: {'empty' if not self.size else f'too short ({self.size} bytes)'}")
        head = self.read(0, 64)
        if head[:4] != b"\x7fELF":
            raise NotElf(f"{shown(self.path)}: not an ELF file")
        if head[4] != 2 or head[5] != 1:
            raise NotElf(f"{shown(self.path)}: not a 64-bit little-endian ELF file", harmless=head[4] == 1)
        self.abi = head[8]
        fields = struct.unpack_from("<HHIQQQIHHHHHH", head, 16)
        self.kind, self.machine, self.flags = fields[0], fields[1], fields[6]
        self._phoff, self._shoff = fields[4], fields[5]
        self._phentsize, self._phnum, self._shentsize, self._shnum, self._shstrndx = fields[8:13]
        self.segments = self._read_segments()

    def _read_segments(self) -> tuple[Segment, ...]:
        if not self._phnum:
            return ()
        if self._phentsize != 56 or self._phnum > MAX_SEGMENTS:
            raise NotElf(f"{shown(self.path)}: strange program headers ({self._phnum} of {self._phentsize} bytes)")
        data = self.read(self._phoff, 56 * self._phnum)
        return tuple(Segment(f[0], f[2], f[3], f[5]) for f in struct.iter_unpack("<IIQQQQQQ", data))

    def sections(self) -> tuple[Section, ...]:
        """All section headers; () for a file stripped of them. Raises NotElf."""
        if not self._shoff or not self._shnum:
            return ()
        if self._shentsize != 64 or self._shnum > MAX_SECTIONS:
            raise NotElf(f"{shown(self.path)}: strange section headers ({self._shnum} of {self._shentsize} bytes)")
        rows = list(struct.iter_unpack("<IIQQQQIIQQ", self.read(self._shoff, 64 * self._shnum)))
        if self._shstrndx >= len(rows):
            raise NotElf(f"{shown(self.path)}: section names are missing")
        names = self.read(rows[self._shstrndx][4], min(rows[self._shstrndx][5], 2**20))
        return tuple(Section(text_at(names, row[0]), row[1], row[2], row[4], row[5]) for row in rows)

    def notes(self) -> Iterator[tuple[str, int, bytes]]:
        """(owner, type, description) of every note of the note sections, else of the note segments."""
        places = [(s.offset, s.size) for s in self.sections() if s.kind == 7]
        for offset, size in places or [(s.offset, s.size) for s in self.segments if s.kind == 4]:
            data = self.read(offset, min(size, 2**20))
            at = 0
            while at + 12 <= len(data):
                name_size, text_size, kind = struct.unpack_from("<III", data, at)
                text = at + 12 + (name_size + 3 & ~3)
                if text + text_size > len(data):
                    break
                yield _plain(data[at + 12 : at + 12 + name_size].rstrip(b"\0")), kind, data[text : text + text_size]
                at = text + (text_size + 3 & ~3)

    # ---- the dynamic section
    def offset_of(self, address: int) -> int:
        """Where an address of the loaded image lies in the file. Raises NotElf."""
        for segment in self.segments:
            if segment.kind == 1 and segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        raise NotElf(f"{shown(self.path)}: address {address:#x} is in no segment")

    def _dynamic(self) -> dict[int, list[int]]:
        if self._entries is None:
            entries: dict[int, list[int]] = {}
            for segment in self.segments:
                if segment.kind == 2:
                    data = self.read(segment.offset, min(segment.size, MAX_DYNAMIC) & ~15)
                    for tag, value in struct.iter_unpack("<QQ", data):
                        if tag == 0:
                            break
                        entries.setdefault(tag, []).append(value)
                    break
            self._entries = entries
        return self._entries

    def first(self, tag: int) -> Optional[int]:
        """The value of the first dynamic entry with this tag."""
        values = self._dynamic().get(tag)
        return values[0] if values else None

    def string_table(self) -> tuple[int, int]:
        """Offset and size of the dynamic string table. Raises NotElf where there is none."""
        if self._table is None:
            place = self.first(_DT_STRTAB)
            if place is None:
                raise NotElf(f"{shown(self.path)}: no dynamic string table")
            self._table = self.offset_of(place), self.first(_DT_STRSZ) or 0
        return self._table

    def word(self, offset: int) -> str:
        """One string of the table, without reading all of it (libtorch's has 20 MB)."""
        base, size = self.string_table()
        if offset >= size:
            raise NotElf(f"{shown(self.path)}: a name lies outside the string table")
        if size <= SMALL_TABLE:
            if self._names is None:
                self._names = self.read(base, size)
            return text_at(self._names, offset)
        piece = self.read(base + offset, min(size - offset, 512))
        end = piece.find(b"\0")
        if end < 0:
            piece = self.read(base + offset, min(size - offset, 65536))
            end = piece.find(b"\0")
        return _plain(piece[: end if end >= 0 else None])

    def dynamic(self) -> Dynamic:
        """SONAME, NEEDED, RPATH and RUNPATH. Raises NotElf."""
        entries = self._dynamic()
        if not entries:
            return Dynamic()

        def words(tag: int) -> tuple[str, ...]:
            return tuple(self.word(value) for value in entries.get(tag, ())[:4096])

        return Dynamic(
            soname="".join(words(_DT_SONAME)[:1]),
            needed=words(_DT_NEEDED),
            rpath="".join(words(_DT_RPATH)[:1]),
            runpath="".join(words(_DT_RUNPATH)[:1]),
            no_default=bool((self.first(_DT_FLAGS_1) or 0) & _NODEFLIB),
        )


def open_elf(tree: Tree, path: str) -> Optional[Elf]:
    """The file, opened; None where nothing is there. Raises Unreadable, NotElf."""
    handle = tree.open(path)
    return None if handle is None else Elf(handle, path)


def text_at(table: bytes, offset: int) -> str:
    """The string that begins at `offset` of a string table."""
    end = table.find(b"\0", offset)
    return _plain(table[offset : end if end >= 0 else None])


def _plain(data: bytes) -> str:
    return data.decode("utf-8", "replace")
