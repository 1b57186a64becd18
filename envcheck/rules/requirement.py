"""The NVIDIA_REQUIRE_* grammar of images, evaluated as nvidia-container-cli and the container toolkit do.

A value is alternatives (separated by blanks) of factors (separated by commas); one alternative whose factors all hold
is enough. Every variable must hold, for every visible GPU. nvidia-container-cli (C, legacy mode) reads names and brands
without case and refuses what it doesn't know; the toolkit's own (Go, csv mode) reads them exactly and skips what it
doesn't know. Just-in-time CDI, the toolkit's default since 1.18, reads none of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Optional

import msgspec

from envcheck import versions

PREFIX = "NVIDIA_REQUIRE_"
NOT_A_REQUIREMENT = "NVIDIA_REQUIRE_JETPACK"
DISABLE = "NVIDIA_DISABLE_REQUIRE"
TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})  # what Go's ParseBool takes for true
PROPERTIES = frozenset({"cuda", "driver", "arch", "brand"})
OPERATORS = ("!=", "<=", ">=", "=", "<", ">")  # in this order: the longer first
Dialect = Literal["c", "go"]

_NAME = re.compile(r"[^<>=!]*")
_DOTTED = re.compile(r"\d+(?:\.\d+)*")


class Device(msgspec.Struct, frozen=True):
    """What a requirement is compared with: the host driver's CUDA and version, a GPU's capability and NVML brands.

    None is 'we don't know'. `brands` holds every brand that NVML may give this product, lower case without blanks.
    """

    cuda: Optional[str] = None
    driver: Optional[str] = None
    arch: Optional[str] = None
    brands: Optional[tuple[str, ...]] = None


class Requirement(msgspec.Struct, frozen=True):
    """One variable of the image; `implied` for the one that the toolkit derives from CUDA_VERSION."""

    name: str
    text: str
    implied: bool = False

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """The alternatives, each its factors; empty ones are left out as both tools do."""
        split = (tuple(f for f in part.split(",") if f) for part in self.text.split(" ") if part)
        return tuple(factors for factors in split if factors)


class Verdict(msgspec.Struct, frozen=True):
    """met: True, False, or None where it hangs on something unknown. `invalid` is a factor that the tool refuses."""

    met: Optional[bool]
    requirement: Optional[Requirement] = None  # the one that isn't met, is invalid, or can't be told
    invalid: str = ""
    missing: tuple[str, ...] = ()  # properties that would settle it


def is_disabled(env: Mapping[str, str]) -> bool:
    """NVIDIA_DISABLE_REQUIRE switches all checks off."""
    return env.get(DISABLE, "") in TRUE


def collect(env: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The requirements of an image's environment, by name; none where they are switched off."""
    if is_disabled(env):
        return ()
    found = [
        Requirement(name, env[name])
        for name in sorted(env)
        if name.startswith(PREFIX) and not name.startswith(NOT_A_REQUIREMENT) and env[name].strip(" ")
    ]
    cuda = re.match(r"(\d+)\.(\d+)", env.get("CUDA_VERSION", ""))
    if cuda and not env.get("NVIDIA_REQUIRE_CUDA"):
        found.append(Requirement("NVIDIA_REQUIRE_CUDA", f"cuda>={cuda.group(1)}.{cuda.group(2)}", implied=True))
    return tuple(found)


def evaluate(requirements: Iterable[Requirement], devices: Sequence[Device], dialect: Dialect = "c") -> Verdict:
    """Do all requirements hold for all devices? False wins over unknown."""
    open_question: Optional[Verdict] = None
    for requirement, device in itertools.product(requirements, devices or (Device(),)):
        verdict = evaluate_one(requirement, device, dialect)
        if verdict.met is False:
            return verdict
        if verdict.met is None:
            open_question = open_question or verdict
    return open_question or Verdict(True)


