"""What the official Dockerfile parser reads, and what a plan's Dockerfile is meant to hold."""

import json
import tempfile
from pathlib import Path

import dockerfile

from envcheck.dockerfile.generate import USER
from envcheck.model.plan import Plan


def parse(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """(instruction, values) as Docker's own parser gives them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Dockerfile"
        path.write_text(text, encoding="utf-8")
        return [(command.cmd.upper(), tuple(command.value)) for command in dockerfile.parse_file(str(path))]


def exec_words(values: tuple[str, ...]) -> list[str]:
    """The words of an exec-form RUN; the parser gives them apart already."""
    return list(values)


def expected(plan: Plan, requirements: list[str]) -> list[tuple[str, object]]:
    """The instructions that a stand-alone Dockerfile of the plan is meant to hold, written down independently.

    A callable checks the values of a shell RUN; a tuple is them.
    """
    user = f"{USER}:{USER}"
    if plan.kind == "framework":
        install = [("RUN", ("pip", "install", "--no-cache-dir", "-c", "/opt/envcheck/constraints.txt", *requirements))]
        guard = [("RUN", _shell("constraints.txt"))]
        added = [*guard, *install, ("RUN", _shell("! grep -Fxvf"))] if requirements else []
        return [
            ("FROM", (plan.image,)),
            ("LABEL", _pairs),
            *added,
            ("RUN", _shell("useradd")),
            ("ENV", ("HOME", "/home/app")),
            ("WORKDIR", ("/home/app",)),
            ("USER", (user,)),
        ]
    first = ("pip", "install", "--no-cache-dir", "--no-deps", "--index-url", plan.index, *plan.pins)
    second = ("pip", "install", "--no-cache-dir", *plan.pins, *plan.bounds, *requirements)
    return [
        ("FROM", (plan.image,)),
        ("LABEL", _pairs),
        ("RUN", _shell("apt-get update")),
        ("ENV", ("HOME", "/home/app", "PATH", "/opt/venv/bin:$PATH")),
        *([("RUN", first)] if plan.index else []),
        ("RUN", second),
        ("RUN", ("python", "-c", f"import {plan.module}")),
        ("WORKDIR", ("/home/app",)),
        ("USER", (user,)),
        ("CMD", ("python",)),
    ]


def _shell(piece: str):
    return lambda values: len(values) == 1 and piece in values[0]


def _pairs(values: tuple[str, ...]) -> bool:
    return len(values) % 2 == 0 and all(json.loads(value) for value in values[1::2])


def assert_as_intended(text: str, wanted: list[tuple[str, object]]) -> None:
    """Docker's parser reads exactly the wanted instructions."""
    found = parse(text)
    assert [name for name, _ in found] == [name for name, _ in wanted], text
    for (name, values), (_, want) in zip(found, wanted):
        values = tuple(value for value in values if value != "=") if name in ("ENV", "LABEL") else values
        if callable(want):
            assert want(values), (name, values)
        else:
            assert values == want, (name, values, want)
