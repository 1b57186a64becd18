"""Reads glibc's ld.so.cache: `ldconfig -p` would run a program of the patient, and pyldconf has no wheels.

Format: sysdeps/generic/dl-cache.h of glibc; the old header may come before the new one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from envcheck.probes.tree import Tree

CACHE = "/etc/ld.so.cache"
_OLD = b"ld.so-1.7.0\0"
_NEW = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sII")
_HEADER_SIZE = 48
_ENTRY = struct.Struct("<iIIIQ")
MAX_ENTRIES = 200_000


class Cached(NamedTuple):
    """A library that ldconfig found; `flags` tell its kind (0x0303: x86-64, 0x0a03: AArch64)."""

    soname: str
    path: str
    flags: int


def read_cache(tree: Tree, *beginnings: str) -> tuple[Cached, ...]:
    """The cache's entries whose soname begins with one of `beginnings`, in its order. Raises Unreadable."""
    data = tree.read_bytes(CACHE, 16 * 2**20)
    return parse_cache(data, *beginnings) if data else ()


def parse_cache(data: bytes, *beginnings: str) -> tuple[Cached, ...]:
    """As read_cache, from its bytes; what doesn't fit the format gives nothing."""
    start = 0
    if data.startswith(_OLD):
        (count,) = struct.unpack_from("<I", data.ljust(16, b"\0"), len(_OLD))
        start = (16 + 12 * count + 7) & ~7
    if len(data) < start + _HEADER_SIZE or data[start : start + len(_NEW)] != _NEW:
        return ()
    _, count, _ = _HEADER.unpack_from(data, start)
    room = (len(data) - start - _HEADER_SIZE) // _ENTRY.size
    entries = memoryview(data)[start + _HEADER_SIZE :][: min(count, room, MAX_ENTRIES) * _ENTRY.size]
    wanted = tuple(text.encode() for text in beginnings)
    found = []
    for flags, key, value, _, _ in _ENTRY.iter_unpack(entries):
        if data.startswith(wanted, start + key):
            found.append(Cached(_string(data, start + key), _string(data, start + value), flags))
    return tuple(found)


def _string(data: bytes, start: int) -> str:
    end = data.find(b"\0", start, start + 4096)
    return data[start : end if end >= 0 else start + 4096].decode("utf-8", "replace")
