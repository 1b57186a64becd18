"""HTTP as a registry needs it: bounded in tries, time and size, redirects by hand, no credentials across hosts."""

from __future__ import annotations

import contextlib
import email.utils
import ssl
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec
import requests
import urllib3.exceptions
from requests.adapters import HTTPAdapter

from envcheck.clients.registry.errors import RegistryError, shown

T = TypeVar("T")
TRIES = 3
REDIRECTS = 5
CHUNK = 65536
FIRST_PAUSE = 0.25  # seconds; doubled for the next
MAX_PAUSE = 10.0
RETRYABLE = frozenset({429, 500, 502, 503, 504})
CERTIFICATES = Path("/etc/docker/certs.d")  # where Docker looks for a registry's own CA
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
FAULTS = (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ssl.SSLError)


class Answer(msgspec.Struct, frozen=True):
    """A response, read whole."""

    status: int
    headers: dict[str, str]  # lower-case names
    body: bytes
    url: str


def is_loopback(host: str) -> bool:
    """Is `host` (without port) this machine?"""
    return host.strip("[]").lower() in LOOPBACK or host.startswith("127.")


def bounded(work: Callable[[], T], seconds: float, what: str) -> T:
    """`work()`, given up after `seconds`: name look-up and a server that sends a byte now and then heed no timeout."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append((True, work()))
        except BaseException as fault:
            box.append((False, fault))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not box:
        raise RegistryError(f"{what} didn't finish in {seconds:.0f} s", "Try again, or give more time with --deadline.")
    good, value = box[0]
    if not good:
        raise value
    result: T = value
    return result


class Transport:
    """A session with counters. `deadline` is a time of time.monotonic()."""

    def __init__(self, deadline: float, *, verify: bool = True) -> None:
        self.deadline = deadline
        self.verify = verify
        self.requests = 0
        self.received = 0
        self._sessions: dict[str, requests.Session] = {}

    def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            session.close()

    def left(self) -> float:
        """Seconds to the deadline; raises RegistryError when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise RegistryError("the registry took too long", "Try again, or give more time with --deadline.")
        return left

    def get(
        self,
        url: str,
        *,
        cap: int,
        headers: Optional[Mapping[str, str]] = None,
        authorization: str = "",
        form: Optional[dict[str, str]] = None,
    ) -> Answer:
        """The answer to a GET (or, with `form`, a POST), read whole: at most `cap` bytes, at most three tries."""
        host = urlsplit(url).netloc.rpartition("@")[2]
        trouble = ""
        for attempt in range(TRIES):
            try:
                with self._open(url, headers or {}, authorization, form) as response:
                    body = self._body(response, cap)
                    answer = Answer(response.status_code, _headers(response), body, response.url)
            except FAULTS as fault:
                trouble = _reason(fault)
                wait: Optional[float] = None
            else:
                if answer.status not in RETRYABLE:
                    return answer
                trouble = f"answers {answer.status}"
                wait = _retry_after(answer.headers.get("retry-after", ""))
            if attempt + 1 < TRIES:
                pause = FIRST_PAUSE * 2**attempt if wait is None else wait
                if pause > min(MAX_PAUSE, self.deadline - time.monotonic()):
                    trouble += f" and asks to wait {pause:.0f} s" if wait is not None else ""
                    break
                time.sleep(pause)
        raise RegistryError(f"{host} {trouble}", _advice(trouble, host))

    @contextlib.contextmanager
    def stream(self, url: str, *, authorization: str = "") -> Iterator[Any]:
        """A raw body to read piece by piece: (status, headers, read)."""
        try:
            with self._open(url, {}, authorization, None) as response:

                def read(size: int = CHUNK) -> bytes:
                    self.left()
                    try:
                        data: bytes = response.raw.read(size, decode_content=False)
                    except FAULTS as fault:
                        raise RegistryError(f"{shown(url)} {_reason(fault)}", "Try again.") from None
                    self.received += len(data)
                    return data

                yield response.status_code, _headers(response), read
        except FAULTS as fault:
            raise RegistryError(f"{shown(url)} {_reason(fault)}", "Try again.") from None

    @contextlib.contextmanager
    def _open(
        self, url: str, headers: Mapping[str, str], authorization: str, form: Optional[dict[str, str]]
    ) -> Iterator[requests.Response]:
        """The response after redirects. Authorization goes to the first host only, and never from https to http."""
        first = urlsplit(url)
        for _ in range(REDIRECTS + 1):
            here = urlsplit(url)
            sent = {"Accept-Encoding": "identity", "User-Agent": "envcheck", **headers}
            if authorization and (here.scheme, here.netloc) == (first.scheme, first.netloc):
                sent["Authorization"] = authorization
            left = self.left()
            self.requests += 1
            with warnings.catch_warnings():
                if not self.verify:
                    warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
                response = self._session(here.netloc).request(
                    "POST" if form else "GET",
                    url,
                    headers=sent,
                    data=form,
                    timeout=(min(5.0, left), min(10.0, left)),
                    stream=True,
                    allow_redirects=False,
                )
            with response:
                if response.status_code not in (301, 302, 303, 307, 308) or "location" not in response.headers:
                    yield response
                    return
                target = urljoin(url, response.headers["location"])
            there = urlsplit(target)
            if there.scheme not in ("http", "https") or (here.scheme == "https" and there.scheme == "http"):
                raise RegistryError(
                    f"{here.netloc} redirects to {there.scheme}, which isn't safe", "Ask who runs this registry."
                )
            if form:
                raise RegistryError(f"{here.netloc} redirects a login", "Ask who runs this registry.")
            url = target
        raise RegistryError(f"{first.netloc} redirects more than {REDIRECTS} times", "Ask who runs this registry.")

    def _session(self, host: str) -> requests.Session:
        if host not in self._sessions:
            session = requests.Session()
            session.auth = _no_netrc
            session.verify = self.verify
            own = sorted((CERTIFICATES / host).glob("*.crt")) if self.verify and "/" not in host else []
            if own:
                context = ssl.create_default_context()
                for file in own:
                    context.load_verify_locations(cafile=str(file))
                session.mount("https://", _OwnAuthority(context))
            self._sessions[host] = session
        return self._sessions[host]

    def _body(self, response: requests.Response, cap: int) -> bytes:
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity", "gzip"):
            raise RegistryError("the registry packs its answer in a way that wasn't asked for", "Ask who runs it.")
        parts: list[bytes] = []
        size = 0
        while True:
            self.left()
            data = response.raw.read(CHUNK, decode_content=True)
            if not data:
                break
            size += len(data)
            if size > cap:
                raise RegistryError(
                    f"{shown(response.url)} is larger than {cap // 1024} KB", "No image needs that: it is refused."
                )
            parts.append(data)
        self.received += response.raw.tell() if hasattr(response.raw, "tell") else size
        return b"".join(parts)


