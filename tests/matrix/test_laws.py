"""The laws hold over every row of the matrix, and each notices the rows that break it."""

import msgspec
import pytest

from envcheck.matrix.check import TableReader, check
from envcheck.matrix.laws import LAWS
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.reader import Reader
from envcheck.matrix.tables import Table, read_tables


@pytest.fixture(scope="module")
def tables(root):
    """Every table, from the TOML itself."""
    found, faults = read_tables(Reader(root / "matrices", compiled=None))
    assert not faults
    return found


def test_every_law_holds_over_the_whole_matrix(root):
    assert [str(fault) for fault in check(Reader(root / "matrices", compiled=None))] == []


def test_every_toml_file_has_rows_and_is_read(root, tables):
    written = {path.relative_to(root / "matrices").as_posix() for path in (root / "matrices").rglob("*.toml")}
    assert {table.file for table in tables} == written


def change(tables, subject, part, number, **changes):
    """The tables with one row changed."""
    changed = []
    for table in tables:
        if (table.subject.name, table.part) == (subject, part):
            row = msgspec.structs.replace(table.rows[number], **changes)
            rows = (*table.rows[:number], row, *table.rows[number + 1 :])
            table = Table(table.file, table.subject, table.part, rows)
        changed.append(table)
    return changed


def faults_of(tables):
    """One at a time: whoever has found what it looks for needs no further law."""
    matrix = Matrix(TableReader(tables))
    return (fault for law in LAWS for fault in law(matrix, tables))


def place(tables, subject, part, **wanted):
    """The number of the row with these values."""
    for table in tables:
        if (table.subject.name, table.part) == (subject, part):
            for number, row in enumerate(table.rows):
                if all(getattr(row, key) == value for key, value in wanted.items()):
                    return number
    raise AssertionError(f"no such row in {subject}/{part}: {wanted}")


