"""The experiments on ADMM sharing, and what they leave out.

Noise is seeded, so that a run can be repeated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from privlr import solve
from privlr._experiments.admm_figures import draw, summarise
from privlr._experiments.run import Experiment
from privlr.datasets import load_a9a, load_gisette_like
from privlr.exceptions import PrivacyWarning
from privlr.stacking import FeatureStackingClassifier
from privlr.vertical import VerticalLogisticRegression, fdml_sgd

DELTA = 1e-5
EPSILONS: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
#: Step sizes of each method: rho, or the learning rate of SGD on a9a.
CURVES: dict[str, tuple[float, ...]] = {
    "ADMM, Boyd": (0.02, 0.05, 0.1),
    "ADMM, Jacobi": (0.1, 0.2, 0.4, 0.8),
    "SGD": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
EPOCHS = 40


@dataclass(frozen=True)
class Data:
    """A data set, cut into the parties' columns; labels -1 and +1."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    columns: tuple[range, ...]
    norms: tuple[float, ...]  # public bounds on a row of each party

    @property
    def l2(self) -> float:
        """lambda of the mean objective: 1 in sum form."""
        return 1 / len(self.y)

    def parties(self, X: Any) -> list[Any]:
        """The columns of each party."""
        return [X[:, part.start : part.stop] for part in self.columns]

    def scores(self, coef: Any) -> tuple[float, float, float]:
        """Training objective, test log loss and test AUC of coefficients."""
        loss = np.logaddexp(0, -self.y * (self.X @ coef)).mean()
        raw = self.X_test @ coef
        penalty = self.l2 / 2 * (coef @ coef)
        test = np.logaddexp(0, -self.y_test * raw).mean()
        return loss + penalty, test, roc_auc_score(self.y_test, raw)


@cache
def data(name: str) -> Data:
    """Load a data set in the split of the publication."""
    norms: tuple[float, ...]
    columns: tuple[range, ...]
    if name == "a9a":  # the first 8 and the last 6 attributes of the census form
        found, norms, columns = load_a9a(), (8**0.5, 6**0.5), (range(66), range(66, 123))
    else:
        found, norms = load_gisette_like(), (1.0, 1.0, 1.0)
        columns = (range(2000), range(2000, 4000), range(4000, 5000))
    X, X_test = (M.astype(np.float64) for M in (found.X_train, found.X_test))
    return Data(X, found.y_train, X_test, found.y_test, columns, norms)


