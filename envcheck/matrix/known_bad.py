"""Judges known-bad combinations: do all conditions of a row hold for what is known of an environment?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

import msgspec

from envcheck import versions
from envcheck.matrix.rows import KnownBad
from envcheck.matrix.specifiers import allows

VERSIONS = ("python", "driver", "cuda", "capability", "glibc")


class Environment(msgspec.Struct, frozen=True):
    """What the conditions are compared with; None is not known. `packages` are the installed ones by PEP 503 name: one
    that isn't in the mapping isn't installed, one whose version is None is there in an unknown version."""

    packages: Mapping[str, Optional[str]] = {}
    python: Optional[str] = None
    driver: Optional[str] = None
    cuda: Optional[str] = None  # of the framework build
    capability: Optional[str] = None  # of one GPU: ask for each
    os: Optional[str] = None  # linux, windows
    glibc: Optional[str] = None


def is_decidable(row: KnownBad) -> bool:
    """Has the row conditions? One without is for a person."""
    return bool(row.packages or row.os or any(getattr(row, name) for name in VERSIONS))


def holds(row: KnownBad, environment: Environment) -> Optional[bool]:
    """True where every condition holds, False where one doesn't, None where it hangs on something unknown."""
    if not is_decidable(row):
        return None
    answers = [_package(text, environment.packages, name) for name, text in row.packages.items()]
    answers += [_meets(getattr(environment, name), getattr(row, name)) for name in VERSIONS if getattr(row, name)]
    if row.os:
        answers.append(None if environment.os is None else environment.os == row.os)
    if False in answers:
        return False
    return None if None in answers else True


def _package(text: str, packages: Mapping[str, Optional[str]], name: str) -> Optional[bool]:
    return _meets(packages[name], text) if name in packages else False


def _meets(version: Optional[str], text: str) -> Optional[bool]:
    """Does a version (its local part doesn't count) meet the specifiers? NVIDIA's pre-release builds count as such."""
    found = versions.find(version)
    return None if found is None else allows(text, versions.parse(found.public))
