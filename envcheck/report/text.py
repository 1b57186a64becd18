"""The report for people: verdict, machine and stack, then each finding with its evidence and fix."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Optional

from envcheck.model.finding import Evidence, Finding, Report
from envcheck.model.machine import Gpu, Machine
from envcheck.model.stack import Package, Stack
from envcheck.report import RenderOptions
from envcheck.report.words import clean, count

MARK = {"error": "✗", "warning": "!", "note": "·"}
SHOWN_PACKAGES = 8
SHOWN_SKIPS = 3


def render(report: Report, options: RenderOptions) -> str:
    """The report as text, coloured by `options.paint`."""
    lines = [*_verdict(report, options), ""]
    facts = [*_rows("Machine", machine_line(report.snapshot.machine)), *_rows("Stack", stack_line(report, options))]
    if facts:
        lines += [*_wrap_all(facts, options.width), ""]
    loud = [f for f in report.findings if f.severity != "note"]
    notes = [f for f in report.findings if f.severity == "note"]
    for finding in loud:
        lines += [*finding_lines(finding, options, said=len(report.findings) == 1), ""]
    if len(report.findings) == 1 and not options.verbose and _is_ok(report):
        notes = []  # the verdict says it
    for finding in notes:
        lines += finding_lines(finding, options) if options.verbose else _note(finding, options)
    if notes:
        lines.append("")
    for remark in report.snapshot.remarks:
        lines += textwrap.wrap(clean(remark), options.width, initial_indent="  ", subsequent_indent="  ")
    if report.snapshot.remarks:
        lines.append("")
    lines += _skipped(report, options)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def _is_ok(report: Report) -> bool:
    """Is the verdict 'Nothing wrong'?"""
    return report.summary.verdict == "ok"


def _verdict(report: Report, options: RenderOptions) -> list[str]:
    total = report.summary
    parts = [
        count(n, noun) for n, noun in ((total.error, "error"), (total.warning, "warning"), (total.note, "note")) if n
    ]
    if total.error:
        where = "on this machine" if report.snapshot.origin.kind in ("host", "container") else "as described"
        line, style = f"✗ This environment will not run {where}: {', '.join(parts)}", "error"
        if report.findings and report.findings[0].severity == "error" and len(report.findings) == 1:
            line = f"✗ {clean(report.findings[0].message)}"
    elif total.warning:
        line, style = f"! This environment needs attention: {', '.join(parts)}", "warning"
    elif total.verdict == "inconclusive":
        machine, stack = report.snapshot.machine, report.snapshot.stack
        deciding = (machine.gpus, machine.driver, machine.driver_fault, stack.python, stack.packages)
        reasons = [fact.unknown for fact in deciding if not fact.known]
        reasons = reasons or [skip.reason for skip in report.skipped]
        line = "? Inconclusive: nothing wrong was found, and too little could be read to call it right"
        if report.snapshot.origin.kind == "report" and not report.snapshot.origin.readers:
            line = "? Inconclusive: nothing in this paste is known to me"
        if report.snapshot.origin.kind in ("host", "container") and reasons:
            line = f"? Inconclusive: {clean(reasons[0])}"
        style = "unknown"
    else:
        line, style = "✓ Nothing wrong", "ok"
        if len(report.findings) == 1:
            said = clean(report.findings[0].message)
            line += f". {said[:1].upper()}{said[1:]}"
    tail = [] if options.seconds is None else [f"{options.seconds:.2f} s"]
    tail += [f"{total.rules} rules"]
    if total.skipped:
        tail.append(f"{total.skipped} skipped")
    first, *rest = textwrap.wrap(line, max(options.width, 40), subsequent_indent="  ")
    painted = [options.paint(first, style), *(options.paint(part, style) for part in rest)]
    painted[-1] += options.paint(f"   ({', '.join(tail)})", "dim")
    return painted


def _rows(label: str, text: str) -> list[tuple[str, str]]:
    return [(label, text)] if text else []


def _wrap_all(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    lines: list[str] = []
    for label, text in rows:
        lines += textwrap.wrap(
            clean(text),
            max(width, 50),
            initial_indent=f"  {label:<9} ",
            subsequent_indent=" " * 12,
            break_long_words=False,
        )
    return lines


def gpu_text(gpu: Gpu) -> str:
    """'NVIDIA GeForce RTX 5090 (sm_120, 32 GB)'."""
    inside = []
    if gpu.capability:
        inside.append("sm_" + gpu.capability.replace(".", ""))
    if gpu.memory_mib:
        inside.append(f"{round(gpu.memory_mib / 1024)} GB")
    if gpu.lost:
        inside.append(gpu.lost)
    return gpu.name + (f" ({', '.join(inside)})" if inside else "")


def machine_line(machine: Machine) -> str:
    """The machine in one line; only what is known."""
    parts: list[str] = []
    gpus = machine.gpus.find()
    if gpus is not None and machine.gpus.known:
        names: dict[str, int] = {}
        for gpu in gpus:
            names[gpu_text(gpu)] = names.get(gpu_text(gpu), 0) + 1
        parts += [f"{n} × {name}" if n > 1 else name for name, n in names.items()]
        if not any(gpu.vendor == "nvidia" for gpu in gpus):
            parts.append("no NVIDIA GPU")
    if machine.driver.known:
        driver = machine.driver.find()
        if driver is None:
            parts.append("no NVIDIA driver")
        elif driver.version or driver.cuda:
            text = f"driver {driver.version}" if driver.version else "driver of unknown version"
            if driver.flavour:
                text += f", {driver.flavour} modules"
            parts.append(text + (f" (runs CUDA up to {driver.cuda})" if driver.cuda else ""))
    ram = machine.ram_bytes.find()
    if ram:
        parts.append(f"{round(ram / 2**30)} GB RAM")
    container = machine.container.find()
    if container is not None:
        parts.append(f"in a {container.engine} container" if container.engine != "unknown" else "in a container")
    if machine.wsl.find():
        parts.append(f"WSL{machine.wsl.find()}")
    jetson = machine.jetson.find()
    if jetson:
        parts.append(jetson)
    return " · ".join(parts)


def _weight(package: Package) -> tuple[int, str]:
    told = package.variant or package.cuda or package.hip
    return (0 if told else 1, package.name)


def package_text(package: Package) -> str:
    """'torch 2.5.1+cu124', with the build where the version doesn't carry it."""
    text = f"{package.name} {package.version or package.requirement or ''}".strip()
    variant = package.variant
    if variant and (not package.version or variant not in package.version):
        text += f" ({variant})"
    elif not variant and package.cuda:
        text += f" (CUDA {package.cuda})"
    return text + (" BROKEN" if package.broken else "")


