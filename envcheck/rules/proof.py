"""PRF: what became of the small computations that were asked for (`doctor --run`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck.model.finding import Evidence, Problem
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

BAD = {
    "wrong": "gave another result than the CPU",
    "failed": "failed",
    "crashed": "crashed",
    "hung": "didn't end in time",
}


@rule("PRF101", "computation-failed", "error", cause="computation-failed", rank=95)
def computation_failed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A small computation in this environment failed, crashed, hung or gave a wrong result.

    Why: what can't multiply two matrices can't train; the other findings say why, this one that it is so.
    How it is decided: only on request (--run): the environment's own interpreter imports each framework and computes on
    each GPU in a child process with a deadline; the result is compared with the CPU's.
    Fix: mend what the other findings name; without any, the message of the computation is where to begin.
    Sources: measured.
    """
    proof = snap.proof.get()
    if proof is None:
        return
    for check in proof.checks:
        if check.state not in BAD:
            continue
        where = "" if check.gpu is None else f" on GPU {check.gpu}"
        yield Problem(
            f"{check.framework}: {check.name}{where} {BAD[check.state]}",
            fix=(f"{proof.python} -c 'import {check.framework}'   shows it without envcheck",),
            subject=f"{check.framework} {check.name}{where}",
            evidence=(
                Evidence(f"{check.name}{where}", check.text or check.state, snap.proof.source, "found"),
                Evidence(f"{check.name}{where}", "the CPU's result", "--run", "needed"),
            ),
        )
