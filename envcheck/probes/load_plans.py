"""Which files a framework opens when it is imported, and which it opens by name later: data, one row a framework."""

from __future__ import annotations

import re
from typing import NamedTuple

from envcheck.probes.tree import Tree


class LoadPlan(NamedTuple):
    """Paths are relative to the site folder; `{tag}` stands for the suffixes of compiled modules.

    `main` are the files whose device code decides whether the framework runs on a GPU; `more` has further device code.
    `opens` are opened at import in this order; `later` by path at first use; `by_name` are dlopened by `asker`.
    """

    packages: tuple[str, ...]
    main: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    preloads: str = ""  # the text file that lists what is loaded beforehand
    asker: str = ""
    by_name: bool = False  # it dlopens the CUDA libraries by their names (see NAMES)
    cuda: str = ""  # majors that the package's name tells, where its metadata doesn't
    cudnn: str = ""


PLANS: tuple[LoadPlan, ...] = (
    LoadPlan(
        packages=("torch",),
        main=("torch/lib/libtorch_cuda.so", "torch/lib/libtorch_cuda_cu.so"),
        more=("torch/lib/libtorch_cuda_linalg.so", "torch/lib/libtorch_cuda_cpp.so"),
        opens=("torch/lib/libtorch_global_deps.so", "torch/_C{tag}"),
        later=("torch/lib/libtorch_cuda_linalg.so",),
        preloads="torch/__init__.py",
    ),
    LoadPlan(
        packages=("tensorflow", "tensorflow-gpu", "tf-nightly"),
        main=("tensorflow/libtensorflow_cc.so.2", "tensorflow/python/_pywrap_tensorflow_internal.so"),
        opens=(
            "tensorflow/libtensorflow_framework.so.2",
            "tensorflow/libtensorflow_cc.so.2",
            "tensorflow/python/_pywrap_tensorflow_internal.so",
        ),
        asker="libtensorflow_cc.so.2",
        by_name=True,
    ),
    LoadPlan(
        packages=("onnxruntime-gpu", "onnxruntime-gpu-cu12", "onnxruntime"),
        main=("onnxruntime/capi/libonnxruntime_providers_cuda.so",),
        opens=("onnxruntime/capi/onnxruntime_pybind11_state{tag}",),
        later=("onnxruntime/capi/libonnxruntime_providers_cuda.so",),
    ),
    *(
        LoadPlan(
            packages=(f"jax-cuda{major}-pjrt", f"jax-cuda{major}-plugin"),
            more=(f"jax_plugins/xla_cuda{major}/xla_cuda_plugin.so",),
            opens=(f"jax_plugins/xla_cuda{major}/xla_cuda_plugin.so",),
            asker="xla_cuda_plugin.so",
            by_name=True,
            cuda=str(major),
            cudnn="9",
        )
        for major in (12, 13)
    ),
)

# What is dlopened by name for CUDA of this major; cuDNN goes by the framework's own cuDNN.
NAMES: dict[int, tuple[str, ...]] = {
    11: ("libcudart.so.11.0", "libcublas.so.11", "libcublasLt.so.11", "libcufft.so.10", "libcusparse.so.11"),
    12: ("libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11", "libcusparse.so.12"),
    13: ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcufft.so.12", "libcusparse.so.12"),
}

# cuDNN opens its parts by name, by major; the search begins at libcudnn's own RPATH.
CUDNN_PARTS: dict[str, tuple[str, ...]] = {
    "7": (),
    "8": ("ops_infer", "ops_train", "cnn_infer", "cnn_train", "adv_infer", "adv_train"),
    "9": (
        "graph",
        "ops",
        "cnn",
        "adv",
        "heuristic",
        "engines_precompiled",
        "engines_runtime_compiled",
        "engines_tensor_ir",
        "ext",
    ),
}

# Symbols of these name spaces (and C functions) can only come from the framework's own libraries.
FRAMEWORK_LIBRARIES = (
    "libc10.so",
    "libtorch_cpu.so",
    "libtorch_python.so",
    "libtorch_cuda.so",
    "libc10_cuda.so",
    "libtorch.so",
)
FRAMEWORK_SYMBOL = re.compile(
    r"_Z(?:T[IVST]|GV|N)?N?[KVrRO]*(?:3c10|2at|5torch|6caffe2|4c10d)|aoti_torch_|torch_|THP[A-Z]"
)

_PAIR = re.compile(r"""['"](\w+)['"]\s*[:,]\s*['"](lib[\w.-]+\.so\.\*\[0-9\])['"]""")
_SINGLE = re.compile(r"""_preload_cuda_lib\(\s*['"](\w+)['"]\s*,\s*['"](lib[\w.-]+\.so\.\*\[0-9\])['"]""")
_GUARD = re.compile(r"""if\s+['"]([^'"]+)['"]\s+not in _maps""")


class Preloads(NamedTuple):
    """(folder, file pattern) pairs: `always` are loaded after the first file, if all `guards` are among what is loaded;
    `on_failure` when the first file could not be opened. `strict`: the first pair that isn't there ends `always`.
    `by_major`: they are also looked for in nvidia/cu<major>/lib.
    """

    guards: tuple[str, ...] = ()
    always: tuple[tuple[str, str], ...] = ()
    on_failure: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    by_major: bool = False


def read_preloads(tree: Tree, path: str) -> Preloads:
    """The preload lists in the framework's own text: they change from release to release."""
    text = tree.find_text(path, 1 << 20) or ""
    listing = text.partition("def _preload_cuda_deps")[2].partition("\ndef ")[0]
    pairs = tuple(_PAIR.findall(listing.partition("_preload_cuda_lib")[0]))
    body = text.partition("def _load_global_deps")[2].partition("except OSError")[0]
    tried = body.partition("_maps")[2]
    by_major = "cu{maj" in text
    if not tried:
        return Preloads(on_failure=pairs, by_major=by_major)
    always = pairs if "_preload_cuda_deps(" in tried else tuple(_SINGLE.findall(tried))
    strict = "required=False" not in tried
    return Preloads(tuple(_GUARD.findall(body)), always, pairs, strict, by_major)
