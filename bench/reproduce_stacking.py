"""Repeat the experiments on private stacking: the published pipeline beside privlr's own.

    PRIVLR_DATA=... python bench/reproduce_stacking.py [--out out/stacking] [--repeats 10]

Each number is appended to a CSV file as soon as it is there; a run that was stopped
continues where it stopped. Figures are drawn at the end. The stacks themselves are
private; what is computed from the data before them is not covered by epsilon, and the
figures say so.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import fields
from pathlib import Path

import stacking_figures
from rich.console import Console
from rich.progress import Progress
from stacking_experiments import EXPERIMENTS, Cell, cells, key

HEADER = [field.name for field in fields(Cell)] + ["auc", "validation"]


def done(path: Path) -> set[tuple[str, ...]]:
    """Return the cells that a file holds; a half-written last line is cut off."""
    if not path.exists():
        path.write_text(",".join(HEADER) + "\n")
        return set()
    whole = path.read_text().rpartition("\n")[0] + "\n"
    path.write_text(whole)
    return {tuple(row[:-2]) for row in csv.reader(whole.splitlines()[1:])}


def main() -> None:
    """Run what is missing, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/stacking"))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", choices=EXPERIMENTS, nargs="*", default=list(EXPERIMENTS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True)) as progress:
        for name in options.only:
            path = options.out / f"{name}.csv"
            finished = done(path)
            wanted = list(cells(name, options.repeats))
            task = progress.add_task(name, total=len(wanted))
            with path.open("a", newline="") as stream:
                writer = csv.writer(stream, lineterminator="\n")
                for cell in wanted:
                    if key(cell) not in finished:
                        scores = EXPERIMENTS[name](cell)
                        writer.writerow([*key(cell), *(f"{auc:.6f}" for auc in scores)])
                        stream.flush()
                    progress.advance(task)
    for path in stacking_figures.draw(options.out):
        print(path)
    stacking_figures.summarise(options.out)


if __name__ == "__main__":
    main()
