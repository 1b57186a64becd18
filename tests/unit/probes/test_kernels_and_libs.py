"""`envcheck kernels` and `envcheck libs` as a user types them, on an environment that the test compiles."""

import json

import pytest

from tests.unit.probes.elf_parts import TAG, Environment, compile_library, framework, python_module
from tests.unit.probes.test_fatbin import entry, region


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("cli") / "env")
    lib = framework(environment)
    assembly = '__asm__(".section .nv_fatbin, \\"a\\"\\n.incbin \\"{}\\"\\n.previous\\n"); int x;'
    code = environment.root / "code.bin"
    code.write_bytes(region(entry(2, 80), entry(2, 90)) * 4)
    compile_library(lib / "libtorch_cuda.so", assembly.format(code))
    return environment


def test_a_named_gpu_without_code_exits_1(envcheck, environment):
    done = envcheck(
        "kernels", "--python", str(environment.python), "--gpu", "RTX 5090", "--gpu", "H100", "--format", "json"
    )
    row = next(r for r in json.loads(done.stdout)["binaries"] if r["path"].endswith("libtorch_cuda.so"))
    assert row["gpus"] == {"RTX 5090": "none", "H100": "native"}
    assert row["main"] is True
    assert done.returncode == 1


def test_a_gpu_between_two_architectures_runs_the_older_ones_code(envcheck, environment):
    done = envcheck("kernels", str(environment.site / "torch/lib/libtorch_cuda.so"), "--gpu", "RTX 4090")
    assert b"native" in done.stdout
    assert b"sm_80 sm_90" in done.stdout
    assert done.returncode == 0


def test_a_file_that_is_none_exits_3(envcheck, tmp_path):
    (tmp_path / "x.so").write_text("text")
    done = envcheck("kernels", str(tmp_path / "x.so"))
    assert done.returncode == 3
    assert b"neither an ELF file nor a fatbin" in done.stderr


def test_a_package_that_is_not_installed_exits_2_and_names_the_nearest(envcheck, environment):
    done = envcheck("kernels", "--python", str(environment.python), "torhc")
    assert done.returncode == 2
    assert b"torch" in done.stderr


def test_a_mistyped_gpu_exits_2(envcheck, environment):
    assert envcheck("kernels", "--python", str(environment.python), "--gpu", "RTX 409").returncode == 2


def test_libs_names_the_winner_its_owner_and_the_reason(envcheck, environment):
    done = envcheck("libs", "--python", str(environment.python))
    assert b"nvidia-cuda-runtime 13.0.96" in done.stdout
    assert b"RPATH of libtorch_global_deps.so" in done.stdout
    assert done.returncode == 0


def test_libs_exits_1_where_an_import_would_fail(envcheck, environment):
    gone = compile_library(environment.root / "gone" / "libgone.so.1")
    lib = environment.site / "torch" / "lib" / "libc10.so"
    path = python_module(environment.site / f"zz_ext{TAG}", "", needs=(lib, gone))
    gone.unlink()
    done = envcheck("libs", "--python", str(environment.python), "--format", "json")
    path.unlink()
    assert done.returncode == 1
    assert [row["name"] for row in json.loads(done.stdout)["openings"] if row.get("fault")] == ["libgone.so.1"]


def test_libs_without_a_framework_says_what_to_do(envcheck, tmp_path):
    bare = Environment(tmp_path / "bare")
    done = envcheck("libs", "--python", str(bare.python))
    assert done.returncode == 3
    assert b"--python PATH" in done.stderr
