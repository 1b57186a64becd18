"""nvcc --version and gcc --version, the toolkits that paths name, and commands that compile."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.model.stack import Compiler, Toolkit
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line

NAME = "compilers"
_NVCC = re.compile(r"Cuda compilation tools, release (\d+\.\d+)(?:, V(\d+\.\d+\.\d+))?")
_GCC = re.compile(r"^(?:gcc|g\+\+|c\+\+|cc|x86_64-[\w-]+-g(?:cc|\+\+))(?:-\d+)? \([^)]*\) (\d+\.\d+(?:\.\d+)?)")
_GCC_ASKED = re.compile(r"\b(?:gcc|g\+\+)(?:-\d+)? (?:-dumpversion|-dumpfullversion)")
_FOLDER = re.compile(r"/usr/local/cuda-(\d{1,2}\.\d)\b")
_LIST = re.compile(r"^(?:ls|which|readlink)\b")
_COMPILES = re.compile(
    r"\bnvcc\s+(?!--version|-V\b)\S|setup\.py (?:install|build|develop|bdist)|python -m build\b|\bninja:|building '[\w.]+' extension"  # noqa: E501
    r"|cpp_extension|Building (?:wheel|NVCC|CUDA)|(?:cached|Downloading|Collecting) \S*(?:deepspeed|flash[-_]attn|apex|causal[-_]conv1d|mamba[-_]ssm|xformers|torch[-_](?:scatter|sparse|cluster)|tinycudann|auto[-_]gptq)-\d\S*\.tar\.gz"  # noqa: E501
    r"|FAILED: .*\.(?:cu|cuda)|pip3? install .*--no-build-isolation|JIT compil\w+ .*op"
)


def recognises(text: str) -> bool:
    """By nvcc's or gcc's words, or a toolkit's folder."""
    return (
        "release " in text
        or "gcc" in text
        or "g++" in text
        or "/usr/local/cuda-" in text
        or "nvcc" in text
        or "setup.py" in text
        or "uilding" in text
        or "ninja" in text
        or "cpp_extension" in text
        or ".tar.gz" in text
    )


def read(lines: Sequence[Line], draft: Draft) -> None:
    """The toolkit on PATH is nvcc's own word; a folder only says that one is there."""
    asked = listing = False
    for line in lines:
        text = line.text
        if line.shell:
            asked = _GCC_ASKED.search(line.shell) is not None
            listing = _LIST.match(line.shell) is not None and "cuda" in line.shell
        elif asked and re.fullmatch(r"\d+(?:\.\d+)*", text.strip()):
            draft.put("stack", "compiler", Compiler("gcc", text.strip(), source=line.source), line.source)
            asked = False
        if (nvcc := _NVCC.search(text)) is not None:
            draft.toolkits.append(Toolkit(nvcc.group(2) or nvcc.group(1), on_path=True, source=line.source))
            draft.facts += 1
        elif (gcc := _GCC.match(text)) is not None:
            draft.put("stack", "compiler", Compiler("gcc", gcc.group(1), source=line.source), line.source)
        if listing and not line.shell:
            for version in _FOLDER.findall(text):
                draft.toolkits.append(Toolkit(version, f"/usr/local/cuda-{version}", source=line.source))
                draft.facts += 1
        if _COMPILES.search(text):
            draft.want(line.source, compile=True)
