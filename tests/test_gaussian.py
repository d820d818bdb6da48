"""Gaussian differential privacy against mpmath, dp-accounting and published values."""

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlr.exceptions import InvalidParameterError
from privlr.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu


@pytest.mark.parametrize(
    ("rounds", "multiplier", "delta", "expected"),
    [
        (1, 1, 1e-5, 4.37717810),
        (1, 1, 1e-9, 6.17393505),
        (1, 2, 1e-5, 1.99309140),
        (1, 10, 1e-5, 0.34066936),
        (10, 1, 1e-5, 17.85658683),
        (10, 5, 1e-5, 2.59438338),
        (50, 10, 1e-6, 3.30760072),
        (100, 20, 1e-6, 2.25408465),
        (1000, 100, 1e-6, 1.36757148),
    ],
)
def test_epsilon_values(rounds, multiplier, delta, expected):
    epsilon = gaussian_epsilon(mu=math.sqrt(rounds) / multiplier, delta=delta)
    assert epsilon == pytest.approx(expected, abs=6e-9)


@pytest.mark.parametrize(
    ("epsilon", "expected"), [(0.5, 7.0318), (1, 3.7306), (2, 1.9938), (4, 1.0812)]
)
def test_noise_multiplier_values(epsilon, expected):
    assert 1 / gaussian_mu(epsilon=epsilon, delta=1e-5) == pytest.approx(expected, abs=6e-5)


def test_single_values():
    assert gaussian_mu(epsilon=1, delta=1e-5) == pytest.approx(0.2681, abs=6e-5)
    assert gaussian_delta(mu=0.7, epsilon=0.8) == pytest.approx(0.0631784, abs=6e-8)


def reference_delta(mu, epsilon):
    """The defining formula with enough digits to survive its cancellation."""
    with mpmath.workdps(150):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
            -mu / 2 - epsilon / mu
        )


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 0.03, 0.5, 0.999, 1.0, 3.0, 12.0, 40.0])
@pytest.mark.parametrize("tail", [0.0, 0.3, 1.0, 3.0, 10.0, 30.0])
def test_delta_against_mpmath(mu, tail):
    """`tail` places epsilon so many standard deviations above the mean of the loss."""
    for epsilon in {tail * mu, tail * mu + mu**2 / 2}:
        expected = reference_delta(mu, epsilon)
        assert gaussian_delta(mu=mu, epsilon=epsilon) == pytest.approx(float(expected), rel=5e-13)


@settings(max_examples=200, deadline=None)
@given(st.floats(-12, 50), st.floats(-36, 6))
def test_delta_is_as_accurate_for_every_epsilon(log_epsilon, a):
    """`a` places mu/2 - epsilon/mu, whose terms cancel where epsilon is large."""
    epsilon = 10**log_epsilon
    root = math.hypot(a, math.sqrt(2 * epsilon))
    mu = a + root if a > 0 else 2 * epsilon / (root - a)
    expected = reference_delta(mu, epsilon)
    if expected > 1e-300:
        assert abs(gaussian_delta(mu=mu, epsilon=epsilon) / expected - 1) < 5e-13


def test_delta_at_the_ends_of_the_range():
    assert gaussian_delta(mu=1e-50, epsilon=1e50) == 0
    assert gaussian_delta(mu=1e-50, epsilon=0) == pytest.approx(
        1e-50 / math.sqrt(2 * math.pi), rel=1e-13
    )
    assert gaussian_delta(mu=1e50, epsilon=1) == 1
    with np.errstate(all="raise", under="ignore"):
        assert 0 < gaussian_delta(mu=1, epsilon=37) < 1e-280


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 5.0, 60.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_epsilon_against_dp_accounting(multiplier, delta):
    expected = dp_accounting.get_epsilon_gaussian(multiplier, delta)
    found = gaussian_epsilon(mu=1 / multiplier, delta=delta)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_mu_against_dp_accounting(epsilon, delta):
    expected = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert 1 / gaussian_mu(epsilon=epsilon, delta=delta) == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.floats(-8, 2), st.floats(-250, -0.01))
def test_epsilon_inverts_delta_and_rounds_up(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = gaussian_epsilon(mu=mu, delta=delta)
    assert gaussian_delta(mu=mu, epsilon=epsilon) <= delta
    if epsilon > 0:
        assert gaussian_delta(mu=mu, epsilon=epsilon * (1 - 1e-11)) >= delta * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.just(0.0), st.floats(-8, 3).map(lambda x: 10**x)), st.floats(-250, -0.01))
def test_mu_inverts_delta_and_rounds_down(epsilon, log_delta):
    delta = 10**log_delta
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    assert gaussian_delta(mu=mu, epsilon=epsilon) <= delta
    assert gaussian_delta(mu=mu * (1 + 1e-11), epsilon=epsilon) >= delta * (1 - 1e-12)


@pytest.mark.parametrize("epsilon", [1e16, 1e30, 1e40, 1e50])
@pytest.mark.parametrize("delta", [1e-200, 1e-5, 0.4])
def test_an_enormous_epsilon_has_its_mu(epsilon, delta):
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    assert mu == pytest.approx(math.sqrt(2 * epsilon), rel=1e-6)
    assert gaussian_delta(mu=mu, epsilon=epsilon) <= delta


def test_a_large_delta_needs_no_epsilon():
    assert gaussian_epsilon(mu=0.1, delta=0.5) == 0


@pytest.mark.parametrize("value", [0, 1, -0.1, math.nan, True, "0.1"])
def test_delta_outside_the_unit_interval_is_refused(value):
    for function, name in ((gaussian_epsilon, "mu"), (gaussian_mu, "epsilon")):
        with pytest.raises(InvalidParameterError, match="delta"):
            function(**{name: 1.0, "delta": value})


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True])
def test_bad_mu_and_epsilon_are_refused(value):
    with pytest.raises(InvalidParameterError, match="mu"):
        gaussian_delta(mu=value, epsilon=1)
    with pytest.raises(InvalidParameterError, match="epsilon"):
        gaussian_delta(mu=1, epsilon=value)
