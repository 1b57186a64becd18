"""Walks a tar archive as it streams by: names, and the first bytes of the few files that tell; nothing touches disk.

Own code rather than tarfile's: that one reads a header as long as the archive says it is, into memory.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Optional

import msgspec

from envcheck.errors import InspectError

Read = Callable[[int], bytes]
BLOCK = 512
CHUNK = 65536
MAX_NAME = 64 * 1024
MAX_PAX = 1 << 20
MAX_ENTRIES = 3_000_000
MAX_KEPT = 20_000
MAX_KEPT_BYTES = 256 << 20
MAX_UNPACKED = 256 << 30

# What is read, with the most bytes of it that are needed.
CONTENT: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r".*\.dist-info/METADATA"), 64 * 1024),
    (re.compile(r".*\.egg-info(/PKG-INFO)?"), 64 * 1024),
    (re.compile(r".*/(torch|torchvision|torchaudio|jaxlib)/version\.py"), 16 * 1024),
    (re.compile(r"(etc|usr/lib)/os-release"), 16 * 1024),
    (re.compile(r"usr/local/cuda[^/]*/version\.(json|txt)"), 64 * 1024),
    (re.compile(r"var/lib/dpkg/status(\.d/[^/]+)?"), 32 << 20),
)
# What tells by its name alone.
NAMES: tuple[re.Pattern[str], ...] = (
    re.compile(r"usr/local/cuda[^/]*/compat/(.*/)?libcuda\.so\.[\d.]+"),
    re.compile(r"(usr/)?lib(64)?/([^/]+/)?libcuda\.so\.\d[\d.]+"),
    re.compile(r"(.*/)?bin/(nvcc|python3\.\d+)"),
    re.compile(r"(.*/)?conda-meta/[^/]+\.json"),
    re.compile(r"(.*/)?lib/python3\.\d+t?/(site|dist)-packages/(torch|tensorflow|jaxlib)/__init__\.py"),
)


class Broken(InspectError):
    """The archive is no tar, is cut short, or is larger than any image."""


class Entry(msgspec.Struct, frozen=True):
    """A member: its path without leading './', and its first bytes where they are wanted."""

    path: str
    data: Optional[bytes] = None


def walk(read: Read, prefix: str = "") -> Iterator[Entry]:
    """The members that tell, and every whiteout ('.wh.…'), in the archive's order. Raises Broken.

    `prefix` is where the archive's root stands ('usr/lib/').
    """
    longname = ""
    pax: dict[str, str] = {}
    kept = kept_bytes = 0
    for _ in range(MAX_ENTRIES):
        header = _exactly(read, BLOCK, at_start=True)
        if not header or header == bytes(BLOCK):
            return
        kind, size = header[156:157], _number(header[124:136])
        if kind in (b"x", b"L", b"g", b"K"):
            body = _take(read, size, MAX_PAX if kind == b"x" else MAX_NAME)
            if kind == b"L":
                longname = body.split(b"\0", 1)[0].decode("utf-8", "replace")
            elif kind == b"x":
                pax = _pax(body)
            continue
        path = prefix + _clean(pax.get("path") or longname or _name(header))
        if pax.get("size", "").isdigit():
            size = int(pax["size"])
        longname, pax = "", {}
        if kind in (b"1", b"2", b"3", b"4", b"5", b"6"):  # links, devices, folders, fifos have no content
            size = 0 if kind != b"1" else size
        limit = _wanted(path) if kind in (b"0", b"\0", b"7") else 0
        if limit and kept < MAX_KEPT and kept_bytes < MAX_KEPT_BYTES:
            data = _take(read, size, limit)
            kept += 1
            kept_bytes += len(data)
            yield Entry(path, data)
            continue
        _take(read, size, 0)
        if path.rpartition("/")[2].startswith(".wh.") or any(pattern.fullmatch(path) for pattern in NAMES):
            yield Entry(path)
    raise Broken("an archive has more entries than any image", "It is refused.")


def inflated(read: Callable[[], bytes]) -> Read:
    """A reader of the unpacked bytes: gzip by its magic number, plain otherwise. Raises Broken for zstd."""
    unpacker: Any = None
    buffer = bytearray()
    state = {"first": True, "over": False, "out": 0}

    def more() -> bytes:
        nonlocal unpacker
        data = read()
        if state["first"] and data:
            state["first"] = False
            if data[:4] == b"\x28\xb5\x2f\xfd":
                raise Broken(
                    "a layer is packed with zstd, which this Python can't unpack", "Pull the image, or skip it."
                )
            if data[:2] == b"\x1f\x8b":
                unpacker = zlib.decompressobj(31)
        return data

    def fill() -> bool:
        nonlocal unpacker
        if unpacker is not None and unpacker.unconsumed_tail:
            data = unpacker.unconsumed_tail
        else:
            data = more()
            if not data:
                return False
        try:
            while data:
                if unpacker is None:
                    piece, data = data, b""
                else:
                    piece = unpacker.decompress(data, CHUNK * 16)
                    data = b""
                    if unpacker.eof and unpacker.unused_data:  # gzip members one after another are one file
                        data, unpacker = unpacker.unused_data, zlib.decompressobj(31)
                buffer.extend(piece)
                state["out"] += len(piece)
        except zlib.error:
            raise Broken("a layer's gzip data is broken", "Pull the image again.") from None
        if state["out"] > MAX_UNPACKED:
            raise Broken("a layer unpacks to more than any image holds", "It is refused.")
        return True

    def take(size: int) -> bytes:
        while len(buffer) < size:
            if not fill():
                break
        piece = bytes(buffer[:size])
        del buffer[:size]
        return piece

    return take


def _wanted(path: str) -> int:
    return next((limit for pattern, limit in CONTENT if pattern.fullmatch(path)), 0)


def _exactly(read: Read, size: int, *, at_start: bool = False) -> bytes:
    parts: list[bytes] = []
    left = size
    while left:
        data = read(min(left, CHUNK))
        if not data:
            if at_start and left == size:
                return b""
            raise Broken("an archive ends in the middle", "Pull the image again.")
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def _take(read: Read, size: int, limit: int) -> bytes:
    """The first `limit` of `size` bytes; the rest and the padding are read and dropped."""
    head = _exactly(read, min(size, limit)) if min(size, limit) else b""
    left = size - len(head) + -size % BLOCK
    while left > 0:
        data = read(min(left, CHUNK))
        if not data:
            raise Broken("an archive ends in the middle", "Pull the image again.")
        left -= len(data)
    return head


def _number(field: bytes) -> int:
    if field[:1] == b"\x80":  # base 256, for sizes of 8 GB and more
        return int.from_bytes(field[1:], "big")
    text = field.strip(b"\0 ")
    try:
        value = int(text, 8) if text else 0
    except ValueError:
        raise Broken("an archive is no tar", "Pull the image again.") from None
    if value < 0:
        raise Broken("an archive is no tar", "Pull the image again.")
    return value


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _pax(body: bytes) -> dict[str, str]:
    """The records 'LENGTH KEY=VALUE' of a pax header."""
    found: dict[str, str] = {}
    while body:
        length, _, _ = body.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(body):
            break
        record = body[len(length) + 1 : int(length)].rstrip(b"\n")
        key, _, value = record.partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        body = body[int(length) :]
    return found


def _clean(path: str) -> str:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "" if ".." in parts else "/".join(parts)
