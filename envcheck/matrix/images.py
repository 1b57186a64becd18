"""Look-ups over container images and cloud machines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Optional

from envcheck.errors import UnknownName
from envcheck.matrix.rows import CudaImage, FrameworkImage, Instance


def repository(reference: str) -> str:
    """'nvcr.io/nvidia/pytorch:23.07-py3' -> 'pytorch'."""
    return reference.partition("@")[0].rpartition("/")[2].partition(":")[0]


def tag(reference: str) -> str:
    """'nvcr.io/nvidia/pytorch:23.07-py3' -> '23.07-py3'; '' without one."""
    return reference.partition("@")[0].rpartition("/")[2].partition(":")[2]


def for_framework(rows: Iterable[FrameworkImage], framework: str) -> tuple[FrameworkImage, ...]:
    """The images for a framework (package name) or of a repository, newest tag first."""
    wanted = framework.lower()
    found = [row for row in rows if wanted in (row.framework, repository(row.reference))]
    return tuple(sorted(found, key=lambda row: _age(tag(row.reference)), reverse=True))


def _age(text: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(number) for number in re.findall(r"\d+", text.partition("-")[0])), text


def find(rows: Iterable[FrameworkImage], reference: str) -> Optional[FrameworkImage]:
    """The row of a reference; the registry, '-py3' and a digest may be left out or added."""
    name, wanted = repository(reference), tag(reference)
    if not wanted:
        return None
    spellings = (wanted, f"{wanted}-py3")
    same = [row for row in rows if repository(row.reference) == name]
    return next((row for text in spellings for row in same if tag(row.reference) == text), None)


def find_cuda(rows: Iterable[CudaImage], reference: str) -> Optional[CudaImage]:
    """The row of a tag of nvidia/cuda."""
    wanted = tag(reference) or reference
    return next((row for row in rows if row.tag == wanted), None)


def find_instance(rows: Iterable[Instance], name: str) -> Optional[Instance]:
    """The machine 'provider:name', in any case."""
    provider, _, kind = name.lower().partition(":")
    return next((row for row in rows if row.provider == provider and row.name.lower() == kind), None)


def get_instance(rows: Sequence[Instance], name: str) -> Instance:
    """As find_instance; raises UnknownName."""
    found = find_instance(rows, name)
    if found is None:
        known = [f"{row.provider}:{row.name}" for row in rows]
        raise UnknownName("cloud machine", name, known, "envcheck matrix show instances")
    return found
