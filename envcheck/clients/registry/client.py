"""Reads an image's manifest and config from its registry: what it is, without pulling it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Optional
from urllib.parse import urlsplit

import msgspec

from envcheck.clients.registry import manifest as formats
from envcheck.clients.registry.auth import KNOWN_CHALLENGES, Challenge, authorize, parse_challenge
from envcheck.clients.registry.credentials import find_credentials
from envcheck.clients.registry.errors import NotFound, Refused, RegistryError, login, said
from envcheck.clients.registry.transport import Answer, Transport, bounded, is_loopback
from envcheck.errors import UsageError
from envcheck.model.image import ImageConfig
from envcheck.model.reference import HUB, Reference

MAX_MANIFEST = 4 << 20
MAX_CONFIG = 8 << 20
MAX_DEPTH = 2
HUB_HOST = "registry-1.docker.io"


class Options(msgspec.Struct, frozen=True):
    """How to reach registries. `mirrors` are 'URL' (for Docker Hub) or 'REGISTRY=URL'."""

    arch: str = "x86_64"
    seconds: float = 20.0
    mirrors: tuple[str, ...] = ()
    insecure: bool = False  # plain http or an unverified certificate, for a registry on this machine
    force_insecure: bool = False  # … for any


class Endpoint(msgspec.Struct, frozen=True):
    """Where to ask: the API's base URL, the host, and what goes before the repository (a mirror's project)."""

    base: str
    host: str
    prefix: str = ""
    mirror: bool = False


class Registry:
    """A conversation with one endpoint about one repository; keeps the Authorization header it earned."""

    def __init__(self, endpoint: Endpoint, reference: Reference, transport: Transport) -> None:
        self.endpoint = endpoint
        self.reference = reference
        self.transport = transport
        self.repository = f"{endpoint.prefix}{reference.repository}"
        self._authorization = ""

    def manifest(self, wanted: str) -> bytes:
        """The bytes of the manifest with this tag or digest; a digest is verified."""
        answer = self._get(f"manifests/{wanted}", MAX_MANIFEST, {"Accept": formats.ACCEPT})
        told = answer.headers.get("docker-content-digest", "")
        if ":" in wanted:
            formats.verify(answer.body, wanted, "a manifest", self.endpoint.host)
        elif told:
            formats.verify(answer.body, told, "a manifest", self.endpoint.host)
        return answer.body

    def blob(self, digest: str, cap: int) -> bytes:
        """The bytes of a blob, verified."""
        if not formats.DIGEST.fullmatch(digest):
            raise RegistryError(f"{self.endpoint.host} names a blob by no usable digest", "Ask who runs it.")
        answer = self._get(f"blobs/{digest}", cap, {})
        formats.verify(answer.body, digest, "a blob", self.endpoint.host)
        return answer.body

    def tags(self) -> list[str]:
        """The repository's tags as far as one page goes."""
        body = self._get("tags/list", MAX_MANIFEST, {}).body
        try:
            return msgspec.json.decode(body, type=_Tags).tags or []
        except (msgspec.DecodeError, RecursionError):
            return []

    @contextlib.contextmanager
    def open_blob(self, digest: str) -> Iterator[Any]:
        """A blob to read piece by piece; the reader verifies it."""
        if not formats.DIGEST.fullmatch(digest):
            raise RegistryError(f"{self.endpoint.host} names a layer by no usable digest", "Ask who runs it.")
        with self.transport.stream(self._url(f"blobs/{digest}"), authorization=self._authorization) as opened:
            status, _, read = opened
            if status != 200:
                raise RegistryError(f"{self.endpoint.host} answers {status} for a layer", "Try again.")
            yield read

    def _url(self, path: str) -> str:
        return f"{self.endpoint.base}/v2/{self.repository}/{path}"

    def _get(self, path: str, cap: int, headers: dict[str, str]) -> Answer:
        self._foresee()
        answer = self.transport.get(self._url(path), cap=cap, headers=headers, authorization=self._authorization)
        if answer.status == 401:
            challenge = parse_challenge(answer.headers.get("www-authenticate", ""))
            if challenge is None:
                raise Refused(f"{self.endpoint.host} refuses, and doesn't say how to log in", login(self._host))
            self._answer(challenge)
            answer = self.transport.get(self._url(path), cap=cap, headers=headers, authorization=self._authorization)
        return self._checked(answer)

    def _foresee(self) -> None:
        """Ask a registry whose challenge is known for a token at once; if that fails, its own challenge will tell."""
        if self._authorization or self.endpoint.host not in KNOWN_CHALLENGES:
            return
        realm, service = KNOWN_CHALLENGES[self.endpoint.host]
        with contextlib.suppress(RegistryError):
            self._answer(Challenge("bearer", realm, service))

    def _answer(self, challenge: Challenge) -> None:
        credentials = None
        scheme = urlsplit(self.endpoint.base).scheme
        if scheme == "https" or is_loopback(urlsplit(self.endpoint.base).hostname or ""):  # never in the clear
            name = HUB if self.endpoint.host == HUB_HOST else self.endpoint.host
            credentials = find_credentials(name, self.repository)
        scope = f"repository:{self.repository}:pull"
        self._authorization = authorize(challenge, self.endpoint.host, scope, credentials, self.transport)

    @property
    def _host(self) -> str:
        return "" if self.endpoint.host == HUB_HOST else self.endpoint.host

    def _checked(self, answer: Answer) -> Answer:
        if answer.status == 200:
            return answer
        words = said(answer.body)
        tail = f": {words}" if words else ""
        if answer.status == 404:
            raise NotFound(f"{self.endpoint.host} has no {self.reference}{tail}", "Check the name and the tag.")
        if answer.status in (401, 403):
            raise Refused(
                f"{self.endpoint.host} refuses {self.reference}: it is private, or isn't there{tail}",
                login(self._host),
            )
        raise RegistryError(f"{self.endpoint.host} answers {answer.status}{tail}", "Try again later.")


