"""SEC: known vulnerabilities of the driver, the container toolkit and runc."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from envcheck.model.fact import UnknownFact
from envcheck.model.finding import Evidence, Problem
from envcheck.model.snapshot import Snapshot
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Vulnerability

# A paste is about another question: what it tells by the way of old versions is no news there.
LIVE = frozenset({"host", "container", "snapshot"})
# What runc itself numbers: '1.2.7', '1.4.0-rc.2'. Anything more is the revision of a package.
_UPSTREAM = re.compile(r"v?\d+(?:\.\d+)*(?:-?rc\.?\d+)?")


def _first_good(rows: Iterable[Vulnerability]) -> Optional[str]:
    from envcheck import versions

    known = [row.first_good for row in rows if row.first_good]
    return max(known, key=versions.parse) if known else None


def _problem(what: str, version: str, source: str, rows: tuple[Vulnerability, ...], fix: str) -> Problem:
    good = _first_good(rows)
    ids = ", ".join(row.id for row in rows[:4]) + (f" and {len(rows) - 4} more" if len(rows) > 4 else "")
    return Problem(
        f"{what} {version} has known vulnerabilities ({ids})" + (f", fixed in {good}" if good else ""),
        fix=(fix.format(good=good),) if good else (),
        subject=what,
        evidence=(
            Evidence(what, version, source, "found"),
            *(
                [Evidence(what, f">= {good}", f"matrices/vulnerabilities.toml: {rows[0].source}", "needed")]
                if good
                else []
            ),
        ),
    )


def _asked(snap: Snapshot) -> bool:
    """A host is looked over; a paste of a driver only where it names a vulnerability."""
    return snap.origin.kind in LIVE or any(event.symptom == "cve-named" for event in snap.events)


@rule("SEC101", "container-toolkit-vulnerable", "note", cause="container-toolkit-vulnerable", rank=82)
def container_toolkit_vulnerable(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The NVIDIA Container Toolkit has known vulnerabilities.

    Why: a crafted image can take over the host.
    How it is decided: the installed version against NVIDIA's bulletins; those that don't apply in CDI mode are left out
    there. A note: it says nothing about whether a job runs.
    Fix: update the toolkit.
    Sources: NVIDIA product security bulletins (CSAF).
    """
    toolkit = snap.machine.toolkit.get()
    if toolkit is None or not toolkit.version or snap.origin.kind not in (*LIVE, "report"):
        return
    rows = matrix.open_vulnerabilities("nvidia-container-toolkit", toolkit.version)
    rows = tuple(row for row in rows if not (row.unless and row.unless in (toolkit.mode or "")))
    if rows:
        yield _problem(
            "NVIDIA Container Toolkit",
            toolkit.version,
            toolkit.source or snap.machine.toolkit.source,
            rows,
            "sudo apt-get install --only-upgrade nvidia-container-toolkit   (to {good} or newer)",
        )


@rule("SEC102", "driver-vulnerable", "note", cause="driver-vulnerable", rank=84)
def driver_vulnerable(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The NVIDIA driver has known vulnerabilities.

    Why: a local user can crash the machine, read what isn't theirs, or gain rights.
    How it is decided: the driver's version against NVIDIA's bulletins for its branch. A note: it says nothing about
    whether a job runs.
    Fix: update the driver within its branch, or to a branch that is still maintained.
    Sources: NVIDIA product security bulletins (CSAF).
    """
    driver = snap.machine.driver.get()
    if driver is None or not driver.version or "." not in driver.version or not _asked(snap):
        return
    if snap.machine.os.find() == "windows" or snap.machine.wsl.find():
        return  # other numbers, other bulletins
    rows = matrix.open_vulnerabilities("nvidia-driver-linux", driver.version)
    if rows:
        yield _problem(
            "NVIDIA driver",
            driver.version,
            driver.source or snap.machine.driver.source,
            rows,
            "update the driver to {good} or newer of its branch",
        )


@rule("SEC103", "runc-vulnerable", "note", cause="runc-vulnerable", rank=83)
def runc_vulnerable(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """The container runtime runc has known vulnerabilities.

    Why: a crafted image or container can write to the host's /proc and leave the container.
    How it is decided: runc's version against its advisories, on a host. Distributions mend the fault under the old
    number, so an old number with a package revision isn't judged. A note: it says nothing about whether a job runs.
    Fix: update runc; with Docker's own packages it comes in containerd.io.
    Sources: opencontainers/runc security advisories.
    """
    if snap.origin.kind not in LIVE:
        return
    version = snap.machine.runc.get()
    if not version:
        return
    upstream = _UPSTREAM.match(version.rpartition(":")[2])
    if upstream is None:
        raise UnknownFact(f"release of runc {version}: its number can't be read")
    rows = matrix.open_vulnerabilities("runc", upstream.group())
    if not rows:
        return
    if upstream.group() != version:
        raise UnknownFact(f"fixes in runc {version}: the distribution's package, which mends under the old number")
    yield _problem(
        "runc", version, snap.machine.runc.source, rows, "update runc (Docker's containerd.io) to {good} or newer"
    )
