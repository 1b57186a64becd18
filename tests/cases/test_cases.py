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
    "AI4Finance-Foundation-FinRL-817": "a library below conda's package cache doesn't yet show that conda provides it",
    "NVIDIA-ISAAC-ROS-isaac_ros_common-29": "an Orin that only a prompt names isn't taken for a Jetson",
    "NVIDIA-cuml-6218": "the work-around with WSL's library path isn't read as a sign",
    "ROCm-ROCm-1159": "AMD's gfx generations aren't in the matrix",
    "YanWenKun-ComfyUI-Docker-187": "torch.version.hip and gfx names aren't read from prose",
    "bitsandbytes-foundation-bitsandbytes-1464": "an AMD card named in the report's heading",
    "deepspeedai-DeepSpeed-5312": "the CUDA major of torch from pip show's Requires",
    "microsoft-WSL-6772": "a driver that isn't reached inside WSL",
    "pinokiocomputer-pinokio-1027": "a Jetson known from a bulleted list",
    "pytorch-pytorch-130181": "two MIG instances from prose and torch's assertion",
    "pytorch-pytorch-51213": "an AMD GPU named by its family",
    "tensorflow-tensorflow-38578": "TensorFlow's release from prose, with CUDA of another minor",
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
