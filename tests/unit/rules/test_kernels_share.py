"""How much of a library must have code for a GPU: counts as measured on real wheels."""

import pytest

from envcheck.model.stack import Binary
from envcheck.rules.kernels import measured

# libtorch_cuda.so of torch 2.14.1+cu130; libonnxruntime_providers_cuda.so of onnxruntime-gpu 1.31.1 (less its tail)
TORCH = Binary(
    "libtorch_cuda.so",
    "torch",
    475,
    mixes={
        "7.5 8.0 8.6 9.0 10.0 12.0": 414,
        "7.5 8.0 8.6 9.0 10.0 10.0a 10.3f 12.0": 58,
        "7.5 8.0 8.6 8.9 9.0 9.0a 10.0 10.0a 10.3f 12.0 12.0a 12.1a": 1,
        "7.5 8.0 8.6 9.0 9.0a 10.0 12.0": 2,
    },
)
ORT = Binary("ort.so", "ort", 609, mixes={"7.5 8.0 8.6 8.9 9.0a 12.0a": 217, "8.0 8.6 8.9 9.0a 12.0a": 91, "9.0a": 301})


@pytest.mark.parametrize(
    ("library", "capability", "how"),
    [
        (TORCH, "7.0", "none"),
        (TORCH, "7.5", "sass"),
        (TORCH, "8.9", "sass"),
        (TORCH, "10.3", "sass"),
        (TORCH, "12.1", "sass"),
        (TORCH, "6.1", "none"),
        (ORT, "7.5", "sass"),  # the rest is for features that this generation doesn't have
        (ORT, "9.0", "sass"),
        (ORT, "10.0", "none"),
        (ORT, "12.0", "sass"),
        (ORT, "12.1", "none"),  # 'a' code runs on exactly its own
    ],
)
def test_a_gpu_runs_a_library_that_has_code_for_most_of_what_is_meant_for_it(matrix, library, capability, how):
    assert measured(matrix, library, capability).how == how


def test_a_few_extra_kernels_for_an_old_gpu_are_no_support(matrix):
    library = Binary("x.so", "x", 475, mixes={"8.0 9.0": 466, "7.5 8.0 9.0": 9})
    assert measured(matrix, library, "7.5").how == "none"


def test_ptx_that_the_gpu_can_compile_is_jit(matrix):
    library = Binary("x.so", "x", 10, mixes={"8.0 9.0 9.0+PTX": 10})
    assert measured(matrix, library, "12.0").how == "ptx"
