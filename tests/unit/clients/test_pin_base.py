"""A plan's base image pinned by the digest that a registry gives, or no plan."""

import msgspec
import pytest
from click.testing import CliRunner
from werkzeug import Response

from envcheck import matrix as matrices
from envcheck.cli.build import command as build
from envcheck.cli.pinning import pin_base
from envcheck.clients.registry import NotFound, Options, RegistryError
from envcheck.dockerfile.generate import generate_dockerfile
from envcheck.errors import BuildError
from envcheck.model.request import Request
from envcheck.resolve.resolver import resolve
from tests.unit.clients.registry_parts import Fake, Image

TAG = {"repository": "nvidia/cuda", "tag": "12.1.1-base-ubuntu22.04"}
LOCAL = Options(insecure=True, seconds=10)
PLAN = resolve(Request(framework="torch", version="2.1.2", cuda="12.1"), matrices.load())


def plan_on(fake: Fake):
    """The plan with the test's registry in NVIDIA's place."""
    return msgspec.structs.replace(PLAN, image=f"{fake.host}/nvidia/cuda:12.1.1-base-ubuntu22.04")


def test_from_names_the_digest_that_the_registry_has(httpserver):
    fake = Fake(httpserver, Image(env=["CUDA_VERSION=12.1.1"]), **TAG)
    pinned = pin_base(plan_on(fake), LOCAL)
    assert f"\nFROM {fake.name}@{fake.image.digest}\n" in generate_dockerfile(pinned)
    assert pinned.choices[-1].name == "digest"


def test_an_image_of_another_cuda_than_the_matrix_has_is_refused(httpserver):
    fake = Fake(httpserver, Image(env=["CUDA_VERSION=11.8.0"]), **TAG)
    with pytest.raises(BuildError, match=r"is of CUDA 11\.8\.0, not 12\.1\.1"):
        pin_base(plan_on(fake), LOCAL)


def test_a_tag_that_was_deleted_gives_no_plan(httpserver):
    fake = Fake(httpserver, Image(), repository="nvidia/cuda", tag="other")
    with pytest.raises(NotFound):
        pin_base(plan_on(fake), LOCAL)


def test_a_registry_that_lies_about_the_digest_is_not_believed(httpserver):
    fake = Fake(httpserver, Image(env=["CUDA_VERSION=12.1.1"]), **TAG)
    lie = Response(
        fake.image.top, 200, {"Docker-Content-Digest": "sha256:" + "0" * 64}, content_type=fake.image.top_type
    )
    fake.before = lambda request: lie if request.path.endswith(fake.tag) else None
    with pytest.raises(RegistryError):
        pin_base(plan_on(fake), LOCAL)


@pytest.mark.parametrize("mirror", ["http://127.0.0.1:9\nRUN id", "$(id)"])
def test_a_mirror_that_is_no_url_reaches_no_file(mirror):
    args = ["--torch", "2.1.2", "--cuda", "12.1", "--pin", "--registry-mirror", f"nvcr.io={mirror}"]
    done = CliRunner().invoke(build, args)
    assert done.exception is not None
    assert done.stdout == ""
