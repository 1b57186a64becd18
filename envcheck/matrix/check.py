"""Checks the whole matrix: files that can't be read, malformed rows, and broken laws, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envcheck.matrix.laws import LAWS
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.reader import Reader
from envcheck.matrix.tables import Fault, Table, read_tables, stray_files


def check(reader: Reader) -> list[Fault]:
    """Every fault of the matrix, sorted: unreadable files, malformed rows, then broken laws over what could be read."""
    tables, faults = read_tables(reader)
    faults += stray_files(reader)
    matrix = Matrix(TableReader(tables))
    for law in LAWS:
        faults += law(matrix, tables)
    return sorted(set(faults))


class TableReader:
    """Serves tables that were read before, so that one broken file doesn't hide what is wrong in the others."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = {(table.subject.name, table.part): table.rows for table in tables}

    def parts(self, subject: str) -> tuple[str, ...]:
        """As Reader.parts."""
        return tuple(part for name, part in self._tables if name == subject and part)

    def read(self, subject: str, part: str = "") -> tuple[Any, ...]:
        """As Reader.read; () for what is missing."""
        return self._tables.get((subject, part), ())
