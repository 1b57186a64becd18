"""Build hook: ships a compiled copy of the matrix beside its TOML, for speed only (see envcheck/matrix/reader.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = "envcheck/data/matrices"


class CompileMatrix(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles into the wheel; for an editable install into the checkout, where git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs."""
        root = Path(self.root)
        sys.path.insert(0, self.root)
        try:
            from envcheck.matrix.compile import compile_matrix
        except ImportError as fault:  # without build isolation msgspec may be missing: the TOML alone does too
            self.app.display_warning(f"the matrix is not compiled: {fault}")
            return
        finally:
            sys.path.remove(self.root)
        if version == "editable":
            try:
                compile_matrix(root / "matrices", root / INSIDE)
            except OSError as fault:
                self.app.display_warning(f"the matrix is not compiled: {fault}")
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for path in compile_matrix(root / "matrices", folder):
            build_data["force_include"][str(path)] = f"{INSIDE}/{path.relative_to(folder).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling after it has packed."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
