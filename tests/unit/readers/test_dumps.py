"""Whole dumps of other tools, read to the facts that a careful person would take from them."""

from __future__ import annotations

from envcheck.matrix import load
from envcheck.pipeline import judge
from envcheck.targets import read_paste

PIP_JSON = b"""$ pip list --format=json
[{"name": "numpy", "version": "1.26.4"}, {"name": "torch", "version": "2.6.0+cu124"}]
"""
QUERY_WITH_MIG = b"""==============NVSMI LOG==============
Driver Version                            : 550.54.15
CUDA Version                              : 12.4
Attached GPUs                             : 1
GPU 00000000:18:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        FB Memory Usage
            Total                         : 40448 MiB
            Used                          : 37 MiB
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 100 MiB
"""


def test_pip_list_as_json_tells_every_package() -> None:
    packages = read_paste(PIP_JSON, "paste", load()).stack.packages.value or ()
    assert [(package.name, package.version, package.variant) for package in packages] == [
        ("numpy", "1.26.4", None),
        ("torch", "2.6.0+cu124", "cu124"),
    ]


def test_mig_devices_of_the_query_are_instances_and_leave_the_gpu_its_memory() -> None:
    matrix = load()
    snap = read_paste(QUERY_WITH_MIG, "paste", matrix)
    (gpu,) = snap.machine.gpus.value or ()
    assert gpu.memory_mib == 81559
    assert [device.memory_mib for device in gpu.mig_devices] == [40448]
    assert not [found.rule for found in judge(snap, matrix).findings if str(found.severity) in ("warning", "error")]


def test_the_version_that_nvcc_prints_is_no_gpu() -> None:
    text = (
        b"Cuda compilation tools, release 12.4, V12.4.131\n"
        b"17:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)\n"
    )
    gpus = read_paste(text, "paste", load()).machine.gpus.value or ()
    assert [gpu.name for gpu in gpus] == ["A100 PCIe 80GB"]


def test_equal_gpus_whose_numbers_are_joined_are_all_counted(matrix):
    text = b"PyTorch version: 2.5.1+cu124\nGPU 0,1,2,3: NVIDIA H100 80GB HBM3\nNvidia driver version: 550.90.07\n"
    gpus = read_paste(text, "paste", matrix).machine.gpus.get()
    assert [(gpu.index, gpu.name) for gpu in gpus] == [(n, "NVIDIA H100 80GB HBM3") for n in range(4)]
