"""`envcheck matrix`: look things up in the compatibility matrix, or check it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from envcheck.cli.options import emit, no_color_option, wants_color, width
from envcheck.errors import EXIT_CLEAN, EXIT_USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from envcheck.matrix.answer import Answer, AnswerTable

SHOWN_ROWS = 64
SHOWN_NOTES = 4
SHOWN_SOURCES = 5

SHOW_EPILOG = """\b
Examples:
  envcheck matrix show torch 2.1           its builds, companions and pins
  envcheck matrix show gpu "RTX 4090"      what it needs and which builds have code for it
  envcheck matrix show driver 535          what it runs, until when, and what was fixed
  envcheck matrix show cuda 12.1           drivers, compilers, GPUs, builds
  envcheck matrix show ngc pytorch 23.07   what is in NVIDIA's image
  envcheck matrix show tensorflow 2.15 · cudnn 9.1 · instances aws · known-bad torch · packages
"""

format_option = click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)


@click.group()
def command() -> None:
    """Look things up in the compatibility matrix, or check it."""


@command.command("check")
@format_option
def check_command(style: str) -> None:
    """Check every row of the matrix against its laws; exit 2 where one is broken.

    Files that aren't TOML, malformed rows and broken laws are reported all at once, each with file, row and key.
    """
    import msgspec

    from envcheck.matrix.check import check
    from envcheck.matrix.laws import LAWS
    from envcheck.matrix.reader import Reader
    from envcheck.matrix.tables import read_tables
    from envcheck.resources import find_folder

    reader = Reader(find_folder("matrices"), compiled=None)  # what is written, not what was compiled
    faults = check(reader)
    if style == "json":
        told = {"schema": 1, "faults": faults}
        emit(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n", None)
    elif faults:
        emit("".join(f"{fault}\n" for fault in faults), None)
        click.echo(f"{len(faults)} fault{'s' * (len(faults) > 1)} in the matrix.", err=True)
    else:
        tables = read_tables(reader)[0]
        rows = sum(len(table.rows) for table in tables)
        emit(f"The matrix holds: {rows} rows in {len(tables)} files, {len(LAWS)} laws.\n", None)
    sys.exit(EXIT_USAGE if faults else EXIT_CLEAN)


@command.command("show", epilog=SHOW_EPILOG)
@click.argument("topic")
@click.argument("words", nargs=-1)
@format_option
@click.option("--all", "every", is_flag=True, help="Every row, note and source, however long.")
@no_color_option
def show_command(topic: str, words: tuple[str, ...], style: str, every: bool, no_color: bool) -> None:
    """Answer a question from the matrix, with its sources. Unknown names exit 2 and name the nearest.

    TOPIC is gpu, gpus, driver, cuda, cudnn, ngc, instances, packages, known-bad, vulnerabilities, runtime, causes,
    policies, or the name of a package.
    """
    import msgspec

    from envcheck.matrix import load
    from envcheck.matrix.dump import answer

    found = answer(load(), topic, words)
    if style == "json":
        body = {"schema": 1, **msgspec.to_builtins(found)}
        emit(msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n", None)
        return
    emit(render(found, every=every, color=wants_color(sys.stdout, no_color), columns=width()), None)


def render(found: Answer, *, every: bool, color: bool, columns: int) -> str:
    """The answer as text for a terminal of so many columns."""
    import io

    from rich.console import Console
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
        file=stream, width=columns, force_terminal=color, no_color=not color, highlight=False, emoji=False
    )
    console.print(Text(printable(found.title), style="bold"))
    _facts(console, found)
    for table in found.tables:
        _table(console, table, every)
    notes = found.notes if every else found.notes[:SHOWN_NOTES]
    _lines(console, "  ·", _cut(notes, len(found.notes), "notes"), "")
    console.print(Text("  Sources", style="dim"))
    sources = found.sources if every else found.sources[:SHOWN_SOURCES]
    _lines(console, "   ", _cut(sources, len(found.sources), "sources"), "dim")
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """`text` without what a terminal could take for a command."""
    return "".join(letter for letter in text if letter.isprintable())


def _cut(lines: tuple[str, ...], total: int, what: str) -> Iterator[str]:
    yield from lines
    if total > len(lines):
        yield f"… {total - len(lines)} more {what}: --all"


def _lines(console: Console, mark: str, lines: Iterator[str], style: str) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        grid.add_row(Text(mark, style=style), Text(printable(line), style=style))
    if grid.row_count:
        console.print(grid)


def _facts(console: Console, found: Answer) -> None:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in found.facts.items():
        grid.add_row(Text(f"  {name}"), Text(printable(value)))
    if found.facts:
        console.print(grid)


def _table(console: Console, table: AnswerTable, every: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = table.rows if every else table.rows[:SHOWN_ROWS]
    if not shown:
        return
    if table.title:
        console.print(Text(f"  {printable(table.title)}", style="bold"))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for place, name in enumerate(table.columns):
        longest = max(len(row[place]) for row in shown)
        whole = place == 0 or longest <= 24
        grid.add_column(Text(f"    {name}" if place == 0 else name), no_wrap=whole, overflow="fold")
    for row in shown:
        grid.add_row(*(Text(("    " if place == 0 else "") + printable(cell)) for place, cell in enumerate(row)))
    console.print(grid)
    if len(shown) < len(table.rows):
        console.print(Text(f"    … {len(table.rows) - len(shown)} more rows: --all, or --format json", style="dim"))
