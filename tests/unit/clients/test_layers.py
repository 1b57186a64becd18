"""Reading layers as they stream: what is found, what a higher layer deletes, and what hostile archives can't do."""

import contextlib
import gzip
import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.clients.registry import Options, RegistryError
from envcheck.clients.registry.layers import read_layers
from envcheck.clients.tar_stream import Broken, inflated, walk
from envcheck.model.reference import find_reference
from tests.unit.clients.registry_parts import Fake, Image, tar

SITE = "usr/local/lib/python3.10/dist-packages"
TORCH = {
    f"{SITE}/torch-2.1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.1.0\n",
    f"{SITE}/torch/version.py": b"cuda = '12.1'\n",
    f"{SITE}/torch/lib/libtorch_cuda.so": b"\x7fELF" + b"\0" * 5000,
    "etc/os-release": b"ID=ubuntu\n",
}
LOCAL = Options(insecure=True, seconds=10)


def read(httpserver, *layers, progress=None):
    fake = Fake(httpserver, Image(layers=layers))
    return read_layers(find_reference(fake.name), LOCAL, progress)


def paths(reading):
    return [file.path for file in reading.files]


def test_metadata_is_found_and_nothing_else_is_kept(httpserver):
    _, reading = read(httpserver, tar(TORCH))
    assert paths(reading) == [
        "/etc/os-release",
        f"/{SITE}/torch-2.1.0.dist-info/METADATA",
        f"/{SITE}/torch/version.py",
    ]
    assert reading.whole


def test_a_layer_that_is_not_compressed(httpserver):
    _, reading = read(httpserver, tar(TORCH, compress=False))
    assert len(reading.files) == 3


def test_a_higher_layer_replaces(httpserver):
    newer = {f"{SITE}/torch/version.py": b"cuda = '12.4'\n"}
    _, reading = read(httpserver, tar(TORCH), tar(newer))
    assert [file.data for file in reading.files if file.path.endswith("version.py")] == [b"cuda = '12.4'\n"]


def test_a_whiteout_deletes_a_file_and_a_folder(httpserver):
    gone = {f"{SITE}/.wh.torch-2.1.0.dist-info": b"", f"{SITE}/torch/.wh.version.py": b""}
    _, reading = read(httpserver, tar(TORCH), tar(gone))
    assert paths(reading) == ["/etc/os-release"]


def test_an_opaque_folder_hides_what_is_below_and_keeps_its_own(httpserver):
    newer = {f"{SITE}/.wh..wh..opq": b"", f"{SITE}/torch-2.4.0.dist-info/METADATA": b"Name: torch\nVersion: 2.4.0\n"}
    _, reading = read(httpserver, tar(TORCH), tar(newer))
    assert paths(reading) == ["/etc/os-release", f"/{SITE}/torch-2.4.0.dist-info/METADATA"]


def test_names_that_tell_are_kept(httpserver):
    files = {"usr/local/cuda-12.4/compat/libcuda.so.550.54.15": b"\0" * 100, "usr/local/cuda-12.4/bin/nvcc": b"x"}
    _, reading = read(httpserver, tar(files))
    assert reading.names == ("/usr/local/cuda-12.4/bin/nvcc", "/usr/local/cuda-12.4/compat/libcuda.so.550.54.15")


def test_progress_reaches_the_whole(httpserver):
    steps = []
    layers = (tar(TORCH), tar({"a": b"\1" * 100_000}))
    read(httpserver, *layers, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (sum(map(len, layers)),) * 2
    assert steps == sorted(steps)


def test_a_layer_that_lies_about_its_digest_is_refused(httpserver):
    layer = tar(TORCH, compress=False)
    fake = Fake(httpserver, Image(layers=(layer,)))
    name = next(name for name, data in fake.image.blobs.items() if data == layer)
    fake.image.blobs[name] = layer.replace(b"12.1", b"13.0")
    with pytest.raises(RegistryError, match="don't have the digest"):
        read_layers(find_reference(fake.name), LOCAL)


def test_a_layer_with_broken_gzip_is_a_remark_and_no_fact(httpserver):
    _, reading = read(httpserver, tar(TORCH)[:-40] + b"x" * 40)
    assert not reading.whole
    assert reading.files == ()
    assert reading.remarks


def test_long_names_and_pax_names(httpserver):
    deep = "/".join(["folder-with-a-long-name"] * 12) + "/torch-2.1.0.dist-info/METADATA"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
            member = tarfile.TarInfo(deep)
            member.size = 4
            archive.addfile(member, io.BytesIO(b"Name"))
        entries = list(walk(io.BytesIO(buffer.getvalue()).read))
        assert [(entry.path, entry.data) for entry in entries] == [(deep, b"Name")]


def test_names_that_climb_out_are_not_names():
    entries = list(walk(io.BytesIO(tar({"../../etc/os-release": b"x", "a/../etc/os-release": b"y"}, False)).read))
    assert entries == []


def test_a_header_that_promises_terabytes_takes_no_memory():
    header = bytearray(tar({"x/torch-1.dist-info/METADATA": b"x"}, False)[:512])
    header[124:136] = b"\x80" + (1 << 50).to_bytes(11, "big")
    with pytest.raises(Broken, match="ends in the middle"):
        list(walk(io.BytesIO(bytes(header) + b"\0" * 4096).read))


def test_a_gzip_bomb_in_a_layer_is_read_in_pieces(monkeypatch):
    monkeypatch.setattr("envcheck.clients.tar_stream.MAX_UNPACKED", 1 << 22)
    bomb = io.BytesIO(gzip.compress(tar({"zeros": b"\0" * (1 << 24)}, False)))
    with pytest.raises(Broken, match="unpacks to more"):
        list(walk(inflated(lambda: bomb.read(65536))))


def test_gzip_members_in_a_row_are_one_file():
    whole = tar(TORCH, False)
    data = io.BytesIO(gzip.compress(whole[:1000]) + gzip.compress(whole[1000:]))
    assert len(list(walk(inflated(lambda: data.read(700))))) == 3


def test_zstd_is_named():
    data = io.BytesIO(b"\x28\xb5\x2f\xfd" + b"\0" * 100)
    with pytest.raises(Broken, match="zstd"):
        list(walk(inflated(lambda: data.read(65536))))


@given(st.binary(max_size=4096))
@settings(max_examples=200, deadline=None)
def test_no_bytes_give_anything_but_entries_or_broken(data):
    for source in (data, gzip.compress(data), tar(TORCH)[: len(data)] + data):
        stream = io.BytesIO(source)
        with contextlib.suppress(Broken):
            list(walk(inflated(lambda stream=stream: stream.read(512))))
