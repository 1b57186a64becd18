"""Report formats: one module each, and the table that names them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Optional

import msgspec

from envcheck.errors import UnknownName
from envcheck.model.finding import Report

# name -> (module with `render(report, options) -> str`, one line for --help)
FORMATS: dict[str, tuple[str, str]] = {
    "text": ("envcheck.report.text", "for people"),
    "json": ("envcheck.report.json", "for programs; schema in docs/report.schema.json"),
}


def plain(text: str, style: str) -> str:
    """The painter that paints nothing."""
    return text


class RenderOptions(msgspec.Struct, frozen=True):
    """What a renderer may know besides the report.

    `paint(text, style)` colours for a terminal; styles are error, warning, note, ok, unknown, dim, bold.
    `seconds` is the whole run's time, shown only by the text report on a terminal.
    """

    verbose: bool = False
    width: int = 100
    paint: Callable[[str, str], str] = plain
    seconds: Optional[float] = None
    settings_path: str = ""  # where host findings are anchored in file-based formats


def render(report: Report, name: str, options: RenderOptions) -> str:
    """The report in format `name`, with a newline at its end; raises UnknownName."""
    if name not in FORMATS:
        raise UnknownName("format", name, FORMATS)
    module = importlib.import_module(FORMATS[name][0])
    return str(module.render(report, options))
