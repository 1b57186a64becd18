"""The words of a plan and of a conflict for `build` and `resolve`: text for people, JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from envcheck import versions
from envcheck.cli.options import width
from envcheck.model.plan import Plan
from envcheck.report.words import clean, count

if TYPE_CHECKING:
    from envcheck.resolve.explain import Conflict
    from envcheck.rules.engine import Outcome

LABEL = 10


def rows_text(rows: Sequence[tuple[str, str]], columns: int = 0) -> str:
    """Label and text, wrapped under themselves; commands (which people copy) are never broken."""
    lines: list[str] = []
    for label, text in rows:
        start = f"  {label:<{LABEL}}"
        if label in ("pip", "uv", "conda", "image", "next"):
            lines.append(start + clean(text))
            continue
        lines += textwrap.wrap(
            clean(text),
            max(columns or width(), 60),
            initial_indent=start,
            subsequent_indent=" " * (LABEL + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def summary_rows(plan: Plan, outcome: Outcome) -> list[tuple[str, str]]:
    """What `build` says of a plan."""
    rows = [("base", f"{plan.image}   {inside(plan)}"), ("why", " · ".join(filter(None, [_why(plan), plan.other])))]
    rows += [("python", _choice(plan, "python"))] if plan.python.origin == "uv" else []
    rows.append(("runs on", runs_on(plan)))
    rows += [("beware", text) for text in plan.cautions]
    return rows + judged_rows(outcome)


def judged_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """What the rules say, each finding on its line."""
    return [("judged", judged(outcome)), *(("", f"{f.severity} {f.rule}  {f.message}") for f in outcome.findings)]


def plan_text(plan: Plan, outcome: Outcome, image: str) -> str:
    """What `resolve` prints; `image` names NVIDIA's image that has the same, if there is one."""
    head = f"{click.style('✓', fg='green')} {plan.framework} {plan.version} for CUDA {versions.minor(plan.cuda or '0')}"
    rows = [("versions", inside(plan)), ("runs on", runs_on(plan))]
    rows += [("beware", text) for text in plan.cautions]
    rows += judged_rows(outcome)
    rows += [("pip", plan.commands.pip), ("uv", plan.commands.uv)]
    if plan.commands.conda:
        note = f"   # {plan.commands.conda_note}" if plan.commands.conda_note else ""
        rows.append(("conda", plan.commands.conda + note))
    rows.append(("image", f"envcheck build {build_options(plan)} -o DIR" + (f"   ({image})" if image else "")))
    return f"{head}\n{rows_text(rows)}"


def build_options(plan: Plan) -> str:
    """The options of `build` that give the same plan."""
    request = plan.request
    words = [f"--{request.framework}", request.version or versions.minor(plan.version)]
    words += ["--cuda", request.cuda or versions.minor(plan.cuda or "")]
    for name in ("python", "cudnn"):
        if getattr(request, name):
            words += [f"--{name}", getattr(request, name)]
    return " ".join(words)


def inside(plan: Plan) -> str:
    """'torch 2.1.2+cu121, CUDA 12.1, cuDNN 8.9.2.26, Python 3.10'."""
    local = f"+{plan.variant}" if plan.variant and plan.index else ""
    note = " (NVIDIA's pre-release build)" if plan.kind == "framework" and "a0" in plan.version else ""
    parts = [f"{plan.framework} {plan.version}{local}{note}"]
    parts += [f"CUDA {plan.cuda}"] if plan.cuda else []
    parts += [f"cuDNN {plan.cudnn}"] if plan.cudnn else []
    parts += [f"Python {plan.python.version}"] if plan.python.version else []
    parts += [text.replace("==", " ") for text in plan.pins[1:3] if plan.index]
    parts += [text for text in plan.bounds if text.rstrip("abcdefghijklmnopqrstuvwxyz")]
    return ", ".join(parts)


def _why(plan: Plan) -> str:
    return " · ".join(dict.fromkeys(c.why for c in plan.choices if c.name in ("base", "flavour") and c.why))


def _choice(plan: Plan, name: str) -> str:
    return next((f"{c.value}: {c.why}" for c in plan.choices if c.name == name), "")


def runs_on(plan: Plan) -> str:
    """The machine that was named, and the drivers and GPUs that the plan runs on."""
    from envcheck.report.text import gpu_text

    gpus = [g.name if g.name.startswith("sm_") else gpu_text(g) for g in plan.machine.gpus.find() or ()]
    driver = plan.machine.driver.find()
    names = [f"{gpus.count(name)} × {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus)]
    names += [f"driver {driver.version}"] if driver is not None and driver.version else []
    if not names:
        return plan.runs_on
    needs = plan.runs_on.partition("; GPUs")[0] if gpus else plan.runs_on
    return f"{' · '.join(names)} with {needs}" if driver is None else f"{' · '.join(names)}; needs {needs}"


def judged(outcome: Outcome) -> str:
    """'41 rules, nothing found'."""
    rules = count(outcome.rules, "rule")
    if not outcome.findings:
        asleep = f" ({len(outcome.skipped)} can't be judged before it runs)" if outcome.skipped else ""
        return f"{rules}, nothing found{asleep}"
    kinds = [count(n, kind) for kind in ("warning", "note") if (n := sum(f.severity == kind for f in outcome.findings))]
    return f"{rules}: {', '.join(kinds)}"


def conflict_text(conflict: Conflict) -> str:
    """Verdict, ways out, and the sentence that usually decides."""
    kept = [f"keep {way.keep}" for way in conflict.ways]
    size = max(map(len, kept), default=0)
    lines = [f"{click.style('✗', fg='red')} {clean(str(conflict))}"]
    lines += [f"  {clean(keep):<{size}}   {clean(' · '.join(way.instead))}" for keep, way in zip(kept, conflict.ways)]
    if conflict.remark:
        lines.append(f"  {clean(conflict.remark)}")
    return "\n".join(lines) + "\n"


def conflict_json(conflict: Conflict) -> str:
    """The conflict for programs."""
    return _json(
        {
            "schema": 1,
            "satisfiable": False,
            "message": str(conflict),
            "conflict": [{"kind": wish.kind, "wish": wish.label, "value": wish.value} for wish in conflict.wishes],
            "nearest": [{"keep": way.keep, "instead": list(way.instead)} for way in conflict.ways],
        }
    )


def plan_json(plan: Plan, outcome: Outcome, image: str = "") -> str:
    """The plan for programs."""
    import msgspec

    told = msgspec.to_builtins(plan)
    kept = {key: told[key] for key in told if key not in ("request", "stack", "machine")}
    findings = [msgspec.to_builtins(finding) for finding in outcome.findings]
    document = {"schema": 1, "satisfiable": True, "plan": kept, "findings": findings, "rules": outcome.rules}
    return _json({**document, **({"framework_image": image} if image else {})})


def _json(document: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
