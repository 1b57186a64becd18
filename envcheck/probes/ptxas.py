"""Finds the ptxas that JIT compilers bring, and reads its release out of the file: it is never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from envcheck.model.stack import Toolkit
from envcheck.probes.elf import NotElf, open_elf
from envcheck.probes.owners import Site
from envcheck.probes.tree import Tree, Unreadable, shown

# In wheels, relative to the site folder: of Triton (now and in 2.x), and of what TensorFlow and JAX use.
FOLDERS = ("triton/backends/nvidia/bin", "triton/third_party/cuda/bin", "nvidia/cuda_nvcc/bin", "nvidia/cu13/bin")
OVERRIDE = "TRITON_PTXAS_PATH"
_RELEASE = re.compile(rb"Cuda compilation tools, release \d+\.\d+, V(\d+\.\d+\.\d+)")
_WINDOW = 2**18  # the banner is among the first strings: measured at 6 to 22 KB


def find_ptxas(tree: Tree, sites: Sequence[Site], env: Mapping[str, str]) -> Iterator[Toolkit]:
    """Every ptxas of the environment's packages whose release can be read, or the one that an override names."""
    override = env.get(OVERRIDE, "")
    if override.startswith("/"):
        yield from _read(tree, override, OVERRIDE)
        return
    for site in sites:
        for folder in FOLDERS:
            if folder.partition("/")[0] not in site.names:
                continue
            for path in tree.under(f"{site.path}/{folder}", "ptxas"):
                yield from _read(tree, path, folder.partition("/")[0])


def _read(tree: Tree, path: str, source: str) -> Iterator[Toolkit]:
    try:
        file = open_elf(tree, path)
        if file is None:
            return
        with file:
            for section in file.sections():
                if section.name == ".rodata":
                    match = _RELEASE.search(file.read(section.offset, min(section.size, _WINDOW)))
                    if match:
                        yield Toolkit(match.group(1).decode(), shown(path), source=source)
    except (NotElf, Unreadable):
        return
