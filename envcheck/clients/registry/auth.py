"""Answers a registry's challenge: Basic, or a token from a realm that belongs to the registry's own domain."""

from __future__ import annotations

import ipaddress
import re
from typing import Optional
from urllib.parse import urlencode, urlsplit

import msgspec

from envcheck.clients.registry.credentials import Credentials
from envcheck.clients.registry.errors import Refused, RegistryError, login
from envcheck.clients.registry.transport import Transport, is_loopback

MAX_TOKEN = 256 * 1024
PARAMETER = re.compile(r'([A-Za-z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')

# What these registries are known to challenge with: asking for the token at once saves a request.
KNOWN_CHALLENGES = {
    "nvcr.io": ("https://nvcr.io/proxy_auth", ""),
    "registry-1.docker.io": ("https://auth.docker.io/token", "registry.docker.io"),
    "ghcr.io": ("https://ghcr.io/token", "ghcr.io"),
}
# Domains under which strangers are neighbours: a sibling there isn't the registry's own.
SHARED = frozenset(
    {
        "azurecr.io",
        "amazonaws.com",
        "azurewebsites.net",
        "github.io",
        "gitlab.io",
        "herokuapp.com",
        "run.app",
        "appspot.com",
        "web.app",
        "cloudfront.net",
        "ngrok.io",
        "ngrok-free.app",
        "netlify.app",
        "vercel.app",
        "pages.dev",
        "workers.dev",
        "fly.dev",
        "onrender.com",
        "jfrog.io",
        "myqcloud.com",
        "tencentcloudcr.com",
        "cloudapp.net",
        "trafficmanager.net",
        "blob.core.windows.net",
        "digitaloceanspaces.com",
    }
)
SECOND_LEVEL = frozenset({"co", "com", "net", "org", "ac", "gov", "edu", "or", "ne", "go"})


class Challenge(msgspec.Struct, frozen=True):
    """A WWW-Authenticate header: scheme in lower case, realm, service and scope."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


def parse_challenge(header: str) -> Optional[Challenge]:
    """The first Bearer or Basic challenge in the header; None for anything else."""
    match = re.search(r"\b(Bearer|Basic)\b", header[:4096], re.IGNORECASE)
    if not match:
        return None
    fields = {
        m.group(1).lower(): m.group(2) if m.group(2) is not None else m.group(3)
        for m in PARAMETER.finditer(header[match.end() : 4096])
    }
    return Challenge(
        match.group(1).lower(), fields.get("realm", ""), fields.get("service", ""), fields.get("scope", "")
    )


def belongs(realm_host: str, registry_host: str) -> bool:
    """Is `realm_host` the registry's own: the same host, its parent, or a sibling in a domain that isn't shared?"""
    realm, registry = realm_host.lower().rstrip("."), registry_host.lower().rstrip(".")
    if realm == registry:
        return True
    if _is_address(realm) or _is_address(registry) or "." not in registry:
        return False
    labels = registry.split(".")
    parent = ".".join(labels[-max(2, len(labels) - 1) :])
    if parent in SHARED or (len(parent.split(".")) == 2 and len(labels[-1]) == 2 and labels[-2] in SECOND_LEVEL):
        return realm.endswith(f".{registry}")
    return realm == parent or realm.endswith(f".{parent}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def authorize(
    challenge: Challenge, registry: str, scope: str, credentials: Optional[Credentials], transport: Transport
) -> str:
    """The Authorization header that answers `challenge`. Raises RegistryError; nothing is sent to a foreign realm."""
    host = urlsplit(f"//{registry}").hostname or registry
    if challenge.scheme == "basic":
        if credentials is None or not credentials.basic:
            raise Refused(f"{registry} wants a name and a password", login(registry))
        return credentials.basic
    if credentials is not None and credentials.registry_token:
        return f"Bearer {credentials.registry_token}"
    realm = urlsplit(challenge.realm)
    if realm.scheme not in ("http", "https") or not realm.hostname or realm.username:
        raise RegistryError(f"{registry} names no usable place to get a token from", "Ask who runs this registry.")
    if not belongs(realm.hostname, host):
        raise RegistryError(
            f"{registry} sends for its token to {realm.hostname}, which doesn't belong to it: nothing was sent there",
            "Check the name of the registry; a mirror or proxy may have changed it.",
        )
    if realm.scheme == "http" and not is_loopback(realm.hostname):
        raise RegistryError(
            f"{registry} sends for its token over plain http: nothing was sent", "Ask who runs this registry."
        )
    return _fetch_token(challenge, registry, challenge.scope or scope, credentials, transport)


def _fetch_token(
    challenge: Challenge, registry: str, scope: str, credentials: Optional[Credentials], transport: Transport
) -> str:
    fields = {key: value for key, value in (("service", challenge.service), ("scope", scope)) if value}
    if credentials is not None and credentials.identity_token:
        form = {
            **fields,
            "grant_type": "refresh_token",
            "client_id": "envcheck",
            "refresh_token": credentials.identity_token,
        }
        answer = transport.get(challenge.realm, cap=MAX_TOKEN, form=form)
    else:
        joint = "&" if "?" in challenge.realm else "?"
        basic = credentials.basic if credentials else ""
        answer = transport.get(f"{challenge.realm}{joint}{urlencode(fields)}", cap=MAX_TOKEN, authorization=basic)
    if answer.status in (400, 401, 403):
        who = "the stored credentials" if credentials else "an anonymous reader"
        raise Refused(f"{registry} gives {who} no token ({answer.status})", login(registry))
    if answer.status != 200:
        raise RegistryError(f"{registry} gives no token ({answer.status})", "Try again later.")
    try:
        token = msgspec.json.decode(answer.body, type=_Token)
    except (msgspec.DecodeError, RecursionError):
        raise RegistryError(f"{registry} answers with something that is no token", "Try again later.") from None
    value = token.token or token.access_token
    if not re.fullmatch(r"[\x21-\x7e]{1,65536}", value):
        raise RegistryError(f"{registry} answers with something that is no token", "Try again later.")
    return f"Bearer {value}"
