"""The user's own registry credentials: Docker's config.json, Podman's auth.json and Docker's credential helpers."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import msgspec

from envcheck.model.reference import HUB

HELPER_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/usr/sbin",
    "/opt/homebrew/bin",
    "/snap/bin",
)
HELPER_SECONDS = 10.0
MAX_FILE = 1 << 20
HUB_KEY = "https://index.docker.io/v1/"  # the key under which Docker keeps the Hub
TOKEN_USER = "<token>"  # noqa: S105 - a helper's way to say that the secret is an identity token


class Credentials(msgspec.Struct, frozen=True):
    """What to log in with; never shown. `identity_token` is Docker's refresh token."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""

    def __repr__(self) -> str:
        return "Credentials(***)"

    __str__ = __repr__

    @property
    def basic(self) -> str:
        """The value of a Basic Authorization header; '' where there is no name and password."""
        if not (self.username and self.password):
            return ""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class _Entry(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""
    registrytoken: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Entry] = {}
    credHelpers: dict[str, str] = {}  # noqa: N815 - Docker's spelling
    credsStore: str = ""  # noqa: N815


class _HelperAnswer(msgspec.Struct, rename="pascal"):
    username: str = ""
    secret: str = ""


def find_credentials(
    registry: str, repository: str = "", env: Optional[Mapping[str, str]] = None
) -> Optional[Credentials]:
    """What the user has stored for `registry`; None where nothing is. Broken files count as nothing."""
    environment = os.environ if env is None else env
    keys = _keys(registry, repository)
    for path in _files(environment):
        config = _read(path)
        if config is None:
            continue
        helper = next((config.credHelpers[key] for key in keys if key in config.credHelpers), config.credsStore)
        if helper:
            found = next((c for c in (ask_helper(helper, key, environment) for key in keys[:2]) if c), None)
            if found:
                return found
        for key in keys:
            if key in config.auths:
                entry = _from_entry(config.auths[key])
                if entry:
                    return entry
    return None


def _keys(registry: str, repository: str) -> list[str]:
    if registry == HUB:
        return [HUB_KEY, HUB, "index.docker.io", "https://index.docker.io/v1", "registry-1.docker.io"]
    parts = repository.split("/")
    # Podman may keep credentials for a namespace: the most specific first.
    spaces = ["/".join([registry, *parts[:count]]) for count in range(len(parts), 0, -1)] if repository else []
    return [registry, f"https://{registry}", f"https://{registry}/v1/", f"https://{registry}/v2/", *spaces]


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    home = env.get("HOME")
    if env.get("REGISTRY_AUTH_FILE"):
        yield Path(env["REGISTRY_AUTH_FILE"])
    if env.get("DOCKER_CONFIG"):
        yield Path(env["DOCKER_CONFIG"]) / "config.json"
    elif home:
        yield Path(home) / ".docker" / "config.json"
    if env.get("XDG_RUNTIME_DIR"):
        yield Path(env["XDG_RUNTIME_DIR"]) / "containers" / "auth.json"
    if home:
        yield Path(home) / ".config" / "containers" / "auth.json"


def _read(path: Path) -> Optional[_Config]:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            return None
        return msgspec.json.decode(path.read_bytes(), type=_Config)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _from_entry(entry: _Entry) -> Optional[Credentials]:
    username, password = entry.username, entry.password
    if entry.auth:
        with contextlib.suppress(binascii.Error, UnicodeDecodeError, ValueError):
            username, _, password = base64.b64decode(entry.auth).decode().rstrip("\0").partition(":")
    if not (username and password) and not entry.identitytoken and not entry.registrytoken:
        return None
    return Credentials(username, password, entry.identitytoken, entry.registrytoken)


def ask_helper(name: str, server: str, env: Mapping[str, str]) -> Optional[Credentials]:
    """What `docker-credential-NAME get` answers for `server`; found in well-known folders only, never by PATH."""
    program = _find_helper(name, env)
    if program is None:
        return None
    output = _run(program, server, env)
    if output is None:
        return None
    try:
        answer = msgspec.json.decode(output, type=_HelperAnswer)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not answer.secret:
        return None
    if answer.username == TOKEN_USER:
        return Credentials(identity_token=answer.secret)
    return Credentials(answer.username, answer.secret)


def _find_helper(name: str, env: Mapping[str, str]) -> Optional[Path]:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        return None
    folders = [Path(folder) for folder in HELPER_FOLDERS]
    if env.get("HOME") and hasattr(os, "geteuid") and os.geteuid() != 0:
        folders.append(Path(env["HOME"]) / ".docker" / "bin")  # Docker Desktop's; not as root
    for folder in folders:
        program = folder / f"docker-credential-{name}"
        if program.is_file() and os.access(program, os.X_OK):
            return program
    return None


def _run(program: Path, server: str, env: Mapping[str, str]) -> Optional[bytes]:
    clean = {k: v for k, v in env.items() if not k.startswith(("LD_", "PYTHON", "BASH_ENV"))}
    clean["PATH"] = ":".join(HELPER_FOLDERS)
    try:
        process = subprocess.Popen(
            [str(program), "get"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=clean,
            start_new_session=True,
            cwd="/",
        )
    except OSError:
        return None
    try:
        output, _ = process.communicate(server.encode(), timeout=HELPER_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        # A bounded wait: what can't be killed is left behind rather than waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        return None
    return output if process.returncode == 0 and len(output) <= MAX_FILE else None
