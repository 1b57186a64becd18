"""The JSON report: versioned, with a published schema; the same bytes for the same snapshot."""

from __future__ import annotations

from typing import Any

import msgspec

from envcheck.model.finding import Report
from envcheck.report import RenderOptions


def render(report: Report, options: RenderOptions) -> str:
    """The report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report, order="sorted"), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the report."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Report)}
