"""`envcheck resolve`: versions that work together, with the exact install lines."""

from __future__ import annotations

import re
import sys
from typing import Optional

import click

EPILOG = """\b
Examples:
  envcheck resolve torch==2.1 cuda==12.1
  envcheck resolve torch python==3.11 gpu="RTX 5090" driver=570
  envcheck resolve tensorflow==2.16 --format json

\b
Wishes: torch, tensorflow or jax (with or without a version), cuda, python, cudnn, gpu (repeatable), driver, on.
"""
WISHES = ("cuda", "python", "cudnn", "gpu", "driver", "on")


@click.command(epilog=EPILOG)
@click.argument("wishes", nargs=-1, required=True, metavar="WISH…")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(wishes: tuple[str, ...], form: str) -> None:
    """Find the newest combination that grants every wish; exit 4 names the wishes that conflict."""
    from envcheck import matrix as matrices
    from envcheck.cli.plan_text import conflict_json, conflict_text, plan_json, plan_text
    from envcheck.cli.wishes import read_request
    from envcheck.resolve.candidates import frameworks
    from envcheck.resolve.explain import Conflict
    from envcheck.resolve.resolver import find_image, judge_plan, resolve

    matrix = matrices.load()
    named, single, gpus = _split(wishes, frameworks(matrix))
    request = read_request(
        named,
        matrix,
        cuda=single.get("cuda"),
        python=single.get("python"),
        cudnn=single.get("cudnn"),
        driver=single.get("driver"),
        on=single.get("on"),
        gpus=gpus,
        base="cuda",  # the lines install release wheels
    )
    try:
        plan = resolve(request, matrix)
    except Conflict as conflict:
        if form == "json":
            click.echo(conflict_json(conflict), nl=False)
        else:
            click.echo(conflict_text(conflict), err=True, nl=False)
        sys.exit(conflict.exit_code)
    outcome = judge_plan(plan, matrix)
    image = find_image(request, matrix)
    reference = image.image.reference if image is not None and image.image is not None else ""
    click.echo(plan_json(plan, outcome, reference) if form == "json" else plan_text(plan, outcome, reference), nl=False)


def _split(
    wishes: tuple[str, ...], known: tuple[str, ...]
) -> tuple[list[tuple[str, Optional[str]]], dict[str, str], list[str]]:
    """Frameworks with version, single wishes, GPUs. Raises UsageError or UnknownName."""
    from envcheck.errors import UnknownName, UsageError

    named: list[tuple[str, Optional[str]]] = []
    single: dict[str, str] = {}
    gpus: list[str] = []
    for wish in wishes:
        name, sign, value = wish.partition("=")
        name, value = name.strip(), re.sub(r"^=", "", value)
        if any(letter in name for letter in "<>~!"):
            raise UsageError(f"{wish!r} is a range", f"Say one version, or leading parts of it: {_bare(name)}==2.1")
        if name in known:
            named.append((name, value.strip()))
        elif name not in WISHES:
            raise UnknownName("wish", name, (*known, *WISHES))
        elif not sign or not value.strip():
            raise UsageError(f"{wish!r} says no value", f"Say {name}=…")
        elif name == "gpu":
            gpus.append(value.strip())
        elif name in single:
            raise UsageError(f"{name} is wished for twice", "Say it once.")
        else:
            single[name] = value.strip()
    return named, single, gpus


def _bare(name: str) -> str:
    return name.rstrip("<>~!")
