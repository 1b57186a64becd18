"""Finds matrices/ and templates/, in an installed wheel (inside the package) or a checkout (beside it)."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def find_folder(name: str) -> Path:
    """The folder `name` ('matrices', 'templates'); raises FileNotFoundError in a broken installation."""
    for candidate in (_PACKAGE.parent / name, _PACKAGE / "data" / name):
        if candidate.is_dir():
            # A foreign `matrices/` beside site-packages would be a neighbour's: ours is beside pyproject.toml.
            if candidate.parent == _PACKAGE.parent and not (_PACKAGE.parent / "pyproject.toml").is_file():
                continue
            return candidate
    raise FileNotFoundError(f"{name}/ is missing from this installation of envcheck")
