"""SET: what the project's settings require of a stack, against what is there, and the settings' own faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.need import UNMET, meets, place_of, problem
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Package


def _accelerated(snap: Snapshot, matrix: Matrix, detail: str) -> Iterator[tuple[Package, str]]:
    """(package, version) for every installed package whose build tells its CUDA or cuDNN."""
    for package in snap.stack.packages.find() or ():
        value = getattr(package, detail)
        if not value and package.version and package.pinned:
            build = matrix.build(package.name, package.version, package.variant)
            value = getattr(build, detail) if build else None
        if value:
            yield package, value


@rule("SET101", "package-not-as-required", "error", cause=UNMET, rank=70)
def package_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A package is missing, or of another release than the settings require.

    Why: the project was tested with the releases that `require` names.
    How: the installed (or pinned) version against the specifier. A file that doesn't name the package says nothing;
    an environment or image whose package list is whole must have it. A range is not judged: the resolver may pick any.
    Fix: install the release, or widen the requirement.
    Sources: PEP 440; docs/settings.md.
    """
    need = snap.wants.need
    if need is None or not need.packages:
        return
    packages = snap.stack.packages.get()
    open_questions = []
    for name, wanted in need.packages.items():
        here = [package for package in packages if package.name == name]
        if not here and snap.recipe is None:
            if not snap.stack.complete.get():
                open_questions.append(f"{name}: the package list is not whole")
                continue
            yield problem(
                need, f"require.{name}", wanted, (name, "", snap.stack.packages.source), _install(name, wanted)
            )
        for package in here:
            met = meets(wanted, package.version) if package.version and package.pinned else None
            if met is None:
                open_questions.append(f"{name}: {package.requirement or 'its version'} is not one release")
            elif not met:
                yield problem(
                    need,
                    f"require.{name}",
                    wanted,
                    (name, package.version or "", package.source),
                    _install(name, wanted),
                    place=place_of(package.source, snap),
                )
    if open_questions:
        raise UnknownFact("; ".join(open_questions))


def _install(name: str, wanted: str) -> str:
    return f"pip install '{name}{wanted}'"


@rule("SET102", "cuda-not-as-required", "error", cause=UNMET, rank=70)
def cuda_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The frameworks, or the image, bring another CUDA than the settings require.

    Why: kernels and extensions of the project were built for the CUDA that `require.cuda` names.
    How: the CUDA that each framework was built for; where none says, the CUDA of the image or system.
    Fix: install the builds for that CUDA, or take an image with it.
    Sources: matrices/builds (the CUDA of every build); docs/settings.md.
    """
    yield from _library(snap, matrix, "cuda", "CUDA")


@rule("SET103", "cudnn-not-as-required", "error", cause=UNMET, rank=70)
def cudnn_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The frameworks, or the image, bring another cuDNN than the settings require.

    Why: cuDNN majors are not compatible with each other.
    How: the cuDNN that each framework was built for; where none says, the cuDNN of the image or system.
    Fix: install the builds with that cuDNN, or take an image with it.
    Sources: matrices/builds (the cuDNN of every build); docs/settings.md.
    """
    yield from _library(snap, matrix, "cudnn", "cuDNN")


def _library(snap: Snapshot, matrix: Matrix, detail: str, called: str) -> Iterator[Problem]:
    need = snap.wants.need
    wanted = getattr(need, detail) if need else ""
    if need is None or not wanted:
        return
    told = list(_accelerated(snap, matrix, detail))
    for package, value in told:
        if meets(wanted, value) is False:
            who = f"{package.name} {package.version or ''}".strip()
            yield problem(
                need,
                f"require.{detail}",
                wanted,
                (called, value, f"{who}, {package.source}" if package.source else who),
                f"install a build of {package.name} for {called} {wanted}",
                message=f"the settings require {called} {wanted}, and {who} is built for {value}",
                place=place_of(package.source, snap),
            )
    if told:
        return
    fact = getattr(snap.stack, detail)
    value = fact.get()
    if value is None and snap.recipe is not None:
        return  # a file that brings none says nothing of where it will run
    if value is None or meets(wanted, value) is False:
        yield problem(
            need,
            f"require.{detail}",
            wanted,
            (called, value or "", fact.source),
            f"take an image or install packages with {called} {wanted}",
            place=place_of(fact.source, snap),
        )


@rule("SET104", "python-not-as-required", "error", cause=UNMET, rank=70)
def python_not_as_required(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Python is of another release than the settings require.

    Why: wheels are built for each Python; the project was tested with these.
    How: the interpreter of the environment or image against `require.python`.
    Fix: make the environment with a Python that fits.
    Sources: PEP 440; docs/settings.md.
    """
    need = snap.wants.need
    if need is None or not need.python:
        return
    python = snap.stack.python.get()
    if python is None:
        yield problem(
            need, "require.python", need.python, ("Python", "", snap.stack.python.source), _python(need.python)
        )
        return
    met = meets(need.python, python.version) if python.version else None
    if met is None:
        raise UnknownFact("Python version: not told")
    if not met:
        source = snap.stack.python.source
        yield problem(
            need,
            "require.python",
            need.python,
            ("Python", python.version or "", source),
            _python(need.python),
            place=place_of(source, snap),
        )


def _python(wanted: str) -> str:
    return f"make the environment with Python {wanted}"


@rule("SET201", "ignore-expired", "warning", cause="ignore-expired", rank=90)
def ignore_expired(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """An ignore of the settings has passed its date, and ignores nothing any more.

    Why: an ignore is a promise to come back by a date.
    How: `until` of each ignore against the day of the check.
    Fix: mend what was ignored and delete the entry, or set a new date with a reason that still holds.
    Sources: docs/settings.md.
    """
    need = snap.wants.need
    for entry in need.expired if need else ():
        yield Problem(
            message=f"the ignore of {entry.rule} ended on {entry.until}",
            subject=entry.rule,
            evidence=(Evidence("reason", entry.reason, f"{need.path}: ignore" if need else ""),),
            fix=("mend what was ignored and delete the entry", "set a new date, if the reason still holds"),
            path=need.path if need else "",
            line=entry.line or (need.line if need else None),
        )
