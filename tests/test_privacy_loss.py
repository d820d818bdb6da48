"""The exact privacy loss: right to the last digits, and never above epsilon."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from privlr.audit import extremal_pair, noise_of, pivot_test, privacy_loss
from privlr.exceptions import InvalidParameterError
from privlr.privacy import calibrate, perturbation_epsilon

#: loss, calibration, adjacency, classes: every combination that `calibrate` accepts.
LEGAL = [
    ("logistic", "tight", "replace_one", 2),
    ("logistic", "cms2011", "replace_one", 2),
    ("logistic", "tight", "add_remove", 2),
    ("capped", "tight", "replace_one", 2),
    ("capped", "tight", "add_remove", 2),
    ("logistic", "tight", "replace_one", 4),
    ("logistic", "tight", "add_remove", 3),
]
ids = ["-".join(map(str, case)) for case in LEGAL]


def options(case):
    loss, _, relation, n_classes = case
    return {"loss": loss, "neighboring_relation": relation, "n_classes": n_classes}


def reference_loss(w, data, data_prime, beta, kappa, loss="logistic"):
    """The definition in 60 digits; `kappa` is one ridge, or one per coordinate (d,)."""
    with mpmath.workdps(60):
        w = np.atleast_2d(w)
        C, d = w.shape
        ridge = [mpmath.mpf(float(k)) for k in np.broadcast_to(kappa, d)]

        def terms(X, y, weight):
            b = [[-ridge[j] * float(w[c, j]) for j in range(d)] for c in range(C)]
            A = mpmath.diag([ridge[j] for _ in range(C) for j in range(d)])
            for row, label, weight_i in zip(X, y, weight, strict=True):
                x = [mpmath.mpf(float(value)) for value in row]
                raw = [mpmath.fdot(x, map(float, w[c])) for c in range(C)]
                if C == 1:
                    margin = label * raw[0]
                    s = 1 / (1 + mpmath.exp(margin))
                    h = s * (1 - s)
                    if loss == "capped" and margin < 0:
                        s, h = mpmath.mpf("0.5"), 0
                    slope, curvature = [label * s], [[h]]
                else:
                    scale = mpmath.fsum(map(mpmath.exp, raw))
                    p = [mpmath.exp(value) / scale for value in raw]
                    slope = [(c == label) - p[c] for c in range(C)]
                    curvature = [
                        [(p[c] if c == e else 0) - p[c] * p[e] for e in range(C)] for c in range(C)
                    ]
                for c in range(C):
                    for j in range(d):
                        b[c][j] += float(weight_i) * slope[c] * x[j]
                        for e in range(C):
                            for k in range(d):
                                A[c * d + j, e * d + k] += (
                                    float(weight_i) * curvature[c][e] * x[j] * x[k]
                                )
            return mpmath.sqrt(mpmath.fsum(v**2 for row in b for v in row)), mpmath.log(
                mpmath.det(A)
            )

        norm, logdet = terms(*data)
        norm_prime, logdet_prime = terms(*data_prime)
        return float(float(beta) * (norm_prime - norm) + logdet - logdet_prime)


def random_rows(rng, n, d, R, n_classes, W=1.0):
    """Rows of norm at most R, many of them of norm R and some repeated; labels; weights."""
    X = rng.standard_normal((n, d))
    length = np.where(rng.random(n) < 0.6, 1, rng.random(n)) * R * (1 - 1e-15)
    X *= (length / np.linalg.norm(X, axis=1))[:, None]
    if n > 2 and rng.random() < 0.5:
        X[1:] = X[1]
    y = rng.integers(0, n_classes, n)
    weight = np.where(rng.random(n) < 0.5, 1, rng.random(n)) * W
    return X, (2 * y - 1 if n_classes == 2 else y), weight


def neighbours(rng, n, d, R, relation, n_classes, W=1.0):
    X, y, weight = random_rows(rng, n, d, R, n_classes, W)
    if n > 1 and rng.random() < 0.5:  # a shared row many times over fixes the direction of b
        weight[-1] *= 10 ** rng.uniform(0, 8)
    if relation == "add_remove":
        return (X, y, weight), (X[1:], y[1:], weight[1:])
    other = random_rows(rng, 1, d, R, n_classes, W)
    if rng.random() < 0.3:
        other[0][:] = -X[0]
    return (X, y, weight), tuple(
        np.concatenate([new, old[1:]]) for new, old in zip(other, (X, y, weight), strict=True)
    )


def loss_between(w, data, data_prime, **constants):
    return privacy_loss(
        w,
        *data[:2],
        *data_prime[:2],
        sample_weight=data[2],
        sample_weight_prime=data_prime[2],
        **constants,
    )


def random_output(rng, d, R, n_classes):
    shape = d if n_classes == 2 else (n_classes, d)
    return rng.standard_normal(shape) * 10 ** rng.uniform(-2, 3) / R


# --- the audit itself -------------------------------------------------------------------------


@pytest.mark.parametrize("case", LEGAL, ids=ids)
@pytest.mark.parametrize("seed", range(4))
def test_loss_against_the_definition(case, seed):
    loss, _, relation, n_classes = case
    rng = np.random.default_rng(seed)
    data, data_prime = neighbours(rng, 4, 2, 1.0, relation, n_classes, W=2.0)
    w = random_output(rng, 2, 10.0, n_classes)
    beta, kappa = 0.8, 10 ** rng.uniform(-2, 2)
    expected = reference_loss(w, data, data_prime, beta, kappa, loss)
    found = loss_between(w, data, data_prime, beta=beta, kappa=kappa, loss=loss)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("case", LEGAL, ids=ids)
def test_loss_of_the_extremal_pair_against_the_definition(case):
    """Weights of 1e9 and more: eight digits of ||b'|| - ||b|| cancel."""
    pair = extremal_pair(beta=0.5, kappa=7.0, **options(case))
    expected = reference_loss(
        pair.coef,
        (pair.X, pair.y, pair.sample_weight),
        (pair.X_prime, pair.y_prime, pair.sample_weight_prime),
        0.5,
        7.0,
        case[0],
    )
    found = privacy_loss(**pair._asdict(), beta=0.5, kappa=7.0, loss=case[0])
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("beta", [0.3, 4.0])
def test_one_dimensional_density_integrates_to_one(loss, beta):
    """Without data the density is known; the loss against no data gives it with data."""
    X = np.array([[1.0], [-0.7], [0.4], [0.9]])
    y = np.array([1, 1, -1, -1])
    kappa = 1.7

    def density(w):
        empty = beta * kappa / 2 * math.exp(-beta * kappa * abs(w))
        return empty * math.exp(
            privacy_loss([w], X, y, X[:0], y[:0], beta=beta, kappa=kappa, loss=loss)
        )

    total = sum(
        quad(density, low, high, epsabs=1e-9, limit=200)[0]
        for low, high in ((-60 / beta, -1), (-1, 0), (0, 1), (1, 60 / beta))
    )
    assert total == pytest.approx(1, abs=1e-7)


