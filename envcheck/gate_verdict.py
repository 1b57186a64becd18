"""What a report of the gate counts: the settings' severities and ignores, the baseline, and when 'ok' may be said."""

from __future__ import annotations

import datetime as dt
import fnmatch

import msgspec

from envcheck.model.finding import SEVERITIES, Finding, Report, Severity, Suppressed
from envcheck.model.gate import LIVE, fingerprint
from envcheck.model.stack import Stack
from envcheck.settings_tables import Ignore, Settings

OURS = "SET"  # the family that judges by the settings
NO_STACK = Stack()


def settle(
    report: Report, what: str, where: str, settings: Settings, today: dt.date, known: frozenset[str] = frozenset()
) -> Report:
    """The report with the settings' severities, and without what they ignore or the baseline has."""
    counted: list[Finding] = []
    suppressed: list[Suppressed] = []
    active = [entry for entry in settings.ignore if entry.until >= today]
    for found in report.findings:
        finding = _reweighed(found, settings.severity)
        ignored = next((entry for entry in active if _covers(entry, finding, what)), None)
        if ignored:
            reason = f"{ignored.reason} (until {ignored.until.isoformat()})"
            suppressed.append(Suppressed(finding, "ignored", reason))
        elif fingerprint(finding, what, where) in known:
            suppressed.append(Suppressed(finding, "baseline", "in the baseline"))
        else:
            counted.append(finding)
    counted.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    error, warning, note = (sum(f.severity == s for f in counted) for s in SEVERITIES)
    verdict = "findings" if error or warning else "inconclusive" if undecided(report, where) else "ok"
    summary = msgspec.structs.replace(report.summary, verdict=verdict, error=error, warning=warning, note=note)
    return msgspec.structs.replace(report, findings=tuple(counted), suppressed=tuple(suppressed), summary=summary)


def undecided(report: Report, where: str) -> bool:
    """May 'nothing wrong' not be said?

    A fault of a rule always forbids it, and on a real machine or image a requirement that could not be judged. What a
    described machine (a cloud type) or a file can't tell (/dev/shm; the Python of a requirement file) is listed as not
    judged. A machine alone must tell its GPUs; a file on a machine needs the driver too (the pipeline says so), a file
    judged by itself has no machine to wait for.
    """
    snap = report.snapshot
    if any(skip.reason.startswith("fault in envcheck") for skip in report.skipped):
        return True
    described = snap.origin.kind == "machine"
    if not described and snap.recipe is None and any(skip.rule.startswith(OURS) for skip in report.skipped):
        return True
    if described or (where and snap.stack == NO_STACK and snap.origin.kind not in LIVE):
        return not snap.machine.gpus.known
    if where and snap.stack == NO_STACK:
        return not (snap.machine.gpus.known and snap.machine.driver.known and snap.machine.driver_fault.known)
    if not where:
        return not (snap.stack.packages.known or snap.stack.cuda.known or snap.stack.image.known or snap.recipe)
    return report.summary.verdict == "inconclusive"


def _covers(entry: Ignore, finding: Finding, what: str) -> bool:
    names = (finding.rule, finding.rule[:3], finding.slug, finding.cause)
    if entry.rule not in names and entry.rule.upper() not in names:
        return False
    place = finding.path or what
    return not entry.paths or any(fnmatch.fnmatch(place, pattern) for pattern in entry.paths)


def _reweighed(finding: Finding, severities: dict[str, Severity]) -> Finding:
    wanted = severities.get(finding.rule) or severities.get(finding.slug)
    return msgspec.structs.replace(finding, severity=wanted) if wanted else finding
