"""What a stack will be: image references and requirement ranges, resolved by the matrix without a network.

Every fact that comes from here says so in its source. What the matrix doesn't know stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envcheck import versions
from envcheck.model.fact import known
from envcheck.model.reference import find_reference
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Distro, Package, Python, Stack, Toolkit
from envcheck.readers.image_config import NO_GPUS, compat_cuda, overlay
from envcheck.readers.image_tags import glibc_of, parse_distro, python_of, stack_of_tag

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Build, CudaImage, FrameworkImage

PIP = ("pip", "uv", "poetry", "pdm", "pipenv", "lock", "requirements")
# Variables that all of NVIDIA's framework images set alike.
CONSTANT = ("NVIDIA_REQUIRE_CUDA", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
TOLD = ("image", "container")  # what was read of the image itself is not mended by what the matrix expects


def complete(snap: Snapshot, matrix: Matrix) -> Snapshot:
    """`snap` with what the matrix knows of its image, and its ranges resolved to what would be installed."""
    stack = snap.stack
    image = stack.image.find()
    if image is not None and image.reference:
        below = expected_image(image.reference, matrix, stack.arch.find() or snap.machine.arch.find())
        if below is not None:
            told: dict[str, Any] = {"env": stack.env} if snap.origin.kind in TOLD and stack.env.known else {}
            if stack.packages.known and stack.complete.find():
                told["packages"] = stack.packages  # what was read is whole: nothing is added to it
            stack = msgspec.structs.replace(overlay(below, stack), **told)
    stack = _derived(_with_steps(stack, snap), snap, matrix)
    if stack.packages.known and stack.packages.value:
        packages = resolve(stack.packages.value, matrix, stack, _platform(snap, stack))
        stack = msgspec.structs.replace(stack, packages=known(packages, stack.packages.source))
    wants = snap.wants
    devices = (stack.env.find() or {}).get("NVIDIA_VISIBLE_DEVICES", "")
    if wants.gpu is None and stack.image.known and devices not in NO_GPUS:
        source = wants.source or f"{stack.env.source}: NVIDIA_VISIBLE_DEVICES={devices}"
        wants = msgspec.structs.replace(wants, gpu=True, source=source)
    return msgspec.structs.replace(snap, stack=stack, wants=wants)


def _with_steps(stack: Stack, snap: Snapshot) -> Stack:
    """What a system package manager adds to the base is not looked up: then 'not there' is no longer known."""
    names = [n for step in (snap.recipe.steps if snap.recipe else ()) for n in step.names if step.manager not in PIP]
    changes: dict[str, Any] = {}
    if stack.cudnn.known and stack.cudnn.value is None and any("cudnn" in name for name in names):
        changes["cudnn"] = Stack().cudnn
    if stack.toolkits.known and not stack.toolkits.value and any("cuda" in name for name in names):
        changes["toolkits"] = Stack().toolkits
    return msgspec.structs.replace(stack, **changes) if changes else stack


def expected_image(reference: str, matrix: Matrix, arch: Optional[str] = None) -> Optional[Stack]:
    """The stack of a known image by its reference; None for an unknown one."""
    parsed = find_reference(reference)
    if parsed is None:
        return None
    path = parsed.repository
    if path == "nvidia/cuda" or path.endswith("/nvidia/cuda"):
        row = matrix.cuda_image(parsed.tag) if parsed.tag else None
        return cuda_stack(row, matrix, arch) if row else None
    if "nvidia/" in path:
        found = matrix.image(reference)
        return framework_stack(found, matrix) if found else None
    return stack_of_tag(reference, reference)


def framework_stack(row: FrameworkImage, matrix: Matrix) -> Stack:
    """What the matrix says of one of NVIDIA's framework images."""
    source = f"{row.reference} (matrices/framework_images)"
    packages = [
        Package(name, version=version, installer="image", channel="ngc", source=source)
        for name, version in sorted(row.packages.items())
        if versions.find(version) is not None and name != row.framework
    ]
    if row.framework and row.framework_version:
        cuda = ".".join(row.cuda.split(".")[:2]) if row.cuda else None
        packages.append(
            Package(
                row.framework,
                version=row.framework_version,
                cuda=cuda,
                cudnn=row.cudnn,
                installer="image",
                channel="ngc",
                capabilities=row.capabilities,
                source=source,
            )
        )
    env = {
        variable.name: variable.example
        for variable in matrix.image_variables
        if variable.family.startswith("NGC framework") and variable.kind == "env" and variable.name in CONSTANT
    }
    facts: dict[str, Any] = {"env": known(env, f"{source}, matrices/image_variables.toml")} if env else {}
    if packages:
        facts["packages"] = known(tuple(sorted(packages, key=lambda p: p.name)), source)
        facts["complete"] = known(False, source)
    if row.cuda:
        facts["cuda"] = known(".".join(row.cuda.split(".")[:3]), source)
    if row.cudnn:
        facts["cudnn"] = known(row.cudnn, source)
    if row.python and (match := re.match(r"3\.\d+(\.\d+)?", row.python)):
        facts["python"] = known(Python(match.group()), source)
    if row.ubuntu:
        facts["distro"] = known(Distro("ubuntu", row.ubuntu, f"Ubuntu {row.ubuntu}"), source)
    if row.compat_driver:
        facts["compat"] = known(row.compat_driver, source)
    return Stack(**facts)


