"""How the SET rules compare: a specifier with a version, and a finding that names both sides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.finding import Evidence, Problem

if TYPE_CHECKING:
    from envcheck.model.need import Need
    from envcheck.model.snapshot import Snapshot

UNMET = "requirement-not-met"
_PLACE = re.compile(r"(.+):(\d+)")


def meets(specifier: str, version: str) -> Optional[bool]:
    """Does `version` meet the specifier? None: the version can't be read.

    A vendor's pre-release with a build hash ('2.1.0a0+b5021ba') also counts as the release it was cut from: that is
    how NVIDIA's images number what they ship.
    """
    from packaging.specifiers import SpecifierSet  # only settings ask

    found = versions.find(version)
    if found is None:
        return None
    wanted = SpecifierSet(specifier)
    if wanted.contains(found, prereleases=True):
        return True
    return bool(found.is_prerelease and found.local and wanted.contains(found.base_version, prereleases=True))


def problem(
    need: Need,
    key: str,
    wanted: str,
    found: tuple[str, str, str],
    fix: str,
    *,
    message: str = "",
    place: Optional[tuple[str, Optional[int]]] = None,
) -> Problem:
    """`found` is (name, value, source); the finding stands in the file that said it, else in the settings."""
    name, value, source = found
    path, line = place or (need.path, need.line)
    return Problem(
        message=message or f"the settings require {name} {wanted}, and {value or 'none'} is here",
        subject=name,
        evidence=(
            Evidence(name, value or "none", source, "found"),
            Evidence(name, wanted, f"{need.path}: {key}", "needed"),
        ),
        fix=(fix, f"relax {key} in {need.path}"),
        path=path,
        line=line,
    )


def place_of(source: str, snap: Snapshot) -> Optional[tuple[str, Optional[int]]]:
    """(path, line) of a fact that a judged file tells; None for one of a live system."""
    files = snap.recipe.files if snap.recipe else ()
    match = _PLACE.fullmatch(source)
    return (match.group(1), int(match.group(2))) if match and match.group(1) in files else None
