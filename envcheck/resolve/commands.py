"""The pip, uv and conda lines that make a plan's environment without an image."""

from __future__ import annotations

import shlex
from typing import Optional

from envcheck import versions
from envcheck.model.plan import Commands
from envcheck.model.request import Request
from envcheck.resolve.candidates import Candidate


def commands_for(
    candidate: Candidate, python: str, pins: tuple[str, ...], bounds: tuple[str, ...], request: Request
) -> Commands:
    """The lines. Where an index serves one variant, its local tag is left out: people read the plain release."""
    build, install = candidate.build, candidate.install
    assert build is not None
    assert install is not None
    plain = [text.partition("+")[0] if install.index else text for text in pins]
    limits = [text for text in bounds if any(sign in text for sign in "<>=!~")]
    index = ["--index-url", install.index.format(variant=build.variant)] if install.index else []
    pip = shlex.join(["pip", "install", *plain, *limits, *index])
    conda = install.conda.format(
        version=build.version,
        cuda=_conda_cuda(candidate, request),
        cudnn=candidate.cudnn or "",
        python=python,
        companions=" ".join(plain[1 : 1 + len(install.companions)]),
        pip=pip,
    )
    return Commands(
        pip=pip,
        uv=shlex.join(["uv", "pip", "install", *plain, *limits, *index]),
        conda=" ".join(conda.split()),
        conda_note=install.conda_note,
    )


def _conda_cuda(candidate: Candidate, request: Request) -> str:
    wanted: Optional[str] = request.cuda if candidate.any_minor else None
    return versions.minor(wanted or candidate.cuda)
