"""Finds the compiled files of an environment that may link a framework, and whether this Python would import them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envcheck.model.stack import Package
from envcheck.probes.load_plans import PLANS
from envcheck.probes.owners import Site, recorded_libraries
from envcheck.probes.tree import Tree, shown

MAX_FILES = 400  # vllm, the largest met, has a dozen
_TAG = re.compile(r"\.cpython-(\d)(\d+)(t?)-[\w-]+\.so$")
_REQUIRES = re.compile(r"^Requires-Dist:\s*(?:torch)\b", re.MULTILINE | re.IGNORECASE)
_FRAMEWORKS = frozenset(name for plan in PLANS for name in plan.packages)


class Extension(NamedTuple):
    """A shared library of a package, in the order of the sites."""

    path: str
    package: str
    version: str


def find_extensions(tree: Tree, sites: Sequence[Site], packages: Sequence[Package]) -> Iterator[Extension]:
    """Compiled files that are not the frameworks' own: of packages that the matrix knows, that lie in the site itself,
    or that are from distributions which ask for the framework."""
    versions = {package.name: package.version or "" for package in packages}
    seen: set[str] = set()
    for site in sites:
        for name, folder in site.metadata.items():
            if name in _FRAMEWORKS or name.startswith(("nvidia-", "cuda-", "triton")):
                continue
            if name not in versions and not _asks_for_framework(tree, f"{site.path}/{folder}"):
                continue
            for path, _ in recorded_libraries(tree, site, name):
                full = f"{site.path}/{path}"
                if path.startswith("../") or ".libs/" in path or full in seen:
                    continue
                seen.add(full)
                yield Extension(full, name, versions.get(name) or folder[:-10].rpartition("-")[2])
        for file in site.names:
            full = f"{site.path}/{file}"
            if file.endswith(".so") and full not in seen:
                seen.add(full)
                yield Extension(full, re.sub(r"\..*", "", shown(file)), "")


def _asks_for_framework(tree: Tree, folder: str) -> bool:
    head = (tree.find_text(f"{folder}/METADATA", 65536) or "").partition("\n\n")[0]
    return bool(_REQUIRES.search(head))


def other_python(path: str, python: str, free_threaded: bool) -> str:
    """'3.10' where the file's name says that it is for another Python than `python` ('3.11.9'); '' where it fits."""
    match = _TAG.search(path)
    wanted = python.split(".")[:2]
    if not match or len(wanted) < 2:
        return ""
    built = [match.group(1), match.group(2)]
    if built == wanted and bool(match.group(3)) == free_threaded:
        return ""
    return ".".join(built) + match.group(3)
