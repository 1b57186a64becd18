"""Every failure that a user can meet, each with its exit code and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INSPECT = 3
EXIT_UNSATISFIABLE = 4
EXIT_BUILD = 5
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


class EnvcheckError(Exception):
    """A failure with a message for the user; `what_to_do` is printed under it. Only cli/ turns it into an exit."""

    exit_code = EXIT_INTERNAL

    def __init__(self, message: str, what_to_do: str = "") -> None:
        super().__init__(message)
        self.what_to_do = what_to_do


class UsageError(EnvcheckError):
    """The request or the settings are wrong."""

    exit_code = EXIT_USAGE


class UnknownName(UsageError):
    """A name that the matrix doesn't have; says which ones are near."""

    def __init__(self, kind: str, name: str, known: Iterable[str], see: str = "") -> None:
        near = nearest(name, known)
        hint = f"Near: {', '.join(repr(n) for n in near)}." if near else ""
        super().__init__(f"no {kind} is called {name!r}", " ".join(filter(None, (hint, see and f"All: {see}"))))
        self.near = near


class MatrixError(EnvcheckError):
    """The compatibility matrix is broken: every bad row at once, as 'file: row, key: what'."""

    exit_code = EXIT_USAGE

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("the matrix is broken:\n  " + "\n  ".join(self.problems), "Mend the rows named above.")


class InspectError(EnvcheckError):
    """The target could not be inspected."""

    exit_code = EXIT_INSPECT


class Unsatisfiable(EnvcheckError):
    """No combination satisfies the request."""

    exit_code = EXIT_UNSATISFIABLE


class BuildError(EnvcheckError):
    """An image build or its verification failed."""

    exit_code = EXIT_BUILD


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` known names that look like `name`, best first; case doesn't count."""
    import difflib  # most runs misspell nothing

    by_lower: dict[str, str] = {}
    for candidate in known:
        by_lower.setdefault(candidate.lower(), candidate)
    wanted = name.lower()
    inside = sorted((c for c in by_lower if wanted and wanted in c), key=lambda c: (len(c), c))
    close = difflib.get_close_matches(wanted, by_lower, n=count * 2, cutoff=0.6)
    ordered = list(dict.fromkeys(close + inside))[:count]
    return [by_lower[c] for c in ordered]
