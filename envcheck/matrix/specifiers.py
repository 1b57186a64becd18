"""Specifier sets and requirements: parsed without raising, and whether a version meets them at all."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Optional

from packaging.version import Version

from envcheck import versions

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

# packaging's specifiers are imported where they are needed: most look-ups of a run need none, and their import takes
# longer than a probe. Plain bounds ('torch==2.5.1', 'torch (>=2.14.0)'), which bind companions, are read without them.
_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*")
_PLAIN = re.compile(r"\s*(==|!=|>=|<=|<)\s*(\d+(?:\.\d+)*)\s*")
_HOLDS = {"==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, "<": operator.lt}


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


def bound_on(name: str, text: str) -> Optional[str]:
    """The specifiers that requirement `text` sets for the package `name`: '==2.5.1', '' for any release.

    None where it asks for another package, hangs on a marker, or can't be read.
    """
    asked = _NAME.match(text)
    if not asked or asked.group(1).lower().replace("_", "-") != name:
        return None
    rest = text[asked.end() :].strip()
    plain = _plain_bounds(rest[1:-1] if rest[:1] == "(" and rest[-1:] == ")" else rest)
    if plain:
        return ",".join(sorted(sign + version for sign, version in plain))
    requirement = find_requirement(text)
    return None if requirement is None or requirement.marker else str(requirement.specifier)


def allows(specifiers: str, version: Version) -> Optional[bool]:
    """Do the specifiers let this version through, also where it is a pre-release? None where they can't be read."""
    plain = _plain_bounds(specifiers)
    if plain and not version.is_prerelease and not version.local:
        return all(_HOLDS[sign](version, versions.parse(bound)) for sign, bound in plain)
    wanted = find_specifiers(specifiers)
    return None if wanted is None else wanted.contains(version, prereleases=True)


def _plain_bounds(text: str) -> list[tuple[str, str]]:
    """'>=2.5,<3' as (sign, version) pairs; empty where one needs more than a comparison of numbers."""
    found = [_PLAIN.fullmatch(part) for part in text.split(",")]
    return [(match.group(1), match.group(2)) for match in found if match] if all(found) else []


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
