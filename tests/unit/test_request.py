"""Wishes are parsed into values that can do no harm, or refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envcheck.errors import UsageError
from envcheck.model.request import parse_requirement, parse_requirements, parse_tag, parse_version

HOSTILE = [
    "2.1\nRUN curl evil",
    "2.1; rm -rf /",
    "$(id)",
    "`id`",
    '2.1"',
    "2.1'",
    "2.1 && id",
    "2.1\r",
    "2.1\n",
    "2.1\\",
    "２.１",
    "2.1\x00",
    "../2.1",
    "2.1 #",
    "",
    "1" * 50,
]


@pytest.mark.parametrize("text", ["2.1", "2.1.2", "12.4.1", "2.15.0.post1", "2.6.0rc1", "0.12.0.1"])
def test_a_version_is_taken_as_written(text):
    assert parse_version(text, "torch") == text


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_version_is_refused(text):
    with pytest.raises(UsageError):
        parse_version(text, "torch")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("numpy", "numpy"),
        ("numpy==1.26.4", "numpy==1.26.4"),
        ("pandas >= 2, <3", "pandas<3,>=2"),
        ("transformers[torch, sentencepiece]>=4.40", "transformers[sentencepiece,torch]>=4.40"),
        ("ruamel.yaml~=0.18", "ruamel.yaml~=0.18"),
    ],
)
def test_a_plain_requirement_becomes_canonical(text, canonical):
    assert parse_requirement(text) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *(text for text in HOSTILE if text),
        "numpy; python_version < '3'",
        "evil @ https://example.com/x.whl",
        "evil@https://example.com/$(id).whl",
        "git+https://example.com/x.git",
        "-r other.txt",
        "--index-url https://example.com",
        "-e .",
        "./local.whl",
        "numpy==1.26.4 --hash=sha256:00",
        "numpy\nRUN id",
        "numpy==1.*;id",
        "numpy$IFS",
        "numpy>=${X}",
        "numpy[a;b]",
    ],
)
def test_a_requirement_that_is_more_than_a_name_and_versions_is_refused(text):
    if text[:1].isdigit() and set(text) <= set("1"):
        text += ";"
    with pytest.raises(UsageError):
        parse_requirement(text)


def test_a_file_names_every_bad_line_with_its_number():
    text = "# tools\nnumpy==1.26.4  # pinned\n\n-r other.txt\nrich\nevil @ https://example.com/x.whl\n"
    with pytest.raises(UsageError) as refused:
        parse_requirements(text, "req.txt")
    assert "req.txt:4" in str(refused.value)
    assert "req.txt:6" in str(refused.value)
    assert "req.txt:2" not in str(refused.value)


def test_a_plain_file_gives_its_requirements():
    assert parse_requirements("﻿".strip("﻿") + "numpy==1.26.4\r\nrich\n", "r") == ("numpy==1.26.4", "rich")


@pytest.mark.parametrize("text", ["a b", "UPPER", "x:y:z", "-t", "x;id", "x@sha256:" + "0" * 64])
def test_a_tag_that_is_no_image_name_is_refused(text):
    with pytest.raises(UsageError):
        parse_tag(text)


@given(st.text(max_size=60))
@example("torch==2.1\n")
def test_whatever_is_taken_as_requirement_has_no_character_that_a_file_could_misread(text):
    try:
        found = parse_requirement(text)
    except UsageError:
        return
    assert not set(found) & set("\n\r;$`'\"\\ #&|(){}@/:")
    assert parse_requirement(found) == found


@given(st.text(max_size=40))
@example("1.0\n")
def test_whatever_is_taken_as_version_is_ascii_numbers(text):
    try:
        found = parse_version(text, "cuda")
    except UsageError:
        return
    assert set(found) <= set("0123456789.abrcpost")
