"""Where credentials come from: config files in every shape, and helpers that hang, lie or aren't there."""

import base64
import json
import time
from pathlib import Path

import pytest

from envcheck.clients.registry import credentials
from envcheck.clients.registry.credentials import find_credentials

SECRET = "s3cret-canary"


def env(home):
    return {"HOME": str(home), "PATH": "/nowhere"}


def write(home, content, folder=".docker", name="config.json"):
    place = home / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(content if isinstance(content, str) else json.dumps(content))


def auth(text=f"me:{SECRET}"):
    return {"auth": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("key", ["reg.example", "https://reg.example", "https://reg.example/v1/"])
def test_docker_config_by_any_key(nobody, key):
    write(nobody, {"auths": {key: auth()}})
    assert find_credentials("reg.example", env=env(nobody)).password == SECRET


def test_docker_hub_has_a_key_of_its_own(nobody):
    write(nobody, {"auths": {"https://index.docker.io/v1/": auth()}})
    assert find_credentials("docker.io", env=env(nobody)).username == "me"


def test_a_password_may_hold_a_colon(nobody):
    write(nobody, {"auths": {"reg.example": auth("$oauthtoken:a:b")}})
    found = find_credentials("reg.example", env=env(nobody))
    assert (found.username, found.password) == ("$oauthtoken", "a:b")


def test_an_identity_token(nobody):
    write(nobody, {"auths": {"reg.example": {"auth": "", "identitytoken": SECRET}}})
    assert find_credentials("reg.example", env=env(nobody)).identity_token == SECRET


def test_podman_keeps_them_by_namespace(nobody):
    write(nobody, {"auths": {"reg.example/team": auth()}}, ".config/containers", "auth.json")
    assert find_credentials("reg.example", "team/app", env=env(nobody))
    assert find_credentials("reg.example", "other/app", env=env(nobody)) is None


def test_docker_config_variable(nobody, tmp_path):
    write(tmp_path, {"auths": {"reg.example": auth()}}, "elsewhere")
    assert find_credentials("reg.example", env={**env(nobody), "DOCKER_CONFIG": str(tmp_path / "elsewhere")})


def test_another_registrys_credentials_are_not_taken(nobody):
    write(nobody, {"auths": {"reg.example": auth()}})
    assert find_credentials("reg.example.evil.com", env=env(nobody)) is None
    assert find_credentials("evil-reg.example", env=env(nobody)) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"auths": 3}', '{"auths": {"reg.example": {"auth": "%%%"}}}', "\x00", "[" * 100_000]
)
def test_a_broken_file_counts_as_nothing(nobody, content):
    write(nobody, content)
    assert find_credentials("reg.example", env=env(nobody)) is None


def test_credentials_never_show_themselves(nobody):
    write(nobody, {"auths": {"reg.example": auth()}})
    found = find_credentials("reg.example", env=env(nobody))
    assert SECRET not in f"{found} {found!r} {[found]}"


@pytest.fixture
def helper(tmp_path, monkeypatch):
    """Install a helper script into the only folder that is looked at."""
    folder = tmp_path / "helpers"
    folder.mkdir()
    monkeypatch.setattr(credentials, "HELPER_FOLDERS", (str(folder), "/bin", "/usr/bin"))

    def install(name, body):
        script = folder / f"docker-credential-{name}"
        script.write_text(f"#!/bin/sh\n{body}\n")
        script.chmod(0o755)
        return folder

    return install


def test_a_helper_for_one_registry(nobody, helper):
    helper("ours", f'read server; echo "{{\\"Username\\":\\"$server\\",\\"Secret\\":\\"{SECRET}\\"}}"')
    write(nobody, {"credHelpers": {"reg.example": "ours"}})
    found = find_credentials("reg.example", env=env(nobody))
    assert (found.username, found.password) == ("reg.example", SECRET)
    assert find_credentials("other.example", env=env(nobody)) is None


def test_a_store_for_all_registries(nobody, helper):
    helper("desktop", f'echo \'{{"Username":"<token>","Secret":"{SECRET}"}}\'')
    write(nobody, {"credsStore": "desktop"})
    assert find_credentials("any.example", env=env(nobody)).identity_token == SECRET


def test_a_helper_is_not_looked_for_on_path(nobody, helper, tmp_path):
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "docker-credential-x").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (evil / "docker-credential-x").chmod(0o755)
    write(nobody, {"credsStore": "x"})
    assert find_credentials("reg.example", env={**env(nobody), "PATH": str(evil)}) is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x; touch /tmp/y", "-x"])
def test_a_helper_name_is_a_name(nobody, helper, name):
    write(nobody, {"credHelpers": {"reg.example": name}})
    assert find_credentials("reg.example", env=env(nobody)) is None


@pytest.mark.parametrize("body", ["exit 1", "echo nonsense", "echo '{}'", "head -c 2000000 /dev/zero"])
def test_a_useless_helper_counts_as_nothing(nobody, helper, body):
    helper("bad", body)
    write(nobody, {"credsStore": "bad"})
    assert find_credentials("reg.example", env=env(nobody)) is None


def test_a_helper_that_hangs_is_ended_with_its_children(nobody, helper, monkeypatch, tmp_path):
    monkeypatch.setattr(credentials, "HELPER_SECONDS", 0.3)
    helper("slow", f"sleep 60 & echo $! > {tmp_path}/child; trap '' TERM; wait")
    write(nobody, {"credHelpers": {"reg.example": "slow"}})
    started = time.monotonic()
    assert find_credentials("reg.example", env=env(nobody)) is None
    assert time.monotonic() - started < 3
    state = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    for _ in range(50):
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.02)
    else:
        pytest.fail("the helper's child is still there")
