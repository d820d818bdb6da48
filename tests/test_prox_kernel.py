"""The z-minimisation against exact residuals.

The oracle takes the computed z, evaluates the optimality condition there without
rounding error that matters, and divides by its slope: the result is z's error.
"""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlr._solvers.prox import logistic_prox
from privlr.exceptions import InvalidParameterError

MAX_ULP = 4.0
KAPPAS = np.concatenate(
    [
        np.geomspace(1e-8, 1e9, 44),
        # where the number of steps or the start changes
        [1e-3, 0.01, np.nextafter(0.01, 1), 0.5, 2.0, np.nextafter(2.0, 3)],
    ]
)
needs_extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="needs an 80-bit long double"
)


def exact_products(x, factor):
    """x * factor as an unevaluated sum (Dekker)."""

    def split(v):
        scaled = v * 134217729.0
        high = scaled - (scaled - v)
        return high, v - high

    product = x * factor
    (xh, xl), (fh, fl) = split(x), split(np.full_like(x, factor))
    return product, ((xh * fh - product) + xh * fl + xl * fh) + xl * fl


def errors(z, s, a, y, c, rho):
    """Error of each z in ulp of max(1, |z|), for moderate magnitudes.

    Of rho (z - s) - a - c y sigma(-y z), everything is summed exactly but
    c sigma(-|z|), which needs no more than an extended double.
    """
    extended = np.longdouble
    u = np.exp(-np.abs(z).astype(extended))
    small = extended(c) * u / (1 + u)
    high = small.astype(float)
    low = (small - high).astype(float)
    wrong = y * z < 0  # there sigma(-y z) = 1 - sigma(-|z|)
    sign = np.where(wrong, y, -y)
    terms = [
        *exact_products(z, rho),
        *exact_products(s, -rho),
        -a,
        sign * high,
        sign * low,
        np.where(wrong, -y * c, 0.0),
    ]
    residual = np.array([math.fsum(row) for row in zip(*terms, strict=True)])
    slope = rho + (small / (1 + u)).astype(float)
    return np.abs(residual / slope) / np.spacing(np.maximum(1, np.abs(z)))


def mpmath_error(z, s, a, y, c, rho):
    """The same for one z of any magnitude."""
    with mpmath.workprec(2400):
        z_, s_, a_, c_, rho_ = (mpmath.mpf(float(v)) for v in (z, s, a, c, rho))
        u = mpmath.exp(-abs(z_)) if abs(z_) < 1e6 else mpmath.mpf(0)
        sigma = (1 if y * z_ < 0 else u) / (1 + u)
        residual = rho_ * (z_ - s_) - a_ - c_ * y * sigma
        slope = rho_ + c_ * u / (1 + u) ** 2
        return float(abs(residual / slope) / mpmath.mpf(math.ulp(max(1.0, abs(float(z))))))


