"""Facts inside error messages and paths: which GPU, which build, which CUDA a failing program met."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck import versions
from envcheck.model.machine import Gpu
from envcheck.model.stack import Compiler, Package, Toolkit
from envcheck.readers.draft import Draft
from envcheck.readers.lines import Line
from envcheck.readers.python_prints import capabilities

NAME = "error log"
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d{4,5})\)")
_CAPABILITY = re.compile(
    r"(?:^|\s{2,}|Warning: ?\s*|:\s)((?:NVIDIA|GeForce|Tesla|Quadro|GRID|TITAN)[\w ()/.-]*?|[\w ]{3,40}?) with CUDA capability sm_(\d{2,3}) is not compatible"  # noqa: E501
)
_OLD_CAPABILITY = re.compile(r"Found GPU(\d+) (.+?) which is of (?:cuda )?capability (\d+\.\d+)", re.IGNORECASE)
_SUPPORTS = re.compile(
    r"(?:current PyTorch install(?:ation)? supports|supported by this library is|compiled for) CUDA capabilities?:? ((?:(?:sm|compute)_\w+[ ,.]*)+)"  # noqa: E501
)
_SITE = re.compile(
    r"/(?:lib|lib64)/python(\d\.\d{1,2})/(?:site|dist)-packages/|[\\/]Python(\d)(\d{1,2})[\\/](?:Lib|lib)[\\/]"
)
_CPYTHON = re.compile(r"\.cpython-(\d)(\d{1,2})-")
_TORCH_WHEEL = re.compile(r"[\\/]torch-(\d+\.\d+\.\d+(?:\+[\w.]+)?)(?:-|\.dist-info)")
_DETECTED = re.compile(
    r"detected CUDA version \((\d+\.\d+)\) mismatches the version that was used to compile\s+PyTorch \((\d+\.\d+)\)"
)
_DEEPSPEED = re.compile(
    r"Installed CUDA version (\d+\.\d+) does not match the version torch was compiled with (\d+\.\d+)"
)
_XFORMERS = re.compile(r"PyTorch (\S+) with CUDA (\d{3,5}|None) \(you have (\S+?)\)")
_JAX_FOUND = re.compile(r"Installed version: (\d{4,5})\b")
_TF_DEVICE = re.compile(r"name: ([^,]+?), pci bus id: [^,]+, compute capability: (\d+\.\d+)")
_TF_PROPERTIES = re.compile(r"name: (.+?) computeCapability: (\d+\.\d+)")
_MACHINE_SHAPE = re.compile(r"machine_shape: Nvidia(Tesla)?([A-Z]\d+)")
_GCC_PATH = re.compile(r"/usr/lib/gcc/[\w-]+/(\d{1,2})/")
_BNB_CC = re.compile(r"Highest compute capability among GPUs detected: (\d\.\d)")
_HIP_BUILD = re.compile(r"\bhipError\w+|aten/src/THH/|c10/hip/|ATen/hip/|No HIP GPUs are available|HIP out of memory")
_JETSON = re.compile(
    r"\bJetPack\b|\bL4T\b|\bl4t-[a-z]|nv_tegra_release|\btegra-ubuntu\b|\d-tegra\b|\bJetson\b|\b(?:agx|nano|nx)-orin\b|"
    r"\borin-(?:nano|nx|agx)\b",
    re.IGNORECASE,
)
_WSL = re.compile(r"\d-microsoft-standard|-WSL2\b|\bversion 4\.4\.0-\d+-Microsoft\b|\b4\.4\.0-\d+-Microsoft\b")
_LINUX_HOME = re.compile(r"(?:^|[\s\"'(=])/(?:home|root)/\S*/(?:site|dist)-packages\b")
_CONDA_CACHE = re.compile(r"/pkgs/(cudatoolkit|cuda-cudart|cuda-libraries|libcublas|cudnn)-(\d[\d.]*)-\w+")
_WINDOWS = re.compile(r"(?:^|[\s\"'(])[A-Z]:\\\w|cudart64_\d+\.dll|win_amd64|\bPS [A-Z]:")
_DRIVER_NCCL = re.compile(r"CUDA Driver version (\d{4,5})|cudaDriverVersion (\d{4,5})")
_VLLM = re.compile(
    r"Initializing (?:a|an) (?:V\d )?LLM engine \(v(\d+\.\d+[\w.]*)\)|vLLM API server version v?(\d+\.\d+[\w.]*)"
)


def recognises(text: str) -> bool:
    """Any text may carry them; each line is tried only where a word of them stands."""
    return True


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Line by line, each pattern behind a plain word."""
    for place, line in enumerate(lines):
        text = line.text
        if "apabilit" in text:
            _capability(text, line, draft)
        if "too old" in text and (old := _TOO_OLD.search(text)) is not None:
            draft.add_driver(None, line.source, versions.cuda_from_integer(int(old.group(1))))
        if "CUDA version" in text or "mismatches" in text:
            after = lines[place + 1].text if place + 1 < len(lines) else ""
            _mismatch(f"{text.strip()} {after.strip()}", line, draft)
        if (
            "python" in text.lower()
            and (site := _SITE.search(text)) is not None
            and "/usr/lib/python3/dist" not in text
        ):
            draft.add_python(site.group(1) or f"{site.group(2)}.{site.group(3)}", line.source)
        if ".cpython-" in text and (built := _CPYTHON.search(text)) is not None:
            draft.add_python(f"{built.group(1)}.{built.group(2)}", line.source)
        if "torch-" in text and (wheel := _TORCH_WHEEL.search(text)) is not None:
            draft.add_package(_torch(wheel.group(1), line.source))
        if "(you have " in text and (xformers := _XFORMERS.search(text)) is not None:
            draft.add_package(_torch(xformers.group(3), line.source))
            draft.add_package(Package("xformers", requires=(f"torch=={xformers.group(1)}",), source=line.source))
        if "driver" in text.lower() and (nccl := _DRIVER_NCCL.search(text)) is not None:
            draft.add_driver(None, line.source, versions.cuda_from_integer(int(nccl.group(1) or nccl.group(2))))
        if "machine_shape" in text and (shape := _MACHINE_SHAPE.search(text)) is not None:
            draft.add_gpus([Gpu(f"Tesla {shape.group(2)}", source=line.source)])
        if "/usr/lib/gcc/" in text and (gcc := _GCC_PATH.search(text)) is not None:
            draft.put("stack", "compiler", Compiler("gcc", gcc.group(1), source=line.source), line.source)
        low = text.lower()
        if ("jet" in low or "l4t" in low or "tegra" in low or "orin" in low) and _JETSON.search(text):
            draft.put("machine", "jetson", "Jetson", line.source)
        if ("microsoft" in low or "wsl2" in low) and (wsl := _WSL.search(text)) is not None:
            draft.put("machine", "wsl", 1 if "4.4.0" in wsl.group() else 2, line.source)
        if "-packages" in text and _LINUX_HOME.search(text):
            draft.put("machine", "os", "linux", line.source)
        if "/pkgs/" in text and (cached := _CONDA_CACHE.search(text)) is not None:
            draft.add_package(Package(cached.group(1), cached.group(2), installer="conda", source=line.source))
        if "hip" in low and _HIP_BUILD.search(text):
            draft.add_package(Package("torch", hip="HIP", source=line.source))
        if ("\\" in text or ".dll" in text or "win_amd64" in text) and _WINDOWS.search(text):
            draft.put("machine", "os", "windows", line.source)
        if ("vLLM" in text or "LLM engine" in text) and (vllm := _VLLM.search(text)) is not None:
            draft.add_package(Package("vllm", vllm.group(1) or vllm.group(2), source=line.source))


