"""The Python environment of the patient, read from its files: which interpreter, which folders it imports from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Optional

from envcheck.model.fact import known, unknown
from envcheck.model.stack import Python
from envcheck.probes.distributions import inspect_distributions
from envcheck.probes.probe import Scene, Told
from envcheck.probes.tree import Tree, Unreadable, shown

_LIB = re.compile(r"(python|pypy)(\d+\.\d+)(t?)")
_ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0xF3: "riscv64"}


class NoPython(Exception):
    """The environment can't be read; `str()` says why, for people."""


class Place(NamedTuple):
    """An interpreter by its path, the prefix that it serves, and who named it."""

    executable: str
    prefix: str
    source: str


def inspect(scene: Scene) -> Iterator[Told]:
    """Yield the interpreter, then what is installed for it."""
    try:
        place = find_place(scene)
        if place is None:
            yield "stack.python", known(None, "PATH")
            yield "stack.packages", known((), "no Python on PATH")
            yield "stack.complete", known(True, "no Python on PATH")
            return
        python, config = read_interpreter(scene.tree, place)
        sites = find_sites(scene, python, config)
    except (NoPython, Unreadable) as failure:
        for field, what in (("python", "Python"), ("packages", "installed packages"), ("complete", "package list")):
            yield f"stack.{field}", unknown(f"{what}: {failure}")
        return
    yield "stack.python", known(python, place.source)
    packages, unread = inspect_distributions(scene.tree, sites, python.prefix, scene.known)
    if unread and not packages:
        yield "stack.packages", unknown(f"installed packages: {unread[0]}")
    else:
        yield "stack.packages", known(packages, ", ".join(sites) or python.prefix)
    told = unknown(f"package list: {unread[0]}") if unread else known(True, python.prefix)
    yield "stack.complete", told