class _Tags(msgspec.Struct):
    tags: Optional[list[str]] = None


def endpoints(reference: Reference, options: Options) -> list[Endpoint]:
    """Mirrors first, then the registry itself. Raises UsageError for a mirror that is no URL, or unsafe."""
    found = []
    for text in options.mirrors:
        registry, _, url = text.rpartition("=") if "=" in text.partition("://")[0] else ("", "", text)
        split = urlsplit(url if "://" in url else f"https://{url}")
        if split.scheme not in ("http", "https") or not split.hostname or split.username:
            raise UsageError(f"{text!r} is no mirror", "Say --registry-mirror [REGISTRY=]https://HOST[/PROJECT].")
        if (registry or HUB) != reference.registry:
            continue
        if split.scheme == "http":
            _allow_insecure(split.hostname, options)
        prefix = split.path.strip("/")
        prefix = prefix.removeprefix("v2/")
        found.append(
            Endpoint(f"{split.scheme}://{split.netloc}", split.netloc, f"{prefix}/" if prefix else "", mirror=True)
        )
    host = HUB_HOST if reference.registry == HUB else reference.registry
    scheme = "https"
    if options.insecure or options.force_insecure:
        name = urlsplit(f"//{host}").hostname or host
        _allow_insecure(name, options)
        scheme = "http"
    found.append(Endpoint(f"{scheme}://{host}", host))
    return found


def _allow_insecure(host: str, options: Options) -> None:
    if options.force_insecure or (is_loopback(host) and options.insecure):
        return
    if is_loopback(host):
        raise UsageError(f"{host} without TLS needs --insecure", "It is on this machine: add --insecure.")
    raise UsageError(
        f"--insecure is for a registry on this machine, not for {host}",
        "Anybody on the way could change what the image says of itself. If that is all right: --force-insecure.",
    )


def read_image(reference: Reference, options: Options) -> ImageConfig:
    """The image's config for `options.arch`. Raises NotFound, Refused or RegistryError."""
    return bounded(lambda: _read_image(reference, options), options.seconds, f"asking {reference.registry}")


def _read_image(reference: Reference, options: Options) -> ImageConfig:
    with open_transport(options) as transport:
        return _ask_in_turn(reference, options, transport)


@contextlib.contextmanager
def open_transport(options: Options) -> Iterator[Transport]:
    """A transport with the deadline of `options`, closed at the end."""
    transport = Transport(time.monotonic() + options.seconds, verify=not options.force_insecure)
    try:
        yield transport
    finally:
        transport.close()


def _ask_in_turn(reference: Reference, options: Options, transport: Transport) -> ImageConfig:
    remarks: list[str] = []
    places = endpoints(reference, options)
    for place, endpoint in enumerate(places):
        try:
            config, _ = converse(Registry(endpoint, reference, transport), options.arch)
        except RegistryError as failure:  # noqa: PERF203 - a mirror or two
            if place + 1 == len(places):
                raise
            remarks.append(f"the mirror {endpoint.host} was of no use: {failure}")
        else:
            return msgspec.structs.replace(config, remarks=(*remarks, *config.remarks))
    raise RegistryError("no registry to ask", "Name an image.")


def converse(registry: Registry, arch: str) -> tuple[ImageConfig, Registry]:
    """Tag or digest to manifest to config, through at most two indexes."""
    reference, host = registry.reference, registry.endpoint.host
    data = registry.manifest(reference.digest or reference.tag)
    digest = reference.digest or formats.digest_of(data)
    parsed = formats.parse_manifest(data, host)
    offered: tuple[str, ...] = ()
    for _ in range(MAX_DEPTH):
        if parsed.manifests is None:
            break
        offered = offered or formats.architectures(parsed.manifests)
        chosen = formats.choose(parsed.manifests, arch)
        parsed = formats.parse_manifest(registry.manifest(chosen.digest), host)
    if parsed.config is None or parsed.manifests is not None:
        raise RegistryError(f"{host} gave an index within an index within an index", "It is refused.")
    config = formats.parse_config(registry.blob(parsed.config.digest, MAX_CONFIG), host)
    what = "mirror" if registry.endpoint.mirror else "registry"
    return (
        ImageConfig(
            reference=str(reference),
            source=f"{what} {host}",
            digest=digest,
            arch=config.architecture,
            os=config.os,
            env=formats.env_of(config),
            labels=(config.config.labels or {}) if config.config else {},
            created=config.created or "",
            history=tuple(entry.created_by for entry in config.history or ()),
            layers=formats.layers_of(parsed),
            architectures=offered or ((config.architecture,) if config.architecture else ()),
            requests=registry.transport.requests,
            received_bytes=registry.transport.received,
        ),
        registry,
    )


def list_tags(reference: Reference, options: Options) -> list[str]:
    """The tags of the repository, for 'did you mean'; empty where they can't be had."""
    seconds = min(options.seconds, 10.0)

    def ask() -> list[str]:
        with open_transport(msgspec.structs.replace(options, seconds=seconds)) as transport:
            return Registry(endpoints(reference, options)[-1], reference, transport).tags()

    try:
        return bounded(ask, seconds, f"asking {reference.registry}")
    except RegistryError:
        return []
