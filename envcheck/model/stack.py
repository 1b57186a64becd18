"""The stack: what an image or environment brings (userland, Python, CUDA libraries, frameworks, environment).

In every value below `None` means that this detail is not known.
"""

from __future__ import annotations

from typing import Optional

import msgspec

from envcheck.model.fact import Fact, not_told


class Distro(msgspec.Struct, frozen=True, omit_defaults=True):
    """/etc/os-release: id ('ubuntu'), version ('22.04') and the printed name."""

    id: str = ""
    version: str = ""
    name: str = ""


class Python(msgspec.Struct, frozen=True, omit_defaults=True):
    """The interpreter that the environment uses."""

    version: Optional[str] = None  # '3.11.9'
    implementation: str = "CPython"
    executable: str = ""
    prefix: str = ""
    kind: str = ""  # venv, conda, system, pyenv, uv …
    free_threaded: Optional[bool] = None
    headers: Optional[bool] = None  # Python.h is there
    platform: str = ""  # wheel platform, 'linux_x86_64'


class Package(msgspec.Struct, frozen=True, omit_defaults=True):
    """An installed (or requested) distribution that the matrix knows.

    `name` is normalised (PEP 503). `version` keeps its local part ('2.5.1+cu124') where told.
    `variant` is the build's accelerator tag: 'cu124', 'cpu', 'rocm6.2'; `cuda`, `cudnn` are what it was built for.
    `pinned` is False for a requirement range, whose text is then in `requirement`.
    """

    name: str
    version: Optional[str] = None
    variant: Optional[str] = None
    cuda: Optional[str] = None
    cudnn: Optional[str] = None
    hip: Optional[str] = None
    installer: str = ""  # pip, conda, apt, source …
    location: str = ""
    channel: str = ""  # index or conda channel
    build: str = ""  # conda build string, wheel tag
    requirement: str = ""
    pinned: bool = True
    broken: str = ""  # why it can't be imported although it is installed
    capabilities: Optional[tuple[str, ...]] = None  # compiled SASS, '9.0', '9.0a'; PTX as '9.0+PTX'
    cxx11_abi: Optional[bool] = None
    python_tag: str = ""
    requires: tuple[str, ...] = ()
    source: str = ""


class Toolkit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CUDA toolkit (its nvcc)."""

    version: str
    path: str = ""
    on_path: Optional[bool] = None  # its nvcc is the one that PATH or CUDA_HOME gives
    source: str = ""


class Compiler(msgspec.Struct, frozen=True, omit_defaults=True):
    """The host C++ compiler."""

    name: str  # gcc or clang
    version: str
    path: str = ""
    source: str = ""


class Library(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shared library that decides (libcuda, libcudart, cuDNN, NCCL …), one row a file.

    `soname` is the family with its major, 'libcudnn.so.9'. `origin` is driver, compat, stub, wheel, conda, system,
    toolkit, wsl or other-environment. `order` is the place in the search order of the environment's process; 0 is the
    one that loads.
    """

    soname: str
    path: str = ""
    version: Optional[str] = None
    origin: str = ""
    package: str = ""
    order: Optional[int] = None
    reason: str = ""
    source: str = ""


class Binary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file with device code: the share of its modules that run on each architecture is measured, not guessed.

    `sass` and `ptx` map '9.0' (suffix kept: '9.0a', '10.0f') to the number of modules that hold it; `mixes` counts
    the modules by all that each holds ('7.5 9.0a 12.0+PTX'), as a module needs only one that runs.
    """

    path: str
    package: str = ""
    modules: int = 0
    sass: dict[str, int] = {}
    ptx: dict[str, int] = {}
    mixes: dict[str, int] = {}
    ptx_isa: str = ""  # the newest PTX version in it, '9.0': what a driver must know to compile it
    main: bool = False  # without its code the package does nothing on a GPU
    unread: str = ""  # why its device code could not be read; nothing else is told then
    source: str = ""


class Opening(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the loader will say when a compiled file of a package is opened; worked out, not tried.

    `fault` is empty where it loads, else 'missing' (a library), 'damaged' (a library), 'version' (`name` is the version
    that `provider` lacks), 'symbol' (`name` is one that nobody defines; all are in `symbols`) or 'python' (built for
    another Python). `text` is the loader's own wording, as far as it can be foretold.
    """

    path: str
    package: str = ""
    fault: str = ""
    name: str = ""
    wanted_by: str = ""  # the file that asks for `name`
    provider: str = ""  # the file that should have it
    text: str = ""
    symbols: tuple[str, ...] = ()
    cxx11_abi: Optional[bool] = None  # by the file's own mangled names
    built_for: str = ""  # what tells of the release that it was built for: 'torch 2.3 (its version tag)', 'CUDA 12'
    source: str = ""


class ForwardNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cuda-compat libcuda says of itself in its ELF note: its CUDA and the driver branches that it works on."""

    path: str
    cuda: str = ""
    branches: tuple[int, ...] = ()
    loads: Optional[bool] = None  # it is the libcuda that a process gets
    source: str = ""


class Image(msgspec.Struct, frozen=True, omit_defaults=True):
    """A container image as its configuration tells it."""

    reference: str = ""
    digest: str = ""
    arch: str = ""
    labels: dict[str, str] = {}
    created: str = ""


class Stack(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything known of one software stack; every field starts as 'not told'."""

    distro: Fact[Distro] = not_told("distribution")
    glibc: Fact[str] = not_told("glibc version")
    glibcxx: Fact[str] = not_told("newest GLIBCXX of libstdc++")
    arch: Fact[str] = not_told("architecture of the stack")
    python: Fact[Optional[Python]] = not_told("Python")
    packages: Fact[tuple[Package, ...]] = not_told("installed packages")
    complete: Fact[bool] = not_told("whether the package list is whole")  # False: a fragment; absence proves nothing
    cuda: Fact[Optional[str]] = not_told("CUDA of the userland")  # runtime of the image: CUDA_VERSION, libcudart
    cudnn: Fact[Optional[str]] = not_told("system cuDNN")
    toolkits: Fact[tuple[Toolkit, ...]] = not_told("CUDA toolkits")
    compiler: Fact[Optional[Compiler]] = not_told("host compiler")
    libraries: Fact[tuple[Library, ...]] = not_told("CUDA libraries")
    binaries: Fact[tuple[Binary, ...]] = not_told("device code of the binaries")
    env: Fact[dict[str, str]] = not_told("environment variables")
    image: Fact[Optional[Image]] = not_told("container image")
    compat: Fact[Optional[str]] = not_told("cuda-compat package")  # driver version of its libcuda; None: none there
    openings: Fact[tuple[Opening, ...]] = not_told("what the loader says to compiled packages")
    forward: Fact[Optional[ForwardNote]] = not_told("ELF note of the cuda-compat libcuda")
    ptxas: Fact[tuple[Toolkit, ...]] = not_told("ptxas of JIT compilers")  # () means looked, none
