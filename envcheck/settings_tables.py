"""The tables and keys of the settings file, and how a wrong key is told."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Optional, Union

import msgspec

from envcheck.errors import nearest
from envcheck.model.finding import Severity

Feature = Literal["bf16", "fp8", "fp4", "tf32", "nvlink", "mig"]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="kebab"):
    """A table of the settings: a key that it doesn't have is an error."""


class GpuRequirement(Strict, frozen=True):
    """`require.gpu`: names (any of them), how many, compute capability, memory of each ('40GB')."""

    names: tuple[str, ...] = ()
    count: Union[int, str, None] = None
    capability: str = ""
    memory: Union[int, str, None] = None


class Require(Strict, frozen=True):
    """`require`: what the project needs. Every other key is the name of a package that the matrix knows."""

    cuda: str = ""
    cudnn: str = ""
    python: str = ""
    driver: str = ""
    gpu: Optional[GpuRequirement] = None
    features: tuple[Feature, ...] = ()
    shm: Union[int, str, None] = None
    ram: Union[int, str, None] = None
    disk: Union[int, str, None] = None
    containers: Optional[bool] = None
    packages: dict[str, str] = {}


class Ignore(Strict, frozen=True):
    """One `ignore`: a rule (id, family or slug) in some files or everywhere, why, and until when."""

    rule: str
    reason: str
    until: dt.date
    paths: tuple[str, ...] = ()


class Settings(Strict, frozen=True):
    """All of it; what is left out is empty."""

    require: Require = Require()
    targets: tuple[str, ...] = ()
    dockerfiles: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[Ignore, ...] = ()
    fail_on: Literal["error", "warning", "note", "never"] = "error"
    severity: dict[str, Severity] = {}


def sort_packages(table: dict[str, Any], packages: tuple[str, ...]) -> dict[str, Any]:
    """`require.torch` as `require.packages.torch`: names of the matrix are keys of their own in the file."""
    require = table.get("require")
    if not isinstance(require, dict):
        return table
    named = {key: value for key, value in require.items() if _normal(key) in packages and key not in _keys(Require)}
    if not named:
        return table
    rest = {key: value for key, value in require.items() if key not in named}
    given = rest.get("packages", {})
    if isinstance(given, dict):
        rest["packages"] = {**given, **{_normal(key): value for key, value in named.items()}}
    return {**table, "require": rest}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _keys(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def unknown_keys(
    table: dict[str, Any], kind: type[msgspec.Struct], prefix: str, packages: tuple[str, ...]
) -> Iterator[str]:
    """One line for every key that is none, with the nearest that is."""
    known = _keys(kind)
    names = (*known, *(packages if kind is Require else ()))
    for key, value in table.items():
        if key not in known:
            near = nearest(key, names)
            yield f"{prefix}{key}: unknown key" + (f"; near: {', '.join(near)}" if near else "")
        elif isinstance(value, dict) and key in ("require", "gpu"):
            yield from unknown_keys(value, Require if key == "require" else GpuRequirement, f"{prefix}{key}.", packages)
        elif key == "ignore" and isinstance(value, list):
            for place, entry in enumerate(value):
                if isinstance(entry, dict):
                    yield from unknown_keys(entry, Ignore, f"{prefix}ignore[{place}].", packages)
        elif key == "packages" and isinstance(value, dict):
            for name in value:
                if _normal(name) not in packages:
                    near = nearest(name, packages)
                    hint = f"; near: {', '.join(near)}" if near else ""
                    yield f"{prefix}packages.{name}: the matrix knows no such package{hint}"


def schema(packages: Iterable[str]) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the settings, for editors; `packages` may be keys of `require` too."""
    made = msgspec.json.schema(Settings)
    properties = made["$defs"]["Require"]["properties"]
    specifier = {"type": "string", "description": "PEP 440 specifier, '>=2.1,<2.3'"}
    for name in sorted(packages):
        properties.setdefault(name, specifier)
    ordered: dict[str, Any] = _ordered(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "envcheck settings", **ordered}


def _ordered(value: Any) -> Any:
    """`anyOf` sorted: msgspec gives the alternatives in one order on one Python, in another on the next."""
    if isinstance(value, list):
        return [_ordered(entry) for entry in value]
    if isinstance(value, dict):
        inner = {key: _ordered(entry) for key, entry in value.items()}
        return {key: sorted(entry, key=str) if key == "anyOf" else entry for key, entry in inner.items()}
    return value
