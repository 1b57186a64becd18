"""Our short ELF reader against pyelftools on real libraries, and against damage."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.probes.elf import NotElf, open_elf
from envcheck.probes.elf_symbols import exporter, gnu_hash, symbols, version_definitions, version_needs
from envcheck.probes.fatbin import read_binary
from envcheck.probes.forward import read_forward_note
from envcheck.probes.loader import Process
from envcheck.probes.tree import Tree, Unreadable
from tests.unit.probes.elf_parts import compile_library

TREE = Tree()


def real_files() -> list[str]:
    """This interpreter, its libstdc++ and some of its modules: whatever the machine has."""
    files = {os.path.realpath(sys.executable)}
    shown = subprocess.run(
        ["ldconfig", "-p"], capture_output=True, text=True, check=True, env={"PATH": "/sbin:/usr/sbin"}
    )
    for name in ("libstdc++.so.6", "libm.so.6", "libc.so.6", "libz.so.1", "libgcc_s.so.1"):
        files.update(line.split("=> ")[1] for line in shown.stdout.splitlines() if f"\t{name} (libc6,x86-64" in line)
    return sorted(files)


@pytest.mark.parametrize("path", real_files(), ids=os.path.basename)
def test_it_reads_what_pyelftools_reads(path):
    with open_elf(TREE, path) as ours, open(path, "rb") as stream:
        theirs = ELFFile(stream)
        assert [s.name for s in ours.sections()] == [s.name for s in theirs.iter_sections()]
        dynamic = next(s for s in theirs.iter_sections() if isinstance(s, DynamicSection))
        tags = list(dynamic.iter_tags())
        assert ours.dynamic().needed == tuple(t.needed for t in tags if t.entry.d_tag == "DT_NEEDED")
        assert ours.dynamic().soname == next((t.soname for t in tags if t.entry.d_tag == "DT_SONAME"), "")
        assert ours.dynamic().runpath == next((t.runpath for t in tags if t.entry.d_tag == "DT_RUNPATH"), "")
        dynsym = theirs.get_section_by_name(".dynsym")
        wanted = [(s.name, s.entry.st_shndx != "SHN_UNDEF") for s in dynsym.iter_symbols() if s.name]
        assert [(s.name, s.defined) for s in symbols(ours)] == wanted
        needs, defines = set(), set()
        for section in theirs.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                needs = {(v.name, aux.name) for v, parts in section.iter_versions() for aux in parts}
            if isinstance(section, GNUVerDefSection):
                defines = {next(iter(parts)).name for v, parts in section.iter_versions() if not v.entry.vd_flags & 1}
        assert {(n.library, n.version) for n in version_needs(ours).values()} == needs
        assert set(version_definitions(ours).values()) == defines
        ask = exporter(ours)
        for name, _ in wanted[:300]:
            assert ask.has(name, gnu_hash(name)) == any(n == name and d for n, d in wanted)
        assert not ask.has("no_such_symbol_anywhere")


def everything(path: Path) -> str:
    """Ask all that is ever asked of a file; the named result, or '' where it could be read."""
    try:
        with open_elf(TREE, str(path)) as file:
            file.sections()
            list(file.notes())
            file.dynamic()
            list(symbols(file))
            exporter(file).has("main")
        read_binary(TREE, str(path))
        read_forward_note(TREE, str(path))
        Process(TREE, {}, str(path))
    except (NotElf, Unreadable) as failure:
        return str(failure)
    return ""


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> bytes:
    path = compile_library(tmp_path_factory.mktemp("sample") / "libx.so", "int f(void) { return 1; } int g;", "-lm")
    return path.read_bytes()


def test_every_truncation_has_a_named_result(tmp_path, sample):
    path = tmp_path / "cut.so"
    for size in [*range(400), *range(400, len(sample), 97)]:
        path.write_bytes(sample[:size])
        assert everything(path), size


def test_flipped_bytes_never_raise_anything_else_or_take_long(tmp_path, sample):
    path = tmp_path / "flipped.so"
    dice = random.Random(4)
    started = time.monotonic()
    for _ in range(1500):
        data = bytearray(sample)
        for _ in range(dice.randint(1, 12)):
            data[dice.choice([dice.randrange(64), dice.randrange(1024), dice.randrange(len(data))])] = dice.choice(
                [0, 1, 255, dice.randrange(256)]
            )
        path.write_bytes(data)
        everything(path)
    assert time.monotonic() - started < 60


@settings(max_examples=150, deadline=2000)
@given(data=st.binary(max_size=600))
def test_any_bytes_behind_the_magic_have_a_named_result(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "random.so"
    for head in (b"\x7fELF\x02\x01\x01", (0xBA55ED50).to_bytes(4, "little")):
        path.write_bytes(head + data)
        everything(path)


def test_a_sparse_file_of_a_terabyte_is_done_at_once(tmp_path, sample):
    path = tmp_path / "huge.so"
    path.write_bytes(sample)
    os.truncate(path, 2**40)
    started = time.monotonic()
    everything(path)
    assert time.monotonic() - started < 2


def test_counts_of_billions_are_refused(tmp_path, sample):
    path = tmp_path / "counts.so"
    for offset, size in ((56, 2), (60, 2), (40, 8), (32, 8)):  # program headers, sections and where both begin
        data = bytearray(sample)
        data[offset : offset + size] = b"\xff" * size
        path.write_bytes(data)
        assert everything(path)


@pytest.mark.parametrize("kind", ["fifo", "folder", "link to itself"])
def test_what_is_no_file_is_not_opened(tmp_path, kind):
    path = tmp_path / "x.so"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    assert everything(path)
