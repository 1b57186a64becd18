"""A proof: small computations that an environment's own interpreter did on each GPU, on request."""

from __future__ import annotations

from typing import Literal, Optional

import msgspec


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One computation. `gpu` is the index that the framework uses; None for what is of no GPU (the import).

    state: ok (the result agrees with the CPU's), wrong (it doesn't), failed (an exception, in `text`), crashed or hung
    (it was running when the child ended), skipped (the GPU or the framework doesn't have it).
    """

    framework: str
    name: str
    state: Literal["ok", "wrong", "failed", "crashed", "hung", "skipped"]
    gpu: Optional[int] = None
    text: str = ""
    seconds: Optional[float] = None


class Proof(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the child did. `outcome` is how it ended, `loaded` the CUDA libraries that it had mapped.

    `log` is its output in the frameworks' own words: the readers of pasted logs find the causes in it.
    """

    python: str
    outcome: str
    checks: tuple[Check, ...] = ()
    loaded: tuple[str, ...] = ()
    log: str = ""

    @property
    def passed(self) -> bool:
        """Did at least one computation on a GPU agree, and none fail?"""
        on_gpu = [check for check in self.checks if check.gpu is not None and check.state != "skipped"]
        return bool(on_gpu) and all(check.state in ("ok", "skipped") for check in self.checks)
