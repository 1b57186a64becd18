"""Builds, companions, pins, images and machines by name and version."""

import pytest

from envcheck.errors import UnknownName


def test_the_local_part_of_a_version_picks_the_build(matrix):
    assert matrix.build("torch", "2.5.1+cu121").cuda == "12.1"
    assert matrix.build("jaxlib", "0.4.25+cuda12.cudnn89").cudnn == "8.9"


def test_without_one_it_is_what_the_default_index_gives_on_the_platform(matrix):
    assert matrix.build("torch", "2.5.1").variant == "cu124"
    assert matrix.build("torch", "2.5.1", platform="windows").variant == "cpu"
    assert matrix.build("torch", "2.5.1", platform="linux-aarch64").variant == "cpu"
    assert matrix.build("torch", "2.12.1", platform="linux-aarch64").variant == "cu130"
    assert matrix.build("tensorflow", "2.15.0", platform="linux-aarch64").accelerator == "cpu"


@pytest.mark.parametrize("version", ["2.5.1+cu999", "9.9", "", "not a version", "2.5.1+cpu+cpu"])
def test_an_unknown_build_is_none(matrix, version):
    assert matrix.build("torch", version) is None


@pytest.mark.parametrize(
    ("package", "version", "variant", "words"),
    [("trch", "2.1", None, "torch"), ("torch", "2.1.9", None, "2.1"), ("torch", "2.5.1", "cu125", "cu12")],
)
def test_an_unknown_name_is_refused_with_the_nearest(matrix, package, version, variant, words):
    with pytest.raises(UnknownName) as refused:
        matrix.get_build(package, version, variant)
    assert words in f"{refused.value} {refused.value.what_to_do}"


def test_leading_parts_of_a_version_select_its_releases_newest_first(matrix):
    assert [row.version for row in matrix.builds_of("torch", "2.1", "cu121")] == ["2.1.2", "2.1.1", "2.1.0"]
    assert {row.version for row in matrix.builds_of("torch", "2.10")} == {"2.10.0"}


def test_names_are_found_in_any_spelling(matrix):
    assert matrix.builds_of("Flash_Attn") == matrix.builds_of("flash-attn") != ()


@pytest.mark.parametrize(
    ("version", "python", "supported"),
    [("2.1.2", "3.11", True), ("2.1.2", "3.12", False), ("2.1.2", "3.11.9", True), ("2.15.0", "3.10", False)],
)
def test_a_build_supports_the_pythons_that_have_wheels(matrix, version, python, supported):
    assert matrix.supports_python(matrix.build("torch", version), python) is supported


def test_the_newest_build_for_an_old_gpu_and_an_old_driver(matrix):
    found = matrix.newest_build("torch", capabilities=["7.0"], driver="535.54.03", python="3.11")
    assert found.capabilities is not None
    assert "7.0" in found.capabilities
    assert found.cuda.startswith("12.")


def test_the_newest_build_for_two_gpus_has_code_for_both(matrix):
    found = matrix.newest_build("torch", capabilities=["7.5", "12.0"])
    assert matrix.kernels(found.capabilities, "7.5")
    assert matrix.kernels(found.capabilities, "12.0")


def test_no_build_is_better_than_a_wrong_one(matrix):
    assert matrix.newest_build("torch", capabilities=["12.0"], driver="470.57.02") is None
    assert matrix.newest_build("torch", version="2.1", cuda="12.4") is None


def test_companions_belong_to_a_release(matrix):
    assert matrix.companion_for("torchvision", "2.5.1").version == "0.20.1"
    assert matrix.companion_for("torchaudio", "2.1.0+cu118").version == "2.1.0"
    assert matrix.companion_for("torchvision", "9.9") is None


def test_a_companion_with_a_range_is_the_one_that_came_out_with_the_framework(matrix):
    assert matrix.companion_for("torchvision", "2.14.1").version == "0.29.1"
    assert matrix.companion_for("torchvision", "2.15.0").version == "0.29.2"
    assert matrix.companion_for("vllm", "2.12.1") is None  # old ranges admit it; nobody has tried it


def test_a_yanked_companion_is_never_proposed(matrix):
    assert matrix.companion_for("torchvision", "2.0.0").version == "0.15.1"


def test_pins_of_the_default_wheel(matrix):
    pins = {pin.package: pin.pinned for pin in matrix.pins_of("torch", "2.5.1+cu124")}
    assert pins["nvidia-cudnn-cu12"] == "9.1.0.70"
    assert pins["triton"] == "3.1.0"


@pytest.mark.parametrize(
    "reference",
    [
        "nvcr.io/nvidia/pytorch:23.07-py3",
        "nvidia/pytorch:23.07-py3",
        "pytorch:23.07",
        "nvcr.io/nvidia/pytorch:23.07-py3@sha256:0",
    ],
)
def test_an_image_is_found_in_any_spelling(matrix, reference):
    assert matrix.image(reference).cuda == "12.1.1"


def test_images_for_a_framework_are_newest_first(matrix):
    months = [row.reference.rpartition(":")[2][:5] for row in matrix.framework_images("torch")]
    assert months == sorted(months, reverse=True)
    assert matrix.framework_images("nemo")[0].packages["torch"].startswith("2.12")


def test_a_cuda_image_by_tag_or_reference(matrix):
    assert matrix.cuda_image("nvcr.io/nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04").cudnn == "9.1.0.70"
    assert matrix.cuda_image("12.4.1-nonsense") is None


def test_a_cloud_machine_by_provider_and_name(matrix):
    found = matrix.instance("aws:p4d.24xlarge")
    assert (found.count, matrix.find_gpu(found.model).capability) == (8, "8.0")
    with pytest.raises(UnknownName, match="p4d"):
        matrix.get_instance("aws:p4d.25xlarge")


def test_a_cause_has_a_meaning(matrix):
    assert "kernel module" in matrix.meaning("driver-not-loaded")
    assert matrix.meaning("no-such-cause") == ""
