"""Works out which files glibc's loader will give a process: the search of ld.so(8), without running anything.

Held to the real loader by tests (LD_DEBUG=libs). Left out: glibc-hwcaps folders, auditing libraries, prelinking and
set-user-id programs, in none of which CUDA libraries live.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from envcheck.probes.deciding import decides
from envcheck.probes.elf import MACHINES, Dynamic, Elf, NotElf
from envcheck.probes.ld_cache import read_cache
from envcheck.probes.tree import Tree, Unreadable, shown

MAX_OBJECTS = 2000
_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "ppc64le": "powerpc64le-linux-gnu"}
# The kind of library in the cache's flags: ELF libc6 with the architecture in the second byte.
_CACHE_KINDS = {"x86_64": (0x0303,), "aarch64": (0x0A03,), "ppc64le": (0x0503,)}


class Place(NamedTuple):
    """Where a library of the wanted name was met in the search, and the step of the search that leads there."""

    path: str
    reason: str


class Object(NamedTuple):
    """A loaded file: the name it was asked by, who asked, what it asks in turn, and whoever also had that name."""

    name: str
    path: str
    reason: str
    by: Optional[int]  # index of the object that asked; None for the program and what is opened by the program
    dynamic: Dynamic
    identity: tuple[int, int] = (0, 0)  # device and inode: two paths to one file load once
    others: tuple[Place, ...] = ()


class LoadFault(NamedTuple):
    """Why an open failed, as the loader would put it; `by` is the path of the file that asked for `name`."""

    name: str
    by: str
    why: str
    opened: str = ""  # what was to be opened when it happened


class _File(NamedTuple):
    dynamic: Dynamic
    machine: int
    identity: tuple[int, int]


class Folders(NamedTuple):
    """A search list and where it was written."""

    paths: tuple[str, ...]
    reason: str


class Process:
    """A process as its loader sees it: what is loaded, in load order. `open` adds to it, or leaves it as it was."""

    def __init__(self, tree: Tree, env: Mapping[str, str], executable: str) -> None:
        """Starts the program with what it needs and what LD_PRELOAD names. Raises Unreadable, NotElf."""
        self.tree = tree
        self.objects: list[Object] = []
        self.faults: list[LoadFault] = []
        self.halfway: list[tuple[str, Place, LoadFault]] = []
        self._env = env
        self._names: dict[str, int] = {}
        self._by_file: dict[tuple[int, int], int] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._read: dict[str, _File] = {}
        self._system: tuple[str, ...] = ()
        self._cache: Optional[dict[str, list[str]]] = None
        self._rpaths: dict[int, Folders] = {}
        self._start(executable)

    # ---- opening
    def _start(self, executable: str) -> None:
        path = self.tree.resolve(executable)
        self.main_folder = path.rpartition("/")[0]
        program = self._open(path)
        self.machine = program.machine
        self.arch = MACHINES.get(program.machine, "")
        folders = self._split(self._env.get("LD_LIBRARY_PATH", ""), ";:", self.main_folder)
        self.library_path = Folders(folders, "LD_LIBRARY_PATH")
        self._add(Object(path, path, "the program", None, program.dynamic, program.identity))
        for name in re.split(r"[ :]+", self._env.get("LD_PRELOAD", "")):
            fault = self._map(name, None, "LD_PRELOAD") if name else None
            if fault:
                self.faults.append(fault)  # the loader complains and goes on
        fault = self._map_needed(0)
        if fault:
            self.faults.append(fault)

    def open(self, name: str, by: Optional[int] = None, reason: str = "opened by name") -> Optional[LoadFault]:
        """What dlopen(`name`) called from object `by` does: the fault, or None when everything was found."""
        count = len(self.objects)
        fault = self._map(name, by, reason) or self._map_needed(count)
        if fault:
            for index in range(count, len(self.objects)):
                self._by_file.pop(self.objects[index].identity, None)
                self._rpaths.pop(index, None)
            del self.objects[count:]
            self._names = {text: index for text, index in self._names.items() if index < count}
            fault = fault._replace(opened=name)
            self.faults.append(fault)
        return fault

    def try_open(self, name: str, by: Optional[int], reason: str) -> None:
        """As open, for what a library opens if it is there. One that is there and can't load is kept in `halfway`."""
        if self.open(name, by, reason):
            fault = self.faults.pop()
            place = next(self.search(name, by), None)
            if place and fault.name != name:
                self.halfway.append((name, place, fault))

    def peek(self, path: str) -> Optional[tuple[str, ...]]:
        """What a file needs, without opening it; None for what is no shared library."""
        try:
            return self._open(path).dynamic.needed
        except (OSError, Unreadable, NotElf):
            return None

    def beside(self, index: int, beginning: str) -> list[str]:
        """The names that begin so in the folder of an object."""
        folder = self.objects[index].path.rpartition("/")[0]
        return sorted(name for name in self.names_in(folder) if name.startswith(beginning))

    def _map_needed(self, start: int) -> Optional[LoadFault]:
        """Breadth first, as the loader goes: all that is needed by the objects from `start` on."""
        index = start
        while index < len(self.objects):
            for name in self.objects[index].dynamic.needed:
                fault = self._map(name, index, "")
                if fault:
                    return fault
            index += 1
            if index > MAX_OBJECTS:
                return LoadFault("", self.objects[start].path, f"more than {MAX_OBJECTS} libraries")
        return None

    def _map(self, name: str, by: Optional[int], reason: str) -> Optional[LoadFault]:
        if name in self._names:
            return None
        asker = self.objects[by].path if by is not None else self.objects[0].path
        if "/" in name:
            path = self._expand(name, asker.rpartition("/")[0])
            try:
                self._take(name, Place(path, reason or "by its path"), by, iter(()))
                return None
            except FileNotFoundError:
                return LoadFault(name, asker, "cannot open shared object file: No such file or directory")
            except (Unreadable, NotElf) as failure:
                return LoadFault(name, asker, str(failure))
        places = self.search(name, by)
        for place in places:
            try:
                self._take(name, place, by, places)
                return None
            except (FileNotFoundError, Unreadable):  # noqa: PERF203
                continue  # the loader passes over what it can't open
            except NotElf as failure:
                if not failure.harmless:
                    return LoadFault(name, asker, str(failure))
        return LoadFault(name, asker, "cannot open shared object file: No such file or directory")

    def _take(self, name: str, place: Place, by: Optional[int], rest: Iterator[Place]) -> None:
        file = self._open(place.path)
        if file.machine != self.machine:
            raise NotElf(f"{shown(place.path)}: for another processor", harmless=True)
        known = self._by_file.get(file.identity)
        if known is None:
            others = tuple(rest) if decides(name) else ()
            known = self._add(Object(name, place.path, place.reason, by, file.dynamic, file.identity, others))
        self._names.setdefault(name, known)

    def _add(self, thing: Object) -> int:
        index = len(self.objects)
        self.objects.append(thing)
        self._by_file[thing.identity] = index
        if thing.dynamic.soname:
            self._names.setdefault(thing.dynamic.soname, index)
        return index

    def _open(self, path: str) -> _File:
        if path not in self._read:
            handle = self.tree.open(path)
            if handle is None:
                raise FileNotFoundError(path)
            with Elf(handle, path) as file:
                self._read[path] = _File(file.dynamic(), file.machine, file.identity)
        return self._read[path]

    def find(self, name: str) -> Optional[Object]:
        """The loaded object that answers to `name`."""
        index = self._names.get(name)
        return None if index is None else self.objects[index]

    def index_of_path(self, path: str) -> Optional[int]:
        """The index of the object that was loaded from `path`."""
        file = self._read.get(path)
        return self._by_file.get(file.identity) if file else None

    def index_of(self, name: str) -> Optional[int]:
        """The index of the object that answers to `name`."""
        return self._names.get(name)

    def scope(self, index: int) -> tuple[str, ...]:
        """The paths in whose symbols object `index` is bound: the program's own libraries, then its own, breadth first.

        What was opened for all (RTLD_GLOBAL) beside the program's libraries only repeats what its own needs give.
        """
        order: dict[int, None] = {}
        for start in (0, index):
            queue = [start]
            for at in queue:
                order.setdefault(at)
                for name in self.objects[at].dynamic.needed:
                    found = self._names.get(name)
                    if found is not None and found not in queue:
                        queue.append(found)
        return tuple(self.objects[at].path for at in order)

    def lying(self, name: str) -> Iterator[Place]:
        """Where `name` lies on LD_LIBRARY_PATH and in the cache, whoever asks."""
        for folder in self.library_path.paths:
            if name in self.names_in(folder):
                yield Place(f"{folder}/{name}", self.library_path.reason)
        yield from (Place(path, "ld.so.cache") for path in self.cached(name))

    # ---- searching
    def search(self, name: str, by: Optional[int]) -> Iterator[Place]:
        """Every place where `name` lies, in the order in which the loader would look for object `by`."""
        for folders in self._lists(by):
            for folder in folders.paths:
                if name in self.names_in(folder):
                    yield Place(f"{folder}/{name}", folders.reason)
        no_default = by is not None and self.objects[by].dynamic.no_default
        system = self._system_folders()
        for path in self.cached(name):
            if not (no_default and path.rpartition("/")[0] in system):
                yield Place(path, "ld.so.cache")
        if not no_default:
            for folder in system:
                if self._exists(f"{folder}/{name}"):  # asked, not listed: thousands of files lie there
                    yield Place(f"{folder}/{name}", "default folder")

    def _lists(self, by: Optional[int]) -> Iterator[Folders]:
        asker = by if by is not None else 0
        own = self.objects[asker].dynamic
        if not own.runpath:
            at: Optional[int] = asker
            seen = set()
            while at is not None and at not in seen:
                seen.add(at)
                yield self._rpath(at)
                at = self.objects[at].by
            if 0 not in seen:
                yield self._rpath(0)
        yield self.library_path
        if own.runpath:
            yield Folders(self._split_for(own.runpath, asker), f"RUNPATH of {self._short(self.objects[asker].path)}")

    def _rpath(self, index: int) -> Folders:
        if index not in self._rpaths:
            thing = self.objects[index]
            written = "" if thing.dynamic.runpath else thing.dynamic.rpath  # RUNPATH makes ld.so forget RPATH
            self._rpaths[index] = Folders(self._split_for(written, index), f"RPATH of {self._short(thing.path)}")
        return self._rpaths[index]

    def _split_for(self, text: str, index: int) -> tuple[str, ...]:
        return self._split(text, ":", self.objects[index].path.rpartition("/")[0])

    def _split(self, text: str, separators: str, origin: str) -> tuple[str, ...]:
        if not text:
            return ()
        # An empty part is the working folder, which is the user's, not necessarily ours.
        parts = [part or self._env.get("PWD", "") for part in re.split(f"[{separators}]", text)[:200]]
        folders = [self._expand(part, origin) for part in parts]
        return tuple(folder.rstrip("/") or "/" for folder in folders if folder.startswith("/"))

    def _expand(self, text: str, origin: str) -> str:
        if "$" not in text:
            return text
        system = self._system_folders()[0].lstrip("/")
        for name, value in (("ORIGIN", origin), ("LIB", system), ("PLATFORM", self.arch)):
            text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
        return text

    def names_in(self, folder: str) -> frozenset[str]:
        """The names in a folder, read once."""
        if folder not in self._listed:
            self._listed[folder] = frozenset(self.tree.find_names(folder))
        return self._listed[folder]

    def cached(self, name: str) -> list[str]:
        """The paths that ld.so.cache has for `name`, for this processor."""
        if self._cache is None:
            self._cache = {}
            kinds = _CACHE_KINDS.get(self.arch, ())
            try:
                entries = read_cache(self.tree, "")
            except Unreadable:
                entries = ()
            for entry in entries:
                if entry.flags & 0xFFFF in kinds:
                    self._cache.setdefault(entry.soname, []).append(entry.path)
        return self._cache.get(name, [])

    def _system_folders(self) -> tuple[str, ...]:
        if not self._system:
            triplet = _TRIPLETS.get(self.arch, "")
            debian = triplet and self._exists(f"/usr/lib/{triplet}")
            multi = (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib", "/usr/lib")
            self._system = multi if debian else ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
        return self._system

    def _exists(self, path: str) -> bool:
        try:
            return self.tree.exists(path)
        except Unreadable:
            return False

    @staticmethod
    def _short(path: str) -> str:
        return shown(path.rpartition("/")[2])
