"""Runs the rules over a snapshot: stamps, orders and prunes the findings, and records what could not be judged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import SEVERITIES, Finding, Problem, Skip
from envcheck.rules.place import find_place

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.rules.rule import Rule

DOCS = "https://github.com/envcheck/envcheck/blob/main/docs/rules.md"


class Outcome(msgspec.Struct, frozen=True):
    """What judging gave: findings (root cause first), skips, and how many rules were asked.

    `crashed` names the rules that failed by a fault of their own: a tool fault, never the machine's.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[Skip, ...]
    rules: int
    crashed: tuple[str, ...] = ()


def judge(snap: Snapshot, matrix: Matrix, rules: Iterable[Rule]) -> Outcome:
    """Judge `snap` by `rules`. A rule that meets an unknown fact is skipped with the reason; it never passes."""
    rules = tuple(rules)
    found: list[tuple[Rule, Finding]] = []
    skipped: list[Skip] = []
    crashed: list[str] = []
    for rule in rules:
        try:
            # One at a time: what was found before an unknown fact was met stays found.
            for problem in rule.judge(snap, matrix):
                found.append((rule, _finding(rule, problem, snap)))  # noqa: PERF401
        except UnknownFact as reason:  # noqa: PERF203 (each rule fails alone)
            skipped.append(Skip(rule.id, str(reason)))
        except Exception as fault:  # one rule's crash must not hide what the others found
            crashed.append(rule.id)
            skipped.append(Skip(rule.id, f"fault in envcheck itself: {type(fault).__name__}: {fault}"))
    if snap.events:
        found += _told(snap, matrix, rules, found)
    fired = {rule.id for rule, _ in found}
    explained = {other for rule, _ in found for other in rule.explains if rule.id in fired}
    kept = [(rule, finding) for rule, finding in found if rule.id not in explained]
    kept.sort(key=lambda pair: (SEVERITIES.index(pair[1].severity), pair[0].rank, pair[0].id, pair[1].subject))
    return Outcome(tuple(_distinct(finding for _, finding in kept)), tuple(skipped), len(rules), tuple(crashed))


def _told(
    snap: Snapshot, matrix: Matrix, rules: tuple[Rule, ...], found: list[tuple[Rule, Finding]]
) -> list[tuple[Rule, Finding]]:
    """What the log proves by itself, where the facts didn't say it as loudly.

    The first rule of a cause speaks for it, and one that is more than a note before one that is a note.
    """
    from envcheck.rules.symptom import told

    speakers: dict[str, Rule] = {}
    for rule in rules:
        for cause in (rule.cause, *rule.also):
            other = speakers.get(cause)
            if other is None or (other.severity == "note" and rule.severity != "note"):
                speakers[cause] = rule
    loudest: dict[str, int] = {}
    for _, finding in found:
        loudest[finding.cause] = min(loudest.get(finding.cause, 9), SEVERITIES.index(finding.severity))
    loud = frozenset(cause for cause, severity in loudest.items() if severity < SEVERITIES.index("note"))
    heard: list[tuple[Rule, Finding]] = []
    for cause, rule in speakers.items():
        # A mere note from facts doesn't silence a log that proves the fault.
        if loudest.get(cause, 9) <= max(SEVERITIES.index(rule.severity), SEVERITIES.index("warning")):
            continue
        named = (
            msgspec.structs.replace(problem, cause=problem.cause or cause)
            for problem in told(snap, matrix, cause, loud)
        )
        heard += [(rule, _finding(rule, problem, snap)) for problem in named]
    return heard


def _finding(rule: Rule, problem: Problem, snap: Snapshot) -> Finding:
    path, line = find_place(problem, snap)
    return Finding(
        rule=rule.id,
        slug=rule.slug,
        cause=problem.cause or rule.cause,
        severity=problem.severity or rule.severity,
        subject=problem.subject,
        message=problem.message,
        evidence=problem.evidence,
        fix=problem.fix,
        url=f"{DOCS}#{rule.id.lower()}",
        ask=problem.ask,
        path=path,
        line=line,
    )


def _distinct(findings: Iterable[Finding]) -> Iterable[Finding]:
    seen: set[tuple[str, str, str, str, Optional[int]]] = set()
    for finding in findings:
        key = (finding.rule, finding.subject, finding.message, finding.path, finding.line)
        if key not in seen:
            seen.add(key)
            yield finding
