"""No input breaks a reader: fuzzed text, cut reports, bombs, long lines, strange encodings; always in bounded time."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envcheck.errors import InspectError
from envcheck.readers.detect import READERS, read_report
from envcheck.readers.draft import Draft
from envcheck.readers.lines import clean, numbered
from tests.unit.readers.test_cases import CASES

PASTES = [case.with_suffix(".txt").read_text(encoding="utf-8") for case in CASES]
FRAGMENTS = sorted({line for paste in PASTES for line in paste.splitlines()})
LINES = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=80)), max_size=12).map("\n".join)


@st.composite
def damaged(draw):
    """A line of a real paste with a piece cut out and another put in."""
    text = draw(st.sampled_from(FRAGMENTS))
    at = draw(st.integers(0, len(text)))
    width = draw(st.integers(0, 10))
    return text[:at] + draw(st.text(max_size=6)) + text[at + width :]


def _answer(text, matrix):
    """The readers that found something, or what the refusal says to do; an empty answer is none."""
    try:
        snap = read_report(text, name="x", symptoms=matrix.symptoms)
    except InspectError as refusal:
        return refusal.what_to_do
    return snap.origin.readers or snap.events


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__.rpartition(".")[2])
@given(text=st.one_of(LINES, st.lists(damaged(), max_size=6).map("\n".join)))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_reader_takes_any_text(reader, text):
    text = clean(text)
    draft = Draft()
    reader.recognises(text)
    reader.read(numbered(text), draft)
    draft.snapshot("x", ())


@given(paste=st.sampled_from(PASTES), cut=st.tuples(st.integers(0, 400), st.integers(0, 400)))
@settings(max_examples=80, deadline=None)
def test_a_paste_may_be_cut_anywhere(paste, cut, matrix):
    begin, length = cut
    answer = _answer(paste[begin : begin + length], matrix)
    assert answer


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000_000,
        "CUDA error: " * 800_000,
        "a 1.0\n" * 1_600_000,
        "GPU 0: " * 1_500_000,
        ("|   0  NVIDIA A100          On  | 00000000:07:00.0 Off |                    0 |\n") * 130_000,
        "undefined symbol: _ZN" + "a" * 9_000_000,
        "NVRM: Xid (PCI:0000:01:00): 79\n" * 300_000,
        "\x00" * 5_000_000 + "nvidia-smi",
        " " * 10_000_000,
        "\x1b[" * 4_000_000,
        "torch==" * 1_400_000,
        "{" * 5_000_000,
        '{"schema": ' + "[" * 2_000_000,
    ],
    ids=range(13),
)
def test_ten_megabytes_get_a_clear_answer_in_seconds(text, matrix):
    began = time.process_time()
    assert _answer(text, matrix)
    assert (
        time.process_time() - began < 20
    )  # seconds of CPU; about one where nothing traces it: what is meant is not quadratic


def test_xml_with_entities_is_refused(matrix):
    bomb = (
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]>\n<nvidia_smi_log><driver_version>&a;</driver_version></nvidia_smi_log>'
    )
    try:
        snap = read_report(bomb, name="x", symptoms=matrix.symptoms)
    except InspectError:
        return
    assert not snap.machine.driver.known


def test_unknown_text_is_told_what_was_tried_and_what_to_paste(matrix):
    with pytest.raises(InspectError) as caught:
        read_report("dear diary, today it rained", name="diary.txt", symptoms=matrix.symptoms)
    assert "nvidia-smi" in str(caught.value)
    assert "collect_env" in caught.value.what_to_do


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n"])
def test_line_ends_colours_and_marks_change_nothing(ends, matrix):
    plain = "$ pip list\ntorch    2.5.1+cu124\nNVIDIA-SMI 570.86.10    Driver Version: 570.86.10    CUDA Version: 12.8"
    dressed = "\ufeff" + "\x1b[31m" + plain.replace("\n", "\x1b[0m" + ends + "\x00")
    want = read_report(plain, name="x", symptoms=matrix.symptoms)
    assert read_report(dressed, name="x", symptoms=matrix.symptoms) == want
    assert want.machine.driver.source == "line 3"
