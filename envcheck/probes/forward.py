"""Reads what a cuda-compat libcuda says of itself: an ELF note with its CUDA and its driver branches."""

from __future__ import annotations

from typing import Optional

from envcheck.model.stack import ForwardNote
from envcheck.probes.elf import open_elf
from envcheck.probes.tree import Tree, shown

SECTION = ".note.cuda.fwd_compatibility"  # the container toolkit's hook reads it too
_OWNER = "NVIDIA Corporation"
_MAX_NOTE = 65536


def read_forward_note(tree: Tree, path: str) -> Optional[ForwardNote]:
    """The note of the libcuda at `path`; None where there is no file or no note. Raises Unreadable, NotElf."""
    file = open_elf(tree, path)
    if file is None:
        return None
    with file:
        if not any(section.name == SECTION for section in file.sections()):
            return None
        for owner, _, text in file.notes():
            if owner == _OWNER and len(text) < _MAX_NOTE:
                return _parsed(text.strip(b"\0"), path)
    return None


def _parsed(text: bytes, path: str) -> Optional[ForwardNote]:
    import json  # few machines have such a library

    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    branches = said.get("Driver")
    cuda = said.get("CUDA Version")
    return ForwardNote(
        path=shown(path),
        cuda=cuda if isinstance(cuda, str) and len(cuda) < 16 else "",
        branches=tuple(b for b in branches if isinstance(b, int))[:200] if isinstance(branches, list) else (),
        source=f"note {SECTION} of {shown(path)}",
    )
