"""What the binaries of an environment tell, against what really happens when it is imported."""

import msgspec
import pytest

from envcheck.model.snapshot import Snapshot
from envcheck.rules.engine import judge
from envcheck.rules.loader import RULES
from tests.unit.probes.elf_parts import NEW_ERROR, TAG, Environment, compile_library, framework, python_module

USES = "\n#include <string>\n" + NEW_ERROR + '\nvoid use() { c10::Error({"a", 1}, std::string("x")); }\n'


@pytest.fixture
def environment(tmp_path):
    environment = Environment(tmp_path / "env")
    framework(environment)
    return environment


def findings(stack, matrix):
    return judge(msgspec.structs.replace(Snapshot(), stack=stack), matrix, RULES).findings


def extension(environment, name, *flags, version="1.0", body=USES):
    lib = environment.site / "torch" / "lib" / "libc10.so"
    path = python_module(environment.site / f"{name}{TAG}", body, *flags, needs=(lib,))
    environment.distribution(name, version, [path], requires=("torch",))
    return path


def opening(stack, name):
    return next(row for row in stack.openings.get() if row.path.rpartition("/")[2].startswith(f"{name}."))


def test_an_environment_whose_parts_belong_together_is_clean(environment, matrix):
    extension(environment, "good_ext")
    assert environment.run("import torch, good_ext").returncode == 0
    stack = environment.inspect()
    assert [row.fault for row in stack.openings.get()] == ["", "", ""]
    assert findings(stack, matrix) == ()


def test_an_extension_of_the_old_abi_fails_with_the_symbol_that_was_foretold(environment, matrix):
    extension(environment, "flash_ext", "-D_GLIBCXX_USE_CXX11_ABI=0", version="2.5.8+cu122torch2.3cxx11abiFALSE")
    real = environment.run("import torch, flash_ext").stderr
    told = opening(environment.inspect(), "flash_ext")
    assert (told.fault, told.cxx11_abi) == ("symbol", False)
    assert f"undefined symbol: {told.name}" in real
    assert told.built_for.startswith("torch 2.3")
    (finding,) = findings(environment.inspect(), matrix)
    assert (finding.rule, finding.severity) == ("LIB110", "error")
    assert "old (pre-cxx11)" in finding.message


def test_the_frameworks_own_abi_is_told_by_its_exports(environment):
    package = next(p for p in environment.inspect().packages.get() if p.name == "torch")
    assert package.cxx11_abi is True


def test_an_extension_for_a_function_that_this_release_lacks_is_told(environment, matrix):
    body = "\nnamespace at { int gone_in_this_release(); }\nint use() { return at::gone_in_this_release(); }\n"
    extension(environment, "old_ext", body=body)
    told = opening(environment.inspect(), "old_ext")
    assert told.symbols == ("_ZN2at20gone_in_this_releaseEv",)
    assert told.name in environment.run("import torch, old_ext").stderr


def test_a_symbol_that_another_library_of_the_package_brings_is_not_missed(environment, matrix):
    lib = environment.site / "torch" / "lib" / "libc10.so"
    own = compile_library(
        environment.site / "pair" / "libown.so", "namespace at { int mine() { return 1; } }", cxx=True
    )
    body = "\nnamespace at { int mine(); }\nint use() { return at::mine(); }\n"
    path = python_module(environment.site / f"pair_ext{TAG}", body, "-Wl,-rpath,$ORIGIN/pair", needs=(lib, own))
    environment.distribution("pair-ext", "1", [path], requires=("torch",))
    assert environment.run("import torch, pair_ext").returncode == 0
    assert opening(environment.inspect(), "pair_ext").fault == ""


def test_an_extension_for_another_python_is_told(environment, matrix):
    path = extension(environment, "tagged_ext")
    other = path.with_name("tagged_ext.cpython-38-x86_64-linux-gnu.so")
    path.rename(other)
    record = next(environment.site.glob("tagged_ext-*")) / "RECORD"
    record.write_text(f"{other.name},,\n")
    assert "No module named" in environment.run("import torch, tagged_ext").stderr
    told = opening(environment.inspect(), "tagged_ext")
    assert (told.fault, told.name) == ("python", "3.8")
    assert [finding.rule for finding in findings(environment.inspect(), matrix)] == ["LIB110"]


def test_an_extension_that_needs_an_absent_cuda_is_told(environment, matrix):
    absent = compile_library(environment.root / "elsewhere" / "libcudart.so.11.0")
    lib = environment.site / "torch" / "lib" / "libc10.so"
    path = python_module(environment.site / f"cuda_ext{TAG}", "", needs=(lib, absent))
    environment.distribution("cuda-ext", "1", [path], requires=("torch",))
    absent.unlink()
    told = opening(environment.inspect(), "cuda_ext")
    assert (told.fault, told.name, told.built_for) == ("missing", "libcudart.so.11.0", "CUDA 11")
    assert told.text in environment.run("import torch, cuda_ext").stderr
    assert [finding.rule for finding in findings(environment.inspect(), matrix)] == ["LIB111"]


def test_another_runtime_first_on_the_library_path_is_shadowing_only_if_it_wins(environment, matrix):
    other = compile_library(environment.root / "cuda" / "libcudart.so.13", "int cudart; int other;")
    stack = environment.inspect(LD_LIBRARY_PATH=str(other.parent))
    rows = {row.order: row for row in stack.libraries.get() if row.soname == "libcudart.so.13"}
    assert rows[0].package == "nvidia-cuda-runtime"  # RPATH comes before LD_LIBRARY_PATH
    assert rows[1].path == str(other)
    assert findings(stack, matrix) == ()
    stack = environment.inspect(LD_PRELOAD=str(other))
    maps = environment.run("import torch; print(open('/proc/self/maps').read())", LD_PRELOAD=str(other)).stdout
    assert str(other) in maps
    (finding,) = findings(stack, matrix)
    assert (finding.rule, finding.severity) == ("LIB101", "warning")
    assert "LD_PRELOAD" in finding.fix[0]


def test_a_library_that_needs_a_newer_libstdcxx_is_told(environment, matrix):
    fake = compile_library(
        environment.root / "old" / "libstdc++.so.6", "int x;", f"-Wl,--version-script={_script(environment.root)}"
    )
    extension(environment, "new_ext", body="\n#include <string>\nstd::string s() { return std::to_string(1) + 'x'; }\n")
    stack = environment.inspect(LD_LIBRARY_PATH=str(fake.parent))
    broken = [row for row in stack.openings.get() if row.fault == "version"]
    real = environment.run("import torch, new_ext", LD_LIBRARY_PATH=str(fake.parent)).stderr
    assert f"version `{broken[0].name}' not found" in real
    assert {finding.rule for finding in findings(stack, matrix)} == {"LIB120"}


def _script(folder):
    path = folder / "versions"
    path.write_text("GLIBCXX_3.4 { global: x; local: *; };\n")
    return path


def test_without_a_framework_nothing_is_claimed(tmp_path):
    stack = Environment(tmp_path / "bare").inspect()
    assert not stack.openings.known
    assert not stack.binaries.known
