"""An image's configuration to a snapshot: what its environment and labels say of CUDA, frameworks and the system.

NVIDIA's images are told by these variables; a tag is never read as a CUDA version, and the labels and requirement that
are constant in NVIDIA's framework images count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional

import msgspec
from packaging.version import InvalidVersion, Version

from envcheck import versions
from envcheck.model.fact import Fact, known, not_told
from envcheck.model.image import ImageConfig
from envcheck.model.recipe import Recipe, Step
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.model.stack import Distro, Image, Package, Python, Stack
from envcheck.readers.installs import merge_packages, packages_of
from envcheck.readers.shell_steps import read_steps

MACHINES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "ppc64le": "ppc64le", "s390x": "s390x"}
# Variable -> distribution, for what an image's environment tells of itself.
FRAMEWORKS = {
    "PYTORCH_VERSION": "torch",
    "TENSORFLOW_VERSION": "tensorflow",
    "JAX_VERSION": "jax",
    "TRT_VERSION": "tensorrt",
    "TRANSFORMER_ENGINE_VERSION": "transformer-engine",
    "VLLM_VERSION": "vllm",
}
NO_GPUS = frozenset({"", "void", "none", "NoDevFiles"})


def read_image(config: ImageConfig) -> Snapshot:
    """The snapshot of an image by its configuration alone; what that doesn't tell stays unknown."""
    env = config.env
    source = config.source
    packages = merge_packages([*_frameworks(env, source), *_history_packages(config)])
    steps = _history_steps(config)
    cuda = _digits(env.get("CUDA_VERSION"), 3)
    return Snapshot(
        origin=Origin("image", config.reference, ("image config",)),
        stack=Stack(
            distro=_distro(config),
            arch=known(MACHINES.get(config.arch, config.arch), source) if config.arch else not_told("architecture"),
            python=_python(env, source),
            packages=known(packages, source) if packages else not_told("installed packages"),
            complete=known(False, source),
            cuda=known(cuda, f"{source}: CUDA_VERSION") if cuda else _label_cuda(config),
            cudnn=_cudnn(config),
            env=known(dict(env), source),
            image=known(
                Image(config.reference, config.digest, config.arch, dict(config.labels), config.created), source
            ),
            compat=_compat(env, source),
        ),
        wants=_wants(env, source),
        remarks=config.remarks,
        recipe=Recipe(steps=tuple(steps)) if steps else None,
    )


def is_ngc(env: Mapping[str, str]) -> bool:
    """A framework image of NVIDIA's catalogue, or one built on it: it says its product and its own build."""
    return "NVIDIA_PRODUCT_NAME" in env and ("NVIDIA_BUILD_ID" in env or any(
        name.startswith("NVIDIA_") and name.endswith("_VERSION") for name in env
    ))  # fmt: skip


def _frameworks(env: Mapping[str, str], source: str) -> list[Package]:
    cuda = _digits(env.get("CUDA_VERSION"), 2)
    architectures = _architectures(env.get("TORCH_CUDA_ARCH_LIST", ""))
    found = []
    for variable, name in FRAMEWORKS.items():
        version = (env.get(variable) or "").strip().lstrip("v")
        try:
            Version(version)
        except InvalidVersion:
            continue
        variant = versions.local_variant(version)
        own = is_ngc(env)
        found.append(
            Package(
                name,
                version=version,
                variant=variant,
                cuda=cuda if own or not variant else versions.cuda_from_tag(variant),
                installer="image" if own else "",
                channel="ngc" if own else "",
                capabilities=architectures if own and name == "torch" else None,
                source=f"{source}: {variable}",
            )
        )
    return found


def _architectures(text: str) -> Optional[tuple[str, ...]]:
    """'7.5 8.0 8.6 9.0+PTX' or with semicolons."""
    words = [word for word in re.split(r"[\s;]+", text) if word]
    if not words or not all(re.fullmatch(r"\d+\.\d[af]?(\+PTX)?", word) for word in words):
        return None
    return tuple(words)


def _history_steps(config: ImageConfig) -> list[Step]:
    """Install steps in the commands that made the layers ('RUN /bin/sh -c pip install …' and BuildKit's spelling)."""
    found: list[Step] = []
    source = f"{config.source}: history"
    for line in config.history:
        text = re.sub(r"^(?:RUN )?(?:\|\d+ (?:\S+=\S* )*)?(?:/bin/(?:ba)?sh -\w*c )?", "", line)
        text = re.sub(r"\s+# buildkit$", "", text)
        if text.startswith(("#(nop)", "COPY ", "ADD ", "ENV ", "LABEL ", "CMD ", "ENTRYPOINT ", "ARG ", "WORKDIR ")):
            continue
        found += read_steps(text, source, config.env)
    return found


