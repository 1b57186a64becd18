"""What the tags of well-known public images promise: their projects document the format.

NVIDIA's images are not among them: their tags are no versions, and the matrix or their configuration tells.
"""

from __future__ import annotations

import re
from typing import Optional

from envcheck import versions
from envcheck.model.fact import known
from envcheck.model.reference import find_reference
from envcheck.model.stack import Distro, Package, Python, Stack

CODENAMES = {"buster": "10", "bullseye": "11", "bookworm": "12", "trixie": "13"}
UBUNTU = {"bionic": "18.04", "focal": "20.04", "jammy": "22.04", "noble": "24.04"}
GLIBC = {
    ("ubuntu", "18.04"): "2.27", ("ubuntu", "20.04"): "2.31", ("ubuntu", "22.04"): "2.35", ("ubuntu", "24.04"): "2.39",
    ("debian", "10"): "2.28", ("debian", "11"): "2.31", ("debian", "12"): "2.36", ("debian", "13"): "2.41",
    ("rhel", "7"): "2.17", ("rhel", "8"): "2.28", ("rhel", "9"): "2.34", ("rhel", "10"): "2.39",
    ("amzn", "2"): "2.26", ("amzn", "2023"): "2.34",
}  # fmt: skip
PYTHON = {
    ("ubuntu", "18.04"): "3.6", ("ubuntu", "20.04"): "3.8", ("ubuntu", "22.04"): "3.10", ("ubuntu", "24.04"): "3.12",
    ("debian", "10"): "3.7", ("debian", "11"): "3.9", ("debian", "12"): "3.11", ("debian", "13"): "3.13",
    ("rhel", "9"): "3.9", ("rhel", "10"): "3.12",
}  # fmt: skip
LIKE_RHEL = ("rhel", "centos", "rocky", "rockylinux", "almalinux", "ol", "oraclelinux", "ubi")


def _key(distro: Distro) -> tuple[str, str]:
    if distro.id in LIKE_RHEL:
        return "rhel", distro.version.split(".")[0]
    if distro.id == "debian":
        return "debian", distro.version.split(".")[0]
    return distro.id, distro.version


def glibc_of(distro: Distro) -> Optional[str]:
    """The glibc X.Y that a release of a distribution carries for life; None for one not known (or without glibc)."""
    return GLIBC.get(_key(distro))


def python_of(distro: Distro) -> Optional[str]:
    """The X.Y of the distribution's own python3."""
    return PYTHON.get(_key(distro))


def parse_distro(text: str) -> Optional[Distro]:
    """'ubuntu22.04', 'ubi9', 'rockylinux9', 'amzn2023', 'bookworm' to a distribution."""
    if text in CODENAMES:
        return Distro("debian", CODENAMES[text])
    if text in UBUNTU:
        return Distro("ubuntu", UBUNTU[text])
    match = re.fullmatch(r"(ubuntu|debian|ubi|rockylinux|oraclelinux|centos|amzn|almalinux)(\d+(?:\.\d+)?)", text)
    if not match:
        return None
    name = {"ubi": "rhel", "rockylinux": "rocky", "oraclelinux": "ol"}.get(match.group(1), match.group(1))
    return Distro(name, match.group(2))


def stack_of_tag(text: str, source: str) -> Optional[Stack]:
    """What the tag of a well-known image says; None for any other image."""
    reference = find_reference(text)
    if reference is None or not reference.tag:
        return None
    name, tag = reference.name, reference.tag
    where = f"{source}: tag {tag}"
    parts = tag.split("-")
    if name == "python":
        return _python(parts, where)
    if name in ("ubuntu", "debian", "rockylinux", "almalinux", "rockylinux/rockylinux"):
        base = name.rpartition("/")[2]
        distro = parse_distro(parts[0]) or parse_distro(f"{base}{parts[0]}")
        return _on(distro, where) if distro else None
    if name == "pytorch/pytorch":
        return _pytorch(tag, where)
    if name == "tensorflow/tensorflow":
        return _tensorflow(tag, where)
    return None


def _on(distro: Distro, where: str) -> Stack:
    glibc = glibc_of(distro)
    return Stack(distro=known(distro, where), glibc=known(glibc, where) if glibc else Stack().glibc)


def _python(parts: list[str], where: str) -> Optional[Stack]:
    if not re.fullmatch(r"3\.\d+(\.\d+)?", parts[0]) or "alpine" in parts[-1]:
        return None
    distro = next((found for part in parts[1:] if (found := parse_distro(part))), None)
    stack = _on(distro, where) if distro else Stack()
    return Stack(distro=stack.distro, glibc=stack.glibc, python=known(Python(parts[0]), where))


def _pytorch(tag: str, where: str) -> Optional[Stack]:
    match = re.fullmatch(r"(\d+\.\d+(?:\.\d+)?)-cuda(\d+\.\d+)-cudnn(\d+)-(runtime|devel)", tag)
    if not match:
        return None
    version, cuda, _, _ = match.groups()
    version = version if version.count(".") == 2 else f"{version}.0"
    variant = versions.tag_from_cuda(cuda)
    package = Package("torch", version=version, variant=variant, cuda=cuda, installer="image", source=where)
    return Stack(packages=known((package,), where), complete=known(False, where), cuda=known(cuda, where))


def _tensorflow(tag: str, where: str) -> Optional[Stack]:
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(-gpu)?(-jupyter)?", tag)
    if not match:
        return None
    package = Package(
        "tensorflow" if match.group(2) else "tensorflow-cpu", version=match.group(1), installer="image", source=where
    )
    return Stack(packages=known((package,), where), complete=known(False, where))
