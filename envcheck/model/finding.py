"""A finding: what a rule says of a snapshot, and the report that collects them."""

from __future__ import annotations

from typing import Literal, Optional

import msgspec

from envcheck.model.snapshot import Snapshot

Severity = Literal["error", "warning", "note"]
Verdict = Literal["ok", "findings", "inconclusive"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fact on which a finding stands: its name, the value, and where it was read."""

    fact: str
    value: str
    source: str = ""
    role: Optional[Literal["found", "needed"]] = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a rule yields; the engine stamps the rest. `severity` and `cause` override the rule's own."""

    message: str
    fix: tuple[str, ...] = ()
    subject: str = ""
    evidence: tuple[Evidence, ...] = ()
    severity: Optional[Severity] = None
    cause: Optional[str] = None
    ask: tuple[str, ...] = ()  # facts that would settle it, as a person would send them
    path: str = ""  # file findings: where
    line: Optional[int] = None


class Finding(msgspec.Struct, frozen=True):
    """A problem with its rule's identity; the JSON report's unit."""

    rule: str
    slug: str
    cause: str
    severity: Severity
    subject: str
    message: str
    evidence: tuple[Evidence, ...]
    fix: tuple[str, ...]
    url: str
    ask: tuple[str, ...] = ()
    path: str = ""
    line: Optional[int] = None


class Suppressed(msgspec.Struct, frozen=True):
    """A finding that doesn't count: the settings ignore it until a date, or the baseline has it already."""

    finding: Finding
    kind: Literal["ignored", "baseline"]
    reason: str


class Skip(msgspec.Struct, frozen=True):
    """A rule that could not judge, with the reason."""

    rule: str
    reason: str


class Summary(msgspec.Struct, frozen=True):
    """Counts and the verdict: findings (of any severity above note), ok, or inconclusive."""

    verdict: Verdict
    error: int
    warning: int
    note: int
    skipped: int
    rules: int = 0


class Tool(msgspec.Struct, frozen=True):
    """The program that wrote the report."""

    name: str
    version: str


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `envcheck doctor --format json` prints; findings root cause first."""

    schema: int
    tool: Tool
    snapshot: Snapshot
    findings: tuple[Finding, ...]
    skipped: tuple[Skip, ...]
    summary: Summary
    suppressed: tuple[Suppressed, ...] = ()  # by `check`: ignored by the settings, or in the baseline
