"""What a built image must answer to match its plan: the program that asks, and the comparison."""

from __future__ import annotations

from typing import Optional

import msgspec
from packaging.version import InvalidVersion, Version

from envcheck.model.plan import Plan
from envcheck.resources import find_folder

MARK = "envcheck-verify:"


class Answer(msgspec.Struct, frozen=True):
    """What the program in the image found."""

    python: str
    packages: dict[str, Optional[str]]
    imported: Optional[str]
    cuda: Optional[str]
    gpus: list[tuple[str, bool]]
    fault: Optional[str]


def program(plan: Plan) -> list[str]:
    """The words to run in the image."""
    text = (find_folder("templates") / "verify.py").read_text(encoding="utf-8")
    names = dict.fromkeys([plan.framework, *(pin.partition("==")[0].partition("[")[0] for pin in plan.pins)])
    return ["python", "-c", text, plan.framework, *names]


def read_answer(output: str) -> Optional[Answer]:
    """The answer in a container's output, banners around it skipped; None where there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            try:
                return msgspec.json.decode(line[len(MARK) :], type=Answer)
            except msgspec.MsgspecError:
                return None
    return None


def compare(plan: Plan, answer: Answer, gpus_expected: bool) -> list[str]:
    """What doesn't match the plan; empty when all does."""
    wrong: list[str] = []
    if plan.python.version and not _begins(answer.python, ".".join(plan.python.version.split(".")[:2])):
        wrong.append(f"Python is {answer.python}, planned was {plan.python.version}")
    if answer.fault:
        wrong.append(f"{plan.framework} doesn't work: {answer.fault}")
    have = answer.packages.get(plan.framework)
    if have is None:
        wrong.append(f"{plan.framework} isn't installed")
    elif not _same_release(have, plan):
        what = "NVIDIA's build was replaced: " if plan.kind == "framework" else ""
        wrong.append(f"{what}{plan.framework} is {have}, planned was {_planned(plan)}")
    for pin in plan.pins[1:]:
        name, _, version = pin.partition("==")
        found = answer.packages.get(name)
        if (
            version
            and found is not None
            and "<" not in version
            and found.partition("+")[0] != version.partition("+")[0]
        ):
            wrong.append(f"{name} is {found}, planned was {version}")
    if plan.cuda and answer.cuda and not _begins(answer.cuda, ".".join(plan.cuda.split(".")[:2])):
        wrong.append(f"{plan.framework} is built for CUDA {answer.cuda}, planned was {plan.cuda}")
    if plan.variant.startswith("cu") and answer.imported and answer.cuda is None and plan.index:
        wrong.append(f"{plan.framework} {have} has no CUDA")
    if gpus_expected and not answer.gpus and not answer.fault:
        wrong.append(f"{plan.framework} sees no GPU, although the engine has some")
    wrong += [f"{name} computes wrongly" for name, right in answer.gpus if not right]
    return wrong


def _planned(plan: Plan) -> str:
    return f"{plan.version}+{plan.variant}" if plan.variant and plan.index else plan.version


def _begins(have: str, wanted: str) -> bool:
    return have == wanted or have.startswith(f"{wanted}.")


def _same_release(have: str, plan: Plan) -> bool:
    """Is it the planned build? An image's row may cut the commit, so NVIDIA's is told by release and local part."""
    try:
        found, planned = Version(have), Version(plan.version)
    except InvalidVersion:
        return False
    if plan.kind == "cuda":
        local = plan.variant if plan.index else ""
        return found.public == planned.public and (not local or found.local == local)
    # A release from an index has no local part of NVIDIA's and no pre-release.
    nvidias = found.local is not None and not found.local.startswith(("cu1", "cpu", "rocm"))
    return found.release[:2] == planned.release[:2] and (nvidias or planned.local is None)
