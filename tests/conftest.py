"""What every test may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# In CI the same examples each time: a new counterexample is for the person who can look at it, not for a landing.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
if os.environ.get("CI"):
    settings.load_profile("ci")

# One width for every worker: xdist tells its workers that the terminal has 80 columns.
os.environ["COLUMNS"] = "110"

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
    import subprocess

    def run(
        *args: str, cwd: Path = tmp_path, env: dict[str, str] | None = None, stdin: bytes = b"", timeout: float = 60
    ):
        clean = {
            k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "CONDA", "CUDA", "NVIDIA", "LD_"))
        }
        clean.pop("NO_COLOR", None)
        return subprocess.run(
            [sys.executable, "-m", "envcheck", *args],
            cwd=cwd,
            env={**clean, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=timeout,
        )

    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag rewrites every golden and generated file."""
    parser.addoption("--rewrite", action="store_true", help="rewrite golden and generated files instead of comparing")


@pytest.fixture
def golden(request):
    """`golden(path, text)`: the file holds exactly this text (or gets it, under --rewrite)."""

    def check(path: Path, text: str) -> None:
        if request.config.getoption("--rewrite"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: run pytest --rewrite"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path} is not current: run pytest --rewrite and look at the change"
        )

    return check
