"""Holds the rows of torch against the metadata of its newest wheels: `python -m envcheck.matrix.refresh.torch_wheels`.

Compared for every release, on linux x86_64: the Pythons that have a wheel, requires-python, triton, the CUDA packages
that the wheel requires itself (pins with via 'direct'), and the CUDA build in torch/version.py. Disagreements are
printed and give exit code 1; with --write, the rows that agree get the wheel's name and today's date as their witness.
"""

from __future__ import annotations

import argparse
import datetime as dt
import email.parser
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Optional

import msgspec
import tomlkit
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pypi_simple import DistributionPackage, PyPISimple

from envcheck.matrix import load
from envcheck.matrix.matrix import Matrix
from envcheck.matrix.refresh.wheels import open_index, read_members
from envcheck.matrix.rows import Build, WheelPin
from envcheck.resources import find_folder

PACKAGE = "torch"
OURS = re.compile(r"(nvidia|cuda|triton)(-.*)?")
MACHINE = "x86_64"


class Wheel(msgspec.Struct, frozen=True):
    """What one wheel says of itself."""

    filename: str
    version: str
    requires_python: str
    requirements: dict[str, str]  # CUDA packages and triton: name -> extras and specifier
    variant: Optional[str]  # 'cu128' by torch/version.py; None where it doesn't tell
    pythons: tuple[str, ...] = ()  # that have a wheel of this release, lowest first: '3.9', '3.13t'


def newest_releases(packages: Iterable[DistributionPackage], count: int) -> list[dict[str, DistributionPackage]]:
    """The linux x86_64 wheels of the `count` newest releases, newest release first, by Python ('3.9', '3.13t')."""
    found: dict[Version, dict[str, DistributionPackage]] = {}
    for package in packages:
        match = re.search(r"-cp3(\d+)-cp3\d+(m|t)?-[^-]*linux[^-]*x86_64\.whl$", package.filename)
        if match and package.version is not None and not package.is_yanked:
            version = Version(package.version)
            if not version.is_prerelease:
                python = f"3.{match.group(1)}" + ("t" if match.group(2) == "t" else "")
                found.setdefault(version, {})[python] = package
    return [dict(sorted(found[v].items(), key=_python_order)) for v in sorted(found, reverse=True)[:count]]


def _python_order(item: tuple[str, DistributionPackage]) -> tuple[bool, Version]:
    return item[0].endswith("t"), Version(item[0].rstrip("t"))


def read_wheel(client: PyPISimple, release: dict[str, DistributionPackage]) -> Wheel:
    """METADATA and version.py of one wheel of a release, by ranged requests: that of the newest plain Python."""
    package = [wheel for python, wheel in release.items() if not python.endswith("t")][-1]
    texts = read_members(client, package, ".dist-info/METADATA", "torch/version.py")
    wheel = parse_wheel(package.filename, texts[".dist-info/METADATA"], texts.get("torch/version.py", ""))
    return msgspec.structs.replace(wheel, pythons=tuple(release))


def parse_wheel(filename: str, metadata: str, version_py: str) -> Wheel:
    """The facts in a wheel's METADATA and version.py."""
    message = email.parser.HeaderParser().parsestr(metadata)
    wanted: dict[str, str] = {}
    for line in message.get_all("Requires-Dist", []):
        requirement = Requirement(line)
        if OURS.fullmatch(requirement.name) and "extra ==" not in str(requirement.marker or ""):
            wanted[requirement.name] = asked(requirement)
    cuda = re.search(r"cuda\s*(?::[^=\n]*)?=\s*'([\d.]+)'", version_py)
    return Wheel(
        filename=filename,
        version=str(message["Version"]).partition("+")[0],
        requires_python=str(message["Requires-Python"] or ""),
        requirements=wanted,
        variant="cu" + cuda.group(1).replace(".", "") if cuda else None,
    )


