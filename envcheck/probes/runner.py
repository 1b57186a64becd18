"""Runs a child process by its argument list: bounded in time and output, never through a shell."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Optional, Protocol

import msgspec

if TYPE_CHECKING:
    import subprocess

CLEAN_ENV: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "LANG": "C"}
OUTPUT_CAP = 4 * 2**20
GRACE = 0.5  # seconds that a killed child has to be gone; after that it is left behind


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a child. `rc` is None where it didn't end by itself; a signal is a negative `rc`."""

    argv: tuple[str, ...]
    rc: Optional[int] = None
    out: bytes = b""
    err: bytes = b""
    timed_out: bool = False
    abandoned: bool = False  # killed, and still there: it hangs in the kernel
    capped: bool = False  # it wrote more than the cap and was stopped
    not_started: str = ""  # why it couldn't be started

    @property
    def outcome(self) -> str:
        """How it ended, for people: 'exit 9', 'killed by SIGSEGV', 'did not answer in time'."""
        if self.not_started:
            return f"could not be started: {self.not_started}"
        if self.timed_out:
            left = " and can't be killed: it hangs in the kernel" if self.abandoned else ""
            return f"did not answer in time{left}"
        if self.capped:
            return "wrote without end and was stopped"
        if self.rc is not None and self.rc < 0:
            return f"killed by {signal_name(-self.rc)}"
        return f"exit {self.rc}"


def signal_name(number: int) -> str:
    """SIGSEGV for 11; 'signal 99' for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Stall(NamedTuple):
    """Once `after` stands in the output, silence of `seconds` ends the child as if its time were over."""

    after: bytes
    seconds: float


class Runner(Protocol):
    """Whatever runs a child: the live system, or a recording."""

    def run(self, argv: Sequence[str], *, timeout: float, stall: Optional[Stall] = None) -> Run:
        """Run `argv` (an absolute path first) for at most `timeout` seconds; never raises for what the child does."""

    def stop(self) -> None:
        """Kill every child that still runs."""


class NoRunner:
    """Runs nothing: for a folder that stands in for a machine."""

    def run(self, argv: Sequence[str], *, timeout: float, stall: Optional[Stall] = None) -> Run:
        """A Run that was not started."""
        return Run(tuple(argv), not_started="nothing is run for a recorded machine")

    def stop(self) -> None:
        """Nothing runs."""


class LiveRunner:
    """Children of this process: own session, clean environment, output through pipes into memory."""

    def __init__(self, env: Mapping[str, str] = CLEAN_ENV, cap: int = OUTPUT_CAP, grace: float = GRACE) -> None:
        self._env = dict(env)
        self._cap = cap
        self._grace = grace
        self._lock = threading.Lock()
        self._live: set[int] = set()

    def run(self, argv: Sequence[str], *, timeout: float, stall: Optional[Stall] = None) -> Run:
        """See Runner. The whole process group is killed at the end, so no grandchild stays."""
        import subprocess  # most hosts need no child, and the import costs milliseconds

        ends = time.monotonic() + timeout
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                cwd="/",
                start_new_session=True,
                close_fds=True,
            )
        except (OSError, ValueError) as failure:
            return Run(tuple(argv), not_started=getattr(failure, "strerror", None) or str(failure))
        with self._lock:
            self._live.add(child.pid)
        collected = {"out": bytearray(), "err": bytearray()}
        try:
            capped = self._collect(child, collected, ends, stall)
            ended = _ended(child.pid)
        finally:
            gone = self._finish(child)
        return Run(
            tuple(argv),
            rc=child.returncode if ended else None,
            out=bytes(collected["out"]),
            err=bytes(collected["err"]),
            timed_out=not ended and not capped,
            abandoned=not gone,
            capped=capped,
        )

    def stop(self) -> None:
        """Kill the group of every child that still runs: for Ctrl-C and TERM."""
        with self._lock:
            groups = list(self._live)
        for group in groups:
            _kill_group(group)

    def _collect(
        self, child: subprocess.Popen[bytes], collected: dict[str, bytearray], ends: float, stall: Optional[Stall]
    ) -> bool:
        """Read both pipes until the child is gone or its time is over; True where it wrote more than the cap."""
        import selectors

        with selectors.DefaultSelector() as selector:
            for name, pipe in (("out", child.stdout), ("err", child.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            quiet = float("inf")
            while True:
                # A grandchild may hold the pipes open: so the child's own end counts, not the end of its output.
                ended = _ended(child.pid)
                left = min(ends, quiet) - time.monotonic()
                if left <= 0 and not ended:
                    return False
                wait = 0.0 if ended else min(left, 0.05)
                ready = selector.select(wait) if selector.get_map() else []
                if not selector.get_map() and not ended:
                    time.sleep(min(left, 0.002))
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    collected[key.data] += data
                    if stall and stall.after in collected["out"]:
                        quiet = time.monotonic() + stall.seconds
                    if len(collected[key.data]) > self._cap:
                        del collected[key.data][self._cap :]
                        return True
                if ended and not ready:
                    return False

    def _finish(self, child: subprocess.Popen[bytes]) -> bool:
        """Kill what is left of the group, wait a bounded time, let go. False where the child is still there."""
        _kill_group(child.pid)
        ends = time.monotonic() + self._grace
        while child.poll() is None and time.monotonic() < ends:
            time.sleep(0.002)
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        gone = child.returncode is not None
        if gone:
            with self._lock:
                self._live.discard(child.pid)
        else:
            child.returncode = -signal.SIGKILL  # nobody waits for it any more: Popen's finaliser must not complain
        return gone


def _ended(pid: int) -> bool:
    """Has the child ended? It isn't reaped yet, so that its process group can't be another's when we kill that."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
