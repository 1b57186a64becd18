"""`envcheck matrix`: a person's questions on a screen, the same as JSON, and the check of the laws."""

import json

import pytest
from click.testing import CliRunner

from envcheck.cli.matrix import command, render
from envcheck.errors import EnvcheckError
from envcheck.matrix.answer import Answer, AnswerTable


def ask(*words):
    result = CliRunner().invoke(command, ["show", *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


QUESTIONS = {
    ("torch", "2.1"): ["cu121", "cu118", "0.16.2", "3.8-3.11", "matrices/builds/torch.toml"],
    ("torch", "2.5.1"): ["nvidia-cudnn-cu12", "==9.1.0.70", "witness"],
    ("torch",): ["2.15.0", "1.8.0", "rocm"],
    ("tensorflow", "2.15"): ["12.2", "8.9", "3.9-3.11", "2.15.0.post1"],
    ("jax", "0.4.30"): ["cuda12", ">= 525.60.13"],
    ("torchvision", "0.16.2"): ["torch ==2.1.2"],
    ("gpu", "RTX 4090"): ["8.9 (sm_89)", "24 GB", "cu118", "error 804", "gpus.toml"],
    ("gpu", "RTX", "5090"): ["12.0 (sm_120)", "cu128", "PTX"],
    ("gpus",): ["RTX 4090", "GB10"],
    ("driver", "535"): ["12.2 natively", "12.3 to 12.9", "535.309.01", "branches.toml"],
    ("driver", "535.104.05"): ["Open vulnerabilities", "NVIDIA-5821"],
    ("driver", "545.23.08"): ["got no fix"],
    ("cuda", "12.1"): ["530.30.02", "525.60.13", "531.14", "up to 12", "2.5.1"],
    ("cudnn", "9.1"): ["9.1.0.70", "libcudnn.so.9"],
    ("ngc", "pytorch", "23.07"): ["2.1.0a0+b5021ba", "12.1.1", "450.51+", "pip must not replace"],
    ("ngc", "nvcr.io/nvidia/pytorch:23.07-py3"): ["2.1.0a0+b5021ba"],
    ("ngc", "pytorch"): ["23.07-py3", "direct"],
    ("ngc", "cuda", "12.4.1"): ["12.4.1-base-ubuntu22.04", "9.1.0.70"],
    ("ngc", "cuda"): ["ubuntu22.04"],
    ("ngc",): ["tritonserver"],
    ("instances", "aws"): ["aws:p4d.24xlarge"],
    ("instances", "aws:p4d.24xlarge"): ["8 x NVIDIA A100-SXM4-40GB"],
    ("packages",): ["bitsandbytes"],
    ("known-bad", "numpy"): ["numpy2-abi"],
    ("vulnerabilities", "runc"): ["CVE-2025-31133", "1.3.3"],
    ("runtime", "podman"): ["podman", "4.1.0"],
    ("causes",): ["gpu-too-new-for-build"],
    ("policies", "torch"): ["version.py"],
}


@pytest.mark.parametrize(
    ("words", "expected"), QUESTIONS.items(), ids=lambda v: " ".join(v) if isinstance(v, tuple) else ""
)
def test_a_question_is_answered_with_its_sources(words, expected):
    text = ask(*words)
    assert "Sources" in text
    assert "matrices/" in text
    for word in expected:
        assert word in text


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_the_same_answer_as_json(words):
    told = json.loads(ask(*words, "--format", "json"))
    assert told["schema"] == 1
    assert told["sources"]
    assert told.get("facts") or told.get("tables")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("gpu", "RTX 409"), "RTX 4090"),
        (("driver", "999"), "R580"),
        (("driver", "53"), "R535"),
        (("cuda", "12.7"), "12.8"),
        (("torch", "9.9"), "2.15.0"),
        (("pytorhc",), "torch"),
        (("cudnn", "99"), "cudnn"),
        (("ngc", "pytroch"), "pytorch"),
        (("ngc", "pytorch", "23.13"), "23.1"),
        (("ngc", "cuda", "12.4.9"), "12.4.1"),
        (("instances", "awz"), "aws"),
        (("instances", "aws:p4d"), "aws:p4d.24xlarge"),
        (("runtime", "dokcer"), "docker"),
        (("gpu",), "NAME"),
        (("causes", "all"), "causes"),
        (("torch", "2.1", "cu121"), "torch"),
    ],
)
def test_an_unknown_name_exits_2_and_names_the_nearest(words, near):
    with pytest.raises(EnvcheckError) as refused:
        ask(*words)
    assert refused.value.exit_code == 2
    assert near in f"{refused.value} {refused.value.what_to_do}"


def test_long_tables_are_cut_unless_all_is_asked():
    assert "more rows: --all" in ask("sglang")
    assert "0.1.3" in ask("sglang", "--all")


def test_nothing_of_the_matrix_reaches_the_terminal_as_a_command():
    bad = Answer(
        "t",
        "a\x1b[2Jb",
        {"fact": "x\x07y"},
        (AnswerTable("z\r", ("c",), (("[bold]v[/bold]\x1b",),)),),
        ("n\n",),
        ("s",),
    )
    text = render(bad, every=True, color=False, columns=80)
    assert not set(text) & set("\x1b\x07\r")
    assert "[bold]v[/bold]" in text


def test_colour_is_only_for_a_terminal():
    plain = Answer("t", "title", {"a": "b"}, (), (), ("s",))
    assert "\x1b[" in render(plain, every=True, color=True, columns=80)
    assert "\x1b[" not in render(plain, every=True, color=False, columns=80)


def test_no_line_is_wider_than_the_terminal():
    text = render(
        Answer("t", "T", {"a": "word " * 60}, (), ("note " * 60,), ("s",)), every=True, color=False, columns=70
    )
    assert max(map(len, text.splitlines())) <= 70


def test_check_says_that_the_matrix_holds():
    result = CliRunner().invoke(command, ["check"])
    assert result.exit_code == 0
    assert "holds" in result.output


def test_check_names_file_row_and_key_of_every_fault_and_exits_2(tmp_path, root, monkeypatch):
    import shutil

    copy = shutil.copytree(root / "matrices", tmp_path / "matrices")
    cuda = copy / "cuda.toml"
    cuda.write_text(cuda.read_text().replace('linux_driver = "550.54.14"', 'linux_driver = "400.1"'))
    (copy / "gpus.toml").write_text("[[gpu]]\nname = 3\n")
    monkeypatch.setattr("envcheck.resources.find_folder", lambda name: copy)
    result = CliRunner().invoke(command, ["check", "--format", "json"])
    assert result.exit_code == 2
    faults = {(f["file"], f["key"]): f for f in json.loads(result.output)["faults"]}
    assert "12.4.0" in faults["cuda.toml", "linux_driver"]["row"]
    assert ("gpus.toml", "name") in faults
    text = CliRunner().invoke(command, ["check"])
    assert text.exit_code == 2
    assert "cuda.toml: 12.4.0: linux_driver: 400.1 is below" in text.output
