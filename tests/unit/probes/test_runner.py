"""Children of the shipped runner, real ones: what they do wrong must cost bounded time and leave nobody behind."""

import os
import signal
import sys
import threading
import time

import pytest

from envcheck.probes.runner import LiveRunner, NoRunner, Run, Stall

PYTHON = [sys.executable, "-I", "-S", "-c"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0] != "Z"


def gone(pid: int, seconds: float = 1.0) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_output_and_exit_status_come_back():
    run = LiveRunner().run([*PYTHON, "import sys; print('a'); print('b', file=sys.stderr); sys.exit(9)"], timeout=10)
    assert (run.rc, run.out, run.err) == (9, b"a\n", b"b\n")
    assert run.outcome == "exit 9"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGKILL"])
def test_a_deadly_signal_is_named(name):
    run = LiveRunner().run([*PYTHON, f"import os, signal; os.kill(os.getpid(), signal.{name})"], timeout=10)
    assert run.rc == -getattr(signal, name)
    assert run.outcome == f"killed by {name}"


def test_a_child_that_sleeps_is_ended_and_keeps_what_it_said():
    started = time.monotonic()
    run = LiveRunner().run([*PYTHON, "import time; print('first', flush=True); time.sleep(60)"], timeout=0.5)
    assert time.monotonic() - started < 1.5
    assert run.timed_out
    assert run.rc is None
    assert run.out == b"first\n"


def test_a_child_that_ignores_term_is_killed():
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    run = LiveRunner().run([*PYTHON, code], timeout=0.5)
    assert run.timed_out
    assert not run.abandoned


def test_a_grandchild_that_holds_the_pipe_delays_nobody_and_is_killed():
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
    )
    started = time.monotonic()
    run = LiveRunner().run([*PYTHON, code], timeout=10)
    assert time.monotonic() - started < 5
    assert run.rc == 0
    assert gone(int(run.out))


def test_endless_output_is_capped():
    run = LiveRunner(cap=100_000).run([*PYTHON, "while True: print('x' * 1000)"], timeout=10)
    assert run.capped
    assert len(run.out) == 100_000
    assert run.outcome == "wrote without end and was stopped"


def test_silence_after_the_mark_ends_the_child_early():
    code = "import time; time.sleep(0.3); print('mark', flush=True); time.sleep(60)"
    started = time.monotonic()
    run = LiveRunner().run([*PYTHON, code], timeout=30, stall=Stall(b"mark", 0.3))
    assert 0.3 < time.monotonic() - started < 5
    assert run.timed_out


def test_words_after_the_mark_keep_the_child_alive():
    code = "import time; print('mark', flush=True); [(time.sleep(0.1), print(n, flush=True)) for n in range(8)]"
    run = LiveRunner().run([*PYTHON, code], timeout=30, stall=Stall(b"mark", 0.6))
    assert run.rc == 0


def test_a_child_that_closes_its_output_is_still_waited_for():
    run = LiveRunner().run(
        [*PYTHON, "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(4)"], timeout=10
    )
    assert run.rc == 4


@pytest.mark.parametrize("argv", [["/nowhere/nvidia-smi"], ["/etc/passwd"], ["a\0b"]])
def test_what_can_not_be_started_is_said(argv):
    run = LiveRunner().run(argv, timeout=1)
    assert run.not_started
    assert run.outcome.startswith("could not be started: ")


def test_the_environment_is_clean(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("PYTHONPATH", "/tmp")
    run = LiveRunner().run([*PYTHON, "import os; print(sorted(os.environ))"], timeout=10)
    assert b"LD_" not in run.out
    assert b"PYTHON" not in run.out


def test_no_descriptor_of_ours_is_inherited(tmp_path):
    with open(tmp_path / "secret", "w") as stream:
        os.set_inheritable(stream.fileno(), True)
        run = LiveRunner().run([*PYTHON, "import os; print(os.listdir('/proc/self/fd'))"], timeout=10)
        assert f"'{stream.fileno()}'".encode() not in run.out or stream.fileno() < 4


def test_stop_kills_what_runs():
    runner = LiveRunner()
    result: list[Run] = []
    thread = threading.Thread(
        target=lambda: result.append(runner.run([*PYTHON, "import time; time.sleep(60)"], timeout=30))
    )
    thread.start()
    time.sleep(0.3)
    runner.stop()
    thread.join(5)
    assert result[0].outcome == "killed by SIGKILL"


def test_a_child_that_can_not_be_killed_is_left_behind(monkeypatch):
    """A process in uninterruptible sleep survives SIGKILL; here the kill is what doesn't arrive."""
    import envcheck.probes.runner as module

    monkeypatch.setattr(module, "_kill_group", lambda group: None)
    started = time.monotonic()
    run = LiveRunner(grace=0.2).run([*PYTHON, "import time; time.sleep(3)"], timeout=0.3)
    assert time.monotonic() - started < 2
    assert run.abandoned
    assert run.outcome == "did not answer in time and can't be killed: it hangs in the kernel"


def test_the_recorded_machine_runs_nothing():
    assert NoRunner().run(["/bin/true"], timeout=1).not_started
