"""`envcheck rules`: all rules, a line each."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  envcheck rules
  envcheck rules --select DRV,GPU
  envcheck rules --format json | jq '.[].id'
"""


@click.command(epilog=EPILOG)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--select", multiple=True, metavar="IDS", help="Only these (ids, families or slugs; commas allowed).")
def command(form: str, select: tuple[str, ...]) -> None:
    """List the rules: id, severity, slug and what each finds. `envcheck explain ID` tells the rest."""
    import json

    from envcheck.cli.options import split_ids
    from envcheck.rules import select_rules

    rules = sorted(select_rules(split_ids(select), ()), key=lambda rule: rule.id)
    if form == "json":
        rows = [{"id": r.id, "slug": r.slug, "severity": r.severity, "cause": r.cause, "title": r.title} for r in rules]
        click.echo(json.dumps(rows, indent=2))
        return
    wide = max((len(rule.slug) for rule in rules), default=0)
    for rule in rules:
        click.echo(f"{rule.id}  {rule.severity:<7}  {rule.slug:<{wide}}  {rule.title}".rstrip())
