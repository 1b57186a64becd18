"""Generates the files of a plan: the Dockerfile, what pip reads, and the lock that records every choice."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from envcheck.dockerfile.lint import differences
from envcheck.dockerfile.render import UnsafeValue, render, safe
from envcheck.model.plan import Plan

USER = 10001
LABELS = "io.github.envcheck"
# What a package that compiles at install expects to find beside it (pip: --no-build-isolation).
BUILDERS = ("ninja", "packaging", "setuptools", "wheel")
LOCK = "envcheck.lock"


class File(msgspec.Struct, frozen=True):
    """A file to write, by its name in the build context."""

    name: str
    content: str


def generate_dockerfile(plan: Plan, *, folder: bool = False) -> str:
    """The Dockerfile. With `folder` pip reads files beside it; else it stands alone, packages as exec-form words."""
    values = _values(plan, folder)
    text = render(f"{plan.kind}.Dockerfile.j2", values)
    wrong = differences(text, intended(plan, folder=folder), plan.image)
    if wrong:
        raise UnsafeValue("; ".join(wrong))
    return text


def generate_files(plan: Plan) -> tuple[File, ...]:
    """The Dockerfile, what it copies, and the lock file."""
    return (File("Dockerfile", generate_dockerfile(plan, folder=True)), *context_files(plan), File(LOCK, lock(plan)))


def context_files(plan: Plan) -> tuple[File, ...]:
    """What the Dockerfile copies."""
    contents = {
        "frameworks.txt": plan.pins,
        "requirements.txt": _requirements(plan),
        "compiled.txt": plan.compiled,
    }
    return tuple(File(name, "".join(f"{safe(line)}\n" for line in contents[name])) for name in _copied(plan))


def intended(plan: Plan, *, folder: bool) -> tuple[str, ...]:
    """The sequence of instructions that the Dockerfile of a plan has."""
    if plan.kind == "cuda":
        steps = ("COPY", "RUN") if folder else ("RUN",) * (len(_installs(plan)) + 1)
        return ("FROM", "LABEL", "RUN", "ENV", *steps, "WORKDIR", "USER", "CMD")
    added: tuple[str, ...] = ()
    if plan.packages or plan.compiled:
        added = ("COPY", "RUN", "RUN") if folder else ("RUN", *("RUN",) * len(_installs(plan)), "RUN")
    return ("FROM", "LABEL", *added, "RUN", "ENV", "WORKDIR", "USER")


def _copied(plan: Plan) -> tuple[str, ...]:
    names = []
    if plan.kind == "cuda":
        names.append("frameworks.txt")
    if _requirements(plan):
        names.append("requirements.txt")
    if plan.compiled:
        names.append("compiled.txt")
    return tuple(names)


def _requirements(plan: Plan) -> tuple[str, ...]:
    builders = BUILDERS if plan.compiled and plan.kind == "cuda" else ()
    return (*plan.pins, *plan.bounds, *builders, *plan.packages)


def _installs(plan: Plan) -> list[list[str]]:
    """The calls of pip for a Dockerfile that stands alone, as words: no shell ever reads them."""
    pip = ["pip", "install", "--no-cache-dir"]
    limits = [] if plan.kind == "cuda" else ["-c", "/opt/envcheck/constraints.txt"]
    calls = []
    if plan.index:
        calls.append([*pip, "--no-deps", "--index-url", plan.index, *plan.pins])
    if _requirements(plan):
        calls.append([*pip, *limits, *_requirements(plan)])
    if plan.compiled:
        calls.append([*pip, "--no-build-isolation", *limits, *plan.compiled])
    return calls


def _values(plan: Plan, folder: bool) -> dict[str, Any]:
    if plan.module and not plan.module.isidentifier():
        raise UnsafeValue(f"{plan.module!r} is no module")
    common = {
        "image": plan.image,
        "labels": labels(plan),
        "user": USER,
        "folder": folder,
        "files": list(_copied(plan)),
        "installs": _installs(plan),
        "compiled": bool(plan.compiled),
    }
    if plan.kind == "framework":
        return {
            **common,
            "framework": plan.framework,
            "packages": bool(plan.packages or plan.compiled),
            "requirements": bool(plan.packages),
            "keep": [_any_spelling(name) for name in plan.keep],
        }
    return {**common, "python": msgspec.to_builtins(plan.python), "index": plan.index, "module": plan.module}


def _any_spelling(name: str) -> str:
    """A pattern for a package's name as pip may print it."""
    return re.sub(r"[-_.]", "[-_.]", name)


def labels(plan: Plan) -> list[tuple[str, str]]:
    """The plan as image labels, sorted."""
    facts = {
        "org.opencontainers.image.base.name": plan.image,
        f"{LABELS}.framework": plan.framework,
        f"{LABELS}.version": f"{plan.version}+{plan.variant}" if plan.variant and plan.index else plan.version,
        f"{LABELS}.cuda": plan.cuda or "",
        f"{LABELS}.cudnn": plan.cudnn or "",
        f"{LABELS}.python": plan.python.version,
        f"{LABELS}.flavour": plan.flavour or "",
        f"{LABELS}.runs-on": plan.runs_on.replace(";", ","),
    }
    return sorted((key, value) for key, value in facts.items() if value)


def lock(plan: Plan) -> str:
    """The plan as JSON: the request, every choice with why and source, and what the files say."""
    request = plan.request
    asked = {
        "framework": request.framework,
        "version": request.version,
        "cuda": request.cuda,
        "python": request.python,
        "cudnn": request.cudnn,
        "base": request.base,
        "flavour": request.flavour,
        "packages": list(request.packages),
        "gpus": [gpu.name for gpu in request.machine.gpus.find() or ()],
        "driver": _driver(plan),
    }
    document = {
        "schema": 1,
        "request": {key: value for key, value in asked.items() if value},
        "image": plan.image,
        "platform": "linux/amd64",
        "choices": [{"name": c.name, "value": c.value, "why": c.why, "source": c.source} for c in plan.choices],
        "index": plan.index,
        "pins": list(plan.pins),
        "requirements": list(_requirements(plan)),
        "compiled": list(plan.compiled),
        "keep": list(plan.keep),
        "python": {key: value for key, value in msgspec.to_builtins(plan.python).items() if value},
        "cautions": list(plan.cautions),
        "runs_on": plan.runs_on,
    }
    packed = msgspec.json.encode({key: value for key, value in document.items() if value not in ("", [], None)})
    return msgspec.json.format(packed, indent=2).decode() + "\n"


def _driver(plan: Plan) -> str:
    driver = plan.request.machine.driver.find()
    return (driver.version or "") if driver is not None else ""
