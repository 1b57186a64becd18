"""Against the real registry: anonymous, password, tokens, a private CA, a mirror, layers, and the whole command."""

import json
import time

import pytest
import requests
from werkzeug import Response

from envcheck.clients.registry import NotFound, Options, Refused, RegistryError, read_image
from envcheck.clients.registry.layers import read_layers
from envcheck.model.reference import find_reference

from .real_registry import HTPASSWD, NGC_ENV, PASSWORD, REPOSITORY, USER, Image, basic, signed_token, tar

pytestmark = pytest.mark.integration
LOCAL = Options(insecure=True, seconds=20)
METADATA = "usr/local/lib/python3.10/dist-packages/torch-2.4.0.dist-info/METADATA"


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def login(home, host, secret=None):
    (home / ".docker").mkdir(parents=True)
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": secret or basic()}}}))


def reference(registry, tag="24.05-py3"):
    return find_reference(f"{registry.host}/{REPOSITORY}:{tag}")


def multi_arch():
    """As NVIDIA's are: both architectures, some twenty layers, a config with the whole environment."""
    layers = [tar({f"layer{n}": bytes([n]) * 2000}) for n in range(20)]
    layers.append(tar({METADATA: b"Metadata-Version: 2.1\nName: torch\nVersion: 2.4.0\n"}))
    return Image(
        env=[*NGC_ENV, *(f"FILLER_{n}={'x' * 200}" for n in range(60))],
        arches=("amd64", "arm64"),
        layers=layers,
        index=False,
    )


def test_anonymous(open_registry):
    open_registry.push(multi_arch(), "24.05-py3")
    config = read_image(reference(open_registry), LOCAL)
    assert config.env["NVIDIA_PYTORCH_VERSION"] == "24.05"
    assert config.requests <= 4
    assert config.received_bytes < 200_000


def test_an_index_of_two_architectures_in_both_formats(open_registry):
    for docker in (False, True):
        image = Image(arches=("amd64", "arm64"), docker=docker, index=True)
        image.top = json.dumps(
            {**json.loads(image.top), "manifests": json.loads(image.top)["manifests"][:2]}
        ).encode()  # the real registry wants every entry to be there
        image.manifests = {name: value for name, value in image.manifests.items() if value[0] != image.top_type}
        open_registry.push(image, f"index-{docker}".lower())
        config = read_image(reference(open_registry, f"index-{docker}".lower()), Options(insecure=True, arch="aarch64"))
        assert (config.arch, config.architectures) == ("arm64", ("amd64", "arm64"))
        assert config.requests == 3


def test_a_pinned_digest(open_registry):
    image = multi_arch()
    open_registry.push(image, "pinned")
    pinned = find_reference(f"{open_registry.host}/{REPOSITORY}@{image.digest}")
    assert read_image(pinned, LOCAL).digest == image.digest


def test_layers_are_read_as_they_stream(open_registry):
    open_registry.push(multi_arch(), "layers")
    _, reading = read_layers(reference(open_registry, "layers"), LOCAL)
    assert [file.path for file in reading.files] == [f"/{METADATA}"]
    assert reading.whole


def test_a_wrong_tag(open_registry):
    open_registry.push(multi_arch(), "24.05-py3")
    with pytest.raises(NotFound):
        read_image(reference(open_registry, "nothing"), LOCAL)


def test_name_and_password(basic_registry, nobody):
    login(nobody, basic_registry.host)
    basic_registry.push(multi_arch(), "24.05-py3", {"Authorization": f"Basic {basic()}"})
    config = read_image(reference(basic_registry), LOCAL)
    assert config.env["CUDA_VERSION"].startswith("12.4")
    assert config.requests <= 4


@pytest.mark.parametrize("secret", [None, basic(USER, "wrong")], ids=["none", "wrong"])
def test_without_the_right_password_it_is_refused_and_nothing_shows(basic_registry, nobody, secret):
    if secret:
        login(nobody, basic_registry.host, secret)
    with pytest.raises(Refused) as caught:
        read_image(reference(basic_registry), LOCAL)
    shown = f"{caught.value} {caught.value.what_to_do}"
    assert "docker login" in shown
    assert PASSWORD not in shown
    assert HTPASSWD not in shown