def test_equal_data_sets_lose_nothing_in_any_order():
    rng = np.random.default_rng(0)
    X, y, weight = random_rows(rng, 20, 3, 1.0, 2)
    order = rng.permutation(20)
    loss = loss_between(
        rng.standard_normal(3),
        (X, y, weight),
        (X[order], y[order], weight[order]),
        beta=1.0,
        kappa=1.0,
    )
    assert loss == 0


def test_loss_is_antisymmetric_and_follows_the_prior_mean():
    rng = np.random.default_rng(1)
    data, data_prime = neighbours(rng, 6, 3, 1.0, "replace_one", 2)
    w, u = rng.standard_normal((2, 3))
    constants = {"beta": 0.7, "kappa": 0.9, "prior_mean": u}
    forth = loss_between(w, data, data_prime, **constants)
    assert loss_between(w, data_prime, data, **constants) == pytest.approx(-forth, rel=1e-13)
    assert forth != loss_between(w, data, data_prime, beta=0.7, kappa=0.9)
    b = noise_of(w, *data[:2], kappa=0.9, sample_weight=data[2], prior_mean=u)
    unshifted = noise_of(w, *data[:2], kappa=0.9, sample_weight=data[2])
    np.testing.assert_allclose(b - unshifted, 0.9 * u, rtol=1e-14)


