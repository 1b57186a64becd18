"""Every rule by cases: tests/rules/cases/<ID>/{fires,passes,skips}-SITUATION.json, each a partial snapshot.

A case file: {"snapshot": {...}, "cause": "…", "severity": "…"}; cause and severity are checked where they are given.
What the snapshot leaves out is unknown, so a case says no more than the rule needs.
"""

import json
from pathlib import Path

import msgspec
import pytest

from envcheck.model.snapshot import Snapshot
from envcheck.rules import all_rules, select_rules
from envcheck.rules.engine import judge

CASES = Path(__file__).with_name("cases")
KINDS = ("fires", "passes", "skips")
# Expiry dates are the settings' own, which are read whole: there is no fact to miss.
WHOLE = {"SET201"}
FILES = sorted(CASES.glob("*/*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_rule_in_a_situation(path, matrix):
    case = json.loads(path.read_text(encoding="utf-8"))
    snap = msgspec.convert(case["snapshot"], Snapshot)
    outcome = judge(snap, matrix, select_rules((path.parent.name,), ()))
    assert not outcome.crashed, outcome.skipped
    kind = path.name.partition("-")[0]
    assert kind in KINDS, f"{path.name}: a case begins with {', '.join(KINDS)}"
    if kind == "fires":
        assert outcome.findings, outcome.skipped
        found = outcome.findings[0]
        assert found.evidence, "a finding stands on evidence"
        assert all(item.source for item in found.evidence), found.evidence
        for word in ("cause", "severity"):
            if word in case:
                assert getattr(found, word) == case[word]
    elif kind == "passes":
        assert not outcome.findings, outcome.findings
        assert not outcome.skipped, outcome.skipped
    else:
        assert not outcome.findings, outcome.findings
        assert outcome.skipped
        assert outcome.skipped[0].reason


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_cases_of_every_kind(rule):
    there = {path.name.partition("-")[0] for path in (CASES / rule.id).glob("*.json")}
    demanded = set(KINDS) - ({"skips"} if rule.id in WHOLE else set())
    assert there >= demanded, f"{rule.id} lacks: {', '.join(sorted(demanded - there))}"


def test_every_folder_is_of_a_rule():
    assert {path.name for path in CASES.iterdir() if path.is_dir()} <= {rule.id for rule in all_rules()}
