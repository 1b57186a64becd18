"""`envcheck build` and `envcheck resolve` as a user meets them: streams, files, exit codes, words."""

from __future__ import annotations

import inspect
import json

import pytest
from click.testing import CliRunner

from envcheck.cli.build import command as build
from envcheck.cli.resolve import command as resolve
from envcheck.errors import EnvcheckError, UnknownName, UsageError

# click 8.1, the last for Python 3.9, mixes the streams unless it is told not to; 8.2 always keeps them apart.
APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
RUNNER = CliRunner(**APART)


def run(command, *args, fails=None):
    """The result of a command; `fails` is the error that it must raise."""
    done = RUNNER.invoke(command, list(args), catch_exceptions=fails is not None)
    if fails is not None:
        assert isinstance(done.exception, fails), done.exception
    return done


def test_the_dockerfile_goes_to_standard_output_and_the_summary_to_standard_error():
    done = run(build, "--torch", "2.1", "--cuda", "12.1")
    assert done.exit_code == 0
    assert "\nFROM nvcr.io/nvidia/pytorch:23.07-py3\n" in done.stdout
    assert "judged" not in done.stdout
    for word in ("NVIDIA's pre-release build", "--torch 2.1.2", "driver >= 530", "judged", "docker build"):
        assert word in done.stderr


def test_a_folder_gets_the_files_and_a_second_run_changes_nothing(tmp_path):
    args = ["--torch", "2.1.2", "--cuda", "12.1", "-o", str(tmp_path / "new")]
    assert run(build, *args).exit_code == 0
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["Dockerfile", "envcheck.lock", "frameworks.txt", "requirements.txt"]
    assert "unchanged" in run(build, *args).stderr


def test_a_file_that_differs_is_not_replaced_without_force(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM mine\n")
    args = ["--torch", "2.1.2", "--cuda", "12.1", "-o", str(tmp_path)]
    done = run(build, *args, fails=UsageError)
    assert "--force" in done.exception.what_to_do
    assert [path.name for path in tmp_path.iterdir()] == ["Dockerfile"]
    assert run(build, *args, "--force").exit_code == 0
    assert "FROM nvcr.io" in (tmp_path / "Dockerfile").read_text()


def test_nothing_is_written_through_a_link(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "Dockerfile").symlink_to(tmp_path / "elsewhere")
    run(build, "--torch", "2.1.2", "--cuda", "12.1", "-o", str(tmp_path / "out"), "--force", fails=UsageError)
    assert not (tmp_path / "elsewhere").exists()


def test_an_impossible_request_exits_four_with_the_ways_out():
    done = run(build, "--torch", "2.1", "--cuda", "12.4")
    assert done.exit_code == 4
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "✗ No combination: torch 2.1 was never built for CUDA 12.4.",
        "  keep torch 2.1   CUDA 12.1 (--cuda 12.1) · CUDA 11.8 (--cuda 11.8)",
        "  keep CUDA 12.4   torch 2.4, 2.5, 2.6 (--torch 2.4 …)",
        "  A driver that runs CUDA 12.4 runs both 12.1 and 11.8 builds: the first line is usually what you want.",
    ]


