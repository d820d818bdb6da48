"""The experiments on private stacking: the published pipeline beside privlr's own.

The stacks are private. Components, importances, means and scales are computed from the data
as the paper does it, so that epsilon does not cover them, and the figures say so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from privlr import PrivateLogisticRegression, datasets
from privlr._experiments.run import Experiment
from privlr._experiments.stacking_figures import draw, summarise
from privlr.exceptions import ConvergenceError
from privlr.preprocessing import FeatureImportanceScaler
from privlr.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
)

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
GROUPS = (1, 2, 5, 10, 20)
ALPHAS = (0.85, 0.9, 0.95, 0.98, 1.0)
SETS = ("NEWS20", "MNIST")
K = 5
PIPELINES = ("published", "privlr")
STACKS = ("PST-S", "PST-F(U)", "PST-F(W)")
COMBINERS = {**{f"C-{k}": k for k in range(K)}, "C-mv": "vote", "C-wmv": "weighted_vote"}
TRANSFERS = ("PST-H(W)", "PST-H(U)", "HTL", "PLR(target)")
SITES = range(1, 17)
#: Candidates for the published pipeline, which has no default.
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
CLASSES = [-1, 1]

Scores = tuple[float, float]


@dataclass(frozen=True)
class Rows:
    """Reduced and scaled rows, their labels, and the importance of each column."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    importance: np.ndarray


@dataclass(frozen=True)
class Cell:
    """One fit of an experiment.

    `x` is the quantity on the horizontal axis: epsilon, K, alpha or the branch.
    """

    table: str
    data: str
    method: str
    pipeline: str
    x: float
    repeat: int
    ridge: float | str


@cache
def _news20() -> tuple[Any, ...]:
    data = datasets.load_news20()
    reducer = TruncatedSVD(100, random_state=0).fit(data.X_train)
    return (
        reducer.transform(data.X_train),
        data.y_train,
        reducer.transform(data.X_test),
        data.y_test,
    )


@cache
def _mnist() -> tuple[Any, ...]:
    data = datasets.load_mnist_0_8()
    X = np.vstack([data.X_train, data.X_test])
    return X, np.where(np.r_[data.y_train, data.y_test] == 8, 1, -1)


@cache
def _diabetes() -> tuple[Any, ...]:
    data = datasets.load_diabetes130()
    main = data.groups_train == 0
    X, X_test = data.X_train.astype(float), data.X_test.astype(float)
    mean, deviation = X[main].mean(axis=0), X[main].std(axis=0) + 1e-9
    X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    scale = np.median(np.linalg.norm(X[main], axis=1))
    y, y_test = (np.where(part == 1, 1, -1) for part in (data.y_train, data.y_test))
    return X / scale, y, data.groups_train, X_test / scale, y_test, data.groups_test


