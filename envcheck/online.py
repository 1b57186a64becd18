"""`--online`: requirement ranges resolved by the index's own wheels instead of by the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from envcheck.errors import InspectError
from envcheck.model.fact import known
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Package

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

MOST = 20
PIP = ("pip", "uv", "poetry", "pdm", "pipenv")


def resolve_online(snap: Snapshot, matrix: Matrix, seconds: float) -> Snapshot:
    """`snap` with the wheels that pip would take for what the matrix knows of; what can't be had is remarked."""
    packages = snap.stack.packages
    if not packages.known or not packages.value:
        return snap
    python = snap.stack.python.find()
    if python is None or not python.version:
        return _remark(snap, "the index was not asked: which Python? say --python 3.X")
    short = ".".join(python.version.split(".")[:2])
    arch = snap.stack.arch.find() or snap.machine.arch.find() or "x86_64"
    names = frozenset(matrix.packages())
    asked = [p for p in packages.value if p.name in names and p.installer in PIP][:MOST]
    found: dict[str, Package] = {}
    remarks: list[str] = []
    for package in asked:
        try:
            found[package.name] = _ask(package, short, arch, seconds)
        except InspectError as failure:  # noqa: PERF203 - one package's silence is not another's
            remarks.append(str(failure))
    merged = tuple(found.get(package.name, package) for package in packages.value)
    stack = msgspec.structs.replace(snap.stack, packages=known(merged, packages.source))
    return msgspec.structs.replace(snap, stack=stack, remarks=(*snap.remarks, *remarks))


def _ask(package: Package, python: str, arch: str, seconds: float) -> Package:
    from packaging.specifiers import SpecifierSet

    from envcheck.clients.wheel_metadata import cuda_of, find_wheel
    from envcheck.expected import specifier_of

    asked = package.requirement or package.name
    wanted = SpecifierSet(f"=={package.version}") if package.version else specifier_of(asked)
    if wanted is None:
        return package
    wheel = find_wheel(package.name, wanted, python=python, arch=arch, index=package.channel, seconds=seconds)
    return msgspec.structs.replace(
        package,
        version=wheel.version,
        cuda=package.cuda or cuda_of(wheel.requires),
        build=wheel.filename,
        requires=wheel.requires,
    )


def _remark(snap: Snapshot, text: str) -> Snapshot:
    return msgspec.structs.replace(snap, remarks=(*snap.remarks, text))