class _OwnAuthority(HTTPAdapter):
    """An adapter that also trusts the certificates that Docker was given for this registry."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> Any:
        """The pool, with our context."""
        return super().init_poolmanager(*args, ssl_context=self._context, **kwargs)


def _no_netrc(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Authentication is ours alone: without this, requests adds what ~/.netrc holds."""
    return request


def _headers(response: requests.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _retry_after(value: str) -> Optional[float]:
    if value.isdigit():
        return float(value)
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, when.timestamp() - time.time())


def _reason(fault: BaseException) -> str:
    """Why, in few words; never the fault's own text, which may hold a URL with a token in it."""
    if isinstance(fault, requests.exceptions.ProxyError):
        return "can't be reached through the proxy"
    if isinstance(fault, (requests.exceptions.SSLError, ssl.SSLError, urllib3.exceptions.SSLError)):
        return "has a certificate that isn't trusted, or doesn't speak TLS"
    if isinstance(fault, (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)):
        return "doesn't answer in time"
    if "NameResolution" in repr(fault) or "getaddrinfo" in repr(fault):
        return "has no address: the name isn't known here"
    if isinstance(fault, (requests.exceptions.ChunkedEncodingError, urllib3.exceptions.ProtocolError)):
        return "breaks off in the middle of its answer"
    return "can't be reached"


def _advice(trouble: str, host: str) -> str:
    if "429" in trouble:
        return f"Its rate limit is reached: log in (`docker login {host}`), wait, or use --registry-mirror."
    if "certificate" in trouble:
        return (
            f"Put its CA into {CERTIFICATES}/{host}/ca.crt or name it in REQUESTS_CA_BUNDLE; "
            "for a registry on this machine without TLS: --insecure."
        )
    if "proxy" in trouble:
        return "Check HTTPS_PROXY and NO_PROXY."
    return (
        "Check the network and the name, use --registry-mirror, or judge an image that is here: `docker pull` it first."
    )
