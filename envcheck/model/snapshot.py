"""A snapshot: one machine, one stack, what was seen to happen, and where each came from."""

from __future__ import annotations

from typing import Optional

import msgspec

from envcheck.model.fact import Fact, not_told
from envcheck.model.machine import Machine
from envcheck.model.need import Need
from envcheck.model.proof import Proof
from envcheck.model.recipe import Recipe
from envcheck.model.stack import Stack


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """A symptom met in a log: the id of a row of matrices/symptoms.toml, the text, and the values in it."""

    symptom: str
    text: str
    source: str  # 'line 7'
    values: dict[str, str] = {}


class Wants(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user, the settings or the image ask of the environment. None: nothing was said."""

    gpu: Optional[bool] = None  # a GPU must be there
    compile: Optional[bool] = None  # CUDA extensions will be compiled
    features: tuple[str, ...] = ()  # bf16, fp8, tf32, nvlink, mig
    gpus_requested: Optional[bool] = None  # the container was started with GPUs (--gpus, compose, pod)
    need: Optional[Need] = None  # what the project's settings require
    source: str = ""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the snapshot came from. kind: host, container, report, image, dockerfile, requirements, plan …"""

    kind: str
    name: str = ""
    readers: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """One Machine + one Stack: what every rule judges."""

    schema: int = 1
    origin: Origin = Origin("unknown")
    machine: Machine = Machine()
    stack: Stack = Stack()
    events: tuple[Event, ...] = ()
    wants: Wants = Wants()
    remarks: tuple[str, ...] = ()  # what the reader could not use, for the person
    recipe: Optional[Recipe] = None  # what only a file tells: install steps, base image, what it asks of the engine
    proof: Fact[Optional[Proof]] = not_told("computations in this environment (--run)")
