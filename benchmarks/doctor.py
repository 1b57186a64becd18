"""`envcheck doctor` beside its peers and the same torch environment: whole processes, taken in turns in one run.

    python benchmarks/doctor.py --environment FOLDER [--peers FOLDER] [--runs 7] [--json]

FOLDER is a virtual environment with torch 2.14.1+cu130 (5.5 GB; made there if it is missing). The peers stand in a copy
of it (hard links) at --peers, default FOLDER-peers, as they import the torch that they judge; envcheck is built as a
wheel and installed in an environment of its own, as a user has it. Ratios matter, not seconds: machines differ. The
table gives the median and the best of all runs, and the peak memory of the process and its children.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch==2.14.1", "torchvision==0.29.1")
PEERS = ("cuda-doctor==0.2.0", "ai-infradr==0.1.0", "env-doctor==0.3.5")


def pip(folder: Path, *args: str) -> None:
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *args], check=True)


def environment(folder: Path, *wheels: str, copy: Path | None = None) -> Path:
    """A virtual environment with these wheels: as it is, else made."""
    if not (folder / "bin" / "python").exists():
        if copy:
            subprocess.run(["cp", "-al", str(copy), str(folder)], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip(folder, *wheels)
    return folder


def own(folder: Path) -> Path:
    """envcheck as a user installs it: a wheel, compiled to byte code by pip."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    pip(folder, str(next(folder.glob("envcheck_gpu-*.whl"))))
    return folder / "bin" / "envcheck"


def measure(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall seconds, and the peak resident MB, of a whole process with its children."""
    started = time.perf_counter()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, cwd="/")
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode >= 0, f"{argv[0]} was killed by signal {-child.returncode}"
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, required=True)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    heavy = environment(args.environment.absolute(), *HEAVY)
    peers = environment((args.peers or heavy.with_name(f"{heavy.name}-peers")).absolute(), *PEERS, copy=heavy)
    # Byte code is written by whoever runs first; without it Python would compile in every run.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LD_", "CUDA", "VIRTUAL_ENV"))}
    python = str(peers / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        doctor = str(own(Path(folder) / "own"))
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "envcheck doctor": [doctor, "doctor", "--python", str(heavy / "bin" / "python")],
            "envcheck --version": [doctor, "--version"],
            "torch.utils.collect_env": [python, "-m", "torch.utils.collect_env"],
            "cuda-doctor diagnose": [python, str(peers / "bin" / "cuda-doctor"), "diagnose"],
            "ai-infradr": [python, str(peers / "bin" / "ai-infradr")],
            "env-doctor check": [python, str(peers / "bin" / "env-doctor"), "check"],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for run in range(args.runs + 1):
            for name, argv in commands.items():
                result = measure(argv, env)
                if run:  # the first round warms the page cache and the byte code
                    taken[name].append(result)
    rows = {
        name: {
            "median": statistics.median(seconds for seconds, _ in runs),
            "best": min(seconds for seconds, _ in runs),
            "mb": max(mb for _, mb in runs),
        }
        for name, runs in taken.items()
    }
    if args.json:
        print(json.dumps({"runs": args.runs, "rows": rows}, indent=2))
        return
    ours = rows["envcheck doctor"]
    print("| command | median s | best s | peak MB | × envcheck doctor (best) |\n| --- | ---: | ---: | ---: | ---: |")
    for name, row in rows.items():
        ratio = row["best"] / ours["best"]
        print(f"| {name} | {row['median']:.3f} | {row['best']:.3f} | {row['mb']:.0f} | {ratio:.1f} |")
    limit = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(
        f"\n{args.runs} runs each, in turns, after one to warm up; largest process {limit // 1024} MB.", file=sys.stderr
    )


if __name__ == "__main__":
    main()
