"""PyTorch's collect_env (every layout since 1.0) and vLLM's, whole or cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Optional

from envcheck import versions
from envcheck.model.machine import Gpu
from envcheck.model.stack import Compiler, Distro, Library, Package, Toolkit
from envcheck.readers.draft import Draft, normal, short_cuda
from envcheck.readers.lines import Line

NAME = "collect_env"
_FIELD = re.compile(r"^\s*(?:[-*] )?([A-Z][A-Za-z0-9 ()/_.]{1,48}?)\s*:\s*(.*)$")
_GPU = re.compile(r"(?:^|: )GPU (\d+(?:,\d+)*): (.+?)\s*$")  # some forks join the numbers of equal GPUs
_LISTED = re.compile(r"^\s*\[(pip3?|conda)\] (\S+?)(?:==|\s+)(\S+)(.*)$")
_LIBC = re.compile(r"glibc[- ]?(\d+\.\d+)")
_CUDNN = re.compile(r"libcudnn(?:_\w+)?\.so\.(\d+(?:\.\d+){2,3})$")
_OS_IDS = (("ubuntu", "ubuntu"), ("debian", "debian"), ("red hat", "rhel"), ("centos", "centos"), ("rocky", "rocky"))
_FOLDED = re.compile(
    r"(?:PyTorch version|Is debug build|CUDA used to build PyTorch|ROCM used to build PyTorch|OS|GCC version|Clang version"  # noqa: E501
    r"|CMake version|Libc version|Python version|Python platform|Is CUDA available|CUDA runtime version"
    r"|CUDA_MODULE_LOADING set to|GPU models and configuration|Nvidia driver version|cuDNN version|HIP runtime version"
    r"|MIOpen runtime version|Is XNNPACK available|CPU|Versions of relevant libraries|vLLM Version)\s*: "
    r"|\[(?:pip3?|conda)\] |(?<= )GPU \d+: |(?<= )/usr/\S+libcudnn"
)
_MARKS = (
    "used to build PyTorch",
    "PyTorch version:",
    "[pip3]",
    "[pip]",
    "[conda]",
    "collect_env",
    "CUDA runtime version:",
    "Nvidia driver version",
    "Is CUDA available",
    "GPU models and configuration",
    "Python platform:",
    "Libc version:",
    "cuDNN version:",
    "Versions of relevant libraries",
)
_NOTHING = frozenset({"n/a", "none", "could not collect", "no cuda", ""})


def recognises(text: str) -> bool:
    """By the names of its fields."""
    return any(mark in text for mark in _MARKS)


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Field by field; a field that is not there stays unknown."""
    gpus: list[Gpu] = []
    torch: dict[str, tuple[str, str]] = {}
    parts = list(unfolded(lines))
    other = _other_environment(parts)
    for line in parts:
        text = line.text
        if (listed := _LISTED.match(text)) is not None:
            if not (other and listed.group(1) == "conda"):
                _package(listed, line, draft)
            continue
        if "GPU " in text and (gpu := _GPU.search(text)) is not None and "UUID" not in text:
            gpus += [Gpu(gpu.group(2), index=int(n), source=line.source) for n in gpu.group(1).split(",")]
            continue
        field = _FIELD.match(text)
        if field is None:
            if (cudnn := _CUDNN.search(text)) is not None and text.lstrip().startswith("/"):
                draft.put("stack", "cudnn", cudnn.group(1), line.source)
                draft.libraries.append(
                    Library(
                        f"libcudnn.so.{cudnn.group(1).partition('.')[0]}",
                        text.strip(),
                        cudnn.group(1),
                        "system",
                        source=line.source,
                    )
                )
            continue
        name, value = field.group(1).strip(), field.group(2).strip()
        if name in ("PyTorch version", "CUDA used to build PyTorch", "ROCM used to build PyTorch", "Is debug build"):
            torch.setdefault(name, (value, line.source))
        else:
            _field(name, value, line, draft, gpus)
    draft.add_gpus(_checked(gpus))
    _torch(torch, draft)


def _other_environment(lines: Sequence[Line]) -> bool:
    """Are the [conda] lines of another environment than Python's own? `conda list` tells the active one.

    Known by a package that pip put there in another version than the [pip3] lines have.
    """
    listed = [found.groups() for line in lines if (found := _LISTED.match(line.text)) is not None]
    pip = {normal(name): version.partition("+")[0] for tool, name, version, _ in listed if tool != "conda"}
    conda = [(normal(name), version.partition("+")[0]) for tool, name, version, rest in listed if "pypi" in rest]
    return any(pip.get(name, version) != version for name, version in conda)


