"""The shipped probes beside NVIDIA's own libraries, on a machine without an NVIDIA kernel module."""

import os
import subprocess
from pathlib import Path

import pytest

from envcheck.probes.inspect import inspect_host
from envcheck.probes.nvidia_smi import ask_smi
from envcheck.probes.nvml import ask_nvml
from envcheck.probes.runner import LiveRunner
from tests.machines.real_driver import unpack_driver

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def no_trace():
    """NVIDIA's libraries make /dev/nvidiactl when root starts them; the tests after these must not meet it."""
    node = Path("/dev/nvidiactl")
    there = node.exists()
    yield
    if not there:
        node.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return unpack_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def library(root):
    return next(root.rglob("libnvidia-ml.so.1"))


def test_real_nvml_says_that_the_driver_is_not_loaded(library):
    answer = ask_nvml(LiveRunner(), str(library), timeout=20)
    assert answer.fault is not None
    assert (answer.fault.code, answer.trouble, answer.gpus) == ("DRIVER_NOT_LOADED", "", ())


def test_the_whole_inspection_names_it_and_its_version(library):
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(library.parent)}
    machine = inspect_host(env=env).machine
    assert machine.driver_fault.get().code == "DRIVER_NOT_LOADED"
    assert machine.driver.value is None
    assert machine.nvml_version.get().split(".")[0].isdigit()
    assert machine.gpus.known


def test_real_nvidia_smi_says_the_same(root, library):
    program = next(path for path in root.rglob("nvidia-smi") if path.is_file() and os.access(path, os.X_OK))
    runner = LiveRunner({"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": str(library.parent)})
    answer = ask_smi(runner, str(program), timeout=20)
    assert answer.fault is not None
    assert answer.fault.code == "DRIVER_NOT_LOADED"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_real_library_does_not_take_us_down(library, tmp_path, share):
    data = library.read_bytes()
    cut = tmp_path / "libnvidia-ml.so.1"
    cut.write_bytes(data[: int(len(data) * share)])
    answer = ask_nvml(LiveRunner(), str(cut), timeout=20)
    assert answer.fault or answer.trouble
    assert answer.gpus == ()


def test_nothing_of_the_driver_was_installed():
    assert subprocess.run(["dpkg", "-s", "libnvidia-ml1"], capture_output=True).returncode != 0
