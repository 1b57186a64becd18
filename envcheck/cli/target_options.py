"""Options that say which machine to judge for, and how images are read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Optional, TypeVar

import click

from envcheck.errors import UsageError

if TYPE_CHECKING:
    from envcheck.inspection import Inspection

F = TypeVar("F", bound=Callable[..., Any])
Tick = Callable[[int, int], None]


def machine_options(command: F) -> F:
    """--on, --gpu, --gpus, --driver, --arch, --driver-range."""
    for option in reversed(
        [
            click.option("--on", metavar="MACHINE", default="", help="Judge for this machine instead: 'this', a saved "
                         "snapshot, or a cloud type such as aws:p4d.24xlarge (see envcheck machines)."),
            click.option("--gpu", metavar="NAME", default="", help="… with this GPU: 'H100 80GB'."),
            click.option("--gpus", type=click.IntRange(1, 4096), metavar="N", help="… with so many of them."),
            click.option("--driver", metavar="VERSION", default="", help="… with this driver, or branch: 535."),
            click.option("--arch", type=click.Choice(["amd64", "arm64"]), default=None, help="… with this CPU."),
            click.option("--driver-range", is_flag=True, help="Say from which driver on it works."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def image_options(command: F) -> F:
    """--layers, --registry-mirror, --insecure, --online, --build-arg, --target."""
    for option in reversed(
        [
            click.option("--layers", is_flag=True, help="Read packages out of the image's layers (streams them all)."),
            click.option("--registry-mirror", "mirrors", multiple=True, metavar="[REGISTRY=]URL",
                         help="Ask this mirror first; without REGISTRY it is Docker Hub's."),
            click.option("--insecure", is_flag=True, help="Plain http, for a registry on this machine."),
            click.option("--force-insecure", is_flag=True, hidden=True),
            click.option("--online", is_flag=True, help="Ask the registry for the base image that a file names."),
            click.option("--build-arg", "build_args", multiple=True, metavar="NAME=VALUE",
                         help="Build argument of a Dockerfile, variable of a compose file."),
            click.option("--stage", default="", metavar="NAME", help="The stage of a Dockerfile to judge."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def inspection(python: Optional[str], deadline: float, tick: Optional[Tick], options: dict[str, Any]) -> Inspection:
    """The options as one value. Raises UsageError."""
    from envcheck.inspection import Description, ImageOptions, Inspection

    args: dict[str, str] = {}
    for text in options.get("build_args") or ():
        name, equals, value = str(text).partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{text!r} is no build argument", "Say --build-arg NAME=VALUE.")
        args[name] = value
    return Inspection(
        python=python,
        deadline=deadline,
        machine=Description(
            on=options.get("on") or "",
            gpu=options.get("gpu") or "",
            gpus=options.get("gpus"),
            driver=options.get("driver") or "",
            arch=options.get("arch") or "",
        ),
        image=ImageOptions(
            arch={"amd64": "x86_64", "arm64": "aarch64"}.get(options.get("arch") or "", "x86_64"),
            deadline=deadline,
            layers=bool(options.get("layers")),
            mirrors=tuple(options.get("mirrors") or ()),
            insecure=bool(options.get("insecure")),
            force_insecure=bool(options.get("force_insecure")),
            progress=tick,
        ),
        args=args,
        stage=options.get("stage") or "",
        online=bool(options.get("online")),
    )


@contextlib.contextmanager
def progress(wanted: bool) -> Iterator[Optional[Tick]]:
    """A progress bar on a terminal's standard error; None where nobody watches."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("reading layers"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("layers", total=None)

        def tick(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield tick
