"""Calibrations of feature-partitioned stacking: one row, cut in groups, is charged once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from privlr._validation import check_choice, check_integer, check_nonnegative, check_positive
from privlr.exceptions import InvalidParameterError
from privlr.privacy.calibration import Calibration, calibrate

__all__ = ["calibrate_groups"]


def calibrate_groups(
    epsilon: float,
    importance: Sequence[float],
    *,
    n_samples: int,
    l2_reg_strength: float | Sequence[float],
    data_norm: float = 1.0,
    loss: str = "logistic",
    calibration: str = "tight",
    n_classes: int = 2,
) -> tuple[Calibration, ...]:
    """Calibrate the objective perturbations of K feature groups of the same rows.

    Parameters
    ----------
    epsilon : float
        Budget of all groups together.
    importance : sequence of K floats
        q_k > 0 with sum at most 1. Group k's part of a row must be clipped to norm R q_k.
    n_samples : int
        Number of rows that the low level is fitted on, not of the whole data set.
    l2_reg_strength : float or sequence of K floats
        lambda_k, mean form.
    data_norm : float, default=1.0
        R.
    loss : {"logistic", "capped"}, default="logistic"
        See `perturbation_epsilon`.
    calibration : {"tight", "published"}, default="tight"
        "published" is that of the stacking paper, logistic loss and two classes only.
    n_classes : int, default=2
        Number of classes; see `calibrate`.

    Returns
    -------
    tuple of K Calibration
        For group k; under "tight" the field epsilon is the group's share, epsilon q_k, and the
        shares add up to the cost. Under "published" it is the epsilon_k of the paper, which
        stands for a cost of epsilon_k q_k plus that of the Jacobian.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or the q_k add up to more than 1.

    Notes
    -----
    "tight" gives group k the budget epsilon q_k for rows of norm R q_k: for the logistic loss
    beta = epsilon/(2 R) in every group and Delta_k = max(0, 2 R^2 q_k/(n epsilon) - lambda_k).

    "published": epsilon' = epsilon - sum_k 2 log(1 + R^2 q_k^2/(4 n lambda_k)). If positive,
    epsilon_k = epsilon' and Delta_k = 0. Else epsilon_k = epsilon/2 and
    Delta_k = R^2 q_k^2/(4 n (exp(epsilon q_k/4) - 1)) - lambda_k, here clamped at 0 because
    the paper's may be negative. beta = epsilon_k/(2 R).

    **Guarantee.** The K models together are epsilon-differentially private.

    **Neighbouring relation.** One row, all its groups, replaced.

    **Assumptions.** Those of `perturbation_epsilon` in each group; q_k and lambda_k are
    constants.

    **Source.** "published": Guo et al., Privacy-preserving stacking, IJCAI 2019, PST-F.
    "tight": the exact loss of each group, added over groups.

    **Not covered.** Importances computed from the private rows.
    """
    epsilon = check_positive("epsilon", epsilon)
    q = [check_positive("importance", value, high=1.0) for value in importance]
    # Binary fractions of a decimal partition may add up to a few ulp more than 1.
    total = math.fsum(q)
    if not q or total > 1 + 1e-12:
        raise InvalidParameterError("importance", "numbers that add up to at most 1", importance)
    ridges = _per_group(l2_reg_strength, len(q))
    check_choice("calibration", calibration, ("tight", "published"))
    if calibration == "tight":

        @cache  # many groups are alike
        def _alone(q_k: float, ridge: float) -> Calibration:
            return calibrate(
                epsilon * q_k / max(total, 1.0),
                n_samples=n_samples,
                data_norm=data_norm * q_k,
                l2_reg_strength=ridge,
                loss=loss,
                n_classes=n_classes,
            )

        return tuple(map(_alone, q, ridges))
    check_choice("loss", loss, ("logistic",))
    if n_classes != 2:
        raise InvalidParameterError("n_classes", "2 under 'published'", n_classes)
    return _published(epsilon, q, ridges, n_samples, check_positive("data_norm", data_norm))


def _per_group(l2_reg_strength: float | Sequence[float], n_groups: int) -> list[float]:
    values = l2_reg_strength if isinstance(l2_reg_strength, Sequence) else [l2_reg_strength]
    ridges = [check_nonnegative("l2_reg_strength", value) for value in values]
    if len(ridges) == 1:
        return ridges * n_groups
    if len(ridges) != n_groups:
        raise InvalidParameterError("l2_reg_strength", f"1 or {n_groups} numbers", l2_reg_strength)
    return ridges


def _published(
    epsilon: float, q: list[float], ridges: list[float], n_samples: int, data_norm: float
) -> tuple[Calibration, ...]:
    n = check_integer("n_samples", n_samples)
    norms = [data_norm * q_k for q_k in q]
    left = -math.inf
    if all(ridges):
        left = epsilon - 2 * math.fsum(
            math.log1p(norm**2 / (4 * n * ridge)) for norm, ridge in zip(norms, ridges, strict=True)
        )
    if left > 0:
        epsilon_k, extra = left, [0.0] * len(q)
    else:
        epsilon_k = epsilon / 2
        extra = [
            max(0.0, norm**2 / (4 * n * math.expm1(min(epsilon * q_k / 4, 100.0))) - ridge)
            for norm, q_k, ridge in zip(norms, q, ridges, strict=True)
        ]
    return tuple(
        Calibration(
            epsilon=epsilon_k,
            beta=epsilon_k / (2 * data_norm),
            kappa=n * (ridge + delta_reg),
            delta_reg=delta_reg,
        )
        for ridge, delta_reg in zip(ridges, extra, strict=True)
    )