@pytest.fixture
def token_registry(start_registry, authority, httpserver):
    """A registry that sends for tokens to a server of ours, which grants pulls to who has the password."""
    service = "test registry"
    registry = start_registry(
        extra=(
            f"auth:\n  token:\n    realm: http://localhost:{httpserver.port}/token\n    service: {service}\n"
            f"    issuer: envcheck test\n    rootcertbundle: {authority}/ca.crt\n"
        )
    )
    asked = []

    def grant(request):
        asked.append(request)
        if request.headers.get("Authorization") not in (None, f"Basic {basic()}"):
            return Response("{}", 401)
        anonymous = "Authorization" not in request.headers
        actions = ["pull", "push"] if request.args.get("scope", "").endswith("push") else ["pull"]
        access = [{"type": "repository", "name": REPOSITORY, "actions": actions}]
        allowed = [] if anonymous and registry_private[0] else access
        return Response(json.dumps({"token": signed_token(authority, service, allowed)}), 200)

    registry_private = [False]
    httpserver.expect_request("/token").respond_with_handler(grant)
    token = signed_token(authority, service, [{"type": "repository", "name": REPOSITORY, "actions": ["pull", "push"]}])
    registry.push(multi_arch(), "24.05-py3", {"Authorization": f"Bearer {token}"})
    registry.asked, registry.private = asked, registry_private
    return registry


def test_an_anonymous_token(token_registry):
    config = read_image(reference(token_registry), LOCAL)
    assert config.env["CUDA_VERSION"].startswith("12.4")
    assert config.requests == 4
    assert config.received_bytes < 200_000
    assert len(token_registry.asked) == 1


def test_a_token_for_a_password(token_registry, nobody):
    token_registry.private[0] = True
    with pytest.raises(Refused):
        read_image(reference(token_registry), LOCAL)
    login(nobody, token_registry.host)
    assert read_image(reference(token_registry), LOCAL).env


def test_a_private_authority_by_variable_and_by_dockers_folder(start_registry, authority, monkeypatch, tmp_path):
    extra = f"  tls: {{certificate: {authority}/host.crt, key: {authority}/host.key}}\n"
    registry = start_registry("https", extra)
    registry.push(multi_arch(), "24.05-py3", verify=str(authority / "ca.crt"))
    with pytest.raises(RegistryError, match="certificate") as caught:
        read_image(reference(registry), Options(seconds=10))
    assert "REQUESTS_CA_BUNDLE" in caught.value.what_to_do
    folder = tmp_path / "certs.d"
    (folder / registry.host).mkdir(parents=True)
    (folder / registry.host / "ca.crt").write_bytes((authority / "ca.crt").read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr("envcheck.clients.registry.transport.CERTIFICATES", folder)
        assert read_image(reference(registry), Options(seconds=10)).env
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority / "ca.crt"))
    assert read_image(reference(registry), Options(seconds=10)).env


def test_a_mirror_by_the_real_registry(open_registry):
    open_registry.push(multi_arch(), "24.05-py3")
    options = Options(insecure=True, seconds=10, mirrors=(f"nvcr.io=http://{open_registry.host}",))
    from envcheck.clients.registry.client import Registry, converse, endpoints, open_transport

    wanted = find_reference("nvcr.io/nvidia/pytorch:24.05-py3")
    mirror = endpoints(wanted, Options(force_insecure=True, mirrors=options.mirrors))[0]
    with open_transport(options) as transport:
        config, _ = converse(Registry(mirror, wanted, transport), "x86_64")
    assert config.source == f"mirror {open_registry.host}"


def test_the_command_line_in_a_second(open_registry, envcheck):
    open_registry.push(multi_arch(), "24.05-py3")
    started = time.monotonic()
    done = envcheck(
        "doctor", str(reference(open_registry)), "--insecure", "--on", "aws:p4d.24xlarge", "--driver", "535.183.01",
        "--format", "json",
    )  # fmt: skip
    took = time.monotonic() - started
    report = json.loads(done.stdout)
    assert done.returncode in (0, 1), done.stderr
    assert report["snapshot"]["stack"]["cuda"]["value"] == "12.4.1"
    assert took < 5


def test_the_command_line_on_a_wrong_tag_names_the_nearest(open_registry, envcheck):
    open_registry.push(multi_arch(), "24.05-py3")
    done = envcheck("doctor", str(reference(open_registry, "24.5-py3")), "--insecure")
    assert done.returncode == 2
    assert b"24.05-py3" in done.stderr


def test_the_command_line_on_a_refusal_and_on_silence(basic_registry, envcheck):
    done = envcheck("doctor", str(reference(basic_registry)), "--insecure")
    assert done.returncode == 3
    assert b"docker login" in done.stderr
    done = envcheck("doctor", "127.0.0.1:9/a/b:c", "--insecure", "--deadline", "3")
    assert done.returncode == 3
    assert b"can't be reached" in done.stderr


def test_the_registry_answers_as_expected(open_registry):
    assert requests.get(f"http://{open_registry.host}/v2/", timeout=5).status_code == 200
