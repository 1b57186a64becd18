"""The gate's result: one report for each thing judged on each target, and what file formats read out of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Optional, Union

import msgspec

from envcheck.model.finding import Finding, Report, Severity, Suppressed, Tool

HOST = "this host"
MACHINE = "the machine"
LIVE = ("host", "container")
CellState = Literal["error", "warning", "note", "ok", "unknown", "suppressed"]


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing (`what`: a file, an image, the machine itself) judged on one target (`where`; '' for none).

    Exactly one of `report` and `failure` (why it could not be inspected) is there.
    """

    what: str
    where: str = ""
    report: Optional[Report] = None
    failure: str = ""

    @property
    def state(self) -> CellState:
        """The worst of the cell in one word."""
        if self.report is None:
            return "unknown"
        total = self.report.summary
        for severity in ("error", "warning"):
            if getattr(total, severity):
                return severity
        if total.verdict == "inconclusive":
            return "unknown"
        return "note" if total.note else "ok"

    @property
    def name(self) -> str:
        """'Dockerfile on aws:p4d.24xlarge'."""
        return f"{self.what} on {self.where}" if self.where else self.what


class GateSummary(msgspec.Struct, frozen=True):
    """Counts over all cells and the verdict; a finding that several cells share counts once for each."""

    verdict: Literal["ok", "findings", "inconclusive"]
    error: int
    warning: int
    note: int
    suppressed: int
    cells: int
    unknown: int  # cells that could not be judged


class Gate(msgspec.Struct, frozen=True):
    """What `envcheck check --format json` prints; rows in the settings' order, then columns in theirs."""

    schema: int
    tool: Tool
    settings: str
    fail_on: str
    cells: tuple[Cell, ...]
    summary: GateSummary


Judged = Union[Report, Gate]


class Item(msgspec.Struct, frozen=True):
    """A finding as a file format shows it: once, with every place where it holds.

    `path` and `line` are of the finding, or of the file judged, or of the settings; `anchored` says that it is the
    last, because the finding is about a machine.
    """

    finding: Finding
    places: tuple[str, ...]
    path: str
    line: int
    anchored: bool
    fingerprint: str
    suppressed: Optional[Suppressed] = None


def cells_of(judged: Judged) -> tuple[Cell, ...]:
    """The cells of a gate, or a report as its only cell."""
    if isinstance(judged, Gate):
        return judged.cells
    origin = judged.snapshot.origin
    what = HOST if origin.kind in LIVE else origin.name or origin.kind
    return (Cell(what, "", judged),)


def summarise(cells: Iterable[Cell]) -> GateSummary:
    """Counts and the worst verdict."""
    cells = tuple(cells)
    reports = [cell.report for cell in cells if cell.report is not None]
    error, warning, note = (
        sum(getattr(report.summary, severity) for report in reports) for severity in ("error", "warning", "note")
    )
    unknown = sum(cell.state == "unknown" for cell in cells)
    return GateSummary(
        verdict="findings" if error or warning else "inconclusive" if unknown else "ok",
        error=error,
        warning=warning,
        note=note,
        suppressed=sum(len(report.suppressed) for report in reports),
        cells=len(cells),
        unknown=unknown,
    )


def fingerprint(finding: Finding, what: str, where: str = "") -> str:
    """The same for the same problem in the same place, whatever line it has moved to; 64 hex digits.

    The message is part of it: a baseline must never hide a second fault of the same kind.
    """
    import hashlib  # loads OpenSSL, which most runs do without

    parts = (finding.rule, finding.path or what, where, finding.subject, finding.message)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def items_of(judged: Judged, settings_path: str = "", settings_line: int = 1) -> tuple[Item, ...]:
    """Every finding once, worst first as reported; those that are suppressed last."""
    merged: dict[tuple[object, ...], Item] = {}
    for cell in cells_of(judged):
        if cell.report is None:
            continue
        pairs: list[tuple[Finding, Optional[Suppressed]]] = [(finding, None) for finding in cell.report.findings]
        pairs += [(entry.finding, entry) for entry in cell.report.suppressed]
        for finding, suppressed in pairs:
            path, line, anchored = _anchor(finding, cell, settings_path, settings_line)
            kind = suppressed.kind if suppressed else ""
            key = (finding.rule, finding.severity, finding.subject, finding.message, path, line, kind)
            place = cell.where if path and not anchored else cell.name
            old = merged.get(key)
            places = dict.fromkeys((*(old.places if old else ()), *((place,) if place else ())))
            mark = old.fingerprint if old else fingerprint(finding, cell.what)
            merged[key] = Item(finding, tuple(places), path, line, anchored, mark, suppressed)
    order: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(merged.values(), key=lambda item: (item.suppressed is not None, order[item.finding.severity])))


def _anchor(finding: Finding, cell: Cell, settings_path: str, settings_line: int) -> tuple[str, int, bool]:
    if finding.path:
        return finding.path, finding.line or 1, False
    snap = cell.report.snapshot if cell.report else None
    if snap is not None and snap.recipe is not None and snap.recipe.files:
        return snap.recipe.files[0], 1, False
    if snap is not None and snap.origin.kind == "report" and snap.origin.name:
        return snap.origin.name, 1, False
    return settings_path, settings_line, True
