"""Reads which GPU architectures a file has device code for: .nv_fatbin sections, .fatbin and .cubin files.

Headers only, payloads are jumped over. The layout is not published; it was established by compiling every architecture
and suffix with nvcc 13.0 and comparing with what cuobjdump lists (tests/unit/probes/test_fatbin.py does it again):
a region is magic 0xBA55ED50, version (2 bytes), header size (2), size of what follows (8); an entry in it has kind
(2 bytes at 0; 1 PTX, 2 machine code, 8 LTO code), header size (4 at 4), payload size (8 at 8), minor and major of the
code's own version (2 and 2 at 24; of PTX its ISA, 9.0 for CUDA 13.0), architecture (4 at 28) and flags (8 at 40), of
which bit 20 is the suffix 'a' and bit 21 the suffix 'f'.
"""

from __future__ import annotations

import os
import re
import struct
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Optional

from envcheck.model.stack import Binary
from envcheck.probes.elf import EM_CUDA, Elf, NotElf
from envcheck.probes.tree import Tree, shown

MAGIC = 0xBA55ED50
MAX_PADDING = 65536
MAX_ENTRIES = 2_000_000  # the largest library met (cuBLASLt) has 5,737
_REGION = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<H2xIQ8xHHI8xQ")
_PTX, _SASS = 1, 2
_A, _F = 1 << 20, 1 << 21
_SUFFIX = _A | _F
_Key = tuple[int, int, int]  # architecture, kind, suffix flags
_LINKED, _RELOCATABLE = ".nv_fatbin", "__nv_relfatbin"
_ARCH = re.compile(rb"-arch[ =]sm_(\d{2,3}[af]?)\b")
_NV_TOOL_NOTE = 2000


class Code(NamedTuple):
    """Device code of a file. `mixes` counts its modules by what each holds: ('7.5', '9.0a', '12.0+PTX')."""

    mixes: dict[tuple[str, ...], int]
    where: str
    ptx_isa: tuple[int, int] = (0, 0)  # the newest PTX version in it

    @property
    def modules(self) -> int:
        """How many modules (regions) there are."""
        return sum(self.mixes.values())

    def counts(self, *, ptx: bool) -> dict[str, int]:
        """'9.0' -> number of modules that hold its machine code (or its PTX)."""
        found: Counter[str] = Counter()
        for mix, count in self.mixes.items():
            for text in mix:
                if text.endswith("+PTX") == ptx:
                    found[text.partition("+")[0]] += count
        return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def read_binary(tree: Tree, path: str, package: str = "") -> Optional[Binary]:
    """The device code of a file; None where there is no file, or none in it. Raises Unreadable, NotElf."""
    handle = tree.open(path)
    if handle is None:
        return None
    with Elf(handle, path, strict=False) as file:
        code = read_code(file)
    if code is None:
        return None
    return Binary(
        path=shown(path),
        package=package,
        modules=code.modules,
        sass=code.counts(ptx=False),
        ptx=code.counts(ptx=True),
        ptx_isa=".".join(map(str, code.ptx_isa)) if any(code.ptx_isa) else "",
        mixes={" ".join(mix): count for mix, count in sorted(code.mixes.items())},
        source=code.where,
    )


def read_code(file: Elf) -> Optional[Code]:
    """The device code of an open file; None where it has none. Raises NotElf for a damaged one."""
    if not file.is_elf:
        head = file.read(0, min(4, file.size))
        if head != MAGIC.to_bytes(4, "little"):
            raise NotElf(f"{shown(file.path)}: neither an ELF file nor a fatbin")
        isa = [(0, 0)]
        return Code(_mixes(_walk(file, 0, file.size, isa)), "fatbin headers", max(isa))
    if file.machine == EM_CUDA:
        return Code({(_cubin(file),): 1}, "cubin header")
    places = {s.name: s for s in file.sections() if s.name in (_LINKED, _RELOCATABLE) and s.kind != 8 and s.size}
    isa = [(0, 0)]
    linked, loose = places.get(_LINKED), places.get(_RELOCATABLE)
    if linked is None:
        if loose is None:
            return None
        return Code(_mixes(_walk(file, loose.offset, loose.size, isa)), f"section {_RELOCATABLE}", max(isa))
    mixes = _mixes(_walk(file, linked.offset, linked.size, isa))
    if loose is not None:
        mixes = _with_jit(mixes, _mixes(_walk(file, loose.offset, loose.size, isa)))
    return Code(mixes, f"section {_LINKED}", max(isa))


