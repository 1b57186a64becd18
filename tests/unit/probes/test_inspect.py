"""The whole inspection: deadlines, crashes, interruption, hostile trees, and nothing of this machine in another's."""

# ruff: noqa: E501 - tables read better whole

import os
import signal
import socket
import subprocess
import sys
import time

import msgspec
import pytest

import envcheck.probes.inspect as module
from envcheck.model.fact import known
from envcheck.model.machine import Machine
from envcheck.model.stack import Stack
from envcheck.probes.inspect import inspect_host
from envcheck.probes.probe import PROBES
from tests.machines.parts import Link, build
from tests.machines.parts import Machine as Recipe
from tests.machines.recipes import MACHINES, PATH, workstation
from tests.scripted_nvml import H100, eight, scripted_nvml

HERE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


class Stub:
    """A probe of the test's own in the place of a real one."""

    def __init__(self, fields, look):
        self.name, self.fields, self.inspect = "stub", fields, look


def test_every_fact_of_machine_and_stack_is_owed_by_one_probe():
    owed = [field for probe in PROBES for field in probe.fields]
    assert len(owed) == len(set(owed))
    elsewhere = {
        "stack.image",
        "stack.binaries",
        "stack.openings",
        "stack.forward",
        "stack.ptxas",
    }  # an image's; the binaries'
    fields = {f"machine.{name}" for name in Machine.__struct_fields__} | {
        f"stack.{name}" for name in Stack.__struct_fields__
    }
    assert fields - elsewhere <= set(owed)


def test_this_machine_answers_every_question_with_a_value_or_a_reason():
    snapshot = inspect_host(env=HERE, binaries=True)
    for part in (snapshot.machine, snapshot.stack):
        for name in part.__struct_fields__:
            fact = getattr(part, name)
            assert fact.known or not fact.unknown.endswith("not told") or name == "image", name
            assert "envcheck, not of this machine" not in fact.unknown, fact.unknown


def test_a_probe_that_hangs_costs_only_its_own_facts(monkeypatch):
    def hang(scene):
        yield "machine.kernel", known("6.1", "test")
        time.sleep(30)

    others = tuple(probe for probe in PROBES if probe.name != "system")
    monkeypatch.setattr(module, "PROBES", (Stub(("machine.kernel", "machine.arch"), hang), *others))
    started = time.monotonic()
    snapshot = inspect_host(env=HERE, deadline=1.0)
    assert time.monotonic() - started < 2.0
    assert snapshot.machine.kernel.value == "6.1"
    assert snapshot.machine.arch.unknown == "CPU architecture: did not answer in 1 s (stub probe)"
    assert snapshot.stack.python.known


def test_a_crash_of_a_probe_is_a_fault_of_ours(monkeypatch):
    def crash(scene):
        yield "machine.kernel", known("6.1", "test")
        raise RuntimeError("boom")

    monkeypatch.setattr(module, "PROBES", (Stub(("machine.kernel", "machine.arch"), crash),))
    machine = inspect_host(env=HERE).machine
    assert machine.kernel.value == "6.1"
    assert "RuntimeError: boom (a fault of envcheck, not of this machine)" in machine.arch.unknown


def test_eight_gpus_with_one_lost_are_seen_through_the_shipped_child(tmp_path):
    scripted_nvml(tmp_path, eight(), do={("nvmlDeviceGetHandleByIndex_v2", 3): 15})
    machine = inspect_host(env={**HERE, "LD_LIBRARY_PATH": str(tmp_path)}).machine
    assert [gpu.index for gpu in machine.gpus.get() if gpu.lost] == [3]
    assert sum(gpu.capability == "9.0" for gpu in machine.gpus.get()) == 7
    assert machine.driver.get().cuda == "12.2"
    assert machine.driver_fault.value is None
    assert machine.driver_fault.known


@pytest.mark.parametrize("deadline", [0.3, 1.0, 4.0])
def test_a_hanging_nvml_ends_by_the_deadline_plus_one_second(tmp_path, deadline):
    scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "hang"})
    started = time.monotonic()
    machine = inspect_host(env={**HERE, "LD_LIBRARY_PATH": str(tmp_path)}, deadline=deadline).machine
    assert time.monotonic() - started < deadline + 1
    assert not machine.driver_fault.known
    assert machine.kernel.known


def test_a_crashing_nvml_is_no_fault_of_the_machine(tmp_path):
    scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "segv"})
    machine = inspect_host(env={**HERE, "LD_LIBRARY_PATH": str(tmp_path)}).machine
    assert "killed by SIGSEGV in nvmlInit" in machine.driver_fault.unknown


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must mistrust libraries of others")
def test_root_does_not_load_a_library_that_others_can_replace(tmp_path):
    library = scripted_nvml(tmp_path, [H100])
    tmp_path.chmod(0o777)
    machine = inspect_host(env={**HERE, "LD_LIBRARY_PATH": str(tmp_path)}).machine
    assert machine.gpus.value == () or all(gpu.name != H100.name for gpu in machine.gpus.get())
    tmp_path.chmod(0o755)
    library.chmod(0o777)
    machine = inspect_host(env={**HERE, "LD_LIBRARY_PATH": str(tmp_path)}).machine
    assert machine.gpus.value == () or all(gpu.name != H100.name for gpu in machine.gpus.get())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must mistrust programs of others")
