"""The words that several formats share: a finding as plain lines, cleaned, and the verdict in one sentence."""

from __future__ import annotations

import unicodedata

from envcheck.model.finding import Finding
from envcheck.model.gate import Cell, Gate, Item, Judged, cells_of, summarise

OURS = "SET"  # the family that judges by the settings
MARKS = {"error": "✗", "warning": "!", "note": "·", "ok": "✓", "unknown": "?"}


def clean(text: str, keep: str = "\n\t") -> str:
    """`text` without control and format characters (terminal escapes in a device name, what XML refuses)."""
    return "".join(
        c if c in keep or (unicodedata.category(c) not in ("Cc", "Cf", "Cs") and c not in "\ufffe\uffff") else "�"
        for c in text
    )


def flat(text: str) -> str:
    """`clean` text on one line."""
    return " ".join(clean(text, "\n\t\r").split())


def count(number: int, noun: str) -> str:
    """'1 error', '2 errors'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lines_of(finding: Finding, places: tuple[str, ...] = ()) -> list[str]:
    """Found, needed, fix and where it holds, each a line with its label."""
    lines = []
    for item in finding.evidence:
        value = item.value if item.role else f"{item.fact} {item.value}"
        lines.append(f"{item.role or 'found'}: {flat(value)}" + (f" ({flat(item.source)})" if item.source else ""))
    lines += [f"{'or' if number else 'fix'}: {flat(fix)}" for number, fix in enumerate(finding.fix)]
    lines += [f"send: {flat(ask)}" for ask in finding.ask]
    if places:
        lines.append(f"on: {', '.join(flat(place) for place in places)}")
    return lines


def body(item: Item) -> str:
    """The message and the lines under it."""
    return "\n".join([flat(item.finding.message), *lines_of(item.finding, item.places)])


def verdict(judged: Judged) -> tuple[str, str]:
    """(state, sentence): what a person must know if nothing else is read."""
    total = summarise(cells_of(judged))
    parts = [count(n, noun) for n, noun in ((total.error, "error"), (total.warning, "warning")) if n]
    if isinstance(judged, Gate):
        bad = sum(cell.state in ("error", "warning") for cell in judged.cells)
        where = f" in {bad} of {count(total.cells, 'check')}" if bad else ""
    else:
        where = ""
    unknown = f"; {count(total.unknown, 'check')} could not be judged" if total.unknown and parts else ""
    if total.error:
        return "error", f"This will not run: {', '.join(parts)}{where}{unknown}"
    if total.warning:
        return "warning", f"This needs attention: {', '.join(parts)}{where}{unknown}"
    if total.unknown:
        many = f" ({total.unknown} of {count(total.cells, 'check')})" if isinstance(judged, Gate) else ""
        return "unknown", f"Inconclusive: too little could be read to call it right{many}"
    many = f" in {count(total.cells, 'check')}" if isinstance(judged, Gate) else ""
    return "ok", f"Nothing wrong{many}"


def reasons(cell: Cell) -> list[str]:
    """Why a cell could not be judged: our own faults first, then the settings' rules, what decides, the rest."""
    if cell.report is None:
        return [flat(cell.failure)]
    machine = cell.report.snapshot.machine
    deciding = {machine.gpus.unknown, machine.driver.unknown}

    def weight(rule: str, reason: str) -> int:
        if reason.startswith("fault in envcheck"):
            return 0
        return 1 if rule.startswith(OURS) else 2 if reason in deciding else 3

    skips = sorted(cell.report.skipped, key=lambda skip: weight(skip.rule, skip.reason))
    return list(dict.fromkeys(flat(skip.reason) for skip in skips)) or ["too little could be read"]
