"""`envcheck kernels`: which GPUs a file, package or environment has device code for."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from envcheck.cli.options import emit, no_color_option, paint, wants_color

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix
    from envcheck.model.stack import Binary
    from envcheck.probes.device_files import Read

EPILOG = """\b
Examples:
  envcheck kernels                              the active environment's frameworks and extensions
  envcheck kernels torch --gpu "RTX 5090"       will torch's own code run on this GPU?
  envcheck kernels ./build/my_ext.so            one file: .so, .fatbin or .cubin
  envcheck kernels --python .venv/bin/python nvidia-cublas

\b
Exit codes: 0 · 1 a GPU named by --gpu has no code to run in one of the files · 3 could not be read
"""

WORDS = {"sass": "native", "ptx": "JIT", "part": "partly", "none": "none"}
STYLES = {"native": "ok", "JIT": "warning", "partly": "warning", "none": "error"}


@click.command(epilog=EPILOG)
@click.argument("target", metavar="[PATH|PACKAGE]", required=False)
@click.option("--gpu", "gpus", metavar="NAME", multiple=True, help="A GPU ('RTX 4090', sm_90); may be repeated.")
@click.option("--python", metavar="PATH", help="The interpreter of the environment (it is read, never run).")
@click.option(
    "--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)
@no_color_option
def command(target: Optional[str], gpus: tuple[str, ...], python: Optional[str], style: str, no_color: bool) -> None:
    """Show the architectures that CUDA binaries were compiled for, read from their headers; nothing is run.

    'native': machine code for this GPU. 'JIT': only PTX, so the first start is slow and the driver must know that PTX.
    'partly': some of the modules have nothing for it, as in libraries that hold code apart for each architecture.
    """
    import msgspec

    from envcheck import matrix as matrices

    matrix = matrices.load()
    wanted = {name: _capability(name, matrix) for name in gpus}
    read = _read(target, python, matrix)
    verdicts = {b.path: {name: verdict(matrix, b, cap) for name, cap in wanted.items()} for b in read.binaries}
    if style == "json":
        rows = [{**msgspec.to_builtins(b), "gpus": verdicts[b.path]} for b in read.binaries]
        answer = {"schema": 1, "binaries": rows, "unread": read.unread}
        emit(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n", None)
    else:
        emit(_text(read, verdicts, color=wants_color(sys.stdout, no_color)), None)
    if read.unread and not read.binaries:
        sys.exit(3)
    sys.exit(1 if any("none" in row.values() for row in verdicts.values()) else 0)


def verdict(matrix: Matrix, binary: Binary, capability: str) -> str:
    """native, JIT, partly or none: by the share of the file's modules that run on the capability."""
    from envcheck.rules.kernels import measured

    counts = {"sass": 0, "ptx": 0, None: 0}
    for mix, count in binary.mixes.items():
        counts[matrix.kernels(mix.split(), capability)] += count
    if not counts["sass"] + counts["ptx"]:
        return WORDS["none"]
    how = measured(matrix, binary, capability).how
    return WORDS["part"] if how == "none" else WORDS[how]


def _capability(name: str, matrix: Matrix) -> str:
    found = matrix.capability(name)
    return found.capability if found else matrix.get_gpu(name).capability


def _read(target: Optional[str], python: Optional[str], matrix: Matrix) -> Read:
    from envcheck.errors import InspectError, UsageError
    from envcheck.probes.binaries import site_folders
    from envcheck.probes.device_files import files_in, files_of, read_files
    from envcheck.probes.owners import read_sites
    from envcheck.probes.tree import Tree

    tree = Tree()
    if target and (os.sep in target or Path(target).is_file()):
        path = str(Path(target).absolute())
        if not Path(path).exists():
            raise UsageError(f"there is no {target}", "Give a file, a folder or the name of an installed package.")
        read = read_files(tree, list(files_in(tree, path)) if Path(path).is_dir() else [path])
        if read.unread and not read.binaries:
            raise InspectError(read.unread[0], "Only ELF libraries, .fatbin and .cubin files hold device code.")
        return read
    from envcheck.probes.inspect import inspect_host

    snap = inspect_host(python=python, known=frozenset(matrix.packages()), binaries=False)
    sites = read_sites(tree, site_folders(snap.stack))
    if target:
        name = target.lower().replace("_", "-")
        files = files_of(tree, sites, name)
        if not files:
            found = sorted({package for site in sites for package in site.metadata})
            from envcheck.errors import UnknownName

            raise UnknownName("file or installed package", target, found)
        return read_files(tree, files, name)
    from envcheck.probes.binaries import inspect_binaries

    binaries = inspect_binaries(snap, env=os.environ, deadline=20).binaries
    found_binaries = binaries.find() or ()
    others = [name for site in sites for name in site.metadata if name.startswith("nvidia-")]
    more = read_files(tree, [file for name in others for file in files_of(tree, sites, name)])
    from envcheck.probes.device_files import Read

    unread = tuple(b.unread for b in found_binaries if b.unread)
    return Read((*(b for b in found_binaries if not b.unread), *more.binaries), (*unread, *more.unread))


def _text(read: Read, verdicts: dict[str, dict[str, str]], *, color: bool) -> str:
    from envcheck.report.words import clean

    lines = []
    for binary in read.binaries:
        own = f"   {clean(binary.package)}" if binary.package else ""
        lines.append(f"{clean(binary.path)}{own}")
        rows = [("code", _listing(binary.sass, binary.modules, "sm_") or "none")]
        rows.append(("PTX", _listing(binary.ptx, binary.modules, "compute_") or "none"))
        for name, word in verdicts[binary.path].items():
            rows.append((name, paint(word, STYLES[word]) if color else word))
        wide = max(len(name) for name, _ in rows)
        lines += [f"    {name.ljust(wide)}  {value}" for name, value in rows]
    for reason in read.unread:
        lines.append(f"? {clean(reason)}")
    if not lines:
        lines.append("No device code was found.")
    return "\n".join(lines) + "\n"


def _listing(counts: dict[str, int], modules: int, prefix: str) -> str:
    """'sm_80 sm_90a(4)': the number of modules in brackets where it isn't (nearly) all of them."""
    words = []
    for name, count in counts.items():
        few = "" if count * 10 >= modules * 9 else f"({count}/{modules})"
        words.append(f"{prefix}{name.replace('.', '')}{few}")
    return " ".join(words)
