"""Answers about drivers, CUDA and cuDNN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from packaging.version import Version

from envcheck import versions
from envcheck.errors import UnknownName
from envcheck.matrix.answer import Answer, facts, notes_of, sources_of, table
from envcheck.matrix.matrix import Matrix


def show_driver(matrix: Matrix, version: str) -> Answer:
    """One driver version or branch: what it runs, how long it lives, and what is wrong with it."""
    row = matrix.branch(version)
    if row is None:
        known = sorted({b.branch for b in matrix.branches})
        see = f"R{', R'.join(map(str, reversed(known)))}"
        raise UnknownName("driver branch", version, map(str, known), see)
    native = matrix.driver_cuda(version)
    majors = sorted({versions.parse(minor).major for minor in matrix.cuda_minors()})
    by_minor = [m for m in matrix.cuda_minors() if matrix.runs_cuda(version, m) == "minor"]
    compat = [pair for pair in matrix.forward_compat_rows if pair.branch == row.branch]
    holes = matrix.open_vulnerabilities("nvidia-driver-linux", version)
    fixes = [v for v in matrix.vulnerabilities("nvidia-driver-linux") if v.branch == f"R{row.branch}"]
    return Answer(
        topic="driver",
        title=f"Driver {version}" if "." in version else f"Driver branch R{row.branch}",
        facts=facts(
            branch=f"R{row.branch} {row.kind}".strip(),
            life=" to ".join(filter(None, (row.released, row.eol))),
            newest=f"{row.latest} ({row.latest_date})" if row.latest_date else row.latest,
            runs_CUDA=f"up to {native} natively" if native else None,
            by_minor_version=f"{by_minor[0]} to {by_minor[-1]} (without PTX of a newer toolkit)" if by_minor else None,
            not_without_cuda_compat=[
                f"{m}.x" for m in majors if all(_refuses(matrix, version, c) for c in _of(matrix, m))
            ],
            cuda_compat=_joined(pair.cuda for pair in compat if pair.works),
            dropped_after_it=row.dropped,
            kernel_modules=row.open_modules,
        ),
        tables=(
            table(
                "Security fixes of this branch" if "." not in version else "Open vulnerabilities",
                ("bulletin", "first good", "severity", "what"),
                ((v.id, v.first_good, v.severity, v.note) for v in (holes if "." in version else fixes)),
            ),
        )
        if (holes if "." in version else fixes)
        else (),
        notes=tuple(filter(None, (row.note, "" if holes or "." not in version else _secure(fixes)))),
        sources=(
            *sources_of([row], "branches.toml"),
            *sources_of(compat[:1], "forward_compat.toml"),
            *sources_of(holes or fixes[-1:], "vulnerabilities.toml"),
        ),
    )


def _secure(fixes: Iterable[object]) -> str:
    return (
        "no open bulletin for this version"
        if list(fixes)
        else "no bulletin since 2024 names this branch: it got no fix"
    )


def _of(matrix: Matrix, major: int) -> list[str]:
    return [minor for minor in matrix.cuda_minors() if versions.parse(minor).major == major]


def _refuses(matrix: Matrix, driver: str, cuda: str) -> bool:
    return matrix.runs_cuda(driver, cuda) == "no"


def _joined(words: Iterable[str]) -> str:
    return ", ".join(sorted(words, key=Version))


def show_cuda(matrix: Matrix, version: str) -> Answer:
    """One CUDA release or minor: drivers, compilers, GPUs, and the builds made for it."""
    release = matrix.cuda_release(version)
    if release is None:
        minors = matrix.cuda_minors()
        raise UnknownName("CUDA release", version, [*minors, *(r.version for r in matrix.cuda)], ", ".join(minors))
    minor = versions.minor(release.version)
    of_minor = [row for row in matrix.cuda if versions.minor(row.version) == minor]
    compiler = matrix.host_compiler(minor)
    made = [(p, matrix.builds_of(p, cuda=minor)) for p in matrix.packages() if p != "tensorrt-oss"]
    works = sorted(pair.branch for pair in matrix.forward_compat_rows if pair.cuda == minor and pair.works)
    return Answer(
        topic="cuda",
        title=f"CUDA {version}",
        facts=facts(
            native_driver=_floors(matrix.driver_floor(version), matrix.driver_floor(version, "windows")),
            by_minor_version=_floors(matrix.minor_floor(version), matrix.minor_floor(version, "windows")),
            cuda_compat=f"on branches {' '.join(f'R{b}' for b in works)}, datacentre GPUs" if works else None,
            compiles_for=[
                versions.sm(c.capability) for c in matrix.capabilities if matrix.compiles_for(c.capability, minor)
            ],
            gcc=f"up to {compiler.gcc_max}" if compiler and compiler.gcc_max else None,
            clang=f"up to {compiler.clang_max}" if compiler and compiler.clang_max else None,
        ),
        tables=(
            table(
                "Releases",
                ("version", "released", "Linux driver", "Windows driver", "runfile carries"),
                ((r.version, r.released, r.linux_driver, r.windows_driver, r.runfile_driver) for r in of_minor),
            ),
            table(
                "Made for it",
                ("package", "releases"),
                ((p, " ".join(dict.fromkeys(b.version for b in builds))) for p, builds in made if builds),
            ),
        ),
        notes=(*notes_of(of_minor), *([compiler.note] if compiler and compiler.note else [])),
        sources=(
            *sources_of(of_minor, "cuda.toml"),
            *sources_of([compiler] if compiler else [], "host_compilers.toml"),
        ),
    )


def _floors(linux: Optional[str], windows: Optional[str]) -> str:
    return ", ".join(f">= {floor} ({name})" for floor, name in ((linux, "Linux"), (windows, "Windows")) if floor)


def show_cudnn(matrix: Matrix, version: str = "") -> Answer:
    """cuDNN releases: wheels, and the lines of the support matrix."""
    wanted = versions.find(version)
    rows = [row for row in matrix.cudnn if wanted is None or _starts(row.version, wanted)]
    if not rows:
        raise UnknownName("cuDNN release", version, {row.version for row in matrix.cudnn}, "envcheck matrix show cudnn")
    wheels = [row for row in rows if row.record == "wheel"]
    lines = [row for row in rows if row.record == "support"]
    wheels.sort(key=lambda row: (Version(row.version), row.package), reverse=True)
    return Answer(
        topic="cudnn",
        title=f"cuDNN {version}".strip(),
        tables=(
            table(
                "Wheels",
                ("version", "package", "released", "library", "platform", "yanked"),
                ((r.version, r.package, r.released, r.soname, r.wheel_tag, r.yanked) for r in wheels),
            ),
            table(
                "Support matrix",
                ("version", "CUDA", "Linux driver", "Windows driver", "lowest GPU", "highest GPU", "remark"),
                (
                    (
                        r.version,
                        r.cuda,
                        r.linux_driver,
                        r.windows_driver,
                        r.min_capability,
                        r.max_capability,
                        r.capability_note,
                    )
                    for r in lines
                ),
            ),
        ),
        notes=tuple(p.text for p in matrix.policies if p.topic == "cudnn"),
        sources=sources_of(rows, "cudnn.toml"),
    )


def _starts(version: str, wanted: Version) -> bool:
    found = versions.find(version.replace(".x", ""))
    if found is None:
        return False
    depth = min(len(wanted.release), len(found.release)) if version.endswith(".x") else len(wanted.release)
    return found.release[:depth] == wanted.release[:depth]
