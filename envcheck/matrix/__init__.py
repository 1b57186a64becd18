"""The compatibility matrix: rows, the reader of matrices/, and pure look-ups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix


def load(folder: Optional[Path] = None) -> Matrix:
    """The matrix of this installation, or of another `folder`; each subject is read when it is first asked for."""
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.reader import Reader
    from envcheck.resources import find_folder

    return Matrix(Reader(folder or find_folder("matrices")))
