"""Pins a plan's base image by the digest that its registry gives for the tag now, checked against the bytes."""

from __future__ import annotations

import msgspec

from envcheck import versions
from envcheck.clients.registry.client import Options, read_image
from envcheck.errors import BuildError
from envcheck.model.image import ImageConfig
from envcheck.model.plan import Choice, Plan
from envcheck.model.reference import find_reference


def pin_base(plan: Plan, options: Options) -> Plan:
    """The plan with TAG@sha256:… as its image. Raises what the registry client does, or BuildError for another CUDA."""
    reference = find_reference(plan.image)
    assert reference is not None
    config = read_image(reference, options)
    _check(plan, config)
    choice = Choice("digest", config.digest, "what the tag names now (--pin)", config.source)
    return msgspec.structs.replace(plan, image=f"{plan.image}@{config.digest}", choices=(*plan.choices, choice))


def _check(plan: Plan, config: ImageConfig) -> None:
    """The image itself is the better witness: it must be of the CUDA that the plan counts on."""
    planned = plan.stack.cuda.find()
    told = versions.find(config.env.get("CUDA_VERSION"))
    if planned and told is not None and told.release[:2] != versions.parse(planned).release[:2]:
        raise BuildError(
            f"{plan.image} is of CUDA {told}, not {planned} as the matrix has it",
            "Nothing was written. Report the row: envcheck matrix show images.",
        )
