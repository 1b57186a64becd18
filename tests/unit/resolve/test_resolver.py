"""Requests resolve to the plan that a person would make; impossible ones say why and what is near."""

import pytest

from envcheck.errors import UnknownName, Unsatisfiable, UsageError
from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine
from envcheck.model.request import Request
from envcheck.resolve.explain import Conflict
from envcheck.resolve.resolver import find_image, resolve


def machine(*gpus: str, driver: str = "") -> Machine:
    facts = {}
    if gpus:
        facts["gpus"] = known(tuple(Gpu(name=f"sm_{c.replace('.', '')}", capability=c) for c in gpus), "--gpu")
    if driver:
        facts["driver"] = known(Driver(driver), "--driver")
    return Machine(**facts)


def plan(matrix, version, cuda=None, framework="torch", **more):
    return resolve(Request(framework=framework, version=version, cuda=cuda, **more), matrix)


def conflict(matrix, version, cuda=None, framework="torch", **more) -> Conflict:
    with pytest.raises(Conflict) as refused:
        plan(matrix, version, cuda, framework, **more)
    return refused.value


def test_release_and_cuda_as_two_numbers_give_nvidias_newest_image_of_both(matrix):
    found = plan(matrix, "2.1", "12.1")
    assert found.image == "nvcr.io/nvidia/pytorch:23.07-py3"
    assert found.version == "2.1.0a0+b5021ba"
    assert found.other == "release wheels instead: --torch 2.1.2"


def test_nvidias_image_by_wish_names_the_release_wheels_as_the_other_choice(matrix):
    assert plan(matrix, "2.1", "12.1", base="framework").other == "release wheels instead: --torch 2.1.2"
    assert plan(matrix, "2.1", "12.2", base="framework").other.startswith("there are no release wheels of torch 2.1")


def test_a_patch_release_gives_official_wheels_on_a_cuda_base(matrix):
    found = plan(matrix, "2.1.2", "12.1")
    assert found.image == "nvcr.io/nvidia/cuda:12.1.1-base-ubuntu22.04"
    assert found.pins == ("torch==2.1.2+cu121", "torchvision==0.16.2+cu121", "torchaudio==2.1.2+cu121")
    assert found.bounds == ("numpy<2",)
    assert (found.python.version, found.python.origin) == ("3.10", "apt")


def test_a_python_that_nvidias_image_lacks_gives_wheels_and_says_why(matrix):
    found = plan(matrix, "2.1", "12.1", python="3.11")
    assert found.kind == "cuda"
    assert found.python.origin == "uv"
    assert found.python.version.startswith("3.11.")
    assert "doesn't fit Python 3.11" in found.choices[0].why


def test_a_cuda_that_the_release_was_never_built_for_offers_both_ways(matrix):
    found = conflict(matrix, "2.1", "12.4")
    assert found.exit_code == 4
    assert [wish.kind for wish in found.wishes] == ["framework", "cuda"]
    assert [way.keep for way in found.ways] == ["torch 2.1", "CUDA 12.4"]
    assert found.ways[0].instead == ("CUDA 12.1 (--cuda 12.1)", "CUDA 11.8 (--cuda 11.8)")
    assert found.ways[1].instead == ("torch 2.4, 2.5, 2.6 (--torch 2.4 …)",)
    assert "12.1 and 11.8" in found.remark


def test_the_smallest_conflict_leaves_out_wishes_that_have_no_part_in_it(matrix):
    found = conflict(matrix, "2.1", "12.4", python="3.10", machine=machine("8.0", driver="550.54.14"))
    assert {wish.kind for wish in found.wishes} == {"framework", "cuda"}


def test_no_wish_of_the_smallest_conflict_can_be_left_out(matrix):
    found = conflict(matrix, "2.5", None, machine=machine("12.0"))
    assert {wish.kind for wish in found.wishes} == {"framework", "gpu"}
    assert plan(matrix, "2.5").version.startswith("2.5")
    assert plan(matrix, "", None, machine=machine("12.0"))
    assert any("torch 2.7" in text for way in found.ways for text in way.instead)


