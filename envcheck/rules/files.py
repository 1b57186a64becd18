"""FIL: what only a file can do wrong: its install lines against its base image and against the matrix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.matrix.specifiers import find_requirement
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.model.reference import find_reference
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.recipe import Step
    from envcheck.model.snapshot import Snapshot

PIP = ("pip", "uv", "poetry", "pdm", "pipenv")
SYSTEM = ("apt", "dnf", "apk", "runfile")
DRIVER = re.compile(
    r"(nvidia-driver(-\d+.*)?|cuda-drivers(-\d+.*)?|nvidia-(headless|utils|kernel|dkms)-.*|libnvidia-(compute|gl|cfg).*|"
    r"libcuda1|nvidia-open.*|kmod-nvidia.*|NVIDIA-Linux-.*\.run)(=.*)?"
)
# Metapackages that bring a driver beside the toolkit: 'cuda', 'cuda-12-4', 'cuda-runtime-12-4'.
META = re.compile(r"cuda(-runtime)?(-\d+-\d+)?(=.*)?")
TOOLKIT = re.compile(
    r"(nvidia-cuda-toolkit|cuda-toolkit(-\d+-\d+)?|cuda-nvcc-.*|cuda_[\d.]+_[\d.]+_linux\w*\.run)(=.*)?"
)


def _steps(snap: Snapshot, managers: tuple[str, ...]) -> Iterator[tuple[Step, str, str]]:
    """(step, name, source) for every name that a step of these managers installs."""
    for step in snap.recipe.steps if snap.recipe else ():
        if step.manager in managers:
            for index, name in enumerate(step.names):
                yield step, name, step.where(index)


def _told_base(snap: Snapshot) -> None:
    """Raise UnknownFact where the base image hangs on an argument that nobody gave."""
    base = snap.recipe.base if snap.recipe else None
    if base is not None and not base.reference:
        raise UnknownFact(f"base image: {base.written or 'its name'} has an argument without a value")


@rule("FIL101", "vendor-build-replaced", "warning", cause="vendor-build-replaced", rank=15)
def vendor_build_replaced(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """pip replaces the framework that the base image's vendor built.

    Why: NVIDIA's framework images carry builds of their own, tuned with the image's CUDA, cuDNN and NCCL. They are
    pre-releases by number ('2.4.0a0' is older than '2.4'), so a pin, or a requirement from '>=2.4' on, makes pip fetch
    the public wheel over it: gigabytes more, another CUDA, and extensions of the image that no longer load.
    How: requirements of pip and uv lines, and the exact pins of companions, against the base image's own release.
    Fix: leave the framework out of the requirements, or choose the image whose release it is; `pip install -c
    /etc/pip/constraint.txt` holds the image's versions where the image has that file.
    Sources: NVIDIA's framework release notes; PEP 440.
    """
    recipe = snap.recipe
    if recipe is None or recipe.base is None:
        return
    if any(True for _ in _steps(snap, PIP)):
        _told_base(snap)
    own = dict(_vendor_builds(recipe.base.reference, snap, matrix))
    if not own:
        return
    replaced: dict[str, Problem] = {}
    for step, text, source in _steps(snap, PIP):
        if step.constrained or (step.no_deps and _name(text) not in own):
            continue
        for name, asked in _asked(text, matrix):
            version = own.get(name)
            if version is None or _keeps(asked, version):
                continue
            direct = _name(text) == name
            problem = Problem(
                f"{text}{'' if direct else f' (which asks for {asked})'} replaces {name} {version}, "
                "the build of the base image's vendor",
                fix=(f"Leave {name} out of the requirements, or start from the image whose {name} it is.",),
                subject=name,
                evidence=(
                    Evidence(step.manager, text, source, "found"),
                    Evidence(f"{name} of {recipe.base.reference}", version, recipe.base.source, "needed"),
                ),
            )
            # One finding a framework: the line that names it speaks for those that bring it along.
            if direct:
                replaced[name] = problem
            else:
                replaced.setdefault(name, problem)
    yield from replaced.values()


def _vendor_builds(reference: str, snap: Snapshot, matrix: Matrix) -> Iterator[tuple[str, str]]:
    row = matrix.image(reference)
    parsed = find_reference(reference)
    if row is not None and parsed is not None and "nvidia/" in parsed.repository and row.framework:
        yield row.framework, row.framework_version or "(its own)"
        return
    if parsed is not None and "nvidia/" in parsed.repository:
        newest = next(iter(matrix.framework_images(parsed.repository.rpartition("/")[2])), None)
        if newest is not None and newest.framework:
            yield newest.framework, "(its own)"


def _asked(text: str, matrix: Matrix) -> Iterator[tuple[str, str]]:
    """(package, requirement) that installing `text` asks for: itself, and what a pinned companion pins exactly."""
    requirement = find_requirement(text)
    if requirement is None:
        return
    yield _name(text), text
    pins = [s.version for s in requirement.specifier if s.operator == "==" and not s.version.endswith(".*")]
    if len(pins) == 1:
        for row in matrix.companions_of(_name(text), pins[0]):
            if row.relation == "exact" and row.requirement:
                yield (
                    row.framework,
                    row.requirement if row.requirement[0].isalpha() else f"{row.framework}{row.requirement}",
                )


def _keeps(asked: str, version: str) -> bool:
    """Does pip leave an installed `version` alone when `asked` is wanted? Installed pre-releases count for it."""
    requirement = find_requirement(asked)
    if requirement is None:
        return True
    if requirement.url:
        return False
    if not str(requirement.specifier):
        return True
    return versions.find(version) is not None and requirement.specifier.contains(version, prereleases=True)


def _name(text: str) -> str:
    match = re.match(r"[A-Za-z0-9][\w.\-]*", text)
    return re.sub(r"[-_.]+", "-", match.group()).lower() if match else ""


@rule("FIL102", "driver-in-image", "warning", cause="driver-in-image", rank=20)
def driver_in_image(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A driver is installed into an image.

    Why: the driver is the host's: the container toolkit mounts its libraries at start. A second one in the image is
    found first or beside it, and unless its version is the host's to the digit, CUDA fails (error 803).
    How: packages and installers of the driver, and metapackages that bring it ('cuda', 'cuda-12-4'), in install lines.
    Fix: install cuda-toolkit-X-Y or single libraries instead, which bring no driver.
    Sources: CUDA installation guide (metapackages); container toolkit documentation.
    """
    if snap.recipe is None:
        return
    open_questions = []
    for _, name, source in _steps(snap, SYSTEM):
        if "$" in name:
            open_questions.append(f"package of {source}: {name} has no value")
            continue
        if DRIVER.fullmatch(name):
            fix = "Take it out: the host's driver is mounted when the container starts."
        elif META.fullmatch(name):
            pair = re.search(r"\d+-\d+", name)
            fix = f"Install cuda-toolkit-{pair.group() if pair else 'X-Y'} instead: it brings no driver."
        else:
            continue
        yield Problem(
            f"{name.split('=')[0]} installs a driver into the image, where only the host's counts",
            fix=(fix,),
            subject=name.split("=")[0],
            evidence=(Evidence("install line", name, source, "found"),),
        )
    if open_questions:
        raise UnknownFact("; ".join(open_questions))


