"""Files found in an image's layers or in a container to facts of its stack."""

from __future__ import annotations

import email.parser
import json
import re
from typing import Any, Optional

import msgspec

from envcheck import versions
from envcheck.model.fact import known
from envcheck.model.image import FoundFile, LayerReading
from envcheck.model.snapshot import Snapshot
from envcheck.model.stack import Distro, Package, Python, Toolkit
from envcheck.readers.requirement_text import VARIANT

_META = re.compile(r".*/([^/]+)\.dist-info/METADATA|.*/([^/]+)\.egg-info(?:/PKG-INFO)?")
_VERSION_PY = re.compile(r".*/(torch|torchvision|torchaudio|jaxlib)/version\.py")
_PYTHON = re.compile(r".*/lib/(python3\.\d+)/(?:site|dist)-packages/.*")
_COMPAT = re.compile(r"/usr/local/cuda[^/]*/compat/.*libcuda\.so\.(\d+\.\d+(?:\.\d+)?)")
_CONDA = re.compile(r".*/conda-meta/([a-z0-9_.\-]+?)-(\d[\w.!+]*)-([\w.]+)\.json")


def add_files(snap: Snapshot, reading: LayerReading, source: str) -> Snapshot:
    """`snap` with what the layers hold; they are a better witness than the configuration."""
    facts: dict[str, Any] = {}
    packages = _packages(reading, source)
    if packages or reading.whole:
        told = {p.name: p for p in snap.stack.packages.find() or ()}
        found = {p.name: _better(p, told.get(p.name)) for p in packages}
        # Only what is there counts: a package of the history may have been removed since.
        rest = {} if reading.whole else {name: p for name, p in told.items() if name not in found}
        facts["packages"] = known(tuple(sorted({**rest, **found}.values(), key=lambda p: p.name)), source)
        facts["complete"] = known(reading.whole, source)
    for file in reading.files:
        text = file.data.decode("utf-8", "replace")
        if file.path.endswith("os-release"):
            facts["distro"] = known(parse_os_release(text), f"{source}: {file.path}")
        elif file.path.endswith("/dpkg/status"):
            libc = re.search(r"(?m)^Package: libc6\n(?:.+\n)*?Version: (\d+\.\d+)", text)
            if libc:
                facts["glibc"] = known(libc.group(1), f"{source}: {file.path}")
        elif re.fullmatch(r"/usr/local/cuda[^/]*/version\.json", file.path):
            version = _cuda_version(text)
            if version:
                facts["cuda"] = known(version, f"{source}: {file.path}")
    nvcc = [name for name in reading.names if name.endswith("/nvcc")]
    if reading.whole:
        facts["toolkits"] = known(_toolkits(nvcc, source), source)
    compat = [match.group(1) for name in reading.names if (match := _COMPAT.fullmatch(name))]
    if compat or reading.whole:
        facts["compat"] = known(max(compat, key=versions.parse) if compat else None, source)
    python = _python(reading, source)
    if python is not None and not snap.stack.python.known:
        facts["python"] = known(python, source)
    stack = msgspec.structs.replace(snap.stack, **facts)
    return msgspec.structs.replace(snap, stack=stack, remarks=(*snap.remarks, *reading.remarks))


def _packages(reading: LayerReading, source: str) -> list[Package]:
    variants = _version_files(reading.files)
    found: dict[str, Package] = {}
    for name in reading.names:
        match = _CONDA.fullmatch(name)
        if match and versions.find(match.group(2)):
            from envcheck.readers.conda_env import read_match_spec

            spec = f"{match.group(1)} {match.group(2)} {match.group(3)}"
            package = read_match_spec(spec, "", f"{source}: {name}")
            if package is not None:
                found[package.name] = package
    for file in reading.files:
        match = _META.fullmatch(file.path)
        if match:
            package = parse_metadata(file, source, variants)
            if package is not None:
                found[package.name] = package
    return [found[name] for name in sorted(found)]


