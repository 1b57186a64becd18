"""The shipped NVML child against a real shared library that does what a script says."""

# ruff: noqa: E501 - tables read better whole

import json
import subprocess
import sys
import time

import pynvml
import pytest

from envcheck.probes.nvml import CHILD, ask_nvml, find_binding, read_steps
from envcheck.probes.runner import LiveRunner
from tests.scripted_nvml import A100_MIG, H100, K80, RTX_5090, ScriptedGpu, eight, scripted_nvml

HANDLE = "nvmlDeviceGetHandleByIndex_v2"
CODES = {value: name[len("NVML_ERROR_") :] for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")}
CALLS = [
    "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetMigMode", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows", "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetNvLinkState",
]  # fmt: skip


def ask(library, timeout=10.0):
    return ask_nvml(LiveRunner(), str(library), timeout=timeout)


def test_every_value_of_a_gpu_arrives(tmp_path):
    answer = ask(scripted_nvml(tmp_path, [RTX_5090], driver="570.86.10", cuda=12080))
    (gpu,) = answer.gpus
    assert (gpu.name, gpu.capability, gpu.memory_mib, gpu.pci_id) == ("NVIDIA GeForce RTX 5090", "12.0", 32607, "2B85")
    assert (gpu.pci_bus, gpu.mig_enabled, gpu.persistence, gpu.lost) == ("0000:01:00.0", False, True, "")
    assert (answer.driver, answer.cuda, answer.nvml, answer.trouble) == ("570.86.10", 12080, "12.570.86.10", "")


def test_mig_instances_are_listed_with_profile_and_memory(tmp_path):
    (gpu,) = ask(scripted_nvml(tmp_path, [A100_MIG])).gpus
    assert [(mig.profile, mig.memory_mib) for mig in gpu.mig_devices] == [("1g.5gb", 5120), ("1g.5gb", 5120)]


def test_pending_row_remaps_fabric_and_links_are_read(tmp_path):
    answer = ask(scripted_nvml(tmp_path, [ScriptedGpu(remap=(1, 0), fabric=2, nvlink=True)]))
    assert (answer.gpus[0].remap_pending, answer.gpus[0].remap_failed) == (True, False)
    assert (answer.fabric, answer.nvlink) == ("in progress", True)


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_init_is_a_named_fault(tmp_path, code):
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): code}))
    assert answer.fault is not None
    assert answer.fault.code == CODES[code]
    assert answer.trouble == ""


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_every_call_leaves_the_other_gpu_whole(tmp_path, code):
    answer = ask(scripted_nvml(tmp_path, eight(count=2), do={(call, 0): code for call in CALLS}))
    assert answer.trouble == ""
    sick, well = answer.gpus
    assert (well.name, well.capability, well.lost) == (H100.name, "9.0", "")
    assert (sick.capability, sick.memory_mib, sick.ecc_errors, sick.persistence) == (None, None, None, None)
    assert sick.mig_enabled is (False if CODES[code] == "NOT_SUPPORTED" else None)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_gpu_without_handle_says_why_but_for_missing_permission(tmp_path, code):
    answer = ask(scripted_nvml(tmp_path, eight(count=2), do={(HANDLE, 0): code}))
    lost = answer.gpus[0].lost
    assert answer.gpus[1].lost == ""
    assert (lost == "") is (CODES[code] == "NO_PERMISSION")
    assert CODES[code] in lost or lost == ""


def test_a_code_that_the_binding_does_not_know_keeps_its_number(tmp_path):
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): 777}))
    assert answer.fault.code == "ERROR_777"


@pytest.mark.parametrize("count", [1, 8, 16])
def test_lost_gpus_cost_only_themselves(tmp_path, count):
    lost = set(range(0, count, 3))
    answer = ask(scripted_nvml(tmp_path, eight(count=count), do={(HANDLE, n): 15 for n in lost}))
    assert {gpu.index for gpu in answer.gpus if gpu.lost} == lost
    assert sum(gpu.capability == "9.0" for gpu in answer.gpus) == count - len(lost)


def test_a_hang_at_one_of_eight_leaves_seven(tmp_path):
    library = scripted_nvml(tmp_path, eight(), do={("nvmlDeviceGetMemoryInfo", 3): "hang"})
    started = time.monotonic()
    answer = ask(library, timeout=4)
    assert time.monotonic() - started < 5
    assert [gpu.index for gpu in answer.gpus if gpu.capability == "9.0"] == [0, 1, 2, 4, 5, 6, 7]
    assert answer.gpus[3].lost == ""  # nobody has said so
    assert answer.gpus[3].source == "NVML did not answer in time when asked for GPU 3"
    assert answer.trouble == "NVML did not answer in time at device 3 of 8"


