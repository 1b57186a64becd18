"""`envcheck convert`: a saved JSON report in another format."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from envcheck.cli.options import emit, no_color_option, paint, report_options, split_formats, wants_color, width

if TYPE_CHECKING:
    from envcheck.model.gate import Judged

MAX_BYTES = 256 * 2**20
_RULE = re.compile(r"[A-Z]{3}\d{3}")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

EPILOG = """\b
Examples:
  envcheck convert report.json --format html:report.html
  envcheck doctor --format json | envcheck convert - --format sarif -o envcheck.sarif
"""


@click.command(epilog=EPILOG)
@click.argument("report")
@report_options
@click.option(
    "--settings", "settings_path", default="", metavar="PATH", help="The file that findings about a host point at."
)
@click.option("-v", "--verbose", is_flag=True, help="Text: show every package, note and skipped rule.")
@no_color_option
def command(
    report: str, formats: tuple[str, ...], output: Optional[Path], settings_path: str, verbose: bool, no_color: bool
) -> None:
    """Turn REPORT, the JSON of `doctor` or `check` ('-' for standard input), into other formats. Exits 0."""
    from envcheck.model.gate import Gate
    from envcheck.report import RenderOptions, plain, render

    wanted = split_formats(formats)
    judged = read_judged(report)
    anchor = settings_path or (judged.settings if isinstance(judged, Gate) else "")
    for place, (name, file) in enumerate(wanted):
        where = file or (output if place == 0 else None)
        color = where is None and wants_color(sys.stdout, no_color)
        options = RenderOptions(verbose=verbose, width=width(), paint=paint if color else plain, settings_path=anchor)
        emit(render(judged, name, options), where)


def read_judged(name: str) -> Judged:
    """The report or gate in a JSON file; raises UsageError. Ids are held to their form: the file may be anybody's."""
    import msgspec

    from envcheck.errors import UsageError
    from envcheck.model.finding import Report
    from envcheck.model.gate import Gate, cells_of

    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except OSError as failure:
        raise UsageError(f"can't read {name}: {failure.strerror}", "Name a JSON report.") from failure
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES // 2**20} MB", "No report of mine is.")
    try:
        head = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        judged: Judged = (
            msgspec.json.decode(data, type=Gate) if "cells" in head else msgspec.json.decode(data, type=Report)
        )
        if judged.schema != 1:
            raise UsageError(f"{name} is of schema {judged.schema}, and I know 1", "Use a newer envcheck.")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise UsageError(
            f"{name} is no JSON report of envcheck: {fault}", "Make one: envcheck doctor --format json -o report.json"
        ) from None
    for cell in cells_of(judged):
        for finding in (*cell.report.findings, *(s.finding for s in cell.report.suppressed)) if cell.report else ():
            if not _RULE.fullmatch(finding.rule) or not _SLUG.fullmatch(finding.slug):
                raise UsageError(f"{name} names a rule {finding.rule!r} {finding.slug!r}", "No rule is called that.")
    return judged
