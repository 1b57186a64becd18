"""`envcheck completion`: the shell's own completion script."""

from __future__ import annotations

import click

WHERE = {
    "bash": "  echo 'eval \"$(envcheck completion bash)\"' >> ~/.bashrc",
    "zsh": "  echo 'eval \"$(envcheck completion zsh)\"' >> ~/.zshrc",
    "fish": "  envcheck completion fish > ~/.config/fish/completions/envcheck.fish",
}
EPILOG = "\b\nExamples:\n" + "\n".join(WHERE.values())


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(sorted(WHERE)))
def command(shell: str) -> None:
    """Print the completion script of SHELL: commands, options and their values."""
    from click.shell_completion import get_completion_class

    from envcheck.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(main, {}, "envcheck", "_ENVCHECK_COMPLETE")
    click.echo(_source(made))


def _source(made: object) -> str:
    """Click's script, without asking which bash is here: it may be for another machine."""
    return str(made.source_template % made.source_vars())  # type: ignore[attr-defined]
