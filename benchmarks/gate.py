"""`envcheck check` on a repository of 200 requirement files and 50 Dockerfiles: wall seconds of the whole command.

    python benchmarks/gate.py [--runs 5]

The target is two seconds (issue 6), start of Python included; every file is on one target.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TORCH = ("2.1.2", "2.3.1", "2.4.1", "2.5.1", "2.6.0")
TAGS = {"2.1.2": "cu121", "2.3.1": "cu121", "2.4.1": "cu124", "2.5.1": "cu124", "2.6.0": "cu124"}
VISION = {"2.1.2": "0.16.2", "2.3.1": "0.18.1", "2.4.1": "0.19.1", "2.5.1": "0.20.1", "2.6.0": "0.21.0"}


def make(folder: Path, requirements: int = 200, dockerfiles: int = 50) -> None:
    """The repository: every file differs from the others."""
    (folder / "envcheck.toml").write_text(
        'targets = ["aws:p4d.24xlarge"]\nrequirements = ["*/requirements*.txt"]\ndockerfiles = ["*/Dockerfile"]\n'
        '[require]\ntorch = ">=2.1"\nfeatures = ["bf16"]\ndriver = ">=550"\n'
    )
    for number in range(max(requirements, dockerfiles)):
        service = folder / f"service{number:03}"
        service.mkdir()
        torch = TORCH[number % len(TORCH)]
        if number < requirements:
            others = "".join(f"package-{number}-{n}=={n}.{number}\n" for n in range(20))
            (service / "requirements.txt").write_text(f"torch=={torch}\ntorchvision=={VISION[torch]}\n{others}")
        if number < dockerfiles:
            (service / "Dockerfile").write_text(
                "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"
                f"LABEL service={number}\n"
                "RUN apt-get update && apt-get install -y python3 python3-pip\n"
                f"RUN pip install torch=={torch} --index-url https://download.pytorch.org/whl/{TAGS[torch]}\n"
                'COPY . /app\nCMD ["python3", "/app/main.py"]\n'
            )


def run(folder: Path) -> tuple[float, float, subprocess.CompletedProcess[str]]:
    """(wall seconds, CPU seconds, result) of one whole command, from the start of the process to its end."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "envcheck", "check"], cwd=folder, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, spent, done


def main() -> int:
    """Print the seconds of every run; exit 1 beyond the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        results = [run(folder) for _ in range(runs)]
    seconds = sorted(result[0] for result in results)
    print(results[0][2].stdout.splitlines()[0])
    cpu = statistics.median(result[1] for result in results)
    wall = statistics.median(seconds)
    print(f"200 requirement files, 50 Dockerfiles: median {wall:.2f} s, at best {seconds[0]:.2f} s, CPU {cpu:.2f} s")
    return 0 if statistics.median(seconds) < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