def test_a_driver_too_old_for_the_cuda_offers_an_older_cuda_and_a_newer_driver(matrix):
    found = conflict(matrix, "2.9", "13.0", machine=machine(driver="535"))
    assert {wish.kind for wish in found.wishes} == {"cuda", "driver"}
    ways = {way.keep: " ".join(way.instead) for way in found.ways}
    assert "driver 580" in ways["CUDA 13.0"]
    assert "CUDA 12.8" in ways["driver 535"]


def test_a_python_without_wheels_offers_those_that_have_them(matrix):
    found = conflict(matrix, "2.1", None, python="3.13")
    ways = {way.keep: " ".join(way.instead) for way in found.ways}
    assert "3.8, 3.9, 3.10, 3.11" in ways["torch 2.1"]
    assert "torch 2.5" in ways["Python 3.13"]


def test_a_way_that_another_wish_also_blocks_names_that_wish(matrix):
    found = conflict(matrix, "2.1", "12.4", python="3.13")
    assert found.ways[0].instead[-1] == "without Python 3.13"


def test_a_patch_release_on_nvidias_image_is_a_conflict(matrix):
    found = conflict(matrix, "2.1.2", "12.1", base="framework")
    assert "--base framework" in str(found)


def test_a_driver_chooses_the_newest_build_that_it_runs(matrix):
    found = plan(matrix, "2.9", None, machine=machine(driver="535.183.01"))
    assert found.variant in ("cu126", "cu128")


def test_a_gpu_chooses_a_build_with_code_for_it(matrix):
    found = plan(matrix, "2.7", None, machine=machine("12.0"))
    assert found.variant == "cu128"


def test_of_two_gpus_both_must_run(matrix):
    assert plan(matrix, "", None, machine=machine("5.2", "9.0"), framework="torch").variant
    with pytest.raises(Conflict):
        plan(matrix, "2.7", None, machine=machine("3.7", "12.0"))


def test_a_build_whose_kernels_are_unknown_is_not_offered_for_a_gpu(matrix):
    # torch 2.7.1+cu118: the list isn't on record, those of its siblings are
    assert plan(matrix, "", None, machine=machine("3.7")).version < "2.6"


def test_cuda_images_that_are_end_of_life_are_avoided_and_the_plan_says_so(matrix):
    found = plan(matrix, "1.12", "11.3")
    assert found.pins[0] == "torch==1.12.1+cu113"
    row = matrix.cuda_image(found.image)
    assert not row.status.startswith("unsupported")
    assert any("CUDA 11.3" in text and "end of life" in text for text in found.cautions)


def test_a_release_whose_wheels_take_cuda_from_the_system_gets_cudnn_in_the_base(matrix):
    found = plan(matrix, "2.8", "11.2", "tensorflow")
    assert found.image == "nvcr.io/nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04"
    assert found.pins == ("tensorflow==2.8.4",)
    assert "numpy<2" in found.bounds


def test_the_first_of_a_series_gets_the_bound_that_it_forgot(matrix):
    assert "protobuf<3.20" in plan(matrix, "2.8.0", "11.2", "tensorflow").bounds


def test_an_extra_with_wheels_that_fail_is_replaced_by_its_pins(matrix):
    found = plan(matrix, "2.14.1", None, "tensorflow")
    assert "nvidia-cudnn-cu11==8.7.0.84" in found.pins
    assert not any("tensorrt" in pin for pin in found.pins)


def test_plugins_run_on_any_cuda_of_their_major(matrix):
    found = plan(matrix, "0.4.35", "12.4", "jax")
    assert found.pins == ("jax[cuda12]==0.4.35",)
    assert found.image.startswith("nvcr.io/nvidia/cuda:12.4.1-base-")


