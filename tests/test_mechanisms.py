"""The certified release: what it costs, what it refuses, and what breaks it."""

import math
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from joblib import Parallel, delayed
from scipy.special import gammaincc

from privlr import mechanisms, optimize
from privlr.audit import noise_of, pivot_test, privacy_loss
from privlr.design import make_design
from privlr.exceptions import ConvergenceError, InvalidParameterError
from privlr.mechanisms import RandomSource, objective_perturbation, plan
from privlr.privacy import Calibration


def rows(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None] * (1 + 1e-15)
    return X, rng.choice([-1.0, 1.0], size=n)


def release(X, y, epsilon=1.0, random=None, **options):
    planned = plan(epsilon, n_samples=len(X), width=X.shape[1], **options)
    return objective_perturbation(make_design(X, data_norm=1.0), y, planned, random=random)


def noise_in(released, X, y):
    """The tilt that a released model stands for."""
    record = released.record
    return noise_of(released.coef[0], X, y, kappa=record.kappa, loss=record.loss)


def test_the_parts_add_up_to_epsilon():
    for epsilon in (0.1, 1.0, 3.0, 1e9):
        record = plan(epsilon, n_samples=1000, width=10).record
        assert sum(c.epsilon for c in record.charges) == Fraction(epsilon)
        assert record.lattice.epsilon == epsilon / 128
        spent = 2 * record.beta * record.R  # kappa is above its floor, so this is exact
        assert Fraction(spent) + Fraction(record.lattice.epsilon) <= Fraction(epsilon)
        assert spent >= epsilon * (127 / 128) * (1 - 1e-15)


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_exact_loss_of_released_models(loss, relation):
    rng = np.random.default_rng(1)
    X, y = rows(40)
    for trial in range(20):
        released = release(X, y, loss=loss, neighboring_relation=relation)
        X2, y2 = X.copy(), y.copy()
        if relation == "replace_one":
            X2[0], y2[0] = rng.choice([-1, 1]) * X[trial], rng.choice([-1.0, 1.0])
        else:
            X2, y2 = X2[1:], y2[1:]
        found = privacy_loss(
            released.coef[0],
            X,
            y,
            X2,
            y2,
            beta=released.record.beta,
            kappa=released.record.kappa,
            loss=loss,
        )
        assert abs(found) <= released.record.epsilon * (127 / 128) * (1 + 1e-9)


def pivot(loss, repeats, calibration_factor=1.0, monkeypatch=None):
    X, y = rows(30)
    if calibration_factor != 1.0:
        original = mechanisms.noise.sphere
        monkeypatch.setattr(
            mechanisms.noise,
            "sphere",
            lambda d, rate, key=None: original(d, rate * calibration_factor, key),
        )
    drawn = []
    for k in range(repeats):
        released = release(X, y, loss=loss, random=RandomSource(7, (k,)))
        drawn.append(noise_in(released, X, y))
    return pivot_test(np.array(drawn), released.record.beta)


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_pivot_accepts_the_program(loss):
    assert pivot(loss, 2000).pvalue > 1e-6


def test_planted_bug_noise_halved_is_rejected_in_fifty_fits(monkeypatch):
    assert pivot("logistic", 50, 2.0, monkeypatch).pvalue < 1e-6


# -- the lattice release ------------------------------------------------------------------