def cases(kappa, n, rng):
    """Problems whose solutions spread over the whole bend of the loss and far beyond,
    and, in the second half, whose s and a / rho nearly cancel."""
    t = np.concatenate(
        [
            rng.normal(size=n) * 3,
            rng.uniform(-1, 1, n),
            rng.uniform(-50, 50, n),
            np.sinh(rng.uniform(-15, 15, n)),
        ]
    )
    rho = 10.0 ** rng.uniform(-2, 2)
    y = np.where(rng.random(t.size) < 0.5, -1.0, 1.0)
    s = y * (t + kappa * (0.5 * np.tanh(t / 2) - 0.5))
    a = np.zeros_like(s)
    a[::2] = rng.normal(size=t.size // 2) * kappa * rho * 10.0 ** rng.uniform(0, 3)
    return s - a / rho, a, y, kappa * rho, rho


@needs_extended
def test_error_stays_within_the_bound_on_a_large_grid():
    rng = np.random.default_rng(11)
    count, worst = 0, 0.0
    for kappa in KAPPAS:
        s, a, y, c, rho = cases(kappa, 500, rng)
        z = logistic_prox(s, a, y, c=c, rho=rho)
        found = errors(z, s, a, y, c, rho)
        worst = max(worst, found.max())
        count += z.size
        # the oracle itself
        for i in rng.integers(0, z.size, 2):
            exact = mpmath_error(z[i], s[i], a[i], y[i], c, rho)
            assert found[i] == pytest.approx(exact, abs=0.02)
    assert count >= 100_000
    assert worst <= MAX_ULP


@pytest.mark.parametrize("kappa", [1e-8, 1e-3, 0.3, 1.0, 7.0, 100.0, 1e9, 1e30, 1e200])
def test_error_stays_within_the_bound_for_extreme_input(kappa):
    tiny = [0.0, -0.0, 5e-324, -5e-324, 1e-310, 2e-308, -1e-20, 1e-20]
    turning = [-kappa / 2, -kappa, np.nextafter(-kappa, 0), -2 * kappa, kappa]
    huge = [1e16, -1e16, 1e150, -1e150, 1e300, -1e300, 1e308, -1e308]
    s = np.array([*tiny, *turning, *huge, 746.0, -746.0, 720.0, -720.0])
    for y in (1.0, -1.0):
        labels = np.full_like(s, y)
        z = logistic_prox(s, np.zeros_like(s), labels, c=kappa, rho=1.0)
        for s_i, z_i in zip(s, z, strict=True):
            assert mpmath_error(z_i, s_i, 0.0, y, kappa, 1.0) <= MAX_ULP
        # the same numbers as the linear term
        np.testing.assert_array_equal(
            logistic_prox(np.zeros_like(s), s, labels, c=kappa, rho=1.0), z
        )


def test_cancelling_terms_lose_nothing():
    s = np.full(3, 1e10)
    a = np.array([-1e9, -1e9, -1e9]) - np.array([0.0, 1.0, 1e-3])
    z = logistic_prox(s, a, np.ones(3), c=1.0, rho=0.1)
    for i in range(3):
        assert mpmath_error(z[i], s[i], a[i], 1.0, 1.0, 0.1) <= MAX_ULP


@pytest.mark.parametrize("kappa", [1e20, 1.2e34, 1e100])
def test_what_is_left_when_the_linear_term_cancels_the_loss(kappa):
    """s is below a rounding error of kappa, and all that the solution depends on."""
    s = np.array([1.0, -1.0, 1e10, 1e16, -1e16, 1e19])
    z = logistic_prox(s, np.full_like(s, -kappa), np.ones_like(s), c=kappa, rho=1.0)
    for s_i, z_i in zip(s, z, strict=True):
        assert mpmath_error(z_i, s_i, -kappa, 1.0, kappa, 1.0) <= MAX_ULP


def test_overflow_saturates():
    most = np.finfo(float).max
    s = np.array([most, -most])
    for rho in (1.0, 1e-200):  # a / rho itself overflows
        z = logistic_prox(s, s, np.ones(2), c=rho, rho=rho)
        np.testing.assert_array_equal(z, s)


def test_without_a_loss_the_quadratic_is_solved():
    rng = np.random.default_rng(2)
    s, a = rng.normal(size=(2, 100)) * 10
    y = np.ones(100)
    z = logistic_prox(s, a, y, c=0.0, rho=1.0)
    np.testing.assert_array_max_ulp(z, s + a, maxulp=1)


finite = st.floats(-1e6, 1e6, allow_subnormal=True)


@settings(deadline=None, max_examples=100)
@given(
    s=finite,
    a=finite,
    y=st.sampled_from([-1.0, 1.0]),
    log_kappa=st.floats(-8, 9),
    log_rho=st.floats(-6, 6),
)
def test_the_optimality_condition_holds(s, a, y, log_kappa, log_rho):
    rho = 10.0**log_rho
    c = rho * 10.0**log_kappa
    (z,) = logistic_prox(*np.array([[s], [a], [y]]), c=c, rho=rho)
    assert mpmath_error(z, s, a, y, c, rho) <= MAX_ULP


@settings(deadline=None, max_examples=100)
@given(
    s=st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=40),
    y=st.sampled_from([-1.0, 1.0]),
    log_kappa=st.floats(-8, 9),
)
def test_z_grows_with_s_and_no_faster(s, y, log_kappa):
    s = np.sort(s)
    z = logistic_prox(s, np.zeros_like(s), np.full_like(s, y), c=10.0**log_kappa, rho=1.0)
    slack = 2 * MAX_ULP * np.spacing(np.maximum(1, np.abs(z[1:])))
    slack += np.spacing(np.abs(s[1:])) + np.spacing(np.abs(s[:-1]))
    assert np.all(np.diff(z) >= -slack)
    assert np.all(np.diff(z) <= np.diff(s) + slack)
    assert np.all(y * (z - s) >= -slack.max(initial=0.0))


@settings(deadline=None, max_examples=50)
@given(n=st.integers(0, 300), offset=st.integers(0, 3), kappa=st.sampled_from([1e-3, 0.5, 50.0]))
def test_arrays_agree_with_their_elements(n, offset, kappa):
    rng = np.random.default_rng(n)
    s, a, y = rng.normal(size=(3, n + offset))[:, offset:] * 4
    y = np.sign(y)
    z = logistic_prox(s, a, y, c=kappa, rho=1.0)
    for i in range(n):
        (alone,) = logistic_prox(s[i : i + 1], a[i : i + 1], y[i : i + 1], c=kappa, rho=1.0)
        assert z[i] == alone


@pytest.mark.parametrize("kappa", [1e-3, 0.5, 50.0])
def test_nan_stays_nan_and_touches_nothing_else(kappa):
    s, a, y = np.linspace(-3, 3, 21), np.linspace(1, -1, 21), np.ones(21)
    clean = logistic_prox(s, a, y, c=kappa, rho=1.0)
    s[4] = a[9] = y[15] = np.nan
    z = logistic_prox(s, a, y, c=kappa, rho=1.0)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(z)), [4, 9, 15])
    keep = ~np.isnan(z)
    np.testing.assert_array_equal(z[keep], clean[keep])


def test_read_only_input_is_accepted():
    x = np.zeros(4)
    x.flags.writeable = False
    assert logistic_prox(x, x, x + 1, rho=1.0) == pytest.approx(0.401058137541547)


def test_wrong_arguments_are_named():
    x = np.zeros(3)
    with pytest.raises(InvalidParameterError, match=r"len\(a\)"):
        logistic_prox(x, x[:2], x, rho=1.0)
    with pytest.raises(InvalidParameterError, match=r"len\(y\)"):
        logistic_prox(x, x, x[:2], rho=1.0)
    for c, rho in [
        (1.0, 0.0),
        (1.0, -1.0),
        (-1.0, 1.0),
        (math.nan, 1.0),
        (1.0, math.nan),
        (math.inf, 1.0),
        (1.0, math.inf),
        (1.0, 1e-310),
        (1e300, 1e-3),
    ]:
        with pytest.raises(InvalidParameterError, match="rho"):
            logistic_prox(x, x, x, c=c, rho=rho)
