"""An answer of the matrix to a person's question: facts, tables, notes and where they were read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Optional

import msgspec


class AnswerTable(msgspec.Struct, frozen=True):
    """A table of an answer; every cell is text, '' where nothing is known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Answer(msgspec.Struct, frozen=True):
    """What `envcheck matrix show` prints, or gives as JSON."""

    topic: str
    title: str
    facts: dict[str, str] = {}
    tables: tuple[AnswerTable, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> AnswerTable:
    """A table of texts; columns in which no row says anything are left out."""
    names = tuple(columns)
    cells = [tuple(text(cell) for cell in row) for row in rows]
    kept = [place for place in range(len(names)) if any(row[place] for row in cells)]
    return AnswerTable(
        title, tuple(names[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in cells)
    )


def text(value: Any) -> str:
    """A cell: '' for what isn't known, whole numbers without '.0', lists joined by blanks."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (tuple, list)):
        return " ".join(text(part) for part in value)
    return str(value)


def facts(**told: Any) -> dict[str, str]:
    """The facts that say something, in the order given; '_' in a name prints as a blank."""
    return {name.replace("_", " "): text(value) for name, value in told.items() if text(value)}


def sources_of(rows: Iterable[Any], file: str) -> tuple[str, ...]:
    """The file of the matrix, then each upstream source of the rows once, in order."""
    found: dict[str, None] = {f"matrices/{file}": None}
    for row in rows:
        for part in re.split(r"; | \| ", row.source):
            found.setdefault(part.strip())
    return tuple(found)


def notes_of(rows: Iterable[Any]) -> tuple[str, ...]:
    """Each note of the rows once, in order."""
    return tuple(dict.fromkeys(row.note for row in rows if row.note))


def span(low: Optional[str], high: Optional[str]) -> str:
    """'3.8-3.12'; one of them where the other isn't known."""
    if low and high:
        return low if low == high else f"{low}-{high}"
    return f"{low} on" if low else f"to {high}" if high else ""
