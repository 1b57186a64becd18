"""The text report of a gate: the verdict, one table (rows what, columns where), each finding once."""

from __future__ import annotations

from envcheck.model.gate import HOST, Cell, Gate, Item, items_of
from envcheck.report import RenderOptions
from envcheck.report.text import finding_lines
from envcheck.report.words import MARKS, OURS, clean, count, flat, reasons, verdict

SHOWN_ROWS = 40


def render(gate: Gate, options: RenderOptions) -> str:
    """The report as text, coloured by `options.paint`."""
    paint = options.paint
    state, sentence = verdict(gate)
    tail = [] if options.seconds is None else [f"{options.seconds:.2f} s"]
    tail.append(f"{gate.settings}" if gate.settings else "no settings")
    lines = [paint(f"{MARKS[state]} {sentence}", "ok" if state == "ok" else state)]
    lines[0] += paint(f"   ({', '.join(tail)})", "dim")
    lines += ["", *_table(gate, options), ""]
    items = items_of(gate)
    counted = [item for item in items if not item.suppressed]
    loud = [item for item in counted if options.verbose or item.finding.severity != "note"]
    for item in loud:
        lines += [*_item(item, options), ""]
    for cell in gate.cells:
        if cell.state == "unknown":
            lines += [*_unknown(cell, options), ""]
    lines += _not_judged(gate, options)
    hidden = len(counted) - len(loud)
    rest = []
    if hidden:
        rest.append(f"{count(hidden, 'note')} (-v)")
    suppressed = [item for item in items if item.suppressed]
    if suppressed and options.verbose:
        for item in suppressed:
            assert item.suppressed is not None
            told = f"  {item.finding.rule} {flat(item.finding.message)}: {flat(item.suppressed.reason)}"
            lines.append(paint(told, "dim"))
    elif suppressed:
        rest.append(f"{count(len(suppressed), 'finding')} suppressed (-v)")
    if loud:
        rest.append(f"envcheck explain {loud[0].finding.rule}")
    if rest:
        lines.append(paint(" · ".join(rest), "dim"))
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def _word(cell: Cell) -> str:
    if cell.report is None:
        return "? not inspected"
    total = cell.report.summary
    told = [count(n, noun) for n, noun in ((total.error, "error"), (total.warning, "warning")) if n]
    if told:
        return f"{MARKS['error' if total.error else 'warning']} {', '.join(told)}"
    if cell.state == "unknown":
        return "? inconclusive"
    return "✓" + (f" {count(total.note, 'note')}" if total.note else "")


def _table(gate: Gate, options: RenderOptions) -> list[str]:
    columns = list(dict.fromkeys(cell.where for cell in gate.cells))
    rows = list(dict.fromkeys(cell.what for cell in gate.cells))
    cells = {(cell.what, cell.where): cell for cell in gate.cells}
    shown = rows
    if len(rows) > SHOWN_ROWS and not options.verbose:
        quiet = ("ok", "note")
        shown = [row for row in rows if any((row, c) in cells and cells[row, c].state not in quiet for c in columns)]
    first = max([len("what"), *(len(flat(row)) for row in shown)]) + 2
    widths = [
        max([len(flat(column)), *(len(_word(cells[row, column])) for row in shown if (row, column) in cells)]) + 3
        for column in columns
    ]
    lines = []
    if any(columns):
        head = "".join(flat(column).ljust(width) for column, width in zip(columns, widths))
        lines.append(f"  {'':<{first}}{head}".rstrip())
    for row in shown:
        line = f"  {flat(row):<{first}}"
        for column, width in zip(columns, widths):
            cell = cells.get((row, column))
            word = _word(cell) if cell else ""
            style = {"error": "error", "warning": "warning", "unknown": "unknown"}.get(cell.state if cell else "", "ok")
            line += options.paint(word, style) + " " * (width - len(word)) if word else " " * width
        lines.append(line.rstrip())
    if len(shown) < len(rows):
        lines.append(f"  {count(len(rows) - len(shown), 'row')} with nothing wrong not shown (-v)")
    return lines


def _item(item: Item, options: RenderOptions) -> list[str]:
    lines = finding_lines(item.finding, options)
    if item.places:
        lines.append(" " * 10 + f"{'on':<8} " + clean(", ".join(item.places)))
    return lines


def _unknown(cell: Cell, options: RenderOptions) -> list[str]:
    what = "could not be inspected" if cell.report is None else "is inconclusive"
    told = "; ".join(reasons(cell)[: 1000 if options.verbose else 3])
    lines = [options.paint(f"? {flat(cell.name)} {what}: {told}", "unknown")]
    driver = cell.report.snapshot.machine.driver if cell.report else None
    if driver is not None and not driver.known and cell.where and cell.where != HOST:
        lines.append("  name the driver that you count on in the settings: require.driver, or a snapshot as target")
    return lines


def _not_judged(gate: Gate, options: RenderOptions) -> list[str]:
    """Requirements that a described machine can't answer: said, so that nobody takes them for passed."""
    told: dict[str, list[str]] = {}
    for cell in gate.cells:
        if cell.report is not None and cell.state != "unknown":
            for skip in cell.report.skipped:
                if skip.rule.startswith(OURS):
                    told.setdefault(f"{skip.rule} ({flat(skip.reason)})", []).append(flat(cell.name))
    shown = 1000 if options.verbose else 3
    return [
        options.paint(f"Not judged: {what}, for {', '.join(names[:shown])}{_more(len(names) - shown)}", "dim")
        for what, names in told.items()
    ]


def _more(number: int) -> str:
    return f" and {number} more (-v)" if number > 0 else ""
