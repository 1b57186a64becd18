"""Composes the plan of a chosen candidate: pins, bounds, words, commands and the stack that the rules judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck import versions
from envcheck.errors import Unsatisfiable
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, Companion, CudaImage, Install
from envcheck.model.plan import Choice, Plan, PythonPlan
from envcheck.model.request import Request
from envcheck.resolve import words
from envcheck.resolve.bases import Base, compiles, find_base, name_of
from envcheck.resolve.candidates import Candidate, find_install, pythons_of
from envcheck.resolve.commands import commands_for
from envcheck.resolve.companions import companions
from envcheck.resolve.constraints import python_wanted
from envcheck.resolve.stack import stack_of


def compose_wheels(
    candidate: Candidate, image: Optional[Candidate], request: Request, matrix: Matrix, *, why: str
) -> Plan:
    """Official wheels on a cuda base."""
    build, install = candidate.build, candidate.install
    assert build is not None
    assert install is not None
    python = python_wanted(request.python) if request.python else None
    base = find_base(candidate, request, matrix, python=python, cuda=request.cuda)
    if base is None:
        raise Unsatisfiable(f"No image of nvidia/cuda fits {candidate.framework} {candidate.version}")
    paired, left_out = companions(build, install, base.source.python, matrix)
    pins = (
        _fill(install.requirement, build),
        *(f"{row.package}=={row.version}{_local(install, build)}" for row in paired),
    )
    if install.requires:
        pins = (*pins, *required(build, install))
    bounds = _bounds(build, install)
    ordinary, compiled = _packages(request, matrix)
    _check_packages(ordinary + compiled, pins)
    plan = Plan(
        request=request,
        kind="cuda",
        image=base.reference,
        framework=candidate.framework,
        version=candidate.version,
        variant=build.variant,
        module=install.module,
        cuda=words.cuda_of(candidate, base),
        cudnn=base.row.cudnn if install.libraries == "system" else build.cudnn,
        flavour=base.row.flavour,
        distro=base.distro.name,
        python=base.python,
        pins=pins,
        index=install.index.format(variant=build.variant),
        bounds=bounds,
        packages=ordinary,
        compiled=compiled,
        choices=tuple(_wheel_choices(candidate, base, why, paired, bounds, request)),
        cautions=tuple(words.wheel_cautions(candidate, base, request, left_out, compiled, matrix)),
        other=words.image_instead(image, request),
        runs_on=words.runs_on(candidate, matrix, request.machine),
        commands=commands_for(candidate, base.source.python, pins, bounds, request),
        machine=request.machine,
    )
    return msgspec.structs.replace(plan, stack=stack_of(plan, matrix, base))


def compose_image(
    candidate: Candidate, wheel: Optional[Candidate], release: Optional[Candidate], request: Request, matrix: Matrix
) -> Plan:
    """NVIDIA's framework image, with what the user adds.

    `wheel` are release wheels that grant the same wishes, `release` those of the image's X.Y, whatever else was wished.
    """
    row = candidate.image
    assert row is not None
    install = find_install(matrix, candidate.framework, Version(candidate.version).base_version)
    ordinary, compiled = _packages(request, matrix)
    plan = Plan(
        request=request,
        kind="framework",
        image=row.reference,
        framework=candidate.framework,
        version=candidate.version,
        module=install.module if install else candidate.framework,
        cuda=row.cuda,
        cudnn=row.cudnn,
        distro=f"ubuntu{row.ubuntu}" if row.ubuntu else "",
        python=PythonPlan(row.python or "", "image"),
        packages=ordinary,
        compiled=compiled,
        keep=install.keep if install else (candidate.framework,),
        choices=tuple(_image_choices(candidate, request)),
        cautions=tuple(words.image_cautions(candidate, request, matrix)),
        other=words.wheels_instead(wheel, release, candidate),
        runs_on=words.runs_on(candidate, matrix, request.machine),
        commands=_commands_of(wheel, request, matrix),
        machine=request.machine,
    )
    _check_packages(ordinary + compiled, (f"{candidate.framework}=={candidate.version}",))
    return msgspec.structs.replace(plan, stack=stack_of(plan, matrix, None))


def _commands_of(wheel: Optional[Candidate], request: Request, matrix: Matrix) -> words.Commands:
    if wheel is None or wheel.build is None or wheel.install is None:
        return words.Commands()
    supported = pythons_of(wheel, matrix)
    wanted = python_wanted(request.python) if request.python else ""
    python = wanted if wanted in supported else supported[0] if supported else ""
    paired, _ = companions(wheel.build, wheel.install, python, matrix)
    local = _local(wheel.install, wheel.build)
    pins = (
        _fill(wheel.install.requirement, wheel.build),
        *(f"{row.package}=={row.version}{local}" for row in paired),
        *(required(wheel.build, wheel.install) if wheel.install.requires else ()),
    )
    return commands_for(wheel, python, pins, _bounds(wheel.build, wheel.install), request)


def _fill(template: str, build: Build) -> str:
    return template.format(version=build.version, variant=build.variant)


def _local(install: Install, build: Build) -> str:
    return f"+{build.variant}" if "+{variant}" in install.requirement else ""


def required(build: Build, install: Install) -> tuple[str, ...]:
    """The pins that the build's extra would bring, less those that the install row leaves out."""
    return tuple(text for text in build.requires if name_of(text) not in install.without)


