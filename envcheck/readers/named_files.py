"""The requirement and environment files that install steps of a Dockerfile name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import msgspec

from envcheck import versions
from envcheck.model.recipe import Step
from envcheck.model.stack import Package
from envcheck.readers.conda_env import read_conda
from envcheck.readers.requirement_text import variant_of
from envcheck.readers.requirements import logical_lines, read_lines
from envcheck.readers.yaml_lines import YamlError

OpenFile = Callable[[str], Optional[str]]


class NamedFiles(msgspec.Struct, frozen=True):
    """What the files that a step names say."""

    packages: tuple[Package, ...] = ()
    files: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def read_named(
    step: Step, name: str, python: str, open_file: Optional[OpenFile], copied: Sequence[str] = ()
) -> NamedFiles:
    """The requirement and environment files of `pip install -r`, `conda env create -f`: read from the build context,
    by their path or, where they were copied to another folder, by the `copied` source of that name.
    """
    packages: list[Package] = []
    files: list[str] = []
    remarks: list[str] = []
    folder = f"{name.rpartition('/')[0]}/" if "/" in name else ""
    for file in step.files:
        last = file.rpartition("/")[2]
        sources = [source for source in copied if source.rpartition("/")[2] == last]
        choices = dict.fromkeys([file.lstrip("./"), *sources, last]) if "$" not in file else {}
        text, found = next(
            ((content, choice) for choice in choices if open_file and (content := open_file(choice)) is not None),
            (None, ""),
        )
        if text is None:
            remarks.append(f"{step.source}: {file} was not read")
            continue
        place = f"{folder}{found}"
        files.append(place)
        if step.manager == "conda":
            try:
                packages += read_conda(text, name=place, python=python).stack.packages.find() or ()
            except YamlError as fault:
                remarks.append(f"{place}: {fault}")
            continue
        lines = read_lines(logical_lines(text), place, python, open_file=open_file)
        packages += [_by_step(package, step) for package in lines.packages]
        remarks += lines.remarks
    return NamedFiles(tuple(packages), tuple(files), tuple(remarks))


def _by_step(package: Package, step: Step) -> Package:
    """A package of a requirements file with the index that the command line gives, where the file names none."""
    urls = [url for url in (step.index_url, *step.extra_index_urls, *step.find_links) if url and variant_of(url)]
    if package.variant or not urls:
        return package
    variant = variant_of(urls[0])
    cuda = versions.cuda_from_tag(variant) if variant else None
    return msgspec.structs.replace(package, variant=variant, cuda=cuda, channel=urls[0])