def test_a_package_that_compiles_takes_the_devel_flavour(matrix):
    found = plan(matrix, "2.5.1", "12.4", packages=("flash-attn", "einops"))
    assert found.flavour == "devel"
    assert found.compiled == ("flash-attn",)
    assert found.packages == ("einops",)
    assert "python3-dev" in found.python.packages


def test_a_package_that_would_replace_a_pin_is_refused(matrix):
    with pytest.raises(Unsatisfiable, match=r"torch==2\.2\.0 contradicts"):
        plan(matrix, "2.1.2", "12.1", packages=("torch==2.2.0",))
    assert plan(matrix, "2.1.2", "12.1", packages=("torch>=2",))


def test_a_companion_without_a_wheel_for_the_python_is_left_out_and_named(matrix):
    found = plan(matrix, "1.13.1", "11.7", python="3.11")
    assert [pin.partition("==")[0] for pin in found.pins] == ["torch"]
    assert any(text.startswith("torchvision 0.14.1: no wheel for Python 3.11") for text in found.cautions)


def test_every_companion_of_a_plan_is_bound_to_its_release(matrix):
    for version in ("1.12.1", "2.0.1", "2.1.2", "2.4.1", "2.7.1", "2.10.0"):
        pins = dict(pin.split("+")[0].split("==") for pin in plan(matrix, version).pins)
        for name in ("torchvision", "torchaudio"):
            row = matrix.companion_for(name, version)
            assert pins[name] == row.version


@pytest.mark.parametrize(
    ("wishes", "kind"),
    [
        ({"framework": "pytorhc"}, "framework"),
        ({"framework": "torch", "version": "2.99"}, "release of torch"),
        ({"framework": "torch", "version": "2.1.9"}, "release of torch"),
        ({"framework": "torch", "version": "2.1", "cuda": "12.7"}, "CUDA release"),
        ({"framework": "torch", "version": "2.1", "cuda": "12.1.7"}, "CUDA release"),
        ({"framework": "torch", "version": "2.1", "python": "4.1"}, "Python"),
    ],
)
def test_a_name_that_the_matrix_does_not_have_is_a_usage_error(matrix, wishes, kind):
    with pytest.raises(UnknownName, match=f"no {kind} is called") as refused:
        resolve(Request(**wishes), matrix)
    assert refused.value.exit_code == 2


def test_flavours_of_nvidias_image_are_refused(matrix):
    with pytest.raises(UsageError):
        plan(matrix, "2.1", "12.1", base="framework", flavour="devel")


def datacentre(driver: str, name: str = "NVIDIA A100-SXM4-80GB") -> Machine:
    gpus = (Gpu(name=name, capability="8.0"),)
    return Machine(gpus=known(gpus, "--gpu"), driver=known(Driver(driver), "--driver"))


def test_a_branch_that_the_image_admits_runs_it_on_a_datacentre_gpu_and_the_plan_says_how(matrix):
    found = plan(matrix, "2.4", "12.4", machine=datacentre("470.256.02"))
    assert found.image == "nvcr.io/nvidia/pytorch:24.05-py3"
    assert "don't fit" in found.other
    assert any("cuda-compat" in text for text in found.cautions)


@pytest.mark.parametrize(
    "where", [datacentre("470.42.01"), datacentre("470.256.02", "NVIDIA GeForce RTX 3090"), datacentre("460.106.00")]
)
def test_an_older_driver_another_branch_or_a_consumer_gpu_does_not(matrix, where):
    with pytest.raises(Conflict):
        plan(matrix, "2.4", "12.4", machine=where)


def test_nvidias_image_of_the_same_wishes_is_found_for_a_plan_of_wheels(matrix):
    request = Request(framework="torch", version="2.1", cuda="12.1", base="cuda")
    assert find_image(request, matrix).image.reference == "nvcr.io/nvidia/pytorch:23.07-py3"


