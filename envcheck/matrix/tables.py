"""The matrix file by file: every table with its rows, and every fault that reading or a law finds in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from envcheck.errors import MatrixError
from envcheck.matrix.reader import Reader
from envcheck.matrix.subjects import SUBJECTS, Subject

_FAULT = re.compile(r"(?P<file>[^:]+): (?:row (?P<row>[^:]+?\)): )?(?P<what>.*)", re.DOTALL)
_PATH = re.compile(r" - at `\$\.?(?P<key>[^`]*)`$")


class Table(msgspec.Struct, frozen=True):
    """One file: its rows are of the subject's kind."""

    file: str  # 'builds/torch.toml'
    subject: Subject
    part: str
    rows: tuple[Any, ...]


class Fault(msgspec.Struct, frozen=True, order=True):
    """Something wrong in the matrix: file, row (by its key fields), field ('' for the whole row) and what."""

    file: str
    row: str
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.file, self.row, self.key, self.what)))


def read_tables(reader: Reader) -> tuple[list[Table], list[Fault]]:
    """Every table of the matrix, and the faults of the files that can't be read or whose rows are malformed."""
    tables: list[Table] = []
    faults: list[Fault] = []
    for subject in SUBJECTS.values():
        for part in reader.parts(subject.name) or ("",):
            if subject.folder and not part:
                continue
            file = f"{subject.name}/{part}.toml" if part else f"{subject.name}.toml"
            try:
                tables.append(Table(file, subject, part, reader.read(subject.name, part)))
            except MatrixError as broken:
                faults.extend(map(fault_of, broken.problems))
    return tables, faults


def fault_of(problem: str) -> Fault:
    """A reader's 'file: row 3 (version = 12.1.1): Expected `str` - at `$.released`' as a fault with its field."""
    match = _FAULT.fullmatch(problem)
    if not match:
        return Fault("", "", "", problem)
    what = match["what"]
    path = _PATH.search(what)
    missing = re.search(r"(?:missing required|contains unknown) field `([^`]+)`", what)
    key = (path["key"] if path else "") or (missing[1] if missing else "")
    return Fault(match["file"], f"row {match['row']}" if match["row"] else "", key, _PATH.sub("", what))


def name_of(row: Any, subject: Subject) -> str:
    """What identifies a row: '2.5.1 cu124'; the fields of the subject's key that have a value."""
    return " ".join(str(getattr(row, key)) for key in subject.key if getattr(row, key) not in (None, "", ()))


def stray_files(reader: Reader) -> Iterator[Fault]:
    """TOML files that no subject reads: a row in them would never count."""
    known = {f"{s.name}.toml" for s in SUBJECTS.values() if not s.folder}
    folders = {s.name for s in SUBJECTS.values() if s.folder}
    for path in sorted(reader.folder.rglob("*.toml")):
        relative = path.relative_to(reader.folder).as_posix()
        if relative not in known and relative.split("/")[0] not in folders:
            yield Fault(relative, "", "", "no subject of the matrix reads this file")
