"""NVIDIA's framework images as a remedy: which driver branches an image lists, and which other image fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from packaging.version import Version

from envcheck import versions
from envcheck.matrix import images

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot


def lists_branch(snap: Snapshot, matrix: Matrix, driver: str) -> bool:
    """Do the image's release notes list this driver's branch, from this driver on, for datacentre GPUs?"""
    image = snap.stack.image.find()
    row = matrix.image(image.reference) if image and "nvidia/" in image.reference else None
    version = versions.find(driver)
    if row is None or version is None:
        return False
    for text in row.driver_branches:
        listed = versions.find(text)
        # A bare branch stands for its newest driver.
        if listed and listed.major == version.major and (len(version.release) == 1 or version >= listed):
            return True
    return False


def listed_branches(snap: Snapshot, matrix: Matrix) -> tuple[str, ...]:
    """The older datacentre branches that the image's release notes list, where these GPUs may use them."""
    image = snap.stack.image.find()
    row = matrix.image(image.reference) if image and "nvidia/" in image.reference else None
    models = [matrix.model_of(gpu) for gpu in snap.machine.gpus.find() or () if gpu.vendor == "nvidia"]
    if row is None or not models or not all(model and model.segment == "datacentre" for model in models):
        return ()
    return row.driver_branches


def fitting_image(snap: Snapshot, matrix: Matrix, framework: str) -> Optional[str]:
    """The newest image of the same repository whose CUDA this driver runs and these GPUs know; None where none is."""
    here = snap.stack.image.find()
    driver = snap.machine.driver.find()
    if here is None or driver is None or not driver.version:
        return None
    repository = images.repository(here.reference)
    gpus = [found for gpu in snap.machine.gpus.find() or () if (found := matrix.capability_of(gpu))]
    rows = [row for row in matrix.framework_images(framework) if images.repository(row.reference) == repository]
    newest_first = sorted(rows, key=lambda row: Version(images.tag(row.reference).partition("-")[0]), reverse=True)
    for row in newest_first:
        if not row.cuda or matrix.runs_cuda(driver.version, versions.minor(row.cuda)) not in ("native", "minor"):
            continue
        if gpus and row.capabilities and not all(matrix.kernels(row.capabilities, gpu) for gpu in gpus):
            continue
        first = [matrix.capability(gpu) for gpu in gpus]
        if any(c and c.first_cuda and Version(c.first_cuda) > Version(versions.minor(row.cuda)) for c in first):
            continue
        return row.reference
    return None
