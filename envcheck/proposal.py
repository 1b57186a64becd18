"""What `init` proposes: the files of a repository that describe an environment, and settings made from them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from envcheck.errors import EnvcheckError

if TYPE_CHECKING:
    from envcheck.matrix.matrix import Matrix

MAX_FILES = 20_000
MAX_DEPTH = 5
MAX_READ = 200
LEFT_OUT = frozenset({"node_modules", "site-packages", "venv", "env", "build", "dist", "vendor", "third_party"})
PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("dockerfiles", re.compile(r"(Dockerfile|Containerfile)([._-][\w.-]+)?|[\w.-]+\.[Dd]ockerfile")),
    ("requirements", re.compile(r"([\w.-]*requirements[\w.-]*|requirements)\.(txt|in)", re.IGNORECASE)),
    (
        "files",
        re.compile(
            r"(docker-)?compose([.-][\w.-]+)?\.ya?ml|environment([.-][\w-]+)?\.ya?ml|uv\.lock|poetry\.lock|pdm\.lock"
            r"|Pipfile\.lock|devcontainer\.json"
        ),
    ),
)


class Proposal(msgspec.Struct, frozen=True):
    """The files by settings key, requirements by package with the file that asks, and packages that files differ on."""

    files: dict[str, tuple[str, ...]]
    require: dict[str, tuple[str, str]]
    differing: dict[str, tuple[str, ...]]

    @property
    def any(self) -> bool:
        """Was anything found?"""
        return any(self.files.values())


def propose(root: Path, matrix: Matrix) -> Proposal:
    """Look at the repository; nothing is run, and a file that can't be read is only listed."""
    files: dict[str, list[str]] = {key: [] for key, _ in PATTERNS}
    for path in _walk(root):
        for key, pattern in PATTERNS:
            if pattern.fullmatch(path.name):
                files[key].append(path.relative_to(root).as_posix())
                break
    asked: dict[str, dict[str, str]] = {}
    known = set(matrix.packages())
    for name in [name for names in files.values() for name in sorted(names)][:MAX_READ]:
        for package, specifier in _asked(root / name, name, matrix):
            if package in known:
                asked.setdefault(package, {}).setdefault(specifier, name)
    return Proposal(
        files={key: tuple(sorted(names)) for key, names in files.items()},
        require={name: next(iter(told.items())) for name, told in sorted(asked.items()) if len(told) == 1},
        differing={name: tuple(sorted(told)) for name, told in sorted(asked.items()) if len(told) > 1},
    )


def _walk(root: Path) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(root):  # links are not followed
        here = Path(folder)
        depth = len(here.relative_to(root).parts)
        folders[:] = sorted(
            name
            for name in folders
            if depth < MAX_DEPTH
            and name not in LEFT_OUT
            and (not name.startswith(".") or name == ".devcontainer")
            and not (here / name / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            seen += 1
            if seen > MAX_FILES:
                return
            if not (here / name).is_symlink():
                yield here / name


def _asked(path: Path, name: str, matrix: Matrix) -> Iterator[tuple[str, str]]:
    from envcheck.inspection import Inspection
    from envcheck.targets import inspect_files

    try:
        snaps = inspect_files(path, Inspection(), matrix, name=name)
    except (EnvcheckError, OSError):
        return
    for snap in snaps:
        for package in snap.stack.packages.find() or ():
            specifier = _specifier(package.version if package.pinned else None, package.requirement)
            # What the matrix says of an image is no wish of the project's: only what the file itself asks counts.
            if specifier and package.source.startswith(f"{name}:"):
                yield package.name, specifier


def _specifier(version: Optional[str], requirement: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if version:
        return f"=={version.partition('+')[0]}"
    try:
        return str(Requirement(requirement).specifier)
    except InvalidRequirement:
        pass
    try:
        return str(SpecifierSet(requirement))
    except InvalidSpecifier:
        return ""


def render_settings(proposal: Proposal) -> str:
    """envcheck.toml, with the reason of every line."""
    lines = [
        "#:schema https://raw.githubusercontent.com/envcheck/envcheck/main/docs/settings.schema.json",
        "# What this project needs and where it must run; `envcheck check` judges it. All keys: docs/settings.md.",
        "",
        "# Where it must run: 'this' (the host that checks), a cloud type (`envcheck machines` lists them), or the",
        "# snapshot of a real machine (`envcheck snapshot -o machine.json`). Without any, files are judged alone.",
        "targets = []",
        "",
    ]
    for key, names in proposal.files.items():
        if names:
            lines.append(f"{key} = {_list(names)}")
    lines += [
        "",
        "# The least severity that fails: error, warning, note or never.",
        'fail-on = "error"',
        "",
        "[require]",
    ]
    for name, (specifier, source) in proposal.require.items():
        lines.append(f"{name} = {_text(specifier)}  # as {_comment(source)} has it")
    for name, specifiers in proposal.differing.items():
        lines.append(f"# {name}: your files ask for {_comment(' and '.join(specifiers))}; write what holds for all")
    lines += [
        '# driver = ">=535"  # a promise: files are judged on the lowest driver that keeps it',
        '# gpu = { names = ["A100", "H100"], count = 1, memory = "40GB" }',
        '# features = ["bf16"]',
        '# shm = "8GB"',
        "",
        "# [[ignore]]  # each with its reason and an end",
        '# rule = "DRV110"',
        '# reason = "nothing is compiled here"',
        "# until = 2027-06-30",
    ]
    return "\n".join(lines) + "\n"


def render_workflow(settings: str, version: str) -> str:
    """The workflow; `settings` is a path that the caller chose."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from envcheck.resources import find_folder

    loader = FileSystemLoader(find_folder("templates"))
    environment = Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701  YAML
    return environment.get_template("github-workflow.yml.j2").render(settings=settings, version=version)


def _text(value: str) -> str:
    """A TOML basic string: JSON's escapes are a part of TOML's, but for DEL."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")


def _list(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"[{_text(names[0])}]"
    return "[\n" + "".join(f"  {_text(name)},\n" for name in names) + "]"


def _comment(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else "?" for c in text).split())
