"""Random problems: never slower than scikit-learn's best solver, never without a certificate.

    python bench/sweep.py --problems 100 --out out/sweep.csv

Shapes, densities, column scales, layouts and ridges are drawn at random. Each problem is
solved by privlr and by every solver of scikit-learn to the same gradient norm of the mean
objective, 1e-9; a line of the table holds the times and the ratio of the best peer's. At
the end it says how many ratios were below 1/1.1 and how many certificates were missed,
and exits with an error if there was one of either.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from compare import GRADIENT_NORM, SOLVERS, gradient_norm, loosest, timed

from privlr import solve


def draw(rng: np.random.Generator) -> tuple[dict[str, Any], Any, Any, float]:
    """A problem and how it was made."""
    n, d = int(10 ** rng.uniform(1.5, 4.3)), int(10 ** rng.uniform(0, 2.5))
    spread, density = rng.choice([0.0, 1.0]), rng.choice([1.0, 1.0, 0.1])
    l2 = float(10 ** rng.uniform(-6, 0))
    X = rng.normal(size=(n, d)) * 10 ** rng.uniform(-spread, 0, size=d)
    X[rng.random((n, d)) >= density] = 0.0
    X /= max(1e-300, np.linalg.norm(X, axis=1).max())
    margins = X @ rng.normal(size=d)
    signal = 10 ** rng.uniform(-1, 1) / max(1e-300, margins.std())
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-signal * margins)), 1.0, -1.0)
    y[:2] = -1.0, 1.0
    layout = rng.choice(["C", "F"]) if density == 1.0 else "csr"
    stored = sp.csr_matrix(X) if layout == "csr" else np.array(X, order=layout)
    how = {"n": n, "d": d, "l2": f"{l2:.2g}", "layout": layout, "spread": spread}
    return how, stored, y, l2


def main() -> None:
    """Draw, solve, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/sweep.csv"))
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    peers = {name: f for name, f in SOLVERS.items() if name.startswith("scikit-learn")}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    slower = missed = 0
    with options.out.open("w", newline="") as file:
        writer = None
        for _ in range(options.problems):
            how, X, y, l2 = draw(rng)
            result = solve(X, y, l2_reg_strength=l2, tol=GRADIENT_NORM)
            norm = gradient_norm(X, y, result.coef, l2)
            bad = not norm <= min(result.certificate, 1.01 * GRADIENT_NORM) + 1e-16
            missed += bad
            solvers = {"privlr": (SOLVERS["privlr"], GRADIENT_NORM)}
            for name, solver in peers.items():
                found = loosest(solver, X, y, l2, 1)
                if found is not None:
                    solvers[name] = (solver, found[0])
            seconds: dict[str, list[float]] = {name: [] for name in solvers}
            for _ in range(5):
                for name, (solver, tol) in solvers.items():
                    seconds[name].append(min(timed(solver, X, y, l2, tol, 1)[0] for _ in "ab"))
            medians = {name: statistics.median(times) for name, times in seconds.items()}
            own = medians.pop("privlr")
            best = min(medians, key=lambda name: medians[name], default="")
            ratio = medians[best] / own if best else float("inf")
            slower += ratio < 1 / 1.1
            row = how | {
                "passes": result.passes,
                "gradient_norm": f"{norm:.1e}",
                "status": result.status,
                "ms": f"{1e3 * own:.3g}",
                "best": best,
                "ratio": f"{ratio:.3g}",
            }
            if writer is None:
                writer = csv.DictWriter(file, row)
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            print(*row.values(), "MISSED" if bad else "", sep="\t")
    print(f"{slower} slower than the best of scikit-learn, {missed} without the gradient norm")
    sys.exit(bool(slower or missed))


if __name__ == "__main__":
    main()
