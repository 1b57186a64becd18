"""A compose file to snapshots, one a service."""

from __future__ import annotations

import re
from typing import Any, Optional

from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Base
from envcheck.model.snapshot import Snapshot
from envcheck.readers.dockerfile import read_dockerfile
from envcheck.readers.dockerfile_grammar import DockerfileError
from envcheck.readers.services import DEFAULT_SHM, OpenFile, container_snapshot, parse_size
from envcheck.readers.shell_steps import expand
from envcheck.readers.yaml_lines import Node, load_all, mapping, sequence


def read_compose(
    text: str, *, name: str, env: Optional[dict[str, str]] = None, open_file: Optional[OpenFile] = None
) -> list[Snapshot]:
    """One snapshot a service. Raises YamlError."""
    document = mapping(next(iter(load_all(text)), None))
    services = mapping(document.get("services"))
    variables = {**_dotenv(open_file(".env") if open_file else None), **(env or {})}
    return [
        _service(str(service), mapping(body), services.lines.get(service, 1), name, variables, open_file)
        for service, body in services.items()
    ]


def _dotenv(text: Optional[str]) -> dict[str, str]:
    """The variables of the .env file beside a compose file."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines()[:5000]:
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", line)
        if match:
            found[match.group(1)] = re.sub(r"^(['\"])(.*)\1$", r"\2", match.group(2))
    return found


def _service(
    service: str, body: Node, line: int, name: str, env: dict[str, str], open_file: Optional[OpenFile]
) -> Snapshot:
    def at(key: str) -> str:
        return f"{name}:{body.lines.get(key, line)}"

    asked, why = _compose_gpus(body, name, line)
    environment = _environment(body.get("environment"), env)
    ipc = str(body.get("ipc", ""))
    shm_told = body.get("shm_size")
    size = parse_size(shm_told) if shm_told is not None else DEFAULT_SHM
    shm: Fact[int] = not_told("/dev/shm size")
    if ipc != "host" and size is not None:
        shm = known(size, at("shm_size") if shm_told is not None else f"{name}:{line} (the engine's default)")
    reference = expand(str(body["image"]), env) if body.get("image") else ""
    platform = str(body.get("platform", ""))
    inner, remarks = _built(body, name, open_file)
    base = Base(reference, str(body.get("image", "")), platform, at("image")) if reference and inner is None else None
    return container_snapshot(
        "compose", service, f"{name}:{line}", name, base, inner, environment, asked, why, shm, ipc == "host", remarks
    )


def _compose_gpus(body: Node, name: str, line: int) -> tuple[bool, str]:
    """Does the service ask for GPUs, and where does it, or where would it?"""
    if body.get("gpus"):
        return True, f"{name}:{body.lines['gpus']}"
    if str(body.get("runtime", "")).startswith("nvidia"):
        return True, f"{name}:{body.lines['runtime']}"
    devices = sequence(body.get("devices"))
    if any(re.search(r"nvidia|/dev/dri|/dev/kfd|\.com/gpu", str(device)) for device in devices):
        return True, f"{name}:{body.lines['devices']}"
    deploy = mapping(body.get("deploy"))
    reservations = mapping(mapping(deploy.get("resources")).get("reservations"))
    wanted = sequence(reservations.get("devices"))
    for device in wanted:
        row = mapping(device)
        kinds = [str(kind) for kind in sequence(row.get("capabilities"))]
        if "gpu" in kinds or str(row.get("driver", "")) == "nvidia" or "gpu" in str(row.get("device_ids", "")):
            return True, f"{name}:{wanted.line}"
    if any(
        "gpu" in str(mapping(row).get("discrete_resource_spec", "")).lower()
        for row in sequence(reservations.get("generic_resources"))
    ):
        return True, f"{name}:{reservations.lines['generic_resources']}"
    return False, f"{name}:{line}"


def _environment(value: Any, env: dict[str, str]) -> dict[str, str]:
    if isinstance(value, Node):
        return {str(key): expand(str(item), env) for key, item in value.items() if item is not None}
    pairs = (str(item).partition("=") for item in sequence(value))
    return {key: expand(text, env) for key, equals, text in pairs if equals}


def _within(context: str, open_file: Optional[OpenFile]) -> Optional[OpenFile]:
    """A reader of the files of a build context."""
    if open_file is None:
        return None
    folder = re.sub(r"^(\./)+|^\.$", "", context.rstrip("/"))
    return lambda name: open_file(f"{folder}/{name}" if folder else name)


def _built(body: Node, name: str, open_file: Optional[OpenFile]) -> tuple[Optional[Snapshot], list[str]]:
    """The snapshot of the Dockerfile that the service builds, if it can be read."""
    build = body.get("build")
    if not build:
        return None, []
    options = mapping(build)
    context = str(options.get("context", ".") if isinstance(build, Node) else build)
    inline = options.get("dockerfile_inline")
    file = str(options.get("dockerfile", "Dockerfile"))
    path = re.sub(r"^(\./)+", "", f"{context.rstrip('/')}/{file}" if context not in (".", "./", "") else file)
    text = str(inline) if inline else (open_file(path) if open_file else None)
    if text is None:
        return None, [f"{name}: {path} was not read"]
    args = _environment(options.get("args"), {})
    try:
        place = f"{name.rpartition('/')[0]}/{path}" if "/" in name else path
        return read_dockerfile(
            text, name=place, args=args, target=str(options.get("target", "")), open_file=_within(context, open_file)
        ), []
    except DockerfileError as fault:
        return None, [f"{path}: {fault}"]
