"""Install steps to packages: which variant an index gives, and which of several installs wins."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.model.recipe import Step
from envcheck.model.stack import Package
from envcheck.readers.requirement_text import Origin, read_requirement, variant_of


def packages_of(step: Step, python: str = "") -> list[Package]:
    """The packages that a pip-like or conda step names; variants by its indexes."""
    if step.manager == "conda":
        from envcheck.readers.conda_env import read_match_spec

        channel = step.channels[0] if step.channels else ""
        specs = (read_match_spec(name, channel, step.where(i)) for i, name in enumerate(step.names))
        return [package for package in specs if package is not None]
    if step.manager in ("apt", "dnf", "apk", "runfile"):
        return []
    urls = (step.index_url, *step.extra_index_urls, *step.find_links)
    variants = [variant for variant in map(variant_of, filter(None, urls)) if variant]
    index = next((url for url in urls if url and variant_of(url)), step.index_url)
    variant = variants[0] if variants else None
    found = (
        read_requirement(name, Origin(step.manager, index, variant, python, step.where(i)))
        for i, name in enumerate(step.names)
    )
    return [package for package in found if package is not None]


def merge_packages(packages: Sequence[Package]) -> tuple[Package, ...]:
    """By name, a later install replacing an earlier one; order by name."""
    by_name: dict[str, Package] = {}
    for package in packages:
        earlier = by_name.get(package.name)
        # 'pip install torch' after a pinned install leaves what is there, unless the range excludes it; so does a pin
        # to the same release that names no build: 2.5.1+cu126 satisfies ==2.5.1
        if (
            earlier is not None
            and earlier.version
            and (_satisfied(package, earlier) if package.version is None else _same_release(package, earlier))
        ):
            continue
        by_name[package.name] = package
    return tuple(by_name[name] for name in sorted(by_name))


def _same_release(wanted: Package, have: Package) -> bool:
    told = (have.version or "").partition("+")[0]
    return not wanted.variant and not wanted.channel and wanted.version == told


def _satisfied(wanted: Package, have: Package) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(wanted.requirement or wanted.name).specifier.contains(have.version or "", prereleases=True)
    except InvalidRequirement:
        return False
