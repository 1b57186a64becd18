"""The environment reports of DeepSpeed, transformers, accelerate, xFormers, TensorFlow and JAX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck import versions
from envcheck.model.machine import Gpu
from envcheck.model.stack import Package, Toolkit
from envcheck.readers.collect_env import platform
from envcheck.readers.draft import Draft, normal, short_cuda
from envcheck.readers.lines import Line

NAME = "tool report"
_DOTS = re.compile(
    r"^\s*(torch version|torch cuda version|torch hip version|nvcc version|deepspeed info|shared memory \(/dev/shm\) size) \.+ (.*)$"  # noqa: E501
)
_DASH = re.compile(r"^\s*[-*]\s*`?([A-Za-z][\w ()/.,?-]{1,60}?)`?\s*:\s*(.*)$")
_VERSION = re.compile(r"\d+(?:\.\d+)+(?:\.?(?:a|b|rc|post|dev)\d*)*(?:\+[\w.]+)?")
_XFORMERS = re.compile(
    r"^(pytorch\.version|pytorch\.cuda|gpu\.compute_capability|gpu\.name|build\.cuda_version|build\.torch_version"
    r"|build\.python_version|xFormers)\s*:?\s+(.+)$"
)
_TF_INFO = re.compile(
    r"^(?:tf|TensorFlow) (?:version|Version)\s*[:=]\s*v?(\S+)|^v\d+\.\d+\.\d+-\S+ (\d+\.\d+\.\d+)|^tensorflow==(\S+)$"
)
_JAX = re.compile(r"^(jax|jaxlib|numpy|python):\s+(\d[\w.+]*)")
_BUILD_INFO = re.compile(r"'(cuda_version|cudnn_version|is_cuda_build)': '?([\w.]+)'?")
_PACKAGES = {
    "pytorch version": "torch",
    "tensorflow version": "tensorflow",
    "jax version": "jax",
    "jaxlib version": "jaxlib",
    "transformers version": "transformers",
    "accelerate version": "accelerate",
    "accelerate": "accelerate",
    "numpy version": "numpy",
    "flax version": "flax",
    "deepspeed version": "deepspeed",
    "diffusers version": "diffusers",
    "xformers version": "xformers",
    "bitsandbytes version": "bitsandbytes",
    "peft version": "peft",
    "safetensors version": "safetensors",
    "tokenizers version": "tokenizers",
    "torch version": "torch",
}


def recognises(text: str) -> bool:
    """By the words of each."""
    return (
        "......" in text
        or "- `" in text
        or " version" in text
        or "xFormers" in text
        or "pytorch.version" in text
        or "jaxlib:" in text
        or "cuda_version" in text
        or "jax:" in text
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Line by line; each report's lines are told by their shape."""
    for line in lines:
        text = line.text
        if "...." in text and (dots := _DOTS.match(text)) is not None:
            _deepspeed(dots.group(1), dots.group(2).strip(), line.source, draft)
        elif text.lstrip()[:1] in "-*" and (dash := _DASH.match(text.replace("`", ""))) is not None:
            _dash(dash.group(1).strip().lower(), dash.group(2).strip(), line.source, draft)
        elif (info := _XFORMERS.match(text)) is not None:
            _xformers(info.group(1), info.group(2).strip(), line.source, draft)
        elif text[:3] in ("jax", "num") and (jax := _JAX.match(text)) is not None:
            draft.add_package(_package(jax.group(1), jax.group(2), line.source))
        elif "cuda_version" in text:
            _build_info(text, line.source, draft)
        elif text.startswith("DeepSpeed C++/CUDA extension op report"):
            draft.want(line.source, compile=True)  # its ops are compiled at run time
        elif (tf := _TF_INFO.match(text)) is not None:
            version = next(group for group in tf.groups() if group)
            if _VERSION.match(version):
                draft.add_package(_package("tensorflow", version, line.source))


def _package(name: str, version: str, source: str) -> Package:
    return Package(normal(name), version, versions.local_variant(version), source=source)


def _deepspeed(name: str, value: str, source: str, draft: Draft) -> None:
    version = _VERSION.search(value)
    if name.startswith("shared memory"):
        size = re.search(r"(\d+(?:\.\d+)?)\s*(GB|MB)", value)
        if size:
            draft.put(
                "machine", "shm_bytes", int(float(size.group(1)) * (2**30 if size.group(2) == "GB" else 2**20)), source
            )
    elif name == "torch cuda version":
        cuda = "" if value == "None" else short_cuda(version.group() if version else None)
        draft.add_package(Package("torch", variant="cpu" if cuda == "" else None, cuda=cuda, source=source))
    elif version is None:
        return
    elif name == "torch version":
        draft.add_package(_package("torch", version.group(), source))
    elif name == "torch hip version":
        draft.add_package(Package("torch", hip=version.group(), source=source))
    elif name == "nvcc version":
        draft.toolkits.append(Toolkit(version.group(), on_path=True, source=source))
        draft.facts += 1
    elif name == "deepspeed info":
        draft.add_package(_package("deepspeed", version.group().partition("+")[0], source))


def _dash(name: str, value: str, source: str, draft: Draft) -> None:
    version = _VERSION.search(value)
    package = next((_PACKAGES[key] for key in _PACKAGES if name == key or name.startswith(f"{key} (")), None)
    if package and version:
        found = _package(package, version.group(), source)
        draft.add_package(found)
    elif name == "platform":
        platform(value, source, draft)
    elif name == "python version" and version:
        draft.add_python(version.group(), source)
    elif name in ("gpu type", "gpu") and value not in ("N/A", ""):
        draft.add_gpus([Gpu(value, vendor="amd" if "AMD" in value else "nvidia", source=source)])
    elif name.startswith("pytorch xpu") or not value:
        return


def _xformers(name: str, value: str, source: str, draft: Draft) -> None:
    version = _VERSION.search(value)
    if name == "gpu.name":
        draft.add_gpus([Gpu(value, source=source)])
    elif version is None:
        return
    elif name == "pytorch.version":
        draft.add_package(_package("torch", version.group(), source))
    elif name == "xFormers":
        draft.add_package(_package("xformers", version.group(), source))


def _build_info(text: str, source: str, draft: Draft) -> None:
    """`tf.sysconfig.get_build_info()`: what TensorFlow was built for."""
    info = dict(_BUILD_INFO.findall(text))
    if "cuda_version" in info and _VERSION.match(info["cuda_version"]):
        draft.add_package(
            Package("tensorflow", cuda=info["cuda_version"], cudnn=info.get("cudnn_version"), source=source)
        )
