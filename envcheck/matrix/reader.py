"""Reads matrices/*.toml into typed rows, or the copy of them that was compiled when the wheel was built.

TOML is the only truth. A compiled copy counts only while the size and checksum that it recorded are those of the TOML
file beside it; nothing is ever written at run time.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Any, Optional, Protocol

import msgspec

from envcheck.errors import MatrixError
from envcheck.matrix.rows import Row
from envcheck.matrix.subjects import SUBJECTS, Subject

COMPILED = Path(__file__).resolve().parent.parent / "data" / "matrices"
FORMAT = 1


def stamp(data: bytes) -> list[int]:
    """What tells one content of a TOML file from another: format, size and checksum."""
    return [FORMAT, len(data), zlib.crc32(data)]


class RowSource(Protocol):
    """Where a matrix gets its rows from."""

    def parts(self, subject: str) -> tuple[str, ...]:
        """The parts of a subject that is a folder, sorted."""

    def read(self, subject: str, part: str = "") -> tuple[Any, ...]:
        """The rows of a subject, or of one part of it."""


class Reader:
    """Reads the subjects of one folder; `compiled` is where copies may lie (None: read TOML only)."""

    def __init__(self, folder: Path, compiled: Optional[Path] = COMPILED) -> None:
        self.folder = folder
        self.compiled = compiled

    def parts(self, subject: str) -> tuple[str, ...]:
        """The parts of a folder subject: ('torch', 'jaxlib', …) for builds; none for a subject of one file."""
        if not SUBJECTS[subject].folder:
            return ()
        return tuple(sorted(path.stem for path in (self.folder / subject).glob("*.toml")))

    def read(self, subject: str, part: str = "") -> tuple[Any, ...]:
        """All rows of a subject, or of one part of it; () for a part that isn't there. Raises MatrixError."""
        kind = SUBJECTS[subject]
        if kind.folder and not part:
            return tuple(row for name in self.parts(subject) for row in self.read(subject, name))
        relative = f"{subject}/{part}" if part else subject
        path = self.folder / f"{relative}.toml"
        if part and not path.is_file():
            return ()
        try:
            data = path.read_bytes()
        except OSError as fault:
            raise MatrixError([f"{path.name}: {fault.strerror or fault}"]) from None
        copy = self._copy(relative, kind, data)
        if copy is not None:
            return copy
        found, problems = read_toml(data, kind, f"{relative}.toml")
        if problems:
            raise MatrixError(problems)
        return found

    def _copy(self, relative: str, kind: Subject, data: bytes) -> Optional[tuple[Any, ...]]:
        if self.compiled is None:
            return None
        try:
            packed = (self.compiled / f"{relative}.msgpack").read_bytes()
        except OSError:
            return None
        try:
            head, body = msgspec.msgpack.decode(packed, type=tuple[list[int], msgspec.Raw])
            if head != stamp(data):
                return None
            return msgspec.msgpack.decode(body, type=tuple[kind.row, ...])  # type: ignore[name-defined]
        except msgspec.MsgspecError:  # made by another version of envcheck, or cut short: the TOML is there
            return None


def read_toml(data: bytes, kind: Subject, name: str) -> tuple[tuple[Row, ...], list[str]]:
    """The rows of one TOML file, and every problem in it as 'file: row, key: what'."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        return (), [f"{name}: not TOML: {fault}"]
    problems = [f"{name}: unknown table [{key}], rows are [[{kind.table}]]" for key in document if key != kind.table]
    found: list[Row] = []
    table = document.get(kind.table, [])
    if not isinstance(table, list):
        return (), [*problems, f"{name}: [{kind.table}] is one table, rows are [[{kind.table}]]"]
    for number, raw in enumerate(table, 1):
        try:
            found.append(msgspec.convert(raw, kind.row))
        except msgspec.ValidationError as fault:  # noqa: PERF203 (each row is reported)
            problems.append(f"{name}: row {number} ({label(raw, kind)}): {fault}")
    return tuple(found), problems


def label(raw: Any, kind: Subject) -> str:
    """What identifies a raw row to a person: 'version = 12.1.1'."""
    if not isinstance(raw, dict):
        return "not a table"
    return ", ".join(f"{key} = {raw[key]}" for key in kind.key if raw.get(key) not in (None, "")) or "without its key"