def _importance(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    importance: np.ndarray = np.abs(LogisticRegression(max_iter=1000).fit(X, y).coef_[0])
    return importance


@cache
def rows(name: str, repeat: int) -> Rows:
    """Draw the rows of one repeat, 4,321 + 643 or 3,000 + 2,000 of them."""
    random = np.random.default_rng(repeat)
    if name == "NEWS20":
        X, y, X_test, y_test = _news20()
        chosen = random.choice(len(y_test), 643, replace=False)
        X_test, y_test = X_test[chosen], y_test[chosen]
    else:
        X, y = _mnist()
        chosen = random.choice(len(y), 5000, replace=False)
        train, test = chosen[:3000], chosen[3000:]
        reducer = PCA(100, random_state=0).fit(X[train])
        X, y, X_test, y_test = reducer.transform(X[train]), y[train], X[test], y[test]
        X_test = reducer.transform(X_test)
    mean = X.mean(axis=0)
    scale = np.median(np.linalg.norm(X - mean, axis=1))
    X, X_test = (X - mean) / scale, (X_test - mean) / scale
    return Rows(X, y, X_test, y_test, _importance(X, y))


def branch(site: int) -> Rows:
    """Return the rows of one branch, or of the main site for 0."""
    X, y, sites, X_test, y_test, sites_test = _diabetes()
    train, test = sites == site, sites_test == site
    return Rows(X[train], y[train], X_test[test], y_test[test], main_importance())


@cache
def main_importance() -> np.ndarray:
    """Return the importances at the main site, a stand-in for what an expert would say."""
    X, y, sites, *_ = _diabetes()
    return _importance(X[sites == 0], y[sites == 0])


def score(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the AUC."""
    return float(roc_auc_score(y, model.decision_function(X)))


def fitted(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> Any:
    """Fit; a certificate that is not met would cost a second budget, and is told of."""
    for _ in range(20):
        try:
            return make().fit(X, y)
        except ConvergenceError:
            warnings.warn("a certificate was not met", stacklevel=2)
    raise ConvergenceError("twenty times")


def evaluate(make: Callable[[], Any], data: Rows, cell: Cell) -> Scores:
    """Fit to all training rows and test; for a tuned ridge, fit to two thirds and validate."""
    test = score(fitted(make, data.X, data.y), data.X_test, data.y_test)
    if cell.ridge == "auto":
        return test, np.nan
    order = np.random.default_rng(cell.repeat).permutation(len(data.y))
    part, rest = np.split(order, [len(order) // 3])
    return test, score(fitted(make, data.X[rest], data.y[rest]), data.X[part], data.y[part])


def plr(epsilon: float, cell: Cell) -> Callable[[], Any]:
    """Return what makes one regression on all columns."""
    how: dict[str, Any] = (
        {"calibration": "cms2011"} if cell.pipeline == "published" else {"loss": "capped"}
    )
    return lambda: PrivateLogisticRegression(
        epsilon, l2_reg_strength=cell.ridge, fit_intercept=False, classes=CLASSES, **how
    )


def stack(
    method: str, epsilon: float, cell: Cell, importance: np.ndarray, **options: Any
) -> Callable[[], Any]:
    """Return what makes a stack."""
    options |= {
        "l2_reg_strength": cell.ridge,
        "pipeline": cell.pipeline,
        "classes": CLASSES,
        "fit_intercept": False,
        "partition_seed": cell.repeat,
    }
    if method == "PST-S":
        options["n_parts"] = options.pop("n_groups", K)
        return lambda: SampleStackingClassifier(epsilon, **options)
    weights = importance if method == "PST-F(W)" else None
    return lambda: FeatureStackingClassifier(epsilon, importance=weights, **options)


def by_epsilon(cell: Cell) -> Scores:
    """AUC against epsilon, K = 5."""
    data = rows(cell.data, cell.repeat)
    if cell.method == "not private":
        model = LogisticRegression().fit(data.X, data.y)
        return score(model, data.X_test, data.y_test), np.nan
    if cell.method == "PLR":
        make = plr(cell.x, cell)
    elif cell.method == "PLR rescaled":
        scaler = FeatureImportanceScaler(data.importance).fit(data.X)
        data = Rows(
            scaler.transform(data.X),
            data.y,
            scaler.transform(data.X_test),
            data.y_test,
            data.importance,
        )
        make = plr(cell.x, cell)
    else:
        make = stack(cell.method, cell.x, cell, data.importance)
    return evaluate(make, data, cell)


def by_groups(cell: Cell) -> Scores:
    """AUC against K at epsilon = 1."""
    data = rows(cell.data, cell.repeat)
    make = stack(cell.method, 1.0, cell, data.importance, n_groups=int(cell.x))
    return evaluate(make, data, cell)


def by_alpha(cell: Cell) -> Scores:
    """AUC against alpha at epsilon = 1: the i-th best column counts alpha^i."""
    data = rows(cell.data, cell.repeat)
    rank = np.argsort(np.argsort(-data.importance))
    make = stack("PST-F(W)", 1.0, cell, cell.x**rank)
    return evaluate(make, data, cell)


def by_combiner(cell: Cell) -> Scores:
    """AUC of each combiner of PST-F(W) at epsilon = 1."""
    data = rows(cell.data, cell.repeat)
    combiner = {**COMBINERS, "C-hl": "stack", "C-sum": "sum"}[cell.method]
    make = stack("PST-F(W)", 1.0, cell, data.importance, combiner=combiner)
    return evaluate(make, data, cell)


@cache
def source(method: str, pipeline: str, repeat: int, ridge: float | str) -> Any:
    """Fit the main site's models; a published one costs K times its epsilon of 1."""
    data = branch(0)
    return fitted(
        lambda: TransferSourceClassifier(
            1.0,
            n_groups=1 if method == "HTL" else K,
            importance=main_importance() if method == "PST-H(W)" else None,
            l2_reg_strength=ridge,
            pipeline=pipeline,
            classes=CLASSES,
            partition_seed=repeat,
        ),
        data.X,
        data.y,
    )


def by_branch(cell: Cell) -> Scores:
    """AUC at each branch, epsilon = 1 for the main site and for the branch."""
    data = branch(int(cell.x))
    if cell.method == "PLR(target)":
        return evaluate(plr(1.0, cell), data, cell)
    released = source(cell.method, cell.pipeline, cell.repeat, cell.ridge)
    return evaluate(
        lambda: TransferStackingClassifier(
            1.0,
            source=released,
            l2_reg_strength=cell.ridge,
            pipeline=cell.pipeline,
            combiner=0 if cell.method == "HTL" else "stack",
            fit_intercept=False,
            classes=CLASSES,
        ),
        data,
        cell,
    )


TABLES: dict[str, Callable[[Cell], Scores]] = {
    "epsilon": by_epsilon,
    "groups": by_groups,
    "alpha": by_alpha,
    "combiners": by_combiner,
    "branches": by_branch,
}


def measure(cell: Cell) -> list[tuple[str, ...]]:
    """Return the AUC on test rows, and on validation rows where a ridge is to be chosen."""
    return [tuple(f"{auc:.6f}" for auc in TABLES[cell.table](cell))]


def cells(repeats: int, quick: bool) -> Iterator[Cell]:
    """Yield the cells of every table, repeat after repeat."""
    ridges = RIDGES[1:2] if quick else RIDGES
    for table in TABLES:
        for repeat in range(1 if quick else repeats):
            for pipeline in PIPELINES:
                own = pipeline == "privlr"
                for data, method, x in _plan(table, own, quick):
                    for ridge in ("auto",) if own else ridges:
                        yield Cell(table, data, method, pipeline, x, repeat, ridge)
            if table == "epsilon":
                for data in SETS:
                    yield Cell(table, data, "not private", "", 0.0, repeat, "auto")


def _plan(table: str, own: bool, quick: bool) -> Iterator[tuple[str, str, float]]:
    if table == "branches":
        sites = SITES[:2] if quick else SITES
        yield from (("diabetes", method, float(s)) for s in sites for method in TRANSFERS)
        return
    if table == "combiners":
        methods = [*COMBINERS, "C-hl", *(["C-sum"] if own else [])]
        yield from (("NEWS20", method, 1.0) for method in methods)
        return
    values, methods = {
        "epsilon": (EPSILONS, ["PLR", *STACKS, *(["PLR rescaled"] if own else [])]),
        "groups": (tuple(map(float, GROUPS)), list(STACKS)),
        "alpha": (ALPHAS, ["PST-F(W)"]),
    }[table]
    for data in SETS:
        for method in methods:
            for x in values[1::3] if quick else values:
                yield data, method, x


EXPERIMENT = Experiment(10, cells, ("auc", "validation"), measure, draw, summarise)
