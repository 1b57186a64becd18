"""A Dockerfile to a snapshot: what its final stage starts from, installs and sets."""

from __future__ import annotations

import re
from typing import Optional

import msgspec

from envcheck.model.fact import Fact, known, not_told
from envcheck.model.recipe import Base, Recipe, Step
from envcheck.model.snapshot import Origin, Snapshot, Wants
from envcheck.model.stack import Image, Package, Stack
from envcheck.readers.dockerfile_grammar import DockerfileError, Instruction, assignments, expand, parse
from envcheck.readers.installs import merge_packages, packages_of
from envcheck.readers.named_files import OpenFile, read_named
from envcheck.readers.shell_steps import compiles, read_steps

PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64", "x86_64": "x86_64", "aarch64": "aarch64"}
# What BuildKit predefines; on the machine that builds they are that machine's own.
PREDEFINED = {"TARGETOS": "linux"}


class Stage(msgspec.Struct):
    """One stage while it is read: `env` and `args` are what its RUN lines see."""

    base: Base
    name: str = ""
    parent: Optional[int] = None
    env: dict[str, str] = {}
    env_sources: dict[str, str] = {}
    args: dict[str, str] = {}
    steps: list[Step] = []
    compiles: str = ""
    copies: list[tuple[str, str]] = []  # (stage, source) of COPY --from
    sources: list[str] = []  # of COPY and ADD from the build context


def recognises(text: str, name: str) -> bool:
    """By name (Dockerfile, Containerfile, x.Dockerfile …), or by a FROM that comes first."""
    if re.search(r"(?:^|/)(?:Docker|Container)file(?:\.[\w.-]+)?$|\.(?:docker|container)file$", name, re.IGNORECASE):
        return True
    lines = (line.strip() for line in text[:20000].splitlines())
    first = next(
        (line for line in lines if line and not line.startswith("#") and not line.upper().startswith("ARG ")), ""
    )
    return re.match(r"FROM\s+(--platform=\S+\s+)?[\w./:@${}-]+(\s+AS\s+\S+)?$", first, re.IGNORECASE) is not None


def read_dockerfile(
    text: str,
    *,
    name: str,
    args: Optional[dict[str, str]] = None,
    target: str = "",
    python: str = "",
    open_file: Optional[OpenFile] = None,
) -> Snapshot:
    """The snapshot of the final stage (or of stage `target`); `open_file` reads the requirement files that it names.

    Raises DockerfileError.
    """
    stages = read_stages(parse(text), name, args or {})
    if not stages:
        raise DockerfileError("no FROM")
    index = next((i for i, stage in enumerate(stages) if target and stage.name == target.lower()), len(stages) - 1)
    chain = _chain(stages, index)
    final = chain[-1]
    steps = tuple(step for stage in chain for step in stage.steps)
    env: dict[str, str] = {}
    for stage in chain:
        env.update(stage.env)
    base = chain[0].base
    sources = [source for stage in chain for source in stage.sources]
    named = [read_named(step, name, python, open_file, sources) for step in steps]
    packages = merge_packages(
        [p for step, lists in zip(steps, named) for p in (*packages_of(step, python), *lists.packages)]
    )
    copied = _copied_environments(stages, final, python)
    packages = merge_packages([*copied, *packages])
    compiled = next((stage.compiles for stage in reversed(chain) if stage.compiles), "")
    remarks = [remark for lists in named for remark in lists.remarks]
    if not base.reference:
        remarks.append(f"{base.source}: FROM {base.written} hangs on an argument without a default (--build-arg)")
    return Snapshot(
        origin=Origin("dockerfile", name, ("dockerfile",)),
        stack=Stack(
            packages=known(packages, name) if packages else not_told("installed packages"),
            complete=known(False, name),
            env=known(env, name) if env else not_told("environment variables"),
            image=known(Image(reference=base.reference), base.source) if base.reference else not_told("base image"),
            arch=_arch(base),
        ),
        wants=Wants(compile=True if compiled else None, source=compiled),
        remarks=tuple(remarks),
        recipe=Recipe(
            files=tuple(dict.fromkeys([name, *(f for lists in named for f in lists.files)])),
            base=base,
            steps=steps,
            compiles=compiled,
        ),
    )


def read_stages(instructions: list[Instruction], name: str, given: dict[str, str]) -> list[Stage]:
    """All stages, with what each installs; ARG values by default or as given."""
    stages: list[Stage] = []
    outer: dict[str, str] = {}
    for instruction in instructions:
        source = f"{name}:{instruction.line}"
        if instruction.name == "FROM":
            stages.append(_from(instruction, stages, {**PREDEFINED, **outer}, source))
        elif not stages:
            if instruction.name == "ARG":
                outer.update(_args(instruction, outer, given))
            elif instruction.name != "ONBUILD":
                raise DockerfileError(f"line {instruction.line}: {instruction.name} comes before FROM")
        else:
            _apply(instruction, stages[-1], stages, outer, given, source)
    return stages


