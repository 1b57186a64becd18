"""The note in which a cuda-compat libcuda lists the driver branches that it works on."""

import json

import pytest

from envcheck.model.snapshot import Snapshot
from envcheck.probes.binaries import inspect_binaries
from envcheck.probes.forward import SECTION, read_forward_note
from envcheck.probes.tree import Tree
from tests.unit.probes.elf_parts import compile_library

SAID = {"Format": 1, "CUDA Version": "12.9", "Driver": [535, 550, 560, 565, 570, 575], "Device": [1, 2, 7]}


def libcuda(path, text: str, owner: str = "NVIDIA Corporation"):
    source = f"""
__asm__(".section {SECTION}, \\"a\\", @note\\n.balign 4\\n"
  ".long 2f - 1f, 4f - 3f, 1\\n1: .asciz \\"{owner}\\"\\n2: .balign 4\\n"
  "3: .ascii {json.dumps(json.dumps(text))[1:-1]}\\n4: .balign 4\\n.previous\\n");
int cuInit;
"""
    return compile_library(path, source)


def test_the_note_tells_cuda_and_branches(tmp_path):
    path = libcuda(tmp_path / "libcuda.so.1", json.dumps(SAID))
    note = read_forward_note(Tree(), str(path))
    assert (note.cuda, note.branches) == ("12.9", (535, 550, 560, 565, 570, 575))


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"Driver": "535", "CUDA Version": 12}', "[" * 5000])
def test_a_note_that_says_something_else_is_no_note_or_says_nothing(tmp_path, text):
    note = read_forward_note(Tree(), str(libcuda(tmp_path / "libcuda.so.1", text)))
    assert note is None or (note.cuda, note.branches) == ("", ())


def test_another_owners_note_is_not_ours(tmp_path):
    assert read_forward_note(Tree(), str(libcuda(tmp_path / "libcuda.so.1", json.dumps(SAID), "GNU"))) is None


def test_a_compat_folder_is_looked_at_even_where_nothing_else_is_installed(tmp_path):
    libcuda(tmp_path / "usr/local/cuda/compat/libcuda.so.1", json.dumps(SAID))
    forward = inspect_binaries(Snapshot(), root=tmp_path).forward.get()
    assert forward.cuda == "12.9"
    assert forward.loads is False


def test_no_compat_library_is_known_to_be_absent(tmp_path):
    assert inspect_binaries(Snapshot(), root=tmp_path).forward.get() is None
