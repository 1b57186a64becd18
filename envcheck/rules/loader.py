"""What will load: another library first on the path, parts of two releases, an extension built for something else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Optional

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot
    from envcheck.model.stack import Library, Opening

# Sonames begin so for the CUDA libraries that a framework brings or pins; cuDNN has rules of its own.
_CUDA = re.compile(r"lib(cu(?!da\.)(?!dnn)\w+|nvJitLink|nvrtc|nccl|nvshmem_host)\.so")
_CUDNN = re.compile(r"libcudnn(_\w+)?\.so")


@rule("LIB101", "cuda-lib-shadowed", "warning", cause="cuda-lib-shadowed", rank=40)
def cuda_lib_shadowed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Another copy of a CUDA library loads before the framework's own.

    Why: LD_LIBRARY_PATH, conda or the system gives a cuBLAS, nvJitLink, cuSPARSE … of another release; symbols are
    missing ('undefined symbol: __nvJitLink…'), or the numbers are wrong or slow.
    How it is decided: the loader's search is worked out for the environment's process; the file that wins isn't the
    one of the environment's own package, and its version differs or can't be told. It is an error where a symbol that
    is needed is not in it, else a warning: it works by luck.
    Fix: unset LD_LIBRARY_PATH for this process, or install the same release.
    Sources: ld.so(8); github: pytorch/pytorch issue 138460.
    """
    broken = {opening.provider: opening for opening in snap.stack.openings.find() or () if opening.fault == "symbol"}
    for winner, own in _shadowed(snap, _CUDA):
        opening = broken.get(winner.path)
        yield Problem(
            f"{winner.soname} of {_whose(winner)} loads instead of the environment's own ({_whose(own)})"
            + (f": {opening.package} fails with 'undefined symbol: {opening.name}'" if opening else ""),
            fix=_unshadow(winner),
            subject=winner.soname,
            evidence=_both(winner, own),
            severity="error" if opening else None,
        )


@rule("LIB102", "cudnn-shadowed", "warning", cause="cudnn-shadowed", rank=38, explains=())
def cudnn_shadowed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Another cuDNN loads before the framework's own.

    Why: frameworks refuse a cuDNN that is older than the one they were compiled with, or of another major
    ('cuDNN version incompatibility', CUDNN_STATUS_NOT_INITIALIZED).
    How it is decided: as LIB101, for libcudnn and its parts. It is an error where the one that loads is older (minor)
    or of another major than the environment's own.
    Fix: unset LD_LIBRARY_PATH for this process.
    Sources: ld.so(8); github: pytorch/pytorch torch/backends/cudnn.
    """
    told = False
    for winner, own in _shadowed(snap, _CUDNN):
        if told:
            break  # one problem for libcudnn and its parts, which come from one folder
        told = True
        have, want = versions.find(winner.version), versions.find(own.version)
        older = have is not None and want is not None and have.release[:2] < want.release[:2]
        other = have is not None and want is not None and have.major != want.major
        yield Problem(
            f"cuDNN of {_whose(winner)} loads instead of the environment's own ({_whose(own)})",
            fix=_unshadow(winner),
            subject=winner.soname,
            evidence=_both(winner, own),
            severity="error" if older or other else None,
        )


@rule("LIB103", "cudnn-sublibrary-mix", "error", cause="cudnn-sublibrary-mix", rank=36, explains=("LIB102",))
def cudnn_sublibrary_mix(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Parts of different cuDNN releases would load together.

    Why: libcudnn opens its parts by name, and they refuse one another: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH.
    How it is decided: the versions of the files that win for libcudnn and each of its parts differ.
    Fix: one cuDNN: reinstall the package, and take other folders off LD_LIBRARY_PATH.
    Sources: cuDNN API reference, status codes.
    """
    parts = [row for row in snap.stack.libraries.get() if row.order == 0 and _CUDNN.match(row.soname) and row.version]
    by_version: dict[tuple[int, ...], list[Library]] = {}
    for row in parts:
        version = versions.find(row.version)
        if version is not None:
            by_version.setdefault(version.release[:3], []).append(row)
    if len(by_version) < 2:
        return
    groups = sorted(by_version.values(), key=len, reverse=True)
    odd = [row for group in groups[1:] for row in group]
    odd.sort(key=lambda row: row.origin in ("wheel", "conda"))  # what came from elsewhere first
    yield Problem(
        f"parts of {len(groups)} cuDNN releases load together: "
        + ", ".join(f"{group[0].version} ({len(group)} files)" for group in groups),
        fix=(*_unshadow(odd[0]), *_reinstall(groups[0][0])),
        subject=odd[0].soname,
        evidence=tuple(_evidence(group[0]) for group in groups),
    )


