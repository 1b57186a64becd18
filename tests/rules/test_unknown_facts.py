"""Unknown is not absent: without a fact a rule is skipped; no finding passes unseen, no new error appears."""

import itertools

import msgspec
import pytest

from envcheck.model.fact import UnknownFact, unknown
from envcheck.model.machine import Driver, Gpu
from envcheck.rules import ALL
from tests.rules.test_golden_scenarios import A100, K80, LOST, RTX_5090, host

SCENARIOS = {
    "5090": host([RTX_5090], Driver("570.86.10", "open", "12.8"), ("torch", "2.5.1+cu124")),
    "k80": host([K80], Driver("470.82.01", "proprietary", "11.4"), ("torch", "2.4.0+cu121")),
    "old driver": host([A100], Driver("470.57.02", cuda="11.4"), ("torch", "2.1.2+cu121")),
    "lost": host(LOST, Driver("550.54.14", cuda="12.4"), ("torch", "2.5.1+cu124")),
    "healthy": host([A100], Driver("550.54.14", cuda="12.4"), ("torch", "2.5.1+cu124")),
    "laptop": host([], None, ("torch", "2.13.0+cpu")),
    "no driver": host([Gpu("NVIDIA GeForce RTX 4090", pci_id="2684")], None, ("torch", "2.5.1+cu124")),
}
# That no newer driver supports the GPU makes the old driver a consequence; who doesn't know the GPU sees the driver.
CONSEQUENCE = {("k80", "gpus", "DRV101")}
FACTS = [("machine", name) for name in ("gpus", "driver", "driver_fault")] + [
    ("stack", name) for name in ("packages", "libraries", "toolkits", "env", "python")
]


def judged(rule, snap, matrix):
    """(loud findings, was it skipped) of one rule alone."""
    found = []
    try:
        for problem in rule.judge(snap, matrix):
            if (problem.severity or rule.severity) != "note":
                found.append(problem.cause or rule.cause)
    except UnknownFact:
        return found, True
    return found, False


@pytest.mark.parametrize(("name", "fact"), list(itertools.product(SCENARIOS, FACTS)), ids=lambda v: str(v))
def test_an_unknown_fact_hides_nothing_and_invents_nothing(matrix, name, fact):
    snap = SCENARIOS[name]
    part = getattr(snap, fact[0])
    less = msgspec.structs.replace(part, **{fact[1]: unknown(f"{fact[1]}: not read")})
    without = msgspec.structs.replace(snap, **{fact[0]: less})
    for rule in ALL:
        before, _ = judged(rule, snap, matrix)
        after, skipped = judged(rule, without, matrix)
        assert skipped or set(before) <= set(after), f"{rule.id} passed although {fact[1]} is unknown"
        if (name, fact[1], rule.id) in CONSEQUENCE:
            continue
        assert set(after) <= set(before), f"{rule.id} found {after} only because {fact[1]} is unknown"
