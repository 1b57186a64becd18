"""A known-bad row is judged by what is known, and by nothing else."""

import pytest

from envcheck.matrix.known_bad import Environment, holds, is_decidable


@pytest.fixture
def row(matrix):
    """A row by its id."""
    rows = {combination.id: combination for combination in matrix.known_bad}
    return rows.__getitem__


@pytest.mark.parametrize(
    ("packages", "answer"),
    [
        ({"torch": "2.1.2+cu121", "numpy": "2.1.3"}, True),
        ({"torch": "2.1.2+cu121", "numpy": "1.26.4"}, False),
        ({"torch": "2.4.1", "numpy": "2.1.3"}, False),
        ({"torch": "2.1.2"}, False),  # numpy isn't installed
        ({"torch": "2.1.2", "numpy": None}, None),
        ({"torch": "2.4.1", "numpy": None}, False),
        ({"torch": "2.1.0a0+b5021ba", "numpy": "2.0.0"}, True),
    ],
)
def test_packages_decide(row, packages, answer):
    assert holds(row("numpy2-torch"), Environment(packages=packages)) is answer


@pytest.mark.parametrize(("os", "answer"), [("windows", True), ("linux", False), (None, None)])
def test_the_operating_system_decides(row, os, answer):
    found = Environment(packages={"torch": "2.3.1", "numpy": "2.0.0"}, os=os)
    assert holds(row("numpy2-torch-windows"), found) is answer


@pytest.mark.parametrize(("capability", "answer"), [("7.0", True), ("8.6", False), (None, None), ("12.0", False)])
def test_the_gpu_decides(row, capability, answer):
    found = Environment(packages={"nvidia-cudnn-cu12": "9.11.0.98"}, capability=capability)
    assert holds(row("cudnn-911-old-gpu"), found) is answer


def test_a_row_for_a_person_is_never_judged(row):
    assert not is_decidable(row("protobuf-descriptors"))
    assert holds(row("protobuf-descriptors"), Environment()) is None


def test_nothing_known_proves_nothing(matrix):
    assert [r.id for r in matrix.known_bad if holds(r, Environment())] == []
