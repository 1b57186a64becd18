"""Every buildable cell of the matrix gives a Dockerfile that Docker's parser and hadolint accept (HARDENING R20)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

from envcheck import versions
from envcheck.dockerfile.generate import generate_dockerfile, generate_files
from envcheck.model.request import Request
from envcheck.resolve.candidates import images, pythons_of, wheels
from envcheck.resolve.resolver import judge_plan, resolve
from tests.unit.dockerfile.parser import assert_as_intended, expected, parse

FIRST = {"torch": "1.12", "tensorflow": "2.8", "jax": "0.4.22"}


def cells(matrix, framework):
    """(release, CUDA, Python) of every wheel that an image can have."""
    for candidate in wheels(matrix, framework):
        if Version(candidate.version) >= Version(FIRST[framework]):
            for python in pythons_of(candidate, matrix):
                yield candidate, python


def without_labels(text: str) -> str:
    """Files that differ in labels alone need one look of hadolint's; Docker's parser reads each."""
    return re.sub(r"^LABEL (?:.*\\\n)*.*\n", "", text, flags=re.MULTILINE)


def hadolint() -> str:
    return str(Path(sys.executable).parent / "hadolint")


def lint(paths):
    """All files in few calls; hadolint's own words are the failure."""
    for start in range(0, len(paths), 200):
        done = subprocess.run([hadolint(), "--no-color", *paths[start : start + 200]], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[:3000] + done.stderr[:1000]
        assert done.stdout == ""


@pytest.mark.parametrize("framework", list(FIRST))
def test_every_cell_of_release_cuda_and_python_gives_the_intended_dockerfile(matrix, framework, tmp_path):
    written, count = {}, 0
    for candidate, python in cells(matrix, framework):
        cuda = versions.minor(candidate.cuda)
        request = Request(framework=framework, version=candidate.version, cuda=cuda, python=python, base="cuda")
        plan = resolve(request, matrix)
        assert plan.version == candidate.version
        assert versions.minor(plan.python.version) == python
        assert [f.message for f in judge_plan(plan, matrix).findings if f.severity != "note"] == []
        text = generate_dockerfile(plan)
        assert_as_intended(text, expected(plan, []))
        folder = generate_dockerfile(plan, folder=True)
        assert [name for name, _ in parse(folder)][4:6] == ["COPY", "RUN"]
        for either in (text, folder):
            written.setdefault(without_labels(either), either)
        count += 1
    for number, text in enumerate(written.values()):
        (tmp_path / f"{number}.Dockerfile").write_text(text, encoding="utf-8")
    lint(sorted(str(path) for path in tmp_path.iterdir()))
    assert count >= {"torch": 250, "tensorflow": 80, "jax": 120}[framework]


def test_every_cell_was_built_for_exactly_the_cuda_and_python_that_the_matrix_has(matrix):
    for framework in FIRST:
        for candidate in wheels(matrix, framework):
            if Version(candidate.version) >= Version(FIRST[framework]):
                assert pythons_of(candidate, matrix), f"{framework} {candidate.version} has no Python to run on"


@pytest.mark.parametrize("framework", list(FIRST))
def test_every_image_of_nvidia_gives_the_intended_dockerfile(matrix, framework, tmp_path):
    done = 0
    for candidate in images(matrix, framework):
        release = versions.minor(candidate.version)
        cuda = versions.minor(candidate.cuda)
        request = Request(
            framework=framework, version=release, cuda=cuda, base="framework", packages=("rich<14", "einops")
        )
        plan = resolve(request, matrix)
        text = generate_dockerfile(plan)
        assert_as_intended(text, expected(plan, ["rich<14", "einops"]))
        (tmp_path / f"{done}.Dockerfile").write_text(text)
        (tmp_path / f"{done}.folder.Dockerfile").write_text(generate_files(plan)[0].content)
        done += 1
    if done:
        lint(sorted(str(path) for path in tmp_path.iterdir()))
    assert done >= {"torch": 60, "tensorflow": 20, "jax": 0}[framework]
