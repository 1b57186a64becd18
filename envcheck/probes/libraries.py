"""CUDA's libraries by their places and file names: cheap, and none is opened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.stack import Library
from envcheck.probes.container import find_container_engine
from envcheck.probes.ld_cache import CACHE, read_cache
from envcheck.probes.probe import Scene, Told
from envcheck.probes.toolkits import find_homes, inspect_compiler, inspect_toolkits
from envcheck.probes.tree import Unreadable, shown

FAMILIES = ("libcuda.so.", "libnvidia-ml.so.", "libcudart.so.", "libcudnn.so.", "libnccl.so.", "libcublas.so.")
# These two come by dlopen with no RPATH of their own, so the process-wide search order decides alone.
DLOPENED = ("libcuda.so.1", "libnvidia-ml.so.1")
_SONAME = re.compile(r"(lib[\w-]+\.so\.\d+(?:\.0)?)(?:\.|$)")
_COMPAT = ("compat", "compat/lib", "compat/lib.real")


def inspect(scene: Scene) -> Iterator[Told]:
    """Yield libraries with what their places say, then toolkits and the compiler."""
    homes = find_homes(scene)
    try:
        libraries = tuple(_libraries(scene, homes))
    except Unreadable as failure:
        for field, what in (("libraries", "CUDA libraries"), ("cudnn", "system cuDNN")):
            yield f"stack.{field}", unknown(f"{what}: {failure}")
        libraries = ()
        yield "machine.libcuda_version", unknown(f"version of the driver's libcuda: {failure}")
    else:
        yield "stack.libraries", known(libraries, f"{CACHE}, LD_LIBRARY_PATH, CUDA folders")
        yield "machine.libcuda_version", _libcuda(libraries)
        yield "stack.cudnn", _cudnn(libraries)
    yield "stack.compat", _compat(libraries, homes)
    yield "stack.toolkits", known(tuple(inspect_toolkits(scene, homes)), "CUDA_HOME, PATH, /usr/local")
    yield "stack.cuda", _userland(scene, libraries)
    yield "stack.compiler", inspect_compiler(scene)


def _libraries(scene: Scene, homes: Iterable[str]) -> Iterator[Library]:
    """One row a file; a file met by several ways is named by the first."""
    tree = scene.tree
    seen: dict[str, None] = {}
    order = dict.fromkeys(DLOPENED, 0)
    for path, searched, source in _candidates(scene, homes):
        name = path.rpartition("/")[2]
        match = _SONAME.match(name)
        stub = not match and name.endswith(".so") and "/stubs/" in path
        if not match and not stub:
            continue
        try:
            real = tree.resolve(path)
            if real in seen or not tree.is_file(real):
                continue
        except Unreadable:
            continue
        seen[real] = None
        soname = f"{name}.1" if stub else match.group(1) if match else name
        place = None
        if soname in DLOPENED and searched:
            place = order[soname]
            order[soname] += 1
        yield Library(
            soname=soname,
            path=shown(path),
            version=_version(real, soname),
            origin=_origin(path, real),
            order=place,
            reason=source if place is not None else "",
            source=shown(real),
        )


def _candidates(scene: Scene, homes: Iterable[str]) -> Iterator[tuple[str, bool, str]]:
    """Paths, whether a process searches there by itself, and who names them; in the loader's order."""
    tree = scene.tree
    for folder in scene.env.get("LD_LIBRARY_PATH", "").split(":"):
        if folder.startswith("/"):
            for path in tree.under(folder.rstrip("/"), *FAMILIES):
                yield path, True, "LD_LIBRARY_PATH"
            if folder.rstrip("/").endswith("/stubs"):
                yield f"{folder.rstrip('/')}/libcuda.so", False, "LD_LIBRARY_PATH"
    for entry in read_cache(tree, *FAMILIES):
        yield entry.path, True, CACHE
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        for path in tree.under(folder, *FAMILIES):
            yield path, True, "default folders"
    for folder in ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"):
        for path in tree.under(folder, *FAMILIES):
            yield path, False, "well-known folder"
    for home in homes:
        for folder in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", *_COMPAT):
            for path in tree.under(f"{home}/{folder}", *FAMILIES):
                yield path, False, "CUDA folder"
        yield f"{home}/lib64/stubs/libcuda.so", False, "CUDA folder"


def _version(real: str, soname: str) -> Optional[str]:
    match = re.search(r"\.so\.(\d+(?:\.\d+)+)$", real)
    return match.group(1) if match and f"so.{match.group(1)}" != soname[soname.find("so.") :] else None


def _origin(path: str, real: str) -> str:
    for part, origin in (("/stubs/", "stub"), ("/compat/", "compat"), ("/wsl/", "wsl"), ("/site-packages/", "wheel")):
        if part in path or part in real:
            return origin
    if re.search(r"/(mini|ana)?conda[^/]*/|/envs/", path):
        return "conda"
    if re.match(r"/usr/local/cuda|/opt/cuda", real):
        return "toolkit"
    return "driver" if re.search(r"/lib(cuda|nvidia-ml)\.so\.", path) else "system"


def _libcuda(libraries: Iterable[Library]) -> Fact[Any]:
    """The driver's own libcuda, not the one of a compat package, even where that comes first."""
    ours = [lib for lib in libraries if lib.soname == "libcuda.so.1" and lib.origin in ("driver", "wsl")]
    ours.sort(key=lambda lib: (lib.order is None, lib.order or 0))
    return known(ours[0].version, ours[0].path) if ours else known(None, "no libcuda.so.1 of a driver")


def _cudnn(libraries: Iterable[Library]) -> Fact[Any]:
    found = [lib for lib in libraries if lib.soname.startswith("libcudnn.so.") and lib.origin in ("system", "toolkit")]
    return known(found[0].version, found[0].path) if found else known(None, "library folders")


def _compat(libraries: Iterable[Library], homes: Iterable[str]) -> Fact[Any]:
    found = [lib for lib in libraries if lib.origin == "compat" and lib.soname == "libcuda.so.1" and lib.version]
    return known(found[0].version, found[0].path) if found else known(None, ", ".join(homes) or "/usr/local/cuda*")


def _userland(scene: Scene, libraries: Iterable[Library]) -> Fact[Any]:
    """The CUDA that a container's image brings. A host has toolkits instead, which nothing need use."""
    if not find_container_engine(scene.tree, scene.env)[0]:
        return known(None, "not a container")
    told = scene.env.get("CUDA_VERSION", "")
    if re.fullmatch(r"\d+\.\d+[\d.]*", told):
        return known(told, "CUDA_VERSION")
    found = [
        lib for lib in libraries if lib.soname.startswith("libcudart.so.") and lib.origin == "toolkit" and lib.version
    ]
    if found:
        return known(".".join((found[0].version or "").split(".")[:2]), found[0].path)
    return known(None, "no CUDA_VERSION, no libcudart")
