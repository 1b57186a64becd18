"""Any bytes from a registry, an image or a container end in values or in a named error, never in a traceback."""

import contextlib
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.clients.registry.auth import parse_challenge
from envcheck.clients.registry.errors import RegistryError, said, shown
from envcheck.clients.registry.manifest import choose, env_of, parse_config, parse_manifest
from envcheck.model.image import FoundFile, ImageConfig, LayerReading
from envcheck.model.reference import find_reference
from envcheck.readers.image_config import read_image
from envcheck.readers.image_files import add_files
from envcheck.rules.requirement import Device, collect, evaluate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["schemaVersion", "manifests", "config", "layers", "digest", "platform", "architecture", "os", "Env", "history"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
NAMES = st.sampled_from(
    ["CUDA_VERSION", "PYTORCH_VERSION", "NV_CUDNN_VERSION", "NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_X", "TRT_VERSION",
     "NV_CUDA_COMPAT_PACKAGE", "CUDA_DRIVER_VERSION", "TORCH_CUDA_ARCH_LIST", "PYTHON_VERSION", "NVIDIA_PRODUCT_NAME"]
)  # fmt: skip


@given(JSON | st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_manifests_and_configs(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    with contextlib.suppress(RegistryError):
        manifest = parse_manifest(data, "r")
        choose(manifest.manifests or [], "x86_64")
    with contextlib.suppress(RegistryError):
        env_of(parse_config(data, "r"))


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_headers_references_and_words(text):
    parse_challenge(text)
    parse_challenge(f"Bearer {text}")
    find_reference(text)
    assert "\x1b" not in said(f'{{"message": "{text}"}}'.encode())
    shown(text)


@given(st.dictionaries(NAMES, st.text(max_size=40), max_size=6), st.lists(st.text(max_size=60), max_size=3))
@settings(max_examples=300, deadline=None)
def test_environments_and_histories(env, history):
    snap = read_image(ImageConfig("a/b:c", "registry r", env=env, history=tuple(history), labels=env, arch="amd64"))
    assert snap.stack.env.get() == env
    evaluate(collect(env), [Device("12.2", "535.54", "8.0", ("tesla",))], "c")
    evaluate(collect(env), [Device("12.2", "535.54", "8.0", ("tesla",))], "go")


PATHS = st.sampled_from(
    ["/x/torch-1.dist-info/METADATA", "/x/torch/version.py", "/etc/os-release", "/var/lib/dpkg/status",
     "/usr/local/cuda-12.4/version.json", "/opt/conda/conda-meta/pytorch-2.1.0-py3.10_cuda12.1_0.json"]
)  # fmt: skip


@given(st.lists(st.tuples(PATHS, st.binary(max_size=120)), max_size=4), st.lists(PATHS, max_size=3), st.booleans())
@settings(max_examples=300, deadline=None)
def test_files_of_layers(files, names, whole):
    reading = LayerReading(tuple(FoundFile(path, data) for path, data in files), tuple(names), whole)
    snap = add_files(read_image(ImageConfig("a/b:c", "registry r")), reading, "layers")
    assert snap.stack.complete.get() in (True, False)
