"""Compiles matrices/*.toml to msgpack, so that a run needs no TOML parser; the build hook calls it for each wheel.

In a checkout: `python -m envcheck.matrix.compile` writes to envcheck/data/matrices/ (git-ignored).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from envcheck.errors import MatrixError
from envcheck.matrix.reader import COMPILED, Reader, read_toml, stamp
from envcheck.matrix.subjects import SUBJECTS


def compile_matrix(folder: Path, target: Path) -> list[Path]:
    """Write a compiled copy of every file of `folder` under `target`; raises MatrixError with every bad row."""
    reader = Reader(folder, compiled=None)
    problems: list[str] = []
    written: list[Path] = []
    for subject in SUBJECTS.values():
        for relative in [f"{subject.name}/{part}" for part in reader.parts(subject.name)] or [subject.name]:
            path = folder / f"{relative}.toml"
            if not path.is_file():
                continue
            data = path.read_bytes()
            rows, faults = read_toml(data, subject, f"{relative}.toml")
            problems.extend(faults)
            copy = target / f"{relative}.msgpack"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(msgspec.msgpack.encode((stamp(data), rows)))
            written.append(copy)
    if problems:
        raise MatrixError(problems)
    return written


if __name__ == "__main__":
    from envcheck.resources import find_folder

    compile_matrix(find_folder("matrices"), COMPILED)
