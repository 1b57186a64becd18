"""The NVIDIA_REQUIRE_* grammar, as C and Go read it; the strings are those of real images."""

import pytest

from envcheck.rules.requirement import Device, Requirement, collect, device_brands, evaluate, evaluate_one, is_disabled

CUDA_124 = (
    "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 "
    "brand=geforce,driver>=470,driver<471 brand=tesla,driver>=535,driver<536"
)


def met(text, dialect="c", **device):
    return evaluate_one(Requirement("NVIDIA_REQUIRE_CUDA", text), Device(**device), dialect).met


def test_one_alternative_is_enough():
    assert met(CUDA_124, cuda="12.2", driver="535.183.01", brands=("tesla",)) is True


def test_all_factors_of_an_alternative_must_hold():
    assert met(CUDA_124, cuda="12.2", driver="535.183.01", brands=("geforce",)) is False


def test_the_branch_after_the_range_is_outside_it():
    assert met(CUDA_124, cuda="12.2", driver="536.10", brands=("tesla",)) is False


def test_470_and_470_0_0_are_one_version():
    assert met("driver>=470", driver="470.0") is True
    assert met("driver=470.0.0", driver="470") is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda>=12.2", True),
        ("cuda>12.2", False),
        ("cuda<=12.2", True),
        ("cuda<12.2", False),
        ("cuda=12.2", True),
        ("cuda!=12.2", False),
        ("cuda>=9.0", True),
        ("cuda>=12.10", False),
    ],
)
def test_every_operator(text, expected):
    assert met(text, cuda="12.2") is expected


def test_arch_is_the_capability():
    assert met("arch>=7.0", arch="7.5") is True
    assert met("arch>=7.0,arch<7.5", arch="7.5") is False


def test_brands_compare_without_case_in_c_and_with_case_in_go():
    assert met("brand=Tesla", "c", brands=("tesla",)) is True
    assert met("brand=Tesla", "go", brands=("tesla",)) is False


def test_upper_case_property_holds_in_c_and_is_skipped_in_go():
    assert met("CUDA>=12.3", "c", cuda="12.2") is False
    assert met("CUDA>=12.3", "go", cuda="12.2") is True


def test_an_unknown_property_is_refused_by_c_and_skipped_by_go():
    verdict = evaluate_one(Requirement("NVIDIA_REQUIRE_X", "colour=red"), Device(), "c")
    assert (verdict.met, verdict.invalid) == (False, "colour=red")
    assert met("colour=red", "go") is True


def test_a_factor_without_operator_is_invalid():
    assert evaluate_one(Requirement("NVIDIA_REQUIRE_X", "cuda"), Device(cuda="12.2")).invalid == "cuda"


def test_a_double_equals_sign_is_no_version():
    assert evaluate_one(Requirement("NVIDIA_REQUIRE_X", "cuda==12.2"), Device(cuda="12.2")).invalid == "cuda==12.2"


def test_an_alternative_that_holds_hides_an_invalid_one_after_it():
    assert met("cuda>=11.0 nonsense", cuda="12.2") is True


def test_empty_alternatives_and_factors_are_left_out():
    assert met("  cuda>=11.0,  ", cuda="12.2") is True
    assert met(" , ", cuda="12.2") is True


def test_an_unknown_driver_is_a_question_not_an_answer():
    verdict = evaluate_one(Requirement("NVIDIA_REQUIRE_CUDA", CUDA_124), Device(cuda="12.2", brands=("tesla",)))
    assert verdict.met is None
    assert verdict.missing == ("driver",)


def test_an_unknown_brand_matters_only_in_an_exempt_branch():
    assert met(CUDA_124, cuda="12.2", driver="525.60") is False
    assert met(CUDA_124, cuda="12.2", driver="535.60") is None
    assert met(CUDA_124, cuda="12.4", driver="550.54") is True


def test_a_product_of_two_possible_brands_is_certain_where_both_are_listed():
    text = "cuda>=12.4 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536"
    assert met(text, cuda="12.2", driver="535.54", brands=("nvidia", "tesla")) is True
    assert met("brand=tesla,driver>=535", cuda="12.2", driver="535.54", brands=("nvidia", "tesla")) is None


def test_every_gpu_must_satisfy():
    requirements = (Requirement("NVIDIA_REQUIRE_CUDA", CUDA_124),)
    tesla = Device(cuda="12.2", driver="535.60", brands=("tesla",))
    geforce = Device(cuda="12.2", driver="535.60", brands=("geforce",))
    assert evaluate(requirements, [tesla, tesla]).met is True
    assert evaluate(requirements, [tesla, geforce]).met is False


def test_every_variable_must_hold():
    env = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.0", "NVIDIA_REQUIRE_OURS": "arch>=8.0"}
    assert evaluate(collect(env), [Device(cuda="12.2", arch="7.5")]).requirement.name == "NVIDIA_REQUIRE_OURS"


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "TRUE", "True"])
def test_disable_require_takes_what_go_calls_true(value):
    env = {"NVIDIA_DISABLE_REQUIRE": value, "NVIDIA_REQUIRE_CUDA": "cuda>=99"}
    assert is_disabled(env)
    assert collect(env) == ()


@pytest.mark.parametrize("value", ["", "0", "yes", "on"])
def test_disable_require_ignores_other_words(value):
    assert collect({"NVIDIA_DISABLE_REQUIRE": value, "NVIDIA_REQUIRE_CUDA": "cuda>=99"})


def test_a_legacy_image_requires_its_cuda_version():
    (only,) = collect({"CUDA_VERSION": "8.0.61"})
    assert (only.text, only.implied) == ("cuda>=8.0", True)


def test_an_empty_requirement_of_a_legacy_image_counts_as_none():
    assert collect({"CUDA_VERSION": "9.0.176", "NVIDIA_REQUIRE_CUDA": ""})[0].implied


def test_jetpack_mounts_are_no_requirement():
    assert collect({"NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS": "x"}) == ()


def test_every_published_requirement_is_valid(matrix):
    texts = {row.require for row in matrix.cuda_images if "=" in row.require and "|" not in row.require}
    device = Device(cuda="1.0", driver="1.0", arch="1.0", brands=("none",))
    for text in texts | {CUDA_124}:
        verdict = evaluate_one(Requirement("NVIDIA_REQUIRE_CUDA", text), device, "c")
        assert verdict.met is False
        assert not verdict.invalid, text


@pytest.mark.parametrize(
    ("name", "segment", "driver", "brands"),
    [
        ("NVIDIA GeForce RTX 4090", "consumer", "550.54", ("geforcertx", "geforce")),
        ("NVIDIA GeForce GTX 1080", "consumer", None, ("geforce",)),
        ("NVIDIA TITAN RTX", "consumer", None, ("titanrtx",)),
        ("Tesla V100-SXM2-16GB", "datacentre", "450.80.02", ("tesla",)),
        ("NVIDIA A100-SXM4-40GB", "datacentre", "535.54", ("nvidia", "tesla")),
        ("Quadro RTX 8000", "workstation", None, ("quadrortx",)),
        ("Mystery", None, None, None),
    ],
)
def test_brands_of_a_product(name, segment, driver, brands):
    assert device_brands(name, segment, driver) == brands
