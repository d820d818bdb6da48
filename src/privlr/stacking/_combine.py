"""From the models below to one prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from privlr.exceptions import InvalidParameterError
from privlr.stacking._low_level import LowLevelModel, Part, raw_predictions

__all__ = [
    "META_GAIN",
    "META_NORM",
    "VOTES",
    "check_combiner",
    "combined",
    "high_level_prior",
    "meta_features",
    "prior_bound",
    "probabilities",
]

Array = NDArray[np.float64]

VOTES = ("vote", "weighted_vote")
#: Meta features, with the constant of the intercept appended, are clipped to this length.
META_NORM = 1.0
#: Few rows reach the largest raw prediction that their length allows; enlarged by this the
#: common ones fill the ball, and the upper level's noise is small beside them.
META_GAIN = 6.0


def check_combiner(combiner: Any, n_models: int) -> None:
    """Refuse what is no combiner of so many models.

    Parameters
    ----------
    combiner : object
        What the caller gave.
    n_models : int
        Number of models below.

    Raises
    ------
    InvalidParameterError
        If it is neither a known name nor the number of a model.
    """
    if isinstance(combiner, str):
        known = combiner in ("stack", "sum", *VOTES)
    else:
        whole = isinstance(combiner, Integral) and not isinstance(combiner, bool)
        known = whole and 0 <= combiner < n_models
    if not known:
        raise InvalidParameterError(
            "combiner",
            f"'stack', 'sum', 'vote', 'weighted_vote' or a model from 0 to {n_models - 1}",
            combiner,
        )


def meta_features(models: Sequence[LowLevelModel], raw: Array, published: bool) -> Array:
    """Return what the upper level sees of each row.

    The models are released already, so any function of them and of one row is free.

    Parameters
    ----------
    models : sequence of LowLevelModel
        Models below.
    raw : ndarray of shape (n_samples, n_models * n_outputs)
        Their raw predictions.
    published : bool
        True: probabilities, divided by the root of their number so that a row has at most
        norm 1. False: raw predictions, all times the same constant of the models.

    Returns
    -------
    ndarray of shape (n_samples, n_models * n_outputs)
        Not yet clipped.
    """
    if published:
        probability: Array = expit(raw) / math.sqrt(len(models))
        return probability
    return raw * (META_GAIN / _largest(models))


def high_level_prior(models: Sequence[LowLevelModel], *, intercept: bool, longest: float) -> Array:
    """Return the coefficients over `meta_features` that give the combiner "sum".

    Parameters
    ----------
    models : sequence of LowLevelModel
        Models below.
    intercept : bool
        Whether a constant, with coefficient 0, is appended.
    longest : float
        From `prior_bound`; the prior is no longer.

    Returns
    -------
    ndarray of shape (n_outputs * (n_models * n_outputs + intercept),)
        Output after output.
    """
    outputs = len(models[0].coef_)
    weight = _largest(models) / (META_GAIN * _repeats(models))
    prior = np.tile(np.eye(outputs), len(models)) * weight
    # The lattice's noise may carry released coefficients a little beyond what is planned.
    prior *= min(1.0, longest / float(np.linalg.norm(prior)))
    return np.hstack([prior, np.zeros((outputs, 1))] if intercept else [prior]).ravel()


def prior_bound(parts: Sequence[Part]) -> float:
    """Bound the length of `high_level_prior` before any model is fitted.

    Parameters
    ----------
    parts : sequence of Part
        Plans of the models below.

    Returns
    -------
    float
        From public constants only.
    """
    outputs = parts[0].plan.accuracy.n_outputs
    reach = [part.plan.coef_bound * part.plan.accuracy.data_norm for part in parts]
    return math.hypot(*reach) / META_GAIN * math.sqrt(outputs * len(parts))


def combined(
    models: Sequence[LowLevelModel],
    X: Any,
    combiner: str | int,
    *,
    published: bool,
    coef: Array | None,
    intercept: Array | None,
) -> Array:
    """Return the prediction of all models together.

    Parameters
    ----------
    models : sequence of LowLevelModel
        Models below.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Rows.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int
        How.
    published : bool
        As in `meta_features`.
    coef : ndarray of shape (n_outputs, n_models * n_outputs) or None
        Coefficients of the upper level, where there is one.
    intercept : ndarray of shape (n_outputs,) or None
        Its intercepts.

    Returns
    -------
    ndarray of shape (n_samples,) or (n_samples, n_classes)
        Log-odds, or for the votes a number in [-1, 1], of the second of two classes; with
        more classes one value a class.

    Raises
    ------
    InvalidParameterError
        If there is no upper level for "stack".
    """
    if combiner == "stack":
        if coef is None or intercept is None:
            raise InvalidParameterError("combiner", "other than 'stack', as in the fit", combiner)
        meta = meta_features(models, raw_predictions(models, X), published)
        raw = meta @ coef.T + intercept
    elif combiner in VOTES:
        raw = _votes(models, X, weighted=combiner == "weighted_vote")
    elif combiner == "sum":
        outputs = len(models[0].coef_)
        raw = raw_predictions(models, X).reshape(-1, len(models), outputs)
        raw = raw.sum(axis=1) / _repeats(models)
    else:
        raw = models[int(combiner)].raw_prediction(X)
    return raw[:, 0] if raw.shape[1] == 1 else raw


def probabilities(combined: Array, combiner: str | int) -> Array:
    """Return class probabilities; for the votes, shares of the votes.

    Parameters
    ----------
    combined : ndarray of shape (n_samples,) or (n_samples, n_classes)
        From `combined`.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int
        How they were combined.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Each row adds up to 1.
    """
    if combiner in VOTES:
        two = combined.ndim == 1
        return np.column_stack([1 - combined, 1 + combined]) / 2 if two else combined
    if combined.ndim == 1:
        return np.column_stack([expit(-combined), expit(combined)])
    shares: Array = softmax(combined, axis=1)
    return shares


def _largest(models: Sequence[LowLevelModel]) -> float:
    """Bound on the length of the raw predictions of one row by all models."""
    return math.hypot(*(model.reach for model in models)) or 1.0


def _repeats(models: Sequence[LowLevelModel]) -> int:
    """How often each column is seen: predictions from other columns add up, others average."""
    same = all(np.array_equal(models[0].columns, model.columns) for model in models)
    return len(models) if same else 1


def _votes(models: Sequence[LowLevelModel], X: Any, *, weighted: bool) -> Array:
    """Votes for the second of two classes less those for the first; else a share a class."""
    shares = np.array([model.share if weighted else 1.0 for model in models])
    total = 0.0
    for share, model in zip(shares / shares.sum(), models, strict=True):
        raw = model.raw_prediction(X)
        if raw.shape[1] == 1:
            total = total + share * np.where(raw > 0, 1.0, -1.0)
        else:
            total = total + share * np.eye(raw.shape[1])[raw.argmax(axis=1)]
    return np.asarray(total)
