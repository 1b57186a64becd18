"""Look-ups over vulnerabilities: which are open in a version of a component."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck import versions
from envcheck.matrix.rows import Vulnerability


def open_in(rows: Iterable[Vulnerability], component: str, version: str) -> tuple[Vulnerability, ...]:
    """The vulnerabilities of `component` that `version` still has; () for a bare driver branch, which doesn't tell.

    A row with a branch ('R580', '1.3') holds for that branch only, one without for all others: where a component has
    a row of one's branch for the same id, that decides.
    """
    found = versions.find(version)
    mine = [row for row in rows if row.component == component]
    if found is None or (len(found.release) == 1 and component.startswith("nvidia-driver")):
        return ()
    named = {row.id for row in mine if row.branch and _is_of(version, row.branch)}
    return tuple(
        row
        for row in mine
        if (_is_of(version, row.branch) if row.branch else row.id not in named) and _is_bad(version, row)
    )


def _is_of(version: str, branch: str) -> bool:
    wanted = versions.find(branch)
    found = versions.find(version)
    return bool(wanted and found and found.release[: len(wanted.release)] == wanted.release)


def _is_bad(version: str, row: Vulnerability) -> bool:
    found = versions.find(version)
    good, bad = versions.find(row.first_good), versions.find(row.last_bad)
    if found is None:
        return False
    if bad is not None:
        return found <= bad
    return good is not None and found < good
