"""Renders the Dockerfile templates: strict, deterministic, and only values that a Dockerfile can't misread."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from envcheck.resources import find_folder

# What may stand in a Dockerfile of ours: no quote, dollar, backslash, backtick, semicolon, control or line break.
SAFE = re.compile(r"[A-Za-z0-9._+:/@<>=!~,*\[\] -]*", re.ASCII)


class UnsafeValue(ValueError):
    """A value with characters that a Dockerfile could misread: a fault of envcheck's own, nothing is written."""


def safe(value: object) -> str:
    """The text of `value`; raises UnsafeValue."""
    text = str(value)
    if not SAFE.fullmatch(text):
        raise UnsafeValue(f"won't write {text!r} into a Dockerfile")
    return text


def check(value: Any) -> Any:
    """Every text in a (nested) value is safe; raises UnsafeValue."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {key: check(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [check(item) for item in value]
    return value


def _pairs(items: list[list[str]]) -> str:
    """LABEL's arguments, one a line."""
    return " \\\n      ".join(f'{key}="{value}"' for key, value in items)


def render(template: str, values: dict[str, Any]) -> str:
    """The text of a template in templates/; one blank line at most, a newline at the end."""
    text = _environment().get_template(template).render(check(values))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


@functools.lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(  # noqa: S701 (no HTML: every value passes `check`)
        loader=FileSystemLoader(find_folder("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["exec"] = lambda words: json.dumps([str(word) for word in words], ensure_ascii=True)
    environment.filters["pairs"] = _pairs
    return environment
