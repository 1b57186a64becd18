"""An image's configuration as a registry or an engine tells it, and what was found in its layers."""

from __future__ import annotations

import msgspec


class Layer(msgspec.Struct, frozen=True):
    """One layer of a manifest; `size` is what the manifest says, in bytes."""

    digest: str
    size: int
    media_type: str = ""


class ImageConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the image says of itself. `source` says who told: 'registry nvcr.io', 'docker: local image'."""

    reference: str
    source: str
    digest: str = ""
    arch: str = ""
    os: str = ""
    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    created: str = ""
    history: tuple[str, ...] = ()  # the commands that made its layers, oldest first
    layers: tuple[Layer, ...] = ()
    architectures: tuple[str, ...] = ()  # all that the index offers
    requests: int = 0
    received_bytes: int = 0
    remarks: tuple[str, ...] = ()


class FoundFile(msgspec.Struct, frozen=True):
    """A small file that was read out of a layer or a container; nothing was written to disk."""

    path: str  # absolute, '/usr/lib/python3/dist-packages/torch-2.1.0.dist-info/METADATA'
    data: bytes


class LayerReading(msgspec.Struct, frozen=True):
    """What reading the layers gave. `whole` is False where a cap or an unreadable layer cut it short."""

    files: tuple[FoundFile, ...] = ()
    names: tuple[str, ...] = ()  # paths that tell by their name alone: libcuda.so.535.161.08 in compat/, nvcc
    whole: bool = True
    remarks: tuple[str, ...] = ()