def minimiser(b, X, y, kappa):
    """Newton's method on the perturbed logistic objective."""
    w = np.zeros(X.shape[1])
    for _ in range(50):
        s = 1 / (1 + np.exp(y * (X @ w)))
        A = (X.T * (s * (1 - s))) @ X + kappa * np.eye(len(w))
        w = w + np.linalg.solve(A, X.T @ (y * s) - kappa * w - b)
    return w


def test_noise_is_recovered_from_the_minimiser_and_moves_by_little_between_neighbours():
    rng = np.random.default_rng(2)
    X, y, _ = random_rows(rng, 30, 4, 1.0, 2)
    kappa = 0.8
    for _ in range(20):
        b = rng.standard_normal(4) * 5
        w = minimiser(b, X, y, kappa)
        np.testing.assert_allclose(noise_of(w, X, y, kappa=kappa), b, rtol=0, atol=1e-11)
        row, label, _ = random_rows(rng, 1, 4, 1.0, 2)
        X_prime, y_prime = np.vstack([row, X[1:]]), np.r_[label, y[1:]]
        assert np.linalg.norm(minimiser(b, X_prime, y_prime, kappa) - w) <= 2 / kappa


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    R=st.floats(0.1, 1e3),
    loss=st.sampled_from(["logistic", "capped"]),
)
def test_parts_of_the_loss_are_bounded(seed, R, loss):
    """The determinants' part alone, and a flipped label, whose determinants cancel."""
    rng = np.random.default_rng(seed)
    kappa = 10 ** rng.uniform(-4, 3)
    data, data_prime = neighbours(rng, 5, 3, R, "replace_one", 2)
    w = random_output(rng, 3, R, 2)
    determinants = loss_between(w, data, data_prime, beta=1e-50, kappa=kappa, loss=loss)
    assert abs(determinants) <= math.log1p(R**2 / (4 * kappa)) * (1 + 1e-9)
    b, b_prime = (
        noise_of(w, X, y, kappa=kappa, loss=loss, sample_weight=weight)
        for X, y, weight in (data, data_prime)
    )
    scale = np.linalg.norm(b) + R
    assert np.linalg.norm(b - b_prime) <= (1 if loss == "capped" else 2) * R + 1e-14 * scale

    X, y, weight = data
    flipped = (X, np.r_[-y[0], y[1:]], weight)
    bound = weight[0] * np.linalg.norm(X[0])
    if loss == "logistic":
        flip = loss_between(w, data, flipped, beta=1.0, kappa=kappa)
        assert abs(flip) <= bound * (1 + 1e-9) + 1e-9


# --- the promise ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", LEGAL, ids=ids)
@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    epsilon=st.floats(1e-2, 8),
    log_R=st.floats(-1, 3),
    log_ridge=st.floats(-7, 1),
    W=st.sampled_from([1.0, 0.3, 5.0]),
)
def test_loss_never_exceeds_epsilon(case, seed, epsilon, log_R, log_ridge, W):
    loss, calibration, relation, n_classes = case
    rng = np.random.default_rng(seed)
    R, n, d = 10**log_R, int(rng.integers(1, 6)), int(rng.integers(1, 4))
    constants = calibrate(
        epsilon,
        n_samples=n,
        data_norm=R,
        l2_reg_strength=10**log_ridge * R**2,
        calibration=calibration,
        max_sample_weight=W,
        **options(case),
    )
    data, data_prime = neighbours(rng, n, d, R, relation, n_classes, W)
    for _ in range(3):
        w = random_output(rng, d, R, n_classes)
        found = loss_between(
            w, data, data_prime, beta=constants.beta, kappa=constants.kappa, loss=loss
        )
        assert abs(found) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("case", LEGAL, ids=ids)
