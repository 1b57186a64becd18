"""What `doctor TARGET` may name, told apart by prefix, file or shape, and how each becomes a snapshot."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck.errors import InspectError, UsageError
from envcheck.inspection import Description, Inspection
from envcheck.model.fact import known
from envcheck.model.snapshot import Event, Origin, Snapshot
from envcheck.model.stack import Python

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

MAX_REPORT_BYTES = 64 * 2**20
MAX_FILE_BYTES = 4 * 2**20
HERE = (None, "this", "host", ".")
PYTHON_VERSION = re.compile(r"3\.\d{1,2}(\.\d+)?")


def inspect_target(target: Optional[str], how: Inspection, matrix: Matrix) -> Snapshot:
    """The snapshot of `target` (None: this host); of a file with several containers the first that asks for GPUs."""
    return main_snapshot(inspect_targets(target, how, matrix))


def main_snapshot(snaps: Sequence[Snapshot]) -> Snapshot:
    """The snapshot that stands for all: the first that asks for GPUs, else the first."""
    return next((snap for snap in snaps if snap.recipe and snap.recipe.gpus_asked), snaps[0])


def inspect_targets(target: Optional[str], how: Inspection, matrix: Matrix) -> list[Snapshot]:
    """The snapshots of `target`: one, or one a container of a compose or Kubernetes file, on the machine that was
    named. Raises UsageError or InspectError."""
    if target and target.startswith("container:") and not how.machine.said:
        # A container of this machine's engine runs on this machine.
        how = msgspec.structs.replace(how, machine=Description(on="this"))
    if not how.machine.said:
        return [_asking(_completed(snap, matrix)) for snap in _look(target, how, matrix)]
    from envcheck.machines import describe_machine, machine_name, pair

    said = how.machine
    here = target in HERE and not said.on
    found = _look(target, how, matrix) if here else []
    # This host, but with another driver or GPU: what if?
    said_fully = msgspec.structs.replace(said, on="this") if here else said
    machine = describe_machine(said_fully, matrix, lambda: found[0] if here else inspect_this(how, matrix))
    if not here:
        if arch := machine.arch.find():
            how = msgspec.structs.replace(how, image=msgspec.structs.replace(how.image, arch=arch))
        found = _look(target, how, matrix)
    return [_asking(_completed(pair(snap, machine, machine_name(said)), matrix)) for snap in found]


def _asking(snap: Snapshot) -> Snapshot:
    """With a remark that says which words of the command line would settle what is open."""
    machine = snap.machine
    if snap.origin.kind == "image" and not (machine.gpus.known or machine.driver.known):
        text = "On which machine? --on this, a snapshot or a cloud type (envcheck machines); or --gpu and --driver"
    elif snap.recipe is None and snap.origin.kind != "image":
        return snap
    elif machine.driver.known and not machine.gpus.known and machine.driver.source == "--driver":
        text = "The GPU of this machine isn't told, and it decides: --gpu NAME"
    else:
        return snap
    return msgspec.structs.replace(snap, remarks=(*snap.remarks, text))


def _completed(snap: Snapshot, matrix: Matrix) -> Snapshot:
    """With what the matrix knows of its image and its ranges; a host has neither."""
    if snap.recipe is None and not snap.stack.image.find():
        return snap
    from envcheck.expected import complete

    return complete(snap, matrix)


def _look(target: Optional[str], how: Inspection, matrix: Matrix) -> list[Snapshot]:
    if target in HERE:
        return [inspect_this(how, matrix)]
    assert target is not None
    if target == "-":
        return [read_paste(_read_stdin(), "standard input", matrix)]
    from envcheck import image_targets as images

    kind, colon, rest = target.partition(":")
    if colon and kind == "container":
        return [images.inspect_container(rest, how.image)]
    if colon and kind == "image":
        return [images.inspect_image(rest, how.image, matrix)]
    if colon and kind == "local":
        found = images.find_local(rest)
        if found is None:
            raise UsageError(f"no local engine has an image {rest!r}", "See `docker images`.")
        return [found]
    path = Path(rest if colon and kind == "file" else target)
    if path.exists() or (colon and kind == "file"):
        return _read_target(path, how, matrix, str(path))
    if images.looks_like_image(target):
        return [images.inspect_image(target, how.image, matrix)]
    found = images.find_local(target) if not images.FILE_NAMES.search(target) and "/" not in target else None
    if found is None:
        raise images.no_such(target, matrix)
    return [found]


def inspect_this(how: Inspection, matrix: Matrix) -> Snapshot:
    """The live host or the container that we stand in."""
    from envcheck.probes.inspect import inspect_host

    names = frozenset(matrix.packages())
    snap = inspect_host(python=how.python, known=names, deadline=how.deadline, binaries=True)
    return _proved(snap, matrix) if how.run else snap


def _proved(snap: Snapshot, matrix: Matrix) -> Snapshot:
    """With what became of small computations in the environment's own interpreter, and what their output tells."""
    from envcheck.probes.proof import prove
    from envcheck.readers.detect import read_report

    proof = prove(snap, env=os.environ)
    if proof is None:
        remark = "Nothing was run: the environment has no Python, or no framework that can be asked to compute."
        return msgspec.structs.replace(snap, proof=known(None, "--run"), remarks=(*snap.remarks, remark))
    if snap.machine.gpus.known and not any(gpu.vendor == "nvidia" for gpu in snap.machine.gpus.value or ()):
        # No GPU to compute on: that is said by its own rule; a framework that can't even be imported is still a fault.
        checks = tuple([check for check in proof.checks if check.name == "import"])
        bad = any(check.state != "ok" for check in checks)
        proof = msgspec.structs.replace(proof, checks=checks, log=proof.log if bad else "")
    events: tuple[Event, ...] = ()
    if proof.log.strip():
        try:
            told = read_report(proof.log, name="the computations", symptoms=matrix.symptoms).events
        except InspectError:  # nothing in it that anybody knows
            told = ()
        events = tuple([msgspec.structs.replace(event, source=f"--run, {event.source}") for event in told])
    done = [check for check in proof.checks if check.state == "ok" and check.gpu is not None]
    gpus = len({check.gpu for check in done})
    remark = (
        f"Run: {len(done)} computations on {gpus} GPU{'s' if gpus > 1 else ''} agree with the CPU's results."
        if proof.passed
        else "Run: no computation was done on a GPU."
        if not done
        else f"Run: {len(done)} computations on GPUs agreed, not all did."
    )
    return msgspec.structs.replace(
        snap, proof=known(proof, proof.python), events=(*snap.events, *events), remarks=(*snap.remarks, remark)
    )


