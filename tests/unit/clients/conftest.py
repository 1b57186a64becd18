"""A user with no credentials, and registries on loopback."""

import pytest


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """No credentials and no proxy of this machine's user reach a test."""
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("envcheck.clients.registry.transport.FIRST_PAUSE", 0.01)
    return tmp_path / "home"
