"""`envcheck machines`: the machines that `--on` knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Optional

import click

from envcheck.cli.options import emit, width

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.matrix.rows import Instance

EPILOG = """\b
Examples:
  envcheck machines                 all of them
  envcheck machines h100            those with an H100
  envcheck machines aws:p4          by provider and name
  envcheck machines --format json
"""


@click.command(epilog=EPILOG)
@click.argument("pattern", required=False, default="")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(pattern: str, form: str) -> None:
    """List the cloud machines that the matrix knows, with GPU, memory and fabric.

    PATTERN is any part of 'provider:name' or of the GPU's name.
    """
    from envcheck import matrix as matrices
    from envcheck.errors import UnknownName

    matrix = matrices.load()
    rows = [row for row in matrix.instances if matches(row, pattern)]
    if not rows:
        names = [f"{row.provider}:{row.name}" for row in matrix.instances]
        gpus = [row.model or row.gpu for row in matrix.instances]
        raise UnknownName("machine", pattern, dict.fromkeys([*names, *gpus]), "envcheck machines")
    emit(as_json(rows, matrix) if form == "json" else as_text(rows, matrix), None)


def matches(row: Instance, pattern: str) -> bool:
    """Is every word of the pattern in the machine's name or GPU?"""
    text = f"{row.provider}:{row.name} {row.gpu} {row.model}".lower()
    return all(word in text for word in pattern.lower().split())


def details(row: Instance, matrix: Matrix) -> dict[str, Any]:
    """One machine as JSON gives it; what isn't known is left out."""
    model = matrix.find_gpu(row.model or row.gpu)
    found: dict[str, Optional[Any]] = {
        "name": f"{row.provider}:{row.name}",
        "gpu": model.name if model else row.gpu,
        "count": row.count,
        "memory_gb_each": row.memory_gb_each or (model.memory_gb if model else None),
        "capability": model.capability if model else None,
        "interconnect": row.interconnect or None,
        "vcpu": row.vcpu,
        "ram_gb": row.ram_gb,
        "network_gbps": row.network_gbps,
        "image_driver": row.image_driver or None,
        "source": row.source,
    }
    return {key: value for key, value in found.items() if value is not None}


def as_json(rows: list[Instance], matrix: Matrix) -> str:
    """A list of machines."""
    return json.dumps([details(row, matrix) for row in rows], indent=2, ensure_ascii=False) + "\n"


def as_text(rows: list[Instance], matrix: Matrix) -> str:
    """A table, one line a machine, cut to the terminal's width."""
    lines = []
    told = [details(row, matrix) for row in rows]
    wide = max(len(row["name"]) for row in told)
    for row in told:
        count = f"{row['count']:g} × " if "count" in row else ""
        parts = [f"{count}{row['gpu']}"]
        if "memory_gb_each" in row:
            parts.append(f"{row['memory_gb_each']:g} GB each")
        parts.append(row.get("interconnect", ""))
        if "ram_gb" in row:
            parts.append(f"RAM {row['ram_gb']:g} GB")
        if "network_gbps" in row:
            parts.append(f"{row['network_gbps']:g} Gbit/s")
        line = f"{row['name']:<{wide}}  {' · '.join(filter(None, parts))}"
        lines.append(line if len(line) <= width() else line[: width() - 1] + "…")
    return "\n".join(lines) + f"\n{len(told)} machines\n"
