"""The rules: one module a family, one registry."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from envcheck.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envcheck.rules.rule import Rule

# In the order of the report among equals: what is nearest to the hardware first.
FAMILIES = (
    "driver", "driver_modules", "gpu", "gpu_health", "cuda", "framework", "companion", "runtime_library", "python",
    "loader", "container", "image", "fabric", "host", "security", "files", "settings", "settings_machine", "proof",
    "symptom",
)  # fmt: skip


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule of every family, in the documented order; modules are imported at the first call."""
    from envcheck.rules.rule import Rule

    found: list[Rule] = []
    for family in FAMILIES:
        module = importlib.import_module(f"envcheck.rules.{family}")
        found += [value for value in vars(module).values() if isinstance(value, Rule) and value not in found]
    return tuple(found)


def __getattr__(name: str) -> Any:
    """`ALL`, without importing every family with the package."""
    if name == "ALL":
        return all_rules()
    raise AttributeError(name)


def select_rules(select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules that `select` names (all if it is empty), less those of `ignore`.

    A name is an id (DRV101), a family (DRV), a slug or a cause; raises UnknownName with the nearest.
    """
    rules = all_rules()
    chosen = [rule for name in select for rule in _named(name, rules)] if select else list(rules)
    dropped = {rule.id for name in ignore for rule in _named(name, rules)}
    return tuple(rule for rule in rules if rule in chosen and rule.id not in dropped)


def find_rule(name: str) -> Rule:
    """The one rule of an id or slug; raises UnknownName."""
    rules = all_rules()
    for rule in rules:
        if name.upper() == rule.id or name.lower() == rule.slug:
            return rule
    raise UnknownName("rule", name, [r.id for r in rules] + [r.slug for r in rules], "envcheck rules")


def _named(name: str, rules: Sequence[Rule]) -> list[Rule]:
    upper, lower = name.upper(), name.lower()
    found = [r for r in rules if upper in (r.id, r.family) or lower in (r.slug, r.cause)]
    if not found:
        known = [r.id for r in rules] + [r.slug for r in rules] + sorted({r.family for r in rules})
        raise UnknownName("rule", name, known, "envcheck rules")
    return found
