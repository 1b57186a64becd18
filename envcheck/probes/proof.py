"""Runs a proof: the environment's own interpreter computes on each GPU, in a child with a deadline, only on request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import msgspec

from envcheck.model.proof import Check, Proof
from envcheck.model.snapshot import Snapshot
from envcheck.probes.deciding import decides
from envcheck.probes.runner import LiveRunner, Run, Runner
from envcheck.probes.tree import shown

# Distribution -> the module that is imported.
MODULES = {"torch": "torch", "tensorflow": "tensorflow", "tensorflow-gpu": "tensorflow", "jax": "jax"}
DEADLINE = 180.0


def prove(
    snapshot: Snapshot, *, env: Mapping[str, str], runner: Optional[Runner] = None, deadline: float = DEADLINE
) -> Optional[Proof]:
    """What became of the frameworks' computations; None where the snapshot has no interpreter or no such framework.

    `env` is the environment that the user would start the program with.
    """
    python = snapshot.stack.python.find()
    packages = snapshot.stack.packages.find() or ()
    names = list(dict.fromkeys(MODULES[package.name] for package in packages if package.name in MODULES))
    if python is None or not python.executable or not names:
        return None
    source = Path(__file__).with_name("proof_child.py").read_text(encoding="utf-8")
    argv = (python.executable, "-c", source, *names)
    return read_proof((runner or LiveRunner(env)).run(argv, timeout=deadline), python.executable)


def read_proof(run: Run, python: str) -> Proof:
    """The proof in a child's output; what it was at when it ended is crashed or hung."""
    checks: list[Check] = []
    loaded: tuple[str, ...] = ()
    log: list[str] = []
    begun: Optional[list[Any]] = None
    for line in run.out.decode("utf-8", "replace").splitlines():
        said = _object(line)
        if said is None:
            log.append(shown(line))
        elif "begin" in said:
            begun = said["begin"] if isinstance(said["begin"], list) and len(said["begin"]) == 3 else None
        elif "check" in said:
            try:
                checks.append(msgspec.convert(said["check"], Check))
            except msgspec.ValidationError as failure:
                log.append(f"unreadable result: {failure}")
            begun = None
        elif isinstance(said.get("loaded"), list):
            loaded = tuple(shown(path) for path in said["loaded"] if isinstance(path, str) and decides(path))
    if begun is not None:
        gpu = begun[2] if isinstance(begun[2], int) else None
        checks.append(Check(str(begun[0]), str(begun[1]), "hung" if run.timed_out else "crashed", gpu, run.outcome))
    log += [shown(line) for line in run.err.decode("utf-8", "replace").splitlines()]
    log += [f"{check.framework} {check.name}: {check.text}" for check in checks if check.state not in ("ok", "skipped")]
    return Proof(shown(python), run.outcome, tuple(checks), loaded, "\n".join(log))


def _object(line: str) -> Optional[dict[str, Any]]:
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and said.keys() & {"begin", "check", "loaded"} else None
