"""Annotations of GitHub Actions: one workflow command a finding, escaped as the toolkit does."""

from __future__ import annotations

from envcheck.model.finding import Severity
from envcheck.model.gate import Judged, cells_of, items_of
from envcheck.report import RenderOptions
from envcheck.report.words import body, clean, flat, reasons

COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


def escape_data(text: str) -> str:
    """The message of a command: a newline in it must not begin another command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """A property of a command: also what separates properties."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def render(judged: Judged, options: RenderOptions) -> str:
    """The commands, a line each; findings that don't count say nothing. Inconclusive checks are warnings."""
    lines = []
    for item in items_of(judged, options.settings_path, options.settings_line):
        if item.suppressed:
            continue
        finding = item.finding
        properties = {"title": f"{finding.rule} {finding.slug}"}
        if item.path:
            properties = {"file": clean(item.path), "line": str(item.line), **properties}
        lines.append(_command(COMMANDS[finding.severity], properties, body(item)))
    for cell in cells_of(judged):
        if cell.state == "unknown":
            why = reasons(cell)[0]
            lines.append(
                _command("warning", {"title": "inconclusive"}, f"{flat(cell.name)} could not be judged: {why}")
            )
    return "".join(line + "\n" for line in lines) or "\n"


def _command(name: str, properties: dict[str, str], message: str) -> str:
    told = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
    return f"::{name} {told}::{escape_data(message)}"
