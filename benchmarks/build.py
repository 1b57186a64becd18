"""`envcheck build` beside doctor and a bare Python: whole processes, taken in turns.

    python benchmarks/build.py [--runs 9]

Run it with the Python of the environment that envcheck is installed in; an editable install measures the same code.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

ENVCHECK = [sys.executable, "-m", "envcheck"]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "envcheck build --torch 2.1 --cuda 12.1": [*ENVCHECK, "build", "--torch", "2.1", "--cuda", "12.1"],
    "envcheck doctor": [*ENVCHECK, "doctor"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(runs + 1):
        for name, argv in COMMANDS.items():
            started = time.perf_counter()
            done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            assert done.returncode in (0, 1), f"{name} ended with {done.returncode}"
            if run:  # the first round warms the page cache
                taken[name].append(time.perf_counter() - started)
    print("| command | median s | best s |\n| --- | ---: | ---: |")
    for name, seconds in taken.items():
        print(f"| {name} | {statistics.median(seconds):.3f} | {min(seconds):.3f} |")


if __name__ == "__main__":
    main()
