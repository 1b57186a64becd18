"""Files that describe an environment: told by name and by content, and read into one snapshot a container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import msgspec

from envcheck.errors import InspectError
from envcheck.model.snapshot import Snapshot
from envcheck.readers import conda_env, dockerfile, locks, requirements, services

OpenFile = Callable[[str], Optional[str]]
KINDS = ("devcontainer", "compose", "pod", "dockerfile", "lock", "conda", "requirements")


class FileOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the command line says of a file: the Python to judge it for, build arguments, the target stage."""

    python: str = ""
    args: dict[str, str] = {}
    target: str = ""


PLAIN = FileOptions()


def recognise(text: str, name: str) -> Optional[str]:
    """One of KINDS, or None for a report or anything else."""
    service = services.recognises(text, name)
    if service:
        return service
    if dockerfile.recognises(text, name):
        return "dockerfile"
    if conda_env.recognises(text, name):
        return "conda"
    if locks.recognises(text, name):
        return "lock"
    if requirements.recognises(text, name):
        return "requirements"
    return None


def read_file(
    text: str, *, name: str, kind: str, options: FileOptions = PLAIN, open_file: Optional[OpenFile] = None
) -> list[Snapshot]:
    """The snapshots of a file of `kind`. Raises InspectError for a file that can't be read as what it is."""
    try:
        found = _read(text, name, kind, options, open_file)
    except (ValueError, RecursionError) as fault:  # DockerfileError, YamlError, LockError, JSONDecodeError
        reason = str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
        raise InspectError(f"{name} can't be read as a {_called(kind)}: {reason}", "Mend the file.") from None
    if not found:
        raise InspectError(f"{name} describes no container", "Name a file that does.")
    return found


def _read(text: str, name: str, kind: str, options: FileOptions, open_file: Optional[OpenFile]) -> list[Snapshot]:
    if kind == "dockerfile":
        snap = dockerfile.read_dockerfile(
            text, name=name, args=options.args, target=options.target, python=options.python, open_file=open_file
        )
        return [snap]
    if kind == "compose":
        from envcheck.readers.compose import read_compose

        return read_compose(text, name=name, env=options.args, open_file=open_file)
    if kind == "pod":
        from envcheck.readers.kubernetes import read_pod

        return read_pod(text, name=name)
    if kind == "devcontainer":
        from envcheck.readers.devcontainer import read_devcontainer

        return [read_devcontainer(text, name=name, open_file=open_file)]
    if kind == "conda":
        return [conda_env.read_conda(text, name=name, python=options.python)]
    if kind == "lock":
        return [locks.read_lock(text, name=name, python=options.python)]
    return [requirements.read_requirements(text, name=name, python=options.python, open_file=open_file)]


def _called(kind: str) -> str:
    return {
        "dockerfile": "Dockerfile",
        "compose": "compose file",
        "pod": "Kubernetes object",
        "devcontainer": "devcontainer.json",
        "conda": "conda environment",
        "lock": "lock file",
    }.get(kind, "requirements file")
