"""The HTML report: one page that asks for nothing else, for phone and desktop, light and dark."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from envcheck.model.gate import Cell, Gate, Item, Judged, cells_of, items_of
from envcheck.report import RenderOptions
from envcheck.report.text import machine_line, stack_line
from envcheck.report.words import MARKS, clean, count, flat, reasons, verdict
from envcheck.resources import find_folder

TEMPLATE = "report.html.j2"
_LINK = re.compile(r"https://[\w./#%~-]+", re.ASCII)  # a report that was read from a file may hold any text here


def render(judged: Judged, options: RenderOptions) -> str:
    """The page; every value goes through Jinja's escaping."""
    # Autoescape always: the template's own suffix is .j2, which select_autoescape would not know.
    environment = Environment(
        loader=FileSystemLoader(find_folder("templates")), autoescape=True, undefined=StrictUndefined
    )
    state, sentence = verdict(judged)
    cells = cells_of(judged)
    items = items_of(judged, options.settings_path, options.settings_line)
    columns = list(dict.fromkeys(cell.where for cell in cells))
    page = environment.get_template(TEMPLATE).render(
        state=state,
        sentence=sentence,
        told=_told(judged, options),
        marks=MARKS,
        columns=[flat(column) for column in columns],
        rows=_rows(cells, columns) if isinstance(judged, Gate) else [],
        counted=[_entry(item) for item in items if not item.suppressed],
        suppressed=[_entry(item) for item in items if item.suppressed],
        failures=[(flat(cell.name), "; ".join(reasons(cell)[:3])) for cell in cells if cell.state == "unknown"],
        skipped=_skipped(cells),
        tool=f"{judged.tool.name} {judged.tool.version}",
    )
    return page.rstrip() + "\n"


def _told(judged: Judged, options: RenderOptions) -> list[str]:
    if isinstance(judged, Gate):
        return (
            [f"{count(judged.summary.cells, 'check')} · settings: {flat(judged.settings)}"] if judged.settings else []
        )
    machine, stack = machine_line(judged.snapshot.machine), stack_line(judged, options)
    told = [("Machine: ", machine), ("Stack: ", stack)]
    return [flat(label + line) for label, line in told if line] + [flat(remark) for remark in judged.snapshot.remarks]


def _rows(cells: tuple[Cell, ...], columns: list[str]) -> list[tuple[str, list[Any]]]:
    by_place = {(cell.what, cell.where): cell for cell in cells}
    rows = []
    for what in dict.fromkeys(cell.what for cell in cells):
        row = [by_place.get((what, column)) for column in columns]
        rows.append((flat(what), [cell and {"state": cell.state, "word": _word(cell)} for cell in row]))
    return rows


def _word(cell: Cell) -> str:
    if cell.report is None:
        return "not inspected"
    total = cell.report.summary
    told = [
        count(n, noun) for n, noun in ((total.error, "error"), (total.warning, "warning"), (total.note, "note")) if n
    ]
    return ", ".join(told) or ("inconclusive" if cell.state == "unknown" else "ok")


def _entry(item: Item) -> dict[str, Any]:
    finding = item.finding
    return {
        "severity": finding.severity,
        "rule": flat(finding.rule),
        "url": finding.url if _LINK.fullmatch(finding.url) else "",
        "message": flat(finding.message),
        "place": f"{clean(item.path)}:{item.line}" if item.path and not item.anchored else "",
        "evidence": [
            (e.role or "found", flat(e.value if e.role else f"{e.fact} {e.value}"), flat(e.source))
            for e in finding.evidence
        ],
        "fix": [flat(fix) for fix in finding.fix],
        "ask": [flat(ask) for ask in finding.ask],
        "places": ", ".join(flat(place) for place in item.places) if item.places != ("this host",) else "",
        "reason": flat(item.suppressed.reason) if item.suppressed else "",
    }


def _skipped(cells: tuple[Cell, ...]) -> list[tuple[str, str]]:
    reasons: dict[str, dict[str, None]] = {}
    for cell in cells:
        for skip in cell.report.skipped if cell.report else ():
            reasons.setdefault(flat(skip.reason), {})[skip.rule] = None
    return [(reason, ", ".join(ids)) for reason, ids in sorted(reasons.items())]
