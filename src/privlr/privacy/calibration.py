"""How much noise: the exact cost of objective perturbation, and its inverse.

With t = beta R W and a = W R^2/kappa (noise rate beta, row norm R, row weight W, ridge kappa
in sum form) one row takes part in the privacy loss through the norm of its gradient and the
curvature that it adds. Each loss below states the largest sum of the two that a row can
reach, and that maximum over rows is attained, so a calibration by it wastes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from privlr._validation import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
)
from privlr.exceptions import InvalidParameterError
from privlr.privacy._rounding import settle

__all__ = [
    "CALIBRATIONS",
    "LOSSES",
    "NEIGHBORING_RELATIONS",
    "Calibration",
    "auto_l2_reg_strength",
    "calibrate",
    "perturbation_beta",
    "perturbation_epsilon",
    "worst_slope",
]

LOSSES = ("logistic", "capped")
CALIBRATIONS = ("tight", "cms2011")
NEIGHBORING_RELATIONS = ("replace_one", "add_remove")

_SQRT2 = math.sqrt(2)


def _expm1(x: float) -> float:
    """Return exp(x) - 1, without overflow: all that is asked of exp(100) is to be large."""
    return math.expm1(min(x, 100.0))


def worst_slope(t: float, a: float) -> float:
    """Return the slope s of the logistic loss that maximises t s + log(1 + a s (1 - s)).

    The steepest rows have no curvature, so the maximum is at s = 1 unless a > t, and in the
    interior after that. Both forms of the quadratic's root are used, each where it does not
    cancel.

    Parameters
    ----------
    t : float
        beta R W, positive.
    a : float
        W R^2/kappa, positive.

    Returns
    -------
    float
        s, in (1/2, 1].
    """
    if a <= t:
        return 1.0
    root = math.hypot(t * math.sqrt(1 + 4 / a), 2)
    return (t - 2 + root) / (2 * t) if t > 2 else 2 * (1 + t / a) / (root - t + 2)


def _logistic_row(t: float, a: float) -> tuple[float, float]:
    s = worst_slope(t, a)
    return t * s + math.log1p(a * s * (1 - s)), s


def _capped_row(t: float, a: float) -> tuple[float, float]:
    # Slope 1/2 and curvature 1/4 do meet here, just above the kink of the curvature.
    return t / 2 + math.log1p(a / 4), 0.5


def _softmax_row(t: float, a: float) -> tuple[float, float]:
    # With more curvature than this a row may cost more than its gradient; how much is not
    # known. Just beyond, the excess is of second order, hence the allowance for rounding.
    known = a <= t / (2 * _SQRT2) * (1 + 1e-12)
    return _SQRT2 * t if known else math.inf, _SQRT2


class _Loss(NamedTuple):
    """What a loss function contributes to the cost of one row."""

    #: Largest norm of the gradient of a row of unit norm.
    max_slope: float
    #: (t, a) -> largest gradient term plus curvature term of a row, and its slope in t.
    #: Convex in t, which is what makes Newton's method safe in `perturbation_beta`.
    row_cost: Callable[[float, float], tuple[float, float]]
    #: (epsilon, t) -> largest a that the tight calibration accepts, t being the largest
    #: noise argument that epsilon could ever buy.
    largest_a: Callable[[float, float], float]


_LOGISTIC = _Loss(1.0, _logistic_row, lambda epsilon, t: t)
# The noise vanishes as the curvature takes all of epsilon: it may take half, which keeps
# beta positive, continuous and monotone in epsilon and in the ridge.
_CAPPED = _Loss(
    0.5,
    _capped_row,
    lambda epsilon, t: 4 * _expm1(epsilon / 2),
)
_SOFTMAX = _Loss(_SQRT2, _softmax_row, lambda epsilon, t: t / (2 * _SQRT2))


class _Setting(NamedTuple):
    """The checked public constants that a cost depends on."""

    loss: _Loss
    extra_rows: int
    data_norm: float
    weight: float

    def cost(self, t: float, a: float) -> tuple[float, float]:
        """Return epsilon and its slope in t.

        A replaced row is a removed one, which costs at most its gradient, and an added one.
        """
        value, slope = self.loss.row_cost(t, a)
        rest = self.extra_rows * self.loss.max_slope
        return rest * t + value, rest + slope

    def largest_t(self, epsilon: float) -> float:
        """Return the noise argument that epsilon buys if the curvature costs nothing."""
        return epsilon / ((1 + self.extra_rows) * self.loss.max_slope)

    def epsilon(self, beta: float, kappa: float) -> float:
        t = beta * self.data_norm * self.weight
        return self.cost(t, self.curvature(kappa))[0]

    def curvature(self, kappa: float) -> float:
        return self.weight * self.data_norm**2 / kappa

    def beta(self, epsilon: float, kappa: float) -> float:
        a = self.curvature(kappa)
        # The cost is convex, and at least epsilon here: Newton's method descends to the root.
        t = self.largest_t(epsilon)
        step = t
        while t > 0 and step > 2**-52 * t:
            value, slope = self.cost(t, a)
            step = (value - epsilon) / slope
            t -= step
        if t <= 0:
            raise InvalidParameterError(
                "kappa", f"larger, for any noise to give epsilon={epsilon:g}", kappa
            )
        return settle(
            t / (self.data_norm * self.weight),
            lambda beta: self.epsilon(beta, kappa) <= epsilon,
            upward=False,
        )


def _setting(
    loss: Any, neighboring_relation: Any, data_norm: Any, max_sample_weight: Any, n_classes: Any
) -> _Setting:
    check_choice("loss", loss, LOSSES)
    check_choice("neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS)
    multinomial = check_integer("n_classes", n_classes, low=2) > 2
    if multinomial and loss != "logistic":
        raise InvalidParameterError("loss", "'logistic' for more than two classes", loss)
    return _Setting(
        _SOFTMAX if multinomial else _CAPPED if loss == "capped" else _LOGISTIC,
        1 if neighboring_relation == "replace_one" else 0,
        check_positive("data_norm", data_norm),
        check_positive("max_sample_weight", max_sample_weight),
    )


def perturbation_epsilon(
    *,
    beta: float,
    kappa: float,
    data_norm: float = 1.0,
    loss: str = "logistic",
    neighboring_relation: str = "replace_one",
    max_sample_weight: float = 1.0,
    n_classes: int = 2,
) -> float:
    """Return the smallest epsilon that objective perturbation satisfies.

    Parameters
    ----------
    beta : float
        Rate of the noise: b has density proportional to exp(-beta ||b||).
    kappa : float
        Ridge in sum form, n (lambda + Delta).
    data_norm : float, default=1.0
        R, the bound on the Euclidean norm of every row, intercept entry included.
    loss : {"logistic", "capped"}, default="logistic"
        The capped loss follows its tangent below margin 0, so no slope exceeds 1/2.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What two neighbouring data sets differ by.
    max_sample_weight : float, default=1.0
        W, the bound on every sample weight.
    n_classes : int, default=2
        More than two means the joint softmax.

    Returns
    -------
    float
        The cost, in nats.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or kappa < 2 sqrt(2) R/beta with n_classes > 2, where
        the exact cost is not known.

    Notes
    -----
    With t = beta R W and a = W R^2/kappa, and m(t, a) = max_s t s + log(1 + a s (1 - s)):

    ============  ======================  ======================
    loss          replace_one             add_remove
    ============  ======================  ======================
    logistic      t + m(t, a)             m(t, a)
    capped        t + log(1 + a/4)        t/2 + log(1 + a/4)
    softmax       2 sqrt(2) t             sqrt(2) t
    ============  ======================  ======================

    **Guarantee.** The exact minimiser of the perturbed objective is epsilon-differentially
    private, and no smaller epsilon is right: `privlr.audit.extremal_pair` comes arbitrarily
    close (for capped and softmax as for logistic).

    **Neighbouring relation.** As chosen: one row replaced, or one row added or removed with
    kappa fixed without looking at the number of rows.

    **Assumptions.** Rows are bounded by a constant, every coefficient is penalised, weights
    and classes are constants, and the minimiser and the noise are exact.

    **Source.** Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011), with the Jacobian accounted
    for exactly (matrix determinant lemma) instead of by a separate bound.

    **Not covered.** Floating-point noise and inexact solvers (the certified release of
    `privlr.mechanisms` covers them), and any choice made by looking at the data.
    """
    setting = _setting(loss, neighboring_relation, data_norm, max_sample_weight, n_classes)
    epsilon = setting.epsilon(check_positive("beta", beta), check_positive("kappa", kappa))
    if math.isinf(epsilon):
        raise InvalidParameterError("kappa", "at least 2 sqrt(2) data_norm/beta", kappa)
    return epsilon


def perturbation_beta(
    *,
    epsilon: float,
    kappa: float,
    data_norm: float = 1.0,
    loss: str = "logistic",
    neighboring_relation: str = "replace_one",
    max_sample_weight: float = 1.0,
    n_classes: int = 2,
) -> float:
    """Return the largest noise rate beta, hence the least noise, that costs epsilon.

    The inverse of `perturbation_epsilon` in beta, rounded down, so that the cost recomputed
    from the result never exceeds `epsilon`.

    Parameters
    ----------
    epsilon : float
        The cost, in nats.
    kappa : float
        Ridge in sum form, n (lambda + Delta).
    data_norm : float, default=1.0
        R, the bound on the Euclidean norm of every row, intercept entry included.
    loss : {"logistic", "capped"}, default="logistic"
        See `perturbation_epsilon`.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What two neighbouring data sets differ by.
    max_sample_weight : float, default=1.0
        W, the bound on every sample weight.
    n_classes : int, default=2
        More than two means the joint softmax.

    Returns
    -------
    float
        beta; it is nondecreasing in epsilon and in kappa.

    Raises
    ------
    InvalidParameterError
        If no beta > 0 has this cost: kappa <= W R^2/(4 (exp(epsilon) - 1)) with two classes.

    Notes
    -----
    **Guarantee.**, **Neighbouring relation.**, **Assumptions.**, **Source.** and
    **Not covered.** are those of `perturbation_epsilon`.
    """
    setting = _setting(loss, neighboring_relation, data_norm, max_sample_weight, n_classes)
    return setting.beta(check_positive("epsilon", epsilon), check_positive("kappa", kappa))


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """The constants of one objective perturbation.

    Attributes
    ----------
    epsilon : float
        What was asked for; the exact cost of (beta, kappa) is at most this.
    beta : float
        Rate of the noise.
    kappa : float
        Ridge in sum form, n (lambda + Delta).
    delta_reg : float
        Delta, what was added to the user's lambda (mean form).
    """

    epsilon: float
    beta: float
    kappa: float
    delta_reg: float


def auto_l2_reg_strength(
    epsilon: float,
    *,
    n_samples: int,
    n_coefficients: int,
    data_norm: float = 1.0,
    max_sample_weight: float = 1.0,
) -> float:
    """Return lambda = W R^2 d/(2 n epsilon), the default ridge.

    Every quantity in it is public, so it costs nothing. It grows with the noise that it has
    to tame, and rescaling rows, R and coefficients together (or all weights) leaves the
    predictions as they were.

    Parameters
    ----------
    epsilon : float
        Budget of the fit.
    n_samples : int
        Number of rows (under add/remove adjacency the declared public one).
    n_coefficients : int
        d, coefficients per class, intercept included.
    data_norm : float, default=1.0
        R, the bound on the norm of a row.
    max_sample_weight : float, default=1.0
        W, the bound on a sample weight.

    Returns
    -------
    float
        lambda, in mean form.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.
    """
    return (
        check_positive("max_sample_weight", max_sample_weight)
        * check_positive("data_norm", data_norm) ** 2
        * check_integer("n_coefficients", n_coefficients)
        / (2 * check_integer("n_samples", n_samples) * check_positive("epsilon", epsilon))
    )


def calibrate(
    epsilon: float,
    *,
    n_samples: int,
    data_norm: float = 1.0,
    l2_reg_strength: float,
    loss: str = "logistic",
    calibration: str = "tight",
    neighboring_relation: str = "replace_one",
    max_sample_weight: float = 1.0,
    n_classes: int = 2,
) -> Calibration:
    """Choose the noise rate and the extra ridge of an objective perturbation.

    Parameters
    ----------
    epsilon : float
        Budget, in nats.
    n_samples : int
        Number of rows n. Public under "replace_one". Under "add_remove" it is private: give a
        number declared without looking at the data, which then also stands in the record.
    data_norm : float, default=1.0
        R, the bound on the Euclidean norm of every row, intercept entry included.
    l2_reg_strength : float
        lambda, mean form; 0 is accepted, since Delta is added where the ridge is too small.
    loss : {"logistic", "capped"}, default="logistic"
        See `perturbation_epsilon`.
    calibration : {"tight", "cms2011"}, default="tight"
        "cms2011" is the published one, for replication.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What two neighbouring data sets differ by.
    max_sample_weight : float, default=1.0
        W, the bound on every sample weight.
    n_classes : int, default=2
        More than two means the joint softmax.

    Returns
    -------
    Calibration
        beta, kappa and Delta.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or "cms2011" is asked for anything but the logistic
        loss of two classes under "replace_one".

    Notes
    -----
    "tight" raises the ridge to a floor and takes the whole of epsilon for what is left:

    * logistic: kappa >= 2 W R^2/epsilon and beta = epsilon/(2 R W); Delta is therefore
      max(0, 2 W R^2/(n epsilon) - lambda) (half the floor, twice beta under add/remove);
    * capped: kappa >= W R^2/(4 (exp(epsilon/2) - 1)), where the curvature takes half of
      epsilon, and beta = (epsilon - log(1 + W R^2/(4 kappa)))/(R W) (twice that under
      add/remove);
    * softmax: kappa >= 8 W R^2/epsilon and beta = epsilon/(2 sqrt(2) R W) (half and twice).

    beta is continuous and nondecreasing in epsilon and in lambda.

    "cms2011" is kept as published: epsilon' = epsilon - 2 log(1 + W R^2/(4 n lambda)) if
    that is positive, else Delta = W R^2/(4 n (exp(epsilon/4) - 1)) - lambda and
    epsilon' = epsilon/2; beta = epsilon'/(2 R W). Its threshold is a trap: epsilon' may be
    positive and tiny, and the noise some hundred times larger than just below the threshold
    (n=500, lambda=.01: epsilon=.1 leaves epsilon'=.0024).

    **Guarantee.** Objective perturbation with these constants is epsilon-differentially
    private; under "tight" with no slack.

    **Neighbouring relation.** As chosen: one row replaced, or one row added or removed.

    **Assumptions.** Those of `perturbation_epsilon`; n_samples is a constant.

    **Source.** "tight": exact loss by the matrix determinant lemma. "cms2011": Chaudhuri,
    Monteleoni and Sarwate, JMLR 12 (2011), Algorithm 2, with R^2 for rows of norm R.

    **Not covered.** As in `perturbation_epsilon`.
    """
    epsilon = check_positive("epsilon", epsilon)
    n = check_integer("n_samples", n_samples)
    l2_reg_strength = check_nonnegative("l2_reg_strength", l2_reg_strength)
    check_choice("calibration", calibration, CALIBRATIONS)
    setting = _setting(loss, neighboring_relation, data_norm, max_sample_weight, n_classes)
    if calibration == "tight":
        largest_a = setting.loss.largest_a(epsilon, setting.largest_t(epsilon))
        floor = setting.curvature(largest_a)
        kappa = max(n * l2_reg_strength, floor)
        beta = setting.beta(epsilon, kappa)
    elif setting.loss is not _LOGISTIC or neighboring_relation != "replace_one":
        raise InvalidParameterError(
            "calibration",
            "'tight' for anything but the logistic loss of two classes under 'replace_one'",
            calibration,
        )
    else:
        kappa, spent = _cms2011(epsilon, n * l2_reg_strength, setting)
        beta = spent / (2 * setting.data_norm * setting.weight)
    return Calibration(
        epsilon=epsilon,
        beta=beta,
        kappa=kappa,
        delta_reg=max(0.0, kappa / n - l2_reg_strength),
    )


def _cms2011(epsilon: float, ridge: float, setting: _Setting) -> tuple[float, float]:
    """Return kappa and epsilon' as published, `ridge` being n lambda."""
    left = epsilon - 2 * math.log1p(setting.curvature(4 * ridge)) if ridge > 0 else 0.0
    if left > 0:
        return ridge, left
    return setting.curvature(4 * _expm1(epsilon / 4)), epsilon / 2
