"""A real registry (Distribution) as a process: started, pushed to by its own API, stopped by its process id."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import requests

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "clients"))
from tests.unit.clients.registry_parts import NGC_ENV, Image, digest, tar

__all__ = ["NGC_ENV", "Image", "digest", "tar"]

PROGRAM = shutil.which("docker-registry") or "/usr/bin/docker-registry"
USER, PASSWORD = "canary-user", "canary-pw"
HTPASSWD = f"{USER}:$2b$04$abcdefghijklmnopqrstuuAjHwok8IZHevGK5RRO4U.XqUps7fYC2\n"  # bcrypt of PASSWORD
REPOSITORY = "nvidia/pytorch"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Registry:
    """A running registry: `host`, and how to push to it."""

    def __init__(self, folder: Path, scheme: str = "http", extra: str = ""):
        self.host = f"localhost:{free_port()}"
        self.scheme = scheme
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.extra = extra
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        config = self.folder / "config.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {self.folder}/data}}}}\n"
            f"http:\n  addr: {self.host.replace('localhost', '127.0.0.1')}\n{self.extra}"
        )
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen([PROGRAM, "serve", str(config)], stdout=log, stderr=log)
        log.close()
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(self.host.partition(":")[2]))) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError(f"the registry didn't start: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(10)

    def push(self, image: Image, tag: str, headers: dict[str, str] | None = None, verify: str | bool = True) -> None:
        with requests.Session() as session:
            session.verify = verify
            session.headers.update(headers or {})
            base = f"{self.scheme}://{self.host}/v2/{REPOSITORY}"
            for name, data in image.blobs.items():
                begun = session.post(f"{base}/blobs/uploads/")
                begun.raise_for_status()
                where = begun.headers["Location"]
                put = session.put(f"{where}{'&' if '?' in where else '?'}digest={name}", data=data)
                put.raise_for_status()
            for name, (media, data) in image.manifests.items():
                if name != digest(image.top):
                    session.put(
                        f"{base}/manifests/{name}", data=data, headers={"Content-Type": media}
                    ).raise_for_status()
            top = session.put(f"{base}/manifests/{tag}", data=image.top, headers={"Content-Type": image.top_type})
            top.raise_for_status()


def basic(user: str = USER, password: str = PASSWORD) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def openssl(*words: str, data: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


def signed_token(folder: Path, service: str, access: list[dict]) -> str:
    """A JWT as the registry wants it: RS256, the certificate in x5c, access to what is granted."""

    def b64(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    certificate = "".join((folder / "ca.crt").read_text().splitlines()[1:-1])
    header = {"typ": "JWT", "alg": "RS256", "x5c": [certificate]}
    now = int(time.time())
    claims = {
        "iss": "envcheck test", "sub": USER, "aud": service, "exp": now + 600, "nbf": now - 60, "iat": now,
        "jti": "1", "access": access,
    }  # fmt: skip
    body = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
    return f"{body}.{b64(openssl('dgst', '-sha256', '-sign', f'{folder}/ca.key', data=body.encode()))}"
