"""The Action, the workflows and the hooks as files: pinned, linted, and in step with the command line."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_foreign_action_is_pinned_to_a_commit_and_says_its_release(path):
    uses = re.findall(r"uses: (\S+)(.*)", path.read_text())
    assert uses
    for name, rest in uses:
        if name != "./":
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name), name
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", rest), name


def test_the_same_action_has_the_same_pin_everywhere():
    pins = {}
    template = ROOT / "templates" / "github-workflow.yml.j2"
    for path in [*FILES, template]:
        for name, commit in re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", path.read_text()):
            pins.setdefault(name, set()).add(commit)
    assert {name: commits for name, commits in pins.items() if len(commits) > 1} == {}


def test_zizmor_finds_nothing_in_pedantic_mode(tmp_path):
    from envcheck.proposal import render_workflow

    zizmor = Path(sys.executable).with_name("zizmor")
    made = tmp_path / ".github" / "workflows" / "envcheck.yml"
    made.parent.mkdir(parents=True)
    text = render_workflow("envcheck.toml", "1.2.3")
    # Its own release can't be pinned before it is made; the workflow says how.
    made.write_text(text.replace("envcheck/envcheck@v1.2.3", f"envcheck/envcheck@{'0' * 40} # v1.2.3"))
    done = subprocess.run(
        [str(zizmor), "--offline", "--pedantic", "--no-progress", *map(str, FILES), str(made)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "No findings" in done.stdout


def test_zizmor_would_have_found_an_input_in_a_shell_line(tmp_path):
    bad = tmp_path / "action.yml"
    text = (ROOT / "action.yml").read_text()
    bad.write_text(
        text.replace('"$ENVCHECK_ACTION/action/run.py" check', '"$ENVCHECK_ACTION/action/run.py" ${{ inputs.target }}')
    )
    zizmor = Path(sys.executable).with_name("zizmor")
    done = subprocess.run(
        [str(zizmor), "--offline", "--pedantic", "--no-progress", str(bad)], capture_output=True, text=True
    )
    assert "template-injection" in done.stdout


def test_no_input_and_no_output_reaches_a_shell_line(action):
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step["name"]


def test_every_input_is_used_and_described_in_the_guide(action):
    text = (ROOT / "action.yml").read_text()
    guide = (ROOT / "docs" / "ci.md").read_text()
    for name, given in action["inputs"].items():
        assert f"inputs.{name} " in text, name
        assert given["description"]
        assert f"| `{name}` |" in guide, name
    for name in action["outputs"]:
        assert f"`{name}`" in guide, name


def test_the_release_publishes_by_trust_and_attests_without_any_secret():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    flow = yaml.safe_load(text)
    assert flow["permissions"] == {}
    assert flow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "attest-build-provenance@" in text
    assert "attestations: true" in text
    assert "secrets." not in text
    assert "password" not in text


def test_no_workflow_runs_foreign_code_with_rights():
    for path in FILES[1:]:
        text = path.read_text()
        assert "pull_request_target" not in text
        assert "workflow_run" not in text
        assert yaml.safe_load(text)["permissions"] == {}


def test_ci_runs_the_projects_own_command_on_three_pythons_and_the_action_on_every_example():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == ["3.9", "3.11", "3.13"]
    assert any(step.get("run") == ".ci/run" for step in jobs["tests"]["steps"])
    examples = {path.parent.name for path in (ROOT / "examples").glob("*/envcheck.toml")}
    assert set(jobs["gate"]["strategy"]["matrix"]["example"]) == examples
    assert len(examples) == 4


HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_names_a_command_that_there_is(hook):
    from envcheck.cli.main import COMMANDS

    program, command, *rest = shlex.split(hook["entry"])
    assert program == "envcheck"
    assert command in COMMANDS
    assert rest == ([] if hook.get("pass_filenames") is False else ["--"])


@pytest.mark.parametrize(
    ("hook", "yes", "no"),
    [
        (
            "envcheck-dockerfile",
            ["Dockerfile", "a/Dockerfile.gpu", "gpu.Dockerfile", "Containerfile"],
            ["Dockerfile.d/x", "notes.md"],
        ),
        ("envcheck-compose", ["compose.yaml", "a/docker-compose.prod.yml"], ["composer.json", "compose.txt"]),
        ("envcheck-requirements", ["requirements.txt", "a/dev-requirements.in"], ["requirements.md", "req.txt"]),
        ("envcheck", ["envcheck.toml", "pyproject.toml", "x/Dockerfile"], ["src/a.py"]),
    ],
)
def test_a_hook_looks_at_the_files_that_it_is_for(hook, yes, no):
    pattern = next(entry["files"] for entry in HOOKS if entry["id"] == hook)
    assert [name for name in yes if not re.search(pattern, name)] == []
    assert [name for name in no if re.search(pattern, name)] == []


def test_the_gitlab_component_is_two_documents_and_uses_only_its_own_inputs():
    spec, job = yaml.safe_load_all((ROOT / "templates" / "envcheck" / "template.yml").read_text())
    inputs = set(spec["spec"]["inputs"])
    used = set(
        re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", (ROOT / "templates" / "envcheck" / "template.yml").read_text())
    )
    assert used == inputs
    assert all("$[[" not in line for line in job["envcheck"]["script"])


def test_the_image_of_the_tool_passes_hadolint():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(ROOT / "docker" / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
