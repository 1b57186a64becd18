"""Answers about NVIDIA's images."""

from __future__ import annotations

from envcheck.errors import UnknownName
from envcheck.matrix.answer import Answer, facts, notes_of, sources_of, table
from envcheck.matrix.builds import matches
from envcheck.matrix.images import repository, tag
from envcheck.matrix.matrix import Matrix


def show_ngc(matrix: Matrix, name: str = "", wanted: str = "") -> Answer:
    """An image of the catalogue ('pytorch 23.07'), or every tag of a repository."""
    known = sorted({repository(row.reference) for row in matrix.framework_image_rows} | {"cuda"})
    if not name:
        return Answer(
            topic="ngc",
            title="Repositories",
            tables=(table("", ("repository", "tags"), ((n, len(_tags(matrix, n))) for n in known)),),
            sources=("matrices/framework_images/", "matrices/cuda_images.toml"),
        )
    name, wanted = (repository(name), tag(name)) if ":" in name else (name.lower(), wanted)
    if name not in known:
        raise UnknownName("repository", name, known, ", ".join(known))
    if name == "cuda":
        return show_cuda_tags(matrix, wanted)
    if wanted:
        return _one(matrix, name, wanted)
    rows = matrix.framework_images(name)
    return Answer(
        topic="ngc",
        title=f"{name}: {len(rows)} tags",
        tables=(
            table(
                "",
                ("tag", "version", "CUDA", "cuDNN", "Python", "Ubuntu", "driver", "evidence"),
                (
                    (
                        tag(r.reference),
                        r.framework_version,
                        r.cuda,
                        r.cudnn,
                        r.python,
                        r.ubuntu,
                        r.driver_min,
                        r.evidence,
                    )
                    for r in rows
                ),
            ),
        ),
        sources=(f"matrices/framework_images/{name}.toml",),
    )


def _tags(matrix: Matrix, name: str) -> tuple[object, ...]:
    return matrix.cuda_images if name == "cuda" else matrix.framework_images(name)


def _one(matrix: Matrix, name: str, wanted: str) -> Answer:
    found = [
        row for row in matrix.framework_images(name) if tag(row.reference).startswith((f"{wanted}-", f"{wanted}."))
    ]
    exact = matrix.image(f"{name}:{wanted}")
    row = exact or (found[0] if len(found) == 1 else None)
    if row is None and not found:
        raise UnknownName(
            f"tag of {name}", wanted, [tag(r.reference) for r in matrix.framework_images(name)], _see(name)
        )
    if row is None:
        rows = [(tag(r.reference), r.framework_version, r.cuda) for r in found]
        return Answer(
            topic="ngc",
            title=f"{name} {wanted}",
            tables=(table("", ("tag", "version", "CUDA"), rows),),
            sources=sources_of(found, f"framework_images/{name}.toml"),
        )
    floor = matrix.driver_floor(row.cuda) if row.cuda else None
    return Answer(
        topic="ngc",
        title=row.reference,
        facts=facts(
            carries=f"{row.framework or 'framework'} {row.framework_version}"
            if row.framework_version
            else row.framework,
            pre_release="NVIDIA's own build: pip must not replace it" if row.framework == "torch" else None,
            CUDA=row.cuda,
            cuDNN=row.cudnn,
            NCCL=row.nccl,
            TensorRT=row.tensorrt,
            Python=row.python,
            Ubuntu=row.ubuntu,
            also=[f"{package} {version}" for package, version in row.packages.items()],
            driver_by_its_notes=f">= {row.driver_min}" if row.driver_min else None,
            or_datacentre_branch=[f"{branch}+" for branch in row.driver_branches],
            driver_by_its_CUDA=f">= {floor} natively, >= {matrix.minor_floor(row.cuda) or floor} by minor version"
            if row.cuda and floor
            else None,
            compat_libcuda=row.compat_driver,
            GPUs=row.capabilities,
            built_on=row.base,
            evidence=row.evidence,
        ),
        notes=notes_of([row]),
        sources=sources_of([row], f"framework_images/{name}.toml"),
    )


def _see(name: str) -> str:
    return f"envcheck matrix show ngc {name}"


def show_cuda_tags(matrix: Matrix, wanted: str = "") -> Answer:
    """Tags of nvidia/cuda: all CUDAs, or the tags of one ('12.4', '12.4.1', or a whole tag)."""
    if not wanted:
        by: dict[str, list[str]] = {}
        for row in matrix.cuda_images:
            by.setdefault(row.cuda, []).append(row.distro)
        rows = ((cuda, " ".join(dict.fromkeys(distros))) for cuda, distros in by.items())
        return Answer(
            topic="ngc",
            title=f"cuda: {len(matrix.cuda_images)} tags",
            tables=(table("", ("CUDA", "distributions"), rows),),
            notes=tuple(p.text for p in matrix.policies if p.topic == "cuda images"),
            sources=sources_of(matrix.cuda_images, "cuda_images.toml"),
        )
    one = matrix.cuda_image(wanted)
    found = [one] if one else [row for row in matrix.cuda_images if matches(row.cuda, wanted)]
    if not found:
        known = [*{row.cuda: 0 for row in matrix.cuda_images}, *(row.tag for row in matrix.cuda_images)]
        raise UnknownName("tag of nvidia/cuda", wanted, known, _see("cuda"))
    starts = {row.require for row in found}
    return Answer(
        topic="ngc",
        title=f"nvcr.io/nvidia/cuda {wanted}",
        facts=facts(starts_on=" or ".join(sorted(starts)) if len(starts) < 4 else None),
        tables=(
            table(
                "",
                ("tag", "cuDNN", "NCCL", "architectures", "status"),
                ((r.tag, r.cudnn, r.nccl, r.arches, r.status) for r in found),
            ),
        ),
        notes=notes_of(found),
        sources=sources_of(found, "cuda_images.toml"),
    )