def worst_lattice_loss(planned, scale, error):
    """Largest log-ratio of the released integer, over solver errors of at most `error`
    for two data sets with one ideal minimiser, by exact summation in one dimension."""
    step = planned.lattice.step
    worst = 0
    for ideal in (0.0, 0.49 * step, 0.51 * step, 1234.5 * step):
        low, high = np.rint((ideal - error) / step), np.rint((ideal + error) / step)
        worst = max(worst, high - low)
    # log P(k - low) - log P(k - high) of discrete Laplace noise, largest outside [low, high].
    k = np.arange(-4 * worst, 4 * worst + 1)
    loss = (np.abs(k - worst) - np.abs(k)) / scale
    return np.abs(loss).max()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_lattice_noise_covers_any_certified_solver_error(epsilon):
    planned = plan(epsilon, n_samples=200, width=1)
    reach = planned.certificate / planned.calibration.kappa
    assert worst_lattice_loss(planned, planned.lattice.scale, reach) <= planned.lattice.epsilon
    # Half the noise, or a solver held to twice the certificate, must not pass.
    assert worst_lattice_loss(planned, planned.lattice.scale // 2, reach) > planned.lattice.epsilon
    assert worst_lattice_loss(planned, planned.lattice.scale, 2 * reach) > planned.lattice.epsilon


@pytest.mark.parametrize("width", [2, 50, 400])
def test_the_lattice_noise_covers_every_coordinate_at_once(width):
    # The longest way between two certified points, shared by all coordinates, each of which
    # rounds apart: what the released integers differ by has to fit into the budget.
    planned = plan(1.0, n_samples=200, width=width)
    apart = 2 * planned.certificate / planned.calibration.kappa
    steps = apart / math.sqrt(width) / planned.lattice.step
    start = 0.5 - 1e-9
    moved = np.rint(start + steps) - np.rint(start)
    assert moved > steps
    assert width * moved / planned.lattice.scale <= planned.lattice.epsilon
    assert width * moved / planned.lattice.scale >= 0.9 * planned.lattice.epsilon


def test_planted_bug_lattice_noise_left_out_or_halved(monkeypatch):
    # With the minimum held at the origin, the released integers are the noise alone.
    X, y = rows(30, 4000)
    planned = plan(1.0, n_samples=30, width=4000)
    held = optimize.Minimum(np.zeros(4000), 0.0, "converged", 1)
    monkeypatch.setattr(mechanisms, "minimize", lambda problem, tolerance: held)
    released = objective_perturbation(make_design(X, data_norm=1.0), y, planned)
    multiples = released.coef[0] / planned.lattice.step
    assert np.abs(multiples).mean() == pytest.approx(planned.lattice.scale, rel=0.12)
    assert abs(np.sign(multiples).mean()) < 0.12


def test_noise_longer_than_the_public_bound_is_refused(monkeypatch):
    original = mechanisms.noise.sphere
    planned = plan(1.0, n_samples=60, width=3)
    monkeypatch.setattr(
        mechanisms.noise,
        "sphere",
        lambda d, rate, key=None: (original(d, rate, key)[0], 1.01 * planned.radius),
    )
    with pytest.raises(ConvergenceError):
        release(*rows())


def test_released_coefficients_lie_on_the_lattice():
    X, y = rows()
    released = release(X, y)
    multiples = released.coef / released.record.lattice.step
    np.testing.assert_array_equal(multiples, np.rint(multiples))


def test_the_lattice_noise_is_small_beside_the_mechanisms_own():
    for n, d, l2, share in (
        (1000, 10, "auto", 1.6e-8 / 0.2),
        (32_561, 123, "auto", 4.7e-6 / 0.23),
        (6000, 5000, 0.01, 6e-4 / 2.4),
    ):
        planned = plan(1.0, n_samples=n, width=d, l2_reg_strength=l2)
        own = math.sqrt(d + 1) / (planned.calibration.beta * planned.calibration.kappa)
        added = math.sqrt(2) * planned.lattice.scale * planned.lattice.step
        assert added < share * own


@pytest.mark.parametrize(("width", "cap"), [(1, 75), (100, 268), (5000, 5879)])
def test_the_noise_is_longer_than_its_public_bound_with_probability_2_to_the_minus_100(width, cap):
    radius = plan(1.0, n_samples=1000, width=width).radius
    assert gammaincc(width, radius) <= 2.0**-100
    assert radius <= cap


def test_the_certificate_can_be_reached():
    rng = np.random.default_rng(2)
    for trial in range(60):
        n, d = int(rng.integers(1, 3000)), int(rng.integers(1, 60))
        epsilon = 10.0 ** rng.uniform(-2, 4)
        l2 = 10.0 ** rng.uniform(-6, 0)
        X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3)
        planned = plan(epsilon, n_samples=n, width=d, l2_reg_strength=l2)
        objective_perturbation(
            make_design(X, data_norm=1.0),
            rng.choice([-1.0, 1.0], size=n),
            planned,
            random=RandomSource(trial),
        )


def test_the_certificate_can_be_reached_from_far_away():
    # Rows of very different lengths, and minimisers far from the origin: the gradient grows for
    # many steps before it shrinks.
    for trial in range(60):
        rng = np.random.default_rng(trial)
        n, d = int(rng.integers(1, 200)), int(rng.integers(1, 30))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-100, 100, size=(n, 1))
        R = 10.0 ** rng.uniform(-2, 2)
        planned = plan(
            10.0 ** rng.uniform(1, 5),
            n_samples=n,
            width=d + 1,
            data_norm=R,
            loss=("logistic", "capped")[trial % 2],
            l2_reg_strength=(0.0, "auto")[trial % 2],
        )
        objective_perturbation(
            make_design(X, intercept=1.0, data_norm=R),
            rng.choice([-1.0, 1.0], size=n),
            planned,
            random=RandomSource(trial),
        )


def loosen_the_solver(monkeypatch):
    """Make every solve stop a thousand million times too early."""
    monkeypatch.setattr(optimize, "COEF_TOLERANCE", 1.0)
    original = mechanisms.minimize
    monkeypatch.setattr(
        mechanisms,
        "minimize",
        lambda problem, tolerance: original(problem, tolerance=1e9 * tolerance),
    )


def test_planted_bug_certificate_relaxed_on_a_hard_problem(monkeypatch):
    X, y = rows(500, 20)
    loosen_the_solver(monkeypatch)
    with pytest.raises(ConvergenceError, match="nothing is released"):
        release(X, y, epsilon=50.0, l2_reg_strength=1e-5)


