"""The promise of issue 6: 200 requirement files and 50 Dockerfiles in under two seconds."""

import sys

import pytest


@pytest.mark.timeout(120)
def test_a_large_repository_is_judged_in_two_seconds(root, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(root / "benchmarks"), *sys.path])
    from gate import make, run

    make(tmp_path)
    _, cpu, done = min((run(tmp_path) for _ in range(2)), key=lambda result: result[1])
    assert done.returncode == 0
    assert done.stdout.startswith("✓ Nothing wrong in 251 checks")
    assert cpu < 2  # of the processor: one process that waits for nothing, whatever else the machine is doing
