"""Pasted text as numbered lines, freed of what terminals, log collectors and Markdown put around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_TEXT = 3_000_000  # characters that are read of a paste; the middle of a longer one is left out
MAX_LINE = 4_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\ufeff]")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u02bc": "'"})
_BREAK = re.compile(r"\r\n?|\n|\u2028|\u2029|\x85")
# What stands before the text proper: quote marks of a mail, '[rank1]:', '(Worker pid=12)', a compose service.
_BEFORE = re.compile(
    r"^(?:> (?=[^>])|\[(?:rank)?\d{1,5}\]:\s?|\((?:[A-Z]\w+ )?[^()\n]{0,40}\bpid=\d+[^()\n]{0,60}\)\s?"
    r"|[a-z][\w.-]{0,40} +\| |E {3}(?=\S)|\s{0,8}(?:[│┃]|╰─>) ?)+"
)
_PROMPT = re.compile(
    r"^\s*(?:\([\w.@/-]{1,40}\)\s*)*"
    r"(?:[\w.-]{1,40}@[\w.-]{1,60}(?:[:~ ][^$#%>]{0,80})?[$#%>]\s+|PS [A-Z]:[^>]{0,120}>\s*|[A-Z]:\\[^>]{0,120}>\s*"
    r"|\[[\w.-]+@[^\]]{1,80}\][$#]\s*|[$❯➜%]\s+|!(?=\w))"
)
# '# command' and '> command' are prompts only before the name of a tool, else a remark or a quotation.
_BARE_PROMPT = re.compile(
    r"^\s*[#>]\s+(?=(?:sudo\s+)?(?:python3?|pip3?|conda|mamba|nvidia-smi|nvcc|(?:docker|podman) (?:run|exec|info|version|compose|pull|ps)|ldd|ldconfig|cat|ls|dmesg|"  # noqa: E501
    r"modprobe|gcc|uv|echo|kubectl|dpkg|journalctl|export)\b)"
)


class Line(NamedTuple):
    """One line with its number in the paste. `shell` is the command where the line is a prompt with one."""

    number: int
    text: str
    shell: str = ""

    @property
    def source(self) -> str:
        """'line 7'."""
        return f"line {self.number}"


def clean(text: str) -> str:
    """The text without colours, control characters and byte order marks; line ends are newlines, quotes straight."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text or "\u2028" in text or "\x85" in text or "\u2029" in text:
        text = _BREAK.sub("\n", text)
    return _CONTROLS.sub("", text).translate(_QUOTES)


def shorten(text: str) -> tuple[str, bool]:
    """The beginning and the end of a text that is too long, line numbers kept; was anything left out?"""
    if len(text) <= MAX_TEXT:
        return text, False
    head, tail = text[: MAX_TEXT // 2], text[-MAX_TEXT // 2 :]
    skipped = text.count("\n", len(head), len(text) - len(tail))
    return head + "\n" * (skipped + 1) + tail, True


def numbered(text: str) -> tuple[Line, ...]:
    """The lines of a clean text."""
    return tuple(_lines(text.split("\n")))


def _lines(texts: Iterable[str]) -> Iterator[Line]:
    for number, text in enumerate(texts, 1):
        if not text or text.isspace():
            continue
        if len(text) > MAX_LINE:
            text = text[: MAX_LINE // 2] + " … " + text[-MAX_LINE // 2 :]
        text = text.replace("\xa0", " ").rstrip()
        if text[0] in ">[(E│" or "│ " in text[:10] or " | " in text[:50]:
            text = _BEFORE.sub("", text, count=1) or text
        yield Line(number, text, _command(text))


def _command(text: str) -> str:
    match = _PROMPT.match(text) or _BARE_PROMPT.match(text)
    return text[match.end() :].strip() if match else ""
