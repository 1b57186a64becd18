"""Reads the wishes of `build` and `resolve` from the command line into a request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck import versions
from envcheck.errors import UnknownName, UsageError
from envcheck.model.fact import known
from envcheck.model.machine import Gpu, Machine
from envcheck.model.request import BaseKind, Flavour, Request, parse_requirement, parse_requirements, parse_version

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

CAPABILITY = re.compile(r"(?:(?:sm|compute)_?)\d{2,3}[af]?|\d{1,2}\.\d", re.ASCII)
MAX_FILE = 1 << 20


def read_request(
    frameworks: Sequence[tuple[str, Optional[str]]],
    matrix: Matrix,
    *,
    cuda: Optional[str] = None,
    python: Optional[str] = None,
    cudnn: Optional[str] = None,
    gpus: Sequence[str] = (),
    driver: Optional[str] = None,
    on: Optional[str] = None,
    base: BaseKind = "auto",
    flavour: Optional[Flavour] = None,
    packages: Sequence[str] = (),
    requirements: Optional[Path] = None,
) -> Request:
    """The request; raises UsageError or UnknownName for a wish that can't be one."""
    named = [(name, version) for name, version in frameworks if version is not None]
    if len(named) != 1:
        told = " and ".join(name for name, _ in named) or "no framework"
        raise UsageError(f"{told} named: one image carries one framework", "Say --torch, --tensorflow or --jax, once.")
    name, version = named[0]
    wanted = [parse_requirement(text) for text in packages]
    if requirements is not None:
        wanted += parse_requirements(_read(requirements), str(requirements))
    return Request(
        framework=name,
        version=parse_version(version, name) if version else "",
        cuda=_cuda(cuda),
        python=parse_version(python, "python") if python else None,
        cudnn=parse_version(cudnn, "cudnn") if cudnn else None,
        base=base,
        flavour=flavour,
        packages=tuple(dict.fromkeys(wanted)),
        machine=read_machine(matrix, gpus=gpus, driver=driver, on=on),
    )


def _cuda(text: Optional[str]) -> Optional[str]:
    """'12.1', and what people copy from an index: 'cu121'."""
    if text is None:
        return None
    return versions.cuda_from_tag(text) or parse_version(text, "cuda")


def read_machine(matrix: Matrix, *, gpus: Sequence[str], driver: Optional[str], on: Optional[str]) -> Machine:
    """The machine that the plan shall run on, as far as it was told."""
    from envcheck.inspection import Description
    from envcheck.machines import describe_machine

    said = Description(on=on or "", driver=driver or "")
    machine = describe_machine(said, matrix, _inspect_this) if said.said else Machine()
    if gpus:
        found = tuple(msgspec.structs.replace(_gpu(text, matrix), index=n) for n, text in enumerate(gpus))
        machine = msgspec.structs.replace(machine, gpus=known(found, "--gpu"))
    return machine


def _inspect_this() -> object:
    from envcheck.probes.inspect import inspect_host

    return inspect_host()


def _gpu(text: str, matrix: Matrix) -> Gpu:
    if CAPABILITY.fullmatch(text):
        row = matrix.capability(text)
        if row is None:
            names = [versions.sm(capability.capability) for capability in matrix.capabilities]
            raise UnknownName("compute capability", text, names, "envcheck matrix show gpus")
        return Gpu(name=versions.sm(row.capability), capability=row.capability, source="--gpu")
    model = matrix.get_gpu(text)
    memory = int(model.memory_gb * 1024) if model.memory_gb else None
    return Gpu(name=model.name, capability=model.capability, memory_mib=memory, source="--gpu")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise UsageError(f"{path} is larger than any list of requirements", "Name the right file.")
        return data.decode("utf-8-sig")
    except OSError as failure:
        raise UsageError(f"can't read {path}: {failure.strerror}", "Check the name and your permission.") from failure
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8 text", "Save it as UTF-8.") from None
