"""Options that several commands share, and how output reaches the terminal or a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, TypeVar

import click

from envcheck.errors import UnknownName, UsageError

F = TypeVar("F", bound=Callable[..., Any])

STYLES: dict[str, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "note": {"fg": "cyan"},
    "ok": {"fg": "green", "bold": True},
    "unknown": {"fg": "magenta", "bold": True},
    "dim": {"dim": True},
    "bold": {"bold": True},
}


def paint(text: str, style: str) -> str:
    """`text` in the colours of `style`."""
    return click.style(text, **STYLES.get(style, {}))


def wants_color(stream: Any, no_color: bool) -> bool:
    """Colour for a terminal, unless NO_COLOR (https://no-color.org) or --no-color says otherwise."""
    return not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def width() -> int:
    """The columns that text may use: the terminal's, at most 110."""
    told = os.environ.get("COLUMNS", "")
    columns = int(told) if told.isdecimal() else 0
    if columns <= 0:
        try:  # as shutil.get_terminal_size, whose module brings three compressors along
            columns = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns
        except (ValueError, OSError):
            columns = 0
    return min(columns or 100, 110)


def write_file(path: Path, content: str) -> None:
    """Write whole or not at all: a temporary file beside it, then a rename. Raises UsageError."""
    import tempfile

    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", "Name a file.")
        if not path.parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", "Make it first, or name another place.")
        if path.exists() and not path.is_file():  # /dev/stdout, a fifo: nothing to rename over
            path.write_text(content, encoding="utf-8")
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(content)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as failure:
        raise UsageError(f"can't write {path}: {failure.strerror}", "Name a place that you may write to.") from failure


def emit(content: str, output: Optional[Path]) -> None:
    """To a file, or to standard output; characters that the terminal's encoding lacks are replaced."""
    if output is not None and str(output) != "-":
        write_file(output, content)
        return
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(content.encode(encoding, "replace").decode(encoding))


def no_color_option(command: F) -> F:
    """--no-color."""
    return click.option("--no-color", is_flag=True, help="Don't colour (NO_COLOR is honoured too).")(command)


def report_options(command: F) -> F:
    """--format and --output."""
    formats = click.option(
        "--format",
        "formats",
        metavar="NAME[:FILE]",
        multiple=True,
        default=("text",),
        show_default=True,
        help="text, json, sarif, github, markdown, junit, gitlab, html; may be repeated, each with its own file.",
    )
    output = click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write the (first) report to this file."
    )
    return formats(output(command))


def split_ids(values: tuple[str, ...]) -> tuple[str, ...]:
    """'DRV101,GPU201' and repeated options are the same."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def split_formats(values: tuple[str, ...]) -> list[tuple[str, Optional[Path]]]:
    """'sarif:out.sarif' as (name, file); raises UnknownName before anything is inspected."""
    from envcheck.report import FORMATS

    wanted = [(name, Path(file) if file else None) for name, _, file in (value.partition(":") for value in values)]
    for name, _ in wanted:
        if name not in FORMATS:
            raise UnknownName("format", name, FORMATS)
    return wanted
