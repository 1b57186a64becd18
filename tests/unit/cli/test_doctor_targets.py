"""The command line on targets that aren't this host: kinds, machines, exit codes, and what a wrong name gets."""

import json

import pytest

DOCKERFILE = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN apt-get install -y python3-pip nvidia-driver-535\n"
REQUIREMENTS = "torch==2.9.0\n"


@pytest.fixture
def run(envcheck, tmp_path):
    """Run in a folder with a few files; the parsed report where one is printed."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "good.txt").write_text("torch>=2.4,<2.5\n")
    env = {"DOCKER_HOST": f"unix://{tmp_path}/no.sock", "HOME": str(tmp_path)}

    def go(*words, **rest):
        done = envcheck("doctor", *words, cwd=tmp_path, env=env, **rest)
        report = json.loads(done.stdout) if done.stdout.lstrip().startswith(b"{") else None
        return done, report

    return go


def test_a_requirements_file_on_a_described_machine(run):
    done, report = run(
        "requirements.txt", "--python", "3.11", "--gpu", "V100 16GB", "--driver", "470", "--format", "json"
    )
    assert done.returncode == 1, done.stderr
    finding = next(f for f in report["findings"] if f["rule"] == "DRV101")
    assert (finding["path"], finding["line"]) == ("requirements.txt", 1)


def test_a_file_by_itself_is_judged_without_a_machine(run):
    done, report = run("Dockerfile", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [f["rule"] for f in report["findings"] if f["rule"].startswith("FIL")] == ["FIL102"]


def test_a_cloud_machine_without_a_driver_says_what_is_missing(run):
    _, report = run("requirements.txt", "--python", "3.11", "--on", "aws:p4d.24xlarge", "--format", "json")
    assert any("driver" in skip["reason"] for skip in report["skipped"])


def test_the_driver_range_is_said(run):
    done, _ = run("requirements.txt", "--python", "3.11", "--gpu", "A100 80GB", "--driver", "550", "--driver-range")
    assert b"Driver range: driver >= 525.60.13" in done.stdout


def test_a_compose_file_gives_one_report_of_all_services(run, tmp_path):
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a:\n    build: .\n  b:\n    image: nvidia/cuda:12.4.1-base-ubuntu22.04\n    gpus: all\n"
        "    environment: {NVIDIA_DRIVER_CAPABILITIES: utility}\n"
    )
    done, report = run("compose.yaml", "--format", "json")
    assert {(f["rule"], f["path"]) for f in report["findings"]} >= {
        ("FIL102", "Dockerfile"),
        ("IMG104", "compose.yaml"),
    }
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["requirments.txt"], "requirements.txt"),
        (["nothing-here"], "image:nothing-here"),
        (["sub/Dokerfile"], "sub/Dockerfile"),
        (["file:none.txt"], "none.txt"),
        (["local:none:1"], "docker images"),
        (["requirements.txt", "--on", "aws:p4d.24xlrge"], "aws:p4d.24xlarge"),
        (["requirements.txt", "--gpu", "RTX 409"], "RTX 4090"),
        (["requirements.txt", "--gpu", "A100", "--driver", "new"], "--driver 535"),
        (["Dockerfile", "--build-arg", "x"], "NAME=VALUE"),
        (["nvcr.io/a/b:c", "--insecure"], "--force-insecure"),
        (["ubuntu:22.04", "--registry-mirror", "ftp://x"], "--registry-mirror"),
    ],
)
def test_a_wrong_word_exits_2_and_says_the_right_one(run, words, said):
    done, _ = run(*words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr.decode()


def test_no_engine_exits_3(run):
    done, _ = run("container:x")
    assert done.returncode == 3
    assert b"DOCKER_HOST" in done.stderr


def test_a_broken_file_exits_3_with_its_line(run, tmp_path):
    (tmp_path / "compose.yaml").write_text("services:\n  a: [\n")
    done, _ = run("compose.yaml")
    assert done.returncode == 3
    assert b"compose.yaml" in done.stderr


def test_machines_lists_and_narrows(envcheck):
    everything = envcheck("machines")
    some = envcheck("machines", "h100", "--format", "json")
    rows = json.loads(some.stdout)
    assert everything.returncode == some.returncode == 0
    assert 0 < len(rows) < everything.stdout.count(b"\n")
    assert all("H100" in row["gpu"] for row in rows)
    assert {"name", "gpu", "source"} <= set(rows[0])


def test_machines_by_a_wrong_word_names_the_nearest(envcheck):
    done = envcheck("machines", "aws:p4d.24xlrge")
    assert done.returncode == 2
    assert b"aws:p4d.24xlarge" in done.stderr
