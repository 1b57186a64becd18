"""The gate: judges all that the settings name against every target."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck import __version__
from envcheck.errors import EnvcheckError, UsageError
from envcheck.gate_verdict import settle
from envcheck.inspection import Description, ImageOptions, Inspection
from envcheck.machines import describe_machine, pair
from envcheck.model.fact import known
from envcheck.model.finding import SEVERITIES, Tool
from envcheck.model.gate import HOST, MACHINE, Cell, Gate, summarise
from envcheck.model.machine import Driver, Machine
from envcheck.model.need import Need
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.pipeline import judge
from envcheck.rules import find_rule, select_rules
from envcheck.settings import Project, lowest
from envcheck.targets import inspect_files, inspect_target

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

THIS = ("this", "host")
MAGIC = frozenset("*?[")
KINDS = {"dockerfiles": "dockerfile", "requirements": "requirements"}


class How(msgspec.Struct, frozen=True):
    """What the command line says besides the settings; `today` decides which ignores have expired."""

    today: dt.date
    files: tuple[Path, ...] = ()  # instead of all that the settings name
    targets: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: Optional[str] = None
    require_gpu: bool = False
    python: Optional[str] = None
    deadline: float = 20.0
    known: frozenset[str] = frozenset()  # fingerprints of the baseline


class Target(msgspec.Struct, frozen=True):
    """A column: its name and what is known of it; `failure` says why nothing is."""

    name: str
    snap: Optional[Snapshot] = None
    failure: str = ""


class Row(msgspec.Struct, frozen=True):
    """A row: a file's container or an image; `failure` says why it could not be read."""

    name: str
    snap: Optional[Snapshot] = None
    failure: str = ""


def run_gate(project: Project, matrix: Matrix, how: How) -> Gate:
    """Every row on every column; without targets the files are judged by themselves. Raises UsageError."""
    _hold_names(project)
    targets = [_target(name, project.need, how, matrix) for name in _target_names(project, how)]
    rows = list(_rows(project, matrix, how))
    if not rows and not targets and not project.settings.images:
        targets = [_target("this", project.need, how, matrix)]
    cells: list[Cell] = []
    if targets and (how.require_gpu or not how.files):
        cells += [
            _machine_cell(target, bool(rows or project.settings.images), project, matrix, how) for target in targets
        ]
    columns: list[Optional[Target]] = [*targets] or [None]
    cells += [_cell(row, target, project, matrix, how) for row in rows for target in columns]
    for image in () if how.files else dict.fromkeys(project.settings.images):
        # An index has an image for each CPU architecture: each target gets its own, asked for once.
        by_arch = {arch: _image(image, arch, how, matrix) for arch in dict.fromkeys(map(_arch, columns))}
        cells += [_cell(by_arch[_arch(target)], target, project, matrix, how) for target in columns]
    expired = project.expired(how.today)
    if expired:
        need = Need(expired=expired, path=project.need.path, line=project.need.line)
        snap = Snapshot(origin=Origin("settings", project.need.path), wants=Wants(need=need))
        cells.append(_judged(project.need.path, "", snap, project, matrix, how, select=("SET201",)))
    fail_on = how.fail_on or project.settings.fail_on
    tool = Tool("envcheck", __version__)
    return Gate(1, tool, project.need.path, fail_on, tuple(cells), summarise(cells))


def _hold_names(project: Project) -> None:
    """Every rule that the settings name is one; an ignore that covers nothing would be a promise about nothing."""
    select_rules((), [entry.rule for entry in project.settings.ignore])
    for name in project.settings.severity:
        find_rule(name)


def exit_code(gate: Gate) -> int:
    """0 clean · 1 findings at or above `fail_on` · 3 something could not be judged."""
    counted = SEVERITIES[: SEVERITIES.index(gate.fail_on) + 1] if gate.fail_on in SEVERITIES else ()
    if any(getattr(gate.summary, severity) for severity in counted):
        return 1
    return 3 if gate.summary.unknown else 0


def _target_names(project: Project, how: How) -> list[str]:
    names = list(how.targets or project.settings.targets)
    if how.require_gpu and not any(name in THIS for name in names):
        names.insert(0, "this")
    return list(dict.fromkeys(names))


def _target(name: str, need: Need, how: How, matrix: Matrix) -> Target:
    shown = HOST if name in THIS else name
    try:
        if name in THIS:
            return Target(shown, inspect_target(None, _inspection(how), matrix))
        path = Path(name)
        if path.is_file():
            return Target(shown, inspect_target(f"file:{name}", _inspection(how), matrix))
        machine = _promised(describe_machine(Description(on=name), matrix, lambda: None), need, matrix)
        return Target(shown, Snapshot(origin=Origin("machine", name), machine=machine))
    except UsageError:
        raise  # a wrong name in the settings is the settings' fault
    except EnvcheckError as failure:
        return Target(shown, failure=str(failure))


