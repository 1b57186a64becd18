"""A recipe: what a file (Dockerfile, compose, requirements, pod …) will install, start from and ask for."""

from __future__ import annotations

from typing import Optional

import msgspec


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a package manager, as the file writes it; `source` is 'PATH:LINE'.

    `names` are requirement or package texts in order ('torch==2.1.0', 'cuda-toolkit-12-4').
    """

    manager: str  # pip, uv, conda, apt, dnf, apk, or the lock file's own tool
    names: tuple[str, ...] = ()
    index_url: str = ""
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # requirement files named by the call
    channels: tuple[str, ...] = ()
    no_deps: bool = False
    constrained: bool = False  # a constraint file is in force
    source: str = ""
    sources: tuple[str, ...] = ()  # of each name, where the call goes over several lines

    def where(self, index: int) -> str:
        """The source of the name at `index`."""
        return self.sources[index] if index < len(self.sources) else self.source


class Base(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the final stage starts from: the reference with its arguments filled in; '' where one is unknown."""

    reference: str
    written: str = ""  # as the file has it
    platform: str = ""
    source: str = ""


class Recipe(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that only a file tells. None: the file doesn't say.

    `files` are the names under which sources of this snapshot's facts may say PATH:LINE.
    """

    files: tuple[str, ...] = ()
    base: Optional[Base] = None
    steps: tuple[Step, ...] = ()
    service: str = ""  # compose service or pod container
    gpus_asked: Optional[bool] = None  # by reservation, runtime, gpus or limits
    asked_by: str = ""  # what does the asking, or where it would stand
    ipc_host: Optional[bool] = None
    compiles: str = ""  # 'PATH:LINE' of a step of the final stage that compiles CUDA code
    remarks: tuple[str, ...] = ()
