"""Report formats: one module each, and the table that names them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Optional

import msgspec

from envcheck.errors import UnknownName
from envcheck.model.gate import Gate, Judged

# name -> (module with `render(judged, options) -> str`, one line for --help)
FORMATS: dict[str, tuple[str, str]] = {
    "text": ("envcheck.report.text", "for people"),
    "json": ("envcheck.report.json", "for programs; schema in docs/report.schema.json"),
    "sarif": ("envcheck.report.sarif", "SARIF 2.1.0, for code scanning"),
    "github": ("envcheck.report.github", "annotations of GitHub Actions"),
    "markdown": ("envcheck.report.markdown", "for step summaries and comments"),
    "junit": ("envcheck.report.junit", "JUnit XML, for test reports"),
    "gitlab": ("envcheck.report.gitlab", "GitLab code quality"),
    "html": ("envcheck.report.html", "one page without outside parts"),
}
# The text report of a gate is a table of its own; every other format reads both kinds.
GATE_TEXT = "envcheck.report.table"


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
    settings_line: int = 1


def render(judged: Judged, name: str, options: RenderOptions) -> str:
    """A report or a gate in format `name`, with a newline at its end; raises UnknownName."""
    if name not in FORMATS:
        raise UnknownName("format", name, FORMATS)
    where = GATE_TEXT if name == "text" and isinstance(judged, Gate) else FORMATS[name][0]
    return str(importlib.import_module(where).render(judged, options))
