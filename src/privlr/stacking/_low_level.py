"""The models below: one private regression on some rows and some columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privlr._validation import check_nonnegative, unless_auto
from privlr.design import make_designs
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import LATTICE_SHARE, Plan, RandomSource, certify, objective_perturbation
from privlr.objective import Accuracy
from privlr.privacy import (
    Calibration,
    Charge,
    PrivacyRecord,
    auto_l2_reg_strength,
    calibrate_groups,
    perturbation_epsilon,
)
from privlr.stacking._partition import FeatureGroup, Index, Rows

__all__ = [
    "LowLevelModel",
    "Part",
    "designs",
    "labels_of",
    "plan_groups",
    "raw_of",
    "raw_predictions",
    "upper_designs",
]

#: Below this no size has a certified release.
SMALLEST_SHARE = 1e-30

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LowLevelModel:
    """A released model of a stack.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Columns of X that it takes, in the order of its coefficients.
    share : float
        q_k, its weight in a weighted vote.
    data_norm : float
        Bound that a row's columns (and the constant) are clipped to before they meet the
        coefficients, in training and in prediction.
    coef_ : ndarray of shape (1, n_columns) or (n_classes, n_columns)
        Coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Coefficients of the constant.
    has_intercept : bool
        Whether rows carry the constant 1.
    privacy_ : PrivacyRecord
        Guarantee of this model alone.
    """

    columns: Index
    share: float
    data_norm: float
    coef_: Array
    intercept_: Array
    has_intercept: bool
    privacy_: PrivacyRecord

    def raw_prediction(self, X: Any) -> Array:
        """Raw predictions for clipped rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            All columns of the stack; finite.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs)
            Each a function of its own row and of the model; float64.
        """
        return raw_predictions([self], X)

    @cached_property
    def reach(self) -> float:
        """Largest length that the raw predictions of a row may have."""
        square = np.vdot(self.coef_, self.coef_) + np.vdot(self.intercept_, self.intercept_)
        return math.sqrt(square) * self.data_norm


@dataclass(frozen=True, eq=False)
class Part:
    """A model to be fitted: public constants only.

    Attributes
    ----------
    rows : ndarray or range
        Its rows of the data, sorted; where they are not dealt, as many.
    group : FeatureGroup
        Its columns.
    plan : Plan
        The mechanism's constants.
    key : int
        Its stream in a seeded run. A function of the part itself, so that the order in
        which parts are listed changes no model.
    intercept : bool
        Whether rows carry the constant 1.
    prior_mean : ndarray or None
        Centre of its penalty.
    """

    rows: Rows
    group: FeatureGroup
    plan: Plan
    key: int
    intercept: bool = False
    prior_mean: Array | None = None

    def design(self, X: Any) -> Any:
        """Clip this part of the data.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_samples, n_features)
            All rows and columns of the data.

        Returns
        -------
        Design
            Its rows and columns, each row with a factor that clips it.

        Raises
        ------
        InvalidParameterError
            X holds a NaN or an infinity there.
        """
        return designs([self], X)[0]

    def fit(self, design: Any, labels: Array, random: RandomSource) -> LowLevelModel:
        """Run the mechanism.

        Parameters
        ----------
        design : Design
            From `design`.
        labels : ndarray of shape (n_samples,)
            Encoded labels of its rows.
        random : RandomSource
            That of the whole stack.

        Returns
        -------
        LowLevelModel
            What was released.

        Raises
        ------
        ConvergenceError
            The certificate was not met; nothing is released and the budget stays spent.
        EntropyError
            The operating system's generator failed.
        """
        release = objective_perturbation(
            design,
            labels,
            self.plan,
            prior_mean=self.prior_mean,
            random=random.at(self.key),
        )
        width = len(self.group.columns)
        return LowLevelModel(
            self.group.columns,
            self.group.share,
            self.plan.accuracy.data_norm,
            np.ascontiguousarray(release.coef[:, :width]),
            release.coef[:, -1].copy() if self.intercept else np.zeros(len(release.coef)),
            self.intercept,
            release.record,
        )


def designs(parts: Sequence[Part], X: Any, n_jobs: int | None = None) -> list[Any]:
    """Clip every part of the data.

    Parameters
    ----------
    parts : sequence of Part
        At least one.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        All rows and columns of the data.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    list of Design
        As of `Part.design`.

    Raises
    ------
    InvalidParameterError
        X holds a NaN or an infinity there.
    """
    if not _same_rows(parts):
        return [part.design(X) for part in parts]
    return _cut(parts, X, np.asarray(parts[0].rows), n_jobs)


def upper_designs(
    parts: Sequence[Part], X: Any, rows: Rows, lower: Sequence[Any], n_jobs: int | None = None
) -> list[Any]:
    """Clip the rows of the upper level as every model below will see them.

    Parameters
    ----------
    parts : sequence of Part
        At least one.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        All rows and columns of the data.
    rows : ndarray of int
        Those of the upper level, sorted.
    lower : sequence of Design
        From `designs`, which serve again where the levels share their rows.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    list of Design
        One a part, for `raw_of`.

    Raises
    ------
    InvalidParameterError
        X holds a NaN or an infinity there.
    """
    if all(part.rows is rows for part in parts):
        return list(lower)
    if _same_rows(parts):
        return _cut(parts, X, np.asarray(rows), n_jobs)
    # Parts of the rows have all columns: one copy serves them all.
    return _cut(parts, X[rows], None, n_jobs)


def _cut(parts: Sequence[Part], X: Any, rows: Index | None, n_jobs: int | None) -> list[Any]:
    """Cut the columns of every part out of the same rows, and clip them to its bound."""
    return list(
        make_designs(
            X,
            [part.group.columns for part in parts],
            rows=rows,
            intercept=1.0 if parts[0].intercept else 0.0,
            data_norms=[part.plan.accuracy.data_norm for part in parts],
            n_jobs=n_jobs,
        )
    )


def labels_of(parts: Sequence[Part], labels: Array) -> list[Array]:
    """Select the labels of every part.

    Parameters
    ----------
    parts : sequence of Part
        At least one.
    labels : ndarray of shape (n_samples,)
        Of all rows.

    Returns
    -------
    list of ndarray
        One a part.
    """
    if not _same_rows(parts):
        return [labels[part.rows] for part in parts]
    return [labels[parts[0].rows]] * len(parts)


def _same_rows(parts: Sequence[Part]) -> bool:
    return all(part.rows is parts[0].rows for part in parts)


def raw_predictions(models: Sequence[LowLevelModel], X: Any) -> Array:
    """Raw predictions of models of one stack for clipped rows.

    Parameters
    ----------
    models : sequence of LowLevelModel
        At least one.
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        All columns of the stack; finite.

    Returns
    -------
    ndarray of shape (n_samples, n_models * n_outputs)
        Each a function of its own row and of its model; float64.
    """
    if X.shape[0] == 0:  # a design has rows
        return np.empty((0, sum(len(model.coef_) for model in models)))
    rows = make_designs(
        X,
        [model.columns for model in models],
        intercept=1.0 if models[0].has_intercept else 0.0,
        data_norms=[model.data_norm for model in models],
    )
    return raw_of(models, rows)


def raw_of(models: Sequence[LowLevelModel], rows: Iterable[Any]) -> Array:
    """Raw predictions of models for the rows that each has a design of.

    Parameters
    ----------
    models : sequence of LowLevelModel
        At least one.
    rows : iterable of Design
        One a model, clipped to its bound.

    Returns
    -------
    ndarray of shape (n_samples, n_models * n_outputs)
        As of `raw_predictions`.
    """
    raw = []
    for model, design in zip(models, rows, strict=True):
        whole = np.column_stack([model.coef_, model.intercept_])[:, : design.width]
        raw += [design.dots(w) for w in np.ascontiguousarray(whole)]
    return np.column_stack(raw)


def plan_groups(
    epsilon: float,
    groups: Sequence[FeatureGroup],
    *,
    n_samples: int,
    data_norm: float,
    l2_reg_strength: float | str,
    loss: str,
    published: bool,
    n_classes: int,
    prior_norms: Sequence[float],
) -> tuple[Plan, ...]:
    """Fix the public constants of feature groups that share each row's budget.

    Parameters
    ----------
    epsilon : float
        Budget of all groups together, of which 1/128 pays for their lattices.
    groups : sequence of FeatureGroup
        Group k is clipped to data_norm times its share q_k, and pays q_k of the lattices'
        budget.
    n_samples : int
        Rows of the low level.
    data_norm : float
        R, of which group k gets q_k.
    l2_reg_strength : float or "auto"
        Of each group; "auto" is R^2 d_k/(2 n epsilon) with the number d_k of its columns. The
        share q_k is not in it: noise has the same rate in every group, and a group of small
        share must not answer with large coefficients.
    loss : {"logistic", "capped"}
        Loss of every group.
    published : bool
        Whether to calibrate as the paper does.
    n_classes : int
        Number of classes.
    prior_norms : sequence of float
        Lengths of the vectors that the penalties are centred at.

    Returns
    -------
    tuple of Plan
        One for each group.

    Raises
    ------
    InvalidParameterError
        A parameter is outside its range, or no certified release exists for such values.

    Notes
    -----
    **Guarantee.** The models fitted under these plans are together epsilon-differentially
    private.

    **Neighbouring relation.** One row, all its groups, replaced.

    **Assumptions.** Groups and shares are constants, the shares add up to at most 1.

    **Source.** Guo et al., IJCAI 2019, PST-F, with :func:`privlr.privacy.calibrate_groups`
    and the certified release of :func:`privlr.mechanisms.certify` in every group.

    **Not covered.** Importances computed from the private rows.
    """
    lattice = epsilon * LATTICE_SHARE
    noise = math.nextafter(epsilon - lattice, 0.0)
    shares = [group.share for group in groups]
    widths = [len(group.columns) for group in groups]
    if min(shares) < SMALLEST_SHARE:
        raise _small_share(min(shares), f"at least {SMALLEST_SHARE:g}")
    ridge = unless_auto("l2_reg_strength", l2_reg_strength, check_nonnegative)
    if ridge is None:
        ridges = [
            auto_l2_reg_strength(
                epsilon, n_samples=n_samples, n_coefficients=width, data_norm=data_norm
            )
            for width in widths
        ]
    else:
        ridges = [ridge] * len(groups)
    calibrations = calibrate_groups(
        noise,
        shares,
        n_samples=n_samples,
        l2_reg_strength=ridges,
        data_norm=data_norm,
        loss=loss,
        calibration="published" if published else "tight",
        n_classes=n_classes,
    )

    @cache  # many groups are alike
    def _certified(chosen: Calibration, share: float, width: int, prior_norm: float) -> Plan:
        norm = data_norm * share
        cost = chosen.epsilon
        if published:
            cost = perturbation_epsilon(beta=chosen.beta, kappa=chosen.kappa, data_norm=norm)
        try:
            return certify(
                chosen,
                Accuracy(n_samples, width, 1 if n_classes == 2 else n_classes, norm, 1.0),
                lattice_epsilon=lattice * share,
                prior_norm=prior_norm,
                record={
                    "epsilon": cost + lattice * share,
                    "neighboring_relation": "replace_one",
                    "loss": loss,
                    "calibration": "published" if published else "tight",
                    "beta": chosen.beta,
                    "kappa": chosen.kappa,
                    "R": norm,
                    "n_samples": n_samples,
                    "n_classes": n_classes,
                    "charges": (
                        Charge("objective perturbation", Fraction(cost)),
                        Charge("lattice release", Fraction(lattice * share)),
                    ),
                },
            )
        except InvalidParameterError as error:
            if share == 1 or not error.accepted.startswith("at least"):
                raise
            raise _small_share(share, f"large enough: share * epsilon {error.accepted}") from None

    return tuple(map(_certified, calibrations, shares, widths, prior_norms))


def _small_share(share: float, accepted: str) -> InvalidParameterError:
    where = "give its columns more importance, or none"
    return InvalidParameterError("share of a group", f"{accepted}; {where}", share)