def parse_metadata(file: FoundFile, source: str, variants: dict[str, dict[str, str]]) -> Optional[Package]:
    """METADATA or PKG-INFO to a package; None where it has no name and version."""
    headers = email.parser.HeaderParser().parsestr(file.data.decode("utf-8", "replace"))
    name, version = str(headers.get("Name") or "").strip(), str(headers.get("Version") or "").strip()
    if not re.fullmatch(r"[A-Za-z0-9][\w.\-]*", name) or versions.find(version) is None:
        return None
    normal = re.sub(r"[-_.]+", "-", name).lower()
    told = variants.get(normal, {})
    variant = versions.local_variant(version) or told.get("variant")
    return Package(
        normal,
        version=version,
        variant=variant,
        cuda=told.get("cuda") or (versions.cuda_from_tag(variant) if variant else None),
        hip=told.get("hip"),
        location=file.path.rpartition("/")[0].rpartition("/")[0],
        source=f"{source}: {file.path}",
    )


def _version_files(files: tuple[FoundFile, ...]) -> dict[str, dict[str, str]]:
    """What torch/version.py and its kind say: 'cuda: Optional[str] = '12.1'', '__version__ = '2.1.0+cu121''."""
    found: dict[str, dict[str, str]] = {}
    for file in files:
        match = _VERSION_PY.fullmatch(file.path)
        if not match:
            continue
        text = file.data.decode("utf-8", "replace")
        facts: dict[str, str] = {}
        for key in ("cuda", "hip"):
            value = re.search(rf"(?m)^{key}\s*(?::[^=\n]*)?=\s*['\"]([\d.]+)['\"]", text)
            if value:
                facts[key] = value.group(1)
        version = re.search(r"(?m)^__version__\s*=\s*['\"]([^'\"]+)['\"]", text)
        variant = versions.local_variant(version.group(1)) if version else None
        if variant and VARIANT.fullmatch(variant):
            facts["variant"] = variant
        if match.group(1) == "torch" and re.search(r"(?m)^cuda\s*(?::[^=\n]*)?=\s*None", text) and "hip" not in facts:
            facts.setdefault("variant", "cpu")
        found[match.group(1)] = facts
    return found


def _better(package: Package, told: Optional[Package]) -> Package:
    """The file's package, with what only the image's configuration knows (its architectures, NVIDIA's channel)."""
    if told is None or told.version != package.version:
        return package
    return msgspec.structs.replace(
        package,
        cuda=package.cuda or told.cuda,
        channel=package.channel or told.channel,
        installer=package.installer or told.installer,
        capabilities=package.capabilities or told.capabilities,
    )


def parse_os_release(text: str) -> Distro:
    """ID, VERSION_ID and PRETTY_NAME of /etc/os-release."""
    fields = dict(re.findall(r"(?m)^([A-Z_]+)=[\"']?([^\"'\n]*)[\"']?$", text))
    return Distro(fields.get("ID", ""), fields.get("VERSION_ID", ""), fields.get("PRETTY_NAME", ""))


def _cuda_version(text: str) -> Optional[str]:
    try:
        version = json.loads(text)["cuda"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, str) and versions.find(version) else None


def _toolkits(paths: list[str], source: str) -> tuple[Toolkit, ...]:
    found = []
    for path in paths:
        match = re.fullmatch(r"(/usr/local/cuda-(\d+\.\d+))/bin/nvcc", path)
        if match:
            found.append(Toolkit(match.group(2), match.group(1), True, f"{source}: {path}"))
    return tuple(found)


def _python(reading: LayerReading, source: str) -> Optional[Python]:
    """The Python whose packages include a framework; where several have packages, none is guessed."""
    names = {match.group(1) for file in reading.files if (match := _PYTHON.fullmatch(file.path))}
    if len(names) != 1:
        return None
    return Python(names.pop()[len("python") :])
