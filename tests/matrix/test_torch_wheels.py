"""The wheel witness: what a wheel says of itself against the rows, read by ranged requests."""

import io
import zipfile

import msgspec
import pytest
from packaging.version import Version

from envcheck.matrix.refresh import torch_wheels
from envcheck.matrix.refresh.wheels import BLOCK, RangedFile, pip_setting, read_members

METADATA = """Metadata-Version: 2.1
Name: torch
Version: 2.5.1
Requires-Python: >=3.8.0
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: triton==3.1.0; platform_system == "Linux"
Requires-Dist: nvidia-nothing==1; extra == "opt"
"""
VERSION_PY = "__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\n"


@pytest.fixture(scope="module")
def rows(matrix):
    """The rows of torch 2.5.1 and a wheel that says exactly what they say."""
    build = matrix.build("torch", "2.5.1")
    pins = matrix.pins_of("torch", "2.5.1")
    wanted = {pin.package: pin.requirement for pin in pins if pin.via == "direct"}
    wheel = torch_wheels.Wheel("torch-2.5.1-x.whl", "2.5.1", build.requires_python, wanted, "cu124")
    return build, pins, wheel


def test_metadata_and_version_py_give_the_facts_of_a_wheel():
    wheel = torch_wheels.parse_wheel("w.whl", METADATA, VERSION_PY)
    assert wheel.requirements == {"nvidia-cudnn-cu12": "==9.1.0.70", "triton": "==3.1.0"}
    assert (wheel.version, wheel.variant, wheel.requires_python) == ("2.5.1", "cu124", ">=3.8.0")


def test_a_wheel_that_says_what_the_rows_say_agrees(rows):
    build, pins, wheel = rows
    assert torch_wheels.disagreements(wheel, build, pins) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"variant": "cu121"}, "default build"),
        ({"requires_python": ">=3.9"}, "requires-python"),
        ({"requirements": {}}, "nvidia-cudnn-cu12"),
        ({"pythons": ("3.9", "3.10")}, "wheels 3.9-3.10"),
        ({"pythons": ("3.9", "3.13", "3.14t")}, "wheels 3.14t"),
    ],
)
def test_each_difference_is_named(rows, change, word):
    build, pins, wheel = rows
    found = torch_wheels.disagreements(msgspec.structs.replace(wheel, **change), build, pins)
    assert any(word in line for line in found)


def test_a_pin_that_the_rows_lack_is_named(rows):
    build, pins, wheel = rows
    more = msgspec.structs.replace(wheel, requirements={**wheel.requirements, "nvidia-new": "==1"})
    assert torch_wheels.disagreements(more, build, pins) == ["nvidia-new: row None, wheel ==1"]


def test_releases_are_the_newest_with_their_pythons_in_order():
    from pypi_simple import DistributionPackage

    names = [
        "torch-2.10.0-cp313-cp313t-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp39-cp39-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "torch-2.10.0-cp310-cp310-win_amd64.whl",
        "torch-2.9.1-cp310-cp310-manylinux_2_28_x86_64.whl",
        "torch-2.11.0rc1-cp310-cp310-manylinux_2_28_x86_64.whl",
    ]
    files = [{"filename": name, "url": f"https://host/{name}", "hashes": {}} for name in names]
    packages = [DistributionPackage.from_json_data(file, "torch") for file in files]
    newest = torch_wheels.newest_releases(packages, 1)
    assert [list(release) for release in newest] == [["3.9", "3.10", "3.13t"]]


def test_a_release_without_a_row_is_a_disagreement(rows):
    assert torch_wheels.disagreements(rows[2], None, ()) == ["no row for the default build on linux x86_64"]


def test_recording_touches_nothing_but_the_witness():
    text = '# head\n[[build]]\nversion = "2.5.1"\nvariant = "cu124"  # why\n\n[[build]]\nversion = "2.5.1"\n'
    written = torch_wheels.record(text, {("2.5.1", "cu124"): "w.whl, 2026-12-01"})
    assert written.count("witness") == 1
    assert [line for line in written.splitlines() if "witness" not in line] == text.splitlines()


def test_the_newest_25_releases_have_a_witness(matrix):
    releases = [v for v in matrix.versions_of("torch") if not Version(v).is_prerelease][:25]
    assert [v for v in releases if not matrix.build("torch", v).witness] == []


class Served:
    """What read_members needs of a client and a package."""

    def __init__(self, url):
        import requests

        self.s = requests.Session()
        self.url = url


@pytest.fixture
def wheel_server(httpserver):
    """A server of one wheel that answers ranges, and counts the bytes it gave."""
    from werkzeug import Response

    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_STORED) as wheel:
        wheel.writestr("torch/lib/huge.so", b"\0" * (6 * BLOCK))
        wheel.writestr("torch/version.py", VERSION_PY)
        wheel.writestr("torch-2.5.1.dist-info/METADATA", METADATA)
    data = body.getvalue()
    given = []

    def answer(request):
        if request.method == "HEAD":
            return Response(headers={"Content-Length": str(len(data))})
        first, last = (int(n) for n in request.headers["Range"].partition("=")[2].split("-"))
        given.append(last - first + 1)
        return Response(data[first : last + 1], status=206)

    httpserver.expect_request("/torch.whl").respond_with_handler(answer)
    return Served(httpserver.url_for("/torch.whl")), given, len(data)


def test_only_the_end_of_a_wheel_is_read(wheel_server):
    served, given, size = wheel_server
    texts = read_members(served, served, ".dist-info/METADATA", "torch/version.py", "not/there")
    assert texts == {".dist-info/METADATA": METADATA, "torch/version.py": VERSION_PY}
    assert sum(given) < size / 2


def test_a_server_without_ranges_is_refused(httpserver):
    httpserver.expect_request("/w").respond_with_data(b"x" * 100, headers={"Content-Length": "100"})
    served = Served(httpserver.url_for("/w"))
    with pytest.raises(OSError, match="range request"):
        RangedFile(served.s, served.url).read(10)


def test_the_index_is_pips(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_INDEX_URL", "http://localhost/simple")
    assert pip_setting("index-url") == "http://localhost/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = http://localhost/other\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert pip_setting("index-url") == "http://localhost/other"
