"""Specifier sets and requirements: parsed without raising, and whether a version meets them at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from packaging.version import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

# packaging's specifiers are imported where they are needed: most look-ups of a run need none.


def find_specifiers(text: str) -> Optional[SpecifierSet]:
    """The specifier set in `text`; None where it isn't one."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def find_requirement(text: str) -> Optional[Requirement]:
    """The requirement in `text`; None where it isn't one."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def is_empty(specifiers: SpecifierSet) -> bool:
    """True where the bounds exclude each other ('>=3,<2', '==1,==2'); wildcards and exclusions aren't weighed."""
    low: list[tuple[Version, bool]] = []  # bound, and is it inside
    high: list[tuple[Version, bool]] = []
    for specifier in specifiers:
        if specifier.operator not in ("<", "<=", ">", ">=", "==", "~=") or specifier.version.endswith(".*"):
            continue
        bound = Version(specifier.version)
        if specifier.operator in (">", ">=", "==", "~="):
            low.append((bound, specifier.operator != ">"))
        if specifier.operator in ("<", "<=", "=="):
            high.append((bound, specifier.operator != "<"))
    if not low or not high:
        return False
    bottom = max(low, key=lambda pair: (pair[0], not pair[1]))
    top = min(high, key=lambda pair: (pair[0], pair[1]))
    return bottom[0] > top[0] or (bottom[0] == top[0] and not (bottom[1] and top[1]))
