"""The Action's own steps, one by one; the whole of it runs under the real runner in tests/integration."""

import importlib.util
import os
import re
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def steps(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("envcheck_action", ROOT / "action" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in [name for name in os.environ if name.startswith("ENVCHECK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("RUNNER_TOOL_CACHE", str(tmp_path / "tools"))
    return module


def outputs(tmp_path):
    """As the runner reads them: NAME<<DELIMITER, lines, DELIMITER."""
    found, lines = {}, iter((tmp_path / "output").read_text().splitlines())
    for line in lines:
        name, _, mark = line.partition("<<")
        value = []
        for inner in lines:
            if inner == mark:
                break
            value.append(inner)
        found[name] = "\n".join(value)
    return found


def test_an_output_can_not_end_its_own_block(steps, tmp_path):
    evil = "a\nenvcheck-0\nverdict<<x\nok\nx"
    steps.output(report=evil, verdict="findings")
    assert outputs(tmp_path) == {"report": evil, "verdict": "findings"}


def test_the_delimiter_is_another_every_time(steps, tmp_path):
    steps.output(a="1", b="2")
    marks = re.findall(r"<<(\S+)", (tmp_path / "output").read_text())
    assert len(set(marks)) == 2
    assert all(len(mark) >= 32 for mark in marks)


def test_values_are_joined_to_their_options_and_the_target_stands_last(steps, monkeypatch):
    for name, value in {"TARGET": "--help", "ON": "-x", "FAIL_ON": "warning", "REQUIRE_GPU": "TRUE"}.items():
        monkeypatch.setenv(f"ENVCHECK_{name}", value)
    assert steps.arguments("") == ["doctor", "--fail-on=warning", "--require-gpu", "--on=-x", "--", "--help"]


def test_settings_are_judged_where_no_target_is_named(steps, monkeypatch):
    monkeypatch.setenv("ENVCHECK_BASELINE", "known.json")
    assert steps.arguments("ci/envcheck.toml") == ["check", "--config=ci/envcheck.toml", "--baseline=known.json"]
    with pytest.raises(steps.Wrong):
        steps.arguments("")


@pytest.mark.parametrize("version", ["1.2.3", "0.1", "2.0rc1", "1.0.post1"])
def test_the_environment_is_named_by_the_release(steps, monkeypatch, tmp_path, version):
    monkeypatch.setenv("ENVCHECK_VERSION", version)
    steps.prepare()
    assert f"envcheck-{version}-" in outputs(tmp_path)["key"]


@pytest.mark.parametrize("version", ["1.0; id", "-r x", "../x", "1.0 --index-url=http://x", "$(id)", "latest"])
def test_what_is_no_release_is_refused(steps, monkeypatch, version):
    monkeypatch.setenv("ENVCHECK_VERSION", version)
    with pytest.raises(steps.Wrong):
        steps.prepare()


def test_the_name_changes_with_the_place_and_the_code(steps, monkeypatch, tmp_path):
    def key():
        (tmp_path / "output").unlink(missing_ok=True)
        steps.prepare()
        return outputs(tmp_path)["key"]

    first = key()
    assert key() == first
    monkeypatch.setenv("RUNNER_TOOL_CACHE", str(tmp_path / "elsewhere"))
    assert key() != first
    monkeypatch.setenv("RUNNER_TOOL_CACHE", str(tmp_path / "tools"))
    monkeypatch.setattr(steps, "source_hash", lambda: "other")
    assert key() != first


def test_an_environment_is_ready_only_when_it_was_finished(steps, tmp_path):
    steps.prepare()
    assert outputs(tmp_path)["ready"] == "false"
    venv = Path(outputs(tmp_path)["venv"])
    venv.mkdir(parents=True)
    (tmp_path / "output").unlink()
    steps.prepare()
    assert outputs(tmp_path)["ready"] == "false"
    (venv / steps.DONE).write_text("")
    (tmp_path / "output").unlink()
    steps.prepare()
    assert outputs(tmp_path)["ready"] == "true"


def test_only_environments_that_nobody_uses_are_removed(steps, tmp_path):
    for name, age in {"envcheck-old": 40, "envcheck-new": 2, "other-old": 40}.items():
        done = tmp_path / name / steps.DONE
        done.parent.mkdir()
        done.write_text("")
        os.utime(done, (time.time() - age * 86400,) * 2)
    steps.prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["envcheck-new", "other-old"]


def test_a_folder_that_can_not_be_written_is_told_not_thrown(steps, monkeypatch, tmp_path, capsys):
    (tmp_path / "tools").write_text("a file")
    monkeypatch.setenv("ENVCHECK_VENV", str(tmp_path / "tools" / "envcheck" / "x"))
    assert steps.main(["install"]) == 2
    assert capsys.readouterr().out.startswith("::error title=envcheck::")
