"""Reading an image from a well-behaved registry: formats, platforms, digests, mirrors, and what it costs."""

import pytest

from envcheck.clients.registry import NotFound, Options, RegistryError, list_tags, read_image
from envcheck.errors import UsageError
from envcheck.model.reference import find_reference
from tests.unit.clients.registry_parts import Fake, Image

LOCAL = Options(insecure=True, seconds=10)


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
@pytest.mark.parametrize("index", [False, True], ids=["manifest", "index"])
def test_both_formats_with_and_without_an_index(httpserver, docker, index):
    fake = Fake(httpserver, Image(docker=docker, index=index))
    config = read_image(find_reference(fake.name), LOCAL)
    assert config.env["PYTORCH_VERSION"] == "2.4.0a0+07cecf4168"
    assert config.arch == "amd64"
    assert config.digest == fake.image.digest
    assert config.source == f"registry {fake.host}"


def test_an_anonymous_multi_arch_image_costs_three_requests_and_few_bytes(httpserver):
    fake = Fake(httpserver, Image(arches=("amd64", "arm64")))
    config = read_image(find_reference(fake.name), LOCAL)
    assert config.requests == len(fake.seen) == 3
    assert 0 < config.received_bytes < 200_000


def test_the_platform_asked_for_is_chosen(httpserver):
    fake = Fake(httpserver, Image(arches=("amd64", "arm64")))
    config = read_image(find_reference(fake.name), Options(insecure=True, arch="aarch64"))
    assert config.arch == "arm64"
    assert config.architectures == ("amd64", "arm64")


def test_an_image_for_another_platform_only_is_still_read(httpserver):
    fake = Fake(httpserver, Image(arches=("arm64",)))
    config = read_image(find_reference(fake.name), LOCAL)
    assert (config.arch, config.architectures) == ("arm64", ("arm64",))


def test_a_pinned_digest_is_asked_for_and_kept(httpserver):
    fake = Fake(httpserver, Image())
    config = read_image(find_reference(f"{fake.host}/{fake.repository}@{fake.image.digest}"), LOCAL)
    assert config.digest == fake.image.digest
    assert all(":latest" not in request.path for request in fake.seen)


def test_the_history_comes_along(httpserver):
    fake = Fake(httpserver, Image())
    assert any("transformers==4.40.0" in line for line in read_image(find_reference(fake.name), LOCAL).history)


def test_a_wrong_tag_is_not_found_and_tags_can_be_listed(httpserver):
    fake = Fake(httpserver, Image())
    reference = find_reference(f"{fake.host}/{fake.repository}:24.5-py3")
    with pytest.raises(NotFound, match="manifest unknown"):
        read_image(reference, LOCAL)
    assert list_tags(reference, LOCAL) == ["24.05-py3"]


def test_a_mirror_answers_in_the_registrys_place(httpserver):
    fake = Fake(httpserver, Image(), repository="proxy/nvidia/pytorch")
    options = Options(insecure=True, mirrors=(f"nvcr.io=http://{fake.host}/proxy",))
    config = read_image(find_reference("nvcr.io/nvidia/pytorch:24.05-py3"), _only_mirror(options))
    assert config.source == f"mirror {fake.host}"
    assert config.reference == "nvcr.io/nvidia/pytorch:24.05-py3"


def _only_mirror(options):
    return Options(force_insecure=True, mirrors=options.mirrors, seconds=5)


def test_a_mirror_of_no_use_is_passed_over_with_a_remark(httpserver):
    fake = Fake(httpserver, Image())
    options = Options(insecure=True, mirrors=(f"{fake.host}=http://{fake.host}/nothing",))
    config = read_image(find_reference(fake.name), options)
    assert config.source == f"registry {fake.host}"
    assert "mirror" in config.remarks[0]


@pytest.mark.parametrize("text", ["ftp://x", "https://", "https://user:pw@mirror.example"])
def test_a_mirror_that_is_no_safe_url_is_a_usage_error(text):
    with pytest.raises(UsageError, match="no mirror"):
        read_image(find_reference("ubuntu"), Options(mirrors=(text,), seconds=2))


def test_insecure_is_for_loopback_only():
    with pytest.raises(UsageError, match=r"not for nvcr\.io"):
        read_image(find_reference("nvcr.io/nvidia/pytorch:24.05-py3"), Options(insecure=True, seconds=2))


def test_without_insecure_a_plain_http_registry_is_refused(httpserver):
    fake = Fake(httpserver, Image())
    with pytest.raises(RegistryError, match=r"TLS|certificate|breaks off|reached"):
        read_image(find_reference(fake.name), Options(seconds=5))
    assert fake.seen == []
