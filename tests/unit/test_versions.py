import pytest
from packaging.version import InvalidVersion

from envcheck import versions


@pytest.mark.parametrize(
    ("number", "text"), [(12020, "12.2"), (11000, "11.0"), (10020, "10.2"), (13000, "13.0"), (12080, "12.8")]
)
def test_a_packed_cuda_number_is_a_cuda_version(number, text):
    assert versions.cuda_from_integer(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(8902, "8.9.2"), (7605, "7.6.5"), (90100, "9.1.0"), (91900, "9.19.0"), (8907, "8.9.7")]
)
def test_a_packed_cudnn_number_has_four_or_five_digits(number, text):
    assert versions.cudnn_from_integer(number) == text


@pytest.mark.parametrize(("number", "text"), [(2708, "2.7.8"), (21805, "2.18.5"), (22703, "2.27.3")])
def test_a_packed_nccl_number_has_four_or_five_digits(number, text):
    assert versions.nccl_from_integer(number) == text


@pytest.mark.parametrize(
    ("tag", "cuda"),
    [("cu121", "12.1"), ("cu92", "9.2"), ("cu130", "13.0"), ("cu102", "10.2"), ("cpu", None), ("cu1", None)],
)
def test_a_wheel_tag_names_a_cuda(tag, cuda):
    assert versions.cuda_from_tag(tag) == cuda


@pytest.mark.parametrize("cuda", ["9.2", "10.2", "11.8", "12.1", "13.0"])
def test_tag_and_cuda_are_inverse(cuda):
    assert versions.cuda_from_tag(versions.tag_from_cuda(cuda)) == cuda


@pytest.mark.parametrize(
    ("version", "variant"),
    [
        ("2.5.1+cu124", "cu124"),
        ("2.1.0+cpu", "cpu"),
        ("2.6.0+rocm6.2.4", "rocm6.2.4"),
        ("2.1.0", None),
        ("2.0.0+cpu.cxx11.abi", "cpu"),
        ("0.3.25+cuda11.cudnn82", None),
        (None, None),
    ],
)
def test_the_local_part_names_the_build(version, variant):
    assert versions.local_variant(version) == variant


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("9.0", (9, 0)),
        ("sm_90a", (9, 0)),
        ("compute_120", (12, 0)),
        ("86", (8, 6)),
        ("12.0+PTX", (12, 0)),
        ("10.3f", (10, 3)),
    ],
)
def test_a_capability_is_read_in_every_spelling(text, pair):
    assert versions.capability(text) == pair


@pytest.mark.parametrize("text", ["", "9", "sm_", "gfx90a", "9.0.1", "sm_90x"])
def test_what_is_no_capability_is_refused(text):
    with pytest.raises(ValueError, match="capability"):
        versions.capability(text)


def test_a_version_with_a_line_break_is_refused_because_it_could_carry_an_instruction():
    with pytest.raises(InvalidVersion):
        versions.parse("2.1.0\n")


def test_drivers_are_ordered_by_number_not_by_letter():
    assert versions.parse("450.80.02") < versions.parse("450.119.03") < versions.parse("1000.1")


def test_a_lenient_read_finds_the_leading_number():
    assert str(versions.find("9 (major only)")) == "9"
    assert versions.find("unknown") is None
