"""Inspects a live host (or a folder that stands for one): every probe side by side, all within one deadline."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional, Union

import msgspec

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.machine import Machine
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Stack
from envcheck.probes.package_db import PackageDatabase
from envcheck.probes.probe import PROBES, Probe, Scene
from envcheck.probes.runner import LiveRunner, NoRunner, Runner
from envcheck.probes.tree import Tree, Unreadable, shown

PATIENCE = 0.03  # seconds after which the probes that wait get a thread of their own


def inspect_host(
    *,
    root: Union[str, os.PathLike[str]] = "/",
    runner: Optional[Runner] = None,
    env: Optional[Mapping[str, str]] = None,
    python: Optional[str] = None,
    known: frozenset[str] = frozenset(),
    deadline: float = 20.0,
    tree: Optional[Tree] = None,
    binaries: bool = False,
) -> Snapshot:
    """The snapshot of this host, or of the machine whose files are under `root`.

    Nothing of the patient is run or imported. With another root, nothing of the real machine gets in: no command is
    run unless `runner` plays one back, and the environment is empty unless `env` tells it. `python` is an interpreter
    whose environment is judged instead of the active one; `known` are the normalised names of distributions to report.
    `binaries` says that compiled files are read too: device code, what will load, the C++ ABI.
    `tree` replaces the plain reading of the files under `root`, for recordings.
    It returns within `deadline` seconds: what didn't answer is an unknown fact that says so.
    """
    tree = tree or Tree(os.fspath(root))
    scene = Scene(
        tree=tree,
        runner=runner or (LiveRunner() if tree.live else NoRunner()),
        env=dict(os.environ if tree.live else {}) if env is None else dict(env),
        python=python,
        known=known,
        ends=time.monotonic() + deadline,
        database=PackageDatabase(tree),
    )
    with _children_stopped(scene.runner):
        facts = _gather(scene, deadline)
    machine = msgspec.structs.replace(Machine(), **_of("machine", facts))
    stack = msgspec.structs.replace(Stack(), **_of("stack", facts))
    if binaries:
        stack = _with_binaries(scene, machine, stack)
    kind = "container" if machine.container.value else "host"
    snapshot = Snapshot(origin=Origin(kind), machine=machine, stack=stack)
    try:
        msgspec.json.encode(snapshot)
    except UnicodeEncodeError:  # a file name that is no UTF-8 got through
        return msgspec.convert(_printable(msgspec.to_builtins(snapshot)), Snapshot)
    return snapshot


def _with_binaries(scene: Scene, machine: Machine, stack: Stack) -> Stack:
    """The stack with what its compiled files tell; as it was, with the reason, where they can't be read in time."""
    names = ("binaries", "openings", "forward")
    none = {name: known((), "no package here has device code") for name in names[:2]} if stack.packages.known else {}
    if not stack.packages.value and not stack.compat.value:
        return msgspec.structs.replace(stack, **none)
    result: list[Stack] = []
    trouble: list[str] = []

    def read() -> None:
        try:
            from pathlib import Path

            from envcheck.probes.binaries import inspect_binaries

            snapshot = Snapshot(machine=machine, stack=stack)
            result.append(inspect_binaries(snapshot, root=Path(scene.tree.root), env=scene.env, deadline=scene.left))
        except Exception as failure:  # a fault of ours must not look like one of the machine
            trouble.append(f"{type(failure).__name__}: {shown(str(failure))[:200]} (a fault of envcheck)")

    # A thread, because a file on a dead network mount stops whoever reads it.
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(scene.left)
    if result:
        untold = {name: fact for name, fact in none.items() if getattr(result[0], name) == getattr(Stack(), name)}
        return msgspec.structs.replace(result[0], **untold)
    reason = trouble[0] if trouble else "not read by the deadline"
    changes = {name: unknown(f"{_what(f'stack.{name}')}: {reason}") for name in names}
    return msgspec.structs.replace(stack, **changes)


def _of(part: str, facts: Mapping[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    return {name.partition(".")[2]: fact for name, fact in facts.items() if name.startswith(f"{part}.")}


def _gather(scene: Scene, deadline: float) -> dict[str, Fact[Any]]:
    """Run the probes in order, in one thread; another takes over the rest when a probe keeps it waiting.

    On a healthy host without a GPU all of them need some ten milliseconds, less than a thread each would cost.
    """
    facts: dict[str, Fact[Any]] = {}
    todo = list(reversed(PROBES))
    ended = threading.Semaphore(0)
    running = 0
    while time.monotonic() < scene.ends:
        if todo:
            # Daemons: a probe that hangs in the kernel must not keep the process from its end.
            threading.Thread(target=_work, args=(todo, scene, facts, ended), daemon=True).start()
            running += 1
        patience = PATIENCE if todo else scene.ends - time.monotonic()
        if ended.acquire(timeout=max(0.0, min(patience, scene.ends - time.monotonic()))):
            running -= 1
        if not (todo or running):
            break
    got = dict(facts)  # a late thread may still write into the other one
    for probe in PROBES:
        for field in probe.fields:
            if field not in got:
                got[field] = unknown(f"{_what(field)}: did not answer in {deadline:g} s ({probe.name} probe)")
    return got


def _work(todo: list[Probe], scene: Scene, facts: dict[str, Fact[Any]], ended: threading.Semaphore) -> None:
    while True:
        try:
            probe = todo.pop()
        except IndexError:
            break
        _consume(probe, scene, facts)
    ended.release()


def _consume(probe: Probe, scene: Scene, facts: dict[str, Fact[Any]]) -> None:
    try:
        for field, fact in probe.inspect(scene):  # one by one: what it has learnt stays when it fails or hangs
            facts[field] = fact  # noqa: PERF403
    except Unreadable as failure:
        for field in probe.fields:
            facts.setdefault(field, unknown(f"{_what(field)}: {failure}"))
    except Exception as failure:  # a fault of ours must not look like one of the machine
        reason = f"the {probe.name} probe failed: {type(failure).__name__}: {shown(str(failure))[:200]}"
        for field in probe.fields:
            facts.setdefault(field, unknown(f"{_what(field)}: {reason} (a fault of envcheck, not of this machine)"))


def _what(field: str) -> str:
    """'machine.kernel' -> 'kernel version': the words of the field's own default."""
    part, _, name = field.partition(".")
    default: Fact[Any] = getattr(Machine() if part == "machine" else Stack(), name)
    return default.unknown.rpartition(": ")[0]


@contextmanager
def _children_stopped(runner: Runner) -> Iterator[None]:
    """Kill what the probes started when we are interrupted. TERM's default would end us without a chance to."""

    def on_term(number: int, _frame: object) -> None:
        runner.stop()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, on_term)
    try:
        yield
    except BaseException:
        runner.stop()
        raise
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(item) for item in value]
    return value