def _torch(version: str, source: str) -> Package:
    return Package("torch", version, versions.local_variant(version), source=source)


def _capability(text: str, line: Line, draft: Draft) -> None:
    if "is not compatible" in text and (told := _CAPABILITY.search(text)) is not None:
        digits = told.group(2)
        draft.add_gpus([Gpu(told.group(1).strip(), capability=f"{digits[:-1]}.{digits[-1]}", source=line.source)])
    if (supported := _SUPPORTS.search(text)) is not None:
        draft.add_package(Package("torch", capabilities=capabilities(supported.group(1)), source=line.source))
    if (old := _OLD_CAPABILITY.search(text)) is not None:
        draft.add_gpus(
            [Gpu(old.group(2).strip(), index=int(old.group(1)), capability=old.group(3), source=line.source)]
        )
    elif (device := _TF_DEVICE.search(text) or _TF_PROPERTIES.search(text)) is not None:
        draft.add_gpus([Gpu(device.group(1).strip(), capability=device.group(2), source=line.source)])
    elif (bnb := _BNB_CC.search(text)) is not None:
        draft.add_gpus([Gpu("", capability=bnb.group(1), source=line.source)])


def _mismatch(text: str, line: Line, draft: Draft) -> None:
    match = _DETECTED.search(text) or _DEEPSPEED.search(text)
    if match is not None:
        draft.facts += 1
        draft.toolkits.append(Toolkit(match.group(1), on_path=True, source=line.source))
        draft.add_package(Package("torch", cuda=match.group(2), source=line.source))
        draft.want(line.source, compile=True)
