"""`envcheck explain`: the page of one rule."""

from __future__ import annotations

import textwrap

import click

from envcheck.cli.options import no_color_option, paint, wants_color, width

EPILOG = """\b
Examples:
  envcheck explain DRV101
  envcheck explain driver-too-old-for-cuda
"""


@click.command(epilog=EPILOG)
@click.argument("rule")
@no_color_option
def command(rule: str, no_color: bool) -> None:
    """Print the page of RULE (its id or slug): what it finds, why it matters, how it is decided, the fix, sources."""
    import sys

    from envcheck.rules import find_rule

    found = find_rule(rule.strip())
    color = wants_color(sys.stdout, no_color)
    head = f"{found.id} {found.slug}"
    click.echo(f"{paint(head, 'bold') if color else head}   {found.severity}\n")
    _, _, body = found.page.partition("\n")
    click.echo("\n".join(textwrap.wrap(found.title, width())) + "\n")
    for label, text in _sections(body):
        lead = f"{label:<8} " if label else ""
        click.echo(
            textwrap.fill(
                text,
                width(),
                initial_indent=f"  {lead}",
                subsequent_indent=" " * (2 + len(lead)),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


LABELS = {"Why": "why", "How": "how", "How it is decided": "how", "Fix": "fix", "Sources": "sources"}


def _sections(body: str) -> list[tuple[str, str]]:
    """('why', text) … of 'Why: text'; text before the first label has none."""
    sections: list[tuple[str, str]] = []
    for line in textwrap.dedent(body).splitlines():
        word, colon, rest = line.partition(":")
        if colon and word in LABELS:
            sections.append((LABELS[word], rest.strip()))
        elif line.strip():
            label, text = sections.pop() if sections else ("", "")
            sections.append((label, f"{text} {line.strip()}".strip()))
    return sections
