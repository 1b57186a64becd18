"""Markdown for step summaries and comments: the verdict, the table, the findings; outside text can't become markup."""

from __future__ import annotations

import html
import re

from envcheck.model.gate import Gate, Item, Judged, cells_of, items_of
from envcheck.report import RenderOptions
from envcheck.report.words import count, flat, reasons, verdict

LIMIT = 900_000  # GitHub refuses a step summary beyond 1 MiB
ICONS = {"error": "❌", "warning": "⚠️", "note": "ℹ️", "ok": "✅", "unknown": "❔"}
MAX_ROWS = 200


def escape(text: str) -> str:
    """Outside text as one line of plain Markdown."""
    return re.sub(r"([\\`*_{}\[\]()#+!|~@:-])", r"\\\1", html.escape(flat(text), quote=False))


def code(text: str) -> str:
    """Outside text as a code span, whatever back-ticks are in it."""
    inner = flat(text)
    longest = max((len(run) for run in re.findall(r"`+", inner)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if inner[:1] in ("`", "") or inner[-1:] == "`" else ""
    return f"{fence}{pad}{inner}{pad}{fence}"


def render(judged: Judged, options: RenderOptions) -> str:
    """The summary, cut with a word about it where it would be too long."""
    state, sentence = verdict(judged)
    blocks = [f"### {ICONS[state]} envcheck: {sentence}"]
    if isinstance(judged, Gate):
        blocks.append(_table(judged))
    items = items_of(judged, options.settings_path, options.settings_line)
    blocks += [_finding(item) for item in items if not item.suppressed]
    for cell in cells_of(judged):
        if cell.state == "unknown":
            blocks.append(f"{ICONS['unknown']} {escape(cell.name)} could not be judged: {escape(reasons(cell)[0])}")
    suppressed = [item for item in items if item.suppressed]
    if suppressed:
        rows = [
            f"- {item.finding.rule} {escape(item.finding.message)}: {escape(item.suppressed.reason)}"
            for item in suppressed
            if item.suppressed
        ]
        blocks.append(
            f"<details><summary>{count(len(suppressed), 'finding')} suppressed</summary>\n\n" + "\n".join(rows)
        )
        blocks[-1] += "\n\n</details>"
    text, left = "", len(blocks)
    for block in blocks:
        if len((text + block).encode()) > LIMIT:
            text += f"\n{count(left, 'more part')} left out: see the JSON or HTML report.\n"
            break
        text += ("\n" if text else "") + block + "\n"
        left -= 1
    return text


def _table(gate: Gate) -> str:
    columns = list(dict.fromkeys(cell.where for cell in gate.cells))
    rows = list(dict.fromkeys(cell.what for cell in gate.cells))
    states = {(cell.what, cell.where): cell.state for cell in gate.cells}
    loud = [row for row in rows if any(states.get((row, c)) not in ("ok", "note", None) for c in columns)]
    shown = rows if len(rows) <= MAX_ROWS else loud[:MAX_ROWS]
    lines = [
        "| what | " + " | ".join(escape(column) or "by itself" for column in columns) + " |",
        "| --- |" + " :-: |" * len(columns),
    ]
    for row in shown:
        cells = [ICONS.get(states.get((row, column), ""), " ") for column in columns]
        lines.append(f"| {code(row)} | " + " | ".join(cells) + " |")
    hidden = len(rows) - len(shown)
    return "\n".join(lines) + (f"\n\n{count(hidden, 'more row')}" if hidden else "")


def _finding(item: Item) -> str:
    finding = item.finding
    place = f"{code(f'{item.path}:{item.line}')} " if item.path and not item.anchored else ""
    lines = [
        f"{ICONS[finding.severity]} {place}**[{finding.rule}]({finding.url})** {escape(finding.message)}",
    ]
    for entry in finding.evidence:
        value = entry.value if entry.role else f"{entry.fact} {entry.value}"
        source = f" — {escape(entry.source)}" if entry.source else ""
        lines.append(f"- {entry.role or 'found'}: {code(value)}{source}")
    lines += [f"- {'or' if n else 'fix'}: {code(fix)}" for n, fix in enumerate(finding.fix)]
    lines += [f"- send: {code(ask)}" for ask in finding.ask]
    if item.places:
        lines.append("- on: " + ", ".join(escape(place) for place in item.places))
    return lines[0] + ("\n\n" + "\n".join(lines[1:]) if lines[1:] else "")