def _history_packages(config: ImageConfig) -> list[Package]:
    return [package for step in _history_steps(config) for package in packages_of(step) if package.version]


def _distro(config: ImageConfig) -> Fact[Distro]:
    labels = config.labels
    name, version = (
        labels.get("org.opencontainers.image.ref.name", ""),
        labels.get("org.opencontainers.image.version", ""),
    )
    if name in ("ubuntu", "debian") and re.fullmatch(r"\d+(\.\d+)?", version):
        return known(Distro(name, version, f"{name.title()} {version}"), f"{config.source}: labels")
    if labels.get("name", "").startswith("ubi") and labels.get("version"):
        return known(Distro("rhel", labels["version"].split("-")[0], "UBI"), f"{config.source}: labels")
    return not_told("distribution")


def _python(env: Mapping[str, str], source: str) -> Fact[Optional[Python]]:
    version = env.get("PYTHON_VERSION", "")
    if re.fullmatch(r"3\.\d+(\.\d+)?", version):
        return known(Python(version), f"{source}: PYTHON_VERSION")
    return not_told("Python")


def _label_cuda(config: ImageConfig) -> Fact[Optional[str]]:
    """The label of old CUDA images; in framework images it is constant and says nothing."""
    told = _digits(config.labels.get("com.nvidia.cuda.version"), 3)
    if told and not is_ngc(config.env):
        return known(told, f"{config.source}: label com.nvidia.cuda.version")
    return not_told("CUDA of the userland")


def _cudnn(config: ImageConfig) -> Fact[Optional[str]]:
    for name, value in (
        ("NV_CUDNN_VERSION", config.env.get("NV_CUDNN_VERSION")),
        ("CUDNN_VERSION", config.env.get("CUDNN_VERSION")),
        ("label com.nvidia.cudnn.version", config.labels.get("com.nvidia.cudnn.version")),
    ):
        told = _digits(value, 4)
        if told:
            return known(told, f"{config.source}: {name}")
    return not_told("system cuDNN")


def _compat(env: Mapping[str, str], source: str) -> Fact[Optional[str]]:
    """The driver of the image's own compat libcuda, where the environment says it."""
    told = _digits(env.get("CUDA_DRIVER_VERSION"), 3)
    if told:
        return known(told, f"{source}: CUDA_DRIVER_VERSION")
    return not_told("cuda-compat package")


def compat_cuda(env: Mapping[str, str]) -> Optional[str]:
    """The CUDA X.Y of the compat package that the image names; None where it names none."""
    match = re.fullmatch(r"cuda-compat-(\d+)-(\d+).*", env.get("NV_CUDA_COMPAT_PACKAGE", ""))
    return f"{match.group(1)}.{match.group(2)}" if match else None


def _wants(env: Mapping[str, str], source: str) -> Wants:
    devices = env.get("NVIDIA_VISIBLE_DEVICES")
    if devices is not None and devices not in NO_GPUS and env.get("CUDA_VERSION"):
        return Wants(gpu=True, source=f"{source}: NVIDIA_VISIBLE_DEVICES={devices}")
    return Wants()


def _digits(value: Optional[str], parts: int) -> Optional[str]:
    """The first `parts` numbers: '12.4.1.003' and '8.9.7.29+cuda12.2' and '9.1.0.70-1' are cut as the row says."""
    match = re.match(r"\d+(?:\.\d+)*", value or "")
    return ".".join(match.group().split(".")[:parts]) if match else None


def overlay(below: Stack, above: Stack) -> Stack:
    """`above` (what a file adds) on `below` (the image that it starts from): known facts win, packages by name."""
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(Stack):
        upper, lower = getattr(above, field.name), getattr(below, field.name)
        if field.name == "packages" and upper.known and lower.known:
            changes["packages"] = known(merge_packages([*lower.value, *upper.value]), upper.source)
        elif field.name == "env" and upper.known and lower.known:
            changes["env"] = known({**lower.value, **upper.value}, upper.source)
        elif upper.known:
            changes[field.name] = upper
        else:
            changes[field.name] = lower
    return Stack(**changes)
