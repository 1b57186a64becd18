"""SARIF 2.1.0 for code scanning: rules, results with fingerprints, suppressions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from envcheck.model.finding import Finding, Severity, Tool
from envcheck.model.gate import Cell, Item, Judged, cells_of, items_of
from envcheck.report import RenderOptions
from envcheck.report.words import body, clean, flat, reasons

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "note"}
NO_FILE = "envcheck.toml"  # code scanning wants a file: where a requirement on the machine would stand


def render(judged: Judged, options: RenderOptions) -> str:
    """One run. Findings about a machine are anchored to the settings file and say so by their logical location."""
    items = items_of(judged, options.settings_path, options.settings_line)
    rules = {item.finding.rule: item.finding for item in reversed(items)}
    order = {rule: place for place, rule in enumerate(sorted(rules))}
    run = {
        "tool": {"driver": _driver(judged.tool, [rules[rule] for rule in sorted(rules)])},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the repository"}}},
        "invocations": [_invocation(cells_of(judged))],
        "results": [_result(item, order) for item in items],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _driver(tool: Tool, findings: list[Finding]) -> dict[str, Any]:
    return {
        "name": tool.name,
        "semanticVersion": tool.version,
        "informationUri": "https://github.com/envcheck/envcheck",
        "rules": [
            {
                "id": finding.rule,
                "name": "".join(part.capitalize() for part in finding.slug.split("-")),
                "shortDescription": {"text": finding.slug.replace("-", " ")},
                "helpUri": finding.url,
                "properties": {"tags": ["gpu", "environment", finding.cause]},
            }
            for finding in findings
        ],
    }


def _invocation(cells: tuple[Cell, ...]) -> dict[str, Any]:
    """What could not be judged is told as notifications: no result for it isn't a pass."""
    told = [
        {
            "level": "error" if cell.report is None else "warning",
            "message": {"text": f"{flat(cell.name)} could not be judged: {'; '.join(reasons(cell)[:3])}"},
        }
        for cell in cells
        if cell.state == "unknown"
    ]
    return {"executionSuccessful": not any(cell.report is None for cell in cells), "toolExecutionNotifications": told}


def _result(item: Item, order: dict[str, int]) -> dict[str, Any]:
    finding = item.finding
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(clean(item.path) or NO_FILE), "uriBaseId": "SRCROOT"},
            "region": {"startLine": max(item.line, 1)},
        }
    }
    if item.anchored:
        location["logicalLocations"] = [
            {"fullyQualifiedName": flat(place), "kind": "resource"} for place in item.places or ("this host",)
        ]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": order[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": body(item)},
        "locations": [location],
        "partialFingerprints": {"envcheck/v1": item.fingerprint},
    }
    if item.suppressed:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": flat(item.suppressed.reason)}
        ]
        if item.suppressed.kind == "baseline":
            result["baselineState"] = "unchanged"
    return result
