"""What a log says by itself: problems from error texts that name a cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck.model.finding import Problem

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot


def told(snap: Snapshot, matrix: Matrix, cause: str) -> Iterable[Problem]:
    """Problems from events whose symptom row proves `cause`."""
    return ()
