"""The real registry, once for each way to log in, and a private certificate authority."""

from __future__ import annotations

import pytest

from .real_registry import HTPASSWD, Registry, openssl


@pytest.fixture(scope="session")
def start_registry(tmp_path_factory):
    """Start one with extra YAML; all are stopped at the end."""
    running: list[Registry] = []

    def start(scheme: str = "http", extra: str = "") -> Registry:
        registry = Registry(tmp_path_factory.mktemp("registry"), scheme, extra)
        registry.start()
        running.append(registry)
        return registry

    yield start
    for registry in running:
        registry.stop()


@pytest.fixture(scope="session")
def open_registry(start_registry):
    """Anonymous."""
    return start_registry()


@pytest.fixture(scope="session")
def basic_registry(start_registry, tmp_path_factory):
    """Name and password."""
    file = tmp_path_factory.mktemp("htpasswd") / "htpasswd"
    file.write_text(HTPASSWD)
    return start_registry(extra=f"auth:\n  htpasswd: {{realm: canary, path: {file}}}\n")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """A private CA with a certificate for localhost: (folder with ca.crt, host.crt, host.key)."""
    folder = tmp_path_factory.mktemp("authority")
    subject = ["-subj", "/CN=envcheck test CA", "-days", "2"]
    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        f"{folder}/ca.key",
        "-out",
        f"{folder}/ca.crt",
        *subject,
    )
    openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        f"{folder}/host.key",
        "-out",
        f"{folder}/host.csr",
        "-subj",
        "/CN=localhost",
    )
    (folder / "ext").write_text("subjectAltName=DNS:localhost\n")
    openssl(
        "x509", "-req", "-in", f"{folder}/host.csr", "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key",
        "-CAcreateserial", "-days", "2", "-extfile", f"{folder}/ext", "-out", f"{folder}/host.crt",
    )  # fmt: skip
    return folder
