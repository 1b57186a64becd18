"""Which wheel pip would take, asked of a scripted index that speaks PEP 691."""

import hashlib
import json

import pytest
from packaging.specifiers import SpecifierSet
from werkzeug import Response

from envcheck.clients.wheel_metadata import NoWheel, cuda_of, default_index, find_wheel, glibc_of, shown
from envcheck.errors import InspectError

METADATA = b"Metadata-Version: 2.1\nName: torch\nRequires-Dist: nvidia-cuda-runtime-cu12==12.8.90; x\n\nbody"
FILES = [
    ("torch-2.5.1-cp310-cp310-manylinux1_x86_64.whl", ">=3.8", False),
    ("torch-2.5.1-cp311-cp311-manylinux1_x86_64.whl", ">=3.8", False),
    ("torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl", ">=3.10", False),
    ("torch-2.9.0-cp311-cp311-manylinux_2_28_aarch64.whl", ">=3.10", False),
    ("torch-2.9.0-cp311-none-macosx_11_0_arm64.whl", ">=3.10", False),
    ("torch-3.0.0-cp311-cp311-manylinux_2_28_x86_64.whl", ">=3.10", True),
    ("torch-2.10.0rc1-cp311-cp311-manylinux_2_28_x86_64.whl", ">=3.10", False),
    ("torch-2.9.0.tar.gz", ">=3.10", False),
    ("not a file name.whl", None, False),
]


@pytest.fixture
def index(httpserver):
    rows = [
        {
            "filename": name,
            "url": f"http://{httpserver.host}:{httpserver.port}/files/{name}",
            "hashes": {},
            "requires-python": python,
            "yanked": yanked,
            "core-metadata": {"sha256": hashlib.sha256(METADATA).hexdigest()} if "x86_64" in name else False,
        }
        for name, python, yanked in FILES
    ]
    page = {"meta": {"api-version": "1.1"}, "name": "torch", "files": rows}
    httpserver.expect_request("/simple/torch/").respond_with_response(
        Response(json.dumps(page), 200, content_type="application/vnd.pypi.simple.v1+json")
    )
    httpserver.expect_request(__import__("re").compile("/files/.*metadata")).respond_with_data(METADATA)
    return f"http://{httpserver.host}:{httpserver.port}/simple/"


def test_the_newest_release_that_fits(index):
    wheel = find_wheel("torch", SpecifierSet(), python="3.11", index=index)
    assert (wheel.version, wheel.glibc) == ("2.9.0", "2.28")
    assert cuda_of(wheel.requires) == "12.8"


def test_an_older_python_gets_an_older_release(index):
    assert find_wheel("torch", SpecifierSet(), python="3.10", index=index).version == "2.5.1"


def test_the_architecture_counts(index):
    assert "aarch64" in find_wheel("torch", SpecifierSet(">=2"), python="3.11", arch="aarch64", index=index).filename


def test_no_wheel_says_for_which_pythons_there_are_some(index):
    with pytest.raises(NoWheel, match=r"torch==2\.9\.0 for Python 3\.13") as caught:
        find_wheel("torch", SpecifierSet("==2.9.0"), python="3.13", index=index)
    assert caught.value.pythons == ("3.11",)


@pytest.mark.parametrize(
    "response",
    [Response("", 404), Response("", 500), Response("{", 200, content_type="application/vnd.pypi.simple.v1+json")],
    ids=["404", "500", "nonsense"],
)
def test_an_index_of_no_use_is_an_inspect_error_without_its_password(httpserver, response):
    httpserver.expect_request("/simple/torch/").respond_with_response(response)
    index = f"http://me:canary@{httpserver.host}:{httpserver.port}/simple/"
    with pytest.raises(InspectError) as caught:
        find_wheel("torch", SpecifierSet(), python="3.11", index=index)
    assert "canary" not in str(caught.value) + caught.value.what_to_do


def test_the_index_is_the_one_that_pip_uses(nobody, tmp_path):
    assert default_index({"PIP_INDEX_URL": "https://a.example/simple"}) == "https://a.example/simple"
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://b.example/simple\n")
    assert default_index({"PIP_CONFIG_FILE": str(config)}) == "https://b.example/simple"


@pytest.mark.parametrize(
    ("filename", "glibc"),
    [
        ("x-1-cp311-cp311-manylinux_2_28_x86_64.whl", "2.28"),
        ("x-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "2.17"),
        ("x-1-cp311-cp311-manylinux1_x86_64.whl", "2.5"),
        ("x-1-py3-none-any.whl", None),
    ],
)
def test_glibc_by_the_platform_tag(filename, glibc):
    assert glibc_of(filename) == glibc


def test_a_url_is_shown_without_its_user():
    assert shown("https://u:p@h.example/simple?token=x") == "https://h.example/simple"
