"""Small real ELF files, fatbins and environments for the tests, made by the machine's own compilers."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

TAG = sysconfig.get_config_var("EXT_SUFFIX")
VERSION = ".".join(map(str, sys.version_info[:3]))


def compile_library(
    path: Path, source: str = "int here;", *flags: str, needs: tuple[Path, ...] = (), cxx: bool = False
):
    """A shared library at `path`, its SONAME the file's name, linked to `needs` by their SONAMEs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compiler = "g++" if cxx else "gcc"
    command = [compiler, "-shared", "-fPIC", "-x", "c++" if cxx else "c", "-", "-o", str(path), "-nostartfiles"]
    command += [f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", "-x", "none", *map(str, needs), *flags]
    subprocess.run(command, input=source.encode(), check=True, capture_output=True)
    return path


NVCC_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-nvvm", "nvidia-cuda-crt")


@functools.lru_cache(maxsize=1)
def nvcc() -> str:
    """The CUDA compiler: the machine's, else its wheels in a folder of their own (the tests that need it are marked
    `integration`)."""
    found = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if os.access(found, os.X_OK):
        return found
    folder = Path(tempfile.mkdtemp(prefix="envcheck-nvcc-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # One toolkit release for all: a newer front end writes PTX that an older assembler refuses.
    wanted = [f"{name}==13.0.*" for name in NVCC_WHEELS]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *wanted]
    subprocess.run(command, check=True, capture_output=True)
    for program in folder.rglob("bin/*"):  # pip drops the mode of what is no script
        program.chmod(0o755)
    return str(next(folder.rglob("bin/nvcc")))


def compile_fatbin(path: Path, *codes: tuple[str, str]) -> Path:
    """A fatbin for pairs of (virtual, real) architectures: ('90a', 'sm_90a')."""
    source = path.with_suffix(".cu")
    source.write_text("__global__ void twice(float* p) { p[threadIdx.x] *= 2.f; }\n")
    pairs = [f"-gencode=arch=compute_{virtual},code={real}" for virtual, real in codes]
    subprocess.run([nvcc(), "-fatbin", *pairs, str(source), "-o", str(path)], check=True, capture_output=True)
    return path


class Environment:
    """A virtual environment's folder tree round this Python, with distributions that hold compiled files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True, capture_output=True)
        self.python = root / "bin" / "python"
        self.site = next((root / "lib").glob("python3*")) / "site-packages"

    def distribution(self, name: str, version: str, files: list[Path], requires: tuple[str, ...] = ()) -> None:
        """Metadata for files that are already there."""
        folder = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = [f"Requires-Dist: {text}\n" for text in requires]
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}\n")
        rows = [f"{file.relative_to(self.site)},,{file.stat().st_size}\n" for file in files]
        (folder / "RECORD").write_text("".join(rows))

    def inspect(self, **env: str):
        """The stack that doctor would see, with this environment for the process."""
        from envcheck import matrix
        from envcheck.probes.binaries import inspect_binaries
        from envcheck.probes.inspect import inspect_host

        known = frozenset(matrix.load().packages())
        clean = {"PATH": "/usr/bin:/bin", **env}
        snap = inspect_host(python=str(self.python), env=clean, known=known)
        return inspect_binaries(snap, env=clean, deadline=60)

    def run(self, code: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Python code, really run in this environment."""
        command = [str(self.python), "-c", code]
        return subprocess.run(
            command, env={"PATH": "/usr/bin:/bin", **env}, capture_output=True, text=True, timeout=120
        )


NEW_ERROR = """
namespace c10 {
struct SourceLocation { const char* f; unsigned l; };
struct Error { Error(SourceLocation, std::string); };
}
"""
MODULE = """
#include <Python.h>
static struct PyModuleDef def = {{PyModuleDef_HEAD_INIT, "{name}"}};
extern "C" PyObject* PyInit_{name}() {{ return PyModule_Create(&def); }}
"""


def python_module(path: Path, body: str = "", *flags: str, needs: tuple[Path, ...] = ()) -> Path:
    """A compiled Python module, importable by the environment's interpreter."""
    name = path.name.partition(".")[0]
    include = f"-I{sysconfig.get_paths()['include']}"
    return compile_library(path, MODULE.format(name=name) + body, include, *flags, needs=needs, cxx=True)


def framework(environment: Environment) -> Path:
    """A stand-in for torch with its real layout: libc10 that exports c10::Error of the new ABI, a module, preloads."""
    lib = environment.site / "torch" / "lib"
    rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../../nvidia/cu13/lib"
    error = "#include <string>\n" + NEW_ERROR + "\nc10::Error::Error(SourceLocation, std::string) {}\n"
    c10 = compile_library(lib / "libc10.so", error, rpath, cxx=True)
    cudart = compile_library(environment.site / "nvidia" / "cu13" / "lib" / "libcudart.so.13", "int cudart;")
    deps = compile_library(lib / "libtorch_global_deps.so", "int deps;", rpath, needs=(cudart,))
    cpu = compile_library(lib / "libtorch_cpu.so", "int cpu;", rpath, needs=(c10,))
    module = python_module(
        environment.site / "torch" / f"_C{TAG}", "", rpath.replace("$ORIGIN:", "$ORIGIN/lib:"), needs=(cpu, c10)
    )
    init = environment.site / "torch" / "__init__.py"
    init.write_text(
        "import ctypes, os\nhere = os.path.dirname(__file__)\n"
        "ctypes.CDLL(here + '/lib/libtorch_global_deps.so', mode=ctypes.RTLD_GLOBAL)\nfrom . import _C\n"
    )
    (environment.site / "torch" / "version.py").write_text("__version__ = '2.14.1+cu130'\ncuda = '13.0'\n")
    environment.distribution("torch", "2.14.1", [c10, deps, cpu, module, init])
    environment.distribution("nvidia-cuda-runtime", "13.0.96", [cudart])
    return lib