def test_a_driver_that_does_not_drive_the_gpu_is_named_with_the_one_that_does():
    done = run(build, "--torch", "2.9", "--gpu", "RTX 5090", "--driver", "535")
    assert done.exit_code == 4
    assert "doesn't drive" in done.stderr
    assert "driver 570 or newer" in done.stderr


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["--torch", "2.1", "--gpu", "RTX 409"], "RTX 4090"),
        (["--torch", "2.1", "--gpu", "sm_91"], "sm_90"),
        (["--torch", "2.19"], "2.1"),
        (["--torch", "2.1", "--cuda", "12.7"], "12."),
        (["--torch", "2.1", "--on", "aws:p4d.24xlargee"], "aws:p4d.24xlarge"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(args, near):
    done = run(build, *args, fails=UnknownName)
    assert done.exception.exit_code == 2
    assert near in done.exception.what_to_do


@pytest.mark.parametrize(
    "args",
    [
        ["--torch", "2.1\nRUN id"],
        ["--torch", "2.1", "--cuda", "12.1;id"],
        ["--torch", "2.1", "--python", "$(id)"],
        ["--torch", "2.1", "--with", "numpy; id"],
        ["--torch", "2.1", "--with", "x @ https://example.com/x.whl"],
        ["--torch", "2.1", "--driver", "535`id`"],
        ["--torch", "2.1", "--gpu", "A100\nUSER root"],
        ["--torch", "2.1", "--tag", "a b"],
        ["--torch", "2.1", "--on", "aws:x\n"],
        ["--torch", "2.1", "--jax", "0.4.35"],
        [],
    ],
)
def test_a_wish_that_can_not_be_one_is_refused_before_anything_is_written(args):
    done = run(build, *args, fails=UsageError)
    assert done.stdout == ""


def test_a_hostile_requirements_file_is_refused_with_its_lines(tmp_path):
    (tmp_path / "r.txt").write_text("numpy==1.26.4\n--extra-index-url https://example.com\n-r -\n")
    done = run(build, "--torch", "2.1", "--requirements", str(tmp_path / "r.txt"), fails=UsageError)
    assert "r.txt:2" in str(done.exception)
    assert "r.txt:3" in str(done.exception)


def test_packages_of_a_file_and_of_the_command_line_reach_the_image(tmp_path):
    (tmp_path / "r.txt").write_text("rich==13.7.1\n")
    args = ["--torch", "2.1.2", "--requirements", str(tmp_path / "r.txt"), "--with", "einops"]
    assert '"einops", "rich==13.7.1"]' in run(build, *args).stdout


def test_the_rules_judge_the_plan_before_anything_is_written(monkeypatch, tmp_path):
    from envcheck.model.finding import Problem
    from envcheck.rules.rule import rule

    @rule("TST001", "never-good", "error", cause="x")
    def never_good(snap, matrix):
        """Fires on every plan."""
        assert snap.origin.kind == "plan"
        yield Problem(f"{snap.stack.packages.get()[0].version} is bad", fix=("do else",))

    monkeypatch.setattr("envcheck.rules.select_rules", lambda select, ignore: (never_good,))
    done = run(build, "--torch", "2.1.2", "--cuda", "12.1", "-o", str(tmp_path), fails=EnvcheckError)
    assert done.exception.exit_code == 4
    assert "TST001" in str(done.exception)
    assert "2.1.2+cu121 is bad" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_resolve_prints_the_lines_to_copy():
    done = run(resolve, "torch==2.1", "cuda==12.1")
    lines = done.stdout.splitlines()
    pip = next(line for line in lines if line.startswith("  pip"))
    assert "torch==2.1.2 torchvision==0.16.2 torchaudio==2.1.2" in pip
    assert "whl/cu121" in pip
    assert any(line.startswith("  uv        uv pip install") for line in lines)
    assert any(line.startswith("  conda     conda install") for line in lines)
    assert "nvcr.io/nvidia/pytorch:23.07-py3" in done.stdout


def test_resolve_takes_one_equals_sign_quoted_gpus_and_a_driver():
    done = run(resolve, "torch=2.7", "python=3.11", "gpu=RTX 5090", "gpu=sm_90", "driver=570.86.10", "--format", "json")
    told = json.loads(done.stdout)
    assert told["satisfiable"] is True
    assert told["plan"]["variant"] == "cu128"
    assert told["plan"]["commands"]["pip"].startswith("pip install torch==2.7")


def test_resolve_tells_a_program_of_a_conflict_too():
    done = run(resolve, "torch==2.1", "cuda==12.4", "--format", "json")
    assert done.exit_code == 4
    told = json.loads(done.stdout)
    assert told["satisfiable"] is False
    assert [wish["kind"] for wish in told["conflict"]] == ["framework", "cuda"]
    assert told["nearest"][0]["keep"] == "torch 2.1"


@pytest.mark.parametrize("wish", ["torch>=2.1", "cuda", "cuda==", "colour=red", "python=3.11;id", "torhc==2.1"])
def test_a_wish_that_resolve_does_not_understand_is_a_usage_error(wish):
    run(resolve, "torch==2.1", wish, fails=UsageError)


def test_the_command_of_the_last_line_gives_the_image_of_the_same_versions():
    line = next(x for x in run(resolve, "torch==2.5", "python==3.12").stdout.splitlines() if x.startswith("  image"))
    words = line.split()
    args = words[words.index("build") + 1 : words.index("-o")]
    assert args == ["--torch", "2.5", "--cuda", "12.4", "--python", "3.12"]
