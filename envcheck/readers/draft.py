"""Collects what the readers of a paste found, each fact with its line, into one partial snapshot."""

from __future__ import annotations

import re
from typing import Any, Optional

import msgspec

from envcheck import versions
from envcheck.model.fact import known
from envcheck.model.machine import Driver, Gpu, Machine, XidEvent
from envcheck.model.snapshot import Event, Origin, Snapshot, Wants
from envcheck.model.stack import Library, Package, Python, Stack, Toolkit

# Names that conda gives to what Python calls otherwise.
CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "pytorch-nightly": "torch"}
_OTHER_VENDOR = re.compile(r"\b(?:AMD|Radeon|Instinct|gfx\d\w*|Intel|Arc A\d+)\b", re.IGNORECASE)
_WORDS = re.compile(r"\b(nvidia|geforce|tesla|quadro(?= rtx)|graphics|gpu|with max-q design)\b|[®™()]", re.IGNORECASE)


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def gpu_key(name: str) -> str:
    """What is the same in 'NVIDIA GeForce RTX 3090' and 'RTX 3090'."""
    return " ".join(_WORDS.sub(" ", name).lower().replace("-", " ").split())


class Draft:
    """The sightings so far; the first of a fact stands, later ones only add details that it lacks."""

    def __init__(self) -> None:
        self.machine: dict[str, Any] = {}
        self.stack: dict[str, Any] = {}
        self.gpu_lists: list[tuple[Gpu, ...]] = []
        self.driver: Optional[Driver] = None
        self.packages: list[Package] = []
        self.libraries: list[Library] = []
        self.toolkits: list[Toolkit] = []
        self.env: dict[str, str] = {}
        self.env_source = ""
        self.xids: list[XidEvent] = []
        self.driver_packages: list[str] = []
        self.events: list[Event] = []
        self.wants: dict[str, Any] = {}
        self.remarks: list[str] = []
        self.whole = False
        # Packages that a list names without the local part that they really have: their companions may lack it, too.
        self.unmarked: dict[str, Optional[str]] = {}
        self.python: Optional[Python] = None
        self.python_source = ""
        self.facts = 0

    def put(self, part: str, field: str, value: Any, source: str) -> None:
        """A fact of 'machine' or 'stack', unless it is known already."""
        self.facts += 1
        fields = self.machine if part == "machine" else self.stack
        fields.setdefault(field, known(value, source))

    def add_driver(
        self, version: Optional[str], source: str, cuda: Optional[str] = None, flavour: Optional[str] = None
    ) -> None:
        """The kernel driver: its version, the CUDA that it reports, or both. A full version beats a bare branch."""
        self.facts += 1
        old = self.driver
        if old is None:
            self.driver = Driver(version, flavour, cuda, source)
            return
        longer = version and (not old.version or (version.startswith(old.version) and version != old.version))
        self.driver = Driver(
            version if longer else old.version,
            old.flavour or flavour,
            old.cuda or cuda,
            source if longer else old.source,
        )

    def add_gpus(self, gpus: list[Gpu]) -> None:
        """The GPUs that one place of the paste lists."""
        if gpus:
            self.facts += 1
            self.gpu_lists.append(tuple(_with_vendor(gpu) for gpu in gpus))

    def add_package(self, package: Package) -> None:
        """A package; one that is known already in this version gets the details that it lacked."""
        self.facts += 1
        if package.installer == "conda" and package.name in CONDA_NAMES:
            package = msgspec.structs.replace(package, name=CONDA_NAMES[package.name])
        for place, old in enumerate(self.packages):
            if old.name == package.name and (same := _joined(old, package)) is not None:
                self.packages[place] = same
                if package.version and "+" not in package.version and "+" in (same.version or ""):
                    self.unmarked[package.name] = same.variant
                return
        self.packages.append(package)

    def add_python(self, version: Optional[str], source: str, **details: Any) -> None:
        """The interpreter."""
        self.facts += 1
        if self.python is None:
            self.python, self.python_source = Python(version, **details), source
            return
        old = msgspec.structs.asdict(self.python)
        new = {key: value for key, value in {"version": version, **details}.items() if value and not old[key]}
        self.python = msgspec.structs.replace(self.python, **new)

    def add_env(self, name: str, value: str, source: str) -> None:
        """An environment variable."""
        self.facts += 1
        self.env.setdefault(name, value)
        self.env_source = self.env_source or source

    def _marked(self, package: Package) -> Package:
        """A companion ('torchvision' of 'torch') without a local part, beside one that a list robbed of its own."""
        for name, variant in self.unmarked.items():
            companion = package.name != name and package.name.startswith(name) and package.installer == "pip"
            if companion and package.variant is None and "+" not in (package.version or "+"):
                return msgspec.structs.replace(package, variant=variant)
        return package

    def want(self, source: str, **what: Any) -> None:
        """What the paste proves that is asked of the environment."""
        for key, value in what.items():
            if self.wants.get(key) in (None, False):
                self.wants[key] = value
                self.wants.setdefault("source", source)

    def snapshot(self, name: str, readers: tuple[str, ...]) -> Snapshot:
        """The partial snapshot; what nobody told stays 'not told'."""
        machine, stack = dict(self.machine), dict(self.stack)
        if self.driver is not None:
            machine.setdefault("driver", known(self.driver, self.driver.source))
        gpus = join_gpus(self.gpu_lists)
        if gpus:
            machine["gpus"] = known(gpus, gpus[0].source)
        if self.xids:
            machine.setdefault("xids", known(tuple(self.xids), self.xids[0].source))
        if self.driver_packages:
            machine.setdefault("driver_packages", known(tuple(self.driver_packages), "packages in the paste"))
        self.packages = [self._marked(package) for package in self.packages]
        if self.packages:
            stack.setdefault("packages", known(tuple(self.packages), self.packages[0].source))
            stack.setdefault("complete", known(self.whole, self.packages[0].source))
        if self.libraries:
            stack.setdefault("libraries", known(tuple(self.libraries), self.libraries[0].source))
        if self.toolkits:
            distinct = {(toolkit.version, toolkit.on_path): toolkit for toolkit in reversed(self.toolkits)}
            ordered = sorted(distinct.values(), key=lambda toolkit: (not toolkit.on_path, toolkit.version))
            versions_on_path = {toolkit.version for toolkit in ordered if toolkit.on_path}
            kept = tuple(t for t in ordered if t.on_path or t.version not in versions_on_path)
            stack.setdefault("toolkits", known(kept, self.toolkits[0].source))
        if self.env:
            stack.setdefault("env", known(dict(self.env), self.env_source))
        if self.python is not None:
            stack.setdefault("python", known(self.python, self.python_source))
        if "os" not in machine and ("glibc" in stack or "kernel" in machine or machine.get("wsl")):
            machine["os"] = known("linux", (stack.get("glibc") or machine.get("kernel") or machine["wsl"]).source)
        jetson = machine.get("jetson")
        if jetson is not None and jetson.value:  # every Jetson is an ARM machine with Linux
            machine.setdefault("os", known("linux", jetson.source))
            machine.setdefault("arch", known("aarch64", jetson.source))
            stack.setdefault("arch", known("aarch64", jetson.source))
        return Snapshot(
            origin=Origin("report", name, readers),
            machine=Machine(**machine),
            stack=Stack(**stack),
            events=tuple(sorted(self.events, key=lambda event: int(event.source.rpartition(" ")[2] or 0))),
            wants=Wants(**self.wants),
            remarks=tuple(dict.fromkeys(self.remarks)),
        )