def test_a_fake_nvidia_smi_first_on_path_is_not_run_by_root(tmp_path):
    scripted_nvml(tmp_path / "lib", [H100], do={("nvmlInit", "*"): "segv"})
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    fake.chmod(0o777)
    inspect_host(env={**HERE, "PATH": f"{fake.parent}:/usr/bin", "LD_LIBRARY_PATH": str(tmp_path / "lib")})
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_inspection_leaves_no_child(tmp_path, number):
    scripted_nvml(tmp_path, [H100], do={("nvmlInit", "*"): "hang"})
    code = "from envcheck.probes.inspect import inspect_host; inspect_host()"
    env = {**HERE, "LD_LIBRARY_PATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL) as parent:
        child = _wait_for_child(parent.pid)
        parent.send_signal(number)
        assert parent.wait(2) != 0
        ends = time.monotonic() + 1
        while os.path.exists(f"/proc/{child}/exe") and time.monotonic() < ends:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{child}/exe")


def _wait_for_child(parent: int) -> int:
    ends = time.monotonic() + 10
    while time.monotonic() < ends:
        for task in os.listdir(f"/proc/{parent}/task"):
            try:
                with open(f"/proc/{parent}/task/{task}/children") as stream:
                    found = stream.read().split()
            except OSError:
                continue
            for pid in found:
                with open(f"/proc/{pid}/cmdline", "rb") as stream:
                    if b"nvml_child" in stream.read():
                        time.sleep(0.3)  # let it get into the library
                        return int(pid)
        time.sleep(0.01)
    raise AssertionError("the NVML child never came")


def test_an_empty_folder_tells_nothing_of_this_machine(tmp_path):
    snapshot = inspect_host(root=tmp_path)
    text = msgspec.json.encode(snapshot).decode()
    assert os.uname().release not in text
    assert sys.prefix not in text
    assert snapshot.stack.env.value == {}
    for fact in (snapshot.machine.kernel, snapshot.machine.arch, snapshot.machine.ram_bytes, snapshot.stack.glibc):
        assert not fact.known


def test_an_absolute_link_in_a_tree_stays_in_the_tree(tmp_path):
    (tmp_path / "outside").write_text("ID=leaked\n")
    files = {**workstation(), "/etc/os-release": Link(str(tmp_path / "outside"))}
    folder = build(Recipe(files, env=PATH), tmp_path / "m")
    snapshot = inspect_host(root=folder / "root")
    assert "leaked" not in msgspec.json.encode(snapshot).decode()


def test_parent_links_do_not_climb_out_of_the_tree(tmp_path):
    (tmp_path / "outside").write_text("ID=leaked\n")
    files = {**workstation(), "/etc/os-release": Link("../../../../../../outside")}
    folder = build(Recipe(files, env=PATH), tmp_path / "m")
    assert "leaked" not in msgspec.json.encode(inspect_host(root=folder / "root")).decode()


HOSTILE_PLACES = [
    "/etc/os-release", "/etc/ld.so.cache", "/var/lib/dpkg/status", "/proc/driver/nvidia/version", "/proc/modules",
    "/sys/bus/pci/devices/0000:01:00.0/vendor", "/etc/docker/daemon.json", "/usr/bin/python3", "/usr/bin/dockerd",
    "/etc/nvidia-container-runtime/config.toml", "/etc/cdi/x.yaml", "/usr/local/cuda", "/usr/bin/gcc", "/dev/nvidia0",
    "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/proc/device-tree/model",
    "/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages/torch-2.1.0.dist-info/METADATA", "/dev",
]  # fmt: skip


def _replace(root, path, how):
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        import shutil

        shutil.rmtree(place)
    if how == "fifo":
        os.mkfifo(place)
    elif how == "loop":
        place.symlink_to(place.name)
    elif how == "folder":
        place.mkdir()
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as stream:
            here = os.getcwd()
            os.chdir(place.parent)  # the path of a socket may have 107 bytes at most
            stream.bind(place.name)
            os.chdir(here)
    elif how == "noise":
        place.write_bytes(bytes(range(256)) * 300)
    elif how == "empty":
        place.write_bytes(b"")
    elif how == "huge":
        with place.open("wb") as stream:
            stream.truncate(1 << 40)
    elif how == "deep":
        place.write_bytes(b"{" + b'"a":[' * 100_000)


@pytest.mark.parametrize("how", ["fifo", "loop", "folder", "socket", "noise", "empty", "huge", "deep"])
def test_hostile_files_give_named_results_in_bounded_time(tmp_path, how):
    for number, path in enumerate(HOSTILE_PLACES):
        folder = build(MACHINES["docker-host-with-toolkit-and-cdi"](), tmp_path / str(number))
        _replace(folder / "root", path, how)
        started = time.monotonic()
        snapshot = inspect_host(root=folder / "root", env=PATH)
        assert time.monotonic() - started < 3, path
        text = msgspec.json.encode(snapshot).decode()
        assert "a fault of envcheck" not in text, (path, text)


def test_names_that_are_no_utf8_are_shown_and_encode(tmp_path):
    folder = build(MACHINES["bare-metal-rtx-4090-with-torch"](), tmp_path / "m")
    root = os.fsencode(folder / "root")
    site = root + b"/home/user/.venv/lib/python3.10/site-packages"
    os.mkdir(site + b"/nvidia_\xff\xfe-1.0.dist-info")
    os.mkdir(root + b"/usr/local")
    os.mkdir(root + b"/usr/local/cuda-\xff")
    os.mkdir(root + b"/usr/local/cuda-\xff/bin")
    with open(root + b"/usr/local/cuda-\xff/bin/nvcc", "wb") as stream:
        stream.write(b"")
    with open(root + b"/usr/local/cuda-\xff/version.txt", "wb") as stream:
        stream.write(b"CUDA Version 12.1.0\n")
    with open(root + b"/dev/nvidia\xff", "wb"):
        pass
    snapshot = inspect_host(root=folder / "root", env={**PATH, "VIRTUAL_ENV": "/home/user/.venv", "CUDA_X": "\udcff"})
    assert "\ufffd" in msgspec.json.encode(snapshot).decode()


def test_a_folder_without_permission_is_unknown_and_not_absent(tmp_path, monkeypatch):
    """Root reads everything, so the refusal is made here."""
    folder = build(MACHINES["gpu-without-any-driver"](), tmp_path / "m")
    real = os.scandir

    def refuse(path):
        if str(path).endswith("/sys/bus/pci/devices"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    gpus = inspect_host(root=folder / "root", env=PATH).machine.gpus
    assert "Permission denied" in gpus.unknown


def test_the_patient_is_never_run(tmp_path):
    """Whatever could be started in a tree leaves a canary when it is."""
    folder = build(MACHINES["docker-host-with-toolkit-and-cdi"](), tmp_path / "m")
    script = f"#!/bin/sh\ntouch {tmp_path}/canary\n"
    for path in ("usr/bin/nvidia-smi", "usr/bin/python3.10", "usr/bin/dockerd", "usr/bin/gcc", "usr/local/bin/nvcc"):
        place = folder / "root" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script)
        place.chmod(0o755)
    site = folder / "root/usr/lib/python3/dist-packages"
    site.mkdir(parents=True)
    for name in ("sitecustomize.py", "usercustomize.py", "torch/version.py", "torch/__init__.py"):
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(f"open('{tmp_path}/canary', 'w')\n")
    (site / "torch-2.1.0.dist-info").mkdir()
    (site / "torch-2.1.0.dist-info/METADATA").write_text("Name: torch\nVersion: 2.1.0\n\n")
    inspect_host(root=folder / "root", env=PATH)
    assert not (tmp_path / "canary").exists()


def test_the_parent_imports_neither_bindings_nor_clients(tmp_path):
    scripted_nvml(tmp_path, [H100])
    code = (
        "import sys; from envcheck.probes.inspect import inspect_host; inspect_host(); "
        "bad = {'pynvml', 'docker', 'requests', 'rich', 'torch', 'ctypes', 'http.client'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    env = {**HERE, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_it_works_without_home_and_path():
    assert inspect_host(env={}).machine.kernel.known


def test_secrets_of_the_environment_are_not_kept():
    env = {
        **HERE,
        "CUDA_VISIBLE_DEVICES": "0",
        "NVIDIA_API_KEY": "canary-1",
        "HF_TOKEN": "canary-2",
        "TF_VAR_db_password": "canary-3",
        "TORCH_TOKEN": "canary-4",
        "AWS_SECRET_ACCESS_KEY": "canary-5",
    }
    snapshot = inspect_host(env=env)
    assert snapshot.stack.env.get()["CUDA_VISIBLE_DEVICES"] == "0"
    assert "canary" not in msgspec.json.encode(snapshot).decode()


def _crash(scene):
    raise OSError(5, "Input/output error")
    yield


def _nothing(scene):
    return iter(())


def _late(scene):
    time.sleep(3)
    yield "machine.gpus", known((), "too late")


@pytest.mark.parametrize("name", ["nvidia", "python_env"])
@pytest.mark.parametrize("failure", [_crash, _nothing, _late])
def test_without_the_facts_that_decide_nothing_is_called_good(monkeypatch, matrix, name, failure):
    from envcheck.pipeline import judge

    real = {probe.name: probe for probe in PROBES}
    others = tuple(probe for probe in PROBES if probe.name != name)
    monkeypatch.setattr(module, "PROBES", (*others, Stub(real[name].fields, failure)))
    report = judge(inspect_host(env=HERE, deadline=0.8), matrix)
    assert report.summary.verdict != "ok"
