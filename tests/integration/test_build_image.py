"""Generated Dockerfiles built for real by the classic builder, on images that stand in for NVIDIA's."""

from __future__ import annotations

import json

import msgspec
import pytest

from envcheck.cli.build import verify_image
from envcheck.clients.docker_engine import build_image
from envcheck.dockerfile.generate import context_files, generate_dockerfile
from envcheck.errors import BuildError
from envcheck.model.request import Request
from envcheck.resolve.resolver import resolve

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NVIDIAS = "2.3.0a0+6ddf5cf85e"  # torch in pytorch:24.04-py3
SITE = "/usr/local/lib/python3.11/dist-packages"


def torch_files(version: str, cuda: str) -> dict[str, str]:
    """What stands for torch: it says its version and CUDA, and sees no GPU."""
    return {
        "torch/__init__.py": f"from torch import version\n__version__ = {version!r}\n",
        "torch/version.py": f"cuda = {cuda!r}\n",
    }


@pytest.fixture
def nvidia_pytorch(stand_in, index):
    """The stand-in of NVIDIA's image, with a torch that no index has."""
    files = {f"{SITE}/{path}": text.encode() for path, text in torch_files(NVIDIAS, "12.4").items()}
    info = f"{SITE}/torch-{NVIDIAS}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: torch\nVersion: {NVIDIAS}\n".encode()
    files[f"{info}/RECORD"] = b""
    files["usr/local/bin/python"] = b'#!/bin/sh\nexec /usr/bin/python3 "$@"\n'
    env = {"PIP_INDEX_URL": index.url, "PIP_BREAK_SYSTEM_PACKAGES": "1", "CUDA_VERSION": "12.4.1.003"}
    return stand_in("nvcr.io/nvidia/pytorch:24.04-py3", env=env, files=files)


def test_the_command_line_builds_and_verifies_on_nvidias_image(envcheck, engine_env, nvidia_pytorch, index, tmp_path):
    index.add("tinypackage", "1.0")
    args = ["--torch", "2.3", "--cuda", "12.4", "--with", "tinypackage==1.0", "--network", "host", "--verify"]
    done = envcheck("build", *args, "-o", "out", cwd=tmp_path, env=engine_env, timeout=400)
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "verified" in said
    assert NVIDIAS in said
    assert json.loads((tmp_path / "out" / "envcheck.lock").read_text())["image"] == nvidia_pytorch


def test_a_package_that_wants_another_torch_fails_the_build(envcheck, engine_env, nvidia_pytorch, index, tmp_path):
    index.add("greedy", "1.0", requires=("torch>=2.3",))
    index.add("torch", "2.3.1")
    args = ["--torch", "2.3", "--cuda", "12.4", "--with", "greedy==1.0", "--network", "host", "--build"]
    done = envcheck("build", *args, cwd=tmp_path, env=engine_env, timeout=400)
    assert done.returncode == 5, done.stderr.decode()
    assert b"greedy 1.0 depends on torch>=2.3" in done.stderr


@pytest.fixture
def wheels_plan(matrix, index, stand_in):
    """The plan of release wheels on the stand-in of the cuda base, with the index's torch and this Debian's Python."""
    plan = resolve(Request(framework="torch", version="2.1.2", cuda="12.1", packages=("tinypackage>=1,<2",)), matrix)
    index.add("torch", "2.1.2+cu121", torch_files("2.1.2+cu121", "12.1"), requires=("needed",))
    index.add("needed", "1.0")
    index.add("torchvision", "0.16.2+cu121")
    index.add("torchaudio", "2.1.2+cu121")
    index.add("numpy", "1.26.4")
    index.add("numpy", "2.1.0")
    index.add("tinypackage", "1.5")
    python = msgspec.structs.replace(plan.python, version="3.11", pip="25.0.1")
    index.mirror("pip", "25.0.1")
    stand_in(plan.image, env={"PIP_INDEX_URL": index.url, "CUDA_VERSION": "12.1.1"})
    return msgspec.structs.replace(plan, index=index.url, python=python)


@pytest.mark.parametrize("folder", [False, True], ids=["stand-alone", "with files"])
def test_release_wheels_on_a_cuda_base_are_what_was_planned(wheels_plan, engine, engine_env, monkeypatch, folder):
    monkeypatch.setenv("DOCKER_HOST", engine_env["DOCKER_HOST"])
    files = {"Dockerfile": generate_dockerfile(wheels_plan, folder=folder)}
    files.update({file.name: file.content for file in context_files(wheels_plan)} if folder else {})
    lines: list[str] = []
    name = f"envcheck-test:wheels-{int(folder)}"
    build_image(files, name, network="host", progress=lines.append)
    assert any(line.startswith("Step 1/") for line in lines)
    verify_image(wheels_plan, name, None)
    look = "import os, sys, numpy, needed, tinypackage; print(os.getuid(), numpy.__version__, sys.prefix)"
    said = engine.containers.run(name, ["python", "-c", look], network_mode="none", remove=True)
    assert said.split() == [b"10001", b"1.26.4", b"/opt/venv"]
    labels = engine.images.get(name).labels
    assert labels["io.github.envcheck.version"] == "2.1.2+cu121"
    wrong = msgspec.structs.replace(wheels_plan.python, version="3.10")
    other = msgspec.structs.replace(wheels_plan, python=wrong)
    with pytest.raises(BuildError, match=r"Python is 3\.11\.2, planned was 3\.10"):
        verify_image(other, name, None)


def test_without_an_engine_the_build_says_where_it_looked(envcheck, tmp_path):
    env = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = envcheck("build", "--torch", "2.1", "--cuda", "12.1", "--build", cwd=tmp_path, env=env)
    assert done.returncode == 5
    assert b"DOCKER_HOST" in done.stderr
    assert b"Traceback" not in done.stderr
