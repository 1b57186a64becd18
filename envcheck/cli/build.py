"""`envcheck build`: a validated Dockerfile for a framework, CUDA and GPU, and the image if asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from envcheck.cli.options import write_file

if TYPE_CHECKING:
    from envcheck.model.plan import Plan
    from envcheck.model.request import BaseKind, Flavour
    from envcheck.rules.engine import Outcome

EPILOG = """\b
Examples:
  envcheck build --torch 2.1 --cuda 12.1 > Dockerfile
  envcheck build --torch 2.1.2 --cuda 12.1 --on aws:p4d.24xlarge -o .
  envcheck build --tensorflow 2.16 --with 'pandas>=2,<3' -o docker/
  envcheck build --torch 2.7 --gpu "RTX 5090" --driver 570 -o . --build --verify

\b
The Dockerfile goes to standard output and the summary to standard error. With -o DIR the packages are in files beside
it, and envcheck.lock records every choice with its source. Exit 4: no combination · 5: build or verification failed.
"""


@click.command(epilog=EPILOG)
@click.option(
    "--torch", metavar="VERSION", help="PyTorch: 2.1 (any patch release, NVIDIA's image where one fits) or 2.1.2."
)
@click.option("--tensorflow", metavar="VERSION", help="TensorFlow.")
@click.option("--jax", metavar="VERSION", help="JAX.")
@click.option("--cuda", metavar="VERSION", help="CUDA of the build: 12.1.")
@click.option("--python", metavar="VERSION", help="Python: 3.11.")
@click.option("--cudnn", metavar="VERSION", help="cuDNN: 8 or 8.9.")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME|sm_NN", help="A GPU that it must run on; repeatable.")
@click.option("--driver", metavar="VERSION", help="The host's driver, or its branch.")
@click.option("--on", metavar="MACHINE", help="A machine: 'aws:p4d.24xlarge', a snapshot file, or 'this'.")
@click.option("--base", type=click.Choice(["auto", "framework", "cuda"]), default="auto", show_default=True)
@click.option("--flavour", type=click.Choice(["base", "runtime", "devel"]), help="Of the cuda base; else the smallest.")
@click.option("--with", "packages", multiple=True, metavar="PKG", help="Another package: 'pandas>=2'; repeatable.")
@click.option("--requirements", type=click.Path(path_type=Path), help="More packages, plain requirement lines.")
@click.option("-o", "--output", metavar="DIR|-", default="-", help="Folder for the Dockerfile and the files beside it.")
@click.option("--force", is_flag=True, help="Replace files that are there and differ.")
@click.option("--pin", is_flag=True, help="Pin the base image by the digest that its registry gives now (asks it).")
@click.option("--registry-mirror", "mirrors", multiple=True, metavar="[REGISTRY=]URL", help="Ask this in its place.")
@click.option("--build", "build_it", is_flag=True, help="Build the image with the local engine.")
@click.option("--tag", metavar="NAME", help="The built image's name.")
@click.option("--verify", is_flag=True, help="Build, then check the image from inside: versions, CUDA, GPU if there.")
@click.option("--network", metavar="NAME", help="Network of the build, as docker build has it.")
def command(
    torch: Optional[str],
    tensorflow: Optional[str],
    jax: Optional[str],
    cuda: Optional[str],
    python: Optional[str],
    cudnn: Optional[str],
    gpus: tuple[str, ...],
    driver: Optional[str],
    on: Optional[str],
    base: BaseKind,
    flavour: Optional[Flavour],
    packages: tuple[str, ...],
    requirements: Optional[Path],
    output: str,
    force: bool,
    pin: bool,
    mirrors: tuple[str, ...],
    build_it: bool,
    tag: Optional[str],
    verify: bool,
    network: Optional[str],
) -> None:
    """Choose versions that work together on the target, judge the plan by the rules, and write its Dockerfile."""
    from envcheck import matrix as matrices
    from envcheck.cli.plan_text import conflict_text, rows_text, summary_rows
    from envcheck.cli.wishes import read_request
    from envcheck.dockerfile.generate import generate_dockerfile, generate_files
    from envcheck.model.request import parse_tag
    from envcheck.resolve.explain import Conflict
    from envcheck.resolve.resolver import judge_plan, resolve

    if tag is not None:
        parse_tag(tag)
    matrix = matrices.load()
    request = read_request(
        [("torch", torch), ("tensorflow", tensorflow), ("jax", jax)],
        matrix,
        cuda=cuda,
        python=python,
        cudnn=cudnn,
        gpus=gpus,
        driver=driver,
        on=on,
        base=base,
        flavour=flavour,
        packages=packages,
        requirements=requirements,
    )
    try:
        plan = resolve(request, matrix)
    except Conflict as conflict:
        click.echo(conflict_text(conflict), err=True, nl=False)
        sys.exit(conflict.exit_code)
    outcome: Outcome = judge_plan(plan, matrix)
    if pin:
        from envcheck.cli.pinning import pin_base
        from envcheck.clients.registry.client import Options

        plan = pin_base(plan, Options(mirrors=mirrors))
    rows = summary_rows(plan, outcome)
    if output == "-":
        texts = {"Dockerfile": generate_dockerfile(plan)}
        click.echo(texts["Dockerfile"], nl=False)
    else:
        texts = {file.name: file.content for file in generate_files(plan)}
        rows.append(("wrote", _write(Path(output), texts, force)))
    name = tag or default_tag(plan)
    if not (build_it or verify):
        rows.append(("next", _next(output, name)))
    click.echo(rows_text(rows), err=True, nl=False)
    if build_it or verify:
        _build(plan, texts, name, verify, network)


def default_tag(plan: Plan) -> str:
    """'envcheck/torch:2.1.2-cu121'."""
    from envcheck import versions

    release = plan.version if plan.kind == "cuda" else versions.minor(plan.version)
    return f"envcheck/{plan.framework}:{release}-{versions.tag_from_cuda(plan.cuda or '0.0')}"


def _next(output: str, name: str) -> str:
    built = f"docker build -t {name}"
    where = f"{built} - < Dockerfile" if output == "-" else f"{built} {_quoted(output)}"
    return f"{where} && docker run --rm --gpus all --ipc=host {name}"


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _write(folder: Path, texts: dict[str, str], force: bool) -> str:
    """Write the files, each whole or not at all; refuse all if one is there with another content."""
    from envcheck.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise UsageError(f"can't make {folder}: {failure.strerror}", "Name a folder, or '-'.") from failure
    changed = []
    different = []
    for name, text in texts.items():
        path = folder / name
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"{path} is no plain file", "Move it away: it won't be written through.")
        have = path.read_bytes() if path.exists() else None
        if have != text.encode():
            changed.append(name)
            different += [str(path)] if have is not None else []
    if different and not force:
        raise UsageError(f"{', '.join(different)} is there and differs", "Say --force to replace, or another -o DIR.")
    for name in changed:
        write_file(folder / name, texts[name])
    same = [name for name in texts if name not in changed]
    return ", ".join([*changed, *(f"{name} (unchanged)" for name in same)])


def _build(plan: Plan, texts: dict[str, str], name: str, verify: bool, network: Optional[str]) -> None:
    from envcheck.cli.plan_text import rows_text
    from envcheck.clients.docker_engine import build_image
    from envcheck.dockerfile.generate import LOCK
    from envcheck.report.words import clean

    context = {file: text for file, text in texts.items() if file != LOCK}
    build_image(context, name, network=network, progress=lambda line: click.echo(f"  │ {clean(line)}", err=True))
    click.echo(rows_text([("built", name)]), err=True, nl=False)
    if verify:
        verify_image(plan, name, network)


def verify_image(plan: Plan, name: str, network: Optional[str]) -> None:
    """Ask the built image what it is; raises BuildError where that isn't the plan."""
    from envcheck.cli.plan_text import rows_text
    from envcheck.clients.docker_engine import has_gpus, run_program
    from envcheck.dockerfile.verify import compare, program, read_answer
    from envcheck.errors import BuildError

    gpus = has_gpus()
    status, output = run_program(name, program(plan), gpus=gpus, network=network)
    answer = read_answer(output)
    if answer is None:
        last = output.strip().splitlines()[-1:] or ["no output"]
        raise BuildError(
            f"{name} gave no answer (exit {status}): {last[0]}", f"Look inside: docker run -it {name} bash"
        )
    wrong = compare(plan, answer, gpus)
    if wrong:
        raise BuildError(
            f"{name} is not what was planned:\n  " + "\n  ".join(wrong), f"Look inside: docker run -it --rm {name} bash"
        )
    told = f"Python {answer.python}, {plan.framework} {answer.imported}"
    told += f", CUDA {answer.cuda}" if answer.cuda else ""
    seen = (
        f"; computed on {', '.join(n for n, _ in answer.gpus)}"
        if answer.gpus
        else "; no GPU here, so nothing was computed"
    )
    click.echo(rows_text([("verified", told + seen)]), err=True, nl=False)