def cuda_stack(row: CudaImage, matrix: Matrix, arch: Optional[str]) -> Stack:
    """What the matrix says of a tag of nvidia/cuda, its requirement word for word where that is known."""
    source = f"nvidia/cuda:{row.tag} (matrices/cuda_images.toml)"
    env = {
        "CUDA_VERSION": row.cuda,
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    machine = {"aarch64": "arm64", "x86_64": "amd64"}.get(arch or "x86_64", "amd64")
    require = _exact_require(row, matrix, machine)
    if require:
        env["NVIDIA_REQUIRE_CUDA"] = require
    if machine == "amd64":
        env["NV_CUDA_COMPAT_PACKAGE"] = f"cuda-compat-{'-'.join(row.cuda.split('.')[:2])}"
    facts: dict[str, Any] = {"cuda": known(row.cuda, source), "env": known(env, source)}
    distro = parse_distro(row.distro)
    if distro:
        facts["distro"] = known(distro, source)
    if row.has_cudnn and row.cudnn:
        facts["cudnn"] = known(row.cudnn, source)
    elif not row.has_cudnn:
        facts["cudnn"] = known(None, source)
    devel = row.flavour == "devel"
    toolkit = Toolkit(".".join(row.cuda.split(".")[:2]), "/usr/local/cuda", True, source)
    facts["toolkits"] = known((toolkit,) if devel else (), source)
    return Stack(**facts)


def _exact_require(row: CudaImage, matrix: Matrix, machine: str) -> str:
    """NVIDIA_REQUIRE_CUDA of this tag: by CUDA release, architecture and distribution."""
    wanted = versions.find(row.cuda)
    for variable in matrix.image_variables:
        if not variable.kind.startswith("NVIDIA_REQUIRE_CUDA"):
            continue
        told = versions.find(variable.name.partition(" ")[2])
        if told is None or wanted is None or told.release != wanted.release[: len(told.release)]:
            continue
        for part in variable.where.split(";"):
            name, _, distros = part.strip().partition(":")
            if name == machine and row.distro in [d.strip() for d in distros.split(",")]:
                return variable.example
    return ""


def _derived(stack: Stack, snap: Snapshot, matrix: Matrix) -> Stack:
    """What follows from the distribution and from the compat package that the environment names."""
    changes: dict[str, Any] = {}
    distro = stack.distro.find()
    if distro is not None:
        glibc = glibc_of(distro)
        if glibc and not stack.glibc.known:
            changes["glibc"] = known(glibc, f"{distro.id} {distro.version}")
        steps = snap.recipe.steps if snap.recipe else ()
        system = next((s for s in steps if s.manager in ("apt", "dnf") and any("python3" in n for n in s.names)), None)
        python = python_of(distro)
        if python and system and not stack.python.known:
            changes["python"] = known(Python(python, kind="system"), f"{system.source}: {distro.id} {distro.version}")
    env = stack.env.find() or {}
    compat = compat_cuda(env)
    if compat and not stack.compat.known:
        floor = matrix.driver_floor(compat)
        if floor:
            package = env["NV_CUDA_COMPAT_PACKAGE"]
            changes["compat"] = known(floor, f"{package}, whose driver is at least {floor} (matrices/cuda.toml)")
    return msgspec.structs.replace(stack, **changes) if changes else stack


def _platform(snap: Snapshot, stack: Stack) -> str:
    arch = stack.arch.find() or snap.machine.arch.find() or "x86_64"
    return "linux-aarch64" if arch == "aarch64" else "linux-x86_64"


def resolve(packages: Iterable[Package], matrix: Matrix, stack: Stack, platform: str) -> tuple[Package, ...]:
    """Ranges to the release that would be installed, and the frameworks that pinned companions bring along."""
    by_name = {package.name: package for package in packages}
    python = stack.python.find()
    short = ".".join(python.version.split(".")[:2]) if python and python.version else ""
    known_names = frozenset(matrix.packages())
    for name, package in by_name.items():
        if package.version is None and not package.channel.startswith("git+") and name in known_names:
            by_name[name] = _resolved(package, by_name, matrix, short, platform)
    for name, package in by_name.items():
        by_name[name] = _default_build(package, matrix, platform)
    for package in list(by_name.values()):
        brought = _brought(package, by_name, matrix)
        if brought is not None:
            by_name[brought.name] = _default_build(brought, matrix, platform)
    return tuple(by_name[name] for name in sorted(by_name))


def _default_build(package: Package, matrix: Matrix, platform: str) -> Package:
    """With the build that the default index gives on this platform, where neither version nor index names one."""
    if not package.version or package.variant or package.cuda or package.installer not in PIP:
        return package
    build = matrix.build(package.name, package.version, None, platform)
    if build is None:
        return package
    return msgspec.structs.replace(
        package, variant=build.variant or None, cuda=build.cuda or package.cuda, cudnn=build.cudnn or package.cudnn
    )


def _resolved(package: Package, others: dict[str, Package], matrix: Matrix, python: str, platform: str) -> Package:
    specifier = specifier_of(package.requirement or package.name)
    if specifier is None:
        return package
    bound = _bound_by_companions(package, others, matrix)
    if bound is not None and specifier.contains(bound, prereleases=True):
        return msgspec.structs.replace(package, version=bound, source=package.source)
    for version in matrix.versions_of(package.name):
        parsed = versions.find(version)
        if parsed is None or parsed.is_prerelease or not specifier.contains(parsed):
            continue
        fits = _fits(package, version, others, matrix, python, platform)
        if fits is not None:
            return msgspec.structs.replace(package, version=version, variant=package.variant or fits or None)
    return package


def _fits(
    package: Package, version: str, others: dict[str, Package], matrix: Matrix, python: str, platform: str
) -> Optional[str]:
    """'' or the variant if this release can be what pip takes; None if it can't."""
    companions = matrix.companions_of(package.name, version)
    if companions:
        row = companions[0]
        framework = others.get(row.framework)
        if row.yanked or (row.requires_python and python and not _supports(row.requires_python, python)):
            return None
        if framework and framework.version and row.requirement:
            release = framework.version.partition("+")[0]
            told = specifier_of(f"{row.framework}{row.requirement}")
            if told is not None and not told.contains(Version(release).base_version, prereleases=True):
                return None
        return ""
    build: Optional[Build] = matrix.build(package.name, version, package.variant, platform)
    if build is None:
        return "" if not package.variant and not matrix.builds_of(package.name, version) else None
    if build.yanked or (python and build.requires_python and not _supports(build.requires_python, python)):
        return None
    return ""


def _supports(specifier: str, python: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(f"{python}.99")
    except ValueError:
        return True


def _bound_by_companions(package: Package, others: dict[str, Package], matrix: Matrix) -> Optional[str]:
    """The release of a framework that a pinned companion asks for exactly."""
    for other in others.values():
        if other.name == package.name or not other.version:
            continue
        for row in matrix.companions_of(other.name, other.version):
            if row.framework == package.name and row.relation == "exact" and row.framework_version:
                return row.framework_version
    return None


def _brought(package: Package, others: dict[str, Package], matrix: Matrix) -> Optional[Package]:
    """The framework that installing a pinned companion alone brings along, at the release that it asks for."""
    if not package.version or package.installer in ("image", "conda") or not package.source:
        return None
    for row in matrix.companions_of(package.name, package.version):
        if row.relation == "exact" and row.framework_version and row.framework not in others:
            return Package(
                row.framework,
                version=row.framework_version,
                variant=package.variant,
                cuda=package.cuda,
                installer=package.installer,
                channel=package.channel,
                requirement=f"{package.name}=={package.version}",
                pinned=False,
                source=package.source,
            )
    return None


def specifier_of(text: str) -> Optional[SpecifierSet]:
    """The specifier of a requirement text; None for what is none."""
    try:
        return Requirement(text.partition(";")[0].strip()).specifier
    except InvalidRequirement:
        return None
