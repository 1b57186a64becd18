"""The wheel and the sdist, each installed in an empty environment and used from another folder."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True, capture_output=True, timeout=300
    )
    return {"wheel": next(out.glob("*.whl")), "sdist": next(out.glob("*.tar.gz"))}


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_installed_distribution_works_from_any_folder(kind, distributions, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    subprocess.run(
        [venv / "bin" / "pip", "install", "--quiet", str(distributions[kind])],
        check=True,
        capture_output=True,
        timeout=300,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = venv / "bin" / "envcheck"
    shown = subprocess.run(
        [command, "matrix", "show", "torch", "2.1.2"], cwd=elsewhere, capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    assert "12.1" in shown.stdout
    built = subprocess.run(
        [command, "build", "--torch", "2.1.2", "--cuda", "12.1"],
        cwd=elsewhere,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert built.returncode == 0, built.stderr
    assert "FROM nvcr.io/nvidia/cuda:12.1" in built.stdout


def test_the_wheel_holds_matrix_and_templates_but_no_tests(distributions):
    names = zipfile.ZipFile(distributions["wheel"]).namelist()
    assert any(name.endswith("matrices/cuda.toml") for name in names)
    assert any("/templates/" in name for name in names)
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_the_sdist_holds_the_sources_and_the_tests(distributions):
    with tarfile.open(distributions["sdist"]) as sdist:
        names = sdist.getnames()
    for part in ("matrices/cuda.toml", "tests/conftest.py", "LICENSE", "README.md", "CHANGELOG.md"):
        assert any(name.endswith(f"/{part}") for name in names), part