def vertical(d: Data, repeat: int, **options: Any) -> VerticalLogisticRegression:
    """Fit; the noise of a repeat is its own."""
    model = VerticalLogisticRegression(
        d.columns,
        l2_reg_strength=d.l2,
        fit_intercept=False,
        random_state=repeat if "epsilon" in options else None,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.fit(d.X, d.y)


def admm_curve(d: Data, form: str, rho: float, over_relaxation: float) -> list[tuple[Any, ...]]:
    """Objective and test loss after each round."""
    model = VerticalLogisticRegression(
        d.columns,
        l2_reg_strength=d.l2,
        fit_intercept=False,
        form=form,
        rho=rho,
        over_relaxation=over_relaxation,
        max_iter=EPOCHS,
        tol=0,
    ).fit(d.X, d.y, eval_set=(d.X_test, d.y_test))
    return [(it.round, it.objective, it.test_log_loss, "") for it in model.history_]


def sgd_curve(d: Data, learning_rate: float) -> list[tuple[Any, ...]]:
    """Objective and test loss after each epoch."""
    rows: list[tuple[Any, ...]] = []
    fdml_sgd(
        d.parties(d.X),
        d.y,
        l2_reg_strength=d.l2,
        learning_rate=learning_rate,
        epochs=EPOCHS,
        callback=lambda epoch, coefs: rows.append((epoch, *d.scores(np.concatenate(coefs)))),
    )
    return rows


def stacked(d: Data, epsilon: float, repeat: int, loss: str) -> Any:
    """PST-F with a group for each party, none of whose rows is clipped."""
    importance = np.concatenate(
        [
            np.full(len(part), norm / len(part))
            for part, norm in zip(d.columns, d.norms, strict=True)
        ]
    )
    model = FeatureStackingClassifier(
        epsilon,
        groups=d.columns,
        importance=importance,
        data_norm=sum(d.norms),
        loss=loss,
        classes=[-1, 1],
        random_state=repeat,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(d.X, d.y)
    raw = np.log(model.predict_proba(d.X_test))
    raw = raw[:, 1] - raw[:, 0]
    return "", np.logaddexp(0, -d.y_test * raw).mean(), roc_auc_score(d.y_test, raw)


def alone(d: Data, which: slice) -> Any:
    """A model of some columns, without noise."""
    coef = np.zeros(d.X.shape[1])
    coef[which] = solve(d.X[:, which], d.y, l2_reg_strength=d.l2).coef
    return d.scores(coef)


#: What each private method adds to epsilon and delta.
PRIVATE: dict[str, dict[str, Any]] = {
    "shares, rho=.05": {"rho": 0.05},
    "shares, rho=.2": {"rho": 0.2},
    "statistics, labels": {"release": "statistics"},
    "statistics, residuals": {"release": "statistics", "targets": "residuals"},
    # Half of epsilon pays for the labels, which the others disclose.
    "statistics, randomised labels": {"release": "statistics", "classes": [-1, 1]},
    "published, 10 rounds": {"mechanism": "published", "max_iter": 10, "tol": 0},
}


#: The loss of each stack over the parties.
STACKED = {"PST-F": "capped", "PST-F, logistic loss": "logistic"}


@dataclass(frozen=True)
class Cell:
    """One fit: where its results belong."""

    table: str
    data: str
    method: str
    setting: float
    repeat: int = 0

    def run(self) -> list[tuple[Any, ...]]:
        """Return rows of epoch, objective, test log loss and AUC."""
        d = data(self.data)
        if self.table == "curves":
            if self.method == "SGD":
                return sgd_curve(d, self.setting)
            form = "jacobi" if self.method == "ADMM, Jacobi" else "boyd"
            return admm_curve(d, form, self.setting, 1.0 if form == "jacobi" else 1.6)
        if self.method == "centralised":
            return [(0, *alone(d, slice(None)))]
        if self.method == "first party alone":
            return [(0, *alone(d, slice(0, len(d.columns[0]))))]
        if self.method in STACKED:
            return [(0, *stacked(d, self.setting, self.repeat, STACKED[self.method]))]
        options = {"data_norm": d.norms, **PRIVATE[self.method]}
        epsilon = self.setting
        if "classes" in options:
            epsilon = options["label_epsilon"] = self.setting / 2
        model = vertical(d, self.repeat, epsilon=epsilon, delta=DELTA, **options)
        return [(0, *d.scores(model.coef_[0]))]


def cells(repeats: int, quick: bool) -> Iterator[Cell]:
    """Yield all fits, those without noise first; the quick ones are the middle settings of a9a."""
    names = ("a9a",) if quick else ("a9a", "gisette-like")
    middle = slice(1, 2) if quick else slice(None)
    for name in names:
        for method, settings in CURVES.items():
            scale = 10 if method == "SGD" and name != "a9a" else 1
            for setting in settings[middle]:
                yield Cell("curves", name, method, scale * setting)
        for method in ("centralised", "first party alone"):
            yield Cell("privacy", name, method, 0.0)
    for name in names:
        for method in (*PRIVATE, *STACKED):
            for epsilon in (EPSILONS if name == "a9a" else EPSILONS[::2])[middle]:
                for repeat in range(repeats if name == "a9a" and not quick else 1):
                    yield Cell("privacy", name, method, epsilon, repeat)


EXPERIMENT = Experiment(
    3, cells, ("epoch", "objective", "log_loss", "auc"), Cell.run, draw, summarise
)
