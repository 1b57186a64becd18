"""The hooks as pre-commit itself installs and runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_action import OTHERS, ROOT, SHIPPED

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
WRONG = (
    "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"
    "RUN pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu126\n"
)


def git(folder, *argv):
    subprocess.run(["git", "-C", str(folder), *argv], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hooks")
    for name in (*SHIPPED, *OTHERS, ".pre-commit-hooks.yaml"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        else:
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t")
    return folder


@pytest.fixture(scope="module")
def run_hook(hooks, tmp_path_factory):
    home = tmp_path_factory.mktemp("pre-commit")

    def run(folder, hook, *files):
        env = {**os.environ, "PRE_COMMIT_HOME": str(home)}
        argv = [sys.executable, "-m", "pre_commit", "try-repo", str(hooks), hook, "--files", *files]
        return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=280)

    return run


def test_a_wrong_dockerfile_is_stopped_and_a_sound_requirement_file_is_not(run_hook, tmp_path):
    project = Path(tmp_path)
    git(project, "init", "-q")
    (project / "Dockerfile").write_text(WRONG)
    (project / "requirements.txt").write_text("torch==2.5.1\n")
    git(project, "add", "-A")
    wrong = run_hook(project, "envcheck-dockerfile", "Dockerfile", "requirements.txt")
    assert wrong.returncode == 1
    assert "FIL104  Dockerfile:2" in wrong.stdout
    sound = run_hook(project, "envcheck-requirements", "Dockerfile", "requirements.txt")
    assert sound.returncode == 0, sound.stdout
    assert "Passed" in sound.stdout
