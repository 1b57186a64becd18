"""SET rules: each fires, passes and skips with its reason; without settings none says anything."""

import msgspec
import pytest

from envcheck.model.fact import known, unknown
from envcheck.model.machine import Driver, Engine, Gpu, Machine
from envcheck.model.need import ExpiredIgnore, GpuNeed, Need
from envcheck.model.recipe import Recipe
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.model.stack import Package, Python, Stack
from envcheck.rules import select_rules
from envcheck.rules.engine import judge

RULES = select_rules(("SET",), ())
TORCH = Package("torch", "2.5.1+cu124", "cu124", "12.4", "9.1", source="site-packages")
A10G = Gpu("NVIDIA A10G", index=0, capability="8.6", memory_mib=23028)
RTX4090 = Gpu("NVIDIA GeForce RTX 4090", index=0, capability="8.9", memory_mib=24564)
T4 = Gpu("Tesla T4", index=1, capability="7.5", memory_mib=15360)


def snap(need, machine=None, recipe=None, **stack):
    return Snapshot(
        origin=Origin("host"),
        machine=Machine(**(machine or {})),
        stack=Stack(**stack),
        wants=Wants(need=msgspec.structs.replace(need, path="envcheck.toml", line=3)),
        recipe=recipe,
    )


def gpus(*found):
    return {"gpus": known(found, "NVML")}


def packages(*found, complete=True):
    return {"packages": known(found, "site-packages"), "complete": known(complete, "t")}


FIRES = [
    ("SET101", Need(packages={"torch": ">=2.6"}), {}, packages(TORCH)),
    ("SET101", Need(packages={"vllm": ">=0.8"}), {}, packages(TORCH)),
    ("SET102", Need(cuda=">=12.6"), {}, packages(TORCH)),
    ("SET102", Need(cuda=">=12.6"), {}, {"packages": known((), "t"), "cuda": known("12.4", "version.json")}),
    ("SET103", Need(cudnn=">=9.2"), {}, packages(TORCH)),
    ("SET104", Need(python=">=3.12"), {}, {"python": known(Python("3.11.9"), "t")}),
    ("SET104", Need(python=">=3.12"), {}, {"python": known(None, "t")}),
    ("SET105", Need(driver=">=560"), {"driver": known(Driver("550.54.14"), "NVML")}, {}),
    ("SET105", Need(driver=">=560"), {"driver": known(None, "NVML")}, {}),
    ("SET111", Need(gpu=GpuNeed(count=">=2")), gpus(A10G), {}),
    ("SET111", Need(gpu=GpuNeed(names=("H100",))), gpus(A10G), {}),
    ("SET111", Need(gpu=GpuNeed(capability=">=8.0")), gpus(A10G, T4), {}),
    ("SET111", Need(gpu=GpuNeed(memory_bytes=24 * 10**9)), gpus(A10G, T4), {}),
    ("SET111", Need(gpu=GpuNeed(count=">=2")), gpus(A10G, msgspec.structs.replace(T4, lost="GPU is lost")), {}),
    ("SET112", Need(features=("bf16",)), gpus(T4), {}),
    ("SET112", Need(features=("mig",)), gpus(A10G), {}),
    ("SET112", Need(features=("nvlink",)), gpus(RTX4090), {}),
    ("SET121", Need(shm_bytes=8 << 30), {"shm_bytes": known(64 << 20, "statvfs")}, {}),
    ("SET122", Need(ram_bytes=64 << 30), {"ram_bytes": known(32 << 30, "t")}, {}),
    ("SET123", Need(disk_bytes=10**11), {"disk_free_bytes": known(10**10, "t")}, {}),
    ("SET124", Need(containers=True), {"engine": known(None, "PATH"), "toolkit": known(None, "PATH")}, {}),
    ("SET201", Need(expired=(ExpiredIgnore("DRV110", "soon", "2020-01-01", 9),)), {}, {}),
]
PASSES = [
    ("SET101", Need(packages={"torch": ">=2.5,<2.6"}), {}, packages(TORCH)),
    ("SET102", Need(cuda="==12.4.*"), {}, packages(TORCH)),
    ("SET103", Need(cudnn=">=9"), {}, packages(TORCH)),
    ("SET104", Need(python=">=3.10"), {}, {"python": known(Python("3.11.9"), "t")}),
    ("SET105", Need(driver=">=550"), {"driver": known(Driver("550.54.14"), "NVML")}, {}),
    ("SET105", Need(driver=">=550"), {"driver": known(Driver("550"), "paste")}, {}),
    ("SET111", Need(gpu=GpuNeed(("A10G",), ">=1", ">=8.6", 24 * 10**9)), gpus(A10G), {}),
    ("SET112", Need(features=("bf16", "tf32")), gpus(A10G), {}),
    ("SET112", Need(features=("nvlink",)), {**gpus(A10G), "interconnect": known("nvlink", "t")}, {}),
    ("SET121", Need(shm_bytes=8 << 30), {"shm_bytes": known(8 << 30, "statvfs")}, {}),
    ("SET122", Need(ram_bytes=64 << 30), {"ram_bytes": known(63 << 30, "firmware keeps some")}, {}),
    ("SET123", Need(disk_bytes=10**11), {"disk_free_bytes": known(10**11, "t")}, {}),
    (
        "SET124",
        Need(containers=True),
        {"engine": known(Engine("docker"), "t"), "toolkit": known({"version": "1.17"}, "t")},
        {},
    ),
    ("SET201", Need(), {}, {}),
]
SKIPS = [
    ("SET101", Need(packages={"torch": ">=2"}), {}, {"packages": unknown("site-packages unreadable")}, "unreadable"),
    ("SET101", Need(packages={"vllm": ">=0.8"}), {}, packages(TORCH, complete=False), "not whole"),
    ("SET101", Need(packages={"torch": ">=2"}), {}, packages(Package("torch", None, source="t")), "not one release"),
    ("SET102", Need(cuda=">=12"), {}, {}, "CUDA of the userland: not told"),
    ("SET103", Need(cudnn=">=9"), {}, {}, "system cuDNN: not told"),
    ("SET104", Need(python=">=3"), {}, {}, "Python: not told"),
    ("SET105", Need(driver=">=550"), {"driver": unknown("NVML did not answer in 10 s")}, {}, "10 s"),
    ("SET105", Need(driver=">=550"), {"driver": known(Driver(None), "t")}, {}, "driver version: not told"),
    ("SET111", Need(gpu=GpuNeed(count=">=1")), {"gpus": unknown("NVML stopped at device 3 of 8")}, {}, "device 3"),
    ("SET111", Need(gpu=GpuNeed(memory_bytes=1)), gpus(Gpu("NVIDIA A10G", index=0)), {}, "memory of GPU 0"),
    ("SET112", Need(features=("bf16",)), gpus(Gpu("Strange", index=0)), {}, "bf16 of GPU 0, Strange: not known"),
    ("SET121", Need(shm_bytes=1), {}, {}, "/dev/shm size: not told"),
    ("SET122", Need(ram_bytes=1), {}, {}, "RAM: not told"),
    ("SET123", Need(disk_bytes=1), {}, {}, "free disk: not told"),
    ("SET124", Need(containers=True), {}, {}, "container engine: not told"),
]


