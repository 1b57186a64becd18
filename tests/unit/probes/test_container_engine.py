"""The container engine by its files and by its socket."""

import json
import os
import socket
import threading
import time

import pytest

import envcheck.probes.container_engine as module
from envcheck.probes.container_engine import _ask_docker, _from_info
from envcheck.probes.package_db import PackageDatabase
from envcheck.probes.probe import Scene
from envcheck.probes.runner import NoRunner
from envcheck.probes.tree import Tree

INFO = {
    "ServerVersion": "27.3.1",
    "Runtimes": {"runc": {}, "nvidia": {}},
    "DefaultRuntime": "nvidia",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "SecurityOptions": ["name=seccomp", "name=rootless"],
    "CDISpecDirs": ["/etc/cdi"],
}


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """`engine(answer)` serves one connection on a socket; gives what the probe made of it."""
    path = str(tmp_path / "docker.sock")
    monkeypatch.setattr(module, "SOCKET", path)

    def ask(answer, left=5.0):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(1)

            def serve():
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    answer(connection)

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            tree = Tree()
            scene = Scene(tree, NoRunner(), {}, None, frozenset(), time.monotonic() + left, PackageDatabase(tree))
            try:
                return _ask_docker(scene)
            finally:
                os.unlink(path)

    return ask


def test_the_engines_own_word(engine):
    body = json.dumps(INFO).encode()
    told = engine(lambda c: c.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body))
    found = _from_info(told, snap=False)
    assert (found.version, found.runtimes, found.default_runtime) == ("27.3.1", ("nvidia", "runc"), "nvidia")
    assert (found.rootless, found.cgroup_driver, found.cgroup_version, found.cdi) == (True, "systemd", 2, True)


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.0 500 Oops\r\n\r\n{}", b"HTTP/1.0 200 OK\r\n\r\n[1]", b"HTTP/1.0 200 OK\r\n\r\n{", b"\xff" * 100],
)
def test_any_other_answer_is_no_answer(engine, answer):
    assert engine(lambda c: c.sendall(answer)) is None


def test_an_engine_that_says_nothing_costs_little_time(engine, monkeypatch):
    monkeypatch.setattr(module, "SOCKET_SECONDS", 0.3)
    started = time.monotonic()
    assert engine(lambda c: time.sleep(3)) is None
    assert time.monotonic() - started < 1.5


def test_an_engine_that_trickles_costs_little_time(engine, monkeypatch):
    monkeypatch.setattr(module, "SOCKET_SECONDS", 0.3)

    def trickle(connection):
        for _ in range(30):
            try:
                connection.sendall(b"x")
            except OSError:
                return
            time.sleep(0.1)

    started = time.monotonic()
    assert engine(trickle) is None
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("field", sorted(INFO))
def test_a_field_of_another_kind_raises_nothing(field):
    for value in (None, 3, "x", [], {}, [None]):
        _from_info({**INFO, field: value}, snap=False)
