"""Gaussian differential privacy: delta, epsilon and mu from each other, exactly.

A mechanism is mu-GDP if telling two neighbouring data sets apart is no easier than telling
N(0, 1) from N(mu, 1). T releases of sensitivity C under N(0, sigma^2 I) are
sqrt(T) C/sigma-GDP, however adaptive.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from privlr._validation import check_nonnegative, check_positive, check_probability
from privlr.privacy._rounding import settle

__all__ = ["gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def gaussian_delta(*, mu: float, epsilon: float) -> float:
    """Return the smallest delta with which mu-GDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, positive.
    epsilon : float
        0 or positive.

    Returns
    -------
    float
        delta, in [0, 1]; relative error below 5e-13 down to 1e-300.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    delta = Phi(a) - exp(epsilon) Phi(a - mu) with a = mu/2 - epsilon/mu. The second term is
    evaluated as exp(-a^2/2) erfcx((mu - a)/sqrt 2)/2, in which exp(epsilon) has cancelled
    on paper. In the upper tail exp(-a^2/2) comes out of both terms, and for small mu the
    difference of the two erfcx is the integral of the derivative, which cannot cancel.

    **Guarantee.** mu-GDP implies (epsilon, delta)-DP, and no smaller delta does.

    **Neighbouring relation.** That of the mu-GDP statement.

    **Assumptions.** The mechanism is mu-GDP.

    **Source.** Balle and Wang, ICML 2018, Theorem 8; Dong, Roth and Su, JRSS B 84 (2022).

    **Not covered.** How mu was obtained.
    """
    return _delta(_check_mu(mu), check_nonnegative("epsilon", epsilon))


def _check_mu(mu: float) -> float:
    # As small as floats go: so is the mu of a tiny delta.
    return check_positive("mu", mu, low=sys.float_info.min)


def _delta(mu: float, epsilon: float) -> float:
    a = mu / 2 - epsilon / mu
    if a < -80 - 1e-15 * mu:
        return 0.0  # far below the smallest float, however a was rounded
    # The two terms of a cancel where epsilon is large: it is rounded once.
    a = float((Fraction(mu) / 2 * Fraction(mu) - Fraction(epsilon)) / Fraction(mu))
    upper = (mu - a) / math.sqrt(2)
    tail = math.exp(-(a**2) / 2) / 2
    if mu >= 1:
        if a > 0:
            return float(ndtr(a) - tail * erfcx(upper))
        return tail * float(erfcx(-a / math.sqrt(2)) - erfcx(upper))
    half_width = mu / math.sqrt(8)
    z = upper - half_width + half_width * _NODES
    return tail * half_width * float(_WEIGHTS @ (2 / math.sqrt(math.pi) - 2 * z * erfcx(z)))


def _log_excess(mu: float, epsilon: float, delta: float) -> float:
    """Return log(gaussian_delta/delta), which is smooth enough for a root finder."""
    reached = _delta(mu, epsilon)
    return math.log(reached) - math.log(delta) if reached > 0 else -1e4


def _log_excess_at(log_mu: float, epsilon: float, delta: float) -> float:
    return _log_excess(math.exp(log_mu), epsilon, delta)


def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """Return the smallest epsilon with which mu-GDP implies (epsilon, delta)-DP.

    Rounded up: `gaussian_delta` of the result never exceeds `delta`.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, positive.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        epsilon, 0 if `delta` is met without any.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee.**, **Neighbouring relation.**, **Assumptions.**, **Source.** and
    **Not covered.** are those of `gaussian_delta`.
    """
    mu = _check_mu(mu)
    delta = check_probability("delta", delta)
    if _delta(mu, 0.0) <= delta:
        return 0.0
    # Phi(a) alone is below delta here, by the Gaussian tail bound.
    high = mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta))
    root = brentq(
        lambda epsilon: _log_excess(mu, epsilon, delta), 0.0, high, xtol=1e-300, rtol=1e-15
    )
    return settle(root, lambda epsilon: _delta(mu, epsilon) <= delta, upward=True)


def gaussian_mu(*, epsilon: float, delta: float) -> float:
    """Return the largest mu with which mu-GDP implies (epsilon, delta)-DP.

    Rounded down: `gaussian_delta` of the result never exceeds `delta`. Its inverse is the
    noise multiplier sigma/C of one Gaussian release.

    Parameters
    ----------
    epsilon : float
        0 or positive.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    float
        mu.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range.

    Notes
    -----
    **Guarantee.**, **Neighbouring relation.**, **Assumptions.**, **Source.** and
    **Not covered.** are those of `gaussian_delta`.
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    delta = check_probability("delta", delta)
    # Private enough: delta <= .4 mu always, and delta <= Phi(a) below the Gaussian tail bound.
    tail = math.sqrt(-2 * math.log(delta))
    low = max(delta, 2 * epsilon / (tail + math.hypot(tail, math.sqrt(2 * epsilon))))
    high = 2 * max(low, 1.0)
    while _delta(high, epsilon) <= delta:
        high *= 2
    bracket, given = (math.log(low), math.log(high)), (epsilon, delta)
    if _log_excess_at(bracket[0], *given) < 0:
        low = math.exp(brentq(_log_excess_at, *bracket, given, xtol=1e-300, rtol=1e-15))
    # Otherwise epsilon is so large that rounding is coarser than the distance to the root.
    return settle(low, lambda mu: _delta(mu, epsilon) <= delta, upward=False)