def _walk(file: Elf, start: int, size: int, isa: list[tuple[int, int]]) -> list[tuple[_Key, ...]]:
    """What each region holds. Damage inside it raises NotElf: a part of the truth would pass for the whole."""
    at, end, entries, padding = start, start + size, 0, 0
    modules: list[tuple[_Key, ...]] = []
    file.read(start, size and 1)  # the section begins in the file; it is known below that it doesn't end outside
    if end > file.size:
        raise NotElf(f"{shown(file.path)}: truncated (needs bytes up to {end}, has {file.size})")
    read, pread, handle, unpack = file.read, os.pread, file.fileno(), _ENTRY.unpack
    region_header, entry_header = _REGION.size, _ENTRY.size
    while at + region_header <= end:
        magic, _, header, length = _REGION.unpack(read(at, region_header))
        if not magic:  # padding between regions
            at += 8
            padding += 1
            if padding > MAX_PADDING:
                raise NotElf(f"{shown(file.path)}: device code section of nothing")
            continue
        stop = at + header + length
        if magic != MAGIC or header < region_header or stop > end:
            raise NotElf(f"{shown(file.path)}: damaged device code at byte {at}")
        place = at + header
        found: list[_Key] = []
        while place + entry_header <= stop:
            # Thousands of these: read without the checks of `read`, as the bounds are known.
            piece = pread(handle, entry_header, place)
            if len(piece) != entry_header:
                raise NotElf(f"{shown(file.path)}: it was cut while it was read")
            kind, head, payload, minor, major, number, flags = unpack(piece)
            entries += 1
            if head < entry_header or place + head + payload > stop or entries > MAX_ENTRIES:
                raise NotElf(f"{shown(file.path)}: damaged device code at byte {place}")
            if kind in (_SASS, _PTX):
                found.append((number, kind, flags & _SUFFIX))
                if kind == _PTX and (major, minor) > isa[-1]:
                    isa.append((major, minor))
            place += head + payload
        if found:
            modules.append(tuple(found))
        at = stop
    return modules


def _mixes(modules: Iterable[tuple[_Key, ...]]) -> dict[tuple[str, ...], int]:
    mixes: Counter[tuple[str, ...]] = Counter()
    for keys, count in Counter(modules).items():
        mixes[tuple(sorted({_text(key) for key in keys}, key=_order))] += count
    return dict(mixes)


def _text(key: _Key) -> str:
    number, kind, suffix = key
    return _name(number, "a" if suffix & _A else "f" if suffix & _F else "") + ("+PTX" if kind == _PTX else "")


def _with_jit(mixes: dict[tuple[str, ...], int], loose: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Linked modules run by JIT too where every relocatable part has PTX: the driver links it anew (nvcc, JIT linking).

    Those are the modules that have machine code for all that the relocatable parts were linked for.
    """
    if not loose:
        return mixes
    everywhere = set.intersection(*(set(mix) for mix in loose))
    ptx = [text for text in everywhere if text.endswith("+PTX")]
    sass = {text for text in everywhere if not text.endswith("+PTX")}
    result: Counter[tuple[str, ...]] = Counter()
    for mix, count in mixes.items():
        add = ptx if sass <= set(mix) else []
        result[tuple(sorted({*mix, *add}, key=_order))] += count
    return dict(result)


def _cubin(file: Elf) -> str:
    """The architecture of a cubin: by ptxas's own note, which keeps the suffix, else by the header's flags."""
    for _, kind, text in file.notes():
        match = _ARCH.search(text) if kind == _NV_TOOL_NOTE else None
        if match:
            digits = match.group(1).decode()
            suffix = digits[-1] if digits[-1] in "af" else ""
            return _name(int(digits.rstrip("af")), suffix)
    # ABI 8 (CUDA 13) keeps the number in the second byte, older ones in the first.
    number = file.flags >> 8 & 0xFF if file.abi >= 8 else file.flags & 0xFF
    if not 20 <= number < 200:
        raise NotElf(f"{shown(file.path)}: a cubin of no known architecture (flags {file.flags:#x})")
    return _name(number, "")


def _name(number: int, suffix: str) -> str:
    return f"{number // 10}.{number % 10}{suffix}"


def _order(text: str) -> tuple[int, int, str]:
    digits, _, rest = text.partition(".")
    low = rest[:1]
    return int(digits), int(low) if low.isdigit() else 0, text
