"""Answers about what goes wrong: known-bad combinations, vulnerabilities, runtimes, causes; and the policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envcheck.errors import UnknownName
from envcheck.matrix.answer import Answer, sources_of, table
from envcheck.matrix.matrix import Matrix


def _of(rows: Iterable[Any], field: str, wanted: str, kind: str) -> list[Any]:
    """The rows whose field is (or, where none is, holds) the wanted word; all without one. Raises UnknownName."""
    every = list(rows)
    same = [row for row in every if wanted.lower() == getattr(row, field).lower()]
    found = same or [row for row in every if wanted.lower() in getattr(row, field).lower()]
    if not found:
        raise UnknownName(kind, wanted, {getattr(row, field) for row in every})
    return found


def show_known_bad(matrix: Matrix, wanted: str = "") -> Answer:
    """Combinations known to fail, all or those of one component or id."""
    rows = [row for row in matrix.known_bad if wanted and row.id == wanted] or _of(
        matrix.known_bad, "components", wanted, "component"
    )
    return Answer(
        topic="known-bad",
        title=f"{len(rows)} combinations known to fail",
        tables=(table("", ("id", "condition", "fix", "cause"), ((r.id, r.condition, r.fix, r.cause) for r in rows)),),
        sources=sources_of(rows, "known_bad.toml"),
    )


def show_vulnerabilities(matrix: Matrix, wanted: str = "") -> Answer:
    """Vulnerabilities, all or of one component."""
    rows = _of(matrix.vulnerability_rows, "component", wanted, "component")
    return Answer(
        topic="vulnerabilities",
        title=f"{len(rows)} vulnerabilities",
        tables=(
            table(
                "",
                ("id", "component", "branch", "last bad", "first good", "severity", "published", "not with"),
                (
                    (r.id, r.component, r.branch, r.last_bad, r.first_good, r.severity, r.published, r.unless)
                    for r in rows
                ),
            ),
        ),
        sources=sources_of(rows, "vulnerabilities.toml"),
    )


def show_runtime(matrix: Matrix, wanted: str = "") -> Answer:
    """Behaviours and faults of container runtimes."""
    rows = _of(matrix.runtime_facts, "component", wanted, "component")
    return Answer(
        topic="runtime",
        title=f"{len(rows)} facts of container runtimes",
        tables=(
            table(
                "",
                ("component", "versions", "what", "when", "fix", "fixed in"),
                ((r.component, r.affected, r.symptom, r.condition, r.fix, r.fixed_in) for r in rows),
            ),
        ),
        sources=sources_of(rows, "runtime_facts.toml"),
    )


def show_causes(matrix: Matrix) -> Answer:
    """The vocabulary of causes."""
    return Answer(
        topic="causes",
        title=f"{len(matrix.causes)} causes",
        tables=(table("", ("cause", "meaning"), ((r.key, r.meaning) for r in matrix.causes)),),
        sources=("matrices/causes.toml",),
    )


def show_policies(matrix: Matrix, wanted: str = "") -> Answer:
    """Sourced statements that no typed row holds, all or of one topic."""
    rows = _of(matrix.policies, "topic", wanted, "topic")
    return Answer(
        topic="policies",
        title=f"{len(rows)} statements",
        tables=(table("", ("topic", "statement"), ((r.topic, r.text) for r in rows)),),
        sources=sources_of(rows, "policies.toml"),
    )
