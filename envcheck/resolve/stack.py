"""The stack that a plan makes, as far as the matrix knows it before anything is built: what the rules judge."""

from __future__ import annotations

from typing import Any, Optional

from envcheck.matrix.matrix import Matrix
from envcheck.model.fact import known
from envcheck.model.plan import Plan
from envcheck.model.stack import Distro, Image, Package, Python, Stack, Toolkit
from envcheck.resolve.bases import Base, name_of

SOURCE = "plan"


def stack_of(plan: Plan, matrix: Matrix, base: Optional[Base]) -> Stack:
    """The stack; what only the built image can tell stays unknown."""
    facts: dict[str, Any] = {
        "arch": known("x86_64", SOURCE),
        "packages": known(tuple(_packages(plan, matrix)), SOURCE),
        "complete": known(False, SOURCE),
        "image": known(Image(reference=plan.image, arch="x86_64"), SOURCE),
    }
    if plan.python.version:
        kind = "system" if plan.kind == "framework" else "venv"
        facts["python"] = known(Python(version=plan.python.version, kind=kind, platform="linux_x86_64"), SOURCE)
    if plan.distro:
        version = plan.distro.removeprefix("ubuntu")
        facts["distro"] = known(Distro("ubuntu", version, f"Ubuntu {version}"), SOURCE)
    if base is None:
        facts["cuda"] = known(plan.cuda, plan.image)
        return Stack(**facts)
    facts["glibc"] = known(base.distro.glibc, f"{base.distro.name} (matrices/distros.toml)")
    facts["cuda"] = known(base.row.cuda, plan.image)
    facts["cudnn"] = known(base.row.cudnn if base.row.has_cudnn else None, plan.image)
    toolkits = (Toolkit(base.row.cuda, "/usr/local/cuda", on_path=True, source=plan.image),)
    facts["toolkits"] = known(toolkits if base.row.flavour == "devel" else (), plan.image)
    return Stack(**facts)


def _packages(plan: Plan, matrix: Matrix) -> list[Package]:
    row = matrix.image(plan.image) if plan.kind == "framework" else None
    variant = plan.variant or None
    local = f"+{variant}" if variant and plan.index else ""
    found = [
        Package(
            name=plan.framework,
            version=plan.version if plan.kind == "framework" else f"{plan.version}{local}",
            variant=variant,
            cuda=plan.cuda,
            cudnn=plan.cudnn,
            installer="image" if plan.kind == "framework" else "pip",
            capabilities=row.capabilities if row else None,
            source=plan.image if row else SOURCE,
        )
    ]
    asked = set(matrix.packages())
    for text in (*plan.pins[1:], *plan.bounds, *plan.packages, *plan.compiled):
        name = name_of(text)
        if name == plan.framework or (name not in asked and name != "numpy"):
            continue
        version = text.partition("==")[2] if "==" in text and "," not in text else ""
        exact = bool(version) and "*" not in version
        found.append(
            Package(
                name=name,
                version=version if exact else None,
                installer="pip",
                pinned=exact,
                requirement="" if exact else text,
                source=SOURCE,
            )
        )
    return found
