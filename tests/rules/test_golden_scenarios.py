"""One fault, one cause: what issue 2 demands of six machines, and of a laptop without a GPU."""

import pytest

from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.snapshot import Origin, Snapshot
from envcheck.model.stack import Package, Python, Stack
from envcheck.pipeline import exit_code, judge

A100 = Gpu("NVIDIA A100-SXM4-40GB", 0, capability="8.0")
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", 0, capability="12.0")
K80 = Gpu("Tesla K80", 0, capability="3.7")
LOST = tuple(Gpu("NVIDIA A100-SXM4-40GB", i, capability="8.0", lost="GPU is lost" if i == 3 else "") for i in range(8))


def host(gpus, driver, *packages):
    return Snapshot(
        origin=Origin("host"),
        machine=Machine(
            os=known("linux", "uname"),
            arch=known("x86_64", "uname"),
            gpus=known(tuple(gpus), "NVML"),
            driver=known(driver, "NVML"),
            driver_fault=known(None, "NVML"),
        ),
        stack=Stack(
            arch=known("x86_64", "uname"),
            packages=known(
                tuple(Package(name, version, installer="pip", source="venv") for name, version in packages), "venv"
            ),
            complete=known(True, "venv"),
            python=known(Python("3.11.9"), "venv"),
            env=known({}, "environ"),
            compat=known(None, "libraries"),
            toolkits=known((), "PATH"),
            libraries=known((), "ld.so"),
        ),
    )


@pytest.mark.parametrize(
    ("gpus", "driver", "version", "cause"),
    [
        ([RTX_5090], Driver("570.86.10", "open", "12.8"), "2.5.1+cu124", "gpu-too-new-for-build"),
        ([K80], Driver("470.82.01", "proprietary", "11.4"), "2.4.0+cu121", "gpu-too-old-for-build"),
        ([A100], Driver("470.57.02", cuda="11.4"), "2.1.2+cu121", "driver-too-old-for-cuda"),
        ([A100], Driver("535.104.05", cuda="12.2"), "2.9.0+cu130", "driver-too-old-for-cuda"),
        (LOST, Driver("550.54.14", cuda="12.4"), "2.5.1+cu124", "gpu-fell-off-bus"),
    ],
)
def test_the_one_fault_comes_first_and_nothing_louder_than_a_note_besides(matrix, gpus, driver, version, cause):
    report = judge(host(gpus, driver, ("torch", version)), matrix)
    assert report.findings[0].cause == cause
    assert report.findings[0].severity == "error"
    assert {finding.severity for finding in report.findings[1:]} <= {"note"}
    assert all(evidence.source for evidence in report.findings[0].evidence)
    assert report.findings[0].fix


def test_an_older_driver_of_the_same_major_is_a_note(matrix):
    report = judge(host([A100], Driver("525.60.13", cuda="12.0"), ("torch", "2.5.1+cu124")), matrix)
    assert "minor-version-compat-ok" in {finding.cause for finding in report.findings}
    assert {finding.severity for finding in report.findings} == {"note"}


@pytest.mark.parametrize(
    "driver", [Driver("470"), Driver(cuda="11.4"), Driver(cuda="11.0")], ids=["branch", "11.4", "11.0"]
)
def test_a_driver_known_by_its_branch_or_its_cuda_alone_is_judged(matrix, driver):
    report = judge(host([A100], driver, ("torch", "2.1.2+cu121")), matrix)
    assert report.findings[0].cause == "driver-too-old-for-cuda"


@pytest.mark.parametrize("driver", [Driver("525"), Driver(cuda="12.0")], ids=["branch", "cuda"])
def test_a_driver_known_by_its_branch_or_its_cuda_alone_is_not_accused_where_it_may_run(matrix, driver):
    report = judge(host([A100], driver, ("torch", "2.5.1+cu124")), matrix)
    assert {finding.severity for finding in report.findings} <= {"note"}


def test_a_laptop_without_a_gpu_has_nothing_wrong(matrix):
    report = judge(host([], None, ("torch", "2.13.0+cpu")), matrix)
    assert {finding.severity for finding in report.findings} <= {"note"}
    assert exit_code(report, "error") == 0


def test_a_job_that_needs_a_gpu_fails_on_that_laptop(matrix):
    report = judge(host([], None, ("torch", "2.13.0+cpu")), matrix, wants_gpu=True)
    assert report.findings[0].cause in ("no-nvidia-gpu", "cpu-only-build")
    assert exit_code(report, "error") == 1


def test_the_fix_keeps_the_companion_and_is_the_nearest_build(matrix):
    snap = host([RTX_5090], Driver("570.86.10", "open", "12.8"), ("torch", "2.5.1+cu124"), ("torchvision", "0.20.1"))
    fix = judge(snap, matrix).findings[0].fix[0]
    assert fix.startswith("pip install torch==2.7.1 torchvision==0.22.1 --index-url ")
    assert "/cu128" in fix
