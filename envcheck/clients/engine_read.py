"""Reads local images and running containers from Docker's or Podman's socket; nothing is run, pulled or written."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import msgspec

from envcheck.clients.engine_files import advice, read_files, why
from envcheck.errors import InspectError, UsageError, nearest
from envcheck.model.image import ImageConfig, LayerReading

SECONDS = 10


class EngineContainer(msgspec.Struct, frozen=True):
    """A container: its image's config, and what it was started with. None: the engine doesn't say."""

    config: ImageConfig
    running: bool = True
    gpus_requested: Optional[bool] = None
    why: str = ""
    shm_bytes: Optional[int] = None
    ipc_host: bool = False


def sockets(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(URL, engine name) of every engine that may be here: DOCKER_HOST first, then the well-known sockets."""
    host = env.get("DOCKER_HOST", "")
    if host:
        yield host, "podman" if "podman" in host else "docker"
        return
    runtime = env.get("XDG_RUNTIME_DIR", "")
    places = [("/var/run/docker.sock", "docker"), ("/run/podman/podman.sock", "podman")]
    if runtime:
        places += [(f"{runtime}/docker.sock", "docker"), (f"{runtime}/podman/podman.sock", "podman")]
    for path, name in places:
        if Path(path).is_socket():
            yield f"unix://{path}", name


@contextlib.contextmanager
def open_engine(url: str, seconds: float = SECONDS) -> Iterator[Any]:
    """A client for the engine at `url`. Raises InspectError."""
    from docker.client import DockerClient
    from docker.errors import DockerException

    path = url[len("unix://") :] if url.startswith("unix://") else ""
    if path and not Path(path).is_socket():
        raise InspectError(f"there is no container engine at {path}", advice(FileNotFoundError()))
    try:
        client = DockerClient(base_url=url, version="auto", timeout=seconds)
    except (DockerException, OSError, ValueError) as fault:
        raise InspectError(f"the container engine at {_shown(url)} {why(fault)}", advice(fault)) from None
    try:
        yield client
    finally:
        client.close()


def find_image(name: str, env: Optional[Mapping[str, str]] = None) -> Optional[ImageConfig]:
    """The local image `name` of any engine that answers; None where none has it or none is here."""
    for url, engine in sockets(os.environ if env is None else env):
        with contextlib.suppress(InspectError), open_engine(url) as client:
            found = _image(client, name, engine)
            if found is not None:
                return found
    return None


def _image(client: Any, name: str, engine: str) -> Optional[ImageConfig]:
    attributes = _inspect(lambda: client.api.inspect_image(name))
    return image_config(attributes, name, f"{engine}: local image") if attributes else None


def get_container(
    name: str, env: Optional[Mapping[str, str]] = None, *, deep: bool = False
) -> tuple[EngineContainer, LayerReading]:
    """The container and the files in it that tell; with `deep` also its packages. Raises UsageError, InspectError."""
    known: list[str] = []
    asked = False
    trouble: Optional[InspectError] = None
    for url, engine in sockets(os.environ if env is None else env):
        try:
            with open_engine(url, 60 if deep else SECONDS) as client:
                asked = True
                found = _container(client, name, engine, deep)
                if found is not None:
                    return found
                known += _names(client)
        except InspectError as failure:  # noqa: PERF203 - an engine or two
            trouble = failure
    if trouble is not None and not known:
        raise trouble
    if not asked:
        raise InspectError(
            "there is no container engine here", "Start Docker or Podman, or say where: DOCKER_HOST=unix://…"
        )
    near = nearest(name, known)
    hint = f"Near: {', '.join(map(repr, near))}." if near else "See `docker ps -a`."
    raise UsageError(f"no container is called {name!r}", hint)


def _container(client: Any, name: str, engine: str, deep: bool) -> Optional[tuple[EngineContainer, LayerReading]]:
    attributes = _inspect(lambda: client.api.inspect_container(name))
    if not attributes:
        return None
    image = _inspect(lambda: client.api.inspect_image(attributes.get("Image", ""))) or {}
    path = _pairs((attributes.get("Config") or {}).get("Env")).get("PATH", "")
    return read_container(attributes, image, engine), read_files(client, name, path, deep=deep)


def _names(client: Any) -> list[str]:
    rows = client.api.containers(all=True)
    return [str(name).lstrip("/") for row in rows for name in row.get("Names") or ()]


def _inspect(ask: Any) -> Optional[dict[str, Any]]:
    from docker.errors import APIError, DockerException, NotFound
    from requests.exceptions import RequestException

    try:
        found: dict[str, Any] = ask()
    except NotFound:
        return None
    except APIError as fault:
        if fault.status_code in (400, 404):
            return None
        raise InspectError(f"the container engine answers {fault.status_code}", "See its own log.") from None
    except (DockerException, RequestException, OSError) as fault:
        raise InspectError(f"the container engine {why(fault)}", advice(fault)) from None
    return found


def image_config(attributes: Mapping[str, Any], name: str, source: str) -> ImageConfig:
    """What `docker image inspect` says, as a registry would say it."""
    config = attributes.get("Config") or {}
    digests = [str(text).rpartition("@")[2] for text in attributes.get("RepoDigests") or ()]
    arch = str(attributes.get("Architecture") or "")
    return ImageConfig(
        reference=name,
        source=source,
        digest=digests[0] if digests else str(attributes.get("Id") or ""),
        arch=arch,
        os=str(attributes.get("Os") or ""),
        env=_pairs(config.get("Env")),
        labels={str(k): str(v) for k, v in (config.get("Labels") or {}).items()},
        created=str(attributes.get("Created") or ""),
        architectures=(arch,) if arch else (),
    )


def read_container(attributes: Mapping[str, Any], image: Mapping[str, Any], engine: str) -> EngineContainer:
    """What `docker inspect` says of a container; its own environment is over its image's."""
    name = str(attributes.get("Name") or "").lstrip("/") or "container"
    host = attributes.get("HostConfig") or {}
    config = attributes.get("Config") or {}
    base = image_config(image, str(config.get("Image") or name), f"{engine}: container {name}")
    own = msgspec.structs.replace(base, env={**base.env, **_pairs(config.get("Env"))})
    asked, why = _gpus(host)
    return EngineContainer(
        own,
        bool((attributes.get("State") or {}).get("Running")),
        asked,
        f"{engine} inspect {name}: {why}",
        host.get("ShmSize") if isinstance(host.get("ShmSize"), int) and host.get("ShmSize") else None,
        host.get("IpcMode") == "host",
    )


def _gpus(host: Mapping[str, Any]) -> tuple[bool, str]:
    for request in host.get("DeviceRequests") or ():
        kinds = [kind for group in request.get("Capabilities") or () for kind in group]
        if "gpu" in kinds or request.get("Driver") in ("nvidia", "cdi"):
            return True, "HostConfig.DeviceRequests"
    if any("nvidia" in str(device.get("PathOnHost", "")) for device in host.get("Devices") or ()):
        return True, "HostConfig.Devices"
    if str(host.get("Runtime") or "").startswith("nvidia"):
        return True, "HostConfig.Runtime"
    return False, "HostConfig has neither DeviceRequests nor Devices of NVIDIA"


def _pairs(entries: Any) -> dict[str, str]:
    split = (str(entry).partition("=") for entry in entries or ())
    return {key: value for key, equals, value in split if key}


def _shown(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)