@pytest.mark.parametrize(("share", "accepted"), [(0.74, True), (0.76, False), (math.nan, False)])
def test_the_certificate_holds_to_the_last_digit(monkeypatch, share, accepted):
    # A quarter of it belongs to what rounding may have hidden from the gradient.
    X, y = rows()
    planned = plan(1.0, n_samples=len(X), width=X.shape[1])
    original = mechanisms.minimize
    monkeypatch.setattr(
        mechanisms,
        "minimize",
        lambda problem, tolerance: replace(
            original(problem, tolerance=tolerance), gradient_norm=share * planned.certificate
        ),
    )
    if accepted:
        release(X, y)
        return
    with pytest.raises(ConvergenceError):
        release(X, y)


def test_a_point_longer_than_any_minimiser_is_refused(monkeypatch):
    X, y = rows()
    original = mechanisms.minimize

    def astray(problem, tolerance):
        found = original(problem, tolerance=tolerance)
        return replace(found, coef=found.coef + 1e6)

    monkeypatch.setattr(mechanisms, "minimize", astray)
    with pytest.raises(ConvergenceError):
        release(X, y)


def test_a_failing_generator_releases_nothing(monkeypatch):
    from privlr.exceptions import EntropyError

    def broken(*args):
        raise EntropyError("no entropy")

    monkeypatch.setattr(mechanisms.noise, "sphere", broken)
    with pytest.raises(EntropyError):
        release(*rows())


@pytest.mark.parametrize("epsilon", [1e-16, 1e-13])
def test_budgets_below_the_samplers_range_are_refused(epsilon):
    with pytest.raises(InvalidParameterError):
        plan(epsilon, n_samples=1000, width=1000)


# -- noise is never shared ----------------------------------------------------------------


def test_planted_bug_same_noise_in_two_fits():
    X, y = rows()
    first, second = (noise_in(release(X, y), X, y) for _ in range(2))
    assert np.abs(first - second).min() > 1e-6


def test_planted_bug_same_noise_in_two_classes():
    X, _ = rows(90)
    y = np.arange(90) % 3.0
    planned = plan(1.0, n_samples=90, width=3, n_classes=3)
    released = objective_perturbation(make_design(X, data_norm=1.0), y, planned)
    b = noise_of(released.coef, X, y.astype(int), kappa=released.record.kappa).reshape(3, 3)
    assert min(np.linalg.norm(b[i] - b[j]) for i in range(3) for j in range(i)) > 1e-3


def test_planted_bug_same_noise_in_two_forked_children():
    X, y = rows()
    seen = []
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, release(X, y).coef.tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(read, 10_000))
        os.close(read)
        os.close(write)
    seen.append(release(X, y).coef.tobytes())
    assert len(set(seen)) == 3


def test_planted_bug_same_noise_in_two_joblib_workers():
    X, y = rows()
    np.random.seed(0)  # noqa: NPY002 (it must not matter)
    found = Parallel(n_jobs=2)(delayed(release)(X, y) for _ in range(4))
    assert len({f.coef.tobytes() for f in found}) == 4


def test_a_seed_repeats_the_release_and_voids_the_guarantee():
    X, y = rows()
    first, second = (release(X, y, random=RandomSource(3)) for _ in range(2))
    np.testing.assert_array_equal(first.coef, second.coef)
    assert not first.record.private
    assert first.record.random_source == "seeded"
    assert RandomSource(3).key("tilt") != RandomSource(3).key("lattice")
    other = release(X, y, random=RandomSource(3).at("group", 1))
    assert not np.array_equal(first.coef, other.coef)


def test_calibration_of_a_caller_is_used_as_given():
    # What a stack of groups builds on: its own noise rate and ridge through the same release.
    planned = plan(1.0, n_samples=60, width=3)
    mine = mechanisms.certify(
        Calibration(epsilon=1.0, beta=2.0, kappa=3.0, delta_reg=0.0),
        planned.accuracy,
        lattice_epsilon=0.01,
        prior_norm=0.0,
        record={
            "epsilon": 1.0,
            "neighboring_relation": "replace_one",
            "loss": "logistic",
            "calibration": "tight",
            "beta": 2.0,
            "kappa": 3.0,
            "R": 1.0,
            "n_samples": 60,
        },
    )
    assert mine.record.lattice.epsilon == 0.01
    assert mine.calibration.kappa == 3.0


def test_an_interrupted_solve_leaves_no_noise_behind(monkeypatch):
    seen = []

    def interrupted(problem, tolerance):
        assert np.linalg.norm(problem.linear) > 0
        seen.append(problem.linear)
        raise KeyboardInterrupt

    monkeypatch.setattr("privlr.mechanisms.minimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release(*rows())
    assert not seen[0].any()