def test_climbing_from_the_extremal_pair_never_exceeds_epsilon(case):
    loss, calibration, relation, n_classes = case
    epsilon, rng = 1.0, np.random.default_rng(3)
    constants = calibrate(
        epsilon, n_samples=100, l2_reg_strength=1e-3, calibration=calibration, **options(case)
    )
    public = {"beta": constants.beta, "kappa": constants.kappa}
    start = extremal_pair(**public, **options(case))

    def attempt(pair):
        return abs(privacy_loss(**pair._asdict(), **public, loss=loss))

    def move(pair, scale):
        """Disturb the output and the odd row, and the row in its place; keep neighbours."""
        coef = pair.coef * (1 + scale * rng.standard_normal(pair.coef.shape))
        X, X_prime = pair.X.copy(), pair.X_prime.copy()
        for rows in (X, X_prime) if relation == "replace_one" else (X,):
            rows[0] += scale * rng.standard_normal(2)
            rows[0] *= min(1, (1 - 1e-15) / np.linalg.norm(rows[0]))
        return pair._replace(coef=coef, X=X, X_prime=X_prime)

    best, reached = start, attempt(start)
    for step in range(250):
        candidate = move(best, 10 ** -(1 + 4 * step / 250))
        value = attempt(candidate)
        assert value <= epsilon * (1 + 1e-9)
        if value > reached:
            best, reached = candidate, value
    if calibration == "tight":
        assert reached > 0.999 * epsilon


