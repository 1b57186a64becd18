"""Images as a registry stores them, and a server that answers as one: for tests that need it to misbehave."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile

from werkzeug import Request, Response

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
NGC_ENV = [
    "PATH=/usr/local/cuda/bin:/usr/bin",
    "CUDA_VERSION=12.4.1.003",
    "CUDA_DRIVER_VERSION=550.54.15",
    "NVIDIA_PRODUCT_NAME=PyTorch",
    "PYTORCH_VERSION=2.4.0a0+07cecf4168",
    "NVIDIA_PYTORCH_VERSION=24.05",
    "NVIDIA_REQUIRE_CUDA=cuda>=9.0",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
]


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(files: dict[str, bytes], compress: bool = True) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0) if compress else buffer.getvalue()


def unpacked(data: bytes) -> bytes:
    try:
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, OSError):  # broken on purpose
        return data


class Image:
    """One image: `blobs` and `manifests` by digest, and `top`, the bytes of what its tag names."""

    def __init__(self, env=NGC_ENV, arches=("amd64",), layers=(), docker=False, index=True, labels=None):
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        entries = []
        for arch in arches:
            config = json.dumps(
                {
                    "architecture": arch,
                    "os": "linux",
                    "created": "2024-05-20T00:00:00Z",
                    "config": {"Env": list(env), "Labels": labels or {}},
                    "history": [{"created_by": "RUN /bin/sh -c pip install transformers==4.40.0"}],
                    "rootfs": {"type": "layers", "diff_ids": [digest(unpacked(data)) for data in layers]},
                }
            ).encode()
            self.blobs[digest(config)] = config
            manifest_type = DOCKER_MANIFEST if docker else OCI_MANIFEST
            manifest = json.dumps(
                {
                    "schemaVersion": 2,
                    "mediaType": manifest_type,
                    "config": {
                        "mediaType": "application/vnd.docker.container.image.v1+json",
                        "digest": digest(config),
                        "size": len(config),
                    },
                    "layers": [
                        {
                            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
                            "digest": digest(data),
                            "size": len(data),
                        }
                        for data in layers
                    ],
                }
            ).encode()
            self.manifests[digest(manifest)] = (manifest_type, manifest)
            entries.append(
                {
                    "mediaType": manifest_type,
                    "digest": digest(manifest),
                    "size": len(manifest),
                    "platform": {"architecture": arch, "os": "linux"},
                }
            )
        for data in layers:
            self.blobs[digest(data)] = data
        if index:
            entries.append(
                {
                    "mediaType": manifest_type,
                    "digest": "sha256:" + "0" * 64,
                    "size": 1,
                    "platform": {"architecture": "unknown", "os": "unknown"},
                }
            )
            self.top_type = DOCKER_LIST if docker else OCI_INDEX
            self.top = json.dumps({"schemaVersion": 2, "mediaType": self.top_type, "manifests": entries}).encode()
            self.manifests[digest(self.top)] = (self.top_type, self.top)
        else:
            self.top_type, self.top = self.manifests[entries[0]["digest"]]

    @property
    def digest(self) -> str:
        return digest(self.top)


class Fake:
    """Serves an image on a pytest-httpserver. `before` may answer a request in its place; all requests are kept."""

    def __init__(self, server, image: Image, repository: str = "nvidia/pytorch", tag: str = "24.05-py3"):
        self.image, self.repository, self.tag = image, repository, tag
        self.seen: list[Request] = []
        self.before = lambda request: None
        server.expect_request(__import__("re").compile(r"/.*")).respond_with_handler(self)
        self.host = f"{server.host}:{server.port}"

    @property
    def name(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"

    def __call__(self, request: Request) -> Response:
        self.seen.append(request)
        early = self.before(request)
        if early is not None:
            return early
        prefix = f"/v2/{self.repository}/"
        if not request.path.startswith(prefix):
            return Response('{"errors":[{"code":"NAME_UNKNOWN","message":"repository name not known"}]}', 404)
        kind, _, name = request.path[len(prefix) :].partition("/")
        if kind == "tags":
            return Response(json.dumps({"name": self.repository, "tags": [self.tag]}), 200)
        if kind == "manifests":
            if name == self.tag:
                return Response(
                    self.image.top, 200, {"Docker-Content-Digest": self.image.digest}, content_type=self.image.top_type
                )
            if name in self.image.manifests:
                media, data = self.image.manifests[name]
                return Response(data, 200, content_type=media)
        if kind == "blobs" and name in self.image.blobs:
            return Response(self.image.blobs[name], 200, content_type="application/octet-stream")
        return Response('{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}', 404)
