"""What the guides show is what the tool takes."""

import json
import re

import pytest
import yaml

from envcheck.errors import (
    EXIT_BUILD,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INSPECT,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_UNSATISFIABLE,
    EXIT_USAGE,
)
from envcheck.settings import load_settings


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_of_the_settings_guide_is_valid_and_shows_every_key(root, matrix, tmp_path):
    import msgspec

    from envcheck.settings_tables import GpuRequirement, Ignore, Require, Settings

    (text,) = blocks(root / "docs" / "settings.md", "toml")
    path = tmp_path / "envcheck.toml"
    path.write_text(text)
    load_settings(path, matrix.packages())
    for kind in (Settings, Require, GpuRequirement, Ignore):
        for field in msgspec.structs.fields(kind):
            if field.encode_name != "packages":  # the other spelling of require.NAME
                assert re.search(rf"^(\[+.*)?\b{field.encode_name}\b", text, re.MULTILINE), field.encode_name


def test_the_rules_that_the_guide_names_are_rules(root, matrix, tmp_path):
    from envcheck.rules import select_rules

    (text,) = blocks(root / "docs" / "settings.md", "toml")
    path = tmp_path / "envcheck.toml"
    path.write_text(text)
    settings = load_settings(path, matrix.packages()).settings
    assert select_rules(settings.select, [entry.rule for entry in settings.ignore])


def test_every_snippet_of_the_ci_guide_parses(root):
    guide = root / "docs" / "ci.md"
    assert len([yaml.safe_load(text) for text in blocks(guide, "yaml")]) >= 6
    for text in blocks(guide, "json"):
        assert json.loads(text)["postCreateCommand"]


def test_every_option_and_format_in_the_ci_guide_exists(root):
    from envcheck.cli.check import command as check
    from envcheck.report import FORMATS

    text = (root / "docs" / "ci.md").read_text()
    options = {name for parameter in check.params for name in parameter.opts}
    for line in re.findall(r"envcheck check\b([^\n`']*)", text):
        for option in re.findall(r"--[a-z-]+", line):
            assert option in options, line
        for name in re.findall(r"--format ([a-z]+)", line):
            assert name in FORMATS


def test_the_devcontainer_of_the_example_is_the_one_of_the_guide(root):
    (text,) = blocks(root / "docs" / "ci.md", "json")
    example = json.loads((root / "examples" / "torch-training" / ".devcontainer" / "devcontainer.json").read_text())
    said = json.loads(text)
    assert example["runArgs"] == said["runArgs"]
    assert example["postCreateCommand"].split("doctor")[0] == said["postCreateCommand"].split("doctor")[0]


@pytest.mark.parametrize(
    "code",
    [
        EXIT_CLEAN,
        EXIT_FINDINGS,
        EXIT_USAGE,
        EXIT_INSPECT,
        EXIT_UNSATISFIABLE,
        EXIT_BUILD,
        EXIT_INTERNAL,
        EXIT_INTERRUPTED,
    ],
)
def test_every_exit_code_is_told_once(root, code):
    text = (root / "docs" / "exit-codes.md").read_text()
    assert len(re.findall(rf"^\| {code} \|", text, re.MULTILINE)) == 1
