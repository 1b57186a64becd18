"""JUnit XML: a suite for each target, a case for each thing judged on it."""

from __future__ import annotations

from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from envcheck.model.finding import SEVERITIES, Severity
from envcheck.model.gate import Cell, Gate, Judged, cells_of
from envcheck.report import RenderOptions
from envcheck.report.words import clean, flat, lines_of, reasons


def render(judged: Judged, options: RenderOptions) -> str:
    """The XML. What reaches `fail_on` fails its case; what could not be judged is an error, never a pass."""
    fail_on = judged.fail_on if isinstance(judged, Gate) else "error"
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on in SEVERITIES else ()
    suites: dict[str, TestSuite] = {}
    for cell in cells_of(judged):
        where = flat(cell.where) or "files"
        suite = suites.setdefault(where, TestSuite(f"envcheck {where}"))
        suite.add_testcase(_case(cell, where, failing))
    xml = JUnitXml("envcheck")
    for suite in suites.values():
        xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    text = xml.tostring()  # type: ignore[no-untyped-call]
    body = text.decode() if isinstance(text, bytes) else str(text)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body.rstrip()}\n'


def _case(cell: Cell, where: str, failing: tuple[Severity, ...]) -> TestCase:
    case = TestCase(flat(cell.what), classname=f"envcheck.{where}")
    results: list[Any] = []
    notes = []
    if cell.report is None:
        results.append(_result(Error, flat(cell.failure), "could-not-inspect", ""))
    else:
        for finding in cell.report.findings:
            place = f"{clean(finding.path)}:{finding.line or 1}: " if finding.path else ""
            text = "\n".join([f"{place}{flat(finding.message)}", *lines_of(finding)])
            if finding.severity in failing:
                kind = f"{finding.rule} {finding.slug}"
                results.append(_result(Failure, flat(finding.message), kind, text))
            else:
                notes.append(f"{finding.severity} {finding.rule} {text}")
        notes += [
            f"{s.kind} {s.finding.rule} {flat(s.finding.message)}: {flat(s.reason)}" for s in cell.report.suppressed
        ]
        if not results and cell.report.summary.verdict == "inconclusive":
            results.append(_result(Error, reasons(cell)[0], "inconclusive", "; ".join(reasons(cell))))
    if results:
        case.result = results
    if notes:
        case.system_out = "\n".join(notes)
    return case


def _result(kind: Any, message: str, type_: str, text: str) -> Any:
    result = kind(message, type_)
    if text:
        result.text = text
    return result
