"""The loader's search against the loader itself: each tree is compiled, foretold, then really loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.probes.loader import Process
from envcheck.probes.tree import Tree
from tests.unit.probes.elf_parts import compile_library


def really_loaded(library: Path, env: dict[str, str]) -> tuple[set[str], str]:
    """Files under the library's tree that a real process has mapped after opening it, and the loader's complaint."""
    code = (
        "import ctypes, sys\n"
        "try: ctypes.CDLL(sys.argv[1])\n"
        "except OSError as fault: print(fault, file=sys.stderr)\n"
        "print(open('/proc/self/maps').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(library)], env=env, capture_output=True, text=True, timeout=60
    )
    paths = {line.split(None, 5)[5].strip() for line in done.stdout.splitlines() if len(line.split(None, 5)) == 6}
    return {os.path.realpath(p) for p in paths if "/tree/" in p}, done.stderr.strip()


def foretold(library: Path, env: dict[str, str]) -> tuple[set[str], str]:
    process = Process(Tree(), env, sys.executable)
    fault = process.open(str(library))
    paths = {os.path.realpath(thing.path) for thing in process.objects}
    return {path for path in paths if "/tree/" in path}, f"{fault.name}: {fault.why}" if fault else ""


def build(tree: Path, layout: str) -> Path:
    """top needs libmid.so which needs liblow.so.1; copies of liblow lie in a and b; `layout` says who names folders."""
    low = compile_library(tree / "a" / "liblow.so.1")
    compile_library(tree / "b" / "liblow.so.1")
    old, new = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"
    flags = {
        "rpath of the asker": ((old, "-Wl,-rpath,$ORIGIN"), (old, "-Wl,-rpath,$ORIGIN/../a")),
        "runpath of the asker": ((new, "-Wl,-rpath,$ORIGIN"), (new, "-Wl,-rpath,$ORIGIN/../a")),
        "rpath of the asker's asker": ((old, "-Wl,-rpath,$ORIGIN:${ORIGIN}/../a"), ()),
        "runpath of the asker's asker": ((new, "-Wl,-rpath,$ORIGIN:$ORIGIN/../a"), ()),
        "rpath above, runpath below": ((old, "-Wl,-rpath,$ORIGIN:$ORIGIN/../b"), (new, "-Wl,-rpath,$ORIGIN/../a")),
    }[layout]
    mid = compile_library(tree / "m" / "libmid.so", "int mid;", *flags[1], needs=(low,))
    return compile_library(tree / "m" / "libtop.so", "int top;", *flags[0], needs=(mid,))


LAYOUTS = (
    "rpath of the asker",
    "runpath of the asker",
    "rpath of the asker's asker",
    "runpath of the asker's asker",
    "rpath above, runpath below",
)


@pytest.mark.parametrize("path", ["", "b", "nothing:b", "b:a", "b;a", "empty:b"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_file_that_wins_is_the_one_that_the_loader_maps(tmp_path, layout, path):
    tree = tmp_path / "tree"
    top = build(tree, layout)
    (tree / "empty").mkdir()
    folders = "".join(
        str(tree / part) if part.isalpha() else part for part in path.replace(":", " : ").replace(";", " ; ").split()
    )
    env = {"LD_LIBRARY_PATH": folders} if folders else {}
    assert foretold(top, env) == really_loaded(top, env)


def test_a_preloaded_library_answers_to_its_soname(tmp_path):
    tree = tmp_path / "tree"
    top = build(tree, "rpath of the asker")
    env = {"LD_PRELOAD": str(tree / "b" / "liblow.so.1")}
    assert foretold(top, env) == really_loaded(top, env)
    assert str(tree / "b" / "liblow.so.1") in foretold(top, env)[0]


def test_a_preload_that_is_not_there_is_passed_over(tmp_path):
    tree = tmp_path / "tree"
    top = build(tree, "rpath of the asker")
    env = {"LD_PRELOAD": "/nowhere/libx.so"}
    assert foretold(top, env)[0] == really_loaded(top, env)[0]


def test_two_names_of_one_file_load_once(tmp_path):
    tree = tmp_path / "tree"
    top = build(tree, "rpath of the asker")
    (tree / "a" / "other.so").symlink_to("liblow.so.1")
    process = Process(Tree(), {}, sys.executable)
    process.open(str(top))
    count = len(process.objects)
    process.open(str(tree / "a" / "other.so"))
    assert len(process.objects) == count


def test_a_missing_library_is_named_as_the_loader_names_it(tmp_path):
    tree = tmp_path / "tree"
    top = build(tree, "runpath of the asker's asker")
    loaded, said = really_loaded(top, {})
    assert foretold(top, {}) == (loaded, said)
    assert said.startswith("liblow.so.1: cannot open shared object file")


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"not a library at all, just text" * 10])
def test_a_damaged_file_that_comes_first_stops_the_loader(tmp_path, damage):
    tree = tmp_path / "tree"
    top = build(tree, "runpath of the asker")
    bad = tree / "bad" / "liblow.so.1"
    bad.parent.mkdir()
    bad.write_bytes(damage)
    env = {"LD_LIBRARY_PATH": str(bad.parent)}
    assert foretold(top, env)[1]
    assert really_loaded(top, env)[1]


def test_a_file_for_another_processor_is_passed_over(tmp_path):
    tree = tmp_path / "tree"
    top = build(tree, "runpath of the asker")
    other = bytearray((tree / "a" / "liblow.so.1").read_bytes())
    other[18:20] = (0xB7 if os.uname().machine == "x86_64" else 0x3E).to_bytes(2, "little")
    (tree / "arm").mkdir()
    (tree / "arm" / "liblow.so.1").write_bytes(other)
    env = {"LD_LIBRARY_PATH": str(tree / "arm")}
    assert foretold(top, env) == really_loaded(top, env)
    assert not foretold(top, env)[1]


def test_a_library_of_the_system_comes_from_where_the_loader_finds_it(tmp_path):
    top = compile_library(tmp_path / "tree" / "libtop.so", "int top;", "-lstdc++")
    process = Process(Tree(), {}, sys.executable)
    assert process.open(str(top)) is None
    found = process.find("libstdc++.so.6")
    shown = subprocess.run(["ldd", str(top)], capture_output=True, text=True, check=True).stdout
    assert f"libstdc++.so.6 => {found.path} " in shown


def test_a_chain_of_libraries_without_end_ends(tmp_path):
    tree = tmp_path / "tree"
    a = compile_library(tree / "liba.so", "int a;", "-Wl,-rpath,$ORIGIN")
    b = compile_library(tree / "libb.so", "int b;", "-Wl,-rpath,$ORIGIN", needs=(a,))
    compile_library(tree / "liba.so", "int a;", "-Wl,-rpath,$ORIGIN", needs=(b,))
    assert foretold(a, {}) == really_loaded(a, {})
