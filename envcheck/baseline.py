"""The baseline: findings that were there when it was written, so that only new ones fail."""

from __future__ import annotations

from pathlib import Path

import msgspec

from envcheck.errors import UsageError
from envcheck.model.finding import Finding
from envcheck.model.gate import Cell, Gate, cells_of, fingerprint

MAX_BYTES = 64 * 2**20


class Entry(msgspec.Struct, frozen=True):
    """One known finding; the fingerprint decides, the rest is for whoever reads the file."""

    fingerprint: str
    rule: str
    what: str
    where: str
    message: str


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    schema: int
    findings: tuple[Entry, ...]

    @property
    def fingerprints(self) -> frozenset[str]:
        """What is known."""
        return frozenset(entry.fingerprint for entry in self.findings)


def load_baseline(path: Path) -> Baseline:
    """Raises UsageError for a file that is missing, or is none."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        found = msgspec.json.decode(data[:MAX_BYTES], type=Baseline)
    except OSError as failure:
        raise UsageError(
            f"can't read the baseline {path}: {failure.strerror}", "Write it first: --update-baseline."
        ) from failure
    except (msgspec.DecodeError, RecursionError) as fault:
        raise UsageError(f"{path} is no baseline: {fault}", "Write it anew: --update-baseline.") from None
    if found.schema != 1:
        raise UsageError(f"{path} is of schema {found.schema}, and I know 1", "Use a newer envcheck.")
    return found


def baseline_of(gate: Gate) -> Baseline:
    """Every finding that counts now or was in the baseline already; ignored ones stay with their dates."""
    entries = [_entry(cell, finding) for cell in cells_of(gate) for finding in _known(cell)]
    return Baseline(1, tuple(sorted(set(entries), key=lambda e: (e.what, e.where, e.rule, e.fingerprint))))


def render_baseline(baseline: Baseline) -> str:
    """The file's text."""
    return msgspec.json.format(msgspec.json.encode(baseline), indent=2).decode() + "\n"


def _known(cell: Cell) -> list[Finding]:
    if cell.report is None:
        return []
    kept = [entry.finding for entry in cell.report.suppressed if entry.kind == "baseline"]
    return [*cell.report.findings, *kept]


def _entry(cell: Cell, finding: Finding) -> Entry:
    mark = fingerprint(finding, cell.what, cell.where)
    return Entry(mark, finding.rule, cell.what, cell.where, finding.message)
