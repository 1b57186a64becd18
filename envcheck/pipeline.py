"""The verbs as functions: judge a snapshot and make its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from envcheck import __version__
from envcheck.model.fact import Fact
from envcheck.model.finding import Finding, Report, Severity, Summary, Tool, Verdict
from envcheck.model.machine import Gpu
from envcheck.model.snapshot import Snapshot, Wants

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.rules.engine import Outcome
    from envcheck.rules.rule import Rule

LIVE = ("host", "container")
FILES = ("dockerfile", "compose", "pod", "devcontainer", "requirements", "lock", "conda")


def judge(
    snap: Snapshot, matrix: Matrix, *, select: Iterable[str] = (), ignore: Iterable[str] = (), wants_gpu: bool = False
) -> Report:
    """Judge `snap` by all rules, or those of `select` less `ignore` (ids, prefixes or slugs); raises UnknownName."""
    from envcheck.rules import select_rules
    from envcheck.rules.engine import judge as run_rules

    if wants_gpu:
        snap = msgspec.structs.replace(snap, wants=_want_gpu(snap.wants))
    snap = name_gpus(snap, matrix)
    rules: tuple[Rule, ...] = select_rules(tuple(select), tuple(ignore))
    outcome = run_rules(snap, matrix, rules)
    return Report(
        schema=1,
        tool=Tool("envcheck", __version__),
        snapshot=snap,
        findings=outcome.findings,
        skipped=outcome.skipped,
        summary=summarise(snap, outcome),
    )


def merge_reports(reports: Sequence[Report]) -> Report:
    """One report of several containers: the findings of all, worst first; the snapshot that asks for GPUs stands."""
    if len(reports) == 1:
        return reports[0]
    main = next((r for r in reports if r.snapshot.recipe and r.snapshot.recipe.gpus_asked), reports[0])
    findings = [finding for report in reports for finding in report.findings]
    distinct = {(f.rule, f.subject, f.message, f.path, f.line): f for f in findings}
    ordered = sorted(distinct.values(), key=lambda f: ("error", "warning", "note").index(f.severity))
    skips = tuple({(skip.rule, skip.reason): skip for report in reports for skip in report.skipped}.values())
    counts = {severity: _count(ordered, severity) for severity in ("error", "warning", "note")}
    verdicts = [report.summary.verdict for report in reports]
    ranked: tuple[Verdict, ...] = ("findings", "inconclusive")
    verdict: Verdict = next((v for v in ranked if v in verdicts), "ok")
    remarks = tuple(dict.fromkeys(remark for report in reports for remark in report.snapshot.remarks))
    return Report(
        schema=main.schema,
        tool=main.tool,
        snapshot=msgspec.structs.replace(main.snapshot, remarks=remarks),
        findings=tuple(ordered),
        skipped=skips,
        summary=Summary(
            verdict=verdict,
            error=counts["error"],
            warning=counts["warning"],
            note=counts["note"],
            skipped=len(skips),
            rules=max(report.summary.rules for report in reports),
        ),
    )


def _want_gpu(wants: Wants) -> Wants:
    return msgspec.structs.replace(wants, gpu=True, source="--require-gpu")


def name_gpus(snap: Snapshot, matrix: Matrix) -> Snapshot:
    """Give GPUs that were met by PCI id alone their model name, and all their capability where the matrix knows it."""
    gpus = snap.machine.gpus
    if not gpus.known or not gpus.value:
        return snap
    named = tuple(_named(gpu, matrix) for gpu in gpus.value)
    if named == gpus.value:
        return snap
    machine = msgspec.structs.replace(snap.machine, gpus=Fact(value=named, source=gpus.source))
    return msgspec.structs.replace(snap, machine=machine)


def _named(gpu: Gpu, matrix: Matrix) -> Gpu:
    if gpu.vendor != "nvidia" or (gpu.capability and not gpu.name.startswith("NVIDIA GPU ")):
        return gpu
    model = (matrix.find_gpu_by_pci(gpu.pci_id) if gpu.pci_id else None) or matrix.find_gpu(gpu.name)
    if model is None:
        return gpu
    name = model.name if gpu.name.startswith("NVIDIA GPU ") else gpu.name
    return msgspec.structs.replace(gpu, name=name, capability=gpu.capability or model.capability)


def summarise(snap: Snapshot, outcome: Outcome) -> Summary:
    """Counts and verdict. Without findings the verdict is 'ok' only if what decides could be read (HARDENING R6)."""
    counts = {severity: _count(outcome.findings, severity) for severity in ("error", "warning", "note")}
    if counts["error"] or counts["warning"]:
        verdict: Verdict = "findings"
    elif outcome.crashed or undecided(snap, outcome):
        verdict = "inconclusive"
    else:
        verdict = "ok"
    return Summary(
        verdict=verdict,
        error=counts["error"],
        warning=counts["warning"],
        note=counts["note"],
        skipped=len(outcome.skipped),
        rules=outcome.rules,
    )


def _count(findings: Iterable[Finding], severity: Severity | str) -> int:
    return sum(finding.severity == severity for finding in findings)


def undecided(snap: Snapshot, outcome: Outcome) -> list[str]:
    """The facts without which 'nothing wrong' would be a guess, each as its reason; empty: it may be said.

    A live host must have answered for its GPUs, driver and packages. A report is a fragment by nature: one that gave
    notes (a harmless message explained, say) or that told a GPU or driver and a framework is judged as far as it goes.
    """
    machine, stack = snap.machine, snap.stack
    if snap.origin.kind in LIVE:
        deciding: tuple[Fact[object], ...] = (
            machine.gpus,
            machine.driver,
            machine.driver_fault,
            stack.python,
            stack.packages,
        )  # type: ignore[assignment]
        return [fact.unknown for fact in deciding if not fact.known]
    if snap.origin.kind in (*FILES, "image"):
        return _untold(snap, outcome)
    if any(finding.severity == "note" for finding in outcome.findings):
        return []
    hardware = machine.gpus.known or machine.driver.known
    software = stack.packages.known or stack.cuda.known or stack.image.known
    if hardware and software:
        return []
    return [fact.unknown for fact in (machine.gpus, machine.driver, stack.packages) if not fact.known]


def _untold(snap: Snapshot, outcome: Outcome) -> list[str]:
    """What an image, or a file on a machine, leaves open. A file alone is judged by itself; an image alone can't be:
    whether it runs on a machine is its question.
    """
    machine, stack = snap.machine, snap.stack
    missing = []
    if snap.origin.kind == "image" or machine.gpus.known or machine.driver.known:
        if not machine.gpus.known:
            missing.append(machine.gpus.unknown)
        needs_driver = stack.cuda.find() or any(package.cuda for package in stack.packages.find() or ())
        said = any(finding.cause == "driver-not-told" for finding in outcome.findings)
        if not machine.driver.known and machine.gpus.value and needs_driver and not said:
            missing.append(machine.driver.unknown)
    if not (stack.packages.known or stack.cuda.known or stack.image.known):
        missing.append(stack.packages.unknown)
    return missing


def exit_code(report: Report, fail_on: str) -> int:
    """0 clean · 1 findings at or above `fail_on` · 3 inconclusive; the same for every output format."""
    total = report.summary
    loud = {
        "error": total.error,
        "warning": total.error + total.warning,
        "note": total.error + total.warning + total.note,
    }
    if loud.get(fail_on, 0):
        return 1
    return 3 if total.verdict == "inconclusive" else 0
