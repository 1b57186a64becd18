"""Safe YAML with the line of every value; bombs of aliases, depth or size are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

MAX_BYTES = 4 << 20
MAX_NODES = 100_000
MAX_DEPTH = 60


class YamlError(ValueError):
    """The text is no YAML, or more than a person would write."""


class Node(dict[str, Any]):
    """A mapping that knows its line and the line of each key."""

    line: int = 0
    lines: dict[str, int]


class Items(list[Any]):
    """A sequence that knows the line of each item."""

    line: int = 0
    lines: list[int]


def load_all(text: str) -> list[Any]:
    """Every document as Node, Items and plain values. Raises YamlError."""
    if len(text) > MAX_BYTES:
        raise YamlError("larger than any such file")
    budget = [MAX_NODES]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return [_value(node, budget, 0) for node in _documents(text, loader)]
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        if isinstance(fault, YamlError):
            raise
        mark = getattr(fault, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise YamlError(f"{where}{getattr(fault, 'problem', None) or 'not YAML'}") from None


def _documents(text: str, loader: Any) -> Iterator[Any]:
    return yaml.compose_all(text, Loader=loader)  # builds nodes only: no tag makes an object


def _value(node: Any, budget: list[int], depth: int) -> Any:
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise YamlError("more values, or deeper, than a person would write: it is refused")
    if isinstance(node, yaml.MappingNode):
        result = Node()
        result.line = node.start_mark.line + 1
        result.lines = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            value = _value(value_node, budget, depth + 1)
            if key == "<<":
                merged += value if isinstance(value, list) else [value]
                continue
            result[key] = value
            result.lines[key] = key_node.start_mark.line + 1
        for source in merged:
            if isinstance(source, Node):
                for key, value in source.items():
                    if key not in result:
                        result[key] = value
                        result.lines[key] = source.lines.get(key, source.line)
        return result
    if isinstance(node, yaml.SequenceNode):
        items = Items(_value(child, budget, depth + 1) for child in node.value)
        items.line = node.start_mark.line + 1
        items.lines = [child.start_mark.line + 1 for child in node.value]
        return items
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    return None


def _scalar(node: Any) -> Any:
    tag = node.tag.rpartition(":")[2]
    if node.style in ("'", '"'):
        return node.value
    if tag == "bool":
        return str(node.value).lower() in ("true", "yes", "on")
    if tag == "null":
        return None
    if tag == "int":
        try:
            return int(node.value)
        except ValueError:
            return node.value
    return node.value


def mapping(value: Any) -> Node:
    """`value` if it is a mapping, else an empty one."""
    if isinstance(value, Node):
        return value
    empty = Node()
    empty.lines = {}
    return empty


def sequence(value: Any) -> Items:
    """`value` if it is a sequence, else an empty one."""
    if isinstance(value, Items):
        return value
    empty = Items()
    empty.lines = []
    return empty
