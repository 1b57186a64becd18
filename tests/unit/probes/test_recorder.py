"""A recording plays back as the machine that it was made of."""

import msgspec
import pytest

from envcheck.probes.inspect import inspect_host
from envcheck.probes.recorder import record
from envcheck.probes.replay import ReplayRunner, read_recording, replay
from tests.machines.parts import build
from tests.machines.recipes import MACHINES

KNOWN = frozenset({"torch", "numpy", "tensorflow"})


@pytest.mark.parametrize(
    "name",
    [
        "bare-metal-rtx-4090-with-torch",
        "two-cuda-toolkits",
        "conda-and-pip-mixed",
        "eight-gpus-one-lost",
        "docker-host-with-toolkit-and-cdi",
    ],
)
def test_a_recording_of_a_machine_gives_the_same_snapshot(tmp_path, name):
    source = build(MACHINES[name](), tmp_path / "machine")
    told = read_recording(source)
    original = inspect_host(root=source / "root", runner=ReplayRunner(told.runs), env=told.env, known=KNOWN)
    record(
        tmp_path / "copy", redact=str, root=source / "root", runner=ReplayRunner(told.runs), env=told.env, known=KNOWN
    )
    again = replay(tmp_path / "copy", known=KNOWN)
    assert msgspec.to_builtins(again) == msgspec.to_builtins(original)


def test_what_is_recorded_goes_through_the_redactor(tmp_path):
    source = build(MACHINES["bare-metal-rtx-4090-with-torch"](), tmp_path / "machine")
    told = read_recording(source)
    runner = ReplayRunner(told.runs)
    env = {**told.env, "CUDA_X": "GPU-00000000", "SECRET": "canary"}
    record(
        tmp_path / "copy",
        redact=lambda text: text.replace("GPU-00000000", "GPU-redacted"),
        root=source / "root",
        runner=runner,
        env=env,
    )
    text = (tmp_path / "copy/recording.json").read_text()
    assert "canary" not in text
    assert "GPU-00000000" not in text


def test_this_machine_can_be_recorded(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    snapshot = record(tmp_path, redact=str, env=env, known=KNOWN)
    again = replay(tmp_path, known=KNOWN)
    for name in ("distro", "glibc", "glibcxx", "python", "packages", "toolkits", "compiler"):
        assert getattr(again.stack, name) == getattr(snapshot.stack, name), name