def unfolded(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines; one into which a whole report was folded is parted at its labels, all with its number."""
    for line in lines:
        if len(line.text) > 200 and len(_FOLDED.findall(line.text)) > 3:
            for piece in _FOLDED.sub(r"\n\g<0>", line.text).split("\n"):
                if piece.strip():
                    yield Line(line.number, piece.strip())
        else:
            yield line


def _checked(gpus: list[Gpu]) -> list[Gpu]:
    """One entry an index: a paste may hold the list twice."""
    return list({gpu.index: gpu for gpu in reversed(gpus)}.values())[::-1]


def _torch(torch: dict[str, tuple[str, str]], draft: Draft) -> None:
    if not torch:
        return
    version, source = torch.get("PyTorch version", ("", ""))
    cuda, cuda_source = torch.get("CUDA used to build PyTorch", ("", ""))
    hip, _ = torch.get("ROCM used to build PyTorch", ("", ""))
    if version.lower() in _NOTHING and not cuda:
        return
    rocm = hip if hip.lower() not in _NOTHING else None
    # torch.version.cuda is None in a CPU build, which older layouts print as 'Could not collect'.
    absent = cuda.lower() in ("none", "n/a", "could not collect") and version.lower() not in _NOTHING
    told = "" if absent and not rocm else short_cuda(cuda)
    variant = versions.local_variant(version) or ("cpu" if told == "" else None)
    clean = version if version.lower() not in _NOTHING else None
    draft.add_package(Package("torch", clean, variant, cuda=told, hip=rocm, source=source or cuda_source))


def _package(listed: re.Match[str], line: Line, draft: Draft) -> None:
    tool, name, version, rest = listed.groups()
    if not re.match(r"\d", version):
        return
    words = rest.split()
    conda = tool == "conda" and "pypi" not in rest
    build = words[0] if conda and words else ""
    variant = versions.local_variant(version)
    cuda = None
    if conda and build:
        from envcheck.readers.package_lists import conda_build

        cuda, variant = conda_build(build, variant)
    draft.add_package(
        Package(
            normal(name),
            version,
            variant,
            cuda=cuda,
            installer="conda" if conda else "pip",
            build=build,
            channel=words[-1] if conda and len(words) > 1 else "",
            source=line.source,
        )
    )


def _field(name: str, value: str, line: Line, draft: Draft, gpus: list[Gpu]) -> None:
    source = line.source
    empty = value.lower() in _NOTHING
    if name == "Nvidia driver version":
        if (version := re.match(r"\d{3}\.\d[\d.]*", value)) is not None:
            draft.add_driver(version.group(), source)
    elif name in ("GPU models and configuration", "GPU Models and Configuration"):
        if not empty and not re.match(r"GPU \d", value):
            gpus.append(Gpu(value, source=source))
    elif name == "OS":
        _system(value, source, draft)
    elif name in ("GCC version", "Clang version"):
        found = re.search(r"(?:\) |version )?(\d+(?:\.\d+){1,2})\b", value.rpartition(") ")[2] or value)
        if found and name.startswith("GCC"):
            draft.put("stack", "compiler", Compiler("gcc", found.group(1), source=source), source)
    elif name == "Libc version":
        if (libc := _LIBC.search(value)) is not None:
            draft.put("stack", "glibc", libc.group(1), source)
    elif name == "Python version":
        if (version := re.match(r"(\d\.\d+(?:\.\d+)?)", value)) is not None:
            draft.add_python(version.group(1), source)
    elif name == "Python platform":
        platform(value, source, draft)
    elif name == "CUDA runtime version":
        # collect_env asks nvcc: this is the toolkit on PATH, not torch's CUDA.
        if (version := re.search(r"(\d+\.\d+(?:\.\d+)?)", value)) is not None:
            draft.toolkits.append(Toolkit(version.group(1), on_path=True, source=source))
    elif name == "cuDNN version":
        if (cudnn := _CUDNN.search(value)) is not None:
            draft.put("stack", "cudnn", cudnn.group(1), source)
        elif re.fullmatch(r"\d{4,5}", value):
            draft.put("stack", "cudnn", versions.cudnn_from_integer(int(value)), source)
    elif name in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES"):
        draft.add_env(name, value, source)
    elif name == "vLLM Version" and (version := re.match(r"\d[\w.]*(?:\+\w+)?", value)) is not None:
        draft.add_package(Package("vllm", version.group(), source=source))


def _system(value: str, source: str, draft: Draft) -> None:
    low = value.lower()
    if "windows" in low:
        draft.put("machine", "os", "windows", source)
    elif "mac" in low or "darwin" in low:
        draft.put("machine", "os", "darwin", source)
    else:
        if value and low not in _NOTHING:
            draft.put("machine", "os", "linux", source)
        ident: Optional[str] = next((ident for word, ident in _OS_IDS if word in low), None)
        number = re.search(r"\d+(?:\.\d+)?", value)
        if ident:
            draft.put("stack", "distro", Distro(ident, number.group() if number else "", value), source)
    arch = re.search(r"\((x86_64|aarch64|arm64)\)", value)
    if arch:
        draft.put("stack", "arch", {"arm64": "aarch64"}.get(arch.group(1), arch.group(1)), source)


def platform(value: str, source: str, draft: Draft) -> None:
    """'Linux-5.15.0-58-generic-x86_64-with-glibc2.31', as Python's platform prints it."""
    if value.startswith("Linux-"):
        draft.put("machine", "os", "linux", source)
        kernel = re.match(r"Linux-(\d[\w.+]*(?:-[\w.+]+)*?)-(x86_64|aarch64|ppc64le)", value)
        if kernel:
            draft.put("machine", "kernel", kernel.group(1), source)
            draft.put("stack", "arch", kernel.group(2), source)
        if "microsoft" in value.lower():
            draft.put("machine", "wsl", 2 if "WSL2" in value or "standard" in value else 1, source)
        if "tegra" in value:
            draft.put("machine", "jetson", "Jetson (tegra kernel)", source)
        if (libc := _LIBC.search(value)) is not None:
            draft.put("stack", "glibc", libc.group(1), source)
    elif value.startswith("Windows"):
        draft.put("machine", "os", "windows", source)
    elif value.lower().startswith(("macos", "darwin")):
        draft.put("machine", "os", "darwin", source)
