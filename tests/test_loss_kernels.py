"""The compiled loss, slope and curvature against high-precision references."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlr._solvers.loss import loss_gradient
from privlr.exceptions import InvalidParameterError

MAX_ULP = 2.5


def evaluate(margins, loss="logistic"):
    """Element-wise value, slope -phi' and curvature (the sums of single elements)."""
    margins = np.asarray(margins, dtype=float)
    ones = np.ones_like(margins)
    _, gradient, curvature = loss_gradient(margins, ones, loss=loss)
    value = [loss_gradient(m, ones[:1], loss=loss)[0] for m in margins[:, None]]
    return np.array(value), -gradient, curvature


def reference(margin):
    u = mpmath.exp(-abs(mpmath.mpf(margin)))
    slope = (1 if margin < 0 else u) / (1 + u)
    return max(-margin, 0) + mpmath.log1p(u), slope, u / (1 + u) ** 2


def error_in_ulp(computed, exact):
    return float(abs(mpmath.mpf(float(computed)) - exact) / mpmath.mpf(math.ulp(float(exact))))


def accuracy_margins():
    rng = np.random.default_rng(5)
    return np.concatenate([
        rng.uniform(-2, 2, 500),
        rng.uniform(-40, 40, 400),
        rng.uniform(-705, 705, 200),
        # the edges of the range reductions: u = 1/2, odd multiples of log(2) / 2
        np.log(2) * (np.arange(-12, 13)[:, None] / 2 + np.array([-1e-12, 0, 1e-12])).ravel(),
        [0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-17, -1e-17, 1e-8, -1e-8],
    ])


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_value_slope_and_curvature_are_within_the_stated_error(loss):
    margins = accuracy_margins()
    computed = np.array(evaluate(margins, loss)).T
    worst = np.zeros(3)
    with mpmath.workdps(50):
        for m, row in zip(margins, computed, strict=True):
            exact = reference(m)
            if loss == "capped" and m < 0:
                exact = (mpmath.log(2) - mpmath.mpf(m) / 2, mpmath.mpf(0.5), mpmath.mpf(0))
                assert row[1] == 0.5
                assert row[2] == 0.0
            errors = [error_in_ulp(c, e) for c, e in zip(row, exact, strict=True)]
            worst = np.maximum(worst, errors)
    assert worst.max() <= MAX_ULP, worst


def test_tails():
    margins = np.array([800.0, -800.0, 1e308, -1e308, 1e5, -1e5, 720.0])
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        value, slope, curvature = evaluate(margins)
    np.testing.assert_array_equal(slope[:6], [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(value[:6], [0, 800, 0, 1e308, 0, 1e5])
    np.testing.assert_array_equal(curvature[:6], 0)
    # a denormal, correct to its spacing
    denormal = float(mpmath.exp(-720))
    for result in (value[6], slope[6], curvature[6]):
        assert abs(result - denormal) <= 5e-324


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_the_smallest_numbers_decrease_to_zero(loss):
    margins = np.linspace(700, 750, 20001)
    for result in evaluate(margins, loss):
        assert np.all(np.diff(result) <= 0)
        assert result[0] > 0 == result[-1]


def test_capped_loss_meets_the_logistic_loss_at_zero():
    value, slope, _ = evaluate([0.0, -0.0], "capped")
    np.testing.assert_array_equal(value, math.log(2))
    np.testing.assert_array_equal(slope, 0.5)
    value, slope, curvature = evaluate([-1e308, -3.0], "capped")
    np.testing.assert_array_equal(value, [5e307, math.log(2) + 1.5])
    np.testing.assert_array_equal(curvature, 0)


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize(
    "payload", [0x7FF8000000000000, 0x7FF80000000FFFFF, 0xFFFFFFFFFFFFFFFF]
)
def test_nan_stays_nan_and_touches_nothing_else(loss, payload):
    raw = np.linspace(-3, 3, 21)
    clean = loss_gradient(raw, np.ones(21), loss=loss)
    raw[13] = np.array([payload], dtype=np.uint64).view(float)[0]
    total, gradient, curvature = loss_gradient(raw, np.ones(21), loss=loss)
    assert math.isnan(total)
    for dirty, good in zip((gradient, curvature), clean[1:], strict=True):
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(dirty)), [13])
        np.testing.assert_array_equal(np.delete(dirty, 13), np.delete(good, 13))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 400),
    offset=st.integers(0, 3),
    loss=st.sampled_from(["logistic", "capped"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_arrays_agree_with_their_elements(n, offset, loss, seed):
    """No result depends on its place in the array, its length or its alignment."""
    rng = np.random.default_rng(seed)
    raw = (rng.normal(size=n + offset) * 5)[offset:]
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    weight = rng.exponential(size=n)
    total, gradient, curvature = loss_gradient(raw, y, sample_weight=weight, loss=loss)
    value, slope, plain_curvature = evaluate(y * raw, loss)
    np.testing.assert_array_equal(gradient, -y * (weight * slope))
    np.testing.assert_array_equal(curvature, weight * plain_curvature)
    assert total == pytest.approx(math.fsum(weight * value), rel=1e-14)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_margin_gives_finite_results_in_range(margin):
    for loss, steepest in (("logistic", 1.0), ("capped", 0.5)):
        (value,), (slope,), (curvature,) = evaluate([margin], loss)
        assert 0 <= value < math.inf
        assert 0 <= slope <= steepest
        assert 0 <= curvature <= 0.25


def test_gradient_is_the_derivative_of_the_loss():
    raw = np.linspace(-8, 8, 161) + 0.03
    y = np.where(np.arange(161) % 2, 1.0, -1.0)
    for loss in ("logistic", "capped"):
        _, gradient, curvature = loss_gradient(raw, y, loss=loss)
        h = 1e-5
        above, below = (evaluate(y * (raw + step), loss) for step in (h, -h))
        np.testing.assert_allclose(gradient, (above[0] - below[0]) / (2 * h), atol=1e-9)
        np.testing.assert_allclose(curvature, -y * (above[1] - below[1]) / (2 * h), atol=1e-9)


def test_read_only_input_is_accepted():
    raw, y = np.zeros(3), np.ones(3)
    raw.flags.writeable = y.flags.writeable = False
    total, _, _ = loss_gradient(raw, y, sample_weight=y)
    assert total == pytest.approx(3 * math.log(2))


def test_wrong_arguments_are_named():
    x = np.zeros(3)
    with pytest.raises(InvalidParameterError, match=r"len\(y\)"):
        loss_gradient(x, x[:2])
    with pytest.raises(InvalidParameterError, match=r"len\(sample_weight\)"):
        loss_gradient(x, x, sample_weight=x[:2])
    with pytest.raises(InvalidParameterError, match="loss must be"):
        loss_gradient(x, x, loss="hinge")
