"""Answers about GPUs and cloud machines."""

from __future__ import annotations

from typing import Optional

from packaging.version import Version

from envcheck import versions
from envcheck.errors import UnknownName
from envcheck.matrix.answer import Answer, facts, notes_of, sources_of, table
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.rows import Build, GpuModel

FRAMEWORKS = ("torch", "tensorflow")
MODULES = {"required": "the open ones only", "unsupported": "the proprietary ones only"}


def show_gpu(matrix: Matrix, name: str) -> Answer:
    """One GPU: what it is, which CUDA and drivers serve it, and which framework builds have code for it."""
    model = matrix.get_gpu(name)
    row = matrix.capability(model.capability)
    cuda = _from_to(row.first_cuda, row.last_cuda) if row else ""
    fit = [(package, _fitting(matrix, package, model.capability)) for package in FRAMEWORKS]
    return Answer(
        topic="gpu",
        title=model.name,
        facts=facts(
            architecture=f"{model.architecture}, {model.capability} ({versions.sm(model.capability)})",
            memory=f"{model.memory_gb:g} GB" if model.memory_gb else None,
            segment=model.segment,
            compiled_by=f"CUDA {cuda}" if cuda else None,
            driver=_driver_span(model, row.last_branch if row else None),
            kernel_modules=MODULES.get(row.open_modules or "") if row else None,
            cuda_compat="works by NVIDIA's table" if model.segment == "datacentre" else _compat(model),
            MIG=_mig(model),
            NVLink=model.nvlink,
            cores_do=row.features if row else None,
            cores_lack=row.lacks if row else None,
            PCI_ids=model.pci_ids,
            also_called=model.aliases,
        ),
        tables=tuple(
            table(
                f"{package} builds with code for it",
                ("build", "CUDA", "releases", "how"),
                ((v or "default", c, r, h) for v, c, r, h in rows),
            )
            for package, rows in fit
            if rows
        ),
        notes=tuple(filter(None, (model.note, row.note if row else ""))),
        sources=(*sources_of([model], "gpus.toml"), *sources_of([row] if row else [], "capabilities.toml")),
    )


def _compat(model: GpuModel) -> Optional[str]:
    return "not supported on this GPU (error 804)" if model.segment == "consumer" else None


def _mig(model: GpuModel) -> Optional[str]:
    if model.mig is None:
        return None
    if not model.mig:
        return "no"
    parts = [f"up to {model.mig_max} instances" if model.mig_max else "yes"]
    return ", ".join([*parts, f"driver {model.mig_min_driver} or newer"] if model.mig_min_driver else parts)


def _driver_span(model: GpuModel, last: Optional[int]) -> str:
    first = model.first_driver or (f"R{model.min_branch}" if model.min_branch else "")
    return _from_to(first, f"R{last}" if last else None)


def _from_to(first: Optional[str], last: Optional[str]) -> str:
    if first and last:
        return f"{first} to {last} (the last)"
    return f"{first} or newer" if first else f"up to {last} (the last)" if last else ""


def _fitting(matrix: Matrix, package: str, capability: str) -> list[tuple[str, str, str, str]]:
    """For each variant: its CUDAs, the oldest and newest release with code for the GPU, and machine code or PTX."""
    found: dict[str, list[tuple[Build, str]]] = {}
    for build in matrix.builds_of(package):
        how = matrix.kernels(build.capabilities, capability) if build.capabilities else None
        if how and build.accelerator == "cuda":
            found.setdefault(build.variant, []).append((build, how))
    answer = []
    for variant, builds in found.items():
        newest, oldest = builds[0][0], builds[-1][0]
        cudas = sorted({b.cuda for b, _ in builds if b.cuda}, key=Version)
        hows = {how for _, how in builds}
        word = "machine code" if hows == {"sass"} else "PTX: compiled at first use" if hows == {"ptx"} else "both"
        answer.append((variant, " ".join(cudas), f"{oldest.version} to {newest.version}", word))
    return sorted(answer, key=lambda row: Version(row[1].split()[-1] if row[1] else "0"), reverse=True)


def show_gpus(matrix: Matrix) -> Answer:
    """Every GPU, by compute capability."""
    by: dict[str, list[str]] = {}
    for model in matrix.gpus:
        short = model.name.replace("NVIDIA ", "").replace("GeForce ", "").replace(" Generation", "")
        by.setdefault(model.capability, []).append(short.replace(" Laptop GPU", " Laptop"))
    rows = []
    for capability in sorted(by, key=Version):
        known = matrix.capability(capability)
        rows.append((capability, known.architecture if known else "", ", ".join(by[capability])))
    return Answer(
        topic="gpus",
        title=f"{len(matrix.gpus)} GPUs",
        tables=(table("", ("capability", "architecture", "models"), rows),),
        sources=("matrices/gpus.toml",),
    )


def show_instances(matrix: Matrix, provider: str = "") -> Answer:
    """Cloud machines, all or of one provider; 'aws:p4d.24xlarge' shows one."""
    if ":" in provider:
        row = matrix.get_instance(provider)
        model = matrix.find_gpu(row.model) if row.model else None
        return Answer(
            topic="instance",
            title=f"{row.provider}:{row.name}",
            facts=facts(
                GPUs=f"{row.count:g} x {row.model or row.gpu}" if row.count else row.model or row.gpu,
                capability=model.capability if model else None,
                memory_of_each=f"{row.memory_gb_each:g} GB" if row.memory_gb_each else None,
                vCPU=row.vcpu,
                RAM=f"{row.ram_gb:g} GB" if row.ram_gb else None,
                network=f"{row.network_gbps:g} Gbit/s" if row.network_gbps else None,
                interconnect=row.interconnect,
                driver_of_the_image=row.image_driver,
            ),
            notes=notes_of([row]),
            sources=sources_of([row], "instances.toml"),
        )
    providers = sorted({row.provider for row in matrix.instances})
    if provider and provider.lower() not in providers:
        raise UnknownName("cloud provider", provider, providers, ", ".join(providers))
    rows = [row for row in matrix.instances if provider.lower() in ("", row.provider)]
    return Answer(
        topic="instances",
        title=f"{len(rows)} cloud machines",
        tables=(
            table(
                "",
                ("machine", "GPUs", "model", "GB each", "vCPU", "RAM GB", "Gbit/s"),
                (
                    (
                        f"{r.provider}:{r.name}",
                        r.count,
                        r.model or r.gpu,
                        r.memory_gb_each,
                        r.vcpu,
                        r.ram_gb,
                        r.network_gbps,
                    )
                    for r in rows
                ),
            ),
        ),
        sources=sources_of(rows, "instances.toml"),
    )
