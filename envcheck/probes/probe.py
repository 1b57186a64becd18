"""The probes, each with the facts it owes: a generator that yields them as it learns them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from envcheck.model.fact import Fact, known, unknown
from envcheck.probes.package_db import PackageDatabase
from envcheck.probes.runner import Runner
from envcheck.probes.tree import Tree, Unreadable

Told = tuple[str, Fact[Any]]


class Scene(NamedTuple):
    """What every probe is given: where to look, how to run, and when to be done."""

    tree: Tree
    runner: Runner
    env: Mapping[str, str]
    python: Optional[str]
    known: frozenset[str]
    ends: float
    database: PackageDatabase

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.ends - time.monotonic())


class Probe(NamedTuple):
    """A probe by the module that holds its `inspect(scene)`, and the facts ('machine.kernel') that it owes."""

    name: str
    fields: tuple[str, ...]

    def inspect(self, scene: Scene) -> Iterator[Told]:
        """Yield its facts, those that are had first, first."""
        module = importlib.import_module(f"envcheck.probes.{self.name}")
        told: Iterator[Told] = module.inspect(scene)
        return told


def ask(what: str, look: Callable[[], tuple[Any, str]]) -> Fact[Any]:
    """The fact that `look` finds as (value, source); unknown where something is there and can't be read."""
    try:
        value, source = look()
    except Unreadable as failure:
        return unknown(f"{what}: {failure}")
    return known(value, source)


def _fields(part: str, names: str) -> tuple[str, ...]:
    return tuple(f"{part}.{name}" for name in names.split())


PROBES: tuple[Probe, ...] = (
    Probe(
        "nvidia",
        _fields(
            "machine",
            "secure_boot modules driver driver_packages nvml_version driver_fault gpus device_nodes fabric_manager"
            " nvswitch xids interconnect",
        ),
    ),
    Probe(
        "system",
        _fields(
            "machine",
            "os kernel arch wsl jetson hypervisor container ram_bytes shm_bytes memlock_bytes"
            " disk_free_bytes rdma cloud",
        )
        + _fields("stack", "distro glibc glibcxx arch env"),
    ),
    Probe("python_env", _fields("stack", "python packages complete")),
    Probe(
        "libraries",
        _fields("stack", "toolkits compiler libraries cuda cudnn compat") + _fields("machine", "libcuda_version"),
    ),
    Probe("container_engine", _fields("machine", "engine toolkit runc")),
)
