"""What a registry can do wrong, each with what to do about it; never anything of the credentials."""

from __future__ import annotations

import re

from envcheck.errors import InspectError


def login(host: str) -> str:
    """What to do about a refusal; `host` is empty for Docker Hub, as on Docker's command line."""
    return f"Log in (`{f'docker login {host}'.rstrip()}`), or check that the account may pull this image."


class RegistryError(InspectError):
    """The registry can't be used: unreachable, refusing, lying or broken."""


class Refused(RegistryError):
    """401 or 403: no credentials, wrong ones, or no such repository (many registries don't tell these apart)."""


class NotFound(RegistryError):
    """404: no such repository or tag."""


def said(body: bytes) -> str:
    """The registry's own words, made safe for a terminal: at most 160 printable characters."""
    match = re.search(rb'"message"\s*:\s*"([^"\\]{1,160})', body[:65536])
    text = match.group(1).decode("utf-8", "replace") if match else ""
    return "".join(c for c in text if c.isprintable())


def shown(url: str) -> str:
    """A URL without its query and user part: both may hold secrets."""
    return re.sub(r"//[^/@]*@", "//", url.partition("?")[0])
