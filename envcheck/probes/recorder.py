"""Records the machine: every file that the probes look at, redacted, with what the commands said, for `replay`."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Optional, Union

import msgspec

from envcheck.model.snapshot import Snapshot
from envcheck.probes.inspect import inspect_host
from envcheck.probes.replay import Recording, run_name
from envcheck.probes.runner import LiveRunner, Run, Runner, Stall
from envcheck.probes.system import kept_env
from envcheck.probes.tree import MAX_FILE, Tree, Unreadable

Redact = Callable[[str], str]


class RecordingTree(Tree):
    """A tree that copies what is asked of it into another folder."""

    def __init__(self, root: str, target: str, redact: Redact) -> None:
        super().__init__(root)
        self._target = os.path.abspath(target)
        self._redact = redact
        self._lock = threading.RLock()  # several probes look at a time

    def stat(self, path: str) -> Optional[os.stat_result]:
        """As Tree.stat; leaves a folder, or an empty file with the same permissions."""
        found = super().stat(path)
        if found is not None:
            with self._lock:
                self._leave(path, found.st_mode)
        return found

    def _leave(self, path: str, mode: int) -> None:
        self._note_links(path)
        place = self._place(super().resolve(path))
        if stat.S_ISDIR(mode):
            os.makedirs(place, exist_ok=True)
        elif not os.path.lexists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb"):
                pass
            os.chmod(place, stat.S_IMODE(mode) & 0o777 | 0o600)

    def read_bytes(self, path: str, cap: int = MAX_FILE) -> Optional[bytes]:
        """As Tree.read_bytes; leaves a redacted copy."""
        data = super().read_bytes(path, cap)
        if data is not None:
            self.stat(path)
            place = self._place(super().resolve(path))
            with self._lock:
                if os.path.getsize(place) < len(data):
                    with open(place, "wb") as stream:
                        stream.write(self._redacted(data))
        return data

    def names(self, path: str) -> list[str]:
        """As Tree.names; leaves every name: a link as it is, else an empty folder or file."""
        found = super().names(path)
        self._note_links(path)
        for name in found[:5000]:
            here = f"{path.rstrip('/')}/{name}"
            try:
                self.link(here)
                self.stat(here)
            except Unreadable:
                continue  # what couldn't be read here can't be recorded
        return found

    def link(self, path: str) -> Optional[str]:
        """As Tree.link; leaves the link."""
        target = super().link(path)
        if target is not None:
            place = self._place(path)
            with self._lock:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                if not os.path.lexists(place):
                    os.symlink(target, place)
        return target

    def resolve(self, path: str) -> str:
        """As Tree.resolve; leaves the links on the way."""
        self._note_links(path)
        return super().resolve(path)

    def _note_links(self, path: str) -> None:
        """Every link of a path, so that the copy is reached in the same way."""
        for _ in range(40):
            parts = path.strip("/").split("/")
            for count in range(1, len(parts) + 1):
                here = "/" + "/".join(parts[:count])
                target = self.link(here)
                if target is not None:
                    head = target if target.startswith("/") else f"{os.path.dirname(here)}/{target}"
                    path = os.path.normpath("/".join([head, *parts[count:]]))
                    break
            else:
                return

    def _place(self, path: str) -> str:
        return f"{self._target}{os.path.normpath('/' + path.lstrip('/'))}"

    def _redacted(self, data: bytes) -> bytes:
        if b"\0" in data[:4096]:
            return data
        return self._redact(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


class RecordingRunner:
    """Passes runs on, and keeps what they gave."""

    def __init__(self, runner: Runner, redact: Redact) -> None:
        self.runs: dict[str, Run] = {}
        self._runner = runner
        self._redact = redact

    def run(self, argv: Sequence[str], *, timeout: float, stall: Optional[Stall] = None) -> Run:
        """As the runner behind it."""
        run = self._runner.run(argv, timeout=timeout, stall=stall)
        kept = {name: self._redact(getattr(run, name).decode("utf-8", "replace")).encode() for name in ("out", "err")}
        self.runs[run_name(argv)] = msgspec.structs.replace(run, argv=(), **kept)
        return run

    def stop(self) -> None:
        """As the runner behind it."""
        self._runner.stop()


def record(
    folder: Union[str, os.PathLike[str]],
    *,
    redact: Redact,
    python: Optional[str] = None,
    known: frozenset[str] = frozenset(),
    env: Optional[Mapping[str, str]] = None,
    root: Union[str, os.PathLike[str]] = "/",
    runner: Optional[Runner] = None,
) -> Snapshot:
    """Inspect this machine and leave in `folder` what `replay` needs to see the same; returns the snapshot.

    `redact` is applied to all text that is written. Environment variables outside the probes' allow-list, but for
    HOME, aren't kept.
    """
    told = dict(os.environ if env is None else env)
    recorder = RecordingRunner(runner or LiveRunner(), redact)
    tree = RecordingTree(os.fspath(root), os.path.join(folder, "root"), redact)
    snapshot = inspect_host(root=root, runner=recorder, env=told, python=python, known=known, tree=tree)
    kept = {name: redact(value) for name, value in kept_env(told).items()}
    kept.update({name: told[name] for name in ("HOME", "KUBERNETES_SERVICE_HOST", "container") if name in told})
    recording = Recording(runs=recorder.runs, env=kept, python=python)
    with open(os.path.join(folder, "recording.json"), "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(recording), indent=1) + b"\n")
    return snapshot
