"""Names the libraries whose choice is worth a report."""

from __future__ import annotations

# The libraries whose choice decides whether and how well CUDA code runs.
_DECIDING = frozenset(
    [
        "libcuda",
        "libcudart",
        "libcublas",
        "libcublasLt",
        "libcudnn",
        "libcufft",
        "libcufftw",
        "libcurand",
        "libcusolver",
        "libcusolverMg",
        "libcusparse",
        "libcusparseLt",
        "libnvJitLink",
        "libnvrtc",
        "libnvrtc-builtins",
        "libnvToolsExt",
        "libcupti",
        "libnccl",
        "libnvshmem_host",
        "libnvidia-ml",
        "libnvinfer",
        "libcudla",
        "libcufile",
        "libstdc++",
        "libgomp",
        "libgcc_s",
    ]
)
_FAMILIES = ("libcudnn_", "libnvinfer_")


def decides(name: str) -> bool:
    """Is this one of the libraries that are reported?"""
    stem, found, version = name.rpartition("/")[2].partition(".so")
    if not found or (version and (version[0] != "." or not version[1:].replace(".", "").isdigit())):
        return False
    stem = stem.removesuffix(".alt")
    return stem in _DECIDING or (stem.startswith(_FAMILIES) and "." not in stem)
