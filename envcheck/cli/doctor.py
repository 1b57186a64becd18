"""`envcheck doctor`: what is wrong with this host, paste, image or file, and what to change."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from envcheck.cli.options import (
    emit,
    no_color_option,
    paint,
    report_options,
    split_formats,
    split_ids,
    wants_color,
    width,
)
from envcheck.cli.target_options import image_options, inspection, machine_options, progress

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.finding import Report

STARTED = time.perf_counter()

EPILOG = """\b
Examples:
  envcheck doctor                           this host, or the container we stand in
  envcheck doctor --python .venv/bin/python another environment than the active one
  envcheck doctor --require-gpu             no GPU is an error
  envcheck doctor issue.txt                 what somebody pasted: logs, nvidia-smi, collect_env, pip list …
  nvidia-smi 2>&1 | envcheck doctor -
  envcheck doctor nvcr.io/nvidia/pytorch:24.05-py3 --on aws:p4d.24xlarge --driver 535.183.01
  envcheck doctor requirements.txt --python 3.11 --gpu "RTX 4090" --driver 550
  envcheck doctor compose.yaml --on this    also Dockerfiles, locks, conda environments, pods, devcontainers
  envcheck doctor container:NAME            a container of this engine; image:, local: and file: say the kind too
  envcheck doctor --format json -o report.json
"""


@click.command(epilog=EPILOG)
@click.argument("target", required=False)
@click.option(
    "--python",
    metavar="PATH|3.X",
    help="Judge the environment of this interpreter (it is read, never run); for files and images, a version.",
)
@machine_options
@image_options
@click.option("--require-gpu", is_flag=True, help="A usable NVIDIA GPU must be there: without one this is an error.")
@click.option(
    "--run",
    "run_it",
    is_flag=True,
    help="Also run the environment: its own Python computes a little on every GPU, in a child with a deadline.",
)
@click.option(
    "--share",
    is_flag=True,
    help="Print a redacted report fit for pasting instead: no names, serials, addresses or secrets.",
)
@report_options
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note", "never"]),
    default="error",
    show_default=True,
    help="The least severity that exits 1.",
)
@click.option(
    "--select", multiple=True, metavar="IDS", help="Only these rules (ids, families or slugs; commas allowed)."
)
@click.option("--ignore", multiple=True, metavar="IDS", help="Not these rules.")
@click.option(
    "--deadline", type=click.FloatRange(0.1, 3600), default=20.0, show_default=True, help="Seconds for all probes."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every package, note and skipped rule.")
@no_color_option
def command(
    target: Optional[str],
    python: Optional[str],
    require_gpu: bool,
    run_it: bool,
    share: bool,
    formats: tuple[str, ...],
    output: Optional[Path],
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    deadline: float,
    verbose: bool,
    no_color: bool,
    driver_range: bool,
    **target_options: object,
) -> None:
    """Find the root cause first, with the evidence and the fix. Nothing of the patient is run or imported.

    TARGET is nothing (this host), '-' (standard input), a file (a paste, a log, a saved snapshot, a Dockerfile, compose
    file, requirements, lock file, conda environment, pod, devcontainer.json), or an image, which is not pulled.
    """
    import msgspec

    from envcheck import matrix as matrices
    from envcheck.errors import UsageError
    from envcheck.pipeline import exit_code, judge, merge_reports
    from envcheck.report import RenderOptions, plain, render
    from envcheck.targets import HERE, inspect_targets

    wanted = split_formats(formats)
    if run_it and target not in HERE:
        raise UsageError("--run runs this host's own environment, and a target was named", "Leave out one of them.")
    matrix = matrices.load()
    with progress(bool(target_options.get("layers"))) as tick:
        how = msgspec.structs.replace(inspection(python, deadline, tick, target_options), run=run_it)
        snaps = inspect_targets(target, how, matrix)
    if share:
        from envcheck.redact import redact_snapshot

        snaps = [redact_snapshot(snap) for snap in snaps]
    chosen = {"select": split_ids(select), "ignore": split_ids(ignore)}
    report = merge_reports([judge(snap, matrix, wants_gpu=require_gpu, **chosen) for snap in snaps])
    if driver_range:
        report = with_driver_range(report, matrix)
    for place, (name, file) in enumerate(wanted):
        where = file or (output if place == 0 else None)
        color = where is None and wants_color(sys.stdout, no_color)
        options = RenderOptions(
            verbose=verbose,
            width=width(),
            seconds=time.perf_counter() - STARTED if where is None else None,
            paint=paint if color else plain,
        )
        emit(render(report, name, options), where)
    sys.exit(exit_code(report, fail_on))


def with_driver_range(report: Report, matrix: Matrix) -> Report:
    """The report with a remark that says from which driver on the stack works."""
    import msgspec

    from envcheck.driver_range import find_range
    from envcheck.rules import select_rules

    found = find_range(report.snapshot, matrix, select_rules((), ()))
    remarks = (*report.snapshot.remarks, f"Driver range: {found.text} ({found.asked} drivers asked)")
    return msgspec.structs.replace(report, snapshot=msgspec.structs.replace(report.snapshot, remarks=remarks))
