"""Real parts that several integration tests share: a Docker Engine of the tests' own, stand-in base images, an index.

`dockerd` (session) starts an engine on a socket of its own and stops it by its process id; it installs nothing and
fails where `dockerd` isn't there (tests/integration/parts names the packages). `engine_env` is the environment in which
`envcheck` and `docker.from_env()` meet it. `rootfs` (session) is a small Debian with Python, made once and kept in
pytest's cache; `stand_in("nvcr.io/nvidia/…", env=…, files=…)` imports it under the full name of the image that it
stands for, so that `FROM` finds it without a pull. Containers reach services of the test by `network="host"`.
`index` is a package index on loopback that holds only what a test puts there: `index.add("six", "1.0")`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import pytest

SUITE = "bookworm"
INSIDE = "ca-certificates,python3,python3-pip,python3-venv"


@pytest.fixture(scope="session")
def dockerd():
    """The URL of an engine that only these tests use."""
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program, "dockerd is missing: apt-get install docker.io"
    # A socket's path may have 107 letters: pytest's folders are longer.
    folder = Path(tempfile.mkdtemp(prefix="envcheck-dockerd-"))
    socket = folder / "docker.sock"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--data-root={folder / 'data'}",
                f"--exec-root={folder / 'exec'}",
                f"--pidfile={folder / 'pid'}",
                f"--host=unix://{socket}",
                "--iptables=false",
                "--bridge=none",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for_engine(f"unix://{socket}", process, folder / "log")
        yield f"unix://{socket}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        subprocess.run(["umount", "-l", *map(str, folder.glob("exec/netns/*"))], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_engine(url: str, process: subprocess.Popen, log: Path) -> None:
    import docker

    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, f"dockerd ended: {log.read_text()[-2000:]}"
        if Path(url[len("unix://") :]).is_socket():
            client = docker.DockerClient(base_url=url, timeout=5)
            try:
                client.ping()
                return
            except Exception:
                pass
            finally:
                client.close()
        time.sleep(0.2)
    raise AssertionError(f"dockerd didn't answer in 60 s: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def engine_env(dockerd):
    """What makes envcheck and the SDK use the tests' engine."""
    return {"DOCKER_HOST": dockerd}


@pytest.fixture(scope="session")
def engine(dockerd):
    """The SDK's client of the tests' engine."""
    import docker

    client = docker.DockerClient(base_url=dockerd, timeout=300)
    yield client
    client.close()


@pytest.fixture(scope="session")
def rootfs(request):
    """A tar of a small Debian with Python; made once by debootstrap (about a minute), then kept in pytest's cache."""
    place = Path(request.config.cache.mkdir("rootfs")) / f"{SUITE}.tar"
    if not place.is_file():
        program = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program, "debootstrap is missing: apt-get install debootstrap"
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            argv = [program, "--variant=minbase", f"--include={INSIDE}", SUITE, str(tree), _mirror()]
            done = subprocess.run(argv, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            for cache in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
                shutil.rmtree(tree / cache, ignore_errors=True)
            partial = place.with_suffix(".partial")
            subprocess.run(["tar", "-C", str(tree), "--exclude=./dev/*", "-cf", str(partial), "."], check=True)
            partial.replace(place)
    return place


def _mirror() -> str:
    """The first mirror of this machine's own apt sources."""
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if path.is_file():
            for line in path.read_text().splitlines():
                if line.startswith("URIs:"):
                    return line.split()[1]
                if line.startswith("deb ") and "://" in line:
                    return next(word for word in line.split() if "://" in word)
    return "http://deb.debian.org/debian"


@pytest.fixture(scope="session")
def stand_in(engine, rootfs):
    """`stand_in(name, env={…}, files={path: bytes})`: the image `name`, made of the rootfs and these."""

    def make(name: str, env: dict[str, str] | None = None, files: dict[str, bytes] | None = None) -> str:
        changes = [f"ENV {key}={value}" for key, value in (env or {}).items()]
        repository, _, tag = name.rpartition(":")
        with rootfs.open("rb") as stream:
            engine.api.import_image_from_data(stream, repository="envcheck-rootfs", tag="plain")
        lines = ["FROM envcheck-rootfs:plain", *changes, "COPY tree/ /"]
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            tree = {f"tree/{path.lstrip('/')}": data for path, data in (files or {}).items()}
            for path, data in {"Dockerfile": "\n".join(lines).encode(), "tree/.stand-in": b"", **tree}.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(data), 0o755
                tar.addfile(entry, io.BytesIO(data))
        context.seek(0)
        engine.images.build(fileobj=context, custom_context=True, tag=f"{repository}:{tag}", rm=True)
        return name

    return make


class Index:
    """A package index of wheels made on the spot."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple/"

    def add(self, name: str, version: str, files: dict[str, str] | None = None, requires: tuple[str, ...] = ()) -> Path:
        """A pure wheel of `name` whose module says its version."""
        module = name.replace("-", "_")
        texts = files or {f"{module}/__init__.py": f"__version__ = {version!r}\n"}
        info = f"{module}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        texts = {
            **texts,
            f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {line}\n" for line in requires),
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in texts.items())
        texts[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        place = self.folder / "simple" / name
        place.mkdir(parents=True, exist_ok=True)
        wheel = place / f"{module}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in texts.items():
                archive.writestr(path, text)
        return wheel

    def mirror(self, name: str, version: str) -> None:
        """The real wheel of a release, as this machine's pip gets it."""
        place = self.folder / "simple" / name
        place.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(place), f"{name}=={version}"]
        subprocess.run(argv, check=True, capture_output=True)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def index(tmp_path):
    """An empty package index."""
    (tmp_path / "index" / "simple").mkdir(parents=True)
    handler = functools.partial(_Quiet, directory=str(tmp_path / "index"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Index(tmp_path / "index", server.server_port)
    server.shutdown()
    server.server_close()
    thread.join(5)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""
