"""Times of privlr beside other certified or general solvers, to one gradient norm.

    python bench/compare.py --threads 1 --out out/compare-1.csv
    python bench/compare.py --threads 2 --out out/compare-2.csv
    python bench/compare.py --report docs/figures/solve.png out/compare-1.csv out/compare-2.csv

Every solver gets the loosest of its tolerances with which the mean objective's gradient,
recomputed here from its coefficients, is at most 1e-9; solvers that have none are left
out. Then all run in turn, round after round, and the table shows the medians of the
rounds' ratios. Peers that are not installed are skipped: ``pip install 'privlr[peers]'``.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GRADIENT_NORM = 1e-9
LAMBDAS = (1e-1, 1e-2, 1e-4, 1e-6)
#: A solver that needs longer than this for one solve is left out.
PATIENCE_SECONDS = 5.0
#: In place of the entries a row: the real rows of ``privlr.datasets``.
REAL = -1
#: What a throwaway prototype reached against the best peer: with one thread for the rows of 20
#: columns and of 60,000, else with two.
JOBS: dict[str, tuple[int, int, int, tuple[float, ...]]] = {
    # name: rows, columns, entries a row (0: dense), marks at LAMBDAS
    "1,000 x 20": (1_000, 20, 0, (18, 18, 18, 18)),
    "5,000 x 20": (5_000, 20, 0, (15, 15, 15, 15)),
    "3,000 x 100": (3_000, 100, 0, (10, 10, 15, 15)),
    "30,000 x 100": (30_000, 100, 0, (12, 14, 25, 30)),
    "300,000 x 100": (300_000, 100, 0, (9, 18, 25, 20)),
    "6,000 x 5,000": (6_000, 5_000, 0, (3.5, 3, 5, 6)),
    "a9a": (32_561, 123, REAL, (7, 12, 13, 11)),
    "sparse 32,561 x 123": (32_561, 123, 14, (7, 12, 13, 11)),
    "sparse 5,000 x 60,000": (5_000, 60_000, 100, (3.5, 2.5, 2, 2)),
}

Solver = Callable[[Any, Any, float, float, int], Any]


def problem(n: int, d: int, entries: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of unit length with labels from a logistic model; CSR with `entries` a row; a9a."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.special import expit

    rng = np.random.default_rng(seed)
    if entries == REAL:
        from privlr.datasets import load_a9a

        real = load_a9a()
        X = sp.csr_matrix(real.X_train)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return X, np.where(real.y_train > 0, 1.0, -1.0)
    if entries:
        columns = np.concatenate([rng.choice(d, entries, replace=False) for _ in range(n)])
        values = rng.exponential(size=n * entries)
        X = sp.csr_matrix((values, columns, np.arange(0, n * entries + 1, entries)), shape=(n, d))
        X.sort_indices()
        X.data /= np.repeat(np.sqrt(np.add.reduceat(values**2, X.indptr[:-1])), entries)
    else:
        X = rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    margins = X @ rng.normal(size=d)
    y = np.where(rng.random(n) < expit(4 * margins / max(1e-12, margins.std())), 1.0, -1.0)
    return X, y


def gradient_norm(X: Any, y: Any, coef: Any, l2: float) -> float:
    """Of the mean objective, by numpy alone."""
    import numpy as np
    from scipy.special import expit

    slope = -y * expit(-y * np.asarray(X @ coef).ravel())
    return float(np.linalg.norm(np.asarray(X.T @ slope).ravel() / len(y) + l2 * coef))


def privlr(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """This library."""
    from privlr import solve

    return solve(X, y, l2_reg_strength=l2, tol=tol, n_jobs=threads).coef


def scikit_learn(X: Any, y: Any, l2: float, tol: float, threads: int, *, solver: str) -> Any:
    """scikit-learn's solver of that name."""
    from sklearn.linear_model import LogisticRegression

    return (
        LogisticRegression(
            C=1 / (len(y) * l2), fit_intercept=False, solver=solver, tol=tol, max_iter=20_000
        )
        .fit(X, y)
        .coef_[0]
    )


