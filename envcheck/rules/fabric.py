"""FAB: whether the NVSwitch fabric of an HGX or DGX machine is up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envcheck import versions
from envcheck.model.finding import Evidence, Problem
from envcheck.rules.rule import rule

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.snapshot import Snapshot

UP = "completed"


@rule("FAB101", "fabric-manager-not-running", "error", cause="fabric-manager-not-running", rank=24)
def fabric_manager_not_running(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """This NVSwitch machine's Fabric Manager isn't running.

    Why: until it has set up the switches, cuInit answers error 802 (system not yet initialized).
    How it is decided: NVSwitch devices are here, NVML doesn't report the fabric as completed, and the service isn't
    running or isn't installed. In a guest the fabric may be managed from the host: a completed state is believed.
    Fix: install Fabric Manager of exactly the driver's version and start it.
    Sources: NVIDIA Fabric Manager user guide; github: pytorch/pytorch issue 35710.
    """
    if not snap.machine.nvswitch.get():
        return
    manager = snap.machine.fabric_manager.get()
    if manager is not None and (manager.state == UP or manager.running is not False):
        return
    driver = snap.machine.driver.find()
    version = driver.version if driver else None
    package = (
        f"nvidia-fabricmanager-{versions.branch(version)}" if version else "nvidia-fabricmanager of the driver's branch"
    )
    yield Problem(
        "this machine has NVSwitches, and Fabric Manager "
        + ("isn't running" if manager is not None else "isn't installed")
        + ": CUDA answers error 802",
        fix=(
            "sudo systemctl enable --now nvidia-fabricmanager"
            if manager is not None
            else f"sudo apt-get install {package} && sudo systemctl enable --now nvidia-fabricmanager",
        ),
        subject="Fabric Manager",
        evidence=(
            Evidence(
                "Fabric Manager",
                "stopped" if manager is not None else "not installed",
                snap.machine.fabric_manager.source,
                "found",
            ),
            Evidence("NVSwitch", "present", snap.machine.nvswitch.source),
        ),
    )


@rule(
    "FAB102",
    "fabric-manager-version-mismatch",
    "error",
    cause="fabric-manager-version-mismatch",
    rank=23,
    explains=("FAB101",),
)
def fabric_manager_version_mismatch(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Fabric Manager and driver are of different versions.

    Why: Fabric Manager refuses to start unless its version is exactly the driver's.
    How it is decided: both full versions are known and differ.
    Fix: install the package of the driver's version; hold both together.
    Sources: NVIDIA Fabric Manager user guide.
    """
    manager = snap.machine.fabric_manager.get()
    if manager is None or manager.version is None:
        return
    driver = snap.machine.driver.get()
    if driver is None or driver.version is None or "." not in driver.version:
        return
    mine, theirs = versions.find(manager.version), versions.find(driver.version)
    if mine is None or theirs is None or mine.release == theirs.release or snap.machine.nvswitch.find() is False:
        return
    yield Problem(
        f"Fabric Manager {manager.version} doesn't fit driver {driver.version}",
        fix=(f"sudo apt-get install nvidia-fabricmanager-{versions.branch(driver.version)}={driver.version}-1",),
        subject="Fabric Manager",
        evidence=(
            Evidence("Fabric Manager", manager.version, snap.machine.fabric_manager.source, "found"),
            Evidence("driver", driver.version, snap.machine.driver.source, "needed"),
        ),
    )


@rule("FAB103", "fabric-manager-not-needed", "note", cause="fabric-manager-not-needed", rank=70)
def fabric_manager_not_needed(snap: Snapshot, matrix: Matrix) -> Iterable[Problem]:
    """Fabric Manager is installed and stopped on a machine without NVSwitches: as it should be.

    Why: without switches it has nothing to manage and ends with a message that looks like a fault.
    How it is decided: the PCI bus has no NVSwitch, and the service is installed and not running.
    Fix: nothing; disable the service if its message is in the way.
    Sources: NVIDIA Fabric Manager user guide.
    """
    if snap.machine.nvswitch.get():
        return
    manager = snap.machine.fabric_manager.get()
    if manager is not None and manager.running is False:
        yield Problem(
            "Fabric Manager isn't running, and isn't needed: this machine has no NVSwitch",
            subject="Fabric Manager",
            evidence=(Evidence("NVSwitch", "none", snap.machine.nvswitch.source, "found"),),
        )
