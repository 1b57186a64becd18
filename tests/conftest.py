"""What every test may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def matrix():
    """The real compatibility matrix."""
    from envcheck import matrix as matrices

    return matrices.load()


@pytest.fixture
def envcheck(tmp_path):
    """Run the command line as a user does: a process of its own. `envcheck("doctor", cwd=…, env=…)`."""
    import os
    import subprocess

    def run(*args: str, cwd: Path = tmp_path, env: dict[str, str] | None = None, stdin: bytes = b"", timeout: float = 60):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "CONDA", "CUDA", "NVIDIA", "LD_"))}
        clean.pop("NO_COLOR", None)
        return subprocess.run(
            [sys.executable, "-m", "envcheck", *args], cwd=cwd, env={**clean, **(env or {})}, input=stdin,
            capture_output=True, timeout=timeout,
        )

    return run
