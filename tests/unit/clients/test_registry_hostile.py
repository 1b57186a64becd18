"""The guards: what a registry, its realm, a redirect or a body may do to us, each scripted on a local server."""

import gzip
import json
import socket
import threading
import time

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from envcheck.clients.registry import Options, Refused, RegistryError, read_image
from envcheck.clients.registry.auth import belongs, parse_challenge
from envcheck.model.reference import find_reference
from tests.unit.clients.registry_parts import Fake, Image

LOCAL = Options(insecure=True, seconds=8)
CANARY = "canary-s3cret"


@pytest.fixture
def other():
    """A second server: another host for whoever compares host and port."""
    with HTTPServer(host="127.0.0.1") as server:
        yield server


def read(fake, options=LOCAL):
    return read_image(find_reference(fake.name), options)


def store(home, host, password=CANARY):
    folder = home / ".docker"
    folder.mkdir(parents=True)
    import base64

    auth = base64.b64encode(f"me:{password}".encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def bearer(fake, realm):
    def before(request):
        if request.path.startswith("/v2/") and "Authorization" not in request.headers:
            return Response("{}", 401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'})
        return None

    fake.before = before


def test_a_token_is_fetched_with_scope_and_used(httpserver):
    fake = Fake(httpserver, Image(index=False))

    def before(request):
        if request.path == "/token":
            assert request.args["scope"] == "repository:nvidia/pytorch:pull"
            assert "Authorization" not in request.headers
            return Response(json.dumps({"token": "abc"}), 200)
        if request.headers.get("Authorization") != "Bearer abc":
            return Response("{}", 401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token",service="s"'})
        return None

    fake.before = before
    config = read(fake)
    assert config.requests == 4


def test_stored_credentials_go_to_the_realm_and_nowhere_else(httpserver, nobody):
    fake = Fake(httpserver, Image(index=False))
    store(nobody, fake.host)
    sent = {}

    def before(request):
        sent.setdefault(request.path, request.headers.get("Authorization", ""))
        if request.path == "/token":
            return Response(json.dumps({"access_token": "abc"}), 200)
        if request.headers.get("Authorization") != "Bearer abc":
            return Response("{}", 401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token",service="s"'})
        return None

    fake.before = before
    read(fake)
    assert sent.pop("/token").startswith("Basic ")
    assert not any(value.startswith("Basic") for value in sent.values())


def test_a_realm_on_another_host_gets_nothing(httpserver, other, nobody):
    fake = Fake(httpserver, Image())
    store(nobody, fake.host)
    asked = []
    other.expect_request("/token").respond_with_handler(lambda request: asked.append(request) or Response("{}", 200))
    bearer(fake, f"http://127.0.0.1:{other.port}/token")  # the registry is 'localhost'
    with pytest.raises(RegistryError, match="doesn't belong to it"):
        read(fake)
    assert asked == []


@pytest.mark.parametrize(
    ("realm", "registry", "expected"),
    [
        ("nvcr.io", "nvcr.io", True),
        ("auth.docker.io", "registry-1.docker.io", True),
        ("gitlab.com", "registry.gitlab.com", True),
        ("dockerauth.cn-hangzhou.aliyuncs.com", "registry.cn-hangzhou.aliyuncs.com", True),
        ("auth.nvcr.io", "nvcr.io", True),
        ("evil.com", "nvcr.io", False),
        ("nvcr.io.evil.com", "nvcr.io", False),
        ("evilnvcr.io", "nvcr.io", False),
        ("evil.azurecr.io", "mine.azurecr.io", False),
        ("evil.co.uk", "registry.co.uk", False),
        ("com", "registry.com", False),
        ("evil.com", "registry.com", False),
        ("10.0.0.2", "10.0.0.1", False),
        ("127.0.0.1", "localhost", False),
    ],
)
def test_which_realm_belongs_to_which_registry(realm, registry, expected):
    assert belongs(realm, registry) is expected


def test_a_realm_without_tls_gets_nothing(httpserver):
    fake = Fake(httpserver, Image())
    bearer(fake, "file:///etc/passwd")
    with pytest.raises(RegistryError, match="no usable place"):
        read(fake)


def test_a_redirect_to_another_host_loses_the_authorization(httpserver, other, nobody):
    fake = Fake(httpserver, Image(index=False))
    store(nobody, fake.host)
    seen = []

    def cdn(request):
        seen.append(dict(request.headers))
        name = request.path.rpartition("/")[2]
        return Response(fake.image.blobs[name], 200)

    other.expect_request(__import__("re").compile("/cdn/.*")).respond_with_handler(cdn)

    def before(request):
        if "Authorization" not in request.headers:
            return Response("{}", 401, {"WWW-Authenticate": 'Basic realm="x"'})
        if "/blobs/" in request.path:
            name = request.path.rpartition("/")[2]
            return Response("", 307, {"Location": f"http://127.0.0.1:{other.port}/cdn/{name}?sig={CANARY}"})
        return None

    fake.before = before
    assert read(fake).env["CUDA_VERSION"].startswith("12.4")
    assert len(seen) == 1
    assert "Authorization" not in seen[0]


def test_a_redirect_loop_ends(httpserver):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", 302, {"Location": request.path})
    with pytest.raises(RegistryError, match="redirects more than"):
        read(fake)
    assert len(fake.seen) <= 6


def test_a_redirect_to_a_file_is_refused(httpserver):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", 302, {"Location": "file:///etc/passwd"})
    with pytest.raises(RegistryError, match="redirects to file"):
        read(fake)


def test_a_signed_url_stays_out_of_the_message(httpserver, other):
    fake = Fake(httpserver, Image(index=False))
    other.expect_request("/cdn").respond_with_data(b"x" * (9 << 20))

    def before(request):
        if "/blobs/" in request.path:
            return Response("", 307, {"Location": f"http://127.0.0.1:{other.port}/cdn?sig={CANARY}"})
        return None

    fake.before = before
    with pytest.raises(RegistryError, match="larger than") as caught:
        read(fake)
    assert CANARY not in str(caught.value) + caught.value.what_to_do


def test_bytes_that_lie_about_their_digest_are_refused(httpserver):
    fake = Fake(httpserver, Image())
    for name in list(fake.image.blobs):
        fake.image.blobs[name] = fake.image.blobs[name].replace(b"12.4.1", b"12.8.1")
    with pytest.raises(RegistryError, match="don't have the digest"):
        read(fake)


def test_a_swapped_manifest_behind_a_pinned_digest_is_refused(httpserver):
    fake = Fake(httpserver, Image(index=False))
    pinned = fake.image.digest
    swapped = Image(env=["CUDA_VERSION=11.0.3"], index=False)
    fake.image.manifests[pinned] = (swapped.top_type, swapped.top)
    with pytest.raises(RegistryError, match="don't have the digest"):
        read_image(find_reference(f"{fake.host}/{fake.repository}@{pinned}"), LOCAL)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_three_tries_and_no_more(httpserver, status):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", status)
    with pytest.raises(RegistryError, match=str(status)):
        read(fake)
    assert len(fake.seen) == 3


def test_a_passing_trouble_is_waited_out(httpserver):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", 503) if len(fake.seen) < 3 else None
    assert read(fake).env


def test_a_long_retry_after_is_not_waited_for(httpserver):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", 429, {"Retry-After": "3600"})
    with pytest.raises(RegistryError, match="asks to wait 3600 s") as caught:
        read(fake)
    assert len(fake.seen) == 1
    assert "mirror" in caught.value.what_to_do


def test_an_endless_body_is_cut_off(httpserver):
    fake = Fake(httpserver, Image())

    def endless():
        while True:
            yield b" " * 65536

    fake.before = lambda request: Response(endless(), 200, direct_passthrough=True)
    with pytest.raises(RegistryError, match="larger than"):
        read(fake)


def test_a_gzip_bomb_is_cut_off(httpserver):
    bomb = gzip.compress(b" " * (64 << 20))
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response(bomb, 200, {"Content-Encoding": "gzip"})
    with pytest.raises(RegistryError, match="larger than"):
        read(fake)


def test_a_chain_of_encodings_is_refused(httpserver):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response(b"x", 200, {"Content-Encoding": "gzip, gzip, gzip"})
    with pytest.raises(RegistryError, match="packs its answer"):
        read(fake)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"<html>captive portal</html>",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"schemaVersion": 2, "manifests": []}',
        b'{"schemaVersion": 1, "name": "x"}',
        b'{"schemaVersion": 2, "config": {"digest": "sha256:short"}}',
        b'{"schemaVersion": 2, "config": {"digest": "../../etc/passwd"}}',
        json.dumps({"schemaVersion": 2, "manifests": [{"digest": "sha256:" + "0" * 64}] * 600}).encode(),
    ],
    ids=range(12),
)
def test_what_is_no_manifest_is_an_error_with_advice(httpserver, body):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response(body, 200)
    with pytest.raises(RegistryError) as caught:
        read(fake)
    assert caught.value.what_to_do
    assert caught.value.exit_code == 3


def test_an_index_within_an_index_within_an_index_is_refused(httpserver):
    fake = Fake(httpserver, Image())
    inner = fake.image.digest
    for _ in range(3):
        data = json.dumps({"schemaVersion": 2, "manifests": [{"digest": inner, "size": 1}]}).encode()
        from tests.unit.clients.registry_parts import OCI_INDEX, digest

        inner = digest(data)
        fake.image.manifests[inner] = (OCI_INDEX, data)
    with pytest.raises(RegistryError, match="within an index"):
        read_image(find_reference(f"{fake.host}/{fake.repository}@{inner}"), LOCAL)


@pytest.mark.parametrize(
    "header", ["", "Negotiate", 'Bearer realm="', "Digest realm=x", "Bearer " + "a=b," * 100_000, 'Basic realm="x"']
)
def test_odd_challenges_end_in_a_named_refusal(httpserver, header):
    fake = Fake(httpserver, Image())
    fake.before = lambda request: Response("", 401, {"WWW-Authenticate": header[:60000]})
    with pytest.raises(RegistryError):
        read(fake)
    assert len(fake.seen) <= 3


def test_wrong_credentials_are_refused_without_showing_them(httpserver, nobody):
    fake = Fake(httpserver, Image())
    store(nobody, fake.host)
    fake.before = lambda request: Response(
        '{"errors":[{"message":"denied"}]}', 401, {"WWW-Authenticate": 'Basic realm="x"'}
    )
    with pytest.raises(Refused, match="refuses") as caught:
        read(fake)
    shown = f"{caught.value}{caught.value.what_to_do}{caught.value!r}"
    assert CANARY not in shown
    assert "docker login" in caught.value.what_to_do


def test_netrc_is_not_used(httpserver, nobody):
    nobody.mkdir()
    (nobody / ".netrc").write_text(f"machine localhost login me password {CANARY}\n")
    fake = Fake(httpserver, Image())
    read(fake)
    assert all("Authorization" not in request.headers for request in fake.seen)


def test_a_token_with_a_newline_is_refused(httpserver):
    fake = Fake(httpserver, Image())

    def before(request):
        if request.path == "/token":
            return Response(json.dumps({"token": "a\r\nX-Evil: 1"}), 200)
        return Response("", 401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token"'})

    fake.before = before
    with pytest.raises(RegistryError, match="no token"):
        read(fake)


def test_the_challenge_is_read_with_quotes_and_commas():
    challenge = parse_challenge('Bearer realm="https://a.io/t?x=1,2",service="s v",scope="repository:a/b:pull,push"')
    assert challenge.realm == "https://a.io/t?x=1,2"
    assert challenge.scope == "repository:a/b:pull,push"


def serve(script):
    """A raw server: `script(connection)` for each connection; returns its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(20)

    def loop():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=run, args=(connection,), daemon=True).start()

    def run(connection):
        with connection:
            try:
                connection.recv(65536)
                script(connection)
            except OSError:
                pass

    threading.Thread(target=loop, daemon=True).start()
    return listener, listener.getsockname()[1]


def crawl_header(connection):
    for letter in b"HTTP/1.1 200 OK\r\nX: " + b"a" * 500:
        connection.sendall(bytes([letter]))
        threading.Event().wait(0.1)


def crawl_body(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(500):
        connection.sendall(b" ")
        threading.Event().wait(0.1)


@pytest.mark.parametrize("script", [crawl_header, crawl_body])
def test_a_server_that_crawls_is_given_up_at_the_deadline(script):
    listener, port = serve(script)
    started = time.monotonic()
    with listener, pytest.raises(RegistryError):
        read_image(find_reference(f"127.0.0.1:{port}/a/b:c"), Options(insecure=True, seconds=1.5))
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "script",
    [
        lambda c: None,
        lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
        lambda c: c.sendall(b"\x00\x01\x02 not http"),
        lambda c: c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"),
    ],
    ids=["closes", "truncates", "garbage", "resets"],
)
def test_a_broken_connection_is_tried_three_times_and_named(script):
    count = []

    def counted(connection):
        count.append(1)
        script(connection)

    listener, port = serve(counted)
    with listener, pytest.raises(RegistryError) as caught:
        read_image(find_reference(f"127.0.0.1:{port}/a/b:c"), Options(insecure=True, seconds=8))
    assert len(count) == 3
    assert caught.value.what_to_do


def test_nobody_listening_is_named():
    with pytest.raises(RegistryError, match="can't be reached"):
        read_image(find_reference("127.0.0.1:9/a/b:c"), Options(insecure=True, seconds=5))
