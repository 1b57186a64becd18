"""Reads files out of a container by the engine's archive API: the small ones that tell, and package folders."""

from __future__ import annotations

import time
from typing import Any

from envcheck.clients.tar_stream import Broken, walk
from envcheck.model.image import FoundFile, LayerReading

MAX_ARCHIVE = 64 << 30
SMALL_FILES = ("/etc/os-release", "/usr/lib/os-release", "/usr/local/cuda/version.json", "/var/lib/dpkg/status")


def read_files(client: Any, name: str, path: str, *, deep: bool = False, seconds: float = 120.0) -> LayerReading:
    """The small files that tell, by the archive API; with `deep` the package folders too, as they stream by."""
    deadline = time.monotonic() + seconds
    files: dict[str, bytes] = {}
    names: set[str] = set()
    remarks: list[str] = []
    for file in SMALL_FILES:
        _archive(client, name, file, files, names, remarks, deadline)
    whole = False
    if deep:
        prefixes = dict.fromkeys(prefixes_of(path))
        for prefix in prefixes:
            _archive(client, name, f"{prefix}/lib", files, names, remarks, deadline)
        whole = not remarks
    found = tuple(FoundFile(f"/{path}", files[path]) for path in sorted(files))
    return LayerReading(found, tuple(sorted(f"/{path}" for path in names)), whole, tuple(remarks))


def prefixes_of(path: str) -> list[str]:
    """Where Python environments may be: what PATH names, and the usual places."""
    found = [folder[: -len("/bin")] for folder in path.split(":") if folder.endswith("/bin")]
    found = [
        prefix
        for prefix in [*found, "/usr/local", "/opt/conda", "/opt/venv"]
        if prefix and prefix != "/usr/local/nvidia"
    ]
    return [prefix for prefix in dict.fromkeys(found) if "cuda" not in prefix and prefix.startswith("/")]


def _archive(
    client: Any, name: str, path: str, files: dict[str, bytes], names: set[str], remarks: list[str], deadline: float
) -> None:
    """Read one path of the container; absent is absent."""
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        chunks, _ = client.api.get_archive(name, path, encode_stream=False)
    except APIError as fault:
        if fault.status_code != 404:
            remarks.append(f"{path}: the container engine answers {fault.status_code}")
        return
    except (DockerException, RequestException, OSError) as fault:
        remarks.append(f"{path}: the container engine {why(fault)}")
        return
    parent = path.rpartition("/")[0].strip("/")
    iterator = iter(chunks)
    buffer = bytearray()
    total = 0

    def read(size: int) -> bytes:
        nonlocal total
        while len(buffer) < size:
            piece = next(iterator, b"")
            if not piece:
                break
            total += len(piece)
            if total > MAX_ARCHIVE or time.monotonic() > deadline:
                raise Broken(f"{path} takes too long to read", "Give more time with --deadline.")
            buffer.extend(piece)
        data = bytes(buffer[:size])
        del buffer[:size]
        return data

    try:
        for entry in walk(read, prefix=f"{parent}/" if parent else ""):
            if entry.data is not None:
                files[entry.path] = entry.data
            else:
                names.add(entry.path)
        while read(1 << 16):  # to the end: an answer that isn't read out keeps its connection
            pass
    except Broken as failure:
        remarks.append(str(failure))
    except (RequestException, OSError) as fault:
        remarks.append(f"{path}: the container engine {why(fault)}")
    finally:
        close = getattr(chunks, "close", None)
        if close:
            close()


def why(fault: BaseException) -> str:
    """What an engine did, in few words."""
    text = repr(fault)
    if "PermissionError" in text or "Permission denied" in text:
        return "may not be asked by this user"
    if "timed out" in text.lower() or "Timeout" in text:
        return "doesn't answer in time"
    return "doesn't answer"


def advice(fault: BaseException) -> str:
    """What to do about it."""
    if "Permission" in repr(fault):
        return "Ask as root, or as a member of the group that owns its socket."
    return "Is it running? `docker info` tells; another one is named by DOCKER_HOST."
