"""A file system that never answers: whoever touches it hangs in the kernel, and the inspection still ends."""

import ctypes
import os
import subprocess
import sys
import time

import pytest

from envcheck.probes.inspect import inspect_host
from envcheck.probes.runner import LiveRunner

pytestmark = pytest.mark.integration  # mounts a file system: needs root and /dev/fuse
HERE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


@pytest.fixture
def dead(tmp_path):
    """A FUSE mount whose server takes the requests and never answers."""
    folder = tmp_path / "dead"
    folder.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"dead", os.fsencode(folder), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    yield folder
    os.close(server)  # aborts the connection: all that hang get an error
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=10)


def test_an_interpreter_on_a_dead_mount_costs_its_facts_only(dead):
    started = time.monotonic()
    snapshot = inspect_host(env=HERE, python=f"{dead}/bin/python", deadline=1.5)
    assert time.monotonic() - started < 2.5
    assert snapshot.stack.python.unknown == "Python: did not answer in 1.5 s (python_env probe)"
    assert snapshot.machine.engine.known or "did not answer" not in snapshot.machine.engine.unknown
    assert snapshot.machine.kernel.known


def test_a_library_folder_on_a_dead_mount_ends_in_time(dead):
    started = time.monotonic()
    snapshot = inspect_host(env={**HERE, "LD_LIBRARY_PATH": f"{dead}/lib"}, deadline=1.5)
    assert time.monotonic() - started < 2.5
    assert not snapshot.machine.gpus.known
    assert snapshot.stack.python.known


def test_the_process_ends_although_a_thread_hangs(dead):
    code = f"from envcheck.probes.inspect import inspect_host; inspect_host(python='{dead}/bin/python', deadline=1)"
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], env=HERE, timeout=20, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - started < 3


def test_a_child_that_hangs_on_a_dead_mount_is_ended(dead):
    code = f"import os; print('here', flush=True); os.stat('{dead}/x')"
    started = time.monotonic()
    run = LiveRunner().run([sys.executable, "-I", "-S", "-c", code], timeout=1)
    assert time.monotonic() - started < 2.5
    assert run.timed_out
    assert run.out == b"here\n"
