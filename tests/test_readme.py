"""The README's examples are run, and print what the README says. '…' in it stands for anything."""

import re
import shlex
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def examples():
    """(command, expected output) of every `$ envcheck …` in a console block."""
    for block in BLOCK.findall(README.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command.partition("  #")[0].strip(), output.strip()


EXAMPLES = list(examples())


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_an_example_prints_what_the_readme_says(command, expected, envcheck, root):
    words = shlex.split(command)
    assert words[0] == "envcheck", command
    done = envcheck(*words[1:], cwd=root, env={"COLUMNS": "110"})
    shown = (done.stdout + done.stderr).decode()
    pattern = re.escape(expected).replace("…", ".*?").replace("\\ ", " ")
    pattern = re.sub(r"[ ]+", r"[ ]+", pattern)
    assert re.search(pattern, shown, re.DOTALL), f"{command} printed:\n{shown}"
    assert done.returncode in (0, 1, 3, 4), shown