def _with_vendor(gpu: Gpu) -> Gpu:
    match = _OTHER_VENDOR.search(gpu.name)
    if match is None or gpu.vendor != "nvidia":
        return gpu
    architectures = tuple(re.findall(r"gfx\w+", gpu.name))
    vendor = "intel" if match.group().lower().startswith(("intel", "arc")) else "amd"
    return msgspec.structs.replace(gpu, vendor=vendor, architectures=architectures)


def _joined(old: Package, new: Package) -> Optional[Package]:
    """Both as one where they can be one installation, else None."""
    a, b = old.version, new.version
    if a and b and a != b:
        short, long = sorted((a, b), key=len)
        cut = short.endswith("...") and long.startswith(short[:-3])
        bare = long.partition("+")[0] == short
        if not (cut or bare):
            if old.installer and new.installer and old.installer != new.installer:
                return None
            if old.source.partition(",")[0] != new.source.partition(",")[0] and not _near(old, new):
                return old  # told again elsewhere, as another: the first stands
            return None
    longer = max((a or "", b or ""), key=len) or None
    details = {
        key: getattr(old, key) if getattr(old, key) not in (None, "", ()) else getattr(new, key)
        for key in (
            "variant",
            "hip",
            "installer",
            "location",
            "channel",
            "build",
            "capabilities",
            "cxx11_abi",
            "broken",
        )
    }
    cuda = old.cuda if old.cuda is not None else new.cuda
    if "conda" in (old.installer, new.installer):
        details["installer"] = "conda"  # pip lists what conda installed, too
    return msgspec.structs.replace(old, version=longer, cuda=cuda, **details)


