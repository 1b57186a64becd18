"""How to look, and at which machine: what the command line says besides the target."""

from __future__ import annotations

from typing import Any, Optional

import msgspec


class Description(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the command line says of the machine."""

    on: str = ""
    gpu: str = ""
    gpus: Optional[int] = None
    driver: str = ""
    arch: str = ""

    @property
    def said(self) -> bool:
        """Was anything said?"""
        return bool(self.on or self.gpu or self.gpus or self.driver or self.arch)


class ImageOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How images are read."""

    arch: str = "x86_64"
    deadline: float = 20.0
    layers: bool = False
    mirrors: tuple[str, ...] = ()
    insecure: bool = False
    force_insecure: bool = False
    progress: Optional[Any] = None  # called with (bytes so far, bytes in all) while layers stream


class Inspection(msgspec.Struct, frozen=True):
    """How to look: what the command line said besides the target.

    `python` is an interpreter's path for a host, a version ('3.11') for files and images.
    """

    python: Optional[str] = None
    deadline: float = 20.0
    run: bool = False  # a host's frameworks are asked for small computations: the one thing that runs the patient
    machine: Description = Description()
    image: ImageOptions = ImageOptions()
    args: dict[str, str] = {}  # build arguments of a Dockerfile, variables of a compose file
    stage: str = ""  # the Dockerfile's target stage
    online: bool = False  # a file's base image is asked of its registry