def test_lines_for_pip_uv_and_conda_name_the_same_releases(matrix):
    found = plan(matrix, "2.1.2", "12.1").commands
    packages = "torch==2.1.2 torchvision==0.16.2 torchaudio==2.1.2"
    index = "--index-url https://download.pytorch.org/whl/cu121"
    assert found.pip == f"pip install {packages} 'numpy<2' {index}"
    assert found.uv == f"uv {found.pip}"
    assert found.conda == (
        "conda install pytorch==2.1.2 torchvision==0.16.2 torchaudio==2.1.2 pytorch-cuda=12.1 -c pytorch -c nvidia"
    )


def test_the_stack_of_a_plan_is_what_rules_need(matrix):
    stack = plan(matrix, "2.1.2", "12.1").stack
    torch = stack.packages.get()[0]
    assert (torch.version, torch.cuda) == ("2.1.2+cu121", "12.1")
    assert stack.python.get().version == "3.10"
    assert stack.cuda.get() == "12.1.1"
    assert stack.complete.get() is False


def test_a_plan_has_a_source_for_every_choice(matrix):
    for wishes in (("2.1", "12.1"), ("2.1.2", "12.1"), ("1.12", "11.3")):
        assert all(choice.source for choice in plan(matrix, *wishes).choices)


def test_a_companion_that_admits_many_releases_is_taken_where_it_came_out_with_this_one(matrix):
    pins = plan(matrix, "2.15.0").pins
    assert [pin.partition("==")[0] for pin in pins] == ["torch", "torchvision", "torchaudio"]


def test_a_companion_of_another_time_is_left_out_and_named(matrix):
    found = plan(matrix, "2.13.0", "12.6")
    assert [pin.partition("==")[0] for pin in found.pins] == ["torch", "torchvision"]
    assert "torchaudio: no release is bound to torch 2.13.0" in found.cautions


def test_a_flavour_without_what_the_wheels_need_is_a_conflict(matrix):
    found = conflict(matrix, "2.8", None, "tensorflow", flavour="base")
    assert [wish.label for wish in found.wishes] == ["tensorflow 2.8", "--flavour base"]


def test_a_patch_release_of_cuda_picks_that_image_or_none(matrix):
    assert plan(matrix, "2.1.2", "12.1.0").image.startswith("nvcr.io/nvidia/cuda:12.1.0-base-")
    assert any("end of life" in text for text in plan(matrix, "2.1.2", "12.1.0").cautions)
    assert plan(matrix, "2.1.2", "12.1.1").image.startswith("nvcr.io/nvidia/cuda:12.1.1-base-")


def test_a_base_of_a_newer_cuda_is_not_put_on_an_older_driver(matrix):
    # CUDA 11.3's own images are end of life; 11.4's ask for 470 where the image's requirement is enforced
    assert "cuda:11.4" in plan(matrix, "1.12.1", "11.3").image
    assert "cuda:11.4" not in plan(matrix, "1.12.1", "11.3", machine=machine(driver="465.19.01")).image


def test_without_a_cuda_plugins_get_the_newest_image_with_ubuntus_own_python(matrix):
    found = plan(matrix, "0.8", "12", "jax")
    assert found.python.origin == "apt"
    assert found.cuda.startswith("12.")


def test_a_release_without_any_cuda_build_says_so_and_names_the_nearest(matrix):
    found = conflict(matrix, "0.4.37", None, "jax")
    assert "no CUDA build of jax 0.4.37" in str(found)
    assert found.ways


def test_a_gpu_newer_than_the_cuda_needs_a_driver_that_knows_it(matrix):
    blackwell = Machine(gpus=known((Gpu("NVIDIA GeForce RTX 5090", capability="12.0"),), "--gpu"))
    assert plan(matrix, "2.7.1", "12.8", machine=blackwell).runs_on.startswith("driver >= 570.26;")
    assert "525.60.13 by minor-version" in plan(matrix, "2.7.1", "12.8").runs_on
