"""Reports and gates made by hand, for the formats."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from envcheck.model.fact import known
from envcheck.model.finding import Evidence, Finding, Report, Skip, Summary, Suppressed, Tool
from envcheck.model.gate import Cell, Gate, summarise
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.recipe import Recipe
from envcheck.model.snapshot import Origin, Snapshot

HOST = Snapshot(
    origin=Origin("host"),
    machine=Machine(
        gpus=known((Gpu("Tesla T4", index=0, capability="7.5"),), "NVML"), driver=known(Driver("535.1"), "NVML")
    ),
)
FILE = Snapshot(origin=Origin("dockerfile", "Dockerfile"), recipe=Recipe(files=("Dockerfile",)))


def finding(rule="DRV101", severity="error", message="driver 535 is too old", path="", line=None, subject="GPU 0"):
    return Finding(
        rule=rule,
        slug="driver-too-old",
        cause="driver-too-old-for-cuda",
        severity=severity,
        subject=subject,
        message=message,
        evidence=(
            Evidence("driver", "535.104.05", "NVML", "found"),
            Evidence("driver", ">= 580", "matrices/cuda.toml", "needed"),
        ),
        fix=("apt-get install nvidia-driver-580", "pip install torch==2.5.1"),
        url="https://github.com/envcheck/envcheck/blob/main/docs/rules.md#drv101",
        path=path,
        line=line,
    )


def report(*findings, snap=HOST, skipped=(), suppressed=(), verdict=None):
    counts = [sum(f.severity == s for f in findings) for s in ("error", "warning", "note")]
    verdict = verdict or ("findings" if counts[0] or counts[1] else "ok")
    return Report(
        1, Tool("envcheck", "0.1"), snap, findings, skipped, Summary(verdict, *counts, len(skipped), 41), suppressed
    )


def gate(*cells, fail_on="error"):
    return Gate(1, Tool("envcheck", "0.1"), "envcheck.toml", fail_on, cells, summarise(cells))


@pytest.fixture
def one_of_each():
    """A gate with every kind of cell and finding."""
    bad = finding(path="Dockerfile", line=3)
    return gate(
        Cell("the machine", "aws:p4d.24xlarge", report(finding(severity="warning"))),
        Cell(
            "the machine", "this host", report(skipped=(Skip("GPU201", "NVML did not answer"),), verdict="inconclusive")
        ),
        Cell("Dockerfile", "aws:p4d.24xlarge", report(bad, snap=FILE)),
        Cell("Dockerfile", "this host", report(bad, finding(severity="note", message="worth knowing"), snap=FILE)),
        Cell("requirements.txt", "aws:p4d.24xlarge", report(snap=FILE)),
        Cell(
            "requirements.txt",
            "this host",
            report(suppressed=(Suppressed(finding(message="old news"), "ignored", "waiting (until 2027-01-01)"),)),
        ),
        Cell("nvcr.io/x:1", "this host", failure="the registry did not answer"),
    )


@pytest.fixture
def envcheck(tmp_path, monkeypatch, capfdbinary):
    """The command line in this process, for speed: `envcheck("check", "-v")` in the test's own folder."""
    from envcheck.cli.main import run as command_line

    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*args, env=None):
        monkeypatch.chdir(tmp_path)
        for name, value in (env or {}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["envcheck", *map(str, args)])
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line()
        out, err = capfdbinary.readouterr()
        return SimpleNamespace(returncode=ended.value.code, stdout=out, stderr=err)

    return run
