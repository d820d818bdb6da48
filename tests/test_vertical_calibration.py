"""How far a row moves a share: closed forms, adversarial searches, and the accounting."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from privlr.exceptions import InvalidParameterError
from privlr.privacy import (
    calibrate_shares,
    calibrate_statistics,
    gaussian_delta,
    published_share_sigma,
    share_sensitivity,
    value_sensitivity,
)
from privlr.vertical._ridge import make_ridge


def share(D, v, radius, alpha):
    """The ideal share D x, by the library's own solver."""
    ridge = make_ridge(np.ascontiguousarray(D), alpha, radius)
    ridge.solve(v if ridge.dual else v @ D)
    return D @ ridge.coef


def into_ball(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1.0)


def moved(D, row, v, radius, alpha):
    other = D.copy()
    other[-1] = row
    return float(np.linalg.norm(share(D, v, radius, alpha) - share(other, v, radius, alpha)))


@pytest.mark.parametrize(
    ("radius", "clip", "alpha", "expected"),
    [
        (1, 2, 1, 2.061553),
        (1, 5, 1, 3.464102),
        (1, 20, 20, 4.494441),
        (1, 20, 100, 2.690725),
        (1, 20, 0.01, 8.715503),
        (1, 1, 7, 2.0),
        (3, 0.5, 1e-3, 6.0),
    ],
)
def test_closed_forms(radius, clip, alpha, expected):
    found = share_sensitivity(radius=radius, clip=clip, alpha=alpha)
    assert found == pytest.approx(expected, abs=6e-7)


def test_sharp_pair():
    """N - 1 copies of e_1 that all ask for b, and a row that turns round and asks for nothing."""
    b, n, alpha = 3.0, 1000, 10.0
    D = np.ones((n, 1))
    v = np.full(n, b)
    v[-1] = 0.0
    distance = moved(D, np.array([-1.0]), v, b, alpha)
    assert distance == pytest.approx(2 * b * (n - 1) / (n + alpha), rel=1e-12)
    assert distance == pytest.approx(5.9347, abs=6e-5)
    assert 1.97 * b <= distance <= share_sensitivity(radius=b, clip=b, alpha=alpha)


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(-1, 1.5), st.floats(-2, 1))
def test_random_neighbours(seed, log_alpha, log_clip, log_radius):
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 12), rng.integers(1, 6)
    radius, alpha = 10**log_radius, 10**log_alpha
    clip = radius * 10**log_clip
    D = into_ball(rng.normal(size=(n, d)) * rng.choice([0.1, 1, 10]))
    row = into_ball(rng.normal(size=d) * rng.choice([0.1, 1, 10]))
    v = clip * np.sign(rng.normal(size=n)) * rng.choice([1.0, rng.random()], size=n)
    bound = share_sensitivity(radius=radius, clip=clip, alpha=alpha)
    assert moved(D, row, v, radius, alpha) <= bound * (1 + 1e-9)


def climb(distance, start, steps, rng):
    """Keep every random move that increases the distance."""
    best, value, size = start, distance(*start), 1.0
    for _ in range(steps):
        scale = size * 10 ** rng.uniform(-2, 0)
        trial = tuple(part + scale * rng.normal(size=part.shape) for part in best)
        reached = distance(*trial)
        if reached > value:
            best, value = trial, reached
    return value


