"""A fact: a value that was looked for, or the reason why it could not be."""

from __future__ import annotations

from typing import Any, Generic, Optional, TypeVar, cast

import msgspec

T = TypeVar("T")


class UnknownFact(Exception):
    """Raised by `Fact.get` when the fact is unknown; `str()` is the reason."""


class Fact(msgspec.Struct, Generic[T], frozen=True, omit_defaults=True):
    """Known (its value may be None: looked, not there) or unknown with a reason.

    `source` says where it was read: a path, a command, an API call, `line 7`.
    `unknown` is empty for a known fact, else a phrase that names the fact and the reason.
    """

    value: Optional[T] = None
    source: str = ""
    unknown: str = ""

    @property
    def known(self) -> bool:
        """Was it looked for, whatever was found?"""
        return not self.unknown

    def get(self) -> T:
        """The value; raises UnknownFact where the fact is unknown."""
        if self.unknown:
            raise UnknownFact(self.unknown)
        return cast("T", self.value)

    def find(self) -> Optional[T]:
        """The value, or None where the fact is unknown: for display and hints, never for a verdict."""
        return self.value


def known(value: T, source: str) -> Fact[T]:
    """A fact that was measured or told; `value` None means looked and not there."""
    return Fact(value=value, source=source)


def unknown(reason: str, source: str = "") -> Fact[Any]:
    """A fact that could not be had, with the reason."""
    return Fact(unknown=reason, source=source)


def not_told(what: str) -> Fact[Any]:
    """The default of every snapshot field: nobody has looked yet."""
    return Fact(unknown=f"{what}: not told")
