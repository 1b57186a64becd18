"""GitLab's code quality report: the findings as a JSON list."""

from __future__ import annotations

from typing import Any

import msgspec

from envcheck.model.finding import Severity
from envcheck.model.gate import Judged, items_of
from envcheck.report import RenderOptions
from envcheck.report.words import body, clean

SEVERITIES: dict[Severity, str] = {"error": "critical", "warning": "major", "note": "info"}
NO_FILE = "envcheck.toml"  # GitLab wants a path: where a requirement on the machine would stand


def render(judged: Judged, options: RenderOptions) -> str:
    """The list; findings that don't count are left out, as GitLab knows no suppression."""
    entries: list[dict[str, Any]] = [
        {
            "description": body(item),
            "check_name": f"{item.finding.rule} {item.finding.slug}",
            "fingerprint": item.fingerprint,
            "severity": SEVERITIES[item.finding.severity],
            "location": {"path": clean(item.path) or NO_FILE, "lines": {"begin": item.line}},
        }
        for item in items_of(judged, options.settings_path, options.settings_line)
        if not item.suppressed
    ]
    return msgspec.json.format(msgspec.json.encode(entries), indent=2).decode() + "\n"
