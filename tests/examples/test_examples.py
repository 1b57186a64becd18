"""The sample repositories: each passes its own gate, and fails it when broken as its README says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/envcheck.toml"))


def check(folder, *args):
    return subprocess.run(
        [sys.executable, "-m", "envcheck", "check", *args], cwd=folder, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_example_passes_its_own_gate(name):
    done = check(EXAMPLES / name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("✓ Nothing wrong in ")


def test_there_are_four_and_the_table_names_them():
    assert NAMES == ["slurm-multinode", "tensorflow-serving", "torch-training", "vllm-serving"]
    told = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]({name})" in told for name in NAMES)


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "rule"),
    [
        ("torch-training", "Dockerfile", "cu124", "cu126", "FIL104"),
        ("torch-training", "envcheck.toml", '"aws:g5.xlarge"', '"aws:g4dn.xlarge"', "SET112"),
        ("torch-training", "requirements.txt", "torch==2.5.1", "torch==2.4.1", "SET101"),
        ("tensorflow-serving", "requirements.txt", "==2.17.1", "==2.13.1", "SET101"),
        ("vllm-serving", "envcheck.toml", '"aws:g6e.12xlarge"', '"aws:p4d.24xlarge"', "SET112"),
        ("vllm-serving", "Dockerfile", "vllm==0.8.5", "vllm==0.7.3", "SET101"),
        ("slurm-multinode", "envcheck.toml", '"aws:p4d.24xlarge"', '"aws:g4dn.xlarge"', "SET111"),
        ("slurm-multinode", "envcheck.toml", 'count = "==8"', 'count = "==4"', "SET111"),
    ],
)
def test_a_broken_example_fails_by_the_rule_that_is_meant(tmp_path, name, file, old, new, rule):
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    done = check(folder)
    assert done.returncode == 1, done.stdout
    assert f"✗ {rule}" in done.stdout
