"""`init`, `explain`, `rules`, `completion` and the help of every command."""

import json

import pytest

from envcheck.cli.main import COMMANDS

DOCKERFILE = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN pip install torch==2.5.1\n"


def test_init_proposes_what_the_repository_has_and_check_reads_it(envcheck, tmp_path):
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "requirements.txt").write_text("torch==2.5.1\nsix\n")
    done = envcheck("init")
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    assert "require  torch ==2.5.1" in shown
    settings = (tmp_path / "envcheck.toml").read_text()
    assert 'dockerfiles = ["Dockerfile"]' in settings
    assert 'torch = "==2.5.1"' in settings
    assert "envcheck/envcheck@v" in (tmp_path / ".github" / "workflows" / "envcheck.yml").read_text()
    assert envcheck("check").returncode == 0


def test_init_writes_over_nothing_unless_forced(envcheck, tmp_path):
    (tmp_path / "envcheck.toml").write_text("targets = []  # mine\n")
    done = envcheck("init")
    assert done.returncode == 2
    assert b"envcheck.toml" in done.stderr
    assert "mine" in (tmp_path / "envcheck.toml").read_text()
    assert not (tmp_path / ".github").exists()
    assert envcheck("init", "--force").returncode == 0
    assert "mine" not in (tmp_path / "envcheck.toml").read_text()


def test_init_does_not_add_a_second_place_for_settings(envcheck, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.envcheck]\n")
    done = envcheck("init")
    assert done.returncode == 2
    assert b"[tool.envcheck] in pyproject.toml" in done.stderr


def test_init_dry_run_writes_nothing(envcheck, tmp_path):
    done = envcheck("init", "--dry-run")
    assert done.returncode == 0
    assert b"--- envcheck.toml" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_init_says_where_files_differ_and_proposes_nothing_there(envcheck, tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==2.5.1\n")
    (tmp_path / "requirements-dev.txt").write_text("torch==2.6.0\n")
    done = envcheck("init")
    assert b"differ   torch ==2.5.1 and ==2.6.0" in done.stdout
    assert "\ntorch" not in (tmp_path / "envcheck.toml").read_text()


def test_names_with_quotes_and_escapes_make_valid_settings(envcheck, tmp_path):
    folder = tmp_path / 'a"b\\c'
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    assert envcheck("init", "--no-workflow").returncode == 0
    done = envcheck("check")
    assert done.returncode == 0, done.stderr


def test_init_leaves_environments_and_links_alone(envcheck, tmp_path):
    hidden = tmp_path / "my-env" / "lib"
    hidden.mkdir(parents=True)
    (tmp_path / "my-env" / "pyvenv.cfg").write_text("")
    (hidden / "requirements.txt").write_text("torch==1.0\n")
    (tmp_path / "requirements.txt").symlink_to(hidden / "requirements.txt")
    assert b"requirement" not in envcheck("init", "--dry-run").stdout.partition(b"---")[0].replace(
        b"requirement file", b""
    )


@pytest.mark.parametrize("name", ["SET112", "set112", "gpu-feature-missing"])
def test_explain_takes_id_or_slug_in_any_case(envcheck, name):
    shown = envcheck("explain", name).stdout.decode()
    assert shown.startswith("SET112 gpu-feature-missing   error\n")
    for label in ("why", "how", "fix", "sources"):
        assert f"\n  {label:<8} " in shown


def test_explain_names_the_nearest(envcheck):
    done = envcheck("explain", "SET113")
    assert done.returncode == 2
    assert b"SET11" in done.stderr.partition(b"Near")[2]


def test_every_rule_has_a_page(envcheck):
    from envcheck.rules import ALL

    listed = json.loads(envcheck("rules", "--format", "json").stdout)
    assert [row["id"] for row in listed] == sorted(rule.id for rule in ALL)
    assert all(row["title"] for row in listed)
    assert len({row["id"] for row in listed}) == len({row["slug"] for row in listed}) == len(listed)


@pytest.mark.parametrize("label", ["why", "how", "fix"])
def test_every_page_says_it(label):
    from envcheck.cli.explain import _sections
    from envcheck.rules import ALL

    silent = [rule.id for rule in ALL if label not in dict(_sections(rule.page.partition("\n")[2]))]
    assert silent == []


def test_rules_can_be_selected(envcheck):
    lines = envcheck("rules", "--select", "SET,gpu-feature-missing").stdout.decode().splitlines()
    assert lines
    assert all(line.startswith("SET") for line in lines)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(envcheck, shell):
    done = envcheck("completion", shell)
    assert done.returncode == 0
    assert b"_ENVCHECK_COMPLETE" in done.stdout


def test_completion_completes_commands(envcheck):
    env = {"_ENVCHECK_COMPLETE": "bash_complete", "COMP_WORDS": "envcheck conv", "COMP_CWORD": "1"}
    assert envcheck(env=env).stdout == b"plain,convert\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_examples(envcheck, name):
    done = envcheck(name, "--help")
    assert done.returncode == 0, done.stderr
    assert b"Examples:" in done.stdout or name == "matrix"
