"""Reads package metadata out of an image's layers as they stream by; nothing is written to disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Optional

from envcheck.clients.registry.client import Options, Registry, converse, endpoints, open_transport
from envcheck.clients.registry.errors import RegistryError
from envcheck.clients.registry.transport import bounded
from envcheck.clients.tar_stream import CHUNK, Broken, Entry, inflated, walk
from envcheck.model.image import FoundFile, ImageConfig, Layer, LayerReading
from envcheck.model.reference import Reference

Progress = Callable[[int, int], None]  # bytes so far, bytes in all
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"


def read_layers(
    reference: Reference, options: Options, progress: Optional[Progress] = None
) -> tuple[ImageConfig, LayerReading]:
    """Config and layers of the image, in `options.seconds`. Raises RegistryError."""

    def work() -> tuple[ImageConfig, LayerReading]:
        places = endpoints(reference, options)
        with open_transport(options) as transport:
            for place, endpoint in enumerate(places):
                try:
                    config, registry = converse(Registry(endpoint, reference, transport), options.arch)
                except RegistryError:  # noqa: PERF203 - a mirror or two
                    if place + 1 == len(places):
                        raise
                else:
                    return config, stream_layers(registry, config.layers, progress)
        raise RegistryError("no registry to ask", "Name an image.")

    return bounded(work, options.seconds + 1, f"reading the layers of {reference}")


def stream_layers(registry: Registry, layers: tuple[Layer, ...], progress: Optional[Progress]) -> LayerReading:
    """Bottom to top, so that what a higher layer deletes is gone."""
    total = sum(layer.size for layer in layers)
    done = 0
    files: dict[str, bytes] = {}
    names: set[str] = set()
    remarks: list[str] = []
    for layer in layers:
        if "foreign" in layer.media_type or "nondistributable" in layer.media_type:
            remarks.append("a foreign layer was left out: its bytes are elsewhere, where nobody vouches for them")
            continue
        start = done

        def seen(count: int, start: int = start) -> None:
            if progress:
                progress(min(start + count, total), total)

        try:
            entries = read_layer(registry, layer, seen)
        except Broken as failure:
            remarks.append(str(failure))
        else:
            merge(entries, files, names)
        done += layer.size
    found = tuple(FoundFile(f"/{path}", files[path]) for path in sorted(files))
    return LayerReading(found, tuple(sorted(f"/{name}" for name in names)), not remarks, tuple(dict.fromkeys(remarks)))


def read_layer(registry: Registry, layer: Layer, seen: Callable[[int], None]) -> list[Entry]:
    """The telling entries of one layer; its digest is verified over every byte."""
    digest = hashlib.new(layer.digest.partition(":")[0]) if ":" in layer.digest else hashlib.sha256()
    count = 0
    with registry.open_blob(layer.digest) as read:

        def raw() -> bytes:
            nonlocal count
            data: Any = read(CHUNK * 4)
            digest.update(data)
            count += len(data)
            if layer.size and count > layer.size:
                raise RegistryError("a layer is larger than its manifest says: it isn't used", "Don't run this image.")
            seen(count)
            return bytes(data)

        entries = list(walk(inflated(raw)))
        while raw():  # to the end: the digest is of the whole
            pass
    if f"{digest.name}:{digest.hexdigest()}" != layer.digest:
        raise RegistryError(
            f"a layer's bytes don't have the digest {layer.digest[:19]}…: it isn't used",
            "The registry, a mirror or a proxy changed the image: don't run it.",
        )
    return entries


def merge(entries: list[Entry], files: dict[str, bytes], names: set[str]) -> None:
    """Lay one layer over those below: first its deletions, then its files."""
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if name == OPAQUE:
            _forget(f"{folder}/", files, names)
        elif name.startswith(WHITEOUT):
            gone = f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/")
            files.pop(gone, None)
            names.discard(gone)
            _forget(f"{gone}/", files, names)
    for entry in entries:
        if entry.path.rpartition("/")[2].startswith(WHITEOUT):
            continue
        if entry.data is not None:
            files[entry.path] = entry.data
        else:
            names.add(entry.path)


def _forget(prefix: str, files: dict[str, bytes], names: set[str]) -> None:
    for path in [path for path in files if path.startswith(prefix)]:
        del files[path]
    names.difference_update([path for path in names if path.startswith(prefix)])