def names(cases):
    return [f"{case[0]}-{number}" for number, case in enumerate(cases)]


@pytest.mark.parametrize(("rule", "need", "machine", "stack"), FIRES, ids=names(FIRES))
def test_fires(matrix, rule, need, machine, stack):
    outcome = judge(snap(need, machine, **stack), matrix, RULES)
    assert {finding.rule for finding in outcome.findings} == {rule}
    for finding in outcome.findings:
        assert (finding.path, finding.line) in (("envcheck.toml", 3), ("envcheck.toml", 9))
        assert all(item.source for item in finding.evidence)
    assert outcome.skipped == ()


@pytest.mark.parametrize(("rule", "need", "machine", "stack"), PASSES, ids=names(PASSES))
def test_passes(matrix, rule, need, machine, stack):
    outcome = judge(snap(need, machine, **stack), matrix, RULES)
    assert outcome.findings == ()
    assert outcome.skipped == ()


@pytest.mark.parametrize(("rule", "need", "machine", "stack", "reason"), SKIPS, ids=names(SKIPS))
def test_skips_and_says_why(matrix, rule, need, machine, stack, reason):
    outcome = judge(snap(need, machine, **stack), matrix, RULES)
    assert outcome.findings == ()
    assert [skip.rule for skip in outcome.skipped] == [rule]
    assert reason in outcome.skipped[0].reason


def test_the_cases_reach_every_rule():
    ids = {rule.id for rule in RULES}
    assert {case[0] for case in FIRES} == ids
    assert {case[0] for case in PASSES} == ids
    assert {case[0] for case in SKIPS} == ids - {"SET201"}  # it needs no fact


def test_without_settings_nothing_is_asked(matrix):
    outcome = judge(Snapshot(origin=Origin("host")), matrix, RULES)
    assert outcome.findings == ()
    assert outcome.skipped == ()


def test_what_is_known_is_judged_before_what_is_not(matrix):
    need = Need(packages={"torch": ">=2.6", "vllm": ">=0.8"})
    outcome = judge(snap(need, **packages(TORCH, complete=False)), matrix, RULES)
    assert [finding.subject for finding in outcome.findings] == ["torch"]
    assert len(outcome.skipped) == 1


def test_a_file_is_blamed_at_its_own_line_and_not_for_what_it_does_not_name(matrix):
    need = Need(packages={"torch": ">=2.6", "vllm": ">=0.8"})
    torch = msgspec.structs.replace(TORCH, source="requirements.txt:7")
    made = snap(need, recipe=Recipe(files=("requirements.txt",)), **packages(torch))
    (finding,) = judge(made, matrix, RULES).findings
    assert (finding.path, finding.line, finding.subject) == ("requirements.txt", 7, "torch")


def test_gpus_of_other_vendors_are_not_asked_for_nvidia_features(matrix):
    amd = Gpu("AMD Instinct MI300X", index=0, vendor="amd")
    outcome = judge(snap(Need(features=("bf16",)), gpus(A10G, amd)), matrix, RULES)
    assert outcome.findings == ()
    assert outcome.skipped == ()
