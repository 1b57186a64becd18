"""Images and containers as targets: from a registry or a local engine, with the nearest name on a miss."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck.errors import InspectError, UsageError, nearest
from envcheck.inspection import ImageOptions
from envcheck.model.fact import known
from envcheck.model.image import ImageConfig, LayerReading
from envcheck.model.recipe import Recipe
from envcheck.model.reference import Reference, find_reference
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.readers.image_config import read_image
from envcheck.readers.image_files import add_files

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

FILE_NAMES = re.compile(r"\.(txt|log|ya?ml|json|toml|lock|out|err|md|py|cfg|ini)(:.*)?$")


def looks_like_image(target: str) -> bool:
    """Is `target` an image rather than a mistyped file: it has a tag, a digest or a registry's or user's part."""
    if FILE_NAMES.search(target) or target.startswith(("/", "./", "../", "~")):
        return False
    if "/" in target and Path(target.partition("/")[0]).is_dir():
        return False  # a mistyped path: no registry is asked for it
    return find_reference(target) is not None and any(c in target for c in ":@/")


def inspect_image(target: str, how: ImageOptions, matrix: Matrix, *, local_first: bool = False) -> Snapshot:
    """The image as its registry, or a local engine, tells it. Raises UsageError for a name, InspectError otherwise."""
    reference = find_reference(target)
    if reference is None:
        raise UsageError(f"{target!r} is no image reference", "Write [REGISTRY/]NAME[:TAG][@sha256:DIGEST].")
    if local_first:
        local = _local(target)
        if local is not None:
            return read_image(local)
    config, reading = _remote(reference, target, how, matrix)
    snap = read_image(config)
    return add_files(snap, reading, "layers") if reading is not None else snap


def find_local(target: str) -> Optional[Snapshot]:
    """The image of a local engine; None where there is none of that name."""
    local = _local(target)
    return read_image(local) if local is not None else None


def _local(target: str) -> Optional[ImageConfig]:
    from envcheck.clients.engine_read import find_image

    return find_image(target)


def _remote(
    reference: Reference, target: str, how: ImageOptions, matrix: Matrix
) -> tuple[ImageConfig, Optional[LayerReading]]:
    from envcheck.clients.registry import NotFound, Options, RegistryError, list_tags
    from envcheck.clients.registry import read_image as ask

    options = Options(how.arch, how.deadline, how.mirrors, how.insecure, how.force_insecure)
    try:
        if how.layers:
            from envcheck.clients.registry.layers import read_layers

            long = msgspec.structs.replace(options, seconds=max(how.deadline, 3600.0 if how.deadline == 20.0 else 0))
            return read_layers(reference, long, how.progress)
        return ask(reference, options), None
    except NotFound as missing:
        local = _local(target)
        if local is not None:
            return _with_remark(local, f"{missing}: judged the local image of this name"), None
        near = _near(reference, [*list_tags(reference, options), *_matrix_tags(reference, matrix)])
        hint = f"Near: {', '.join(near)}." if near else "Check the name and the tag."
        raise UsageError(str(missing), hint) from None
    except RegistryError as failure:
        local = _local(target)
        if local is not None:
            return _with_remark(local, f"{failure}: judged the local image of this name"), None
        raise


def _with_remark(config: ImageConfig, remark: str) -> ImageConfig:
    return msgspec.structs.replace(config, remarks=(*config.remarks, remark))


def _near(reference: Reference, tags: list[str]) -> list[str]:
    return [f"{reference.name}:{tag}" for tag in nearest(reference.tag, tags)]


def _matrix_tags(reference: Reference, matrix: Matrix) -> list[str]:
    """Tags that the matrix knows of this repository."""
    if reference.repository == "nvidia/cuda":
        return [row.tag for row in matrix.cuda_images]
    rows = (find_reference(row.reference) for row in matrix.framework_image_rows)
    return [row.tag for row in rows if row is not None and row.name == reference.name]


def inspect_container(name: str, how: ImageOptions) -> Snapshot:
    """A container of a local engine, by its files and by what it was started with; nothing is run in it."""
    from envcheck.clients.engine_read import get_container

    container, reading = get_container(name, deep=how.layers)
    snap = add_files(read_image(container.config), reading, container.config.source)
    machine = snap.machine
    if container.shm_bytes and not container.ipc_host:
        machine = msgspec.structs.replace(machine, shm_bytes=known(container.shm_bytes, container.config.source))
    recipe = msgspec.structs.replace(
        snap.recipe or Recipe(), gpus_asked=container.gpus_requested, asked_by=container.why
    )
    return msgspec.structs.replace(
        snap,
        origin=Origin("container", name, ("engine",)),
        machine=machine,
        wants=Wants(gpu=snap.wants.gpu, gpus_requested=container.gpus_requested, source=container.why),
        recipe=recipe,
    )


def no_such(target: str, matrix: Matrix) -> UsageError:
    """What to say of a word that is no file, no local image and no reference."""
    folder = Path(target).parent if "/" in target and Path(target).parent.is_dir() else Path()
    here = [str(folder / entry.name) for entry in folder.iterdir() if entry.is_file()][:2000]
    near = nearest(target, here)
    hint = f"Near: {', '.join(near)}. " if near else ""
    return UsageError(
        f"{target!r} is neither a file here nor an image in a local engine",
        f"{hint}An image of Docker Hub: image:{target}. A container: container:{target}.",
    )


def with_image(snap: Snapshot, how: ImageOptions, matrix: Matrix) -> Snapshot:
    """A file's snapshot on top of its base image as the registry tells it; as it was where that can't be had."""
    from envcheck.readers.image_config import overlay

    image = snap.stack.image.find()
    if image is None or not image.reference or find_reference(image.reference) is None:
        return snap
    try:
        below = inspect_image(image.reference, how, matrix)
    except (InspectError, UsageError) as failure:
        return msgspec.structs.replace(snap, remarks=(*snap.remarks, f"the base image was not asked: {failure}"))
    stack = overlay(below.stack, snap.stack)
    source = snap.stack.image.source
    told = below.stack.image.find()
    stack = msgspec.structs.replace(stack, image=known(told, source) if told else stack.image)
    return msgspec.structs.replace(snap, stack=stack)