@rule("LIB110", "extension-abi-mismatch", "error", cause="extension-abi-mismatch", rank=30)
def extension_abi_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A compiled extension was built for another release, C++ ABI or Python than the one installed.

    Why: importing it stops with 'undefined symbol: _ZN3c10…', or Python doesn't find it at all.
    How it is decided: every undefined symbol of the framework's name spaces is looked up in the libraries that load
    with the extension; the C++ ABI is told by mangled names; the Python version by the file's name.
    Fix: a build for the installed release and ABI, or compile it anew in this environment.
    Sources: measured: ELF symbol tables; PEP 3149.
    """
    for opening in snap.stack.openings.get():
        if opening.fault == "python" and not _has_other_build(snap, opening):
            python = snap.stack.python.find()
            here = python.version if python else ""
            yield Problem(
                f"{opening.package} was compiled for Python {opening.name}; this environment has {here}",
                fix=(f"pip install --force-reinstall {opening.package}   (in this environment)",),
                subject=opening.package,
                evidence=(Evidence("file name", opening.path, opening.source, "found"),),
            )
        elif opening.fault == "symbol" and not opening.provider:
            yield _abi_problem(snap, opening)


def _abi_problem(snap: Snapshot, opening: Opening) -> Problem:
    framework = next((p for p in snap.stack.packages.find() or () if p.cxx11_abi is not None), None)
    abi = framework.cxx11_abi if framework else None
    clash = abi is not None and opening.cxx11_abi is not None and abi != opening.cxx11_abi
    label = f"{framework.name} {framework.version}" if framework else "the framework"
    why = (
        f"the {_abi(opening.cxx11_abi)} C++ ABI, and {label} has the {_abi(abi)} one"
        if clash
        else f"another release than {label}"
    )
    built = f" (built for {opening.built_for})" if opening.built_for else ""
    more = f" and {len(opening.symbols) - 1} more" if len(opening.symbols) > 1 else ""
    return Problem(
        f"{opening.package} was compiled for {why}{built}: importing it stops with 'undefined symbol: {opening.name}'",
        fix=(
            f"install the {opening.package} build for this release whose name says cxx11abi{str(abi).upper()}"
            if clash
            else f"install the {opening.package} release that was built for {label}",
            f"or compile it here: pip install --no-build-isolation --no-binary {opening.package} {opening.package}",
        ),
        subject=opening.package,
        evidence=(
            Evidence("undefined symbol", f"{opening.name}{more}", opening.path, "found"),
            Evidence("exported by", label, "symbol tables of its libraries", "needed"),
        ),
    )


@rule("LIB111", "library-missing", "error", cause="library-missing", rank=34)
def library_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A compiled package needs a library that is nowhere on the loader's path.

    Why: importing it stops with 'cannot open shared object file', or the package silently goes on without the GPU.
    How it is decided: the loader's search finds nothing for the name, or only a file that is no library.
    Fix: install the library's package, or the build of the package for the CUDA that is here.
    Sources: ld.so(8).
    """
    framework = {row.path for row in snap.stack.binaries.find() or () if row.main}
    for opening in snap.stack.openings.get():
        if opening.fault not in ("missing", "damaged") or opening.name.startswith(("libcuda.so", "libnvidia-ml.so")):
            continue  # those come with the driver, whose absence has rules of its own
        if _told_by_variant(snap, matrix, opening):
            continue
        what = "is nowhere on the loader's path" if opening.fault == "missing" else "is damaged"
        built = f" (it was built for {opening.built_for})" if opening.built_for else ""
        yield Problem(
            f"{opening.package} can't be loaded{built}: {opening.name} {what}",
            fix=(f"pip install --force-reinstall {opening.package}   (a build for this CUDA brings what it needs)",),
            subject=opening.package,
            evidence=(
                Evidence("needed by", opening.wanted_by or opening.path, "dynamic section", "needed"),
                Evidence(opening.name, opening.text, snap.stack.openings.source, "found"),
            ),
            severity="warning" if opening.path in framework else None,
        )