def evaluate_one(requirement: Requirement, device: Device, dialect: Dialect = "c") -> Verdict:
    """One requirement for one device, alternative by alternative as the tool reads it.

    Where a device may have one of several brands, all must lead to the same answer for it to be one.
    """
    if device.brands is not None and len(device.brands) > 1:
        each = [
            evaluate_one(requirement, msgspec.structs.replace(device, brands=(brand,)), dialect)
            for brand in device.brands
        ]
        if len({verdict.met for verdict in each}) == 1:
            return each[0]
        missing = {"brand", *(name for verdict in each for name in verdict.missing)}
        return Verdict(None, requirement, missing=tuple(sorted(missing)))
    open_questions: set[str] = set()
    considered = False
    for factors in requirement.alternatives:
        failed = False
        used = 0
        unknown: list[str] = []
        for text in factors:
            parsed = _parse(text, dialect)
            if parsed is None:
                return Verdict(False, requirement, invalid=text)
            if parsed[0] not in PROPERTIES:
                continue  # Go only: skipped
            used += 1
            held = _holds(parsed, device, dialect)
            if held is None:
                unknown.append(parsed[0])
            elif not held:
                failed = True
                break
        if not used:
            continue
        considered = True
        if not failed and not unknown:
            return Verdict(True)
        if not failed:
            open_questions.update(unknown)
    if not considered:
        return Verdict(True)
    if open_questions:
        return Verdict(None, requirement, missing=tuple(sorted(open_questions)))
    return Verdict(False, requirement)


def _holds(factor: tuple[str, str, str], device: Device, dialect: Dialect) -> Optional[bool]:
    name, operator, value = factor
    if name == "brand":
        return _brand(operator, value, device.brands, dialect)
    return _compare(operator, value, {"cuda": device.cuda, "driver": device.driver, "arch": device.arch}[name])


def _parse(text: str, dialect: Dialect) -> Optional[tuple[str, str, str]]:
    """(property, operator, value) of a factor; None where the tool calls it invalid."""
    match = _NAME.match(text)
    name = match.group() if match else ""
    rest = text[len(name) :]
    operator = next((o for o in OPERATORS if rest.startswith(o)), "")
    value = rest[len(operator) :]
    if not name or not operator or not value:
        return None
    if dialect == "c":
        name = name.lower()
        if name not in PROPERTIES:
            return None
    if name == "brand":
        return (name, operator, value) if operator in ("=", "!=") or dialect == "go" else None
    if name in PROPERTIES and not _DOTTED.fullmatch(value):
        return None
    return name, operator, value


def _compare(operator: str, value: str, actual: Optional[str]) -> Optional[bool]:
    found = versions.find(actual)
    if found is None:
        return None
    left, right = list(found.release), [int(part) for part in value.split(".")]
    length = max(len(left), len(right))
    a = left + [0] * (length - len(left))
    b = right + [0] * (length - len(right))
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def _brand(operator: str, value: str, brands: Optional[tuple[str, ...]], dialect: Dialect) -> Optional[bool]:
    if brands is None:
        return None
    wanted = value.lower() if dialect == "c" else value
    results = {(brand == wanted) is (operator == "=") for brand in brands}
    return results.pop() if len(results) == 1 else None


def device_brands(name: str, segment: Optional[str], driver: Optional[str]) -> Optional[tuple[str, ...]]:
    """The brands that NVML may give a product: datacentre GPUs were 'tesla' and are 'nvidia' with newer drivers.

    None where neither name nor segment tells.
    """
    lower = name.lower()
    if "geforce" in lower or segment == "consumer":
        if "titan" in lower:
            return ("titanrtx",) if "rtx" in lower else ("titan",)
        return ("geforcertx", "geforce") if "rtx" in lower else ("geforce",)
    if "titan" in lower:
        return ("titanrtx",) if "rtx" in lower else ("titan",)
    if "quadro" in lower:
        return ("quadrortx",) if "rtx" in lower else ("quadro",)
    if segment == "workstation":
        return ("nvidiartx", "quadrortx", "nvidia")
    if segment == "datacentre" or "tesla" in lower:
        version = versions.find(driver)
        return ("tesla",) if version is not None and version.major < 470 else ("nvidia", "tesla")
    return None