@pytest.mark.parametrize(
    ("radius", "clip", "alpha"), [(1.0, 1.0, 0.05), (1.0, 2.0, 1.0), (1.0, 5.0, 1.0), (1.0, 20, 20)]
)
def test_hill_climbing_stays_below(radius, clip, alpha):
    bound = share_sensitivity(radius=radius, clip=clip, alpha=alpha)

    def distance(D, row, v):
        v = np.clip(v, -clip, clip)
        return moved(into_ball(D), into_ball(row), v, radius, alpha)

    reached = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 25)), int(rng.integers(1, 3))
        start = np.ones((n, d)), -np.ones(d), clip * np.ones(n) * rng.choice([1.0, 0.1])
        reached.append(climb(distance, start, 250, rng))
    assert max(reached) <= bound * (1 + 1e-9)
    assert max(reached) >= 1.97 * radius  # the search is not a weak one


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_a_zeroed_row_moves_half_as_far(seed):
    rng = np.random.default_rng(seed)
    n, d, alpha = rng.integers(1, 12), rng.integers(1, 5), 10 ** rng.uniform(-3, 2)
    D = into_ball(rng.normal(size=(n, d)) * 10)
    v = np.sign(rng.normal(size=n)) * rng.choice([0.0, 0.3, 1.0], size=n)
    assert moved(D, np.zeros(d), v, 1.0, alpha) <= 1.0 + 1e-9


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_a_changed_value(seed):
    rng = np.random.default_rng(seed)
    n, d, alpha = rng.integers(1, 12), rng.integers(1, 5), 10 ** rng.uniform(-2, 2)
    D = into_ball(rng.normal(size=(n, d)) * 10) * 0.7
    row, w = D[-1].copy(), rng.uniform(0.01, 0.3)
    row[rng.integers(d)] += w * rng.choice([-1, 1])
    v = np.sign(rng.normal(size=n)) * rng.choice([0.0, 1.0], size=n)
    bound = value_sensitivity(change=w, coef_bound=1.0, radius=1.0, clip=1.0, alpha=alpha)
    expected = w * math.sqrt(1 + 9 / (4 * alpha))
    assert bound == pytest.approx(min(expected, 2.0))
    assert moved(D, row, v, 1.0, alpha) <= bound * (1 + 1e-9)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_the_stated_optimality_pays_for_inexact_solutions(seed):
    """Any two points that satisfy the inequalities up to eta are within sqrt(C^2 + 2 eta)."""
    rng = np.random.default_rng(seed)
    n, d, alpha = rng.integers(2, 8), rng.integers(1, 4), 10 ** rng.uniform(-2, 1)
    D = into_ball(rng.normal(size=(n, d)) * 10)
    other = D.copy()
    other[-1] = into_ball(rng.normal(size=d) * 10)
    v = np.sign(rng.normal(size=n))
    points, slack = [], 0.0
    for rows in (D, other):
        x = into_ball(rng.normal(size=d))
        slope = rows.T @ (rows @ x - v) + alpha * x
        slack = max(slack, np.linalg.norm(slope) + slope @ x)
        points.append(rows @ x)
    assert np.linalg.norm(points[0] - points[1]) <= math.sqrt(4 + 2 * slack) * (1 + 1e-12)


@pytest.mark.parametrize("rounds", [1, 6, 50])
@pytest.mark.parametrize("parties", [1, 3])
def test_composition(rounds, parties):
    chosen = calibrate_shares(
        1.0, 1e-5, rounds=rounds, n_samples=1000, n_features=10, n_parties=parties, radius=3.0
    )
    mu = math.sqrt(rounds * parties) * chosen.sensitivity / chosen.sigma
    assert gaussian_delta(mu=mu, epsilon=1.0) <= 1e-5
    assert mu == pytest.approx(chosen.mu, rel=1e-12)
    assert 6.0 <= chosen.sensitivity <= 6.0 * (1 + 1e-6)
    # What the computed share may be off by: of the certificate, and of its 26-term products.
    rounding = 2 * math.sqrt(1000) * 26 * 2.0**-53 * 3.0
    assert chosen.sensitivity >= math.sqrt(36 + 2 * chosen.optimality) + 0.999 * rounding
    assert chosen.optimality >= 9.0 * 2.0**-20
    assert math.frexp(chosen.grid)[0] == 0.5 and chosen.grid < chosen.sigma / 500


