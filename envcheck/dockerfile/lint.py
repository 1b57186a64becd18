"""Reads a written Dockerfile back: it must hold exactly the instructions that were intended."""

from __future__ import annotations

import re

_DIRECTIVE = re.compile(r"\s*#")


def instructions(text: str) -> list[tuple[str, str]]:
    """(name, arguments) of each instruction, continuation lines joined; comments and blank lines dropped."""
    found: list[tuple[str, str]] = []
    pending = ""
    for line in text.splitlines():
        if _DIRECTIVE.match(line) or (not line.strip() and not pending):
            continue
        pending += line.strip() if not pending else f" {line.strip()}"
        if pending.endswith("\\"):
            pending = pending[:-1].rstrip()
            continue
        name, _, arguments = pending.partition(" ")
        found.append((name.upper(), arguments.strip()))
        pending = ""
    if pending:
        name, _, arguments = pending.partition(" ")
        found.append((name.upper(), arguments.strip()))
    return found


def differences(text: str, intended: tuple[str, ...], image: str) -> list[str]:
    """What is not as intended: the sequence of instructions, or what it starts from."""
    found = instructions(text)
    problems = []
    names = tuple(name for name, _ in found)
    if names != intended:
        problems.append(f"instructions are {' '.join(names)}, intended were {' '.join(intended)}")
    if not found or found[0] != ("FROM", image):
        problems.append(f"it doesn't start from {image}")
    return problems