def stack_line(report: Report, options: RenderOptions) -> str:
    """The stack in one line; only what is known."""
    stack: Stack = report.snapshot.stack
    parts: list[str] = []
    image = stack.image.find()
    if image is not None and image.reference:
        parts.append(image.reference)
    distro = stack.distro.find()
    if distro is not None and (distro.name or distro.id):
        glibc = stack.glibc.find()
        parts.append((distro.name or f"{distro.id} {distro.version}") + (f", glibc {glibc}" if glibc else ""))
    python = stack.python.find()
    if python is not None and python.version:
        kind = python.kind or ""
        parts.append(f"Python {python.version}" + (f" ({kind})" if kind else ""))
    packages = [p for p in stack.packages.find() or () if not p.name.startswith("nvidia-")]
    packages.sort(key=_weight)
    shown = packages if options.verbose else packages[:SHOWN_PACKAGES]
    parts += [package_text(p) for p in shown]
    if len(packages) > len(shown):
        parts.append(f"{len(packages) - len(shown)} more")
    if not packages and stack.packages.known and stack.complete.find():
        parts.append("no GPU framework installed")
    cuda = stack.cuda.find()
    if cuda:
        parts.append(f"CUDA {cuda}")
    cudnn = stack.cudnn.find()
    if cudnn:
        parts.append(f"cuDNN {cudnn}")
    return " · ".join(parts)


