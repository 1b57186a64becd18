"""From which driver on a stack works on a machine: the rules themselves, asked for one driver after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

import msgspec
from packaging.version import Version

from envcheck import versions

IGNORED = "driver-vulnerable"  # a known hole stops no program

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.rules.rule import Rule


class DriverRange(msgspec.Struct, frozen=True):
    """`since`: every known driver from here on works. `below`: lowest working driver of older branches that also do.

    Both empty: no driver makes it work. `asked` is how many drivers were tried.
    """

    since: Optional[str] = None
    below: tuple[str, ...] = ()
    asked: int = 0

    @property
    def text(self) -> str:
        """One line for a person."""
        if self.since is None and not self.below:
            return "no known driver runs this here"
        parts = [f"driver >= {self.since}"] if self.since else []
        if self.below:
            parts.append("branches " + ", ".join(f"{v}+" for v in self.below))
        return " or ".join(parts)


def candidates(matrix: Matrix) -> list[str]:
    """Drivers at which something changes: the floors of CUDA releases and the first and newest of every branch."""
    found: set[str] = set()
    for release in matrix.cuda:
        found.update(filter(None, (release.linux_driver, release.minor_linux)))
    for row in matrix.branches:
        if row.platform == "linux":
            found.add(row.latest or str(row.branch))
    return sorted((text for text in found if versions.find(text)), key=Version)


def find_range(snap: Snapshot, matrix: Matrix, rules: Iterable[Rule]) -> DriverRange:
    """Ask the rules for every candidate; what they say of the newest driver too isn't the driver's fault."""
    from envcheck.machines import with_driver
    from envcheck.rules.engine import judge

    chosen = tuple(rules)

    def errors(driver: str) -> frozenset[tuple[str, str]]:
        machine = with_driver(snap.machine, driver, matrix)
        outcome = judge(msgspec.structs.replace(snap, machine=machine), matrix, chosen)
        return frozenset((f.rule, f.subject) for f in outcome.findings if f.severity == "error" and f.cause != IGNORED)

    drivers = candidates(matrix)
    if not drivers:
        return DriverRange()
    always = errors(drivers[-1])
    works = [not (errors(driver) - always) for driver in drivers]
    edge = len(drivers)
    while edge and works[edge - 1]:
        edge -= 1
    since = drivers[edge] if edge < len(drivers) else None
    below: dict[int, str] = {}
    for driver, good in zip(drivers[:edge], works[:edge]):
        if good:
            below.setdefault(versions.branch(driver), driver)
    return DriverRange(since, tuple(below.values()), len(drivers))
