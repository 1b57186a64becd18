"""Builds an image from texts and runs one program in it, by the local engine: BuildKit where it is, else classic."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from envcheck.clients.engine_read import open_engine, sockets
from envcheck.errors import BuildError, InspectError

Progress = Callable[[str], None]
BUILD_SECONDS = 3600.0
RUN_SECONDS = 600.0
PLATFORM = "linux/amd64"
MAX_OUTPUT = 1 << 20


def quiet(line: str) -> None:
    """The progress of nobody who watches."""


@contextlib.contextmanager
def engine(seconds: float = BUILD_SECONDS, env: Optional[Mapping[str, str]] = None) -> Iterator[tuple[str, Any]]:
    """(URL, client) of the first engine that answers: DOCKER_HOST, then the usual sockets. Raises BuildError."""
    trouble = "there is no container engine here"
    for url, _ in sockets(os.environ if env is None else env):
        with contextlib.ExitStack() as stack:
            try:
                client = stack.enter_context(open_engine(url, seconds))
            except InspectError as fault:
                trouble = f"{fault}"
                continue
            yield url, client
            return
    raise BuildError(trouble, "Start Docker, or say where it is: DOCKER_HOST=unix:///run/user/1000/docker.sock")


def build_image(
    files: Mapping[str, str], tag: str, *, network: Optional[str] = None, progress: Progress = quiet
) -> str:
    """Build the context `files` (name to text, one named Dockerfile) as `tag`; the image id. Raises BuildError."""
    with engine() as (url, client):
        whales = _find_buildx(url)
        if whales is not None:
            return _build_by_buildx(whales, files, tag, network, progress)
        return _build_classic(client, files, tag, network, progress)


def _find_buildx(url: str) -> Any:
    """python-on-whales' client where both it and `docker buildx` are installed; else None."""
    try:
        from python_on_whales import DockerClient
    except ImportError:
        return None
    try:
        client = DockerClient(host=url)
        return client if client.buildx.is_installed() else None
    except Exception:  # no docker command, or one that doesn't answer: the classic builder needs neither
        return None


def _build_by_buildx(
    whales: Any, files: Mapping[str, str], tag: str, network: Optional[str], progress: Progress
) -> str:
    from python_on_whales.exceptions import DockerException

    with tempfile.TemporaryDirectory(prefix="envcheck-build-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        try:
            lines = whales.buildx.build(
                folder, tags=[tag], load=True, network=network, platforms=[PLATFORM], stream_logs=True
            )
            for line in lines:
                progress(line)
            return str(whales.image.inspect(tag).id)
        except DockerException as fault:
            raise BuildError(f"the build failed: {_last(str(fault))}", "The lines above say which step.") from None


def _build_classic(client: Any, files: Mapping[str, str], tag: str, network: Optional[str], progress: Progress) -> str:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    image = ""
    try:
        answers = client.api.build(
            fileobj=_context(files),
            custom_context=True,
            tag=tag,
            rm=True,
            forcerm=True,
            decode=True,
            network_mode=network,
        )
        for answer in answers:
            for line in str(answer.get("stream") or answer.get("status") or "").splitlines():
                if line.strip():
                    progress(line)
            if answer.get("error"):
                raise BuildError(f"the build failed: {_last(str(answer['error']))}", "The lines above say which step.")
            image = (answer.get("aux") or {}).get("ID", image)
    except (DockerException, RequestException, OSError) as fault:
        raise BuildError(f"the build failed: {_last(str(fault))}", "The lines above say which step.") from None
    return image


def _context(files: Mapping[str, str]) -> io.BytesIO:
    """The build context as a tar: same bytes for same texts, so that layers are found again."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(files):
            data = files[name].encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    stream.seek(0)
    return stream


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "the engine gave no reason"


def run_program(
    image: str, words: list[str], *, gpus: bool = False, network: Optional[str] = None, seconds: float = RUN_SECONDS
) -> tuple[int, str]:
    """Run `words` in a container of `image` that is removed afterwards: exit status and output. Raises BuildError."""
    from docker.errors import DockerException
    from docker.types import DeviceRequest
    from requests.exceptions import RequestException

    requests = [DeviceRequest(count=-1, capabilities=[["gpu"]])] if gpus else None
    with engine(seconds) as (_, client):
        container = None
        try:
            container = client.containers.create(
                image, words, network_mode=network or "none", device_requests=requests, tty=False
            )
            container.start()
            status = container.wait(timeout=seconds)
            output = container.logs(stdout=True, stderr=True)[-MAX_OUTPUT:]
            return int(status.get("StatusCode", 1)), output.decode("utf-8", "replace")
        except (DockerException, RequestException, OSError) as fault:
            raise BuildError(f"the image could not be run: {_last(str(fault))}", "See `docker info`.") from None
        finally:
            if container is not None:
                with contextlib.suppress(DockerException, RequestException, OSError):
                    container.remove(force=True, v=True)


def has_gpus() -> bool:
    """Can the engine give a container NVIDIA GPUs? By its runtimes and CDI devices."""
    with engine(30) as (_, client):
        facts = client.info()
    devices = facts.get("DiscoveredDevices") or []
    return "nvidia" in (facts.get("Runtimes") or {}) or any("nvidia.com/gpu" in str(device) for device in devices)