@pytest.mark.parametrize("case", [case for case in LEGAL if case[1] == "tight"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("R", [0.1, 1.0, 1e3])
@pytest.mark.parametrize("ridge", [1e-7, 0.4])
def test_extremal_pair_comes_within_a_thousandth_of_epsilon(case, epsilon, R, ridge):
    for W in (1.0, 3.0):
        public = {"data_norm": R, "max_sample_weight": W, **options(case)}
        constants = calibrate(epsilon, n_samples=100, l2_reg_strength=ridge * R**2, **public)
        pair = extremal_pair(beta=constants.beta, kappa=constants.kappa, **public)
        found = privacy_loss(
            **pair._asdict(), beta=constants.beta, kappa=constants.kappa, loss=case[0]
        )
        assert epsilon * (1 - 1e-3) <= found <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_extremal_pair_attains_the_cost_where_the_jacobian_costs(relation):
    """kappa below the floor of "tight": the interior maximum of the logistic cost."""
    for beta, kappa in ((0.25, 1.0), (0.05, 5.0), (0.5, 0.5), (0.9, 0.1)):
        pair = extremal_pair(beta=beta, kappa=kappa, neighboring_relation=relation)
        cost = perturbation_epsilon(beta=beta, kappa=kappa, neighboring_relation=relation)
        found = privacy_loss(**pair._asdict(), beta=beta, kappa=kappa)
        assert cost * (1 - 1e-3) <= found <= cost * (1 + 1e-9)


# --- planted faults: each must be seen --------------------------------------------------------


def reached(beta, kappa, R=1.0, **public):
    pair = extremal_pair(beta=beta, kappa=kappa, data_norm=R, **public)
    loss = public.get("loss", "logistic")
    return privacy_loss(**pair._asdict(), beta=beta, kappa=kappa, loss=loss)


@pytest.mark.parametrize("case", LEGAL, ids=ids)
def test_fault_noise_halved(case):
    constants = calibrate(
        1, n_samples=1000, l2_reg_strength=0.01, calibration=case[1], **options(case)
    )
    assert reached(2 * constants.beta, constants.kappa, **options(case)) > 1.8


def test_fault_wrong_sign_in_epsilon_prime():
    n, ridge, epsilon = 500, 0.01, 0.1
    wrong = epsilon + 2 * math.log1p(1 / (4 * n * ridge))
    assert reached(wrong / 2, n * ridge) > 1.5 * epsilon


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_fault_delta_forgotten(loss):
    n, ridge = 1000, 1e-5
    constants = calibrate(1, n_samples=n, l2_reg_strength=ridge, loss=loss)
    assert constants.delta_reg > 0
    assert reached(constants.beta, n * ridge, loss=loss) > 1.5


def test_fault_norm_where_its_square_belongs():
    n, ridge, R = 1000, 0.01, 100.0
    left = 1 - 2 * math.log1p(R / (4 * n * ridge))
    if left > 0:
        kappa = n * ridge
    else:
        kappa, left = R / (4 * math.expm1(0.25)), 0.5
    assert reached(left / (2 * R), kappa, R=R) > 1.9


def test_fault_rows_divided_by_the_largest():
    constants = calibrate(1, n_samples=100, l2_reg_strength=0.1)
    X = np.tile([1.0, 0.0], (100, 1))
    X_prime = np.vstack([[10.0, 0.0], X[1:]])
    y = np.ones(100, dtype=int)
    divided, divided_prime = (rows / np.linalg.norm(rows, axis=1).max() for rows in (X, X_prime))
    found = privacy_loss(
        [-1.0, 0.0], divided, y, divided_prime, y, beta=constants.beta, kappa=constants.kappa
    )
    assert abs(found) > 7.7


def test_fault_unpenalised_intercept():
    """As the intercept grows all curvature vanishes, and nothing bounds its ratio."""
    constants = calibrate(1, n_samples=100, l2_reg_strength=0.1)
    X = np.tile([-0.6, 0.8], (100, 1))
    X_prime = X.copy()
    X_prime[0] = [0.6, 0.8]
    y, weight = np.ones(100, dtype=int), np.ones(100)
    data, data_prime = (X, y, weight), (X_prime, y, weight)
    w = np.array([-50.0, 100.0])
    kappa = np.array([constants.kappa, 0.0])
    assert abs(reference_loss(w, data, data_prime, constants.beta, kappa)) > 50
    penalised = loss_between(w, data, data_prime, beta=constants.beta, kappa=constants.kappa)
    assert abs(penalised) <= 1


# --- the pivot test ---------------------------------------------------------------------------


def draw(rng, n, d, beta):
    direction = rng.standard_normal((n, d))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    return direction * rng.gamma(d, 1 / beta, (n, 1))


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_pivot_accepts_the_right_noise(d):
    b = draw(np.random.default_rng(d), 2000, d, 0.3)
    assert pivot_test(b, 0.3).pvalue > 1e-6
    assert pivot_test(b.reshape(2000, 1, d), 0.3) == pivot_test(b, 0.3)


@pytest.mark.parametrize("d", [4, 10, 100])
def test_pivot_rejects_halved_noise(d):
    result = pivot_test(draw(np.random.default_rng(d), 50, d, 0.3) / 2, 0.3)
    assert result.norm < 1e-6
    assert result.pvalue < 1e-6
    assert result.direction > 1e-6


@pytest.mark.parametrize("d", [1, 2, 10])
def test_pivot_rejects_directions_that_are_not_uniform(d):
    b = np.abs(draw(np.random.default_rng(d), 500, d, 0.3))
    result = pivot_test(b, 0.3)
    assert result.direction < 1e-6
    assert result.norm > 1e-6


def test_pivot_sees_through_a_fit():
    rng = np.random.default_rng(4)
    X, y, _ = random_rows(rng, 40, 5, 1.0, 2)
    fits = [minimiser(b, X, y, 2.0) for b in draw(rng, 50, 5, 0.5)]
    recovered = np.array([noise_of(w, X, y, kappa=2.0) for w in fits])
    assert pivot_test(recovered, 0.5).pvalue > 1e-6
    assert pivot_test(recovered, 0.25).pvalue < 1e-6


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("beta", {"beta": 0.0}),
        ("kappa", {"kappa": math.nan}),
        ("loss", {"loss": "hinge"}),
        ("loss", {"loss": "capped", "coef": np.zeros((3, 2))}),
        ("coef", {"coef": [math.nan, 0.0]}),
        ("coef", {"coef": 1.0}),
        ("X", {"X": np.ones((2, 3))}),
        ("X", {"X": np.full((2, 2), math.inf)}),
        ("y", {"y": [1, 0]}),
        ("y", {"y": [1]}),
        ("sample_weight", {"sample_weight": [1.0]}),
        ("sample_weight", {"sample_weight": [1.0, -1.0]}),
        ("prior_mean", {"prior_mean": [math.nan, 0.0]}),
        ("prior_mean", {"prior_mean": [1.0]}),
    ],
)
def test_bad_audits_are_refused_by_name(name, change):
    call = {
        "coef": np.zeros(2),
        "X": np.eye(2),
        "y": [1, -1],
        "X_prime": np.eye(2),
        "y_prime": [1, 1],
        "beta": 1.0,
        "kappa": 1.0,
    }
    with pytest.raises(InvalidParameterError, match=name):
        privacy_loss(**call | change)


def test_bad_noise_vectors_are_refused():
    for b in (np.zeros(3), np.zeros((0, 3)), np.full((2, 2), np.nan)):
        with pytest.raises(InvalidParameterError, match="b"):
            pivot_test(b, 1.0)
