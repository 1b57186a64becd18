"""A plan: the choices that satisfy a request, each with its source, and the stack that they make."""

from __future__ import annotations

from typing import Literal, Optional

import msgspec

from envcheck.model.machine import Machine
from envcheck.model.request import Flavour, Request
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Stack


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision: what, its value, why, and where the fact behind it was read."""

    name: str
    value: str
    why: str = ""
    source: str = ""


class PythonPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The image's Python. `origin`: apt (the distribution's), uv (a pinned uv fetches it) or image (already there)."""

    version: str  # 'X.Y', or exact where it is known
    origin: Literal["apt", "uv", "image"]
    packages: tuple[str, ...] = ()
    executable: str = "python"
    pip: str = ""
    uv: str = ""
    uv_hashes: tuple[str, ...] = ()


class Commands(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lines that make the same environment without an image."""

    pip: str = ""
    uv: str = ""
    conda: str = ""
    conda_note: str = ""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a Dockerfile is written from. Every text in it is a typed value or comes from the matrix.

    `pins` are exact requirements of the framework and its companions; `index` is where those come from ('' the default
    index); `bounds` are limits that the release needs; `packages` are the user's; `compiled` those that need nvcc.
    """

    request: Request
    kind: Literal["framework", "cuda"]
    image: str
    framework: str
    version: str
    variant: str = ""
    module: str = ""
    cuda: Optional[str] = None
    cudnn: Optional[str] = None
    flavour: Optional[Flavour] = None
    distro: str = ""
    python: PythonPlan = PythonPlan("", "image")
    pins: tuple[str, ...] = ()
    index: str = ""
    bounds: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    cautions: tuple[str, ...] = ()
    other: str = ""  # the choice that was not taken, and how to get it
    runs_on: str = ""
    commands: Commands = Commands()
    stack: Stack = Stack()
    machine: Machine = Machine()

    @property
    def snapshot(self) -> Snapshot:
        """What the rules judge."""
        return Snapshot(
            origin=Origin("plan", f"{self.framework} {self.version}"), machine=self.machine, stack=self.stack
        )
