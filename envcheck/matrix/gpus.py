"""Look-ups over GPU models and compute capabilities: which model a name means, and what code runs on it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Optional

import msgspec
from packaging.version import Version

from envcheck import versions
from envcheck.errors import UnknownName, nearest
from envcheck.matrix.rows import Capability, GpuModel

# Words that name the maker or nothing at all; the model number and its suffixes decide.
NOISE = frozenset(
    {
        "nvidia",
        "nvgpu",
        "corporation",
        "geforce",
        "tesla",
        "graphics",
        "gpu",
        "card",
        "generation",
        "edition",
        "with",
        "design",
    }
    | {"grid"}  # vGPU profiles
)
# Words that tell variants of one model apart: board form and memory.
FORM = re.compile(r"sxm\d?|pcie|nvl|hbm\d?e?|dgxs|\d+gb?")
MEMORY = re.compile(r"(\d+)gb?")
_MARKS = re.compile(r"\((?:tm|r)\)|[™®]")
_SIZE = re.compile(r"(\d)\s+(?:gb|gib)\b|(?<=\d)gib\b")
_MAXQ = re.compile(r"\bmax-?q\b")
_WORD = re.compile(r"[a-z0-9]+")
_JOINED = re.compile(r"(rtx|gtx|gt)?(\d{3,4})(ti|super|d)?")  # 'rtx4090', '4090ti' as people type them
_SLICE = re.compile(r"\s+MIG\s+\d\S*$|-\d+[QCAB]$", re.IGNORECASE)  # a MIG instance's or a vGPU's ending


def key(name: str) -> tuple[str, ...]:
    """The words of a GPU's name that decide: 'NVIDIA GeForce RTX 4090' -> ('rtx', '4090')."""
    text = _MAXQ.sub("maxq", _SIZE.sub(r"\1gb", _MARKS.sub(" ", name.lower())))
    words: list[str] = []
    for word in _WORD.findall(text):
        match = _JOINED.fullmatch(word)
        words.extend(filter(None, match.groups()) if match else (word,))
    return tuple("laptop" if word == "mobile" else word for word in words if word not in NOISE)


def family(words: tuple[str, ...]) -> tuple[str, ...]:
    """A key without board form and memory."""
    return tuple(word for word in words if not FORM.fullmatch(word))


class GpuIndex:
    """Models by name and PCI id."""

    def __init__(self, models: Sequence[GpuModel]) -> None:
        self.models = models
        self._by_name = {model.name.lower(): model for model in models}

    @cached_property
    def _by_key(self) -> dict[tuple[str, ...], list[GpuModel]]:
        found: dict[tuple[str, ...], list[GpuModel]] = {}
        for model in self.models:
            for words in dict.fromkeys([key(model.name), *map(key, model.aliases)]):
                found.setdefault(words, []).append(model)
        return found

    @cached_property
    def _by_family(self) -> dict[tuple[str, ...], list[GpuModel]]:
        found: dict[tuple[str, ...], list[GpuModel]] = {}
        for words, models in self._by_key.items():
            found.setdefault(family(words), []).extend(models)
        return {words: list(dict.fromkeys(models)) for words, models in found.items()}

    @cached_property
    def _by_pci(self) -> dict[str, list[GpuModel]]:
        found: dict[str, list[GpuModel]] = {}
        for model in self.models:
            for device in model.pci_ids:
                found.setdefault(device.upper(), []).append(model)
        return found

    def find(self, name: str) -> Optional[GpuModel]:
        """The model that a name means, merged where several variants bear it; None where it isn't certain."""
        text = _SLICE.sub("", name.strip())
        printed = self._by_name.get(text.lower())  # as nvidia-smi prints it, with or without 'NVIDIA'
        printed = printed or self._by_name.get(f"nvidia {text.lower()}")
        if printed:
            return printed
        if text.endswith(("...", "…")):
            return self._cut(text.rstrip(".… "))
        words = key(text)
        if not words:
            return None
        # A bare number, '4090': whichever series has it, if only one has.
        tries = [words, *((series, *words) for series in ("rtx", "gtx", "gt"))] if words[0][0].isdigit() else [words]
        for spelled in tries:
            found = self._by_key.get(spelled) or self._fitting(spelled)
            if found:
                return merge(found)
        return None

    def _fitting(self, words: tuple[str, ...]) -> list[GpuModel]:
        """Variants of the family that the words name, less those that contradict a form or memory in them."""
        forms = [word for word in words if FORM.fullmatch(word)]
        return [model for model in self._by_family.get(family(words), ()) if all(_agrees(model, w) for w in forms)]

    def _cut(self, start: str) -> Optional[GpuModel]:
        """nvidia-smi's table cuts long names: certain only where all that fit are variants of one model."""
        begin = start.lower()
        fitting = [m for m in self.models if m.name.lower().startswith((begin, f"nvidia {begin}"))]
        return merge(fitting) if len({family(key(model.name)) for model in fitting}) == 1 else None

    def find_by_pci(self, device_id: Optional[str]) -> Optional[GpuModel]:
        """The model of a PCI device id; several models on one id are merged."""
        if not device_id:
            return None
        return merge(self._by_pci.get(device_id.upper().replace("0X", "").zfill(4), ()))

    def get(self, name: str) -> GpuModel:
        """As find; raises UnknownName."""
        found = self.find(name)
        if found is None:
            raise UnknownName("GPU", name, self.names(), "envcheck matrix show gpus")
        return found

    def names(self) -> list[str]:
        """All names, aliases and short forms, to search the nearest in."""
        short = (re.sub(r"^(NVIDIA )?(GeForce |Tesla )?", "", model.name) for model in self.models)
        return list(dict.fromkeys([*short, *(alias for model in self.models for alias in model.aliases)]))

    def near(self, name: str, count: int) -> list[str]:
        """The names nearest to `name`."""
        return nearest(name, self.names(), count)


