"""From the models below to one prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privlr.stacking._low_level import LowLevelModel

__all__ = ["VOTES", "meta_features", "votes"]

Array = NDArray[np.float64]

VOTES = ("vote", "weighted_vote")


def meta_features(models: Sequence[LowLevelModel], X: Any, published: bool) -> Array:
    """Return what the upper level sees of each row.

    The models are released already, so any function of them and of one row is free.

    Parameters
    ----------
    models : sequence of LowLevelModel
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    published : bool
        True: probabilities, divided by the root of their number so that a row has at most
        norm 1. False: normalised margins, in [-1, 1].

    Returns
    -------
    ndarray of shape (n_samples, n_models * n_outputs)
    """
    if published:
        raw = np.hstack([model.raw_prediction(X) for model in models])
        probability: Array = expit(raw) / math.sqrt(len(models))
        return probability
    return np.hstack([model.margin(X) for model in models])


def votes(models: Sequence[LowLevelModel], X: Any, *, weighted: bool) -> Array:
    """Return the models' vote.

    Parameters
    ----------
    models : sequence of LowLevelModel
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    weighted : bool
        By the share of a model; otherwise each has one vote.

    Returns
    -------
    ndarray of shape (n_samples, 1) or (n_samples, n_classes)
        For two classes the votes for the second less those for the first, as a share of
        all; else the share of each class.
    """
    shares = np.array([model.share if weighted else 1.0 for model in models])
    total = 0.0
    for share, model in zip(shares / shares.sum(), models, strict=True):
        raw = model.raw_prediction(X)
        if raw.shape[1] == 1:
            total = total + share * np.where(raw > 0, 1.0, -1.0)
        else:
            total = total + share * np.eye(raw.shape[1])[raw.argmax(axis=1)]
    return np.asarray(total)
