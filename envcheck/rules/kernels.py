"""Whether a framework has code for a GPU: measured from its files, else told by it, else by the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck import versions
from envcheck.model.fact import UnknownFact

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Binary
    from envcheck.rules.build import Built

# A few extra kernels are no support: at least this share of a library's modules must run. Measured on a wheel whose
# supported architectures have 475 to 534 modules each and whose extras have 1 to 59.
SUPPORTED_SHARE = 0.5
# Of the modules that have code for this GPU's generation or an older one; the others are for features of newer GPUs
# (measured: onnxruntime-gpu 1.31 has 217 of its 609 modules for sm_75). But so few are extras, whatever they are for.
LEAST_SHARE = 0.25


class Coverage(msgspec.Struct, frozen=True):
    """How a framework's code runs on a GPU. `how` is sass, ptx or none; `compiled` is what it was made for."""

    how: str
    compiled: tuple[str, ...]
    source: str
    certain: bool = True


def coverage(snap: Snapshot, matrix: Matrix, framework: Built, capability: str) -> Coverage:
    """Raises UnknownFact where nothing tells what the build was compiled for."""
    binary = _binary(snap, framework)
    if binary is not None:
        return measured(matrix, binary, capability)
    if framework.package.capabilities is not None:
        listed, source = framework.package.capabilities, framework.package.source
        return Coverage(matrix.kernels(listed, capability) or "none", listed, source)
    row = framework.row
    if row is not None and row.capabilities is not None:
        source = f"matrices/builds/{row.package}.toml: {row.source}"
        return Coverage(matrix.kernels(row.capabilities, capability) or "none", row.capabilities, source)
    dropped = _dropped(matrix, framework, capability)
    if dropped is not None:
        return dropped
    raise UnknownFact(f"what {framework.label} was compiled for: neither measured nor in the matrix")


def _binary(snap: Snapshot, framework: Built) -> Optional[Binary]:
    mine = [
        binary
        for binary in snap.stack.binaries.find() or ()
        if binary.package == framework.package.name and binary.modules and not binary.unread
    ]
    return max(mine, key=lambda binary: binary.modules, default=None)


def measured(matrix: Matrix, binary: Binary, capability: str) -> Coverage:
    """How the modules of one library run."""
    kinds = {"sass": 0, "ptx": 0, "none": 0}
    if binary.mixes:
        for mix, count in binary.mixes.items():
            kinds[matrix.kernels(mix.split(), capability) or "none"] += count
    else:
        kinds["sass"] = max((n for code, n in binary.sass.items() if matrix.kernels((code,), capability)), default=0)
        texts = ((f"{code}+PTX", n) for code, n in binary.ptx.items())
        kinds["ptx"] = max((n for code, n in texts if matrix.kernels((code,), capability)), default=0)
    meant = _meant_for(binary, capability)
    many = max(meant * SUPPORTED_SHARE, binary.modules * LEAST_SHARE)
    held: dict[str, int] = dict(binary.sass)
    listed = [code for code, count in held.items() if count >= many]
    listed += [f"{code}+PTX" for code, count in binary.ptx.items() if count >= many]
    compiled = tuple(sorted(listed or held, key=versions.capability))
    source = f"{binary.path}: {binary.modules} modules"
    if kinds["sass"] >= many:
        return Coverage("sass", compiled, source)
    return Coverage("ptx" if kinds["sass"] + kinds["ptx"] >= many else "none", compiled, source)


def _meant_for(binary: Binary, capability: str) -> int:
    """How many modules hold code for architectures up to this GPU's; all of them where mixes aren't told."""
    gpu = versions.capability(capability)
    if not binary.mixes:
        return binary.modules
    return sum(n for mix, n in binary.mixes.items() if any(versions.capability(code) <= gpu for code in mix.split()))


def _dropped(matrix: Matrix, framework: Built, capability: str) -> Optional[Coverage]:
    """No build of a CUDA that dropped the GPU holds code for it, whatever else it was compiled for."""
    row = matrix.capability(capability)
    cuda, last = versions.find(framework.cuda), versions.find(row.last_cuda if row else None)
    if row is None or cuda is None or last is None or len(cuda.release) < 2:
        return None
    if cuda.release[:2] > last.release[:2]:
        return Coverage("none", (), f"matrices/capabilities.toml: {row.source}")
    return None


def cause_of(compiled: tuple[str, ...], capability: str) -> str:
    """Which of the three causes: the GPU is newer than all that was compiled, older, or in a hole."""
    gpu = versions.capability(capability)
    codes = [versions.capability(code) for code in compiled]
    if not codes or gpu < min(codes):
        return "gpu-too-old-for-build"
    return "gpu-too-new-for-build" if gpu > max(codes) else "gpu-arch-not-in-build"


def listing(compiled: tuple[str, ...]) -> str:
    """'sm_80 sm_90, PTX for 9.0' or '…, no PTX'."""
    codes = list(dict.fromkeys(versions.sm(code.partition("+")[0]) for code in compiled))
    ptx = [code.partition("+")[0] for code in compiled if "+PTX" in code]
    return f"{' '.join(codes)}, {'PTX for ' + ' '.join(ptx) if ptx else 'no PTX'}" if codes else "nothing for it"
