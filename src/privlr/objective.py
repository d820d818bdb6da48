"""The regularised logistic objective as data, and how exactly it can be evaluated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Accuracy", "Problem"]

#: Unit roundoff of float64.
UNIT = 2.0**-53

#: What an entry of a gradient may be without adding to its length: the root of the least double.
UNDERFLOW = 2.0**-537

#: Most rows that a pass sums without compensation (PRIVLR_PLAIN_ROWS in design.h).
BLOCK_ROWS = 256


def gamma(k: float) -> float:
    """Bound on the relative error of k successive float64 roundings, k u / (1 - k u).

    Parameters
    ----------
    k : float
        Number of roundings, far below 1/u.

    Returns
    -------
    float
        The bound.
    """
    return k * UNIT / (1.0 - k * UNIT)


@dataclass(frozen=True)
class Accuracy:
    """How far a computed gradient can be from the exact one.

    The bound follows a pass of the kernels operation by operation: raw
    predictions are sums of `width` products in any order; slopes are Lipschitz
    in them; a gradient entry is a plain sum within a block of at most `BLOCK_ROWS`
    rows and a compensated one across blocks (Higham 2002, sections 3.1 and 4.3).

    Attributes
    ----------
    n_samples, width : int
        Rows, and coefficients per output.
    n_outputs : int
        1, or the number of classes of the softmax loss.
    data_norm : float
        Bound on the length of every row (with its constant).
    max_sample_weight : float, default=1.0
        Bound on every sample weight.
    max_offset : float, default=0.0
        Largest absolute offset of a raw prediction.
    """

    n_samples: int
    width: int
    n_outputs: int
    data_norm: float
    max_sample_weight: float = 1.0
    max_offset: float = 0.0

    @property
    def slope_norm(self) -> float:
        """Bound on the length of a sample's gradient in its raw predictions."""
        return 1.0 if self.n_outputs == 1 else math.sqrt(2.0)

    @property
    def total_slope(self) -> float:
        """Bound on the length of the data term's gradient."""
        return self.n_samples * self.data_norm * self.max_sample_weight * self.slope_norm

    def gradient_error(self, coef_norm: float, linear_norm: float, ridge: float) -> float:
        """Bound on the Euclidean error of the computed sum-form gradient.

        Parameters
        ----------
        coef_norm : float
            Bound on ``||w|| + ||prior_mean||``.
        linear_norm : float
            Bound on the length of the linear term.
        ridge : float
            Sum-form ridge strength kappa.

        Returns
        -------
        float
            The bound.
        """
        raw = gamma(self.width + 5) * (self.data_norm * coef_norm + self.max_offset)
        if self.n_outputs == 1:
            slope = raw / 4 + 4 * UNIT
        else:
            slope = raw / 2 + (2 * self.n_outputs + 8) * UNIT
        rows = self.n_samples * self.data_norm * self.max_sample_weight
        data = rows * (gamma(BLOCK_ROWS + 8) * (self.slope_norm + slope) + slope)
        lost = math.sqrt(self.width * self.n_outputs) * UNDERFLOW
        return data + gamma(4) * (ridge * coef_norm + linear_norm + self.total_slope) + lost

    def coef_bound(self, linear_norm: float, ridge: float, prior_norm: float) -> float:
        """Bound on the length of the exact minimiser.

        Two inequalities hold at the minimiser w with r = ||w - u||: its gradient
        vanishes, so ridge r <= linear + total slope; and its value is no larger
        than the one at u, so ridge/2 r^2 <= linear r + n W loss(u).

        Parameters
        ----------
        linear_norm : float
            Bound on the length of the linear term.
        ridge : float
            Sum-form ridge strength kappa.
        prior_norm : float
            Bound on the length of the prior mean.

        Returns
        -------
        float
            The bound.
        """
        by_gradient = (linear_norm + self.total_slope) / ridge
        loss_at_prior = (
            math.log(max(2, self.n_outputs)) + self.slope_norm * self.data_norm * prior_norm
        )
        total_loss = self.n_samples * self.max_sample_weight * loss_at_prior
        by_value = 2 * linear_norm / ridge + math.sqrt(2 * total_loss / ridge)
        return prior_norm + min(by_gradient, by_value)


@dataclass(frozen=True, eq=False)
class Problem:
    """A frozen ridge logistic regression in sum form.

    The objective is ::

        F(w) = sum_i weight_i phi(offset_i + a_i . w, y_i)
               + ridge/2 ||w - prior_mean||^2 + linear . w

    Attributes
    ----------
    design : Design
        The rows a_i; see :func:`privlr.design.make_design`.
    y : ndarray of shape (n,), float64
        -1 and +1, or class indices 0 .. n_outputs - 1 where ``n_outputs > 1``.
    ridge : float
        kappa > 0.
    loss : {"logistic", "capped"}, default="logistic"
        The loss function; "logistic" where there are several outputs.
    n_outputs : int, default=1
        1, or the number of classes of the softmax loss.
    sample_weight : ndarray of shape (n,), float64, or None, default=None
        Weights, not negative; None stands for ones.
    offset : ndarray of shape (n,) or (n, n_outputs), float64, or None, default=None
        Added to the raw predictions.
    linear : ndarray of shape (n_outputs * width,), float64, or None, default=None
        Coefficients of the linear term.
    prior_mean : ndarray of shape (n_outputs * width,), float64, or None, default=None
        Where the penalty is centred; None is the origin.
    """

    design: object
    y: NDArray[np.float64]
    ridge: float
    loss: str = "logistic"
    n_outputs: int = 1
    sample_weight: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None
    linear: NDArray[np.float64] | None = field(default=None, repr=False)
    prior_mean: NDArray[np.float64] | None = field(default=None, repr=False)