def _from(instruction: Instruction, stages: list[Stage], env: dict[str, str], source: str) -> Stage:
    words = instruction.text.split()
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].lower() != "as"):
        raise DockerfileError(f"line {instruction.line}: FROM takes an image and, maybe, AS and a name")
    reference = expand(words[0], env) or ""
    platform = next((flag.partition("=")[2] for flag in instruction.flags if flag.startswith("--platform=")), "")
    alias = words[2].lower() if len(words) == 3 else ""
    parent = next((i for i, stage in enumerate(stages) if stage.name and stage.name == reference.lower()), None)
    base = Base(reference, words[0], expand(platform, env) or "", source)
    return Stage(base, alias, parent)


def _args(instruction: Instruction, env: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in instruction.text.split() if '"' not in instruction.text else [instruction.text]:
        key, equals, raw = word.partition("=")
        value = given.get(key) if key in given else (expand(raw, {**env, **found}) if equals else None)
        if value is not None:
            found[key] = value
        elif key in env and not equals:
            found[key] = env[key]
    return found


def _apply(
    instruction: Instruction,
    stage: Stage,
    stages: list[Stage],
    outer: dict[str, str],
    given: dict[str, str],
    source: str,
) -> None:
    if instruction.name == "ONBUILD":
        return
    scope = {**PREDEFINED, **_inherited(stage, stages), **stage.args, **stage.env}
    if instruction.name == "ARG":
        stage.args.update(_args(instruction, {**outer, **scope}, given))
    elif instruction.name == "ENV":
        for key, raw in assignments(instruction):
            value = expand(raw, scope)
            if value is None:  # a variable of the base image, as in PATH=/x:$PATH: keep what is certain
                value = re.sub(r"\$\{?\w+\}?", "", raw).strip("\"'")
            stage.env[key] = value
            stage.env_sources[key] = source
    elif instruction.name in ("COPY", "ADD"):
        origin = next((flag.partition("=")[2] for flag in instruction.flags if flag.startswith("--from=")), "")
        if origin:
            stage.copies.append((origin.lower(), instruction.text))
        else:
            words = list(instruction.words or instruction.text.split())
            stage.sources += [word.lstrip("./") for word in words[:-1]]
    elif instruction.name == "RUN":
        for script in _scripts(instruction):
            stage.steps += [_placed(step, instruction, source) for step in read_steps(script, source, scope)]
            if not stage.compiles and compiles(script):
                stage.compiles = source


def _placed(step: Step, instruction: Instruction, source: str) -> Step:
    """The step with the physical line of each of its names, for a RUN that goes over several lines."""
    name = source.rpartition(":")[0]
    lines = [instruction.line_of(word) for word in step.names]
    sources = tuple(f"{name}:{line}" for line in lines)
    first = f"{name}:{min(lines)}" if lines else source
    return msgspec.structs.replace(step, source=first, sources=sources if len(set(sources)) > 1 else ())


def _scripts(instruction: Instruction) -> list[str]:
    """The shell text of a RUN; the JSON form has no shell, and is one command."""
    if instruction.heredocs:
        return list(instruction.heredocs)
    if instruction.words is not None:
        import shlex

        words = instruction.words
        if len(words) > 2 and words[0].rpartition("/")[2] in ("sh", "bash") and words[1].startswith("-"):
            return [words[2]]
        return [" ".join(shlex.quote(word) for word in words)]
    return [instruction.text]


def _inherited(stage: Stage, stages: list[Stage]) -> dict[str, str]:
    env: dict[str, str] = {}
    seen = 0
    while stage.parent is not None and seen < 100:
        stage = stages[stage.parent]
        env = {**stage.env, **env}
        seen += 1
    return env


def _chain(stages: list[Stage], index: int) -> list[Stage]:
    """From the stage that starts from an image to the final one."""
    chain = [stages[index]]
    while (parent := chain[0].parent) is not None:
        chain.insert(0, stages[parent])
    return chain


def _copied_environments(stages: list[Stage], final: Stage, python: str) -> list[Package]:
    """What other stages installed, where the final one copies their environment (site-packages, a venv, /opt …)."""
    found: list[Package] = []
    for origin, text in final.copies:
        if not re.search(r"site-packages|dist-packages|venv|/opt\b|/usr/local\b|conda|\.local\b", text):
            continue
        index = int(origin) if origin.isdigit() and int(origin) < len(stages) else None
        index = next((i for i, stage in enumerate(stages) if stage.name == origin), index)
        if index is None:
            continue
        for stage in _chain(stages, index):
            found += [package for step in stage.steps for package in packages_of(step, python)]
    return found


def _arch(base: Base) -> Fact[str]:
    arch = PLATFORMS.get(base.platform.rpartition("/")[2]) if base.platform.count("/") == 1 else None
    return known(arch, base.source) if arch else not_told("architecture of the stack")
