"""What a second thread gains, beside what it gains when both do nothing but read.

    python bench/threads.py --seconds 300 --out out/threads.csv

A large solve waits for the memory, and how much sooner two processors have read it than one
differs from machine to machine, and on a shared one from minute to minute. So every round times
both, by one thread and by two, in turn: a loop in C that adds the elements of the rows up
(bench/reading.c, which needs a C compiler), and solves of those rows to a gradient norm of 1e-9 of
the mean objective. The table at the end holds the median gain of the solves, by lambda, over the
rounds in which reading gained as much; `--report` prints that of an earlier run.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compare import GRADIENT_NORM, LAMBDAS, problem

from privlr import solve

SHAPE = 300_000, 100
#: Where one class of rounds ends and the next begins, by the gain of reading.
BOUNDS = (0.0, 1.1, 1.2, 1.5, 10.0)
TURNS = 3


def reading() -> Any:
    """The compiled loop, which other threads do not wait for."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "reading.so"
        source = Path(__file__).with_name("reading.c")
        flags = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", library, source], check=True)
        add_up = ctypes.CDLL(str(library)).add_up
    add_up.restype, add_up.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_size_t]
    return add_up


def gains(works: list[Callable[[int], Any]]) -> list[float]:
    """How many times sooner two threads are than one with each: medians of turns."""
    times: dict[tuple[int, int], list[float]] = {}
    for _ in range(TURNS):
        for threads, (k, work) in itertools.product((1, 2), enumerate(works)):
            start = time.perf_counter()
            work(threads)
            times.setdefault((k, threads), []).append(time.perf_counter() - start)
    typical = {key: statistics.median(of_key) for key, of_key in times.items()}
    return [typical[k, 1] / typical[k, 2] for k in range(len(works))]


def report(path: Path) -> None:
    """Print the gain of the solves in each class of rounds, in Markdown."""
    with path.open(newline="") as file:
        rounds = [tuple(map(float, row.values())) for row in csv.DictReader(file)]
    print("| reading gains | rounds |", " | ".join(f"{l2:g}" for l2 in LAMBDAS), "|")
    print("|---|---|" + len(LAMBDAS) * "---|")
    for low, high in itertools.pairwise(BOUNDS):
        here: dict[float, list[float]] = {l2: [] for l2 in LAMBDAS}
        for l2, read, solved in rounds:
            if low <= read < high:
                here[l2].append(solved)
        count = sum(map(len, here.values()))
        if count:
            cells = [
                f"{statistics.median(gained):.2f}" if gained else "" for gained in here.values()
            ]
            print(f"| {low:g} to {high:g} | {count} |", " | ".join(cells), "|")


def measure(path: Path, seconds: float) -> None:
    """Write the rounds."""
    X, y = problem(*SHAPE, 0)
    add_up = reading()
    half = X.size // 2
    parts = [(X.ctypes.data, half), (X.ctypes.data + half * X.itemsize, half)]
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(2) as pool, path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["l2", "reading", "solve"])

        def read(threads: int) -> None:
            list((map if threads == 1 else pool.map)(lambda part: add_up(*part), parts))

        while time.monotonic() < end:
            for l2 in LAMBDAS:

                def work(threads: int, l2: float = l2) -> None:
                    solve(X, y, l2_reg_strength=l2, tol=GRADIENT_NORM, n_jobs=threads)

                writer.writerow([f"{value:.4g}" for value in (l2, *gains([read, work]))])


def main() -> None:
    """Measure, or report what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=Path("out/threads.csv"))
    parser.add_argument("--report", type=Path, metavar="CSV")
    options = parser.parse_args()
    if not options.report:
        measure(options.out, options.seconds)
    report(options.report or options.out)


if __name__ == "__main__":
    main()
