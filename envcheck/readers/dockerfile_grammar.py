"""Splits a Dockerfile into instructions by BuildKit's grammar: directives, continuations, heredocs, flags, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Optional

import msgspec

NAMES = frozenset(
    {
        "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
        "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
    }
)  # fmt: skip
HEREDOC_IN = frozenset({"RUN", "COPY", "ADD"})
JSON_IN = frozenset({"RUN", "CMD", "ENTRYPOINT", "SHELL", "COPY", "ADD", "VOLUME"})
MAX_BYTES = 4 << 20
MAX_INSTRUCTIONS = 5000

_DIRECTIVE = re.compile(r"#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(.+?)\s*")
_HEREDOC = re.compile(r"<<(-?)(['\"]?)([A-Za-z0-9_.]+)\2")
_FLAG = re.compile(r"--[A-Za-z][\w-]*(?:=\S*)?(?=\s|$)")


class Instruction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One instruction: upper-case name, flags, the text after them, its words in JSON form, heredocs; lines from 1."""

    name: str
    text: str
    line: int
    end: int
    flags: tuple[str, ...] = ()
    words: Optional[tuple[str, ...]] = None  # of the JSON form
    heredocs: tuple[str, ...] = ()
    pieces: tuple[tuple[int, str], ...] = ()  # the physical lines: number and text

    def line_of(self, text: str) -> int:
        """The physical line on which `text` stands; the instruction's own where it can't be told."""
        name = re.match(r"[\w.\-]+", text)
        # A pin that an argument fills in isn't there word for word: then its name is looked for.
        patterns = [re.escape(text), rf"(?<![\w.\-]){re.escape(name.group())}(?![\w.\-])"] if name else []
        found = (number for p in patterns for number, piece in self.pieces if re.search(p, piece))
        return next(found, self.line)


class DockerfileError(ValueError):
    """The text is no Dockerfile; says the line."""


def parse(text: str) -> list[Instruction]:
    """All instructions in order. Raises DockerfileError for what BuildKit would refuse to parse."""
    if len(text) > MAX_BYTES:
        raise DockerfileError("larger than any Dockerfile")
    lines = text.replace("\r\n", "\n").lstrip("\ufeff").split("\n")
    escape = _escape(lines)
    found: list[Instruction] = []
    position = 0
    while position < len(lines):
        if not lines[position].strip() or lines[position].lstrip().startswith("#"):
            position += 1
            continue
        instruction, position = _instruction(lines, position, escape)
        found.append(instruction)
        if len(found) > MAX_INSTRUCTIONS:
            raise DockerfileError("more instructions than any Dockerfile has")
    if not found:
        raise DockerfileError("no instructions")
    return found


def _escape(lines: list[str]) -> str:
    """The escape character: directives stand at the very top, before any comment, blank line or instruction."""
    escape = "\\"
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if not match:
            break
        if match.group(1).lower() == "escape" and match.group(2) in ("`", "\\"):
            escape = match.group(2)
    return escape


def _instruction(lines: list[str], start: int, escape: str) -> tuple[Instruction, int]:
    # An escaped escape at the end of a line is itself, not a continuation.
    continued = re.compile(rf"(?<!{re.escape(escape)}){re.escape(escape)}[ \t]*$")
    pieces: list[str] = []
    numbered: list[tuple[int, str]] = []
    position = start
    while position < len(lines):
        line = lines[position]
        position += 1
        if pieces and (not line.strip() or line.lstrip().startswith("#")):
            continue  # comments and blank lines within a continuation are left out
        numbered.append((position, line))
        goes_on = continued.search(line)
        pieces.append(line[: goes_on.start()] if goes_on else line)
        if not goes_on:
            break
    whole = "".join(pieces).strip()
    name, rest = (*whole.split(None, 1), "", "")[:2]
    name = name.upper()
    if name not in NAMES:
        raise DockerfileError(f"line {start + 1}: unknown instruction {name[:40]!r}")
    flags: list[str] = []
    while name not in ("ENV", "LABEL", "MAINTAINER", "ARG", "EXPOSE") and (match := _FLAG.match(rest)):
        flags.append(match.group())
        rest = rest[match.end() :].lstrip()
    if not rest and name == "FROM":
        raise DockerfileError(f"line {start + 1}: FROM needs an image")
    heredocs: list[str] = []
    if name in HEREDOC_IN:
        for dash, _, word in _HEREDOC.findall(rest):
            first = position
            body, position = _heredoc(lines, position, word, bool(dash))
            heredocs.append(body)
            numbered += [(number + 1, lines[number]) for number in range(first, position)]
    words = _json(rest) if name in JSON_IN and not heredocs else None
    return Instruction(name, rest, start + 1, position, tuple(flags), words, tuple(heredocs), tuple(numbered)), position


def _heredoc(lines: list[str], position: int, word: str, dash: bool) -> tuple[str, int]:
    body: list[str] = []
    while position < len(lines):
        line = lines[position].lstrip("\t") if dash else lines[position]
        position += 1
        if line == word:
            return "\n".join(body), position
        body.append(line)
    raise DockerfileError(f"unterminated heredoc {word}")


def _json(text: str) -> Optional[tuple[str, ...]]:
    if not text.startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def assignments(instruction: Instruction) -> list[tuple[str, str]]:
    """The (name, raw value) pairs of ENV or LABEL: 'k=v k2="v v"', or the old 'k v'."""
    words = list(split_words(instruction.text))
    if words and "=" not in words[0]:
        name, _, value = instruction.text.partition(" ")
        return [(name, value.strip())]
    return [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]


def split_words(text: str) -> Iterator[str]:
    """Words by blanks outside quotes; quotes and escapes stay for `expand`."""
    word = ""
    quote = ""
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\" and quote != "'" and position < len(text):
            word += char + text[position]
            position += 1
        elif quote:
            word += char
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
            word += char
        elif char in " \t":
            if word:
                yield word
            word = ""
        else:
            word += char
    if word:
        yield word


_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:(:?[-+?])((?:[^{}\\]|\\.|\$\{[^{}]*\})*))?\}|(\w+))")


def expand(raw: str, env: Mapping[str, str], depth: int = 0) -> Optional[str]:
    """`raw` with variables filled in and quotes taken off; None where it hangs on one that has no value."""
    result = ""
    quote = ""
    position = 0
    while position < len(raw):
        char = raw[position]
        if char == "\\" and quote != "'" and position + 1 < len(raw):
            result += raw[position + 1]
            position += 2
        elif char in "'\"" and quote in ("", char):
            quote = "" if quote else char
            position += 1
        elif char == "$" and quote != "'" and (match := _VARIABLE.match(raw, position)):
            value = _value(match, env, depth)
            if value is None:
                return None
            result += value
            position = match.end()
        else:
            result += char
            position += 1
    return result


def _value(match: re.Match[str], env: Mapping[str, str], depth: int) -> Optional[str]:
    name = match.group(1) or match.group(4)
    operator, word = match.group(2) or "", match.group(3) or ""
    value = env.get(name)
    empty_counts = operator.startswith(":")
    there = value is not None and (value != "" or not empty_counts)
    if operator.endswith("-"):
        return value if there else (expand(word, env, depth + 1) if depth < 8 else None)
    if operator.endswith("+"):
        return (expand(word, env, depth + 1) if depth < 8 else None) if there else ""
    return value