def _promised(machine: Machine, need: Need, matrix: Matrix) -> Machine:
    """A cloud type boots with the driver of its image, which nobody knows here. What the settings require is a promise
    about it: the lowest driver that keeps it is what everything must run on."""
    floor = lowest(need.driver)
    if machine.driver.known or not floor:
        return machine
    source = f"{need.path}: require.driver, the lowest"
    cuda = matrix.driver_cuda(floor, machine.os.find() or "linux")
    return msgspec.structs.replace(
        machine, driver=known(Driver(floor, cuda=cuda, source=source), source), driver_fault=known(None, source)
    )


def _inspection(how: How) -> Inspection:
    return Inspection(python=how.python, deadline=how.deadline)


def _rows(project: Project, matrix: Matrix, how: How) -> Iterator[Row]:
    settings = project.settings
    named = {"dockerfiles": settings.dockerfiles, "requirements": settings.requirements, "files": settings.files}
    if how.files:
        found = {"files": list(how.files)}
    else:
        found = {key: _files(key, patterns, project) for key, patterns in named.items()}
    for key, paths in found.items():
        for path in paths:
            shown = _shown(path)
            try:
                snaps = inspect_files(path, _inspection(how), matrix, name=shown, kind=KINDS.get(key, ""))
            except EnvcheckError as failure:
                yield Row(shown, failure=str(failure))
                continue
            for snap in snaps:
                service = snap.recipe.service if snap.recipe and len(snaps) > 1 else ""
                yield Row(f"{shown} ({service})" if service else shown, snap)


def _arch(target: Optional[Target]) -> str:
    told = target.snap.machine.arch.find() if target is not None and target.snap is not None else None
    return told or ImageOptions().arch


def _image(image: str, arch: str, how: How, matrix: Matrix) -> Row:
    try:
        looks = msgspec.structs.replace(_inspection(how), image=ImageOptions(arch, how.deadline))
        return Row(image, inspect_target(f"image:{image}", looks, matrix))
    except UsageError:
        raise  # no such tag: the settings' fault
    except EnvcheckError as failure:
        return Row(image, failure=str(failure))


def _files(key: str, patterns: Iterable[str], project: Project) -> list[Path]:
    """The files of the patterns, once each and sorted within a pattern. A pattern without any is an error: what the
    settings name and nobody looked at must not pass."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        if Path(pattern).is_absolute():
            paths = [Path(pattern)] if not MAGIC & set(pattern) else []
        elif MAGIC & set(pattern):
            paths = sorted(project.folder.glob(pattern))
        else:
            paths = [project.folder / pattern]
        paths = [path for path in paths if path.is_file()]
        if not paths:
            raise UsageError(
                f"{project.need.path}: {key}: no file is called {pattern!r}", "Mend the pattern, or take it out."
            )
        found.update(dict.fromkeys(paths))
    return list(found)


def _shown(path: Path) -> str:
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _machine_cell(target: Target, with_rows: bool, project: Project, matrix: Matrix, how: How) -> Cell:
    """The machine by itself: all of its snapshot, or where files will run on it only what they can't change."""
    if target.snap is None:
        return Cell(MACHINE, target.name, failure=target.failure)
    snap, need = target.snap, project.need
    if with_rows or not snap.stack.packages.known:
        need = need.of_machine()
        snap = Snapshot(origin=snap.origin, machine=snap.machine, events=snap.events)
    wants_gpu = how.require_gpu and target.name == HOST
    asks = bool(need.gpu or need.features) or wants_gpu
    snap = _with_need(snap, need, gpu=asks or None)
    return _judged(MACHINE, target.name, snap, project, matrix, how)


def _cell(row: Row, target: Optional[Target], project: Project, matrix: Matrix, how: How) -> Cell:
    where = target.name if target else ""
    if row.snap is None:
        return Cell(row.name, where, failure=row.failure)
    if target is not None and target.snap is None:
        return Cell(row.name, where, failure=target.failure)
    snap = row.snap
    if target is not None and target.snap is not None:
        snap = pair(snap, target.snap.machine, target.name)
    return _judged(row.name, where, _with_need(snap, project.need.of_stack()), project, matrix, how)


def _with_need(snap: Snapshot, need: Need, gpu: Optional[bool] = None) -> Snapshot:
    wants = msgspec.structs.replace(snap.wants, need=need)
    if gpu:
        wants = msgspec.structs.replace(wants, gpu=True, source=f"{need.path}: require.gpu")
    return msgspec.structs.replace(snap, wants=wants)


def _judged(
    what: str, where: str, snap: Snapshot, project: Project, matrix: Matrix, how: How, select: tuple[str, ...] = ()
) -> Cell:
    report = judge(
        snap, matrix, select=select or how.select or project.settings.select, ignore=how.ignore if not select else ()
    )
    return Cell(what, where, settle(report, what, where, project.settings, how.today, how.known))