def _agrees(model: GpuModel, form: str) -> bool:
    """Does a word of form or memory in a name fit the model? 'sxm' and 'sxm4' fit each other; unknown memory fits."""
    size = MEMORY.fullmatch(form)
    if size and model.memory_gb is None:
        return True
    if size and model.memory_gb == float(size.group(1)):
        return True
    return any(word.startswith(form) or (form.startswith(word) and FORM.fullmatch(word)) for word in key(model.name))


def merge(models: Sequence[GpuModel]) -> Optional[GpuModel]:
    """What all variants share, under their common name; None for none, or where their capability differs."""
    if not models:
        return None
    first, *others = models
    if not others:
        return first
    if any(other.capability != first.capability for other in others):
        return None
    shared = [alias for alias in first.aliases if all(alias in other.aliases for other in others)]
    changes: dict[str, Any] = {"name": shared[0] if shared else _common_name([model.name for model in models])}
    for field in msgspec.structs.fields(GpuModel):
        if field.name in ("name", "architecture", "capability", "source", "checked", "note", "aliases"):
            continue
        values = [getattr(model, field.name) for model in models]
        if any(value != values[0] for value in values):
            changes[field.name] = field.default
    return msgspec.structs.replace(first, aliases=tuple(model.name for model in models), note="", **changes)


def _common_name(names: Sequence[str]) -> str:
    columns = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names))
    common = "".join(letters[0] for letters in columns).rstrip(" -(")
    whole = all(re.match(r"[^A-Za-z0-9]|$", name[len(common) :]) for name in names)
    if not whole:
        common = re.sub(r"[\w]+$", "", common).rstrip(" -(")
    return common if key(common) else " or ".join(names)


def find_capability(rows: Iterable[Capability], capability: str) -> Optional[Capability]:
    """The row of a capability in any spelling."""
    try:
        wanted = versions.capability(capability)
    except ValueError:
        return None
    return next((row for row in rows if versions.capability(row.capability) == wanted), None)


def compiles_for(rows: Iterable[Capability], capability: str, cuda: str) -> Optional[bool]:
    """Is `cuda` between the first and the last toolkit that make code for the capability?"""
    row = find_capability(rows, capability)
    wanted = versions.find(cuda)
    if row is None or wanted is None or row.first_cuda is None:
        return None
    release = Version(".".join(map(str, wanted.release[:2])))
    return Version(row.first_cuda) <= release and (row.last_cuda is None or release <= Version(row.last_cuda))


def kernels(rows: Sequence[Capability], compiled: Iterable[str], capability: str) -> Optional[str]:
    """'sass' where machine code runs, 'ptx' where only the driver's JIT makes it run, None where nothing does.

    Machine code runs on the same major and an equal or higher minor; with suffix 'a' on exactly its own, with 'f'
    within its family (the same major). The GPUs of Jetson boards and discrete ones don't run each other's.
    """
    gpu = versions.capability(capability)
    row = find_capability(rows, capability)
    integrated = row is not None and row.integrated
    by_ptx = False
    for text in compiled:
        code = versions.capability(text)
        code_text, _, ptx = text.partition("+")
        exact = code_text.endswith("a")
        own = find_capability(rows, code_text)
        alone = exact or integrated or (own is not None and own.integrated)
        if code == gpu or (not alone and code[0] == gpu[0] and code[1] <= gpu[1]):
            return "sass"
        by_ptx = by_ptx or (bool(ptx) and not exact and not code_text.endswith("f") and code <= gpu)
    return "ptx" if by_ptx else None