@pytest.mark.parametrize(
    ("action", "name"), [("segv", "SIGSEGV"), ("bus", "SIGBUS"), ("abort", "SIGABRT"), ("kill", "SIGKILL")]
)
def test_a_crash_at_two_of_four_leaves_two(tmp_path, action, name):
    do = {("nvmlDeviceGetUUID", 1): action, ("nvmlDeviceGetUUID", 2): action}
    answer = ask(scripted_nvml(tmp_path, eight(count=4), do=do))
    assert [gpu.index for gpu in answer.gpus if gpu.capability] == [0, 3]
    assert answer.gpus[1].source == f"NVML killed by {name} when asked for GPU 1"
    assert answer.trouble.startswith(f"NVML killed by {name} at device 1 of 4")


@pytest.mark.parametrize("action", ["segv", "bus", "abort", "kill", "memory"])
def test_a_crash_in_init_is_trouble_and_no_fault_of_the_machine(tmp_path, action):
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): action}))
    assert answer.fault is None
    assert "in nvmlInit" in answer.trouble


def test_a_hang_in_init_ends_in_time(tmp_path):
    started = time.monotonic()
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "hang"}), timeout=1)
    assert time.monotonic() - started < 2
    assert answer.trouble == "NVML did not answer in time in nvmlInit"


def test_a_slow_init_is_given_the_whole_time(tmp_path):
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "sleep 1500"}), timeout=4)
    assert answer.trouble == ""
    assert answer.gpus[0].capability == "9.0"


def test_a_slow_device_is_asked_again(tmp_path):
    answer = ask(
        scripted_nvml(
            tmp_path,
            eight(count=2),
            do={("nvmlDeviceGetVirtualizationMode", 1): "sleep 900"},
        ),
        timeout=3,
    )
    assert answer.trouble == ""
    assert [gpu.capability for gpu in answer.gpus] == ["9.0", "9.0"]


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library"])
def test_a_library_that_is_none_is_a_named_fault(tmp_path, content):
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(content)
    assert ask(library).fault.code == "LIBRARY_NOT_FOUND"


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5])  # the tail is for debuggers, and nobody misses it
def test_a_truncated_library_does_not_take_us_down(tmp_path, share):
    library = scripted_nvml(tmp_path, [H100])
    data = library.read_bytes()
    library.write_bytes(data[: int(len(data) * share)])
    answer = ask(library)
    assert answer.fault or answer.trouble
    assert answer.gpus == ()


@pytest.mark.parametrize("name", [b"\xff\xfe GPU", b"", b"A" * 95, b"\x1b[31mGPU\x1b[0m", b"GPU\n::error::x"])
def test_hostile_names_arrive_as_text(tmp_path, name):
    (gpu,) = ask(scripted_nvml(tmp_path, [ScriptedGpu(name=name)])).gpus
    assert gpu.capability == "9.0"
    gpu.name.encode()


def test_what_the_library_prints_does_not_mix_with_the_answer(tmp_path):
    answer = ask(scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "noise"}))
    assert answer.gpus[0].capability == "9.0"


def test_an_old_gpu_without_newer_features_is_whole(tmp_path):
    (gpu,) = ask(scripted_nvml(tmp_path, [K80], driver="470.256.02", cuda=11040)).gpus
    assert (gpu.capability, gpu.remap_pending, gpu.mig_enabled) == ("3.7", None, False)


def test_a_crash_leaves_no_file(tmp_path):
    library = scripted_nvml(tmp_path / "lib", [H100], do={("nvmlInit", "*"): "abort"})
    before = sorted(tmp_path.rglob("*"))
    ask(library)
    assert sorted(tmp_path.rglob("*")) == before


def test_little_memory_is_trouble_and_not_a_fault(tmp_path):
    library = scripted_nvml(tmp_path, [H100])
    limit = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_AS, (60 << 20, 60 << 20)); os.execv(sys.argv[1], sys.argv[1:])"
    child = [sys.executable, "-I", "-S", CHILD, str(find_binding()), str(library)]
    done = subprocess.run([sys.executable, "-c", limit, *child], capture_output=True, timeout=30)
    steps = read_steps(done.stdout)
    assert all(isinstance(step, dict) for step in steps)  # whatever fitted into the memory is whole lines


@pytest.mark.parametrize("junk", [b"", b"{", b"[]\n", b"\xff\n", b'{"step": 3}\n', b'{"step": "gpu"', b"null\n" * 1000])
def test_lines_that_are_no_steps_are_left_out(junk):
    good = json.dumps({"step": "load"}).encode()
    assert read_steps(good + b"\n" + junk) == [{"step": "load"}]


def test_the_binding_is_not_taken_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "pynvml.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not str(find_binding()).startswith(str(tmp_path))
