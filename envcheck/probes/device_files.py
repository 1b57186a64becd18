"""Lists the files that may hold device code: of a file's name, a folder, a package, or a whole environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envcheck.model.stack import Binary
from envcheck.probes.elf import NotElf
from envcheck.probes.fatbin import read_binary
from envcheck.probes.owners import MAX_RECORD, Site
from envcheck.probes.tree import Tree, Unreadable

MAX_FILES = 20_000
MAX_DEPTH = 12
_CODE = re.compile(r"\.(so(\.[\d.]+)?|fatbin|cubin)$")
_RECORDED = re.compile(r"^([^,\n]+\.(?:so(?:\.[\d.]+)?|fatbin|cubin)),", re.MULTILINE)


class Read(NamedTuple):
    """The binaries with device code, and what could not be read, each as its reason."""

    binaries: tuple[Binary, ...]
    unread: tuple[str, ...]


def files_in(tree: Tree, folder: str, depth: int = MAX_DEPTH) -> Iterator[str]:
    """Files under a folder that may hold device code, sorted; links to folders are not followed."""
    for name in tree.find_names(folder):
        path = f"{folder.rstrip('/')}/{name}"
        if _CODE.search(name):
            yield path
        elif depth and "." not in name and tree.link(path) is None and _is_dir(tree, path):
            yield from files_in(tree, path, depth - 1)


def files_of(tree: Tree, sites: Sequence[Site], package: str) -> list[str]:
    """Files of an installed distribution by its RECORD; none where it isn't installed."""
    for site in sites:
        folder = site.metadata.get(package)
        if folder:
            text = tree.find_text(f"{site.path}/{folder}/RECORD", MAX_RECORD) or ""
            return sorted(f"{site.path}/{path}" for path in _RECORDED.findall(text) if not path.startswith("../"))
    return []


def read_files(tree: Tree, files: Sequence[str], package: str = "") -> Read:
    """The device code of each; a file met by several names counts once."""
    seen: set[str] = set()
    binaries: list[Binary] = []
    unread: list[str] = []
    for path in files[:MAX_FILES]:
        try:
            real = tree.resolve(path)
            if real in seen:
                continue
            seen.add(real)
            binary = read_binary(tree, path, package)
        except (NotElf, Unreadable) as failure:
            unread.append(str(failure))
            continue
        if binary:
            binaries.append(binary)
    if len(files) > MAX_FILES:
        unread.append(f"{len(files) - MAX_FILES} more files were not read")
    return Read(tuple(binaries), tuple(unread))


def _is_dir(tree: Tree, path: str) -> bool:
    try:
        return tree.is_dir(path)
    except Unreadable:
        return False
