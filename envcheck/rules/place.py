"""Where in a file a problem stands: sources of the form PATH:LINE become a finding's path and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from envcheck.model.finding import Problem
    from envcheck.model.snapshot import Snapshot

SOURCE = re.compile(r"(.+?):(\d+)(?=$| |:)")


def find_place(problem: Problem, snap: Snapshot) -> tuple[str, Optional[int]]:
    """The file and line: the rule's own, else of its evidence, of the package it is about, of the base image.

    ('', None) for a snapshot that came from no file.
    """
    recipe = snap.recipe
    if problem.path or recipe is None or not recipe.files:
        return problem.path, problem.line
    for source in _sources(problem, snap):
        match = SOURCE.match(source)
        if match and match.group(1) in recipe.files:
            return match.group(1), int(match.group(2))
    return recipe.files[0], None


def _sources(problem: Problem, snap: Snapshot) -> Iterator[str]:
    """Best first: what was found, then what was needed, then what the problem is about."""
    yield from (evidence.source for evidence in problem.evidence if evidence.role == "found")
    yield from (evidence.source for evidence in problem.evidence)
    words = set(re.findall(r"[\w.\-]+", f"{problem.subject} {problem.message}".lower()))
    for package in snap.stack.packages.find() or ():
        if package.name in words:
            yield package.source
    recipe = snap.recipe
    if recipe is None:
        return
    if recipe.base is not None and recipe.base.reference and _is_of(problem, recipe.base.reference):
        yield recipe.base.source


def _is_of(problem: Problem, reference: str) -> bool:
    """Does the problem stand on what the base image tells: by the matrix, its registry or an engine?"""
    name = reference.partition("@")[0].rpartition("/")[2]
    places = ("registry ", "mirror ", "docker: ", "podman: ")
    return any(name in evidence.source or evidence.source.startswith(places) for evidence in problem.evidence)
