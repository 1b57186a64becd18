"""What a stack will be: images by reference, ranges by the matrix, what pinned companions bring along."""

import pytest

from envcheck.expected import complete, expected_image
from envcheck.model.snapshot import Snapshot
from envcheck.readers.files import FileOptions, read_file


def completed(text, matrix, name="requirements.txt", kind="requirements", **options):
    (snap,) = read_file(text, name=name, kind=kind, options=FileOptions(**options))
    return complete(snap, matrix)


def packages(snap):
    return {p.name: p for p in snap.stack.packages.get()}


def test_an_ngc_image_by_its_row(matrix):
    stack = expected_image("nvcr.io/nvidia/pytorch:24.05-py3", matrix)
    torch = next(p for p in stack.packages.get() if p.name == "torch")
    assert torch.version.startswith("2.4.0a0")
    assert torch.channel == "ngc"
    assert stack.cuda.get().startswith("12.4")
    assert "matrices" in torch.source


def test_a_private_image_of_the_same_name_is_not_nvidias(matrix):
    assert expected_image("registry.corp/team/pytorch:24.05-py3", matrix) is None


def test_a_mirror_of_nvidias_image_is(matrix):
    assert expected_image("mirror.corp/nvidia/pytorch:24.05-py3", matrix) is not None


def test_a_cuda_image_brings_its_exact_requirement(matrix):
    stack = expected_image("nvidia/cuda:12.4.1-base-ubuntu22.04", matrix)
    assert stack.env.get()["NVIDIA_REQUIRE_CUDA"].startswith("cuda>=12.4 brand=tesla,driver>=470")
    arm = expected_image("nvidia/cuda:12.2.2-base-ubuntu22.04", matrix, "aarch64")
    assert " " not in arm.env.get().get("NVIDIA_REQUIRE_CUDA", "")


def test_devel_has_a_toolkit_and_runtime_has_none(matrix):
    assert expected_image("nvidia/cuda:12.4.1-devel-ubuntu22.04", matrix).toolkits.get()[0].version == "12.4"
    assert expected_image("nvidia/cuda:12.4.1-runtime-ubuntu22.04", matrix).toolkits.get() == ()


def test_an_unknown_image_is_unknown(matrix):
    assert expected_image("example.com/what/ever:1", matrix) is None
    assert expected_image("nvcr.io/nvidia/pytorch:99.99-py3", matrix) is None


def test_python_and_glibc_of_a_public_image(matrix):
    snap = completed(
        "FROM python:3.11-slim-bookworm\nRUN pip install torch==2.4.0\n", matrix, "Dockerfile", "dockerfile"
    )
    assert snap.stack.python.get().version == "3.11"
    assert snap.stack.glibc.get() == "2.36"


def test_the_distributions_python_where_it_is_installed(matrix):
    text = (
        "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nRUN apt-get install -y python3-pip\nRUN pip install torch==2.4.0\n"
    )
    assert completed(text, matrix, "Dockerfile", "dockerfile").stack.python.get().version == "3.10"


def test_a_range_is_the_newest_release_that_fits(matrix):
    torch = packages(completed("torch<2.5\n", matrix))["torch"]
    assert torch.version.startswith("2.4")
    assert not torch.pinned
    assert torch.requirement == "torch<2.5"


def test_a_pinned_companion_binds_the_framework(matrix):
    found = packages(completed("torch\ntorchvision==0.16.0\n", matrix))
    assert found["torch"].version == "2.1.0"


def test_a_pinned_companion_alone_brings_the_framework(matrix):
    torch = packages(completed("torchvision==0.16.0\n", matrix))["torch"]
    assert (torch.version, torch.pinned) == ("2.1.0", False)
    assert torch.source == "requirements.txt:1"


def test_the_default_index_gives_its_build(matrix):
    torch = packages(completed("torch==2.1.0\n", matrix))["torch"]
    assert (torch.variant, torch.cuda) == ("cu121", "12.1")


def test_the_default_index_on_arm_gives_the_cpu_build(matrix):
    text = "FROM --platform=linux/arm64 python:3.11\nRUN pip install torch==2.4.0\n"
    assert packages(completed(text, matrix, "Dockerfile", "dockerfile"))["torch"].variant == "cpu"


def test_what_apt_adds_is_not_known_to_be_absent(matrix):
    text = "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nRUN apt-get install -y libcudnn9-cuda-12 cuda-toolkit-12-4\n"
    snap = completed(text, matrix, "Dockerfile", "dockerfile")
    assert not snap.stack.cudnn.known
    assert not snap.stack.toolkits.known


def test_a_package_that_the_matrix_does_not_know_stays_open(matrix):
    assert packages(completed("no-such-thing>=1\ntorch==2.1.0\n", matrix))["no-such-thing"].version is None


@pytest.mark.parametrize("text", ["torch>99\n", "torch===abc\n", "torch==2.1.0,!=2.1.0\n"])
def test_a_range_without_a_release_stays_open(matrix, text):
    assert packages(completed(text, matrix))["torch"].version in (None, "2.1.0")


def test_an_empty_snapshot_is_left_alone(matrix):
    assert complete(Snapshot(), matrix) == Snapshot()
