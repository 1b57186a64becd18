"""Why there is no plan: the smallest set of wishes that conflict, and the nearest combinations that exist."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from packaging.version import Version

from envcheck import versions
from envcheck.errors import Unsatisfiable
from envcheck.matrix.matrix import Matrix
from envcheck.model.request import Request
from envcheck.resolve.candidates import Candidate, pythons_of
from envcheck.resolve.constraints import Wish, driver_span, possible, undriven

OPTIONS = {"cuda": "--cuda", "python": "--python", "cudnn": "--cudnn", "driver": "--driver"}
MANY = 5


class Way(msgspec.Struct, frozen=True):
    """A way out: what is kept, and what the other wishes would have to be."""

    keep: str
    instead: tuple[str, ...]


class Conflict(Unsatisfiable):
    """No combination: `wishes` is the smallest conflicting set, `ways` the nearest that exist."""

    def __init__(self, message: str, wishes: Sequence[Wish], ways: Sequence[Way], remark: str = "") -> None:
        lines = [f"keep {way.keep}   {' · '.join(way.instead)}" for way in ways]
        super().__init__(message, "\n  ".join([*lines, *([remark] if remark else [])]))
        self.wishes = tuple(wishes)
        self.ways = tuple(ways)
        self.remark = remark


def smallest_conflict(
    wishes: Sequence[Wish], candidates: Sequence[Candidate], request: Request, matrix: Matrix
) -> tuple[Wish, ...]:
    """A set of wishes that no candidate grants, and of which none can be left out (deletion from the full set)."""
    kept = list(wishes)
    for wish in reversed(wishes):
        rest = [other for other in kept if other is not wish]
        if not any(possible(candidate, rest, request, matrix) for candidate in candidates):
            kept = rest
    return tuple(kept)


def explain(wishes: Sequence[Wish], candidates: Sequence[Candidate], request: Request, matrix: Matrix) -> Conflict:
    """The failure to raise for a request that no candidate grants."""
    conflict = smallest_conflict(wishes, candidates, request, matrix)
    others = [wish for wish in wishes if wish not in conflict]
    ways = []
    for wish in conflict:
        way = _keep(wish, conflict, others, candidates, request, matrix)
        if way is not None:
            ways.append(way)
    return Conflict(_message(conflict, request, matrix), conflict, ways, _remark(conflict, ways, request, matrix))


def _message(conflict: Sequence[Wish], request: Request, matrix: Matrix) -> str:
    by_kind = {wish.kind: wish for wish in conflict}
    if set(by_kind) == {"framework", "cuda"}:
        return f"No combination: {by_kind['framework'].label} was never built for {by_kind['cuda'].label}."
    if set(by_kind) == {"framework", "python"}:
        return f"No combination: {by_kind['framework'].label} has no wheels for {by_kind['python'].label}."
    if set(by_kind) == {"framework", "gpu"} and len(conflict) == 2:
        return f"No combination: no build of {by_kind['framework'].label} has kernels for {by_kind['gpu'].label}."
    if set(by_kind) == {"gpu", "driver"} and undriven(conflict, request, matrix):
        return f"No combination: {by_kind['driver'].label} doesn't drive {by_kind['gpu'].label}."
    if set(by_kind) == {"cuda", "driver"}:
        return f"No combination: {by_kind['driver'].label} can't run {by_kind['cuda'].label}."
    if not conflict:
        return f"No combination: there is no image or Python to put {request.framework} on."
    if len(conflict) == 1:
        return f"No combination: {_alone(conflict[0], request)}."
    labels = [wish.label for wish in conflict]
    if "framework" not in by_kind:
        labels.insert(0, f"any {request.framework}")
    return f"No combination of {', '.join(labels[:-1])} and {labels[-1]}."


def _alone(wish: Wish, request: Request) -> str:
    """A wish that nothing grants, whatever the others are."""
    name = request.framework
    if wish.kind == "framework":
        return f"no CUDA build of {wish.label} is on record"
    if wish.kind == "gpu":
        return f"no build of {name} on record has kernels for {wish.label}"
    if wish.kind == "driver":
        return f"no build of {name} on record runs on {wish.label}"
    return f"no build of {name} on record is for {wish.label}"


def _keep(
    wish: Wish,
    conflict: Sequence[Wish],
    others: Sequence[Wish],
    candidates: Sequence[Candidate],
    request: Request,
    matrix: Matrix,
) -> Way | None:
    """What the other conflicting wishes can be while this one stays: the fewest of them given up."""
    rest = [other for other in conflict if other is not wish]
    if not rest:
        stay = list(others)
        fitting = [candidate for candidate in candidates if possible(candidate, stay, request, matrix)]
        keep = " and ".join(other.label for other in stay) or f"any {request.framework}"
        return Way(keep, tuple(_instead(wish, fitting, stay, request, matrix))) if fitting else None
    for beside in [others, []] if others else [[]]:
        for given_up in [[other] for other in reversed(rest)] + ([rest] if len(rest) > 1 else []):
            stay = [w for w in (*conflict, *beside) if w not in given_up]
            fitting = [candidate for candidate in candidates if possible(candidate, stay, request, matrix)]
            if not fitting:
                continue
            words = [_instead(lost, fitting, stay, request, matrix) for lost in given_up]
            texts = dict.fromkeys(text for group in words for text in group)
            if others and not beside:
                texts[f"without {', '.join(other.label for other in others)}"] = None
            return Way(wish.label, tuple(texts))
    return None


def _instead(
    lost: Wish, fitting: Sequence[Candidate], stay: Sequence[Wish], request: Request, matrix: Matrix
) -> list[str]:
    if lost.kind == "framework":
        whole = len(stay) == 0 and request.patch_asked
        names = (candidate.version if whole else versions.minor(candidate.version) for candidate in fitting)
        releases = sorted(dict.fromkeys(names), key=lambda text: (_distance(text, lost.value), Version(text)))
        shown = sorted(releases[:MANY], key=Version)
        return [f"{request.framework} {', '.join(shown)} (--{request.framework} {shown[0]} …)"]
    if lost.kind == "cuda":
        minors = sorted(
            {versions.minor(candidate.cuda) for candidate in fitting},
            key=lambda text: (_distance(text, lost.value), -Version(text).minor),
        )
        return [f"CUDA {text} (--cuda {text})" for text in minors[:MANY]]
    if lost.kind == "python":
        found = sorted({p for candidate in fitting for p in pythons_of(candidate, matrix)}, key=Version)
        return [f"Python {', '.join(found)} (--python {found[-1]})"] if found else []
    if lost.kind == "cudnn":
        found = sorted({candidate.cudnn for candidate in fitting if candidate.cudnn}, key=_number)
        return [f"cuDNN {', '.join(found[-MANY:])}"] if found else []
    if lost.kind == "driver":
        gpus = request.machine.gpus.find() or ()
        spans = [driver_span(gpu, matrix.capability_of(gpu) or "", matrix) for gpu in gpus]
        missed = [str(span) for span in spans if not span.holds(versions.branch(lost.value))]
        return list(dict.fromkeys(missed)) or [_driver(fitting, matrix)]
    if lost.kind == "gpu":
        driver = next((wish.label for wish in stay if wish.kind == "driver"), "")
        return [f"a GPU that {driver} drives" if driver else _gpus(fitting)]
    if lost.label.startswith("--flavour"):
        return ["another --flavour, or none"]
    return ["--base cuda"]


def _gpus(fitting: Sequence[Candidate]) -> str:
    """The architectures of the candidate with the most."""
    rows = [candidate.build or candidate.image for candidate in fitting]
    lists = [row.capabilities for row in rows if row is not None and row.capabilities]
    if not lists:
        return "a GPU that its CUDA makes code for"
    codes = [versions.sm(text.partition("+")[0]) for text in max(lists, key=len)]
    return f"a GPU with code among {' '.join(codes)}"


def _driver(fitting: Sequence[Candidate], matrix: Matrix) -> str:
    lowest = min((candidate.cuda for candidate in fitting), key=Version)
    floor = matrix.minor_floor(lowest) or matrix.driver_floor(lowest)
    return f"driver {floor} or newer (for CUDA {versions.minor(lowest)})" if floor else "a newer driver"


def _distance(left: str, right: str) -> tuple[int, int]:
    a, b = (*versions.parse(left).release, 0)[:2], (*versions.parse(right).release, 0)[:2]
    return abs(a[0] - b[0]), abs(a[1] - b[1])


def _number(text: str) -> Version:
    return versions.find(text) or Version("0")


def _remark(conflict: Sequence[Wish], ways: Sequence[Way], request: Request, matrix: Matrix) -> str:
    """The one sentence that usually decides: a driver runs builds of older CUDA as well."""
    by_kind = {wish.kind: wish for wish in conflict}
    if set(by_kind) != {"framework", "cuda"} or not ways or ways[0].keep != by_kind["framework"].label:
        return ""
    wanted = by_kind["cuda"].value
    offered = [text.split()[1] for text in ways[0].instead if text.startswith("CUDA ")]
    older = [text for text in offered if Version(text) < Version(wanted)]
    if not older:
        return ""
    both = {1: f"the {older[0]} build", 2: f"both {older[0]} and {older[1]} builds"}.get(
        len(older), f"the {', '.join(older)} builds"
    )
    return f"A driver that runs CUDA {wanted} runs {both}: the first line is usually what you want."
