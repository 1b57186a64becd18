"""What a project's settings ask of an environment, parsed; the SET rules judge a snapshot by it."""

from __future__ import annotations

from typing import Optional

import msgspec


class GpuNeed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The GPUs that the project needs. `count` and `capability` are specifiers ('>=2', '>=8.0'); '' asks nothing."""

    names: tuple[str, ...] = ()
    count: str = ""
    capability: str = ""
    memory_bytes: Optional[int] = None  # of each GPU


class ExpiredIgnore(msgspec.Struct, frozen=True):
    """An ignore of the settings whose date has passed; dates are ISO."""

    rule: str
    reason: str
    until: str
    line: Optional[int] = None


class Need(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every requirement of the settings; '' or None asks nothing. Versions are PEP 440 specifiers.

    `path` and `line` are where the settings stand: what a finding about a host is anchored to.
    """

    packages: dict[str, str] = {}
    cuda: str = ""
    cudnn: str = ""
    python: str = ""
    driver: str = ""
    gpu: Optional[GpuNeed] = None
    features: tuple[str, ...] = ()
    shm_bytes: Optional[int] = None
    ram_bytes: Optional[int] = None
    disk_bytes: Optional[int] = None
    containers: Optional[bool] = None
    expired: tuple[ExpiredIgnore, ...] = ()
    path: str = ""
    line: Optional[int] = None

    def of_machine(self) -> Need:
        """Only what a machine answers for, whatever runs on it."""
        return msgspec.structs.replace(self, packages={}, cuda="", cudnn="", python="")

    def of_stack(self) -> Need:
        """Only what an image or a file answers for."""
        return Need(
            packages=self.packages,
            cuda=self.cuda,
            cudnn=self.cudnn,
            python=self.python,
            path=self.path,
            line=self.line,
        )
