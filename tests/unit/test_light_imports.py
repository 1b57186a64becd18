"""What doctor on a host and --version leave unimported: they are to answer in a blink."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "docker", "elftools", "jinja2", "junitparser", "prometheus_client", "pypi_simple", "pynvml", "python_on_whales",
    "requests", "rich", "tomlkit", "urllib3", "yaml",
    # of the standard library and of packaging: each takes as long as a probe
    "asyncio", "difflib", "hashlib", "http.client", "logging", "packaging.requirements", "packaging.tags", "shutil",
    "subprocess", "tempfile",
}  # fmt: skip
CHILD = """
import json, sys
from envcheck.cli.start import start
try:
    start()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(*argv: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", CHILD, *argv], capture_output=True, text=True, timeout=60, check=False)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("argv", [("doctor", "--python", sys.executable), ("--version",)])
def test_what_is_heavy_stays_out(argv: tuple[str, ...]) -> None:
    here = imported(*argv)
    assert "envcheck.cli.main" in here
    assert not here & HEAVY


def test_the_version_needs_no_matrix_and_no_probe() -> None:
    ours = {name for name in imported("--version") if name.startswith("envcheck.")}
    assert ours <= {"envcheck.cli", "envcheck.cli.main", "envcheck.cli.start", "envcheck.errors"}
