"""CUD: CUDA libraries and toolkits by their versions: mixes, cuDNN, NCCL, and what compiling needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import Built, frameworks, library_major, major_of, need_whole
from envcheck.rules.known import heard
from envcheck.rules.presence import has_working_gpu
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Compiler, Package, Toolkit

NCCL, CUDNN = "nccl", "cudnn"
CONDA_CUDA = ("cudatoolkit", "cuda-cudart", "cuda-libraries", "libcublas", "cudnn")


def _by_family(snap: Snapshot) -> dict[str, dict[int, Package]]:
    """pip's CUDA libraries: family ('cudnn') -> CUDA major -> package."""
    found: dict[str, dict[int, Package]] = {}
    for package in snap.stack.packages.get():
        major = library_major(package)
        if major is not None and package.installer != "conda":
            family = package.name.partition("nvidia-")[2].rpartition("-cu")[0]
            found.setdefault(family, {})[major] = package
    return found


def _pair(packages: dict[int, Package]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(package.name, package.version or "installed", package.source, "found")
        for _, package in sorted(packages.items())
    )


@rule("CUD101", "mixed-cuda-major-packages", "warning", cause="mixed-cuda-major-packages", rank=42)
def mixed_cuda_major_packages(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """pip's CUDA libraries of two CUDA majors are in one environment.

    Why: both write the same folder (nvidia/cudnn/lib …), the later install wins, and removing one breaks the other.
    How it is decided: one library family is installed for two CUDA majors (nvidia-cudnn-cu12 and -cu13). Different
    families of different majors share no file and are left alone.
    Fix: remove those of the major that no framework uses, then reinstall the other.
    Sources: RECORD files of the nvidia-* wheels; github: pytorch/pytorch issue 186591.
    """
    for family, packages in sorted(_by_family(snap).items()):
        if family == NCCL or len(packages) < 2:
            continue
        names = " and ".join(package.name for _, package in sorted(packages.items()))
        used = {major_of(framework.cuda) for framework in frameworks(snap, matrix)} - {None}
        unused = [package for major, package in sorted(packages.items()) if used and major not in used]
        kept = [package for major, package in sorted(packages.items()) if package not in unused]
        fix: tuple[str, ...] = ()
        if unused and kept:
            fix = (
                (
                    f"pip uninstall -y {' '.join(p.name for p in unused)} && "
                    f"pip install --force-reinstall --no-deps {kept[0].name}=={kept[0].version}"
                ),
            )
        yield Problem(f"{names} are both installed, and write the same files", fix, family, _pair(packages))


@rule("CUD102", "conda-pip-cuda-mix", "warning", cause="conda-pip-cuda-mix", rank=34, explains=("LIB101",))
def conda_pip_cuda_mix(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """conda's CUDA libraries are in one environment with pip's.

    Why: both provide libcublas, libcudnn and their kind; which one loads hangs on the search path, and their versions
    differ ('undefined symbol … version libcublasLt.so').
    How it is decided: conda's CUDA packages beside a framework or CUDA libraries from pip, of another release, or a log
    in which a CUDA library misses a symbol of another.
    Fix: one source for both: take the framework from conda too, or remove conda's CUDA packages.
    Sources: github: pytorch/pytorch, issues on mixed installs; conda-forge documentation, CUDA.
    """
    packages = snap.stack.packages.get()
    conda = [p for p in packages if p.installer == "conda" and p.name.startswith(CONDA_CUDA)]
    if not conda:
        return
    clash = heard(snap, matrix, "cuda-lib-shadowed")
    pip = [p for p in packages if p.installer == "pip" and library_major(p) is not None]
    pip += [
        framework.package
        for framework in frameworks(snap, matrix)
        if framework.package.installer == "pip" and framework.accelerator == "cuda" and framework.kind.brings_cuda
    ]
    if not clash and not any(_differ(one, other, snap, matrix) for one in conda for other in pip):
        return
    yield Problem(
        f"conda's {conda[0].name} {conda[0].version or ''} is mixed with CUDA libraries of another release",
        fix=(
            f"conda remove --force {' '.join(sorted({p.name for p in conda}))}   (the wheels bring their own)",
            "or install the framework from conda too",
        ),
        subject=conda[0].name,
        severity="error" if clash else None,
        evidence=(
            Evidence(f"conda's {conda[0].name}", conda[0].version or "installed", conda[0].source, "found"),
            *(Evidence(p.name, p.version or "installed", p.source) for p in pip[:1]),
            *(Evidence("log", event.text, event.source) for event in clash[:1]),
        ),
    )


def _differ(conda: Package, pip: Package, snap: Snapshot, matrix: Matrix) -> bool:
    """Are they CUDA of different majors? Within a major the libraries of both mostly serve."""
    left = major_of(conda.version) if not conda.name.startswith(CUDNN) else None
    right = library_major(pip)
    if right is None:
        right = next((major_of(f.cuda) for f in frameworks(snap, matrix) if f.package is pip), None)
    return left is not None and right is not None and left != right


@rule("CUD103", "nccl-version-conflict", "error", cause="nccl-version-conflict", rank=38, explains=("CUD101",))
def nccl_version_conflict(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Two NCCL packages share one folder, or NCCL is older than the framework's pin.

    Why: the later install overwrites libnccl.so.2; a framework that needs newer symbols fails to import ('undefined
    symbol: nccl…').
    How it is decided: NCCL wheels for two CUDA majors, or one whose release is below what the framework's wheel pins.
    Fix: keep the one that the framework pins, and reinstall it.
    Sources: wheel metadata (matrices/pins); github: pytorch/pytorch issue 186591.
    """
    families = _by_family(snap).get(NCCL, {})
    if len(families) > 1:
        names = " and ".join(p.name for _, p in sorted(families.items()))
        releases = {versions.find(p.version) for p in families.values()}
        if len(releases) > 1:
            yield Problem(
                f"{names} of different releases are both installed, and write the same libnccl.so.2",
                fix=(_reinstall(snap, matrix, families),),
                subject=NCCL,
                evidence=_pair(families),
            )
        return
    for framework in frameworks(snap, matrix):
        if not framework.package.version or framework.package.installer == "conda":
            continue
        for pin in matrix.pins_of(framework.package.name, framework.package.version):
            if f"-{NCCL}-" not in pin.package or not pin.pinned:
                continue
            have = next((p for p in families.values() if p.name == pin.package), None)
            found, wanted = versions.find(have.version if have else None), versions.find(pin.pinned)
            if have is not None and found is not None and wanted is not None and found < wanted:
                yield Problem(
                    f"{have.name} {have.version} is older than {framework.label} needs ({pin.pinned})",
                    fix=(f"pip install {pin.package}=={pin.pinned}",),
                    subject=NCCL,
                    severity="warning",
                    evidence=(
                        Evidence(have.name, have.version or "", have.source, "found"),
                        Evidence(
                            pin.package,
                            pin.pinned,
                            f"matrices/pins/{framework.package.name}.toml: {pin.source}",
                            "needed",
                        ),
                    ),
                )


def _reinstall(snap: Snapshot, matrix: Matrix, families: dict[int, Package]) -> str:
    for framework in frameworks(snap, matrix):
        kept = families.get(major_of(framework.cuda) or 0)
        if kept is not None:
            others = " ".join(p.name for p in families.values() if p is not kept)
            return f"pip uninstall -y {others} && pip install --force-reinstall --no-deps {kept.name}=={kept.version}"
    return "pip uninstall both, then reinstall the one that the framework requires"


def _system_cudnn(snap: Snapshot) -> list[tuple[str, str]]:
    """(version or major, source) of every cuDNN that is not a framework's own, as far as told."""
    found = [
        (lib.version or lib.soname.rpartition(".")[2], lib.source or snap.stack.libraries.source)
        for lib in snap.stack.libraries.find() or ()
        if lib.soname.startswith("libcudnn.so") or (lib.soname.startswith("libcudnn") and lib.version)
    ]
    if snap.stack.cudnn.find():
        found.append((str(snap.stack.cudnn.find()), snap.stack.cudnn.source))
    found += [
        (package.version, package.source)
        for package in snap.stack.packages.find() or ()
        if package.version
        and (library_major(package) is not None or package.installer == "conda")
        and CUDNN in package.name
    ]
    return found


def _wanting_cudnn(snap: Snapshot, matrix: Matrix) -> Iterator[tuple[Built, str]]:
    """Frameworks that take cuDNN from outside their wheel, with the cuDNN that they were built for."""
    for framework in frameworks(snap, matrix):
        wanted = framework.package.cudnn or (framework.row.cudnn if framework.row else None)
        if framework.kind.brings_cuda is False and framework.accelerator != "cpu" and versions.find(wanted):
            yield framework, str(wanted)


def _cudnn_problem(framework: Built, wanted: str, have: str, source: str, word: str) -> Problem:
    return Problem(
        f"{framework.label} was built for cuDNN {wanted}, and cuDNN {have} is here{word}",
        fix=(f"install cuDNN {wanted}, or newer of that major, where {framework.package.name} finds it",),
        subject=framework.package.name,
        evidence=(
            Evidence("cuDNN", have, source, "found"),
            Evidence("cuDNN", f"{wanted} or newer of major {major_of(wanted)}", framework.source, "needed"),
        ),
    )


@rule("CUD110", "cudnn-missing", "warning", cause="cudnn-missing", rank=39)
def cudnn_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A framework that takes cuDNN from the system finds none.

    Why: it falls back to the CPU, or stops at the first convolution.
    How it is decided: a GPU works, the framework's wheel doesn't bring cuDNN, the environment's libraries were listed
    and hold none, and no package provides it.
    Fix: install the cuDNN wheel or package of the framework's major.
    Sources: the frameworks' own requirement tables (matrices/builds).
    """
    for framework, wanted in _wanting_cudnn(snap, matrix):
        if not has_working_gpu(snap):
            return
        snap.stack.libraries.get()
        need_whole(snap, "cuDNN")
        if not _system_cudnn(snap):
            yield Problem(
                f"{framework.label} needs cuDNN {major_of(wanted)}, and there is none",
                fix=(f"pip install nvidia-cudnn-cu{major_of(framework.cuda) or 12}",),
                subject=framework.package.name,
                evidence=(
                    Evidence("cuDNN", "none", snap.stack.libraries.source, "found"),
                    Evidence("cuDNN", wanted, framework.source, "needed"),
                ),
            )


@rule("CUD111", "cudnn-major-mismatch", "error", cause="cudnn-major-mismatch", rank=37)
def cudnn_major_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """cuDNN is here, of another major than the framework loads.

    Why: the library's name holds its major (libcudnn.so.8, libcudnn.so.9): the other one is never found.
    How it is decided: a framework that takes cuDNN from outside, the major of its build, and every cuDNN that is here.
    Fix: install the cuDNN of that major beside the other.
    Sources: SONAMEs of the cuDNN wheels (matrices/cudnn.toml); the frameworks' requirement tables.
    """
    for framework, wanted in _wanting_cudnn(snap, matrix):
        have = _system_cudnn(snap)
        if not have:
            raise UnknownFact("cuDNN: none was told")
        if all(major_of(version) not in (None, major_of(wanted)) for version, _ in have):
            yield _cudnn_problem(framework, wanted, *have[0], ": another major")


@rule("CUD112", "cudnn-too-old", "error", cause="cudnn-too-old", rank=37)
def cudnn_too_old(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """cuDNN is of the right major, and older than the framework was built for.

    Why: cuDNN is compatible upwards within a major: an older minor lacks functions; frameworks refuse it.
    How it is decided: every cuDNN of the right major that is here is of an older minor than the build's.
    Fix: update cuDNN within its major.
    Sources: the frameworks' requirement tables; cuDNN documentation, API compatibility.
    """
    for framework, wanted in _wanting_cudnn(snap, matrix):
        have = [(v, s) for v, s in _system_cudnn(snap) if major_of(v) == major_of(wanted) and versions.find(v)]
        low = versions.parse(".".join(wanted.split(".")[:2])) if "." in wanted else None
        known = [(v, s) for v, s in have if "." in v]
        if low is None or not known or len(known) < len(have):
            continue
        if all(versions.parse(versions.minor(v)) < low for v, _ in known):
            yield _cudnn_problem(framework, wanted, *known[0], ": too old")


def _compiles(snap: Snapshot) -> bool:
    """Is something to be compiled? Nobody said so: the rule doesn't apply."""
    return bool(snap.wants.compile)


def _nvcc(snap: Snapshot) -> Optional[Toolkit]:
    """The toolkit whose nvcc is used: the one on PATH, else the only one."""
    toolkits = snap.stack.toolkits.get()
    chosen = [toolkit for toolkit in toolkits if toolkit.on_path]
    return chosen[0] if chosen else (toolkits[0] if len(toolkits) == 1 else None)


@rule("CUD120", "nvcc-torch-cuda-mismatch", "error", cause="nvcc-torch-cuda-mismatch", rank=36, explains=("DRV110",))
def nvcc_framework_cuda_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Something is to be compiled, and nvcc's CUDA major differs from the framework's.

    Why: the build of an extension is refused ('The detected CUDA version mismatches the version that was used to
    compile'), or it links two runtimes. A differing minor is fine.
    How it is decided: only where compiling is asked for: the nvcc on PATH against the framework's CUDA.
    Fix: a toolkit of the framework's major, or a build of the framework for the toolkit's.
    Sources: pytorch torch/utils/cpp_extension.py; DeepSpeed op builder.
    """
    if not _compiles(snap):
        return
    nvcc = _nvcc(snap)
    if nvcc is None:
        return
    for framework in frameworks(snap, matrix):
        mine, theirs = major_of(framework.cuda), major_of(nvcc.version)
        if mine is None or theirs is None or mine == theirs:
            continue
        yield Problem(
            f"nvcc is CUDA {nvcc.version}, {framework.label} is of CUDA {framework.cuda}: extensions can't be compiled",
            fix=(f"install a CUDA {framework.cuda} toolkit and set CUDA_HOME to it",),
            subject=framework.package.name,
            evidence=(
                Evidence("nvcc", nvcc.version, nvcc.source or snap.stack.toolkits.source, "found"),
                Evidence("CUDA major", f"{mine}.x", framework.source, "needed"),
            ),
        )


@rule("CUD121", "gcc-too-new-for-nvcc", "error", cause="gcc-too-new-for-nvcc", rank=41)
def gcc_too_new_for_nvcc(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The host compiler is newer than this nvcc accepts.

    Why: nvcc checks it: 'unsupported GNU version! gcc versions later than N are not supported'.
    How it is decided: only where compiling is asked for: gcc's major against the limit in crt/host_config.h.
    Fix: an older gcc by `-ccbin`/NVCC_CCBIN/CUDAHOSTCXX, or a newer toolkit.
    Sources: crt/host_config.h of each release (matrices/host_compilers.toml).
    """
    if not _compiles(snap):
        return
    nvcc, compiler = _nvcc(snap), snap.stack.compiler.get()
    if nvcc is None or compiler is None or compiler.name != "gcc":
        return
    yield from _too_new(nvcc, compiler, snap, matrix)


def _too_new(nvcc: Toolkit, compiler: Compiler, snap: Snapshot, matrix: Matrix) -> Iterator[Problem]:
    limit = matrix.host_compiler(nvcc.version)
    have = major_of(compiler.version)
    if limit is None or limit.gcc_max is None or have is None or have <= limit.gcc_max:
        return
    yield Problem(
        f"gcc {compiler.version} is newer than nvcc {nvcc.version} accepts (up to gcc {limit.gcc_max})",
        fix=(f"export NVCC_CCBIN=/usr/bin/g++-{limit.gcc_max}   (apt-get install g++-{limit.gcc_max})",),
        subject="gcc",
        evidence=(
            Evidence("gcc", compiler.version, compiler.source or snap.stack.compiler.source, "found"),
            Evidence("gcc", f"<= {limit.gcc_max}", f"matrices/host_compilers.toml: {limit.source}", "needed"),
        ),
    )


@rule("CUD122", "cuda-toolkit-missing", "error", cause="cuda-toolkit-missing", rank=35)
def cuda_toolkit_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Something is to be compiled, and there is no CUDA toolkit.

    Why: pip's CUDA wheels bring libraries, not a compiler: 'CUDA_HOME environment variable is not set'.
    How it is decided: only where compiling is asked for: no nvcc was found.
    Fix: the toolkit of the framework's CUDA, or a prebuilt wheel of what is to be compiled.
    Sources: pytorch torch/utils/cpp_extension.py.
    """
    if not _compiles(snap) or snap.stack.toolkits.get():
        return
    cuda = next((f.cuda for f in frameworks(snap, matrix) if f.cuda), None)
    yield Problem(
        "CUDA code is to be compiled, and there is no CUDA toolkit",
        fix=(f"install the CUDA {cuda or ''} toolkit (nvcc) and set CUDA_HOME to it".replace("  ", " "),),
        subject="nvcc",
        evidence=(Evidence("CUDA toolkit", "none", snap.stack.toolkits.source, "found"),),
    )