@rule("LIB120", "libstdcxx-too-old", "error", cause="libstdcxx-too-old", rank=33)
def libstdcxx_too_old(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A library needs a newer libstdc++ than the one that loads first.

    Why: "version `GLIBCXX_3.4.…' not found": the first libstdc++ of a process serves all that come after.
    How it is decided: the versions that each loaded file needs, against those that the winning libstdc++ defines.
    Fix: put the newer libstdc++ first (conda's), or update the system's.
    Sources: measured: ELF version sections.
    """
    yield from _version_problems(snap, ("GLIBCXX_", "CXXABI_", "GCC_"))


@rule("LIB121", "glibc-too-old", "error", cause="glibc-too-old", rank=32)
def glibc_too_old(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """A compiled file needs a newer glibc than the system's.

    Why: "version `GLIBC_2.…' not found": glibc can't be added to an environment, it comes with the system.
    How it is decided: the versions that each file needs, against those that the system's libc defines.
    Fix: a newer distribution or image, or a build for an older glibc (manylinux tag).
    Sources: measured: ELF version sections.
    """
    yield from _version_problems(snap, ("GLIBC_",))


def _version_problems(snap: Snapshot, prefixes: Sequence[str]) -> Iterator[Problem]:
    for opening in snap.stack.openings.get():
        if opening.fault != "version" or not opening.name.startswith(tuple(prefixes)):
            continue
        glibc = opening.name.startswith("GLIBC_")
        yield Problem(
            f"{opening.package} needs {opening.name}, which {opening.provider} doesn't have",
            fix=(
                "use a newer distribution or image, or an older build of the package (see its manylinux tag)"
                if glibc
                else "conda install -c conda-forge libstdcxx-ng, or take the older libstdc++ off LD_LIBRARY_PATH",
            ),
            subject=opening.package,
            evidence=(
                Evidence("needed by", f"{opening.wanted_by}: {opening.name}", "version section", "needed"),
                Evidence("loads", opening.provider, snap.stack.openings.source, "found"),
            ),
        )


# ---- what the rules share
def _shadowed(snap: Snapshot, family: re.Pattern[str]) -> Iterator[tuple[Library, Library]]:
    """(winner, the environment's own) where another file wins, and not by the same version."""
    rows = snap.stack.libraries.get()
    snap.stack.openings.get()  # without the search worked out, `order` says nothing of these libraries
    for winner in rows:
        if winner.order != 0 or not family.match(winner.soname) or winner.origin in ("wheel", "conda"):
            continue
        same = [row for row in rows if row.soname == winner.soname and row.origin in ("wheel", "conda") and row.order]
        if same and (winner.version is None or winner.version != same[0].version):
            yield winner, same[0]


def _whose(library: Library) -> str:
    name = library.package or library.origin or "unknown origin"
    return f"{name} {library.version}" if library.version else name


def _both(winner: Library, own: Library) -> tuple[Evidence, ...]:
    return (
        Evidence("loads", f"{winner.path} ({winner.version or 'version not told'})", winner.reason, "found"),
        Evidence("own", f"{own.path} ({own.version or 'version not told'})", own.source, "needed"),
    )


def _evidence(library: Library) -> Evidence:
    return Evidence(library.soname, f"{library.version}  {library.path}", library.reason, "found")


def _unshadow(winner: Library) -> tuple[str, ...]:
    folder = winner.path.rpartition("/")[0]
    if winner.reason.startswith("LD_PRELOAD"):
        return (f"take {winner.path} out of LD_PRELOAD",)
    if winner.reason.startswith("LD_LIBRARY_PATH"):
        return (f"unset LD_LIBRARY_PATH   (or take {folder} out of it)",)
    return (f"take {folder} out of the search path ({winner.reason})",)


def _reinstall(library: Library) -> tuple[str, ...]:
    return (f"pip install --force-reinstall --no-deps {library.package}=={library.version}",) if library.package else ()


def _abi(flag: Optional[bool]) -> str:
    return "new (cxx11)" if flag else "old (pre-cxx11)"


def _has_other_build(snap: Snapshot, opening: Opening) -> bool:
    """Has the package files for this Python too? Wheels of several Pythons may lie in one folder."""
    return any(row.package == opening.package and row.fault != "python" for row in snap.stack.openings.find() or ())


def _told_by_variant(snap: Snapshot, matrix: Matrix, opening: Opening) -> bool:
    """A companion of another variant (CPU, CUDA) than its framework: that has a rule, which names the cause."""
    variants = {package.name: package.variant for package in snap.stack.packages.find() or ()}
    mine = variants.get(opening.package)
    others = {companion.framework for companion in matrix.companions_of(opening.package)}
    return bool(mine) and any(variants.get(name) not in (None, mine) for name in others)


RULES = (
    cuda_lib_shadowed,
    cudnn_shadowed,
    cudnn_sublibrary_mix,
    extension_abi_mismatch,
    library_missing,
    libstdcxx_too_old,
    glibc_too_old,
)
