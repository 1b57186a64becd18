"""PYT: whether the Python has a wheel, its headers, and no combination known to fail."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.build import WISHES, frameworks
from envcheck.rules.known import bad_rows
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot


@rule("PYT101", "python-version-no-wheel", "error", cause="python-version-no-wheel", rank=30)
def python_version_no_wheel(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """There is no wheel of this release for this Python.

    Why: pip says 'No matching distribution found', or builds from source for hours.
    How it is decided: for what is still to be installed (files, plans): the Pythons of the release's wheels. What is
    installed already has shown that it could be.
    Fix: a Python that the release supports, or the first release that supports this Python.
    Sources: wheel tags and Requires-Python (matrices/builds).
    """
    if snap.origin.kind not in WISHES:
        return
    python = snap.stack.python.get()
    if python is None or not python.version:
        return
    for framework in frameworks(snap, matrix):
        row = framework.row
        if row is None or matrix.supports_python(row, python.version) is not False:
            continue
        minor = versions.minor(python.version)
        newer = [r for r in matrix.builds_of(row.package) if matrix.supports_python(r, minor)]
        oldest = min(newer, key=lambda r: versions.parse(r.version), default=None)
        yield Problem(
            f"{framework.label} has no wheel for Python {minor}",
            fix=tuple(
                filter(
                    None,
                    (
                        f"use Python {row.python_max}" if row.python_max else "",
                        f"or {row.package} {oldest.version} or newer" if oldest else "",
                    ),
                )
            ),
            subject=framework.package.name,
            evidence=(
                Evidence("Python", python.version, snap.stack.python.source, "found"),
                Evidence(
                    "Python", f"{row.python_min} to {row.python_max}", f"matrices/builds/{row.package}.toml", "needed"
                ),
            ),
        )


@rule("PYT102", "python-headers-missing", "error", cause="python-headers-missing", rank=43)
def python_headers_missing(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Something is to be compiled, and Python's headers aren't here.

    Why: 'fatal error: Python.h: No such file or directory'.
    How it is decided: only where compiling is asked for: Python.h of the interpreter is not there.
    Fix: install the headers of that Python (Debian: python3-dev).
    Sources: Python documentation, extending Python.
    """
    if not snap.wants.compile:
        return
    python = snap.stack.python.get()
    if python is not None and python.headers is False:
        minor = versions.minor(python.version) if python.version else "3"
        yield Problem(
            f"Python.h of Python {minor} isn't here, and something is to be compiled",
            fix=(f"sudo apt-get install python{minor}-dev",),
            subject="Python.h",
            evidence=(Evidence("Python headers", "none", snap.stack.python.source, "found"),),
        )


@rule("PYT110", "known-bad-combination", "note", cause="known-bad-combination", rank=76)
def known_bad_combination(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Releases are together that are known not to get on.

    Why: each row says what fails, and where it was reported.
    How it is decided: all conditions of the row hold for the installed releases, Python, driver and GPU.
    Fix: as the row says.
    Sources: matrices/known_bad.toml, a source a row.
    """
    yield from bad_rows(snap, matrix, "")
