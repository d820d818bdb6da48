"""The demonstration: private models of real digits, at several budgets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from privlr import datasets
from privlr.linear_model import PrivateLogisticRegression

__all__ = ["EPSILONS", "LOSSES", "Budget", "dataset", "non_private_auc", "run"]

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
LOSSES = ("logistic", "capped")


@dataclass(frozen=True, eq=False)
class Budget:
    """What repeated fits at one epsilon gave.

    Attributes
    ----------
    loss : str
        Loss of the fits.
    epsilon : float
        Budget of each fit.
    auc : ndarray of shape (n_repeats,)
        Test AUC of each fit.
    noise : float
        Expected norm of the noise vector, d / beta.
    certificate : float
        Bound on the gradient norm that every solve met.
    """

    loss: str
    epsilon: float
    auc: NDArray[np.float64]
    noise: float
    certificate: float


def dataset() -> tuple[str, datasets.Dataset]:
    """Choose the data.

    Returns
    -------
    name, dataset : str, Dataset
        MNIST 0 against 8 if the environment variable PRIVLR_DATA is set, else the digits
        that ship with scikit-learn.
    """
    if os.environ.get(datasets.ENVIRONMENT):
        return "MNIST, 0 against 8", datasets.load_mnist_0_8()
    return "scikit-learn's digits, even against odd", datasets.load_digits()


def run(data: datasets.Dataset, *, repeats: int) -> Iterator[Budget]:
    """Fit every loss at every epsilon.

    Parameters
    ----------
    data : Dataset
        Two classes.
    repeats : int
        Fits of each kind; they differ in nothing but the noise.

    Yields
    ------
    Budget
        One for each loss and epsilon, as soon as it is done.
    """
    classes = np.unique(data.y_train)
    for loss in LOSSES:
        for epsilon in EPSILONS:
            models = [_fitted(data, classes.tolist(), epsilon, loss) for _ in range(repeats)]
            auc = [
                roc_auc_score(data.y_test, model.decision_function(data.X_test)) for model in models
            ]
            record = models[0].privacy_
            d = models[0].coef_.size + 1
            yield Budget(loss, epsilon, np.array(auc), d / record.beta, record.certificate)


def non_private_auc(data: datasets.Dataset) -> float:
    """Score the same model without privacy.

    Parameters
    ----------
    data : Dataset
        Two classes.

    Returns
    -------
    float
        Test AUC of scikit-learn's logistic regression.
    """
    model = LogisticRegression(max_iter=1000).fit(data.X_train, data.y_train)
    return _auc(model, data)


def _auc(model: Any, data: datasets.Dataset) -> float:
    return float(roc_auc_score(data.y_test, model.decision_function(data.X_test)))


def _fitted(
    data: datasets.Dataset, classes: Sequence[int], epsilon: float, loss: str
) -> PrivateLogisticRegression:
    model = PrivateLogisticRegression(epsilon, data_norm=data.data_norm, loss=loss, classes=classes)
    return model.fit(data.X_train, data.y_train)
