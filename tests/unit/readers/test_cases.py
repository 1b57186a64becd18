"""Every public case, read and judged in one process: the cause is found, is named first, and nothing cries wolf."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envcheck.pipeline import judge
from envcheck.readers.detect import read_report

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = sorted((Path(__file__).resolve().parents[2] / "cases").glob("*.toml"))


@pytest.fixture(scope="module")
def verdicts(matrix):
    found = {}
    for answer in CASES:
        text = answer.with_suffix(".txt").read_text(encoding="utf-8")
        snap = read_report(text, name=answer.stem, symptoms=matrix.symptoms)
        found[answer.stem] = judge(snap, matrix)
    return found


def _answer(name):
    return tomllib.loads((CASES[0].parent / f"{name}.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [case.stem for case in CASES])
def test_a_case_gets_its_cause_and_no_false_alarm(name, verdicts):
    answer, report = _answer(name), verdicts[name]
    expected = {entry["key"] for entry in answer.get("expect", [])}
    allowed = expected | {entry["key"] for entry in answer.get("also", [])}
    causes = [finding.cause for finding in report.findings]
    assert expected <= set(causes)
    loud = {finding.cause for finding in report.findings if finding.severity != "note"}
    assert loud <= allowed


def test_nearly_every_case_names_its_cause_first(verdicts):
    sick = [name for name in verdicts if _answer(name).get("expect")]
    late = [
        name
        for name in sick
        if not verdicts[name].findings
        or verdicts[name].findings[0].cause not in {entry["key"] for entry in _answer(name)["expect"]}
    ]
    assert len(late) <= len(sick) // 20, late


def test_every_finding_of_a_paste_says_where_it_was_read(verdicts):
    for name, report in verdicts.items():
        for finding in report.findings:
            if finding.rule.startswith(("CTR", "SYM")):
                assert any(item.source.startswith("line ") for item in finding.evidence), (name, finding.rule)


def test_the_cases_cover_most_causes_and_enough_healthy_pastes(matrix):
    answers = [_answer(case.stem) for case in CASES]
    assert sum(answer["healthy"] for answer in answers) >= 10
    assert len({entry["key"] for answer in answers for entry in answer.get("expect", [])}) >= 30
