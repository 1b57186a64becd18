"""Plays a recorded machine back: a folder with its files, what its commands said, and its environment.

`FOLDER/root/` holds the files, `FOLDER/recording.json` (if there) the runs and the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Optional, Union

import msgspec

from envcheck.model.snapshot import Snapshot
from envcheck.probes.inspect import inspect_host
from envcheck.probes.runner import Run, Stall


class Recording(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a folder of files can't hold. `runs` go by the names that `run_name` gives."""

    runs: dict[str, Run] = {}
    env: dict[str, str] = {}
    python: Optional[str] = None


class ReplayRunner:
    """Answers with recorded runs; what wasn't recorded could not be started."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = dict(runs)

    def run(self, argv: Sequence[str], *, timeout: float, stall: Optional[Stall] = None) -> Run:
        """The recorded run of this name, with the argument list of this call."""
        found = self._runs.get(run_name(argv))
        if found is None:
            return Run(tuple(argv), not_started="this run was not recorded")
        return msgspec.structs.replace(found, argv=tuple(argv))

    def stop(self) -> None:
        """Nothing runs."""


def run_name(argv: Sequence[str]) -> str:
    """A run's name without the paths of the machine that ran it: 'nvml', 'nvml 3', 'nvidia-smi --query-gpu=…'."""
    for place, part in enumerate(argv):
        if part.endswith("nvml_child.py"):
            return " ".join(["nvml", *argv[place + 3 :]])
    return " ".join([os.path.basename(argv[0]), *argv[1:]])


def read_recording(folder: Union[str, os.PathLike[str]]) -> Recording:
    """The recording of a folder; an empty one where it has no recording.json. Raises msgspec.ValidationError."""
    try:
        with open(os.path.join(folder, "recording.json"), "rb") as stream:
            return msgspec.json.decode(stream.read(), type=Recording)
    except FileNotFoundError:
        return Recording()


def replay(
    folder: Union[str, os.PathLike[str]], *, known: frozenset[str] = frozenset(), deadline: float = 20.0
) -> Snapshot:
    """The snapshot that the recorded machine gives today's probes."""
    told = read_recording(folder)
    return inspect_host(
        root=os.path.join(folder, "root"),
        runner=ReplayRunner(told.runs),
        env=told.env,
        python=told.python,
        known=known,
        deadline=deadline,
    )
