"""Plays the import of each framework and extension against the loader's search, and says what would come of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from envcheck.model.stack import Opening, Package, Python
from envcheck.probes.abi import Symbols
from envcheck.probes.extensions import Extension
from envcheck.probes.load_plans import CUDNN_PARTS, NAMES, PLANS, LoadPlan, Preloads, read_preloads
from envcheck.probes.loader import Process
from envcheck.probes.openings import judge_opening, open_extension
from envcheck.probes.owners import Site
from envcheck.probes.tree import Tree, Unreadable
from envcheck.versions import find


class Installed(NamedTuple):
    """A framework with its plan and the site that it lies in."""

    package: Package
    plan: LoadPlan
    site: Site

    def path(self, file: str) -> str:
        """A file of the plan, in this site."""
        return f"{self.site.path}/{file}"


def find_installed(sites: Sequence[Site], packages: Sequence[Package]) -> list[Installed]:
    """The frameworks that have a plan, in the plans' order; of a package that is there twice, the one imported."""
    found = []
    for plan in PLANS:
        package = next((p for name in plan.packages for p in packages if p.name == name and not p.broken), None)
        if package is None:  # a part that the matrix doesn't list
            package = next((_unlisted(n, s) for n in plan.packages for s in sites if n in s.metadata), None)
        site = package and next((s for s in sites if s.path == package.location or _holds(s, plan)), None)
        if package and site:
            found.append(Installed(package, plan, site))
    return found


def _unlisted(name: str, site: Site) -> Package:
    return Package(name, site.metadata[name][: -len(".dist-info")].rpartition("-")[2], location=site.path)


def _holds(site: Site, plan: LoadPlan) -> bool:
    return any(file.partition("/")[0] in site.names for file in (*plan.main, *plan.opens))


class Played(NamedTuple):
    """The process after all imports, and what became of each file that was opened."""

    process: Process
    openings: list[Opening]


def play_imports(
    tree: Tree,
    env: Mapping[str, str],
    python: Python,
    sites: Sequence[Site],
    installed: Sequence[Installed],
    extensions: Sequence[Extension],
    known: Symbols,
) -> Played:
    """One process that imports every framework, then each extension. Raises Unreadable, NotElf for the interpreter."""
    process = Process(tree, env, python.executable)
    openings: list[Opening] = []
    for thing in installed:
        openings += _import_framework(tree, process, python, sites, thing, known)
    for extension in extensions:
        opening = open_extension(process, python, extension, known)
        if opening:
            openings.append(opening)
    _open_by_name(process, installed)
    return Played(process, openings)


# ---- frameworks
def _import_framework(
    tree: Tree, process: Process, python: Python, sites: Sequence[Site], thing: Installed, known: Symbols
) -> Iterator[Opening]:
    preloads = read_preloads(tree, thing.path(thing.plan.preloads)) if thing.plan.preloads else Preloads()
    for place, file in enumerate(thing.plan.opens):
        path = _tagged(tree, thing.path(file), python)
        if path is None:
            continue
        start = len(process.objects)
        fault = process.open(path, reason=f"import {thing.package.name}")
        if place == 0 and preloads != Preloads():
            if fault and any(fault.name.startswith(p.partition(".")[0]) for _, p in preloads.on_failure):
                _preload(tree, process, sites, thing, preloads.on_failure, preloads, strict=True)
                fault = process.open(path, reason=f"import {thing.package.name}")
            elif not fault and _guarded(process, preloads):
                _preload(tree, process, sites, thing, preloads.always, preloads, strict=preloads.strict)
        yield judge_opening(process, known, path, thing.package.name, fault, start)
        if fault:
            return
    for file in thing.plan.later:
        start = len(process.objects)
        path = thing.path(file)
        if tree.is_file(path):
            fault = process.open(path, reason=f"{thing.package.name}, when first used")
            yield judge_opening(process, known, path, thing.package.name, fault, start)


def _tagged(tree: Tree, path: str, python: Python) -> Optional[str]:
    if "{tag}" not in path:
        return path if _is_file(tree, path) else None
    stem = path.partition("{tag}")[0]
    short = "".join((python.version or "").split(".")[:2])
    free = "t" if python.free_threaded else ""
    folder, _, name = stem.rpartition("/")
    names = tree.find_names(folder)
    wanted = [n for n in names if n.startswith(f"{name}.cpython-{short}{free}-") and n.endswith(".so")]
    wanted += [n for n in (f"{name}.abi3.so", f"{name}.so") if n in names]
    return f"{folder}/{wanted[0]}" if wanted else None


def _is_file(tree: Tree, path: str) -> bool:
    try:
        return tree.is_file(path)
    except Unreadable:
        return False


def _guarded(process: Process, preloads: Preloads) -> bool:
    return all(any(guard in thing.path for thing in process.objects) for guard in preloads.guards)


def _preload(
    tree: Tree,
    process: Process,
    sites: Sequence[Site],
    thing: Installed,
    pairs: Sequence[tuple[str, str]],
    preloads: Preloads,
    *,
    strict: bool,
) -> None:
    major = (thing.package.cuda or "").partition(".")[0]
    for folder, pattern in pairs:
        path = next(
            (p for site in sites for p in _matches(process, site, folder, pattern, preloads.by_major and major)), ""
        )
        if path:
            process.open(path, reason=f"preloaded by {thing.plan.preloads}")
        elif strict:
            return


def _matches(process: Process, site: Site, folder: str, pattern: str, major: object) -> Iterator[str]:
    places = [f"nvidia/{folder}", *([f"nvidia/cu{major}"] if major else []), folder]
    stem = pattern.partition("*")[0]
    for place in places:
        if place.partition("/")[0] in site.names:
            names = sorted(name for name in process.names_in(f"{site.path}/{place}/lib") if name.startswith(stem))
            yield from (f"{site.path}/{place}/lib/{name}" for name in names if name[-1].isdigit())


# ---- what is opened by name at first use
def _open_by_name(process: Process, installed: Sequence[Installed]) -> None:
    for thing in installed:
        asker = process.index_of(thing.plan.asker) if thing.plan.asker else None
        cuda = find(thing.package.cuda or thing.plan.cuda)
        cudnn = find(thing.package.cudnn or thing.plan.cudnn)
        if thing.plan.by_name and asker is not None and cuda:
            for name in NAMES.get(cuda.major, ()):
                process.open(name, asker, f"{thing.package.name}, by name")
            if cudnn:
                process.open(f"libcudnn.so.{cudnn.major}", asker, f"{thing.package.name}, by name")
    for index, loaded in enumerate(list(process.objects)):
        soname = loaded.dynamic.soname
        if process.index_of(soname) != index:
            continue  # a second copy, which binds nobody
        if soname.startswith("libcudnn.so."):
            major = soname.rpartition(".")[2]
            for part in CUDNN_PARTS.get(major, ()):
                process.try_open(f"libcudnn_{part}.so.{major}", index, "libcudnn, by name")
        elif soname.startswith("libnvrtc.so."):
            for name in process.beside(index, "libnvrtc-builtins.so."):
                process.try_open(name, index, "libnvrtc, by name")
    runtime = next((i for i, o in enumerate(process.objects) if o.dynamic.soname.startswith("libcudart.so.")), None)
    process.try_open("libcuda.so.1", runtime, "CUDA runtime, by name")