def inspect_files(path: Path, how: Inspection, matrix: Matrix, *, name: str = "", kind: str = "") -> list[Snapshot]:
    """A file's snapshots, completed by the matrix and on no machine but its own; `name` is what reports call it.

    `kind` is what the file is, where the caller knows it ('dockerfile', 'requirements'): then it isn't guessed.
    """
    return [_completed(snap, matrix) for snap in _read_target(path, how, matrix, name or str(path), kind)]


def _read_target(path: Path, how: Inspection, matrix: Matrix, name: str, told: str = "") -> list[Snapshot]:
    """A file: a saved snapshot, a file that describes an environment, or a pasted report or log."""
    data = _read_file(path)
    from envcheck.machines import decode_snapshot

    saved = decode_snapshot(data)
    if saved is not None:
        return [saved]
    text = decode(data, name) if data.strip() else ""
    from envcheck.readers.files import FileOptions, read_file, recognise

    kind = told or recognise(text, name)
    if kind is None:
        return [read_paste(data, name, matrix)]
    version = how.python if how.python and PYTHON_VERSION.fullmatch(how.python) else ""
    options = FileOptions(version, how.args, how.stage)
    found = read_file(text, name=name, kind=kind, options=options, open_file=_beside(path))
    if version:
        found = [_for_python(snap, version) for snap in found]
    if not how.online:
        return found
    from envcheck.image_targets import with_image
    from envcheck.online import resolve_online

    found = [with_image(snap, how.image, matrix) for snap in found]
    return [resolve_online(snap, matrix, how.deadline) for snap in found]


def _for_python(snap: Snapshot, version: str) -> Snapshot:
    stack = msgspec.structs.replace(snap.stack, python=known(Python(version), "--python"))
    return msgspec.structs.replace(snap, stack=stack)


def _beside(path: Path) -> Callable[[str], Optional[str]]:
    """A reader of files that `path` names: within its own folder's tree only, and of a sane size."""
    folder = path.parent.resolve()

    def read(name: str) -> Optional[str]:
        try:
            other = (folder / name).resolve()
            if folder != other and folder not in other.parents and path.parent.name != ".devcontainer":
                return None
            if not other.is_file() or other.stat().st_size > MAX_FILE_BYTES:
                return None
            return other.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            return None

    return read


def read_paste(data: bytes, name: str, matrix: Matrix) -> Snapshot:
    """Pasted text in any encoding, by the readers."""
    from envcheck.readers.detect import read_report

    text = decode(data, name)
    try:
        return read_report(text, name=name, symptoms=matrix.symptoms)
    except InspectError as nothing:
        # A report all the same, in every format: it says what was tried, and that nothing is known.
        return Snapshot(origin=Origin("report", name), remarks=(f"{nothing}.", nothing.what_to_do))


def decode(data: bytes, name: str) -> str:
    """Text of unknown encoding; raises InspectError for what is no text at all."""
    if not data.strip():
        raise InspectError(
            f"{name} is empty", "Paste the output of `python -m torch.utils.collect_env` or of nvidia-smi."
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    sample = data[:65536]
    strange = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    if strange > len(sample) // 10:
        raise InspectError(f"{name} is a binary file, not a report", "Give the text that a tool printed.")
    return data.decode("utf-8-sig", "replace")


def _read_file(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", "Name a file in it.")
        with path.open("rb") as stream:
            data = stream.read(MAX_REPORT_BYTES + 1)
    except OSError as failure:
        raise UsageError(f"can't read {path}: {failure.strerror}", "Check the name and your permission.") from failure
    return _capped(data, str(path))


def _read_stdin() -> bytes:
    return _capped(sys.stdin.buffer.read(MAX_REPORT_BYTES + 1), "standard input")


def _capped(data: bytes, name: str) -> bytes:
    if len(data) > MAX_REPORT_BYTES:
        raise InspectError(
            f"{name} is larger than {MAX_REPORT_BYTES // 2**20} MB", "Cut it to the lines around the error."
        )
    return data
