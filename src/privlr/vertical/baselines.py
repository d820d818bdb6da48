"""What vertical learning is compared with: FDML-style stochastic gradient descent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from privlr._validation import check_integer, check_positive
from privlr.exceptions import InvalidParameterError
from privlr.vertical._rows import party_rows

__all__ = ["fdml_sgd"]

Array = NDArray[np.float64]


def fdml_sgd(
    parties: Sequence[Any],
    y: ArrayLike,
    *,
    l2_reg_strength: float,
    learning_rate: float,
    epochs: int = 10,
    batch_size: int = 100,
    seed: int = 0,
    callback: Callable[[int, tuple[Array, ...]], Any] | None = None,
) -> tuple[Array, ...]:
    """Run synchronous FDML without privacy: minibatch descent, a step of each party at a time.

    Parameters
    ----------
    parties : sequence of matrices of shape (n_samples, n_columns)
        Columns of each party.
    y : array-like of shape (n_samples,)
        Labels -1 and +1.
    l2_reg_strength : float
        lambda of the mean objective.
    learning_rate : float
        eta; step t is eta/sqrt(t).
    epochs : int, default=10
        Passes over the samples.
    batch_size : int, default=100
        Samples of a step.
    seed : int, default=0
        Of the order of the samples.
    callback : callable or None, default=None
        Called after each epoch with its number, from 1, and the coefficients.

    Returns
    -------
    tuple of ndarray
        Coefficients of each party.

    Raises
    ------
    InvalidParameterError
        A parameter is out of range.

    Notes
    -----
    Hu, Niu, Yang and Zhou, FDML, KDD 2019: the parties push their scores of a minibatch,
    pull the sum, and step by ``mean(l'(sum) D_m) + lambda x_m``.
    """
    blocks = [party_rows(X, f"party {i}") for i, X in enumerate(parties)]
    labels = np.asarray(y, dtype=np.float64)
    n = blocks[0].shape[0]
    if labels.shape != (n,) or any(X.shape[0] != n for X in blocks):
        raise InvalidParameterError("y", f"of shape ({n},), as many as every party", labels.shape)
    penalty = check_positive("l2_reg_strength", l2_reg_strength)
    eta, batch = (
        check_positive("learning_rate", learning_rate),
        check_integer("batch_size", batch_size),
    )
    random, step = np.random.default_rng(seed), 0
    coefs = tuple(np.zeros(X.shape[1]) for X in blocks)
    for epoch in range(1, check_integer("epochs", epochs) + 1):
        order = random.permutation(n)
        for start in range(0, n, batch):
            chosen = np.sort(order[start : start + batch])
            rows, target, step = [X[chosen] for X in blocks], labels[chosen], step + 1
            total = sum(X @ coef for X, coef in zip(rows, coefs, strict=True))
            slope = -target * expit(-target * total) / len(chosen)
            for X, coef in zip(rows, coefs, strict=True):
                coef -= eta / math.sqrt(step) * (slope @ X + penalty * coef)
        if callback is not None:
            callback(epoch, coefs)
    return coefs
