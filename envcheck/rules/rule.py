"""The rule decorator: what a rule is, and the registry that the engine selects from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from envcheck.model.finding import Problem, Severity

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

Judge = Callable[["Snapshot", "Matrix"], Iterable[Problem]]
ID = re.compile(r"[A-Z]{3}\d{3}")


class Rule(msgspec.Struct, frozen=True):
    """A rule: public id and slug, the cause (a key of the vocabulary), and the function that judges.

    `explains` names rules whose findings are mere consequences of this one: they are dropped when it fires.
    `also` are further causes that its problems may carry.
    `rank` orders root causes among findings of one severity: the lower, the nearer to the root.
    """

    id: str
    slug: str
    severity: Severity
    cause: str
    judge: Judge
    explains: tuple[str, ...] = ()
    rank: int = 50
    also: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """'DRV' of DRV101."""
        return self.id[:3]

    @property
    def page(self) -> str:
        """The docstring of the function: title, Why, How, Fix, Sources."""
        return inspect.getdoc(self.judge) or ""

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.partition("\n")[0].strip()


def rule(
    id: str,
    slug: str,
    severity: Severity,
    *,
    cause: str,
    explains: tuple[str, ...] = (),
    rank: int = 50,
    also: tuple[str, ...] = (),
) -> Callable[[Judge], Rule]:
    """Declare a rule; its docstring is its page. Raises ValueError for a malformed id."""
    if not ID.fullmatch(id):
        raise ValueError(f"rule id {id!r} is not three letters and three digits")

    def declare(judge: Judge) -> Rule:
        return Rule(id, slug, severity, cause, judge, explains, rank, also)

    return declare
