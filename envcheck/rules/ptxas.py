"""Whether the ptxas that a JIT compiler brings knows the GPUs: a part of GPU210."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.presence import capability_of, short, visible_gpus

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot


def bundled_ptxas_problems(snap: Snapshot, matrix: Matrix) -> Iterator[Problem]:
    """A problem for each GPU model that is newer than every ptxas of one package.

    JIT compilers choose among what they bring by the GPU, so the newest of a folder counts. Where nothing was looked
    for, or nothing found, nothing is said: `GPU210` then goes by the toolkit and by logs.
    """
    newest: dict[str, tuple[tuple[int, ...], str, str]] = {}
    for tool in snap.stack.ptxas.find() or ():
        release = versions.parse(tool.version).release[:2]
        folder = tool.path.rpartition("/")[0]
        newest[folder] = max(newest.get(folder, ((), "", "")), (release, tool.version, tool.path))
    if not newest:
        return
    for gpu in {gpu.name: gpu for gpu in visible_gpus(snap)}.values():
        row = matrix.capability(capability_of(gpu, matrix))
        first = versions.find(row.first_cuda) if row else None
        if row is None or first is None:
            continue
        for release, version, path in newest.values():
            if release >= first.release[:2]:
                continue
            owner = _owner(snap, path)
            yield Problem(
                f"{owner}'s ptxas {version} can't compile for the {short(gpu.name)} ({versions.sm(row.capability)})",
                fix=(
                    f"a release of {owner} that brings ptxas {row.first_cuda} or newer",
                    f"or TRITON_PTXAS_PATH=/usr/local/cuda/bin/ptxas with a CUDA {row.first_cuda} toolkit or newer",
                ),
                subject=gpu.name,
                evidence=(
                    Evidence("ptxas", version, path, "found"),
                    Evidence("ptxas", f">= {row.first_cuda}", "matrices/capabilities.toml", "needed"),
                ),
            )


def _owner(snap: Snapshot, path: str) -> str:
    """The package that the file lies in, with its version where the stack knows it."""
    name = path.partition("-packages/")[2].partition("/")[0] or "the environment"
    package = next((p for p in snap.stack.packages.find() or () if p.name == name), None)
    return f"{name} {package.version}" if package and package.version else name