def find_place(scene: Scene) -> Optional[Place]:
    """The interpreter that was named, else the active environment's, else the first on PATH; None: there is none."""
    tree, env = scene.tree, scene.env
    if scene.python:
        return _named(scene, scene.python)
    path = [folder for folder in env.get("PATH", "").split(":") if folder.startswith("/")]
    active = [(env[name].rstrip("/"), name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    # Both are set where a venv was made inside conda: PATH tells which one was entered last.
    active.sort(key=lambda item: path.index(f"{item[0]}/bin") if f"{item[0]}/bin" in path else len(path))
    for prefix, name in active:
        marker = "pyvenv.cfg" if name == "VIRTUAL_ENV" else "conda-meta"
        if prefix.startswith("/") and tree.there(f"{prefix}/{marker}"):
            return Place(_python_in(tree, f"{prefix}/bin") or f"{prefix}/bin/python", prefix, name)
    if not path and not tree.live:
        path = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    for folder in path:
        found = _python_in(tree, folder)
        if found and f"{folder}/".find("/shims/") >= 0:
            found = _behind_shim(scene, folder)
        if found:
            return Place(found, _prefix(tree, found), "PATH")
    return None


def _named(scene: Scene, wanted: str) -> Place:
    tree = scene.tree
    if "/" not in wanted:
        for folder in scene.env.get("PATH", "").split(":"):
            if folder.startswith("/") and tree.there(f"{folder}/{wanted}"):
                return Place(f"{folder}/{wanted}", _prefix(tree, f"{folder}/{wanted}"), "--python")
        raise NoPython(f"no {wanted!r} on PATH")
    if not wanted.startswith("/"):
        wanted = f"{scene.env.get('PWD', '')}/{wanted}"
    try:
        if tree.is_dir(wanted):  # the folder of an environment
            found = _python_in(tree, f"{wanted.rstrip('/')}/bin")
            if not found:
                raise NoPython(f"{shown(wanted)} is a folder without bin/python")
            wanted = found
        elif not tree.exists(wanted):
            target = tree.link(wanted)
            if target is None or not tree.there(f"{wanted.rpartition('/')[0]}/../pyvenv.cfg"):
                raise NoPython(f"there is no {shown(wanted)}")
        elif not tree.is_file(wanted):
            raise NoPython(f"{shown(wanted)} is no interpreter: not a regular file")
    except Unreadable as failure:
        raise NoPython(str(failure)) from failure
    return Place(wanted, _prefix(tree, wanted), "--python")


def _python_in(tree: Tree, folder: str) -> Optional[str]:
    for name in ("python3", "python"):
        if tree.there(f"{folder}/{name}"):
            return f"{folder}/{name}"
    return None


def _behind_shim(scene: Scene, folder: str) -> Optional[str]:
    """The interpreter that pyenv's shim would start: a shim is a script, and nothing of the patient is run."""
    root = folder.partition("/shims")[0]
    said = scene.env.get("PYENV_VERSION") or _local_version(scene) or scene.tree.find_text(f"{root}/version", 4096)
    for version in (said or "").replace(":", " ").split():
        found = _python_in(scene.tree, f"{root}/versions/{version}/bin")
        if found:
            return found
    return None  # 'system': the next folder of PATH has it


def _local_version(scene: Scene) -> Optional[str]:
    folder = scene.env.get("PWD", "")
    while folder.startswith("/"):
        said = scene.tree.find_text(f"{folder}/.python-version", 4096)
        if said:
            return said
        folder = folder.rpartition("/")[0]
    return None


def _prefix(tree: Tree, executable: str) -> str:
    """The prefix that an interpreter serves: the venv it stands in, else the one of its real file."""
    beside = executable.rpartition("/")[0].rpartition("/")[0]
    if tree.there(f"{beside}/pyvenv.cfg") or tree.there(f"{beside}/conda-meta"):
        return beside
    return tree.resolve(executable).rpartition("/")[0].rpartition("/")[0]


def read_interpreter(tree: Tree, place: Place) -> tuple[Python, dict[str, str]]:
    """What the files say of the interpreter, and its pyvenv.cfg. Raises NoPython, Unreadable."""
    config = _read_config(tree, place.prefix)
    real = tree.resolve(place.executable)
    if not tree.exists(real):
        raise NoPython(f"{shown(place.executable)} leads to {shown(real)}, which isn't there")
    home = config.get("home", "")
    base = home.rpartition("/")[0] if home.startswith("/") else place.prefix
    version = config.get("version") or config.get("version_info", "")
    folder = _lib_folder(tree, place.prefix, real, version) or _lib_folder(tree, base, real, version)
    match = _LIB.fullmatch(folder or real.rpartition("/")[2])
    if not match and not version:
        where = shown(place.prefix) or "/"
        raise NoPython(f"{shown(place.executable)} is no Python, or broken: there is no lib/python3.* in {where}")
    short = match.group(2) if match else ".".join(version.split(".")[:2])
    python = Python(
        version=_full_version(tree, base, real, version, short, folder or f"python{short}"),
        implementation="PyPy" if match and match.group(1) == "pypy" else config.get("implementation", "CPython"),
        executable=shown(place.executable),
        prefix=shown(place.prefix),
        kind=_kind(tree, place.prefix, base, real, config),
        free_threaded=bool(match and match.group(3)),
        headers=any(tree.there(f"{p}/include/{folder or f'python{short}'}/Python.h") for p in {base, place.prefix}),
        platform=_platform(tree, real),
    )
    return python, config


def _read_config(tree: Tree, prefix: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in (tree.find_text(f"{prefix}/pyvenv.cfg", 65536) or "").splitlines())
    return {key.strip().lower(): value.strip() for key, sep, value in pairs if sep}


def _lib_folder(tree: Tree, prefix: str, real: str, version: str) -> Optional[str]:
    """'python3.11': the one of several that the executable's own name or the configuration means."""
    found = [name for lib in ("lib", "lib64") for name in tree.find_names(f"{prefix}/{lib}") if _LIB.fullmatch(name)]
    executable = real.rpartition("/")[2]
    if executable in found:
        return executable
    short = ".".join(version.split(".")[:2])
    fitting = [name for name in found if version and name.rstrip("t").endswith(short)]
    return next(iter(fitting or sorted(found, key=lambda name: int(name.rstrip("t").rpartition(".")[2]))[-1:]), None)


def _full_version(tree: Tree, base: str, real: str, said: str, short: str, folder: str) -> str:
    """X.Y.Z where a file tells it, else X.Y."""
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", said):
        return re.sub(r"\.(final|candidate|alpha|beta)\.\d+$", "", said)
    for name in tree.find_names(f"{base}/conda-meta"):
        match = re.fullmatch(rf"python-({re.escape(short)}\.\d+\w*)-[^-]*\.json", name)
        if match:
            return match.group(1)
    header = tree.find_text(f"{base}/include/{folder}/patchlevel.h", 65536) or ""
    match = re.search(r'#define\s+PY_VERSION\s+"([^"+]+)', header)
    if match:
        return match.group(1)
    match = re.search(rf"(?<![\d.]){re.escape(short)}\.\d+(?![\d.])", real)  # pyenv's and uv's folder names
    return match.group() if match else short


def _kind(tree: Tree, prefix: str, base: str, real: str, config: dict[str, str]) -> str:
    if config:
        return "uv" if "uv" in config else "venv"
    if tree.there(f"{prefix}/conda-meta"):
        return "conda"
    if "/.pyenv/" in real:
        return "pyenv"
    return "system" if base in ("/usr", "/usr/local", "") else ""


def _platform(tree: Tree, real: str) -> str:
    header = tree.read_bytes(real, 20) or b""
    machine = _ELF_MACHINES.get(int.from_bytes(header[18:20], "little")) if header[:4] == b"\x7fELF" else None
    return f"linux_{machine}" if machine else ""


def find_sites(scene: Scene, python: Python, config: dict[str, str]) -> tuple[str, ...]:
    """The folders that the interpreter imports distributions from, in its order."""
    tree, env = scene.tree, scene.env
    short = ".".join((python.version or "").split(".")[:2])
    lib = f"python{short}" + ("t" if python.free_threaded else "")
    found = [p for p in env.get("PYTHONPATH", "").split(":")[:20] if p.startswith("/")]
    shared = not config or config.get("include-system-site-packages", "").lower() == "true"
    user = f"{env.get('HOME', '')}/.local/lib/{lib}/site-packages"
    own = [f"{python.prefix}/{folder}/{lib}/site-packages" for folder in ("lib", "lib64")]
    if config:
        found += own
    if shared and user.startswith("/") and not env.get("PYTHONNOUSERSITE"):
        found.append(user)
    if not config:
        found += _base_sites(python.prefix, lib)
    elif shared:
        found += _base_sites(config.get("home", "").rpartition("/")[0], lib)
    sites: dict[str, str] = {}
    for folder in found:
        if tree.there(folder):
            sites.setdefault(tree.resolve(folder), folder)  # lib64 is often a link to lib
    return tuple(sites.values())


def _base_sites(prefix: str, lib: str) -> list[str]:
    if prefix not in ("/usr", ""):
        return [f"{prefix}/{folder}/{lib}/site-packages" for folder in ("lib", "lib64")]
    return [
        f"/usr/local/lib/{lib}/dist-packages",
        f"/usr/local/lib/{lib}/site-packages",
        f"/usr/local/lib64/{lib}/site-packages",
        "/usr/lib/python3/dist-packages",
        f"/usr/lib/{lib}/dist-packages",
        f"/usr/lib64/{lib}/site-packages",
        f"/usr/lib/{lib}/site-packages",
    ]
