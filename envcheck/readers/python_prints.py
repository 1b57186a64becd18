"""What people print in Python and at the shell: `>>> torch.version.cuda` and the line under it, `python --version`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, Optional

from envcheck import versions
from envcheck.model.machine import Gpu
from envcheck.model.stack import Package
from envcheck.readers.collect_env import platform
from envcheck.readers.draft import Draft, normal, short_cuda
from envcheck.readers.lines import Line

NAME = "Python prints"
_PROMPT = re.compile(r"^\s*(?:>>>|In \[\d+\]:)\s*(.+)$")
_COMMAND = re.compile(r"\bpython[\d.]*\s+-[a-zA-Z]*c\s*([\"'])(.*)\1\s*$")
_BANNER = re.compile(r"^Python (\d\.\d+\.\d+)\S* (?:\||\()")
_SAID = re.compile(r"^(?:Python|python)(?: version)?\s*[:=]?\s*(\d\.\d{1,2}(?:\.\d+)?)\s*$")
_PRINT = re.compile(r"print\((.*?)\)\s*(?:;|$)")
_ECHO = re.compile(r"^(?:echo \$|printenv )([A-Z_]+)$")
_EXPORT = re.compile(
    r"^(?:export )?(CUDA_VISIBLE_DEVICES|LD_LIBRARY_PATH|CUDA_HOME|NVIDIA_VISIBLE_DEVICES)=(\S*)(?:\s|$)"
)
_SET = re.compile(r"environ\[[\"'](CUDA_VISIBLE_DEVICES)[\"']\]\s*=\s*[\"']([^\"']*)[\"']")
_MODULE = re.compile(r"\b(\w+)\.__version__$")
_MODULES = {
    "torch": "torch",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "jaxlib": "jaxlib",
    "np": "numpy",
    "numpy": "numpy",
    "xformers": "xformers",
    "vllm": "vllm",
    "flash_attn": "flash-attn",
    "onnxruntime": "onnxruntime",
    "ort": "onnxruntime",
    "cupy": "cupy",
    "triton": "triton",
}


def recognises(text: str) -> bool:
    """By a prompt, a Python one-liner, its version or a variable."""
    return (
        ">>>" in text
        or "ython" in text
        or "In [" in text
        or "CUDA_VISIBLE_DEVICES" in text
        or "LD_LIBRARY_PATH" in text
        or "echo $" in text
        or "CUDA_HOME" in text
        or "uname -m" in text
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Pair each question with the line (or lines) that answers it."""
    questions: list[str] = []
    for line in lines:
        text = line.text
        prompt = _PROMPT.match(text)
        if prompt is not None:
            questions = _asked(prompt.group(1))
            _set_variable(prompt.group(1), line, draft)
            continue
        if line.shell:
            command = _COMMAND.search(line.shell)
            questions = _asked(command.group(2)) if command else []
            if "python" in line.shell and re.search(r"python[\d.]*\s+(--version|-V)", line.shell):
                questions = ["python --version", *questions]
            if line.shell.strip() in ("uname -m", "arch"):
                questions = ["uname -m"]
            if (echo := _ECHO.match(line.shell)) is not None:
                questions = [f"${echo.group(1)}"]
            _set_variable(line.shell, line, draft)
            continue
        if (banner := _BANNER.match(text) or _SAID.match(text)) is not None:
            draft.add_python(banner.group(1), line.source)
            questions = [q for q in questions if q != "python --version"]
            continue
        if questions and not text.startswith((" ", "Traceback", "W0", "I0")):
            if _answer(questions[0], text.strip(), line.source, draft):
                questions = questions[1:]
            continue
        _set_variable(text, line, draft)


def _asked(code: str) -> list[str]:
    """The expressions that this line of Python prints, in order."""
    printed = [_split(found) for found in _PRINT.findall(code + ";")] if "print(" in code else []
    if printed:
        return [part for group in printed for part in group]
    return [code.rpartition(";")[2].strip()]


def _split(arguments: str) -> list[str]:
    parts = [part.strip() for part in arguments.split(",")]
    # print(a, b) answers on one line: kept as one question unless there is one argument.
    return parts if len(parts) == 1 else [", ".join(parts)]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text) if len(text) < 400 else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _answer(question: str, text: str, source: str, draft: Draft) -> bool:
    """Take `text` as the answer to `question`; False where it can't be one."""
    if ", " in question and text.count(" ") >= 1 and not text.startswith(("(", "'")):
        parts, answers = question.split(", "), text.split(" ")
        if len(parts) == len(answers):
            return [_answer(part, answer, source, draft) for part, answer in zip(parts, answers)] != []
    value = _literal(text)
    plain = str(value)
    question = question.replace("print(", "").strip(") ") if question.startswith("print(") else question
    if (module := _MODULE.search(question.strip())) is not None:
        name = _MODULES.get(module.group(1), module.group(1))
        if re.match(r"\d+\.\d", plain) and len(plain) < 60:
            draft.add_package(Package(normal(name), plain, versions.local_variant(plain), source=source))
            return True
        return False
    if question.endswith("torch.version.cuda"):
        if value is None or re.match(r"\d+\.\d", plain):
            cuda = "" if value is None else short_cuda(plain)
            draft.add_package(Package("torch", variant="cpu" if value is None else None, cuda=cuda, source=source))
            return True
        return False
    if "get_device_name(" in question and len(plain) < 80 and re.match(r"[A-Z]", plain):
        draft.add_gpus([Gpu(plain, source=source)])
        return True
    if "get_device_capability(" in question and isinstance(value, tuple) and len(value) == 2:
        draft.add_gpus([Gpu("", capability=f"{value[0]}.{value[1]}", source=source)])
        return True
    if "get_arch_list()" in question and isinstance(value, list):
        draft.add_package(Package("torch", capabilities=capabilities(" ".join(map(str, value))), source=source))
        return True
    if "cuda.is_available()" in question and value is False:
        draft.want(source, gpu=True)  # who asks that, and shows the answer, wants one
        draft.facts += 1
        return True
    if question == "uname -m":
        if plain in ("x86_64", "aarch64"):
            draft.put("machine", "arch", plain, source)
        return True
    if question == "platform.platform()":
        platform(plain, source, draft)
        return True
    if question.startswith("$"):
        draft.add_env(question[1:], text, source)
        return True
    return True


def _set_variable(text: str, line: Line, draft: Draft) -> None:
    if "=" not in text:
        return
    match = _SET.search(text) or _EXPORT.search(text)
    if match is not None:
        draft.add_env(match.group(1), match.group(2), line.source)


def capabilities(text: str) -> Optional[tuple[str, ...]]:
    """'sm_37 sm_50 compute_37' -> ('3.7', '5.0', '3.7+PTX'); None where there is none."""
    found = []
    for kind, digits, suffix in re.findall(r"\b(sm|compute)_(\d{2,3})([af]?)\b", text):
        found.append(f"{digits[:-1]}.{digits[-1]}{suffix}{'+PTX' if kind == 'compute' else ''}")
    return tuple(dict.fromkeys(found)) or None
