"""`envcheck check`: everything that the project's settings name, on every target, in one table."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Optional

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

STARTED = time.perf_counter()

EPILOG = """\b
Examples:
  envcheck check                                    what CI runs: settings of this repository
  envcheck check --config ci/envcheck.toml --format github --format sarif:envcheck.sarif
  envcheck check --on aws:g5.xlarge                 on another target than the settings name
  envcheck check Dockerfile requirements.txt        only these files
  envcheck check --require-gpu                      this host too, and it must have a usable GPU
  envcheck check --baseline known.json --update-baseline
  envcheck check --baseline known.json              fail only on what is new

\b
Exit codes:
  0 clean · 1 findings at or above fail-on · 2 wrong settings · 3 something could not be judged
"""


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The settings: envcheck.toml, or a pyproject.toml with [tool.envcheck].  [default: found from here upwards]",
)
@click.option("--on", "targets", metavar="TARGET", multiple=True, help="Instead of the settings' targets; repeatable.")
@click.option("--require-gpu", is_flag=True, help="Judge this host too: without a usable NVIDIA GPU it is an error.")
@click.option("--python", metavar="PATH", help="Judge the environment of this interpreter (it is read, never run).")
@report_options
@click.option("--baseline", type=click.Path(path_type=Path), help="Known findings: only new ones count.")
@click.option("--update-baseline", is_flag=True, help="Write what is found now to the --baseline file, and exit 0.")
@click.option("--fail-on", type=click.Choice(["error", "warning", "note", "never"]), help="Instead of the settings'.")
@click.option("--select", multiple=True, metavar="IDS", help="Only these rules (ids, families or slugs).")
@click.option("--ignore", multiple=True, metavar="IDS", help="Not these rules.")
@click.option(
    "--deadline", type=click.FloatRange(0.1, 3600), default=20.0, show_default=True, help="Seconds for all probes."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every row, note, suppressed finding and skipped rule.")
@no_color_option
def command(
    files: tuple[Path, ...],
    config: Optional[Path],
    targets: tuple[str, ...],
    require_gpu: bool,
    python: Optional[str],
    formats: tuple[str, ...],
    output: Optional[Path],
    baseline: Optional[Path],
    update_baseline: bool,
    fail_on: Optional[str],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    deadline: float,
    verbose: bool,
    no_color: bool,
) -> None:
    """Judge all that the settings name (files, images, machines) against every target, and exit by the worst.

    FILES, if any, are judged instead of the settings' files; then settings aren't needed.
    """
    import datetime as dt

    from envcheck import matrix as matrices
    from envcheck.baseline import baseline_of, load_baseline, render_baseline
    from envcheck.errors import UsageError
    from envcheck.gate import How, exit_code, run_gate
    from envcheck.report import RenderOptions, plain, render
    from envcheck.settings import NO_SETTINGS, find_settings, load_settings

    wanted = split_formats(formats)
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline without a file", "Say which: --baseline FILE --update-baseline.")
    matrix = matrices.load()
    path = config or find_settings(Path.cwd())
    if path is None and not files:
        raise UsageError(
            "no settings here: neither envcheck.toml nor [tool.envcheck] in pyproject.toml",
            "`envcheck init` proposes some; `envcheck doctor` judges this host without any.",
        )
    project = load_settings(path, matrix.packages()) if path is not None else NO_SETTINGS
    old = load_baseline(baseline) if baseline is not None and (baseline.exists() or not update_baseline) else None
    how = How(
        today=dt.datetime.now(dt.timezone.utc).date(),
        files=files,
        targets=split_ids(targets),
        select=split_ids(select),
        ignore=split_ids(ignore),
        fail_on=fail_on,
        require_gpu=require_gpu,
        python=python,
        deadline=deadline,
        known=frozenset() if old is None or update_baseline else old.fingerprints,
    )
    gate = run_gate(project, matrix, how)
    for place, (name, file) in enumerate(wanted):
        where = file or (output if place == 0 else None)
        color = where is None and wants_color(sys.stdout, no_color)
        options = RenderOptions(
            verbose=verbose,
            width=width(),
            seconds=time.perf_counter() - STARTED if where is None else None,
            settings_path=project.need.path,
            settings_line=project.need.line or 1,
            paint=paint if color else plain,
        )
        emit(render(gate, name, options), where)
    if update_baseline:
        assert baseline is not None
        made = baseline_of(gate)
        emit(render_baseline(made), baseline)
        click.echo(f"{baseline}: {len(made.findings)} known findings", err=True)
        sys.exit(3 if gate.summary.unknown else 0)
    sys.exit(exit_code(gate))
