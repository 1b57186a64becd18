"""Takes out of a snapshot or text what is nobody's business, and keeps what a diagnosis needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Union

import msgspec

from envcheck.model.snapshot import Snapshot

# Variables whose values a diagnosis needs; of every other one not even the name is kept.
ENV_ALLOWED = frozenset({
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_REQUIRE_CUDA", "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "CUDNN_VERSION",
    "NV_CUDNN_VERSION", "NCCL_VERSION", "PYTHON_VERSION", "PYTORCH_VERSION", "NVIDIA_PYTORCH_VERSION",
    "NVIDIA_PRODUCT_NAME", "CUDA_DRIVER_VERSION", "_CUDA_COMPAT_PATH", "TORCH_CUDA_ARCH_LIST", "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING", "CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONPATH", "JAX_PLATFORMS", "XLA_FLAGS",
    "TF_FORCE_GPU_ALLOW_GROWTH", "HSA_OVERRIDE_GFX_VERSION", "BNB_CUDA_VERSION", "CC", "CXX",
})  # fmt: skip

Replacement = Union[str, Callable[["re.Match[str]"], str]]
_RULES: tuple[tuple[re.Pattern[str], Replacement], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"), "<private key>"),
    (re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@'\"]+@"), r"\1<credentials>@"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "<key>"),
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|sk-|xox[abprs]-|pypi-|npm_|dckr_pat_|AIza)[\w-]{8,}"
        ),
        "<token>",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"), "<token>"),
    (
        re.compile(
            r"(?i)\b((?:authorization|proxy-authorization|x-api-key|cookie|set-cookie)\s*[:=]\s*)(?:(?:bearer|basic|token)\s+)?\S.*"
        ),
        r"\1<redacted>",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 <token>"),
    (
        re.compile(
            r"(?i)([\w.-]*(?:passw(?:or)?d|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth)[\w.-]*"
            r"[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)"
        ),
        r"\1<redacted>",
    ),
    (re.compile(r"(?i)(--(?:password|token|secret|api-key)[ =])\S+"), r"\1<redacted>"),
    (
        re.compile(r"([?&](?:[\w-]*(?:sig|signature|token|key|auth|credential)[\w-]*)=)[^&\s]+", re.IGNORECASE),
        r"\1<redacted>",
    ),
    (re.compile(r"\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b"), "<uuid>"),
    (
        re.compile(
            r"(?i)((?:serial(?: ?number)?|board id|gpu part number|module id|machine-id|asset tag)\s*[:=]\s*)\S+"
        ),
        r"\1<serial>",
    ),
    (re.compile(r"(?i)(<(?:serial|board_serial|uuid|board_id|gpu_part_number|module_id)>)[^<]*"), r"\1redacted"),
    (re.compile(r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b"), "<mac>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<mail>"),
    (re.compile(r"(/(?:home|Users|export/home|u|mnt/home)/)[^/\s:'\"]+"), r"\1user"),
    (re.compile(r"([A-Za-z]:\\+Users\\+)[^\\\s:'\"]+"), r"\1user"),
    (re.compile(r"(/(?:scratch|gpfs|lustre|nfs|work|project|data)/(?:users?|home|people)/)[^/\s:'\"]+"), r"\1user"),
    (re.compile(r"(?m)^(\s*(?:\([\w.-]+\)\s*)*\[?)[\w.-]+@[\w.-]+(?=[:~ \]])"), r"\1user@host"),
    (re.compile(r"(?m)^(Linux )(?!(?:version|\d))\S+(?= \d+\.\d+)"), r"\1host"),
    (re.compile(r"(?m)^(\w{3} [ \d]\d \d\d:\d\d:\d\d )\S+(?= \S+?(?:\[\d+\])?:)"), r"\1host"),
    (re.compile(r"(?i)\b((?:host ?name|node ?name|node|host)\s*[:=]\s*)[\w.-]+"), r"\1host"),
)
_IPV4 = re.compile(
    r"(?<![\w.+-])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?::\d{2,5})?(?![\w.])"
)
_IPV6 = re.compile(
    r"(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){4,7}[0-9A-Fa-f]{1,4}(?![\w:.])|(?<![\w:])[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,5}::"
    r"(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){0,5})?(?![\w:])"
)
_LOCAL = frozenset({"127.0.0.1", "0.0.0.0"})  # noqa: S104
# A four-part version looks like an address: 'cudnn 9.1.0.70'. Where a package or version stands before, it is none.
_VERSIONED = re.compile(
    r"(?:version|[-=+_v]|cudnn|nccl|cublas|cu1\d|tensorrt|nvidia-[\w-]+|==|\.so\.)\W{0,3}\s*$", re.IGNORECASE
)
_DROPPED = frozenset({"uuid", "created", "digest", "labels"})
_VERSION_FIELDS = frozenset(
    {"version", "cuda", "cudnn", "requirement", "requires", "libcuda_version", "nvml_version", "kernel"}
)


def redact_text(text: str, names: tuple[str, ...] = ()) -> str:
    """`text` without secrets, persons, hosts and serials; `names` are further words to take out."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _IPV4.sub(lambda match: _address(match), text)
    text = _IPV6.sub("<address>", text)
    for name in names:
        if len(name) > 2 and name not in ("root", "user", "host"):
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", "<name>", text)
    return text


def _address(match: re.Match[str]) -> str:
    if match.group().partition(":")[0] in _LOCAL:
        return match.group()
    before = match.string[max(0, match.start() - 24) : match.start()]
    return match.group() if _VERSIONED.search(before) else "<address>"


def redact_snapshot(snap: Snapshot) -> Snapshot:
    """The snapshot as it may be pasted: texts redacted, the environment by an allow-list, no serials or digests."""
    import socket

    host = socket.gethostname()
    names = tuple(
        filter(None, (host, host.partition(".")[0], os.environ.get("USER", ""), os.environ.get("LOGNAME", "")))
    )
    stack = snap.stack
    env = stack.env.find()
    if env:
        kept = {name: value for name, value in sorted(env.items()) if name in ENV_ALLOWED}
        stack = msgspec.structs.replace(stack, env=msgspec.structs.replace(stack.env, value=kept))
    snap = msgspec.structs.replace(snap, stack=stack)
    return msgspec.convert(_walk(msgspec.to_builtins(snap), names, ""), Snapshot)


def _walk(value: Any, names: tuple[str, ...], key: str) -> Any:
    if isinstance(value, str):
        if key in _VERSION_FIELDS and re.fullmatch(r"[\w.+=<>!~, -]*", value):
            return value
        return redact_text(value, names)
    if isinstance(value, dict):
        # A fact's 'value' is of the kind that its field is.
        return {
            redact_text(str(inner), names): _walk(item, names, key if inner == "value" else str(inner))
            for inner, item in value.items()
            if inner not in _DROPPED
        }
    if isinstance(value, (list, tuple)):
        return [_walk(item, names, key) for item in value]
    return value


def share_report(what: Union[str, Snapshot]) -> str:
    """A paste or snapshot, redacted and small: a text stays text, a snapshot becomes JSON."""
    if isinstance(what, str):
        from envcheck.readers.lines import clean, shorten

        return redact_text(shorten(clean(what))[0]).rstrip("\n") + "\n"
    data = msgspec.json.encode(redact_snapshot(what))
    return msgspec.json.format(data, indent=2).decode() + "\n"
