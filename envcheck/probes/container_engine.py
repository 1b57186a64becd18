"""Not written yet."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.probes.probe import Scene, Told


def inspect(scene: Scene) -> Iterator[Told]:
    """Nothing yet."""
    return iter(())
