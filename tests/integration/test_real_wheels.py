"""Real wheels in real environments: what is foretold against what the import and the loader do. Gigabytes: heavy.

Environments are made under $ENVCHECK_HEAVY (default: a cache folder) and used again; `t214` may be there already.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import envcheck.probes.proof
from envcheck.model.snapshot import Snapshot
from envcheck.probes.binaries import inspect_binaries
from envcheck.probes.deciding import decides
from envcheck.probes.inspect import inspect_host
from envcheck.probes.proof import prove, read_proof
from envcheck.probes.runner import Run
from envcheck.rules.engine import judge
from envcheck.rules.loader import RULES
from tests.unit.probes.elf_parts import NEW_ERROR, TAG, python_module

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3000)]
FOLDER = Path(os.environ.get("ENVCHECK_HEAVY", Path.home() / ".cache" / "envcheck-heavy"))
# Opened by name when first used, which takes a GPU: an import alone doesn't show them.
LATER = re.compile(r"libcudnn_|libcusolver|libcuda\.so")
RULES_BY_ID = {rule.id: rule for rule in RULES}


def install(folder: Path, *wheels: str, deps: bool = True) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *([] if deps else ["--no-deps"]), *wheels]
    subprocess.run(command, check=True, capture_output=True)


def made(name: str, *wheels: str, deps: bool = True, source: Path | None = None) -> Path:
    """The environment called `name`, with these wheels; `source` is one to start from (hard links, no room taken)."""
    folder = FOLDER / name
    if not (folder / "bin" / "python").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        if source:
            subprocess.run(["cp", "-al", str(source), str(folder)], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install(folder, *wheels, deps=deps)
    return folder


@pytest.fixture(scope="session")
def big() -> Path:
    return made("t214", "torch==2.14.1", "torchvision==0.29.1")


@pytest.fixture(scope="session")
def others() -> Path:
    """CUDA 13 libraries of releases that torch 2.14.1 does not pin."""
    wheels = ("nvidia-cublas==13.10.0.20", "nvidia-nvjitlink==13.0.39", "nvidia-cudnn-cu13==9.13.0.50")
    return made("other13", *wheels, deps=False)


def site(folder: Path) -> Path:
    return next((folder / "lib").glob("python3*")) / "site-packages"


def clean(**env: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), **env}


def foretold(folder: Path, matrix, **env: str):
    known = frozenset(matrix.packages())
    snap = inspect_host(python=str(folder / "bin" / "python"), env=clean(**env), known=known)
    return inspect_binaries(snap, env=clean(**env), deadline=60)


def really(folder: Path, *modules: str, **env: str) -> tuple[dict[str, str], set[str]]:
    """Errors by module, and the real paths of the deciding libraries that the process has mapped."""
    code = "import json\nfaults = {}\n"
    for name in modules:
        code += f"try:\n    import {name}\nexcept BaseException as fault:\n    faults[{name!r}] = str(fault)\n"
    code += "print(json.dumps([faults, open('/proc/self/maps').read()]))"
    command = [str(folder / "bin" / "python"), "-c", code]
    done = subprocess.run(command, env=clean(**env), capture_output=True, text=True, timeout=300, check=True)
    faults, maps = json.loads(done.stdout.splitlines()[-1])
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if "/" in line}
    return faults, {os.path.realpath(path) for path in paths if decides(path)}


def assert_same_libraries(stack, real: set[str]) -> None:
    # A second copy of a soname is mapped too, and reported as one that binds nobody.
    rows = [row for row in stack.libraries.get() if row.order == 0 or row.reason.startswith("loaded too")]
    ours = {os.path.realpath(row.path) for row in rows}
    assert real - ours == set()
    assert {path for path in ours - real if not LATER.search(path)} == set()


def findings(stack, matrix):
    return judge(msgspec.structs.replace(Snapshot(), stack=stack), matrix, RULES).findings


def test_as_it_is_installed_every_library_is_the_wheels_own(big, matrix):
    faults, real = really(big, "torch", "torchvision")
    stack = foretold(big, matrix)
    assert faults == {}
    assert len(real) > 15
    assert_same_libraries(stack, real)
    assert not any(row.fault for row in stack.openings.get())
    assert findings(stack, matrix) == ()


def test_other_releases_on_the_library_path_do_not_win_against_its_preloads(big, others, matrix):
    folders = [site(others) / "nvidia" / "cu13" / "lib", site(others) / "nvidia" / "cudnn" / "lib"]
    env = {"LD_LIBRARY_PATH": ":".join(map(str, folders))}
    faults, real = really(big, "torch", "torchvision", **env)
    stack = foretold(big, matrix, **env)
    assert faults == {}
    assert_same_libraries(stack, real)
    assert findings(stack, matrix) == ()
    assert any(row.order and row.path.startswith(str(folders[0])) for row in stack.libraries.get())


def test_the_loaders_own_trace_names_the_same_files(big, others, matrix):
    env = {"LD_LIBRARY_PATH": str(site(others) / "nvidia" / "cu13" / "lib"), "LD_DEBUG": "libs"}
    command = [str(big / "bin" / "python"), "-c", "import torch"]
    said = subprocess.run(command, env=clean(**env), capture_output=True, text=True, timeout=300, check=True).stderr
    started = {os.path.realpath(path) for path in re.findall(r"calling init: (\S+)", said) if decides(path)}
    rows = foretold(big, matrix, LD_LIBRARY_PATH=env["LD_LIBRARY_PATH"]).libraries.get()
    assert started
    assert started <= {os.path.realpath(row.path) for row in rows if row.order == 0}


@pytest.mark.parametrize(
    ("file", "rule", "severity"),
    [
        ("cudnn/lib/libcudnn.so.9", "LIB102", "error"),
        ("cu13/lib/libnvJitLink.so.13", "LIB101", "warning"),
        ("cu13/lib/libcublasLt.so.13", "LIB101", "warning"),
    ],
)
def test_a_preloaded_library_of_another_release_wins_and_is_named(big, others, matrix, file, rule, severity):
    path = str(site(others) / "nvidia" / file)
    faults, real = really(big, "torch", LD_PRELOAD=path)
    stack = foretold(big, matrix, LD_PRELOAD=path)
    assert path in real
    assert_same_libraries(stack, real)
    assert bool(faults) == any(row.fault for row in stack.openings.get() if row.package == "torch")
    found = [(finding.rule, finding.severity) for finding in findings(stack, matrix)]
    assert (rule, severity) in found


def test_packages_of_two_cuda_majors_in_one_environment(big, matrix):
    wheels = ("nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-nvjitlink-cu12==12.4.127")
    mixed = made("t214-cu12", *wheels, deps=False, source=big)
    faults, real = really(mixed, "torch", "torchvision")
    stack = foretold(mixed, matrix)
    assert faults == {}
    assert_same_libraries(stack, real)
    cudnn = next(row for row in stack.libraries.get() if row.soname == "libcudnn.so.9")
    assert cudnn.package == "nvidia-cudnn-cu12"  # both wheels claim the file; its size tells whose it is


@pytest.mark.parametrize("new", [0, 1])
def test_an_extension_of_either_abi_loads_as_foretold(big, matrix, tmp_path, new):
    body = "\n#include <string>\n" + NEW_ERROR.replace("const char* f;", "const char* f; const char* n;")
    body += '\nvoid use() { c10::Error({"a", "b", 1}, std::string("x")); }\n'
    library = site(big) / "torch" / "lib" / "libc10.so"
    python_module(tmp_path / f"flash_ext{TAG}", body, f"-D_GLIBCXX_USE_CXX11_ABI={new}", needs=(library,))
    faults, _ = really(big, "torch", "flash_ext", PYTHONPATH=str(tmp_path))
    stack = foretold(big, matrix, PYTHONPATH=str(tmp_path))
    told = next(row for row in stack.openings.get() if "flash_ext" in row.path)
    if new:
        assert (faults, told.fault) == ({}, "")
    else:
        assert f"undefined symbol: {told.name}" in faults["flash_ext"]
        assert "LIB110" in [finding.rule for finding in findings(stack, matrix)]


def test_a_cpu_torch_with_a_cuda_torchvision(matrix):
    cpu = made("cpu", "torch==2.13.0")
    mixed = made("cpu-vision", "torchvision==0.29.1", "numpy", "pillow", deps=False, source=cpu)
    stack = foretold(mixed, matrix)
    told = next(row for row in stack.openings.get() if row.path.endswith("_C_stable.so"))
    code = f"import torch, ctypes\ntry:\n    ctypes.CDLL({told.path!r})\nexcept OSError as fault:\n    print(fault)"
    command = [str(mixed / "bin" / "python"), "-c", code]
    said = subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=300, check=True).stdout
    assert told.fault == "missing"
    assert said.strip() == told.text
    assert "torchvision::nms does not exist" in really(mixed, "torch", "torchvision")[0]["torchvision"]


def test_the_device_code_of_torch_is_what_its_own_list_says(big, matrix):
    stack = foretold(big, matrix)
    code = "import torch; print(torch._C._cuda_getArchFlags())"
    command = [str(big / "bin" / "python"), "-c", code]
    said = subprocess.run(command, env=clean(), capture_output=True, text=True, timeout=300, check=True).stdout
    package = next(p for p in stack.packages.get() if p.name == "torch")
    assert {f"sm_{text.replace('.', '')}" for text in package.capabilities} == set(said.split())


def test_the_proofs_computations_agree_where_they_are_right(big):
    """On the CPU in the GPU's place, which leaves out only what needs CUDA itself."""
    child = Path(envcheck.probes.proof.__file__).with_name("proof_child.py")
    code = f"import runpy, torch; runpy.run_path({str(child)!r}, run_name='x')['prove_torch_gpu'](torch, 0, 'cpu')"
    command = [str(big / "bin" / "python"), "-c", code]
    done = subprocess.run(command, env=clean(), capture_output=True, timeout=300, check=True)
    states = {check.name: check.state for check in read_proof(Run(("python",), rc=0, out=done.stdout), "python").checks}
    wanted = ("allocate", "matmul fp32", "matmul tf32", "matmul fp16", "matmul bf16", "convolution")
    assert {name: states[name] for name in wanted} == dict.fromkeys(wanted, "ok")


def test_a_proof_on_a_machine_without_a_driver_fails_in_torchs_words(big, matrix):
    snap = inspect_host(
        python=str(big / "bin" / "python"), env=clean(), known=frozenset(matrix.packages()), binaries=False
    )
    proof = prove(snap, env=clean(), deadline=120)
    assert [(check.name, check.state) for check in proof.checks] == [("import", "ok"), ("cuda", "failed")]
    assert "NVIDIA driver" in proof.log
    assert any("libcudart.so.13" in path for path in proof.loaded)
