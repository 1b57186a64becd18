"""Recorded machines give byte-stable snapshots; each recipe of recipes.py has its snapshot beside it."""

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from envcheck.probes.replay import replay
from tests.machines.parts import build
from tests.machines.recipes import MACHINES

SNAPSHOTS = Path(__file__).with_name("snapshots")
KNOWN = frozenset({"torch", "torchvision", "tensorflow", "numpy"})


def text_of(snapshot) -> str:
    return msgspec.json.format(msgspec.json.encode(snapshot), indent=1).decode() + "\n"


def tree_hash(folder: Path) -> str:
    total = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*files, *folders]):
            path = Path(place, name)
            status = path.lstat()
            total.update(f"{path} {status.st_mode} {status.st_mtime_ns} {status.st_size}".encode())
    return total.hexdigest()


def test_there_are_forty_machines():
    assert len(MACHINES) >= 40


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_gives_its_snapshot_and_stays_as_it_was(name, tmp_path, golden):
    folder = build(MACHINES[name](), tmp_path / "machine")
    before = tree_hash(folder)
    snapshot = replay(folder, known=KNOWN)
    golden(SNAPSHOTS / f"{name}.json", text_of(snapshot))
    assert tree_hash(folder) == before
    assert str(tmp_path) not in text_of(snapshot)


def test_every_snapshot_has_its_machine():
    assert {path.stem for path in SNAPSHOTS.glob("*.json")} == set(MACHINES)