def intelex(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """Intel's extension for scikit-learn."""
    from sklearnex.linear_model import LogisticRegression

    return (
        LogisticRegression(C=1 / (len(y) * l2), fit_intercept=False, tol=tol, max_iter=20_000)
        .fit(X, y)
        .coef_[0]
    )


def snapml(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """IBM's Snap ML."""
    import numpy as np
    from snapml import LogisticRegression

    model = LogisticRegression(
        regularizer=len(y) * l2, fit_intercept=False, tol=tol, max_iter=2000, n_jobs=threads
    )
    return np.ravel(model.fit(X, y).coef_)


def glum(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """Glum by iterated least squares."""
    from glum import GeneralizedLinearRegressor

    model = GeneralizedLinearRegressor(
        family="binomial", alpha=l2, fit_intercept=False, gradient_tol=tol, max_iter=1000
    )
    return model.fit(X, (y + 1) / 2).coef_


def skglm(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """Skglm's L-BFGS."""
    from skglm.datafits import Logistic
    from skglm.penalties import L2
    from skglm.solvers import LBFGS

    return LBFGS(tol=tol, max_iter=20_000).solve(X, y, Logistic(), L2(l2))[0]


def liblinear_multicore(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """Multi-core LIBLINEAR, trust region Newton."""
    import numpy as np
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train

    options = f"-s 0 -c {1 / (len(y) * l2):.17g} -e {tol:g} -m {threads} -q"
    model = train(problem(y, X), parameter(options))
    coef = np.array(model.get_decfun()[0])
    return coef if model.get_labels()[0] == 1 else -coef


def scipy_lbfgs(X: Any, y: Any, l2: float, tol: float, threads: int) -> Any:
    """SciPy's L-BFGS-B on a hand-written loss."""
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import expit

    def objective(w: Any) -> tuple[float, Any]:
        margin = y * (X @ w)
        value = np.logaddexp(0, -margin).mean() + l2 / 2 * (w @ w)
        return value, X.T @ (-y * expit(-margin)) / len(y) + l2 * w

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": tol, "maxcor": 20}
    start = np.zeros(X.shape[1])
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


SOLVERS: dict[str, Solver] = {
    "privlr": privlr,
    **{
        f"scikit-learn {name}": functools.partial(scikit_learn, solver=name)
        for name in ("lbfgs", "newton-cholesky", "newton-cg", "liblinear")
    },
    "scipy L-BFGS-B": scipy_lbfgs,
    "sklearnex": intelex,
    "snapml": snapml,
    "glum": glum,
    "skglm": skglm,
    "liblinear-multicore": liblinear_multicore,
}


def timed(solver: Solver, X: Any, y: Any, l2: float, tol: float, threads: int) -> tuple[float, Any]:
    """Seconds and coefficients of one solve; warnings of peers are no news.

    One thread is timed by the processor's clock, which other processes leave alone.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = clock()
        coef = solver(X, y, l2, tol, threads)
        return clock() - start, coef


def loosest(solver: Solver, X: Any, y: Any, l2: float, threads: int) -> tuple[float, float] | None:
    """The tolerance that reaches the gradient norm, with the norm, or None."""
    spent = 0.0
    for exponent in [9.0] if solver is privlr else [5.0, 6.0, 7.0, 8.0, 9.0, 9.7, 11.0, 13.0]:
        tol = 10.0**-exponent
        try:
            timed(solver, X, y, l2, tol, threads)  # compiles, warms up
            seconds, coef = timed(solver, X, y, l2, tol, threads)
        except Exception as error:
            print(f"    {error!r:.100}", file=sys.stderr)
            return None
        norm = gradient_norm(X, y, coef, l2)
        if norm <= GRADIENT_NORM:
            return tol, norm
        spent += 2 * seconds
        if spent > PATIENCE_SECONDS:
            return None
    return None


def compare(
    name: str, shape: tuple[int, int, int], l2: float, threads: int, solvers: dict[str, Solver]
) -> Iterator[dict[str, Any]]:
    """One row of the table for every solver that gets there."""
    X, y = problem(*shape)
    if not shape[2]:  # it turns dense rows into lists first
        solvers = {name: f for name, f in solvers.items() if name != "liblinear-multicore"}
    tolerances = {}
    for solver_name, solver in solvers.items():
        found = loosest(solver, X, y, l2, threads)
        if found is None:
            print(f"  {name} {l2:g}: {solver_name} does not reach 1e-9", file=sys.stderr)
        else:
            tolerances[solver_name] = found
    seconds: dict[str, list[float]] = {solver_name: [] for solver_name in tolerances}
    start = time.perf_counter()
    for turn in range(15):
        for solver_name, (tol, _) in tolerances.items():
            # The last solver's OpenMP threads hold their processors for a fifth of a second more.
            time.sleep(0.3 if threads > 1 else 0.0)
            # A turn is a few solves, so that each begins with its own data in the cache.
            turns = [timed(solvers[solver_name], X, y, l2, tol, threads)[0]]
            while len(turns) < 10 and sum(turns) < 0.02:
                turns.append(timed(solvers[solver_name], X, y, l2, tol, threads)[0])
            seconds[solver_name].append(statistics.median(turns))
        if turn >= 2 and time.perf_counter() - start > 5.0 * threads**2:
            break
    for solver_name, (tol, norm) in tolerances.items():
        times = seconds[solver_name]
        ratios = [t / own for t, own in zip(times, seconds["privlr"], strict=True)]
        yield {
            "job": name,
            "l2": l2,
            "threads": threads,
            "solver": solver_name,
            "tol": tol,
            "gradient_norm": f"{norm:.2e}",
            "median_ms": f"{1e3 * statistics.median(times):.4g}",
            "min_ms": f"{1e3 * min(times):.4g}",
            "ratio": f"{statistics.median(ratios):.3g}",
        }


def installed(solvers: dict[str, Solver]) -> dict[str, Solver]:
    """Those that solve a tiny problem."""
    import numpy as np

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    usable = {}
    for name, solver in solvers.items():
        try:
            timed(solver, X, y, 0.1, 1e-6, 1)
            usable[name] = solver
        except Exception as error:
            print(f"{name} left out: {error!r:.120}", file=sys.stderr)
    return usable


def measure(threads: int, out: Path, jobs: list[str]) -> None:
    """Write the CSV, a line at a time."""
    solvers = installed(SOLVERS)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="") as file:
        writer = None
        for name in jobs:
            for l2 in LAMBDAS:
                for row in compare(name, JOBS[name][:3], l2, threads, solvers):
                    if writer is None:
                        writer = csv.DictWriter(file, row)
                        writer.writeheader()
                    writer.writerow(row)
                    file.flush()
                    print(*row.values(), sep="\t")


#: Not a package for logistic regression: shown apart from those that are.
BY_HAND = "scipy L-BFGS-B"


def best_peers(rows: list[dict[str, str]]) -> Iterator[tuple[str, float, float, Any, Any]]:
    """Job, lambda, own milliseconds, the best package's row and the hand-written solver's."""
    for job in JOBS:
        for l2 in LAMBDAS:
            here = {r["solver"]: r for r in rows if r["job"] == job and float(r["l2"]) == l2}
            own, by_hand = here.pop("privlr", None), here.pop(BY_HAND, None)
            if own and here:
                best = min(here.values(), key=lambda r: float(r["ratio"]))
                yield job, l2, float(own["median_ms"]), best, by_hand


def report(figure: Path, tables: list[Path]) -> None:
    """Print the table in Markdown and draw the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = plt.figure(figsize=(7.5, 4.5), layout="constrained").gca()
    places: dict[str, int] = {}
    colours = dict(zip(LAMBDAS, ("#E69F00", "#56B4E9", "#009E73", "#0072B2"), strict=True))
    for table in tables:
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        threads = rows[0]["threads"]
        print(f"\n| {threads} thread(s) | lambda | privlr, ms | best package | ", end="")
        print("times faster | mark | than SciPy by hand |")
        print("|---|---|---|---|---|---|---|")
        marker = "o" if threads == "1" else "x"
        for job, l2, own, best, by_hand in best_peers(rows):
            mark = JOBS[job][3][LAMBDAS.index(l2)]
            print(
                f"| {job} | {l2:g} | {own:.3g} | {best['solver']} | {best['ratio']} | {mark:g} | "
                f"{by_hand['ratio'] if by_hand else 'not reached'} |"
            )
            place = places.setdefault(job, len(places)) + 0.15 * LAMBDAS.index(l2)
            label = f"lambda = {l2:g}, {threads} thread(s)"
            axes.plot(float(best["ratio"]), place, marker, color=colours[l2], label=label)
    axes.axvline(1.0, color="0.5", linewidth=1)
    axes.set(xscale="log", xlabel="times faster than the best package")
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if tick < axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks([place + 0.2 for place in places.values()], list(places))
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.figure.legend(
        unique.values(), unique.keys(), fontsize="small", loc="outside upper center", ncols=2
    )
    figure.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(figure, dpi=110)


def main() -> None:
    """Measure in a process whose libraries see the thread count from the start, or report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/compare.csv"))
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--report", type=Path, metavar="FIGURE")
    parser.add_argument("tables", nargs="*", type=Path)
    options = parser.parse_args()
    if options.report:
        report(options.report, options.tables)
        return
    pools = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    wanted = {name: str(options.threads) for name in pools}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        command = [sys.executable, *sys.argv]
        raise SystemExit(subprocess.run(command, env={**os.environ, **wanted}).returncode)
    measure(options.threads, options.out, options.jobs)


if __name__ == "__main__":
    main()