TORCH = ("builds", "torch")
SEEDED = {
    "source missing": ("cuda", "", {"version": "12.1.1"}, {"source": " "}, "source"),
    "date not ISO": ("cuda", "", {"version": "12.1.1"}, {"checked": "March 2026"}, "checked"),
    "second row of a key": ("cuda", "", {"version": "12.1.1"}, {"version": "12.1.0"}, "version"),
    "driver that is no version": ("cuda", "", {"version": "12.1.1"}, {"linux_driver": "530.x"}, "linux_driver"),
    "driver floor falls": ("cuda", "", {"version": "12.4.0"}, {"linux_driver": "520.10"}, "linux_driver"),
    "minor floor falls": ("cuda", "", {"version": "13.0.0"}, {"minor_linux": "510"}, "minor_linux"),
    "branch runs less than an older": (
        "branches",
        "",
        {"branch": 580, "platform": "linux"},
        {"max_cuda": "12.1"},
        "max_cuda",
    ),
    "newest driver of another branch": (
        "branches",
        "",
        {"branch": 580, "platform": "linux"},
        {"latest": "570.1"},
        "latest",
    ),
    "dead before born": ("branches", "", {"branch": 580, "platform": "linux"}, {"eol": "2020-01-01"}, "eol"),
    "compat of a CUDA that isn't": ("forward_compat", "", {"branch": 535, "cuda": "13.0"}, {"cuda": "13.9"}, "cuda"),
    "compat of a branch that isn't": ("forward_compat", "", {"branch": 535, "cuda": "13.0"}, {"branch": 533}, "branch"),
    "capability ends before it starts": ("capabilities", "", {"capability": "9.0"}, {"last_cuda": "11.0"}, "last_cuda"),
    "feature both had and lacked": ("capabilities", "", {"capability": "9.0"}, {"lacks": ("fp8",)}, "lacks"),
    "GPU of an unknown capability": ("gpus", "", {"name": "NVIDIA L4"}, {"capability": "9.9"}, "capability"),
    "malformed PCI id": ("gpus", "", {"name": "NVIDIA L4"}, {"pci_ids": ("0x27b8",)}, "pci_ids"),
    "PCI id of two architectures": ("gpus", "", {"name": "NVIDIA L4"}, {"pci_ids": ("2684", "20B0")}, "pci_ids"),
    "alias of another GPU": ("gpus", "", {"name": "NVIDIA L4"}, {"aliases": ("A100-SXM4-80GB",)}, "aliases"),
    "machine with an unknown GPU": ("instances", "", {"name": "p4d.24xlarge"}, {"model": "NVIDIA A101"}, "model"),
    "unknown cause": ("known_bad", "", {"id": "numpy2-torch"}, {"cause": "numpy-two"}, "cause"),
    "specifier that is none": (
        "known_bad",
        "",
        {"id": "numpy2-torch"},
        {"packages": {"torch": "2.3"}},
        "packages.torch",
    ),
    "condition that nothing meets": ("known_bad", "", {"id": "numpy2-torch"}, {"python": ">=3.12,<3.10"}, "python"),
    "fix before the fault": (
        "vulnerabilities",
        "",
        {"component": "runc", "branch": "1.3", "id": "CVE-2025-31133"},
        {"first_good": "1.3.1"},
        "first_good",
    ),
    "fix of another branch": (
        "vulnerabilities",
        "",
        {"component": "nvidia-driver-linux", "branch": "R580", "id": "NVIDIA-5821"},
        {"branch": "R570"},
        "branch",
    ),
    "gcc bound falls": ("host_compilers", "", {"cuda": "13.0"}, {"gcc_max": 12}, "gcc_max"),
    "terminal escape in a text": ("gpus", "", {"name": "NVIDIA L4"}, {"note": "\x1b[2J"}, "note"),
    "row in another package's file": (*TORCH, {"version": "2.5.1", "variant": "cu124"}, {"package": "jax"}, "package"),
    "build of a CUDA that isn't": (*TORCH, {"version": "2.5.1", "variant": "cu124"}, {"cuda": "12.7"}, "cuda"),
    "CUDA that the variant denies": (*TORCH, {"version": "2.5.1", "variant": "cu124"}, {"cuda": "12.1"}, "cuda"),
    "accelerator that the variant denies": (
        *TORCH,
        {"version": "2.5.1", "variant": "cu124"},
        {"accelerator": "rocm"},
        "accelerator",
    ),
    "architecture too new for its CUDA": (
        *TORCH,
        {"version": "2.5.1", "variant": "cu124"},
        {"capabilities": ("9.0", "12.0")},
        "capabilities",
    ),
    "architecture too old for its CUDA": (
        *TORCH,
        {"version": "2.13.0", "variant": "cu130"},
        {"capabilities": ("7.0",)},
        "capabilities",
    ),
    "no architecture at all": (*TORCH, {"version": "2.5.1", "variant": "cu124"}, {"capabilities": ()}, "capabilities"),
    "empty Python range": (*TORCH, {"version": "2.5.1", "variant": "cu124"}, {"python_max": "3.8"}, "python_max"),
    "two defaults on a platform": (
        *TORCH,
        {"version": "2.5.1", "variant": "cu121"},
        {"default_on": ("linux-x86_64",)},
        "default_on",
    ),
    "requirement that is none": (
        *TORCH,
        {"version": "2.5.1", "variant": "cu124"},
        {"requires": ("numpy 2",)},
        "requires",
    ),
    "exact pin of no release": (
        "companions",
        "torchvision",
        {"version": "0.20.1"},
        {"requirement": "==2.5.9", "framework_version": "2.5.9"},
        "framework_version",
    ),
    "pin that denies its release": (
        "companions",
        "torchvision",
        {"version": "0.20.1"},
        {"framework_version": "2.5.0"},
        "framework_version",
    ),
    "pinned version outside its pin": (
        "pins",
        "torch",
        {"version": "2.5.1", "package": "nvidia-cudnn-cu12"},
        {"pinned": "8.9"},
        "pinned",
    ),
    "metapackage that pins two things": (
        "pins",
        "torch",
        {"version": "2.12.1", "package": "nvidia-cufft", "machine": "x86_64"},
        {"requirement": "==1.0", "pinned": None},
        "requirement",
    ),
    "image that isn't NVIDIA's": (
        "framework_images",
        "pytorch",
        {"reference": "nvcr.io/nvidia/pytorch:23.07-py3"},
        {"reference": "docker.io/evil/pytorch:23.07-py3"},
        "reference",
    ),
    "month that isn't one": (
        "framework_images",
        "pytorch",
        {"reference": "nvcr.io/nvidia/pytorch:23.07-py3"},
        {"reference": "nvcr.io/nvidia/pytorch:23.13-py3"},
        "reference",
    ),
    "tag of another CUDA": ("cuda_images", "", {"tag": "12.4.1-base-ubuntu22.04"}, {"cuda": "12.4.0"}, "tag"),
    "cuDNN that the tag denies": (
        "cuda_images",
        "",
        {"tag": "12.4.1-base-ubuntu22.04"},
        {"has_cudnn": True},
        "has_cudnn",
    ),
    "package with an unknown cause": ("packages", "", {"name": "torch"}, {"causes": ("no-such",)}, "causes"),
    "install of no release": ("installs", "", {"package": "torch"}, {"versions": ">=2,<1"}, "versions"),
    "package of an unknown framework": ("packages", "", {"name": "torchvision"}, {"of": "trch"}, "of"),
    "cuDNN for no GPU": (
        "cudnn",
        "",
        {"version": "9.0.0", "cuda": "12.x"},
        {"min_capability": "9.5"},
        "max_capability",
    ),
}


@pytest.mark.parametrize("case", SEEDED.values(), ids=SEEDED)
def test_a_seeded_violation_is_reported_with_its_file_row_and_key(tables, case):
    subject, part, wanted, changes, key = case
    number = place(tables, subject, part, **wanted)
    file = f"{subject}/{part}.toml" if part else f"{subject}.toml"
    found = faults_of(change(tables, subject, part, number, **changes))
    assert any(fault.file == file and key in fault.key and fault.row for fault in found)


def test_a_symptom_with_a_bad_pattern_and_an_unknown_cause_is_reported_twice(tables):
    from envcheck.matrix.rows import Symptom

    row = Symptom(id="x", pattern="(", proves="no-such-cause", source="s", checked="2026-11")
    changed = [Table(t.file, t.subject, t.part, (*t.rows, row)) if t.subject.name == "symptoms" else t for t in tables]
    assert {fault.key for fault in faults_of(changed)} == {"pattern", "proves"}