def finding_lines(finding: Finding, options: RenderOptions, *, said: bool = False) -> list[str]:
    """A finding as lines: its message (its name, where the message is said already), evidence, fixes, what to send."""
    paint = options.paint
    where = f"{finding.path}:{finding.line}: " if finding.path and finding.line else ""
    message = finding.slug if said and finding.severity == "error" else finding.message
    head = f"{MARK[finding.severity]} {finding.rule}  {clean(where + message)}"
    first, *rest = textwrap.wrap(head, max(options.width, 50), subsequent_indent=" " * 10, break_long_words=False)
    lines = [paint(first, finding.severity), *(paint(line, finding.severity) for line in rest)]
    told = [(item.role or "found", clean(_evidence(item)), clean(_source(item, options))) for item in finding.evidence]
    for label, value, source in dict.fromkeys(told):
        lines += _labelled(label, value, source, options)
    for number, fix in enumerate(finding.fix):
        lines += _labelled("fix" if number == 0 else "or", clean(fix), "", options)
    for ask in finding.ask:
        lines += _labelled("send", clean(ask), "", options)
    return lines


def _evidence(item: Evidence) -> str:
    """The value; with the fact's name where the value alone says too little ('12.1', 'of CUDA 11.0')."""
    bare = item.role is None or item.value[:1].isdigit() or item.value.startswith("of ")
    return f"{item.fact} {item.value}" if bare and item.fact not in item.value else item.value


def _source(item: Evidence, options: RenderOptions) -> str:
    """The source; of a matrix row just the file, unless everything is asked for: the row has the rest."""
    place, colon, _ = item.source.partition(": ")
    return place if colon and place.startswith("matrices/") and not options.verbose else item.source


def _labelled(label: str, value: str, source: str, options: RenderOptions) -> list[str]:
    lead = " " * 10 + f"{label:<8} "
    body = textwrap.wrap(
        value,
        max(options.width, 60),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [lead.rstrip()]
    if source:
        body[-1] += options.paint(f"   {source}", "dim")
    return body


def _note(finding: Finding, options: RenderOptions) -> list[str]:
    text = f"{MARK['note']} {finding.rule}  {clean(finding.message)}"
    return textwrap.wrap(text, max(options.width, 50), subsequent_indent=" " * 10, break_long_words=False)


def _skipped(report: Report, options: RenderOptions) -> list[str]:
    if not report.skipped:
        return []
    reasons: dict[str, list[str]] = {}
    for skip in report.skipped:
        reasons.setdefault(clean(skip.reason), []).append(skip.rule)
    paint = options.paint
    if options.verbose:
        lines = ["Skipped, because these facts are not known (a skipped rule is never a pass):"]
        lines += [f"  {reason}: {', '.join(rules)}" for reason, rules in sorted(reasons.items())]
        return [paint(line, "dim") for line in lines]
    # What only a log could tell is no lack of this machine: last.
    ordered = sorted(reasons.items(), key=lambda item: ("no log was given" in item[0], -len(item[1]), item[0]))
    told = ", ".join(f"{reason} ({len(rules)})" for reason, rules in ordered[:SHOWN_SKIPS])
    more = f" and {len(ordered) - SHOWN_SKIPS} more" if len(ordered) > SHOWN_SKIPS else ""
    first = _first_id(report)
    text = f"Skipped {count(len(report.skipped), 'rule')}: {told}{more} · -v for all"
    text += f" · envcheck explain {first}" if first else ""
    return [paint(line, "dim") for line in textwrap.wrap(text, max(options.width, 60))]


def _first_id(report: Report) -> Optional[str]:
    return report.findings[0].rule if report.findings else None
