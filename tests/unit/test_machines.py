"""The machine that the command line names: cloud types, descriptions, saved snapshots, and what can't be."""

import msgspec
import pytest

from envcheck.errors import UnknownName, UsageError
from envcheck.inspection import Description
from envcheck.machines import describe_machine, pair
from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Library, Stack

LIVE = Snapshot(
    origin=Origin("host", "here"),
    machine=Machine(
        arch=known("x86_64", "uname"),
        driver=known(Driver("550.54.14", cuda="12.4"), "NVML"),
        gpus=known((Gpu("NVIDIA GeForce RTX 3090", index=0, capability="8.6"),), "NVML"),
        nvml_version=known("550.54.14", "NVML"),
    ),
)


def machine(matrix, **said):
    return describe_machine(Description(**said), matrix, lambda: LIVE)


def test_a_cloud_type(matrix):
    found = machine(matrix, on="aws:p4d.24xlarge")
    assert len(found.gpus.get()) == 8
    assert found.gpus.get()[7].index == 7
    assert found.gpus.get()[0].capability == "8.0"
    assert found.arch.get() == "x86_64"
    assert not found.driver.known  # what drives it is the image's that one boots


def test_a_cloud_type_without_its_provider_where_only_one_has_it(matrix):
    assert machine(matrix, on="p4d.24xlarge").cloud.get() == "aws:p4d.24xlarge"


def test_an_arm_cloud_type(matrix):
    assert machine(matrix, on="aws:g5g.xlarge").arch.get() == "aarch64"


def test_every_instance_of_the_matrix_is_a_machine(matrix):
    for row in matrix.instances:
        found = machine(matrix, on=f"{row.provider}:{row.name}")
        assert found.cloud.get() == f"{row.provider}:{row.name}"


def test_a_description(matrix):
    found = machine(matrix, gpu="H100 80GB", driver="550", gpus=8)
    assert [gpu.capability for gpu in found.gpus.get()] == ["9.0"] * 8
    assert found.driver.get().cuda == matrix.driver_cuda("550")
    assert not found.arch.known


def test_a_driver_over_a_cloud_type(matrix):
    assert machine(matrix, on="aws:p4d.24xlarge", driver="535.183.01").driver.get().version == "535.183.01"


def test_what_was_measured_of_the_old_driver_is_not_true_of_another(matrix):
    found = machine(matrix, on="this", driver="575.51.03")
    assert not found.nvml_version.known
    assert found.gpus.get()[0].name == "NVIDIA GeForce RTX 3090"


def test_a_saved_snapshot_and_a_saved_report(matrix, tmp_path):
    file = tmp_path / "node.json"
    file.write_bytes(msgspec.json.encode(LIVE))
    assert machine(matrix, on=str(file)).driver.get().version == "550.54.14"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"on": "aws:p4d.24xlrge"}, "aws:p4d.24xlarge"),
        ({"gpu": "RTX 409"}, "RTX 4090"),
        ({"gpus": 4}, "--gpu"),
        ({"gpu": "A100 80GB", "driver": "latest"}, "--driver 535"),
        ({"gpu": "A100 80GB", "driver": "535; rm -rf /"}, "--driver 535"),
        ({"on": "nowhere.json"}, "envcheck snapshot"),
    ],
)
def test_what_is_no_machine_is_a_usage_error_with_the_way_out(matrix, said, what):
    with pytest.raises((UsageError, UnknownName)) as caught:
        machine(matrix, **said)
    assert what in caught.value.what_to_do
    assert caught.value.exit_code == 2


def test_the_drivers_own_libraries_stay_with_the_machine():
    libraries = (Library("libcuda.so.1", origin="driver"), Library("libcudnn.so.9", origin="wheel"))
    stack = Stack(libraries=known(libraries, "walk"))
    paired = pair(Snapshot(origin=Origin("host"), stack=stack), LIVE.machine, "there")
    assert [library.soname for library in paired.stack.libraries.get()] == ["libcudnn.so.9"]
    assert paired.machine.driver.get().version == "550.54.14"
