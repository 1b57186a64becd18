"""The grammar against the official parser, instruction by instruction, and the corners that it settles."""

import contextlib

import dockerfile as official
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from envcheck.readers.dockerfile_grammar import DockerfileError, assignments, expand, parse

CASES = {
    "plain": "FROM ubuntu:22.04\nRUN echo hi\n",
    "lower case": "from ubuntu\nrun echo hi\n",
    "continuation": "FROM a\nRUN apt-get update && \\\n    apt-get install -y \\\n    python3\nENV A=b\n",
    "comment within": "FROM a\nRUN one && \\\n# not this\n   two\n",
    "blank within": "FROM a\nRUN one && \\\n\n   two\n",
    "escape directive": "# escape=`\nFROM a\nRUN one `\n  two\nCOPY c:\\x d\n",
    "directive after a comment is none": "# hello\n# escape=`\nFROM a\nRUN one \\\n two\n",
    "syntax directive": "# syntax=docker/dockerfile:1\nFROM a AS b\nFROM b\n",
    "json": 'FROM a\nRUN ["pip", "install", "torch==2.1.0"]\nCMD ["python", "-c", "x"]\n',
    "json that is none": "FROM a\nRUN [ -f x ] && echo y\n",
    "flags": "FROM --platform=linux/arm64 a AS b\nCOPY --from=b --chown=1:1 /x y\nRUN --mount=type=cache,target=/c x\n",
    "env forms": 'FROM a\nENV A=1 B="two words" C=three\\ words\nENV OLD form of it\n',
    "label": 'FROM a\nLABEL x="y z" w=v\n',
    "arg before from": "ARG T=22.04\nFROM ubuntu:${T}\nARG X\nARG Y=1\n",
    "healthcheck": "FROM a\nHEALTHCHECK --interval=5s CMD curl x\n",
    "onbuild": "FROM a\nONBUILD RUN echo\n",
    "leading blanks": "\n\n   FROM a\n\t RUN b\n",
    "windows line ends": "FROM a\r\nRUN b \\\r\n  c\r\n",
    "trailing blanks after the escape": "FROM a\nRUN one \\   \n  two\n",
    "no newline at the end": "FROM a\nRUN b",
    "volume shell user": 'FROM a\nSHELL ["/bin/bash", "-c"]\nVOLUME /d\nUSER me\nWORKDIR /w\nEXPOSE 80\nSTOPSIGNAL 9\n',
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES.keys())
def test_as_the_official_parser_reads_it(text):
    theirs = official.parse_string(text)
    ours = parse(text)
    assert [i.name for i in ours] == [command.cmd.upper() for command in theirs]
    assert [i.line for i in ours] == [command.start_line for command in theirs]
    for mine, command in zip(ours, theirs):
        assert list(mine.flags) == list(command.flags)
        if mine.name in ("RUN", "CMD", "SHELL"):
            assert (mine.words is not None) == command.json
            assert (list(mine.words) if mine.words is not None else [mine.text]) == list(command.value)
        if mine.name == "FROM":
            assert mine.text.split() == list(command.value)


WORD = st.text(alphabet="abcXYZ019._-=/:$\\\"'[]{}#&|;`<> \t,", min_size=0, max_size=30)


@given(st.lists(st.tuples(st.sampled_from(["RUN", "ENV", "COPY", "CMD", "LABEL", "ARG", "#"]), WORD), max_size=6))
@example([("RUN", "\\\\"), ("RUN", "")])  # an escaped backslash continues nothing
@settings(max_examples=300, deadline=None)
def test_names_and_lines_agree_with_the_official_parser_on_anything_that_it_accepts(body):
    text = "FROM a\n" + "".join(f"{name} {rest}\n" for name, rest in body)
    try:
        theirs = official.parse_string(text)
    except official.GoParseError:
        return
    if "<<" in text:  # the bundled parser may be older than heredocs
        return
    ours = parse(text)
    assert [(i.name, i.line) for i in ours] == [(c.cmd.upper(), c.start_line) for c in theirs]


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_is_instructions_or_an_error_of_its_own(text):
    with contextlib.suppress(DockerfileError):
        assert parse(text)


def test_a_heredoc_is_one_instruction():
    text = "FROM a\nRUN <<EOF\npip install torch==2.1.0\n# comment\nEOF\nRUN after\n"
    _, run, after = parse(text)
    assert run.heredocs == ("pip install torch==2.1.0\n# comment",)
    assert after.line == 6


def test_heredocs_with_dash_and_quotes_and_two_at_once():
    text = "FROM a\nCOPY <<-'A' <<B /x/\n\tone\n\tA\ntwo\nB\nRUN x\n"
    _, copy, run = parse(text)
    assert copy.heredocs == ("one", "two")
    assert run.text == "x"


def test_a_heredoc_without_end_is_an_error():
    with pytest.raises(DockerfileError, match="unterminated"):
        parse("FROM a\nRUN <<EOF\nx\n")


def test_an_unknown_instruction_is_an_error_with_its_line():
    with pytest.raises(DockerfileError, match="line 2"):
        parse("FROM a\nRUNN x\n")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("$A", "1"),
        ("${A}", "1"),
        ("x-${A}-y", "x-1-y"),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY-d}", ""),
        ("${A:+yes}", "yes"),
        ("${NONE:+yes}", ""),
        ("${NONE:-${A}}", "1"),
        ("'$A'", "$A"),
        ('"$A b"', "1 b"),
        (r"\$A", "$A"),
        ("$NONE", None),
        ("a\\ b", "a b"),
    ],
)
def test_variables_are_filled_in_as_docker_does(raw, value):
    assert expand(raw, {"A": "1", "EMPTY": ""}) == value


def test_env_in_both_forms():
    text = 'FROM a\nENV A=1 B="two words"\nENV OLD form of it\n'
    _, new, old = parse(text)
    assert assignments(new) == [("A", "1"), ("B", '"two words"')]
    assert assignments(old) == [("OLD", "form of it")]
