"""Reads a shell script's package-manager calls: what pip, uv, conda, apt and their like would install, and from where.

Nothing is run. Words that hang on a variable nobody set stay as they are and count for nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from envcheck.model.recipe import Step

SEPARATORS = frozenset({"&&", "||", ";", "|", "&", "(", ")", "{", "}", "\n", ";;", "|&"})
WORDS_BEFORE = frozenset(
    {"then", "do", "else", "if", "while", "!", "sudo", "exec", "time", "nice", "env", "command", "-E", "-H", "elif"}
)
SHELLS = frozenset({"bash", "sh", "/bin/bash", "/bin/sh", "dash", "zsh", "ash", "/usr/bin/bash"})
MAX_COMMANDS = 2000

_PIP = (
    "-i --index-url --index --default-index --extra-index-url -f --find-links -r --requirement -c --constraint "
    "--constraints -t --target --prefix --root --platform --python-version --abi --implementation --progress-bar "
    "--trusted-host --proxy --retries --timeout --cache-dir --log --src --upgrade-strategy --no-binary --only-binary "
    "--config-settings -C --global-option --report --torch-backend --python -p --index-strategy --extra --group "
    "--override --resolution --prerelease --link-mode --exclude-newer --cert --client-cert -e --editable"
)
PIP_VALUES = frozenset(_PIP.split())
CONDA_VALUES = frozenset(
    {"-c", "--channel", "-n", "--name", "-p", "--prefix", "-f", "--file", "--solver", "--repodata-fn"}
)
SYSTEM = {
    "apt": "apt", "apt-get": "apt", "aptitude": "apt", "yum": "dnf", "dnf": "dnf", "microdnf": "dnf", "tdnf": "dnf",
    "zypper": "dnf", "apk": "apk",
}  # fmt: skip
SYSTEM_VALUES = frozenset(
    {"-o", "-t", "--target-release", "-c", "--installroot", "--enablerepo", "--repo", "--releasever"}
)
RUNFILE = re.compile(r"(?:^|/)((?:cuda_[\d.]+_[\d.]+_linux[\w]*|NVIDIA-Linux-[\w]+-[\d.]+[\w-]*)\.run)$")
COMPILERS = re.compile(r"(?:^|/)(nvcc|cmake|ninja)$|^setup\.py$")


def commands(script: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Each simple command as (words, the assignments before it); what can't be split is left out."""
    count = 0
    plain = re.sub(r"(?m)^[ \t]*#.*$", "", script.replace("\\\n", " "))
    lexer = shlex.shlex(plain, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for token in lexer:
            if token and set(token) <= set(";&|()\n"):
                if words:
                    yield _assignments(words)
                    count += 1
                words = []
                if count > MAX_COMMANDS:
                    return
            else:
                words.append(token)
    except ValueError:  # an unclosed quote: what came before it still counts
        pass
    if words:
        yield _assignments(words)


def _assignments(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    env: dict[str, str] = {}
    rest = list(words)
    while rest:
        match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", rest[0], re.DOTALL)
        if match:
            env[match.group(1)] = match.group(2)
        elif rest[0] not in WORDS_BEFORE:
            break
        rest.pop(0)
    return rest, env


def read_steps(script: str, source: str, env: Mapping[str, str] = {}) -> list[Step]:
    """The steps of a script that runs with `env`."""
    found: list[Step] = []
    known = dict(env)
    for words, own in commands(script):
        here = {**known, **own}
        if not words:
            known.update(own)
            continue
        if words[0] == "export":
            known.update(_assignments(words[1:])[1])
            continue
        if words[0] in SHELLS and len(words) > 2 and re.fullmatch(r"-\w*c", words[1]):
            found += read_steps(words[2], source, here)
            continue
        step = read_step([expand(word, here) for word in words], here, source)
        if step is not None:
            found.append(step)
    return found


def compiles(script: str) -> bool:
    """Does the script compile: nvcc, cmake, or setup.py called by name?"""
    return any(COMPILERS.search(word) for words, _ in commands(script) for word in words[:2])


def expand(word: str, env: Mapping[str, str]) -> str:
    """$NAME, ${NAME} and ${NAME:-default} filled in where they are known."""
    return re.sub(r"\$\{([A-Za-z_]\w*)(?::?-([^{}]*))?\}|\$([A-Za-z_]\w*)", lambda m: _fill(m, env), word)


def _fill(match: re.Match[str], env: Mapping[str, str]) -> str:
    name = match.group(1) or match.group(3)
    value, default = env.get(name), match.group(2)
    if value:
        return value
    if default is not None:
        return default
    return match.group() if value is None else ""


def read_step(words: Sequence[str], env: Mapping[str, str], source: str) -> Step | None:
    """One command as a step; None for any other command."""
    program = words[0].rpartition("/")[2]
    rest = list(words[1:])
    if re.fullmatch(r"python[\d.]*", program) and rest[:2] == ["-m", "pip"]:
        program, rest = "pip", rest[2:]
    if re.fullmatch(r"pip[\d.]*", program):
        return _pip("pip", rest, env, source)
    if program == "uv" and rest[:1] == ["pip"]:
        return _pip("uv", rest[1:], env, source)
    if program == "uv" and rest[:1] == ["add"]:
        return _pip("uv", ["install", *rest[1:]], env, source)
    if program in ("poetry", "pdm") and rest[:1] == ["add"]:
        return _pip(program, ["install", *rest[1:]], env, source)
    if program == "pipenv":
        return _pip("pipenv", rest, env, source)
    if program in ("conda", "mamba", "micromamba"):
        return _conda(rest, source)
    if program in SYSTEM:
        return _system(SYSTEM[program], rest, source)
    for word in words[:3]:
        match = RUNFILE.search(word)
        if match and program in ("sh", "bash", "dash", match.group(1)):
            return Step("runfile", (match.group(1),), source=source)
    return None


def _pip(manager: str, words: Sequence[str], env: Mapping[str, str], source: str) -> Step | None:
    words = [word for word in words if word not in ("-q", "-v", "-U", "--quiet", "--upgrade")]
    if not words or "install" not in words[:3]:
        return None
    prefix = "UV" if manager == "uv" else "PIP"
    options, names = _split(words[words.index("install") + 1 :], PIP_VALUES)
    index = _last(options, "-i", "--index-url", "--default-index") or env.get(f"{prefix}_INDEX_URL", "")
    index = index or env.get("UV_DEFAULT_INDEX", "") if manager == "uv" else index
    extra = _all(options, "--extra-index-url", "--index") or tuple(env.get(f"{prefix}_EXTRA_INDEX_URL", "").split())
    backend = _last(options, "--torch-backend") or (env.get("UV_TORCH_BACKEND", "") if manager == "uv" else "")
    editable = _all(options, "-e", "--editable")
    return Step(
        manager,
        tuple(name for name in names if not name.startswith(("-", "."))) + tuple(e for e in editable if "==" in e),
        index_url=index,
        extra_index_urls=(*extra, f"torch-backend:/{backend}") if backend and backend != "auto" else extra,
        find_links=_all(options, "-f", "--find-links"),
        files=_all(options, "-r", "--requirement"),
        no_deps="--no-deps" in words,
        constrained=bool(_all(options, "-c", "--constraint", "--constraints") or env.get(f"{prefix}_CONSTRAINT")),
        source=source,
    )


def _conda(words: Sequence[str], source: str) -> Step | None:
    verb = next((word for word in words[:3] if word in ("install", "create", "update")), None)
    if verb is None or words[:2] == ["env", "export"]:
        return None
    options, names = _split(words[words.index(verb) + 1 :], CONDA_VALUES)
    return Step(
        "conda",
        tuple(name for name in names if not name.startswith("-")),
        channels=_all(options, "-c", "--channel"),
        files=_all(options, "-f", "--file"),
        source=source,
    )


def _system(manager: str, words: Sequence[str], source: str) -> Step | None:
    verb = next((w for w in words if w in ("install", "add", "in", "localinstall", "groupinstall")), None)
    if verb is None:
        return None
    after = words[words.index(verb) + 1 :]
    _, names = _split(after, SYSTEM_VALUES)
    names = [name for name in names if not name.startswith("-")]
    return Step(manager, tuple(names), source=source) if names else None


def _split(words: Sequence[str], with_value: frozenset[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """(options with their values, everything else)."""
    options: list[tuple[str, str]] = []
    names: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word in (">", ">>", "2>", "2>&1", "<") or re.match(r"\d?>", word):
            break
        name, equals, value = word.partition("=")
        if word.startswith("--") and equals:
            options.append((name, value))
        elif word in with_value:
            options.append((word, words[position] if position < len(words) else ""))
            position += 1
        elif re.match(r"-[rcfit].", word) and word[:2] in with_value:  # -rrequirements.txt
            options.append((word[:2], word[2:]))
        else:
            names.append(word)
    return options, names


def _last(options: Sequence[tuple[str, str]], *names: str) -> str:
    return next((value for name, value in reversed(options) if name in names), "")


def _all(options: Sequence[tuple[str, str]], *names: str) -> tuple[str, ...]:
    return tuple(value for name, value in options if name in names)
