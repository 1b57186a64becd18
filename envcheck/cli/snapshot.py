"""`envcheck snapshot`: this host as a file, for somebody else to judge."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import click

from envcheck.cli.options import emit

EPILOG = """\b
Examples:
  envcheck snapshot -o node.json            then, elsewhere: envcheck doctor node.json
  envcheck snapshot --share                 fit for pasting: no names, serials, addresses or secrets
"""


@click.command(epilog=EPILOG)
@click.option("--share", is_flag=True, help="Take out host and user names, serials, UUIDs, addresses and secrets.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--python", metavar="PATH", help="Describe the environment of this interpreter (it is read, never run).")
@click.option(
    "--deadline", type=click.FloatRange(0.1, 3600), default=20.0, show_default=True, help="Seconds for all probes."
)
def command(share: bool, output: Optional[Path], python: Optional[str], deadline: float) -> None:
    """Write what was found on this host as JSON, unjudged. `envcheck doctor FILE` reads it anywhere."""
    import msgspec

    from envcheck import matrix as matrices
    from envcheck.inspection import Inspection
    from envcheck.redact import share_report
    from envcheck.targets import inspect_this

    snap = inspect_this(Inspection(python=python, deadline=deadline), matrices.load())
    plain = msgspec.json.format(msgspec.json.encode(snap), indent=2).decode() + "\n"
    emit(share_report(snap) if share else plain, output)
