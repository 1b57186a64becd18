"""The table of DESIGN.md: who may import whom, and which library is imported where."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "envcheck"
CORE = {"errors", "versions", "resources"}
MAY = {
    "model": {"model", "versions", "errors"},
    "matrix": {"matrix", "model", *CORE},
    "probes": {"probes", "model", *CORE},
    "readers": {"readers", "model", *CORE},
    "clients": {"clients", "model", *CORE},
    "rules": {"rules", "model", "matrix", *CORE},
    "resolve": {"resolve", "model", "matrix", "rules", *CORE},
    "dockerfile": {"dockerfile", "model", *CORE},
    "report": {"report", "model", *CORE},
}
ONLY_IN = {
    "subprocess": ("probes/runner.py", "clients/"),
    "docker": ("clients/",),
    "requests": ("clients/", "matrix/refresh/"),
    "click": ("cli/",),
    "rich": ("report/", "cli/"),
    "pynvml": ("probes/nvml_child.py",),
    "elftools": ("probes/",),
    "torch": (),
    "tensorflow": (),
    "jax": (),
    "pickle": (),
}


def imports(path: Path):
    """(module, line) for every import of a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_layer_may(path):
    inside = path.relative_to(PACKAGE).as_posix()
    layer = inside.split("/")[0] if "/" in inside else None
    for module, line in imports(path):
        top, *rest = module.split(".")
        if top == "envcheck" and layer in MAY:
            target = rest[0] if rest else "errors"
            assert target in MAY[layer], f"{inside}:{line}: {layer} may not import {module}"
        if top in ONLY_IN:
            assert inside.startswith(ONLY_IN[top]) if ONLY_IN[top] else False, f"{inside}:{line}: {top} is not for here"
