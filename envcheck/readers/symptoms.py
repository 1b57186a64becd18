"""Finds the error texts of the matrix in a paste; the rows are passed in."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Optional, Protocol

from envcheck.model.snapshot import Event
from envcheck.readers.lines import MAX_LINE

MAX_SEEN = 40  # occurrences of one literal that are tried
MAX_EVENTS = 3  # events of one symptom, each with other values


class Symptom(Protocol):
    """What is read of a row of matrices/symptoms.toml."""

    @property
    def id(self) -> str:
        """The row's id."""

    @property
    def pattern(self) -> str:
        """The regular expression."""

    @property
    def literal(self) -> str:
        """A plain piece of every match, or several joined by '|', one of which each match has; case doesn't count."""

    @property
    def span(self) -> int:
        """How many lines are joined."""


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def find_events(text: str, symptoms: Sequence[Symptom]) -> list[Event]:
    """The events of a clean text; each with the line where its literal stands."""
    low = text.lower()
    if len(low) != len(text):  # a few letters change their length: their places would no longer be those of the text
        low = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    once = "\n".join(
        dict.fromkeys(low.split("\n"))
    )  # logs repeat their lines: whether a piece is there needs each once
    found: list[Event] = []
    for row in symptoms:
        pieces = [piece for piece in row.literal.lower().split("|") if piece in once]
        if pieces:
            found += _events(row, pieces, low, lines, starts)
    return found


def _events(row: Symptom, pieces: list[str], low: str, lines: list[str], starts: list[int]) -> list[Event]:
    events: list[Event] = []
    seen: set[tuple[tuple[str, str], ...]] = set()
    at, tried = 0, 0
    while tried < MAX_SEEN and len(events) < MAX_EVENTS:
        places = [place for piece in pieces if (place := low.find(piece, at)) >= 0]
        if not places:
            break
        at = min(places)
        number = bisect_right(starts, at) - 1
        match, joined = _match(row, lines, number, at - starts[number])
        tried += 1
        if match is not None:
            values = {key: value for key, value in match.groupdict().items() if value}
            key = tuple(sorted(values.items()))
            if key not in seen:
                seen.add(key)
                events.append(Event(row.id, _shown(joined, match), f"line {number + 1}", values))
        at = starts[number + 1] if number + 1 < len(starts) else len(low)
    return events


def _match(row: Symptom, lines: list[str], number: int, column: int) -> tuple[Optional[re.Match[str]], str]:
    """Search the line, or with a span the line with those around it, joined by spaces."""
    if row.span > 1:
        around = lines[max(0, number - row.span + 1) : number + row.span]
        joined = " ".join(line.strip()[:MAX_LINE] for line in around)
    else:
        line = lines[number]
        joined = line if len(line) <= MAX_LINE else line[max(0, column - MAX_LINE // 2) : column + MAX_LINE // 2]
    return _compiled(row.pattern).search(joined), joined


def _shown(joined: str, match: re.Match[str]) -> str:
    """The piece of the line that a person wants to see."""
    word = joined.find(" ", max(0, match.start() - 60)) + 1
    begin = 0 if match.start() <= 60 else min(word or match.start(), match.start())
    end = len(joined) if len(joined) - match.end() <= 100 else max(joined.rfind(" ", 0, match.end() + 100), match.end())
    piece = f"{'… ' if begin else ''}{joined[begin:end].strip()}{' …' if end < len(joined) else ''}"
    return piece if len(piece) <= 240 else piece[:239] + "…"
