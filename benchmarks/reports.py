"""Judge 10,000 pasted reports in one process: median, 95th percentile and total, by size of report.

Usage: python benchmarks/reports.py [COUNT]
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from envcheck import matrix as matrices
from envcheck.pipeline import judge
from envcheck.readers.detect import read_report

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases"
SMALL = 1000  # characters


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    matrix = matrices.load()
    pastes = [path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.txt"))]
    for paste in pastes:  # rows and patterns are read once
        judge(read_report(paste, name="x", symptoms=matrix.symptoms), matrix)
    reading: dict[bool, list[float]] = {True: [], False: []}
    judging: dict[bool, list[float]] = {True: [], False: []}
    began = time.perf_counter()
    for turn in range(count):
        paste = pastes[turn % len(pastes)]
        small = len(paste) < SMALL
        at = time.perf_counter()
        snap = read_report(paste, name="x", symptoms=matrix.symptoms)
        read = time.perf_counter()
        judge(snap, matrix)
        reading[small].append(read - at)
        judging[small].append(time.perf_counter() - read)
    total = time.perf_counter() - began
    for small, name in ((True, f"under {SMALL} characters"), (False, "longer")):
        both = sorted(r + j for r, j in zip(reading[small], judging[small]))
        if both:
            print(
                f"{name}: {len(both)} reports, median {statistics.median(both) * 1000:.2f} ms "
                f"(reading {statistics.median(reading[small]) * 1000:.2f}, judging "
                f"{statistics.median(judging[small]) * 1000:.2f}), 95 % {both[int(len(both) * 0.95)] * 1000:.2f} ms"
            )
    print(f"{count} reports in {total:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
