"""The public cases under `found/`, read and judged in one process, each with the answer that its thread gave.

The cases beside this file are judged by `tests/unit/readers/test_cases.py`. A case that isn't met yet is named in
KNOWN_MISSES with the reason; it fails again, strictly, as soon as it is met.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from envcheck.errors import EnvcheckError
from envcheck.pipeline import judge
from envcheck.targets import read_paste

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOUND = sorted((Path(__file__).resolve().parent / "found").glob("*.toml"))
KNOWN_MISSES: dict[str, str] = {
    "ROCm-ROCm-1159": "AMD's gfx generations aren't in the matrix",
    "tensorflow-tensorflow-4349": "TensorFlow's diagnosis counts as forward compatibility first",
}


def _cases():
    for answer in FOUND:
        miss = KNOWN_MISSES.get(answer.stem)
        yield pytest.param(answer, id=answer.stem, marks=[pytest.mark.xfail(strict=True, reason=miss)] if miss else [])


@cache
def _answer(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _keys(path, table):
    return [entry["key"] for entry in _answer(path).get(table, [])]


def _findings(path, matrix):
    text = path.with_suffix(".txt")
    try:
        return judge(read_paste(text.read_bytes(), text.name, matrix), matrix).findings
    except EnvcheckError:  # nothing in it was recognised
        return ()


@pytest.mark.parametrize("case", list(_cases()))
def test_a_public_case_gets_its_cause_first_and_no_false_alarm(case, matrix):
    findings = _findings(case, matrix)
    causes = [finding.cause for finding in findings]
    expected, allowed = _keys(case, "expect"), _keys(case, "also")
    assert set(expected) <= set(causes)
    if expected:
        assert causes[0] in expected
    loud = {finding.cause for finding in findings if finding.severity in ("error", "warning")}
    assert loud <= {*expected, *allowed}


def test_every_answer_uses_the_keys_of_the_matrix(matrix):
    known = {cause.key for cause in matrix.causes}
    for case in FOUND:
        assert {*_keys(case, "expect"), *_keys(case, "also")} <= known, case.stem
        assert _answer(case)["healthy"] is not bool(_keys(case, "expect")), case.stem


def test_a_known_miss_is_a_case_that_exists():
    assert set(KNOWN_MISSES) <= {case.stem for case in FOUND}
