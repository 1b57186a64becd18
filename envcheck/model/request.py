"""A request: what a person wishes of an environment, each wish parsed into a value that can do no harm in a file."""

from __future__ import annotations

import re
from typing import Literal, Optional

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from envcheck.errors import UsageError
from envcheck.model.machine import Machine
from envcheck.model.reference import find_reference

BaseKind = Literal["auto", "framework", "cuda"]
Flavour = Literal["base", "runtime", "devel"]
FLAVOURS: tuple[Flavour, ...] = ("base", "runtime", "devel")

_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}((a|b|rc)\d{1,3})?(\.post\d{1,3})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", re.ASCII)
# A requirement that names a package and, if it likes, extras and versions: no URL, marker, option or second line.
_CLAUSE = r"(?:===|==|~=|!=|<=|>=|<|>) ?[A-Za-z0-9.*+!_-]{1,64}"
_PLAIN = re.compile(
    rf"{_NAME.pattern}(?: ?\[[A-Za-z0-9._, -]{{1,200}}\])?(?: ?{_CLAUSE}(?: ?, ?{_CLAUSE}){{0,7}})?", re.ASCII
)
MAX_LINES = 2000


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The wishes. `version` may be whole ('2.1.2'), leading parts ('2.1') or '' for any; so may the others.

    `packages` are plain requirements that pip adds; `machine` is where it shall run (GPUs and driver count).
    """

    framework: str
    version: str = ""
    cuda: Optional[str] = None
    python: Optional[str] = None
    cudnn: Optional[str] = None
    base: BaseKind = "auto"
    flavour: Optional[Flavour] = None
    packages: tuple[str, ...] = ()
    machine: Machine = Machine()

    @property
    def patch_asked(self) -> bool:
        """Was a patch release of the framework asked for ('2.1.2', not '2.1')?"""
        return self.version.count(".") >= 2


def parse_version(text: str, what: str) -> str:
    """A version of numbers ('2.1', '12.4.1', '2.15.0.post1'), as written; raises UsageError for anything else."""
    plain = _VERSION.fullmatch(text)
    try:
        if plain:
            Version(text)
            return text
    except InvalidVersion:
        pass
    raise UsageError(f"{text!r} is no version of {what}", f"Say numbers and dots: --{what} 2.1 or 12.1.1.")


def parse_requirement(text: str) -> str:
    """A plain requirement in its canonical spelling; raises UsageError for URLs, markers, options and the like."""
    line = text.strip(" \t")
    if not _PLAIN.fullmatch(line):
        raise UsageError(f"{text!r} is no plain requirement", _why_not(line))
    try:
        found = Requirement(line)
    except InvalidRequirement as fault:
        raise UsageError(
            f"{text!r} is no requirement", f"{str(fault).splitlines()[0]}. Say a name and versions: numpy==1.26.4."
        ) from None
    extras = f"[{','.join(sorted(found.extras))}]" if found.extras else ""
    return f"{found.name}{extras}{found.specifier}"


def _why_not(line: str) -> str:
    if "://" in line or "@" in line:
        return "Packages from a URL aren't taken: they bypass the index and its checks. Say a name and version."
    if line.startswith("-"):
        return "Options of pip aren't taken: they could change the index for every package. Say a name and version."
    return "Say a name, extras and versions: numpy==1.26.4 or 'transformers[torch]>=4.40,<5'."


def parse_requirements(text: str, name: str) -> tuple[str, ...]:
    """The requirements of a file, comments dropped; raises UsageError that names every bad line at once."""
    found: list[str] = []
    bad: list[str] = []
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise UsageError(f"{name} has more than {MAX_LINES} lines", "Name the packages that the image needs.")
    for number, raw in enumerate(lines, 1):
        line = re.sub(r"(^|[ \t])#.*$", "", raw).strip(" \t")
        if not line:
            continue
        try:
            found.append(parse_requirement(line))
        except UsageError as fault:
            bad.append(f"{name}:{number}: {fault}. {fault.what_to_do}")
    if bad:
        raise UsageError("not all lines are plain requirements:\n  " + "\n  ".join(bad[:20]), "Mend or drop them.")
    return tuple(found)


def parse_tag(text: str) -> str:
    """An image name for `docker build -t`; raises UsageError."""
    reference = find_reference(text)
    if reference is None or reference.digest:
        raise UsageError(f"{text!r} is no image name", "Say name:tag in lower case: --tag myimage:1.")
    return text