def _bounds(build: Build, install: Install) -> tuple[str, ...]:
    bounds = list(install.bounds)
    if build.numpy2 is False and not any(name_of(text) == "numpy" for text in bounds):
        bounds.append("numpy<2")
    if not any(name_of(text) == "numpy" for text in bounds) and build.numpy2 is not None:
        bounds.append("numpy")
    return tuple(bounds)


def _packages(request: Request, matrix: Matrix) -> tuple[tuple[str, ...], tuple[str, ...]]:
    ordinary = tuple(text for text in request.packages if not compiles(text, matrix))
    return ordinary, tuple(text for text in request.packages if compiles(text, matrix))


def _check_packages(packages: tuple[str, ...], pins: tuple[str, ...]) -> None:
    """Refuse a package that would replace a pin: the plan's own word is the one that was judged."""
    pinned = {name_of(text): text for text in pins}
    for text in packages:
        pin = pinned.get(name_of(text))
        if pin is None:
            continue
        wanted = SpecifierSet(_after_name(text))
        version = pin.partition("==")[2]
        if version and not wanted.contains(version, prereleases=True):
            raise Unsatisfiable(
                f"{text} contradicts the plan, which has {pin}", f"Leave {name_of(text)} out of --with."
            )


def _after_name(text: str) -> str:
    for index, letter in enumerate(text):
        if letter in "<>=!~":
            return text[index:]
    return ""


def _wheel_choices(
    candidate: Candidate, base: Base, why: str, paired: list[Companion], bounds: tuple[str, ...], request: Request
) -> Iterator[Choice]:
    build, install = candidate.build, candidate.install
    assert build is not None
    assert install is not None
    yield Choice("base", base.reference, why, _of_row("cuda_images", base.row))
    yield Choice("flavour", base.row.flavour, words.why_flavour(base.row.flavour, install, request), install.source)
    newest = f"newest release of {request.version}" if request.version else "newest release"
    why_release = "asked for" if request.patch_asked else newest
    yield Choice(candidate.framework, _with_variant(build), why_release, build.source)
    yield Choice("cuda", words.cuda_of(candidate, base), words.why_cuda(build, request), build.source)
    yield Choice("python", base.python.version, words.why_python(base, request), base.source.source)
    for row in paired:
        yield Choice(row.package, row.version, f"made for {build.package} {build.version}", row.source)
    for text in bounds:
        yield Choice(name_of(text), text, "the release needs it" if text != name_of(text) else "", install.source)
    if install.index:
        yield Choice(
            "index", install.index.format(variant=build.variant), "where the variant is published", install.source
        )


def _image_choices(candidate: Candidate, request: Request) -> Iterator[Choice]:
    row = candidate.image
    assert row is not None
    wanted = f"{candidate.framework} {candidate.release} and CUDA {versions.minor(candidate.cuda)}"
    yield Choice("base", row.reference, f"newest NGC image with {wanted}", row.source)
    yield Choice(candidate.framework, candidate.version, "NVIDIA's pre-release build", row.source)
    yield Choice("cuda", row.cuda or "", "of the image", row.source)
    if row.cudnn:
        yield Choice("cudnn", row.cudnn, "of the image", row.source)
    if row.python:
        yield Choice("python", row.python, "of the image", row.source)


def _with_variant(build: Build) -> str:
    return f"{build.version}+{build.variant}" if versions.cuda_from_tag(build.variant) else build.version


def _of_row(subject: str, row: CudaImage) -> str:
    return f"matrices/{subject}.toml: {row.source} ({row.status}, {row.status_as_of})"