@rule("FIL103", "toolkit-installed-twice", "warning", cause="toolkit-installed-twice", rank=60)
def toolkit_installed_twice(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A CUDA toolkit is installed on a base image that has one, or the distribution's own old one is taken.

    Why: two toolkits give two nvcc and two sets of headers; which one a build meets hangs on PATH. The distribution's
    nvidia-cuda-toolkit is years behind the base image's.
    How: toolkit packages in install lines, where the base image carries CUDA.
    Fix: start from the devel image of that CUDA, or install on a base without CUDA.
    Sources: supported-tags.md of NVIDIA's container images.
    """
    recipe = snap.recipe
    if recipe is None or recipe.base is None or not any(TOOLKIT.fullmatch(name) for _, name, _ in _steps(snap, SYSTEM)):
        return
    _told_base(snap)
    # A base that the matrix doesn't know, and that tells no CUDA, is a plain one.
    cuda = snap.stack.cuda.find()
    if not cuda:
        return
    base = versions.minor(str(cuda))
    has_nvcc = bool(snap.stack.toolkits.find())
    for _, name, source in _steps(snap, SYSTEM):
        if not TOOLKIT.fullmatch(name):
            continue
        pair = re.search(r"(\d+)[-.](\d+)", name)
        same = pair is not None and f"{pair.group(1)}.{pair.group(2)}" == base
        if same and not has_nvcc:
            continue  # a runtime image made a devel one: as it should be done
        yield Problem(
            f"{name.split('=')[0]} is installed on a base image that has CUDA {base} already",
            fix=(f"Start from the devel image of CUDA {base}, or install cuda-toolkit-{base.replace('.', '-')}.",),
            subject=name.split("=")[0],
            evidence=(
                Evidence("install line", name, source, "found"),
                Evidence("CUDA of the base image", str(cuda), snap.stack.cuda.source),
            ),
            severity="note" if same else None,
        )


@rule("FIL104", "no-such-build", "error", cause="no-such-build", rank=10)
def no_such_build(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """No build of this release exists for the variant that is asked for.

    Why: an index of CUDA builds holds only the releases that were built for that CUDA; pip then says 'No matching
    distribution found', or takes another build from the default index without a word.
    How: a pinned release and the variant of its index or local version, against all builds that the matrix knows.
    Fix: the index of a variant that the release was built for, or a release that was built for this one.
    Sources: matrices/builds, from the indexes themselves.
    """
    if snap.recipe is None:
        return
    for package in snap.stack.packages.get():
        if not package.version or not package.variant or package.installer == "image":
            continue
        release = package.version.partition("+")[0]
        variants = matrix.variants(package.name, release)
        whole = [row for row in matrix.builds_of(package.name, release) if row.version == release]
        if not whole or package.variant in {row.variant for row in whole} or "" in variants:
            continue
        others = ", ".join(dict.fromkeys(row.variant for row in whole if row.variant))
        having = [row.version for row in matrix.builds_of(package.name, variant=package.variant)]
        fixes = [f"{package.name} {release}: take {others}"]
        if having:
            fixes.append(f"{package.variant}: {package.name} {having[-1]} to {having[0]} were built for it")
        yield Problem(
            f"{package.name} {release} was never built for {package.variant}",
            fix=tuple(fixes),
            subject=package.name,
            evidence=(
                Evidence(package.name, f"{package.version} ({package.variant})", package.source, "found"),
                Evidence("builds of this release", others, f"matrices/builds/{package.name}.toml", "needed"),
            ),
        )


@rule("FIL105", "devel-image-not-needed", "note", cause="devel-image-not-needed", rank=90)
def devel_image_not_needed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The final image carries a compiler that nothing in it uses.

    Why: a devel image of nvidia/cuda is several gigabytes larger than the runtime one; frameworks from wheels bring
    their own CUDA libraries and need not even that.
    How: the final stage starts from a devel tag, and no line of it compiles.
    Fix: compile in an earlier stage and start the last from the runtime (or base) tag.
    Sources: supported-tags.md of NVIDIA's container images.
    """
    recipe = snap.recipe
    if recipe is None or recipe.base is None or recipe.compiles or snap.origin.kind != "dockerfile":
        return
    _told_base(snap)
    row = matrix.cuda_image(recipe.base.reference) if "nvidia/cuda" in recipe.base.reference else None
    if row is None or row.flavour != "devel":
        return
    if not any(step.manager in (*PIP, "conda") for step in recipe.steps) or _builds_from_source(snap):
        return
    smaller = recipe.base.reference.replace("-devel-", "-runtime-")
    yield Problem(
        "the final stage starts from a devel image, and nothing in it compiles",
        fix=(f"FROM {smaller}",),
        subject=recipe.base.reference,
        evidence=(Evidence("FROM", recipe.base.reference, recipe.base.source, "found"),),
    )


def _builds_from_source(snap: Snapshot) -> Optional[str]:
    """A step that pip may have to compile: from a repository, or with build isolation off."""
    for _, name, source in _steps(snap, PIP):
        if name.startswith("git+") or name in ("--no-build-isolation", "--no-binary") or "@" in name:
            return source
    steps = snap.recipe.steps if snap.recipe else ()
    return next((step.source for step in steps if step.files), None)


RULES = (
    vendor_build_replaced,
    driver_in_image,
    toolkit_installed_twice,
    no_such_build,
    devel_image_not_needed,
)
