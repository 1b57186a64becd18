"""What people write by hand: '# GPU: RTX 3090, host driver 525, container CUDA 12.1', 'torch: 2.8.0+cu128'."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck import versions
from envcheck.model.machine import Gpu
from envcheck.model.stack import Package, Toolkit
from envcheck.readers.draft import Draft, normal
from envcheck.readers.lines import Line

NAME = "prose"
# Only remarks, list items and 'name: value' lines count: elsewhere a product's name may be an example.
_LABEL = re.compile(
    r"^\s*(?:[-*•#]+\s*)?(?:\*\*)?(?:GPUs?|Graphics(?: card)?|Driver|OS|CUDA|cuDNN|torch|PyTorch|TensorFlow|JAX|Python|Host|"  # noqa: E501
    r"Hardware|Environment|System|NVIDIA[\w ]*|Container|Versions?|Docker|Kernel|Linux|Windows|Platform|Machine)\b[^:=]{0,30}[:=]",  # noqa: E501
    re.IGNORECASE,
)
_GPU = re.compile(
    r"(?:(\d{1,2})\s*[x×*]\s*)?\b((?:NVIDIA |GeForce |Tesla |Quadro )*"
    r"(?:RTX (?:PRO )?(?:A?\d{4}|\d{3,4})(?: ?(?:Ti|SUPER|Ada(?: Generation)?|Laptop GPU|Blackwell|D\b|Max-Q|Mobile))*|GTX \d{3,4}(?: ?(?:Ti|SUPER))*"  # noqa: E501
    r"|(?:Tesla )?(?:[VPTKM]\d{2,3}|A100|A10G?|A16|A2|A30|A40|A800|H100|H200|H800|H20|B200|B300|GH200|GB200|L40S?|L4)"
    r"(?:[- ](?:SXM\d?|PCIe?|NVL))?(?:[- ]?\d{2}GB)?|TITAN (?:RTX|V|Xp?|Black)|DGX Spark|Jetson[\w ]*(?:Nano|Orin|Xavier|TX\d|Thor)[\w ]*))(?![\w-]|\.\d)"  # noqa: E501
)
# A line that is nothing but a name and a number: 'Cuda 10.2', 'Tesla V100 GPU', 'RTX 3080, torch 1.10.0 OUTPUT:'.
_BARE = re.compile(
    r"^\s*(?:[-*•]\s*)?(?:\d\s*x\s*)?(?:NVIDIA (?!Driver Version)|GeForce|Tesla|Quadro|RTX|GTX|CUDA|cuDNN|TensorFlow|PyTorch|torch|Python|Debian|"  # noqa: E501
    r"Ubuntu|AMD)\b[\w ,:()+./®™-]{1,50}$",
    re.IGNORECASE,
)
_NAMES = re.compile(r"(?i:cuda|cudnn|nvidia|geforce|tesla|quadro|[rg]tx|torch|tensorflow|python|ubuntu|debian|radeon)")
_AMD = re.compile(
    r"\bRadeon(?: (?:graphics|Pro|VII|Vega|R[X579]|\d{3}M?|\d{4}\w?)\b)+(?: ?[\dXTM]+\b)*"
    r"|\bAMD (?:APU|GPU|Raven|Instinct(?: MI\d+\w*)?)\b|"
    r"\bRX ?\d{3,4}(?: ?XTX?)?\b|\bgfx\d{3,4}\w?\b|\bMI(?:50|60|100|210|250X?|300[AX]?)\b",
    re.IGNORECASE,
)
_DRIVER = re.compile(
    r"\bdriver(?:\s+version)?s?\s*[:=]?\s*(?:is\s+|v)?(\d{3}(?:\.\d{2,3}(?:\.\d{2})?)?)\b(?!\s*(?:MB|GB|MiB|W|C)\b)",
    re.IGNORECASE,
)
_CUDA_OF_DRIVER = re.compile(r"Driver Version: \d{3}[\d.]*,? +CUDA Version: (\d+\.\d+)")
_CUDA = re.compile(
    r"\b(?:(container|image|docker|toolkit)(?:'s)?\s+)?CUDA(?:\s+(toolkit|version|Version))?\s*[:=]?\s*v?(\d{1,2}\.\d{1,2})(?:\.\d+)?\b(\s+toolkit)?",
    re.IGNORECASE,
)
_CUDNN = re.compile(
    r"\bcudnn\d?(?:[- ]cuda[- ]\d+[- ]\d+)?(?:\s+version)?\s*[:=]?\s*v?(\d+\.\d+(?:\.\d+)*)", re.IGNORECASE
)
_PACKAGE = re.compile(
    r"\b(torch|pytorch|torchvision|torchaudio|tensorflow|tensorflow-gpu|jax|jaxlib|numpy|vllm|xformers|flash[-_]attn|onnxruntime-gpu|onnxruntime|"
    r"bitsandbytes|triton|transformers|deepspeed|ctranslate2|faster-whisper|cupy-cuda1\dx|libnccl2|accelerate)"
    r"(?:\s+version)?\s*(?:[:=]{1,2}|\s)\s*v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|dev|rc|a|b)\d+)*(?:\+[\w.]+)?)",
    re.IGNORECASE,
)
_TORCH_BUILD = re.compile(
    r"\b(?:py)?torch\s*v?(\d+\.\d+\.\d+)\s+(?:with|for|\+)\s*(?:CUDA\s*|cu)(\d+\.?\d+)", re.IGNORECASE
)
_CUDA_VIA_TORCH = re.compile(r"CUDA \((?:via|of) torch\)\s*[:=]\s*(\d+\.\d+)")
_PYTHON = re.compile(r"\bpython(?:\s+version)?\s*[:=]?\s*v?(3\.\d{1,2}(?:\.\d+)?)\b", re.IGNORECASE)
_NO_GPU = re.compile(
    r"\bno (?:NVIDIA|CUDA) (?:GPU|card|device)|\bAMD GPU only|Intel GPU only|without (?:an? )?(?:NVIDIA )?GPU\b",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(r"compute capability:? (\d{1,2}\.\d)|\bsm_(\d{2,3})\b")
_GLIBC = re.compile(r"\bglibc\s*[:=]?\s*(2\.\d{1,2})\b", re.IGNORECASE)


def recognises(text: str) -> bool:
    """A remark, a label, or a machine in words."""
    return "#" in text or ":" in text or _NAMES.search(text) is not None


def read(lines: Sequence[Line], draft: Draft) -> None:
    """Remarks and labelled lines only."""
    for line in lines:
        text = line.text
        remark = text.lstrip().startswith("#") and not line.shell
        if line.shell or len(text) > 600 or "|" in text[:2] or not (remark or _LABEL.match(text) or _BARE.match(text)):
            continue
        if (
            "you have" in text
            or "with CUDA" in text
            or "rror" in text
            or "WARN" in text
            or "[pip" in text
            or "[conda" in text
        ):
            continue
        _machine(text, line, draft, remark)
        _stack(text, line, draft, remark)


def _machine(text: str, line: Line, draft: Draft, remark: bool) -> None:
    source = line.source
    if re.search(r"\bWSL ?2\b", text) or (remark and re.search(r"\bWSL\b", text)):
        draft.put("machine", "wsl", 2, source)
        draft.put("machine", "os", "linux", source)
    elif re.search(r"\bWSL ?1\b", text):
        draft.put("machine", "wsl", 1, source)
    elif re.search(r"\bWindows (?:\d+|Server)|\bWin(?:dows)? ?1[01]\b", text):
        draft.put("machine", "os", "windows", source)
    elif re.search(r"\b(?:Ubuntu|Debian|CentOS|RHEL|Fedora|Gentoo|Arch Linux|Rocky|linux-aarch64|Linux)\b", text):
        draft.put("machine", "os", "linux", source)
    if re.search(r"\b(?:jetson|jetpack)", text, re.IGNORECASE):
        draft.put("machine", "jetson", "Jetson", source)
    if _NO_GPU.search(text):
        draft.put("machine", "gpus", (), source)
        return
    if "machine_shape" in text or (not remark and re.match(r"\s*GPU \d+\s*:.*UUID", text)):
        return
    found = [] if " vs" in text or " agrees " in text else list(_GPU.finditer(text))
    gpus = []
    told = _CAPABILITY.search(text)
    capability = None
    if told and len(found) == 1:
        digits = told.group(2)
        capability = told.group(1) or f"{digits[:-1]}.{digits[-1]}"
    for match in found[:8]:
        name = " ".join(match.group(2).split())
        if name.startswith("Jetson") or ("GPU" in name and len(name) < 5):
            continue
        count = min(int(match.group(1) or 1), 16)
        gpus += [Gpu(name, capability=capability, source=source)] * count
    draft.add_gpus(gpus)
    if not gpus and "Ryzen" not in text and " vs" not in text and (amd := _AMD.search(text)) is not None:
        name = amd.group()
        draft.add_gpus([Gpu(name if "AMD" in name else f"AMD {name}", vendor="amd", source=source)])
    if (driver := _DRIVER.search(text)) is not None:
        cuda = _CUDA_OF_DRIVER.search(text)
        draft.add_driver(driver.group(1), source, cuda.group(1) if cuda else None)


def _stack(text: str, line: Line, draft: Draft, remark: bool) -> None:
    source = line.source
    via = _CUDA_VIA_TORCH.search(text)
    built = _TORCH_BUILD.search(text)
    if via is not None:
        draft.add_package(Package("torch", cuda=via.group(1), source=source))
    elif built is not None and not re.search(r"\bagrees\b|\bvs\b", text):
        cuda = built.group(2)
        cuda = cuda if "." in cuda else f"{cuda[:-1]}.{cuda[-1]}"
        draft.add_package(Package("torch", built.group(1), cuda=cuda, source=source))
    elif not _CUDA_OF_DRIVER.search(text):
        for match in _CUDA.finditer(text):
            whose, kind, version, after = match.groups()
            if draft.driver is not None and draft.driver.cuda == version and "oolkit" not in text:
                continue  # the CUDA that the driver runs, said again
            if (whose or "").lower() in ("container", "image", "docker"):
                draft.put("stack", "cuda", version, source)
            elif (kind or whose or after or "").lower().strip() == "toolkit":
                draft.toolkits.append(Toolkit(version, source=source))
                draft.facts += 1
            elif "agrees" not in text and not re.match(r"\W*(?:wheel|build|built|variant)", text[match.end() :]):
                # 'CUDA 12.4', of whom nobody says: kept as a toolkit that may not be on PATH.
                draft.toolkits.append(Toolkit(version, source=source))
                draft.facts += 1
    if (cudnn := _CUDNN.search(text)) is not None and "wheel" not in text[: cudnn.start()]:
        draft.put("stack", "cudnn", cudnn.group(1), source)
    if not re.search(r"\bagrees\b|\bexpected\b|\brequires?\b|\bneeds?\b", text):
        for match in _PACKAGE.finditer(text):
            name = normal(match.group(1))
            version = match.group(2)
            if name == "libnccl2" or (draft.packages and any(p.name == name for p in draft.packages)):
                continue
            draft.add_package(
                Package("torch" if name == "pytorch" else name, version, versions.local_variant(version), source=source)
            )
    if (python := _PYTHON.search(text)) is not None:
        draft.add_python(python.group(1), source)
    if (glibc := _GLIBC.search(text)) is not None:
        draft.put("stack", "glibc", glibc.group(1), source)