def asked(requirement: Requirement) -> str:
    """Extras and specifier in one spelling: '[cublas,cudart]==13.0.2'."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return extras + str(requirement.specifier)


def disagreements(wheel: Wheel, build: Optional[Build], pins: Sequence[WheelPin]) -> list[str]:
    """Every point in which the rows of a release differ from its wheel."""
    if build is None:
        return ["no row for the default build on linux x86_64"]
    found: list[str] = []
    if build.requires_python and SpecifierSet(build.requires_python) != SpecifierSet(wheel.requires_python):
        found.append(f"requires-python: row {build.requires_python}, wheel {wheel.requires_python}")
    if wheel.variant and build.variant != wheel.variant:
        found.append(f"default build: row {build.variant}, wheel {wheel.variant}")
    plain = [python for python in wheel.pythons if not python.endswith("t")]
    free = " ".join(python for python in wheel.pythons if python.endswith("t")) or None
    if plain and (build.python_min, build.python_max) != (plain[0], plain[-1]):
        found.append(f"Python: row {build.python_min}-{build.python_max}, wheels {plain[0]}-{plain[-1]}")
    if plain and build.free_threaded != free:
        found.append(f"free-threaded Python: row {build.free_threaded}, wheels {free}")
    triton = wheel.requirements.get("triton", "").replace("==", "") or None
    if build.triton != triton:
        found.append(f"triton: row {build.triton}, wheel {triton}")
    told = {pin.package: asked(Requirement(pin.package + pin.requirement)) for pin in pins if pin.via == "direct"}
    found += [
        f"{name}: row {told.get(name)}, wheel {wheel.requirements.get(name)}"
        for name in sorted({*told, *wheel.requirements})
        if told.get(name) != wheel.requirements.get(name)
    ]
    return found


def check(matrix: Matrix, wheels: Iterable[Wheel]) -> dict[str, list[str]]:
    """Disagreements by release; a release whose rows agree has an empty list."""
    return {
        wheel.version: disagreements(
            wheel, matrix.build(PACKAGE, wheel.version), matrix.pins_of(PACKAGE, wheel.version, MACHINE)
        )
        for wheel in wheels
    }


def record(text: str, witnesses: dict[tuple[str, str], str]) -> str:
    """builds/torch.toml with `witness` set in the rows of the (version, variant) pairs; all else stays as it is."""
    document = tomlkit.parse(text)
    for row in document["build"]:
        told = witnesses.get((str(row["version"]), str(row.get("variant", ""))))
        if told:
            row["witness"] = told
    return tomlkit.dumps(document)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Check, print, and with --write record; 1 where a row and its wheel disagree."""
    parser = argparse.ArgumentParser(description="Hold the matrix's torch rows against the wheels on the index.")
    parser.add_argument("--count", type=int, default=30, help="how many of the newest releases (default 30)")
    parser.add_argument("--write", action="store_true", help="record the witness in the rows that agree")
    options = parser.parse_args(arguments)
    matrix = load()
    with open_index() as client:
        releases = newest_releases(client.get_project_page(PACKAGE).packages, options.count)
        wheels = [read_wheel(client, release) for release in releases]
    faults = check(matrix, wheels)
    for version, problems in faults.items():
        sys.stdout.write(f"{PACKAGE} {version}: " + ("; ".join(problems) or "agrees") + "\n")
    if options.write:
        today = dt.datetime.now(tz=dt.timezone.utc).date().isoformat()
        witnesses = {}
        for wheel in wheels:
            build = matrix.build(PACKAGE, wheel.version)
            if build is not None and not faults[wheel.version]:
                witnesses[wheel.version, build.variant] = (
                    f"{wheel.filename} METADATA, version.py and file tags, {today}"
                )
        path = find_folder("matrices") / "builds" / f"{PACKAGE}.toml"
        path.write_text(record(path.read_text(encoding="utf-8"), witnesses), encoding="utf-8")
        sys.stdout.write(f"recorded {len(witnesses)} witnesses in {path.name}\n")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