def _near(old: Package, new: Package) -> bool:
    """Do both stand in one list, that is, a few lines apart and by the same installer?"""
    if old.installer != new.installer or not old.installer:
        return False
    places = [re.search(r"\d+", package.source) for package in (old, new)]
    return all(places) and abs(int(places[0].group()) - int(places[1].group())) < 4  # type: ignore[union-attr]


def join_gpus(lists: list[tuple[Gpu, ...]]) -> tuple[Gpu, ...]:
    """The longest list, with what the other lists add to its GPUs, and GPUs that only others name."""
    if not lists:
        return ()
    best = max(lists, key=lambda gpus: (len(gpus), sum(gpu.index is not None for gpu in gpus)))
    joined = list(best)
    for other in lists:
        if other is best:
            continue
        for gpu in other:
            fitting = [i for i, mine in enumerate(joined) if _same_gpu(mine, gpu)]
            if not fitting:
                joined.append(gpu)
            for place in fitting:
                joined[place] = _join_gpu(joined[place], gpu)
    return tuple(joined)


def _same_gpu(left: Gpu, right: Gpu) -> bool:
    if left.index is not None and right.index is not None and left.index != right.index:
        return False
    if left.vendor != right.vendor:
        return False
    if left.uuid and right.uuid:
        return left.uuid == right.uuid
    a, b = gpu_key(left.name), gpu_key(right.name)
    cut = min(a.rstrip(".").rstrip(), b.rstrip(".").rstrip(), key=len)
    if not a or not b or a == b or ((a.endswith("..") or b.endswith("..")) and max(a, b, key=len).startswith(cut)):
        return True
    small, large = sorted((a.split(), b.split()), key=len)
    extra = set(large) - set(small)
    return set(small) <= set(large) and not extra & {"ti", "super", "laptop", "mobile", "ada", "d", "max"}


def _join_gpu(mine: Gpu, other: Gpu) -> Gpu:
    changes: dict[str, Any] = {}
    for key in mine.__struct_fields__:
        value, more = getattr(mine, key), getattr(other, key)
        if value in (None, "", ()) and more not in (None, "", ()):
            changes[key] = more
    whole = other.name and not other.name.endswith("..")
    if not mine.name or (mine.name.endswith("..") and whole):
        changes["name"] = other.name
    return msgspec.structs.replace(mine, **changes) if changes else mine


def short_cuda(text: Optional[str]) -> Optional[str]:
    """'12.1.105' -> '12.1'; None for no version."""
    found = versions.find(text)
    return versions.minor(str(found)) if found else None
