"""What the Action does on the runner: install envcheck in an environment of its own, run it, tell GitHub.

Standard library only, for it runs under the runner's own Python before anything is installed. Inputs come by
environment variables and reach envcheck as single arguments; nothing is ever put into a shell line.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ACTION = Path(__file__).resolve().parent.parent
SOURCES = ("envcheck", "matrices", "templates", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
DONE = "envcheck-is-installed"
SEVERITIES = ("", "error", "warning", "note", "never")
MONTH = 30 * 24 * 3600
SUMMARY_LIMIT = 1_000_000


class Wrong(Exception):
    """An input or a runner that can't be used; the message is for the log."""


def main(argv: list[str]) -> int:
    """Run one step of the action."""
    steps = {"prepare": prepare, "install": install, "check": check}
    try:
        steps[argv[0]]()
    except (Wrong, OSError) as wrong:
        command("error", str(wrong), title="envcheck")
        return 2
    return 0


def said(name: str) -> str:
    """The value of an input."""
    return os.environ.get(f"ENVCHECK_{name}", "").strip()


def flag(name: str) -> bool:
    """A true or false input; raises Wrong for anything else."""
    value = said(name).lower()
    if value not in ("", "true", "false"):
        raise Wrong(f"{name.lower().replace('_', '-')} is true or false, not {value!r}")
    return value == "true"


def command(name: str, message: str, **properties: str) -> None:
    """A workflow command, escaped as the toolkit does."""
    data = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    told = ",".join(
        f"{key}={value.replace('%', '%25').replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
    )
    print(f"::{name} {told}::{data}", flush=True)


def output(**values: str) -> None:
    """Set outputs of the step; the delimiter is random, so that no value can end its own block."""
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as stream:
        for name, value in values.items():
            mark = f"envcheck-{secrets.token_hex(16)}"
            stream.write(f"{name.replace('_', '-')}<<{mark}\n{value}\n{mark}\n")


def prepare() -> None:
    """Name the environment by everything that decides what is in it."""
    version = said("VERSION")
    if version and not VERSION.fullmatch(version):
        raise Wrong(f"version {version!r} is no release number, like 1.2.3")
    if sys.version_info < (3, 9):  # noqa: UP036  the runner's own Python may be older than what we support
        raise Wrong(f"envcheck needs Python 3.9, and this runner's python3 is {platform.python_version()}")
    folder = Path(os.environ.get("RUNNER_TOOL_CACHE") or os.environ.get("RUNNER_TEMP") or tempfile.gettempdir())
    what = version or f"source-{source_hash()}"
    # Where it lies and which Python made it are part of the name: an environment moved to another is broken.
    place = hashlib.sha256(f"{folder}\0{Path(sys.executable).resolve()}\0{sys.version}".encode()).hexdigest()[:12]
    key = f"envcheck-{what}-{platform.system()}-{platform.machine()}-py{platform.python_version()}-{place}"
    venv = folder / "envcheck" / key
    ready = (venv / DONE).is_file()
    output(venv=str(venv), key=key, ready=str(ready).lower())


def source_hash() -> str:
    """One hash over the action's own code and tables."""
    digest = hashlib.sha256()
    for name in SOURCES:
        top = ACTION / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in files:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ACTION).as_posix()}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def install() -> None:
    """Make the environment, unless the cache had it; whole or not at all."""
    venv = Path(said("VENV"))
    if (venv / DONE).is_file():
        os.utime(venv / DONE)  # in use: see prune
        print(f"envcheck is in {venv}")
        return
    version = said("VERSION")
    venv.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="fresh-", dir=venv.parent))
    try:
        made = subprocess.run([sys.executable, "-I", "-m", "venv", str(fresh)], capture_output=True, text=True)
        if made.returncode:
            raise Wrong(f"python3 -m venv failed (on Debian: apt-get install python3-venv): {made.stdout}{made.stderr}")
        pip = [str(fresh / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*pip, "--", f"envcheck-gpu=={version}" if version else str(ACTION)])
        if done.returncode:
            raise Wrong(f"pip could not install envcheck (exit {done.returncode})")
        (fresh / DONE).write_text("", encoding="utf-8")
        if venv.exists():
            shutil.rmtree(venv, ignore_errors=True)
        try:
            fresh.rename(venv)
        except OSError:
            if not (venv / DONE).is_file():  # else another job was faster
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    prune(venv.parent)


