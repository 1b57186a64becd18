"""A devcontainer.json to a snapshot."""

from __future__ import annotations

import json
import re
from typing import Optional

from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Base
from envcheck.model.snapshot import Snapshot
from envcheck.readers.dockerfile import read_dockerfile
from envcheck.readers.services import DEFAULT_SHM, OpenFile, container_snapshot, parse_size

_JSONC = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*(?:(?://[^\n]*\n|/\*.*?\*/)\s*)*[}\]])', re.DOTALL
)


def strip_jsonc(text: str) -> str:
    """JSON with comments and trailing commas to JSON of the same lines."""

    def plain(match: re.Match[str]) -> str:
        piece = match.group()
        if piece.startswith('"'):
            return piece
        return "\n" * piece.count("\n")

    return _JSONC.sub(plain, text)


def read_devcontainer(text: str, *, name: str, open_file: Optional[OpenFile] = None) -> Snapshot:
    """The snapshot of a devcontainer.json. Raises ValueError."""
    plain = strip_jsonc(text)
    document = json.loads(plain)
    if not isinstance(document, dict):
        raise ValueError("no object")  # noqa: TRY004 - of the file, not of the caller

    def at(key: str) -> str:
        found = next((n for n, line in enumerate(plain.splitlines(), 1) if f'"{key}"' in line), 1)
        return f"{name}:{found}"

    arguments = [str(argument) for argument in document.get("runArgs") or ()]
    requirements = document.get("hostRequirements") if isinstance(document.get("hostRequirements"), dict) else {}
    gpu = requirements.get("gpu") if isinstance(requirements, dict) else None
    flagged = any(a.startswith(("--gpus", "--runtime=nvidia")) or "nvidia.com/gpu" in a for a in arguments)
    asked = flagged or bool(gpu)
    why = at("runArgs") if flagged or not gpu else at("gpu")
    build = document.get("build") if isinstance(document.get("build"), dict) else {}
    file = str(build.get("dockerfile") or document.get("dockerFile") or "") if isinstance(build, dict) else ""
    inner, remarks = None, []
    if file:
        content = open_file(file) if open_file else None
        if content is None:
            remarks.append(f"{name}: {file} was not read")
        else:
            place = f"{name.rpartition('/')[0]}/{file}" if "/" in name else file
            inner = read_dockerfile(content, name=place, open_file=open_file)
    reference = str(document.get("image") or "")
    base = Base(reference, reference, "", at("image")) if reference else None
    environment = document.get("containerEnv") or {}
    env = {str(k): str(v) for k, v in environment.items()} if isinstance(environment, dict) else {}
    ipc_host = "--ipc=host" in arguments or ("--ipc" in arguments and "host" in arguments)
    shm_text = next((a.partition("=")[2] for a in arguments if a.startswith("--shm-size=")), None)
    shm: Fact[int] = not_told("/dev/shm size")
    size = parse_size(shm_text) if shm_text else DEFAULT_SHM
    if not ipc_host and size is not None:
        shm = known(size, at("runArgs") if shm_text else f"{name}:1 (the engine's default)")
    return container_snapshot(
        "devcontainer", "devcontainer", f"{name}:1", name, base, inner, env, asked, why, shm, ipc_host, remarks
    )
