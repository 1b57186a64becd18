"""CUDA toolkits and the host compiler, by file names and version files: neither nvcc nor gcc is run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

import msgspec

from envcheck.model.fact import Fact, known, unknown
from envcheck.model.stack import Compiler, Toolkit
from envcheck.probes.probe import Scene
from envcheck.probes.tree import Tree, Unreadable, shown


def find_homes(scene: Scene) -> tuple[str, ...]:
    """The folders of CUDA toolkits and runtimes, each once, links followed: /usr/local/cuda is one to cuda-12.4."""
    tree, env = scene.tree, scene.env
    told = [env[name] for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT") if env.get(name, "").startswith("/")]
    usual = [
        "/usr/local/cuda",
        *tree.under("/usr/local", "cuda-"),
        "/opt/cuda",
        "/usr/lib/nvidia-cuda-toolkit",
        "/usr/lib/cuda",
    ]
    homes: dict[str, None] = {}
    for path in (*told, *usual):
        try:
            if tree.is_dir(path):
                homes.setdefault(tree.resolve(path))
        except Unreadable:  # noqa: PERF203  # one unreadable folder of many
            continue
    return tuple(homes)


def inspect_toolkits(scene: Scene, homes: Iterable[str]) -> Iterator[Toolkit]:
    """The toolkits with an nvcc; a runtime image has the folder without one."""
    tree, env = scene.tree, scene.env
    on_path = _nvcc_on_path(tree, env.get("PATH", ""))
    home = env.get("CUDA_HOME") or env.get("CUDA_PATH") or ""
    chosen = f"{tree.resolve(home)}/bin/nvcc" if home.startswith("/") else on_path
    places = list(homes)
    folder = (on_path or "").rpartition("/bin/")[0]
    if folder not in ("", "/usr", "/usr/local", "/usr/lib/nvidia-cuda-toolkit", *places):
        places.append(folder)
    for place in places:
        nvcc = f"{place}/bin/nvcc"
        if not _is_file(tree, nvcc):
            continue
        version, source = _toolkit_version(scene, place)
        if version:
            yield Toolkit(version, shown(place), tree.resolve(nvcc) == chosen or nvcc == chosen, shown(source))
    if on_path in ("/usr/bin/nvcc", "/usr/lib/nvidia-cuda-toolkit/bin/nvcc"):  # Debian's own package
        found = scene.database.find("nvidia-cuda-toolkit")
        if found:
            yield Toolkit(re.split(r"[-~+]", found[0])[0], "/usr", not home, found[1])


def _toolkit_version(scene: Scene, home: str) -> tuple[str, str]:
    tree = scene.tree
    path = f"{home}/version.json"
    try:
        told = msgspec.json.decode(tree.find_text(path, 1 << 20) or "{}")
        for part in ("cuda", "cuda_nvcc"):
            if re.match(r"\d+\.\d", str(told[part]["version"])):
                return str(told[part]["version"]), path
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # other files tell it too
    path = f"{home}/version.txt"
    match = re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", tree.find_text(path, 4096) or "")
    if match:
        return match.group(1), path
    for name in tree.find_names(f"{home}/conda-meta"):
        match = re.match(r"cuda-nvcc(?:_linux-\S+?)?-(\d+\.\d+[\d.]*)-", name)
        if match:
            return match.group(1), f"{home}/conda-meta/{name}"
    for folder in ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"):
        path = f"{home}/{folder}/cuda.h"
        match = re.search(r"^#define CUDA_VERSION (\d{4,6})", tree.find_text(path, 1 << 20) or "", re.MULTILINE)
        if match:
            return f"{int(match.group(1)) // 1000}.{int(match.group(1)) % 1000 // 10}", path
    match = re.search(r"/cuda-(\d+\.\d+)$", home)
    return (match.group(1), home) if match else ("", "")


def _nvcc_on_path(tree: Tree, path: str) -> Optional[str]:
    """The real file of PATH's nvcc; a wrapper script is read for the one that it calls."""
    found = _which(tree, path, "nvcc")
    if not found:
        return None
    real = tree.resolve(found)
    try:
        head = tree.read_bytes(real, 4096) or b""
    except Unreadable:
        return real
    called = re.search(rb"(/[\w./-]+/bin/nvcc)\b", head[head.find(b"\n") :]) if head.startswith(b"#!") else None
    return tree.resolve(called.group(1).decode()) if called else real


def _which(tree: Tree, path: str, name: str) -> Optional[str]:
    for folder in path.split(":"):
        if folder.startswith("/") and _is_file(tree, f"{folder}/{name}"):
            return f"{folder.rstrip('/')}/{name}"
    return None


def _is_file(tree: Tree, path: str) -> bool:
    try:
        return tree.is_file(path)
    except Unreadable:
        return False


def inspect_compiler(scene: Scene) -> Fact[Any]:
    """The C++ compiler that nvcc would call, by names alone: gcc's folders and links carry its version."""
    tree, env = scene.tree, scene.env
    told = env.get("CUDAHOSTCXX") or env.get("CXX") or ""
    path = (
        told
        if told.startswith("/") and _is_file(tree, told)
        else _which(tree, env.get("PATH", ""), told.split(" ")[0] or "gcc")
    )
    if not path and not tree.live and not env.get("PATH"):
        path = _which(tree, "/usr/bin:/usr/local/bin", "gcc")
    if not path:
        return known(None, "no gcc on PATH")
    real = tree.resolve(path)
    name = "clang" if "clang" in real.rpartition("/")[2] else "gcc"
    match = re.search(r"(?:gcc|g\+\+|clang|clang\+\+)-(\d+(?:\.\d+)*)$", real)
    if match and name == "gcc":
        full = scene.database.find(f"gcc-{match.group(1)}")
        if full and full[0].startswith(f"{match.group(1)}."):
            return known(Compiler("gcc", full[0].partition("-")[0], shown(path), full[1]), full[1])
    if match:
        return known(Compiler(name, match.group(1), shown(path), shown(real)), shown(real))
    base = real.rpartition("/bin/")[0]
    found = [
        (tuple(int(part) for part in version.split(".")), f"{place}/{version}")
        for lib in ("lib", "lib64", "libexec")
        for place in tree.under(f"{base}/{lib}/gcc", "")
        for version in tree.find_names(place)
        if re.fullmatch(r"\d+(\.\d+)*", version) and name == "gcc"
    ]
    if found:
        version, place = max(found)
        return known(Compiler("gcc", ".".join(map(str, version)), shown(path), shown(place)), shown(place))
    return unknown(f"host compiler: {shown(path)} is there, and no file name tells its version")
