"""`envcheck libs`: which CUDA libraries an environment's process will load, and why these."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Optional

import click

from envcheck.cli.options import emit, no_color_option, paint, wants_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envcheck.model.stack import Library, Opening

EPILOG = """\b
Examples:
  envcheck libs                                  the active environment
  envcheck libs --python .venv/bin/python
  LD_LIBRARY_PATH=/opt/cudnn/lib envcheck libs   what would that change?

\b
Exit codes: 0 · 1 a framework or extension would not load · 3 could not be worked out
"""


@click.command(epilog=EPILOG)
@click.option("--python", metavar="PATH", help="The interpreter of the environment (it is read, never run).")
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)
@click.option("-v", "--verbose", is_flag=True, help="Also what lies about and doesn't load.")
@no_color_option
def command(python: Optional[str], style: str, verbose: bool, no_color: bool) -> None:
    """Work out, as the dynamic loader would, which library files win; nothing is run or loaded.

    Followed are RPATH and RUNPATH with $ORIGIN, LD_PRELOAD, LD_LIBRARY_PATH, ld.so.cache, the default folders and the
    framework's own preload list, as of this shell's environment.
    """
    import msgspec

    from envcheck import matrix as matrices
    from envcheck.errors import InspectError
    from envcheck.probes.binaries import inspect_binaries
    from envcheck.probes.inspect import inspect_host

    snap = inspect_host(python=python, known=frozenset(matrices.load().packages()), binaries=False)
    stack = inspect_binaries(snap, env=os.environ, deadline=20)
    openings = stack.openings.find()
    if openings is None:
        raise InspectError(
            f"what will load can't be worked out: {stack.openings.unknown}",
            "Name the interpreter of an environment with torch, tensorflow, jax or onnxruntime: --python PATH.",
        )
    libraries = stack.libraries.find() or ()
    if style == "json":
        answer = {"schema": 1, "libraries": libraries, "openings": openings, "forward": stack.forward.find()}
        emit(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n", None)
    else:
        emit(_text(libraries, openings, verbose=verbose, color=wants_color(sys.stdout, no_color)), None)
    sys.exit(1 if any(opening.fault for opening in openings) else 0)


def _text(libraries: Sequence[Library], openings: Sequence[Opening], *, verbose: bool, color: bool) -> str:
    from envcheck.report.words import clean

    lines = []
    shown = [library for library in libraries if verbose or library.order == 0]
    wide = max((len(library.soname) for library in shown), default=0)
    for library in shown:
        owner = " ".join(filter(None, (library.package, library.version))) or library.origin
        mark = " " if library.order == 0 else "-"
        lines.append(f"{mark} {clean(library.soname).ljust(wide)}  {clean(owner)}  [{library.origin}]")
        lines.append(f"  {' ' * wide}  {clean(library.path)}")
        lines.append(f"  {' ' * wide}  {clean(library.reason or 'lies about; nobody asks for it')}")
    if openings:
        lines += ["", "Imports:"]
    for opening in openings:
        if opening.fault:
            mark = paint("✗", "error") if color else "✗"
            lines += [f"{mark} {clean(opening.package)}  {clean(opening.path)}", f"    {clean(opening.text)}"]
        else:
            mark = paint("✓", "ok") if color else "✓"
            lines.append(f"{mark} {clean(opening.package)}  {clean(opening.path)}")
    return "\n".join(lines).strip("\n") + "\n"
