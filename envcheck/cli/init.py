"""`envcheck init`: settings and a workflow for this repository, proposed and explained."""

from __future__ import annotations

from pathlib import Path

import click

EPILOG = """\b
Examples:
  envcheck init                what I would write, and why; then writes it
  envcheck init --dry-run      only shows it
  envcheck init --force        writes over files that are there
"""
WORKFLOW = Path(".github") / "workflows" / "envcheck.yml"


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True), default=".")
@click.option("--dry-run", is_flag=True, help="Show the files, write nothing.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--no-workflow", is_flag=True, help="Only the settings.")
def command(folder: Path, dry_run: bool, force: bool, no_workflow: bool) -> None:
    """Look at the repository in FOLDER, propose envcheck.toml and a GitHub workflow, and say why each line is there."""
    from envcheck import __version__
    from envcheck import matrix as matrices
    from envcheck.cli.options import write_file
    from envcheck.errors import UsageError
    from envcheck.proposal import propose, render_settings, render_workflow
    from envcheck.report.words import clean, count
    from envcheck.settings import FILE, find_settings

    matrix = matrices.load()
    proposal = propose(folder.resolve(), matrix)
    files = {folder / FILE: render_settings(proposal)}
    if not no_workflow:
        files[folder / WORKFLOW] = render_workflow(FILE, __version__)
    if not dry_run and not force:
        there = [str(path) for path in files if path.exists()]
        other = find_settings(folder.resolve())
        if other is not None and other.parent == folder.resolve() and other.name != FILE:
            there.append(f"[tool.envcheck] in {other.name}")
        if there:
            raise UsageError(f"already there: {', '.join(there)}", "See --dry-run; --force writes over them.")
    for key, names in proposal.files.items():
        if names:
            click.echo(
                f"found    {count(len(names), key.rstrip('s'))}: {clean(', '.join(names[:6]))}{' …' * (len(names) > 6)}"
            )
    if not proposal.any:
        click.echo("found    no Dockerfile, requirement file, compose or lock file: only targets can be judged")
    for name, (specifier, source) in proposal.require.items():
        click.echo(f"require  {name} {specifier}   {clean(source)}")
    for name, specifiers in proposal.differing.items():
        click.echo(f"differ   {name} {' and '.join(specifiers)}: nothing proposed, the files don't agree")
    for path, content in files.items():
        if dry_run:
            click.echo(f"\n--- {path}\n{clean(content)}", nl=False)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
        click.echo(f"wrote    {path}   {WHY[path.name]}")
    if not dry_run:
        click.echo("next     name your targets in envcheck.toml, then: envcheck check")


WHY = {
    "envcheck.toml": "what the project needs, what is judged, where it must run",
    "envcheck.yml": "runs `envcheck check` on every push and pull request, with no rights but to read",
}
