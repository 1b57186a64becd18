"""Device code by headers: made-up regions; against nvcc and cuobjdump where those are (integration)."""

import random
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envcheck.probes.elf import NotElf
from envcheck.probes.fatbin import read_binary
from envcheck.probes.tree import Tree
from tests.unit.probes.elf_parts import compile_fatbin, nvcc

TREE = Tree()
SUFFIX = {"": 0, "a": 1 << 20, "f": 1 << 21}


def entry(kind: int, number: int, suffix: str = "", payload: int = 16, version: tuple[int, int] = (9, 0)) -> bytes:
    head = struct.pack(
        "<HHIQIIHHIIIQ", kind, 257, 64, payload, 0, 0, version[1], version[0], number, 0, 0, 0x11 | SUFFIX[suffix]
    )
    return head.ljust(64, b"\0") + b"\0" * payload


def region(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def read(path: Path, data: bytes):
    path.write_bytes(data)
    return read_binary(TREE, str(path))


def test_modules_are_counted_by_what_each_holds(tmp_path):
    one = region(entry(2, 75), entry(2, 90, "a"), entry(1, 90))
    two = region(entry(2, 75), entry(2, 75), entry(2, 103, "f"))
    found = read(tmp_path / "x.fatbin", one + two)
    assert found.modules == 2
    assert found.sass == {"7.5": 2, "9.0a": 1, "10.3f": 1}
    assert found.ptx == {"9.0": 1}
    assert found.mixes == {"7.5 10.3f": 1, "7.5 9.0+PTX 9.0a": 1}
    assert found.ptx_isa == "9.0"


def test_code_for_link_time_is_no_code_that_runs(tmp_path):
    found = read(tmp_path / "x.fatbin", region(entry(8, 80)) + region(entry(2, 80)))
    assert (found.modules, found.sass) == (1, {"8.0": 1})


def test_padding_between_regions_is_passed_over(tmp_path):
    assert read(tmp_path / "x.fatbin", region(entry(2, 80)) + b"\0" * 24 + region(entry(2, 80))).modules == 2


@pytest.mark.parametrize("cut", [10, 17, 30, 60, 90, 170])
def test_a_cut_region_is_damage_and_not_a_part_of_the_truth(tmp_path, cut):
    data = region(entry(2, 80), entry(2, 90))
    if cut < 16:
        data = region(entry(2, 80)) + data[:cut]
        assert read(tmp_path / "x.fatbin", data).modules == 1  # less than a header is padding
        return
    with pytest.raises(NotElf, match=r"damaged device code at byte 0"):
        read(tmp_path / "x.fatbin", data[:cut])


def test_hostile_sizes_end_at_once(tmp_path):
    dice = random.Random(1)
    good = region(*(entry(2, 80) for _ in range(50)))
    started = time.monotonic()
    for _ in range(800):
        data = bytearray(good)
        for _ in range(6):
            data[dice.randrange(len(data))] = dice.choice([0, 255, 1])
        try:
            read(tmp_path / "x.fatbin", bytes(data))
        except NotElf:
            continue
    assert time.monotonic() - started < 20


def test_an_entry_of_no_length_does_not_stop_the_clock(tmp_path):
    with pytest.raises(NotElf):
        read(tmp_path / "x.fatbin", region(struct.pack("<HHIQ", 2, 257, 0, 0).ljust(64, b"\0")))


# ---- against the tools that know


@pytest.fixture(scope="session")
def cuobjdump(tmp_path_factory) -> str:
    """NVIDIA's lister: on PATH, else its wheel in an environment of its own."""
    found = shutil.which("cuobjdump")
    if found:
        return found
    folder = tmp_path_factory.mktemp("cuobjdump")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(folder),
        "nvidia-cuda-cuobjdump",
    ]
    subprocess.run(command, check=True, capture_output=True)
    tool = next(folder.rglob("bin/cuobjdump"))
    tool.chmod(0o755)
    return str(tool)


def listed(tool: str, path: Path, option: str) -> list[str]:
    said = subprocess.run([tool, option, str(path)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"\.sm_(\d+[af]?)\.(?:cubin|ptx)", said)


def architectures() -> list[str]:
    said = subprocess.run([nvcc(), "--list-gpu-code"], capture_output=True, text=True, check=True).stdout
    numbers = re.findall(r"sm_(\d+)", said)
    return [n + s for n in numbers for s in ("", "a", "f") if not s or int(n) >= (90 if s == "a" else 100)]


def ours(counts: dict[str, int]) -> list[str]:
    return sorted(name.replace(".", "") for name, count in counts.items() for _ in range(count))


@pytest.mark.integration
def test_every_architecture_and_suffix_is_read_as_it_was_compiled(tmp_path, cuobjdump):
    for name in architectures():
        path = compile_fatbin(tmp_path / f"a{name}.fatbin", (name, f"sm_{name}"), (name, f"compute_{name}"))
        found = read_binary(TREE, str(path))
        assert (ours(found.sass), ours(found.ptx)) == ([name], [name])
        assert listed(cuobjdump, path, "--list-ptx") == [name]
        # The lister shows family code as plain: the flag knows better.
        assert listed(cuobjdump, path, "--list-elf") == [name.rstrip("f")]


@pytest.mark.integration
@pytest.mark.parametrize("relocatable", [False, True], ids=["linked at once", "relocatable device code"])
def test_a_library_lists_what_cuobjdump_lists(tmp_path, cuobjdump, relocatable):
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(float* p) { *p = 1; }\nvoid go() { k<<<1, 1>>>(nullptr); }\n")
    pairs = ["-gencode=arch=compute_80,code=[sm_80,compute_80]", "-gencode=arch=compute_90a,code=sm_90a"]
    rdc = ["-rdc=true"] if relocatable else ["-cudart=none"]
    library = tmp_path / "libk.so"
    command = [nvcc(), "-shared", "-Xcompiler=-fPIC", *rdc, *pairs, str(source), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    found = read_binary(TREE, str(library))
    assert ours(found.sass) == sorted(listed(cuobjdump, library, "--list-elf"))
    assert found.ptx == {"8.0": 1}  # the lister doesn't show what the driver would link anew


@pytest.mark.integration
@pytest.mark.parametrize("name", ["75", "90", "90a", "100f"])
def test_a_bare_cubin_tells_its_architecture(tmp_path, name):
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(float* p) { *p = 1; }\n")
    path = tmp_path / "k.cubin"
    subprocess.run(
        [nvcc(), "-cubin", f"-arch=sm_{name}", str(source), "-o", str(path)], check=True, capture_output=True
    )
    assert ours(read_binary(TREE, str(path)).sass) == [name]