def prune(folder: Path) -> None:
    """Remove environments that no job has used for a month: a self-hosted runner keeps its tool cache for ever."""
    for done in folder.glob(f"envcheck-*/{DONE}"):
        if time.time() - done.stat().st_mtime > MONTH:
            shutil.rmtree(done.parent, ignore_errors=True)


def arguments(found: str) -> list[str]:
    """The command line: values are joined to their options, and the target stands behind '--'."""
    target, on = said("TARGET"), said("ON")
    options = [f"--fail-on={said('FAIL_ON')}"] if said("FAIL_ON") else []
    if said("PYTHON"):
        options.append(f"--python={said('PYTHON')}")
    if flag("REQUIRE_GPU"):
        options.append("--require-gpu")
    if on:
        options.append(f"--on={on}")
    if target or not found:
        if said("BASELINE"):
            raise Wrong(
                "a baseline goes with settings, and there are none here" if not target else "no baseline for one target"
            )
        return ["doctor", *options, *(["--", target] if target else [])]
    if said("BASELINE"):
        options.append(f"--baseline={said('BASELINE')}")
    return ["check", f"--config={found}", *options]


def find_settings(python: str) -> str:
    """The settings as named, else as envcheck itself finds them; '' for none."""
    named = said("SETTINGS")
    if named:
        return named
    code = "import pathlib; from envcheck.settings import find_settings; print(find_settings(pathlib.Path.cwd()) or '')"
    told = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    return told.stdout.strip() if told.returncode == 0 else "pyproject.toml"  # broken: check tells what is wrong


def check() -> None:
    """Run envcheck; the log, annotations, summary and outputs all come from one run."""
    if said("FAIL_ON") not in SEVERITIES:
        raise Wrong(f"fail-on is error, warning, note or never, not {said('FAIL_ON')!r}")
    python = str(Path(said("VENV")) / "bin" / "python")
    out = Path(tempfile.mkdtemp(prefix="envcheck-", dir=os.environ.get("RUNNER_TEMP")))
    files = {name: out / file for name, file in FILES.items()}
    argv = arguments(find_settings(python))
    formats = [f"--format={name}:{file}" for name, file in files.items()]
    formats += [f"--format={line.strip()}" for line in said("FORMAT").replace(",", "\n").splitlines() if line.strip()]
    place = 1 + argv[1:].index("--") if "--" in argv[1:] else len(argv)
    done = subprocess.run(
        [python, "-I", "-m", "envcheck", *argv[:place], "--format=text", *formats, *argv[place:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    # What was judged may print what it likes: until the token comes back the runner takes nothing for a command.
    token = f"envcheck-{secrets.token_hex(16)}"
    print(f"::stop-commands::{token}", flush=True)
    sys.stdout.buffer.write(done.stdout.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()
    print(f"::{token}::", flush=True)
    report = files["json"]
    if not report.is_file():
        last = done.stdout.decode("utf-8", "replace").strip()
        command("error", last or f"envcheck ended with {done.returncode} and no report", title="envcheck")
        output(
            verdict="error", error_count="", warning_count="", report="", sarif="", exit_code=str(done.returncode or 70)
        )
        return
    sys.stdout.buffer.write(files["github"].read_bytes())
    sys.stdout.buffer.flush()
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as stream:
            stream.write(files["markdown"].read_text(encoding="utf-8")[:SUMMARY_LIMIT])
    total = json.loads(report.read_text(encoding="utf-8"))["summary"]
    output(
        verdict=str(total["verdict"]),
        error_count=str(total["error"]),
        warning_count=str(total["warning"]),
        report=str(report),
        sarif=str(files["sarif"]),
        exit_code=str(done.returncode),
    )


FILES = {"json": "report.json", "github": "annotations.txt", "markdown": "summary.md", "sarif": "envcheck.sarif"}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
