"""A container image reference ('nvcr.io/nvidia/pytorch:24.05-py3@sha256:…'), parsed by Docker's grammar."""

from __future__ import annotations

import re
from typing import Optional

import msgspec

HUB = "docker.io"
ALIASES = {"index.docker.io": HUB, "registry-1.docker.io": HUB, "registry.hub.docker.com": HUB}

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::\d{{1,5}})?"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?",
    re.ASCII,
)


class Reference(msgspec.Struct, frozen=True):
    """Where an image is: `registry` as a person writes it, `repository`, and a tag, a digest or both."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository, the Hub's 'library' left out as people do."""
        path = self.repository[len("library/") :] if self._official else self.repository
        return path if self.registry == HUB else f"{self.registry}/{path}"

    @property
    def _official(self) -> bool:
        return self.registry == HUB and self.repository.startswith("library/")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"


def find_reference(text: str) -> Optional[Reference]:
    """The reference in `text`, 'latest' where it says neither tag nor digest; None for what is none."""
    if len(text) > 512:
        return None
    match = _REFERENCE.fullmatch(text)
    if not match:
        return None
    host, path = match.group("host"), match.group("path")
    if host and not ("." in host or ":" in host or host == "localhost"):
        host, path = None, f"{host}/{path}"  # 'pytorch/pytorch': the first part is no host
        if not re.fullmatch(rf"{_PART}(?:/{_PART})*", path):
            return None
    registry = ALIASES.get(host.lower(), host.lower()) if host else HUB
    if registry == HUB and "/" not in path:
        path = f"library/{path}"
    tag, digest = match.group("tag") or "", match.group("digest") or ""
    return Reference(registry, path, tag or ("" if digest else "latest"), digest)


def same_image(left: str, right: str) -> bool:
    """Do both name one repository and tag? ('nvidia/cuda:12.4.1-base-ubi9' and 'docker.io/nvidia/cuda:…' do.)"""
    a, b = find_reference(left), find_reference(right)
    return a is not None and b is not None and (a.name, a.tag) == (b.name, b.tag)
