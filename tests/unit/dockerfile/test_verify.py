"""A built image's answer matches its plan, or every difference is named."""

import json
import subprocess
import sys

import msgspec
import pytest

from envcheck import matrix as matrices
from envcheck.dockerfile.verify import MARK, Answer, compare, program, read_answer
from envcheck.model.request import Request
from envcheck.resolve.resolver import resolve

MATRIX = matrices.load()
WHEELS = resolve(Request(framework="torch", version="2.1.2", cuda="12.1"), MATRIX)
IMAGE = resolve(Request(framework="torch", version="2.1", cuda="12.1"), MATRIX)
PACKAGES = {"torch": "2.1.2+cu121", "torchvision": "0.16.2+cu121", "torchaudio": "2.1.2+cu121"}
GOOD = Answer("3.10.12", PACKAGES, "2.1.2+cu121", "12.1", [], None)
NVIDIAS = Answer("3.10.6", {"torch": "2.1.0a0+b5021ba"}, "2.1.0a0+b5021ba", "12.1", [], None)


def changed(answer, **fields):
    return msgspec.structs.replace(answer, **fields)


@pytest.mark.parametrize(("plan", "answer"), [(WHEELS, GOOD), (IMAGE, NVIDIAS)], ids=["wheels", "image"])
def test_what_was_planned_is_no_difference(plan, answer):
    assert compare(plan, answer, gpus_expected=False) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"python": "3.11.9"}, "Python is 3.11.9"),
        ({"packages": {**PACKAGES, "torch": "2.1.2"}}, "torch is 2.1.2, planned was 2.1.2+cu121"),
        ({"packages": {**PACKAGES, "torch": "2.2.0+cu121"}}, "torch is 2.2.0"),
        ({"packages": {**PACKAGES, "torch": None}}, "torch isn't installed"),
        ({"packages": {**PACKAGES, "torchvision": "0.17.0"}}, "torchvision is 0.17.0"),
        ({"cuda": "11.8"}, "built for CUDA 11.8"),
        ({"cuda": None}, "has no CUDA"),
        ({"fault": "OSError: libcudart"}, "doesn't work: OSError"),
        ({"gpus": [("A100", False)]}, "A100 computes wrongly"),
    ],
)
def test_each_difference_is_named(fields, words):
    assert any(words in text for text in compare(WHEELS, changed(GOOD, **fields), gpus_expected=False))


@pytest.mark.parametrize("version", ["2.1.2+cu121", "2.1.2", "2.2.0"])
def test_a_replaced_build_of_nvidia_is_told_from_nvidias(version):
    answer = changed(NVIDIAS, packages={"torch": version}, imported=version)
    assert any("NVIDIA's build was replaced" in text for text in compare(IMAGE, answer, gpus_expected=False))


def test_gpus_of_the_engine_that_the_framework_does_not_see_are_a_difference():
    assert compare(WHEELS, GOOD, gpus_expected=True)
    assert compare(WHEELS, changed(GOOD, gpus=[("A100", True)]), gpus_expected=True) == []


def test_the_answer_is_found_among_banners():
    line = MARK + msgspec.json.encode(GOOD).decode()
    assert read_answer(f"== NVIDIA ==\n{line}\nbye\n") == GOOD
    assert read_answer("nothing") is None
    assert read_answer(MARK + "{broken") is None


def test_the_program_answers_where_the_framework_is_missing(tmp_path):
    words = program(WHEELS)
    done = subprocess.run([sys.executable, "-I", *words[1:]], capture_output=True, text=True, cwd=tmp_path)
    answer = read_answer(done.stdout)
    assert json.loads(done.stdout[len(MARK) :])["python"]
    assert answer.packages["torchvision"] is None
    assert answer.fault.startswith("ModuleNotFoundError")
