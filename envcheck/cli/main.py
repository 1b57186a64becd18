"""The command `envcheck`: a table of subcommands, imported only when used, and the one place that exits."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NoReturn, Optional

import click

from envcheck import __version__
from envcheck.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, EnvcheckError, nearest

# name -> (module, one line for --help); in the order in which a newcomer needs them
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("envcheck.cli.doctor", "Find out why a GPU environment doesn't work, or that it does."),
    "build": ("envcheck.cli.build", "Write a validated Dockerfile for a framework, CUDA and GPU."),
    "resolve": ("envcheck.cli.resolve", "Find versions that work together, with the install commands."),
    "check": ("envcheck.cli.check", "Judge everything that the project's settings name: the CI gate."),
    "init": ("envcheck.cli.init", "Propose settings and a CI workflow for this repository."),
    "kernels": ("envcheck.cli.kernels", "Show which GPUs a binary, package or environment has code for."),
    "libs": ("envcheck.cli.libs", "Show which CUDA libraries will load, and why."),
    "machines": ("envcheck.cli.machines", "List the machines that --on knows."),
    "matrix": ("envcheck.cli.matrix", "Look things up in the compatibility matrix, or check it."),
    "snapshot": ("envcheck.cli.snapshot", "Write what is known of this host, for somebody else to judge."),
    "explain": ("envcheck.cli.explain", "Explain a rule: what, why, how it is decided, fix, sources."),
    "rules": ("envcheck.cli.rules", "List the rules."),
    "convert": ("envcheck.cli.convert", "Turn a saved JSON report into another format."),
    "completion": ("envcheck.cli.completion", "Print the completion script of bash, zsh or fish."),
}


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when it is called, and knows its help line without."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        """The command, imported now; None if there is no such name."""
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does, with the nearest names for a mistyped one."""
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            near = nearest(name, COMMANDS)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"no command is called {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


EPILOG = """\b
Examples:
  envcheck doctor                                  what is wrong with this machine?
  envcheck doctor issue.txt                        … with the one in this paste?
  envcheck doctor nvcr.io/nvidia/pytorch:24.05-py3 --on aws:p4d.24xlarge
  envcheck build --torch 2.1 --cuda 12.1 -o .      a Dockerfile that will work
  envcheck matrix show gpu "RTX 4090"

\b
Exit codes:
  0 clean · 1 findings at or above --fail-on · 2 wrong use or settings · 3 could not inspect
  4 no combination satisfies the request · 5 build or verification failed
  70 fault of envcheck's own · 130 interrupted
"""


@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, "-V", "--version", prog_name="envcheck")
def main() -> None:
    """Will this driver, CUDA, cuDNN, framework, Python and GPU work together, and if not, what do I change?"""


def run() -> NoReturn:
    """Run the command line and exit by the table of DESIGN.md; no traceback reaches a user."""
    try:
        status = main.main(prog_name="envcheck", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        status = done.exit_code
    except click.ClickException as wrong:
        wrong.show()
        status = EXIT_USAGE
    except EnvcheckError as failure:
        _say(f"Error: {failure}", failure.what_to_do)
        status = failure.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("Interrupted.")
        status = EXIT_INTERRUPTED
    except BrokenPipeError:  # `envcheck … | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as failure:
        _say(f"Error: {failure.strerror or failure}: {failure.filename or ''}".rstrip(": "))
        status = EXIT_USAGE
    except Exception as fault:
        if os.environ.get("ENVCHECK_DEBUG"):
            raise
        _say(
            f"Error: a fault in envcheck itself, not in your machine: {type(fault).__name__}: {fault}",
            "Please report it with the output of the same command under ENVCHECK_DEBUG=1.",
        )
        status = EXIT_INTERNAL
    sys.exit(status if isinstance(status, int) else 0)


def _say(message: str, what_to_do: str = "") -> None:
    from envcheck.report.words import clean

    click.echo(clean(message), err=True)
    if what_to_do:
        click.echo(f"  {clean(what_to_do)}", err=True)
