import msgspec
import pytest

from envcheck.model.fact import UnknownFact, known, not_told, unknown
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Snapshot


def test_absent_is_known_and_unknown_is_not():
    assert known(None, "here").known
    assert not unknown("no permission").known


def test_asking_for_an_unknown_fact_raises_its_reason():
    with pytest.raises(UnknownFact, match="no permission"):
        unknown("no permission").get()


def test_a_fresh_snapshot_knows_nothing():
    for part in (Snapshot().machine, Snapshot().stack):
        assert not any(getattr(part, field).known for field in part.__struct_fields__)


def test_unknown_absent_and_zero_survive_json():
    snap = Snapshot(
        machine=Machine(
            driver=known(None, "/proc/modules"),
            wsl=known(0, "kernel"),
            gpus=known((Gpu("RTX 4090"),), "NVML"),
            ram_bytes=unknown("RAM: no permission"),
        )
    )
    again = msgspec.json.decode(msgspec.json.encode(snap), type=Snapshot)
    assert again == snap
    assert again.machine.driver.known
    assert again.machine.driver.get() is None
    assert again.machine.wsl.get() == 0
    assert again.machine.ram_bytes.unknown == "RAM: no permission"


def test_values_are_frozen():
    with pytest.raises(AttributeError):
        Driver("535").version = "550"


def test_not_told_names_the_fact():
    assert "driver" in not_told("driver").unknown
