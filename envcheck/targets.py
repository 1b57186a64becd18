"""What `doctor TARGET` may name, told apart by prefix, file or shape, and how each becomes a snapshot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck.errors import InspectError, UsageError
from envcheck.model.snapshot import Snapshot

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

MAX_REPORT_BYTES = 64 * 2**20


class Inspection(msgspec.Struct, frozen=True):
    """How to look: what the command line said besides the target."""

    python: Optional[str] = None
    deadline: float = 20.0
    on: Optional[str] = None
    run: bool = False


def inspect_target(target: Optional[str], how: Inspection, matrix: Matrix) -> Snapshot:
    """The snapshot of `target` (None: this host). Raises UsageError or InspectError."""
    if target is None or target in ("this", "host", "."):
        return inspect_this(how, matrix)
    if target == "-":
        return read_paste(_read_stdin(), "standard input", matrix)
    path = Path(target.partition(":")[2] if target.startswith("file:") else target)
    if path.exists() or target.startswith("file:"):
        return inspect_file(path, how, matrix)
    raise UsageError(
        f"{target!r} is neither a file here nor a target that I know",
        "Give a file, '-' for standard input, or nothing for this host.",
    )


def inspect_this(how: Inspection, matrix: Matrix) -> Snapshot:
    """The live host or the container that we stand in."""
    from envcheck.probes.inspect import inspect_host

    return inspect_host(python=how.python, known=frozenset(matrix.packages()), deadline=how.deadline)


def inspect_file(path: Path, how: Inspection, matrix: Matrix) -> Snapshot:
    """A file: a pasted report, a log or a saved snapshot."""
    return read_paste(_read_file(path), str(path), matrix)


def read_paste(data: bytes, name: str, matrix: Matrix) -> Snapshot:
    """Pasted text in any encoding, by the readers."""
    from envcheck.readers.detect import read_report

    return read_report(decode(data, name), name=name, symptoms=matrix.symptoms)


def decode(data: bytes, name: str) -> str:
    """Text of unknown encoding; raises InspectError for what is no text at all."""
    if not data.strip():
        raise InspectError(
            f"{name} is empty", "Paste the output of `python -m torch.utils.collect_env` or of nvidia-smi."
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    sample = data[:65536]
    strange = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    if strange > len(sample) // 10:
        raise InspectError(f"{name} is a binary file, not a report", "Give the text that a tool printed.")
    return data.decode("utf-8-sig", "replace")


def _read_file(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", "Name a file in it.")
        with path.open("rb") as stream:
            data = stream.read(MAX_REPORT_BYTES + 1)
    except OSError as failure:
        raise UsageError(f"can't read {path}: {failure.strerror}", "Check the name and your permission.") from failure
    return _capped(data, str(path))


def _read_stdin() -> bytes:
    return _capped(sys.stdin.buffer.read(MAX_REPORT_BYTES + 1), "standard input")


def _capped(data: bytes, name: str) -> bytes:
    if len(data) > MAX_REPORT_BYTES:
        raise InspectError(
            f"{name} is larger than {MAX_REPORT_BYTES // 2**20} MB", "Cut it to the lines around the error."
        )
    return data
