"""What the matrix knows to fail: rows whose conditions hold for a snapshot, and log lines that point at a cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

from envcheck.matrix.known_bad import Environment, holds, is_decidable
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import frameworks
from envcheck.rules.presence import capability_of, visible_gpus

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Event, Snapshot


def heard(snap: Snapshot, matrix: Matrix, cause: str) -> list[Event]:
    """The log's events that prove or suggest this cause: for a fact rule that they sharpen."""
    if not snap.events:
        return []
    rows = {row.id for row in matrix.symptoms if cause == row.proves or cause in row.suggests}
    return [event for event in snap.events if event.symptom in rows]


def bad_rows(snap: Snapshot, matrix: Matrix, cause: str) -> Iterator[Problem]:
    """A problem for each decidable row of this cause that holds. Raises UnknownFact where packages aren't known."""
    packages = {package.name: package.version for package in snap.stack.packages.get()}
    python, driver = snap.stack.python.find(), snap.machine.driver.find()
    gpus = visible_gpus(snap) if snap.machine.gpus.known else []
    known = sorted({capability_of(gpu, matrix) for gpu in gpus if matrix.capability_of(gpu)})
    capabilities: list[Optional[str]] = [*known] or [None]
    cuda = next((framework.cuda for framework in frameworks(snap, matrix) if framework.cuda), None)
    for row in matrix.known_bad:
        if row.cause != cause or not is_decidable(row):
            continue
        # A combination is said only of what is there: a condition on an unknown fact keeps it unsaid.
        if any(
            holds(
                row,
                Environment(
                    packages,
                    python.version if python else None,
                    driver.version if driver else None,
                    cuda,
                    capability,
                    snap.machine.os.find(),
                    snap.stack.glibc.find(),
                ),
            )
            for capability in capabilities
        ):
            yield Problem(
                f"{_names(row.packages, packages)}: {row.condition}",
                fix=(row.fix,) if row.fix else (),
                subject=row.id,
                severity=row.severity,
                evidence=(
                    *(
                        Evidence(name, packages[name] or "installed", snap.stack.packages.source, "found")
                        for name in row.packages
                    ),
                    Evidence("known not to work", row.condition, f"matrices/known_bad.toml: {row.source}"),
                ),
            )


def _names(wanted: dict[str, str], packages: dict[str, Optional[str]]) -> str:
    return " with ".join(f"{name} {packages[name] or ''}".strip() for name in wanted) or "this environment"
