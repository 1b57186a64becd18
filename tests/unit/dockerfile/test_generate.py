"""What is written is what was planned: files, lock, and nothing that a hostile value could add."""

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck import matrix as matrices
from envcheck.dockerfile.generate import context_files, generate_dockerfile, generate_files, lock
from envcheck.dockerfile.lint import differences, instructions
from envcheck.dockerfile.render import UnsafeValue, check
from envcheck.errors import EnvcheckError
from envcheck.model.request import Request, parse_requirement
from envcheck.resolve.resolver import resolve
from tests.unit.dockerfile.parser import assert_as_intended, expected, parse

MATRIX = matrices.load()
WHEELS = resolve(Request(framework="torch", version="2.1.2", cuda="12.1"), MATRIX)
IMAGE = resolve(Request(framework="torch", version="2.1", cuda="12.1"), MATRIX)


def with_packages(plan, *packages):
    return msgspec.structs.replace(plan, packages=packages)


def test_the_same_plan_gives_the_same_bytes(matrix):
    again = resolve(Request(framework="torch", version="2.1.2", cuda="12.1"), matrix)
    assert generate_files(again) == generate_files(WHEELS)


def test_the_file_for_a_folder_copies_exactly_the_files_beside_it():
    plan = with_packages(WHEELS, "rich")
    copied = next(values for name, values in parse(generate_dockerfile(plan, folder=True)) if name == "COPY")
    assert copied[:-1] == tuple(file.name for file in context_files(plan))


def test_the_requirements_file_pins_the_framework_and_bounds_numpy():
    files = {file.name: file.content for file in generate_files(with_packages(WHEELS, "rich==13.7.1"))}
    assert files["requirements.txt"].splitlines() == [
        "torch==2.1.2+cu121",
        "torchvision==0.16.2+cu121",
        "torchaudio==2.1.2+cu121",
        "numpy<2",
        "rich==13.7.1",
    ]
    assert files["frameworks.txt"].splitlines() == files["requirements.txt"].splitlines()[:3]


def test_nvidias_image_without_additions_needs_no_file_beside_it():
    assert [file.name for file in generate_files(IMAGE)] == ["Dockerfile", "envcheck.lock"]


def test_on_nvidias_image_the_constraint_comes_before_pip_and_the_check_after():
    runs = [
        values[0]
        for name, values in parse(generate_dockerfile(with_packages(IMAGE, "rich"), folder=True))
        if name == "RUN"
    ]
    assert "> /opt/envcheck/constraints.txt" in runs[0]
    assert runs[1].index("-c /opt/envcheck/constraints.txt") < runs[1].index("! grep -Fxvf")


@pytest.mark.parametrize("plan", [WHEELS, IMAGE], ids=["wheels", "image"])
def test_the_image_runs_as_a_number_and_leaves_no_cache(plan):
    text = generate_dockerfile(with_packages(plan, "rich"))
    assert ("USER", ("10001:10001",)) in parse(text)
    calls = [
        line for line in text.splitlines() if re.search(r"\bpip\b.*\binstall\b", line) and not line.startswith("#")
    ]
    assert calls
    assert all("--no-cache-dir" in line for line in calls)


def test_a_fetched_python_comes_from_a_tool_that_is_pinned_by_hash(matrix):
    plan = resolve(Request(framework="torch", version="2.1.2", cuda="12.1", python="3.11"), matrix)
    text = generate_dockerfile(plan)
    assert "--require-hashes" in text
    assert re.search(r"sha256:[0-9a-f]{64}", text)
    assert f"python install --no-bin {plan.python.version}" in text


def test_the_lock_records_the_request_and_every_choice_with_its_source():
    document = json.loads(lock(WHEELS))
    assert document["request"] == {"framework": "torch", "version": "2.1.2", "cuda": "12.1", "base": "auto"}
    assert {"base", "torch", "cuda", "python", "torchvision", "numpy"} <= {c["name"] for c in document["choices"]}
    assert all(choice["source"] for choice in document["choices"])
    assert lock(WHEELS).endswith("}\n")


def test_labels_record_the_plan():
    labels = next(values for name, values in parse(generate_dockerfile(WHEELS)) if name == "LABEL")
    assert '"2.1.2+cu121"' in labels
    assert f'"{WHEELS.image}"' in labels


@pytest.mark.parametrize(
    "value", ["a\nRUN id", "$(id)", 'a"', "a;b", "a\\", "`id`", "a'", "a|b", "a&b", "é", "\x1b[1m"]
)
def test_a_value_that_a_dockerfile_could_misread_never_gets_there(value):
    with pytest.raises(UnsafeValue):
        check({"x": ["fine", value]})
    for field in ("image", "index", "module", "cuda", "framework"):
        with pytest.raises(UnsafeValue):
            generate_dockerfile(msgspec.structs.replace(WHEELS, **{field: value}))


FIELDS = ("torch", "cuda", "python", "cudnn", "with", "gpu", "driver", "on")


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(FIELDS),
    st.text(max_size=30) | st.from_regex(r"[0-9.]{1,6}[\n;$`'\"( #\\]{0,3}.{0,9}", fullmatch=True),
)
def test_whatever_stands_in_any_field_the_parser_reads_the_intended_instructions_or_nothing_is_written(field, text):
    from envcheck.cli.wishes import read_request

    wishes = {"cuda": None, "python": None, "cudnn": None, "driver": None, "on": None}
    version, packages, gpus = "2.1.2", [], []
    if field == "torch":
        version = text
    elif field == "with":
        packages = [text]
    elif field == "gpu":
        gpus = [text]
    else:
        wishes[field] = text
    try:
        request = read_request([("torch", version)], MATRIX, gpus=gpus, packages=packages, **wishes)
        plan = resolve(request, MATRIX)
    except EnvcheckError:
        return
    assert_as_intended(generate_dockerfile(plan), expected(plan, list(plan.packages)))


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}[A-Za-z0-9]", fullmatch=True)
CLAUSES = st.sampled_from(["", "==1.0", ">=2,<3", "~=1.4", "!=1.5", "==1.*", "[a,b]>=1"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.builds(str.__add__, NAMES, CLAUSES).map(parse_requirement), max_size=5))
def test_every_requirement_that_is_taken_arrives_as_one_word(packages):
    for plan in (WHEELS, IMAGE):
        plan = with_packages(plan, *packages)
        assert_as_intended(generate_dockerfile(plan), expected(plan, packages))


def test_the_reader_of_what_was_written_joins_continued_lines_and_skips_comments():
    text = "# c\nFROM a\n\nRUN x \\\n    # inside\n    && y\nENV A=b\n"
    assert instructions(text) == [("FROM", "a"), ("RUN", "x && y"), ("ENV", "A=b")]


def test_an_instruction_that_was_not_intended_is_a_difference():
    assert differences("FROM a\nRUN x\n", ("FROM", "RUN"), "a") == []
    assert differences("FROM a\nRUN x\nRUN y\n", ("FROM", "RUN"), "a")
    assert differences("FROM b\n", ("FROM",), "a")
