"""Manifests, indexes and configs of the OCI and Docker image formats: decoded strictly, digests verified."""

from __future__ import annotations

import hashlib
import re
from typing import Optional

import msgspec

from envcheck.clients.registry.errors import RegistryError
from envcheck.model.image import Layer

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPT = ", ".join((*INDEXES, *MANIFESTS))
DIGEST = re.compile(r"(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128})")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "amd64": "amd64", "arm64": "arm64", "ppc64le": "ppc64le"}
MAX_ENTRIES = 512
MAX_LAYERS = 512


class Platform(msgspec.Struct, frozen=True):
    """The platform of an index entry."""

    architecture: str = ""
    os: str = ""
    variant: Optional[str] = None


class Descriptor(msgspec.Struct, frozen=True, rename={"media_type": "mediaType"}):
    """Content by digest. Its `urls` (foreign layers) are not even decoded: they are never followed."""

    digest: str
    media_type: str = ""
    size: int = 0
    platform: Optional[Platform] = None


class Manifest(msgspec.Struct, frozen=True, rename={"media_type": "mediaType", "schema": "schemaVersion"}):
    """An image manifest (config and layers) or an index (manifests)."""

    schema: int = 0
    media_type: str = ""
    config: Optional[Descriptor] = None
    layers: list[Descriptor] = []
    manifests: Optional[list[Descriptor]] = None


class _Inner(msgspec.Struct, rename="pascal"):
    env: Optional[list[str]] = None
    labels: Optional[dict[str, str]] = None


class _History(msgspec.Struct):
    created_by: str = ""


class Config(msgspec.Struct):
    """The config blob, as far as it matters."""

    architecture: str = ""
    os: str = ""
    created: Optional[str] = None
    config: Optional[_Inner] = None
    history: Optional[list[_History]] = None


def digest_of(data: bytes, like: str = "") -> str:
    """The digest of `data` by the algorithm of `like`."""
    name = "sha512" if like.startswith("sha512:") else "sha256"
    return f"{name}:{hashlib.new(name, data).hexdigest()}"


def verify(data: bytes, digest: str, what: str, registry: str) -> None:
    """Raises RegistryError unless `data` has `digest`."""
    if not DIGEST.fullmatch(digest):
        raise RegistryError(f"{registry} names {what} by no usable digest", "Ask who runs this registry.")
    if digest_of(data, digest) != digest:
        raise RegistryError(
            f"{registry} gave {what} whose bytes don't have the digest {digest[:19]}…: it isn't used",
            "The registry, a mirror or a proxy changed the image: don't run it.",
        )


def parse_manifest(data: bytes, registry: str) -> Manifest:
    """The manifest or index; raises RegistryError."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, RecursionError):
        raise RegistryError(f"{registry} gave something that is no manifest", "Check the name of the image.") from None
    if manifest.schema == 1:
        raise RegistryError("the image has a manifest of the withdrawn schema 1", "Push it again with a newer Docker.")
    if manifest.manifests is None and manifest.config is None:
        raise RegistryError(f"{registry} gave a manifest without an image", "It may be a chart or another artifact.")
    if len(manifest.manifests or ()) > MAX_ENTRIES or len(manifest.layers) > MAX_LAYERS:
        raise RegistryError(f"{registry} gave a manifest with too many entries", "No image needs that: it is refused.")
    return manifest


def parse_config(data: bytes, registry: str) -> Config:
    """The config; raises RegistryError."""
    try:
        return msgspec.json.decode(data, type=Config)
    except (msgspec.DecodeError, RecursionError):
        raise RegistryError(f"{registry} gave something that is no image config", "Check the image.") from None


def choose(manifests: list[Descriptor], arch: str) -> Descriptor:
    """The entry for Linux on `arch` ('x86_64' or 'amd64'); the first real one where there is none for it.

    Attestations (platform 'unknown') are no images. Raises RegistryError for an index without any.
    """
    real = [
        entry
        for entry in manifests
        if (entry.platform is None or entry.platform.os in ("linux", "")) and _arch(entry) != "unknown"
    ]
    wanted = ARCHITECTURES.get(arch, arch)
    for entry in real:
        if _arch(entry) == wanted:
            return entry
    if not real:
        raise RegistryError("the index holds no Linux image", "Name another image.")
    return real[0]


def _arch(entry: Descriptor) -> str:
    return entry.platform.architecture if entry.platform else ""


def architectures(manifests: list[Descriptor]) -> tuple[str, ...]:
    """All architectures that the index offers, sorted."""
    return tuple(sorted({_arch(entry) for entry in manifests if _arch(entry) not in ("", "unknown")}))


def layers_of(manifest: Manifest) -> tuple[Layer, ...]:
    """The layers, bottom first."""
    return tuple(Layer(layer.digest, layer.size, layer.media_type) for layer in manifest.layers)


def env_of(config: Config) -> dict[str, str]:
    """The environment; later entries win, as they do at start."""
    entries = config.config.env if config.config and config.config.env else []
    return {name: value for name, _, value in (entry.partition("=") for entry in entries) if name}