@pytest.mark.parametrize(("rounds", "epsilon"), [(1, 1.0), (6, 2.0), (20, 8.0)])
def test_composition_against_dp_accounting(rounds, epsilon):
    chosen = calibrate_shares(epsilon, 1e-5, rounds=rounds, n_samples=100, n_features=3)
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    event = dp_accounting.GaussianDpEvent(chosen.sigma / chosen.sensitivity)
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, rounds))
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("rounds", [5, 50])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_usual_recipe_needs_seven_to_eight_times_the_noise(rounds, epsilon):
    """Advanced composition of rounds calibrated by sqrt(2 log(1.25/delta))."""
    delta = 1e-5
    chosen = calibrate_shares(epsilon, delta, rounds=rounds, n_samples=100, n_features=3)

    def composed(each):
        spread = math.sqrt(2 * rounds * math.log(2 / delta)) * each
        return spread + rounds * each * math.expm1(each)

    each = brentq(lambda e: composed(e) - epsilon, 1e-9, 10)
    usual = math.sqrt(2 * math.log(1.25 / (delta / 2 / rounds))) * chosen.sensitivity / each
    assert 7 < usual / chosen.sigma < 8.3


def test_statistics():
    chosen = calibrate_statistics(1.0, 1e-5, n_samples=1000, rounds=3, n_parties=2, clip=0.5)
    square = 2 / chosen.gram_sigma**2 + 4 * 3 * 0.25 / chosen.moment_sigma**2
    assert math.sqrt(2 * square) == pytest.approx(chosen.mu, rel=1e-9)
    assert math.sqrt(2 * square) <= chosen.mu
    assert gaussian_delta(mu=chosen.mu, epsilon=1.0) <= 1e-5


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_statistics_move_by_at_most_the_stated_distances(seed):
    rng = np.random.default_rng(seed)
    d = rng.integers(1, 6)
    first, second = into_ball(rng.normal(size=(2, d)) * 10)
    targets = rng.uniform(-1, 1, 2)
    gram = np.outer(first, first) - np.outer(second, second)
    assert np.linalg.norm(gram) <= math.sqrt(2) + 1e-12
    assert np.linalg.norm(targets[0] * first - targets[1] * second) <= 2 + 1e-12


def test_the_published_bound_is_exceeded():
    """On orthonormal rows the printed sensitivity, which falls as 1/d, is below the true one."""
    d, rho, ridge = 66, 1.0, 1e-3
    sigma = published_share_sigma(1.0, 1e-5, n_features=d, n_parties=2, ridge=ridge, rho=rho)
    printed = sigma / math.sqrt(2 * math.log(1.25e5))
    n = 1000
    D, v = np.ones((n, 1)), np.full(n, 1.0)
    v[-1] = 0.0
    assert moved(D, np.array([-1.0]), v, 1.0, ridge / rho) > 5 * printed


@pytest.mark.parametrize(
    ("argument", "value"),
    [("radius", 0), ("radius", math.nan), ("clip", -1), ("alpha", 0), ("alpha", True)],
)
def test_bad_values_are_refused(argument, value):
    arguments = {"radius": 1.0, "clip": 1.0, "alpha": 1.0, argument: value}
    with pytest.raises(InvalidParameterError, match=argument):
        share_sensitivity(**arguments)


@pytest.mark.parametrize(
    ("argument", "value"), [("rounds", 0), ("n_parties", 0), ("n_samples", 1.5), ("delta", 1.0)]
)
def test_bad_counts_are_refused(argument, value):
    arguments = {"delta": 1e-5, "rounds": 1, "n_samples": 10, "n_features": 2, argument: value}
    with pytest.raises(InvalidParameterError, match=argument):
        calibrate_shares(1.0, arguments.pop("delta"), **arguments)


def test_the_bound_for_large_targets_is_nearly_reached():
    """One row asks for 20 b against 18 that ask for nothing, and turns round."""
    D, v = np.ones((19, 1)), np.zeros(19)
    v[-1] = 20.0
    distance = moved(D, np.array([-1.0]), v, 1.0, 0.01)
    assert distance == pytest.approx(math.sqrt(72))
    assert 0.97 * share_sensitivity(radius=1.0, clip=20.0, alpha=0.01) < distance
