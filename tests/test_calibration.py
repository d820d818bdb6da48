"""Costs, their inverses and the two calibrations, against independent values."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlr.exceptions import InvalidParameterError
from privlr.privacy import (
    auto_l2_reg_strength,
    calibrate,
    perturbation_beta,
    perturbation_epsilon,
)

SETTINGS = [
    ("logistic", "replace_one", 2),
    ("logistic", "add_remove", 2),
    ("capped", "replace_one", 2),
    ("capped", "add_remove", 2),
    ("logistic", "replace_one", 3),
    ("logistic", "add_remove", 3),
]
BINARY = [setting for setting in SETTINGS if setting[2] == 2]


def keywords(setting):
    return dict(zip(("loss", "neighboring_relation", "n_classes"), setting, strict=True))


def spent(result, data_norm=1.0):
    """epsilon' of the published calibration."""
    return 2 * data_norm * result.beta


@pytest.mark.parametrize(
    ("t", "a", "expected"),
    [
        (0.5, 0.5, 1.0),
        (0.5, 0.4, 1.0),
        (0.25, 1, 0.617488859194591),
        (0.05, 0.2, 0.127066054276748),
        (0.5, 2, 1.20130467256857),
        (0.9, 10, 2.67133640490238),
    ],
)
def test_logistic_cost_values(t, a, expected):
    assert perturbation_epsilon(beta=t, kappa=1 / a) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "kappa", "loss", "expected"),
    [
        (1, 1, "logistic", 0.472821789549494),
        (1, 0.5, "logistic", 0.378665830368525),
        (0.1, 5, "logistic", 0.0331774355110634),
        (1, 10, "capped", 0.975307387409628),
        (0.5, 20, "capped", 0.487577480001443),
    ],
)
def test_beta_values(epsilon, kappa, loss, expected):
    beta = perturbation_beta(epsilon=epsilon, kappa=kappa, loss=loss)
    assert beta == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.3, 1.0, 7.7])
def test_beta_is_half_of_epsilon_once_the_jacobian_is_free(epsilon):
    assert perturbation_beta(epsilon=epsilon, kappa=2 / epsilon) == epsilon / 2
    assert perturbation_beta(epsilon=epsilon, kappa=20 / epsilon) == epsilon / 2


@pytest.mark.parametrize(("n", "ridge", "epsilon", "expected"), [
    (1000, 0.01, 1, 0.950614774819257),
    (1000, 0.001, 1, 0.553712897371580),
    (500, 0.01, 0.1, 0.00241967166113599),
    (4321, 0.005, 0.5, 0.476990082137237),
])  # fmt: skip
def test_published_epsilon_prime(n, ridge, epsilon, expected):
    result = calibrate(epsilon, n_samples=n, l2_reg_strength=ridge, calibration="cms2011")
    assert spent(result) == pytest.approx(expected, rel=1e-12)
    assert result.delta_reg == 0
    assert result.kappa == pytest.approx(n * ridge, rel=1e-15)


def test_the_published_threshold_is_a_cliff():
    result = calibrate(0.1, n_samples=500, l2_reg_strength=0.01, calibration="cms2011")
    assert round(1 / result.beta) in (826, 827)  # E||b|| / d


@pytest.mark.parametrize(("n", "ridge", "epsilon", "expected"), [
    (1000, 1e-4, 0.1, 0.00977552082790807),
    (1500, 1e-3, 0.1, 0.00558368055193871),
    (100, 1e-3, 2, 0.002853735206342),
    (1000, 0, 1, 0.00088020291604695),
])  # fmt: skip
def test_published_delta(n, ridge, epsilon, expected):
    result = calibrate(epsilon, n_samples=n, l2_reg_strength=ridge, calibration="cms2011")
    assert result.delta_reg == pytest.approx(expected, rel=1e-12)
    assert spent(result) == pytest.approx(epsilon / 2, rel=1e-15)


def test_published_calibration_has_the_documented_cliff():
    below, above = (
        calibrate(epsilon, n_samples=500, l2_reg_strength=0.01, calibration="cms2011").beta
        for epsilon in (0.0975, 0.1)
    )
    assert below > 20 * above


@pytest.mark.parametrize("R", [0.1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("W", [1.0, 4.0])
def test_tight_logistic_is_the_closed_form(R, W):
    for ridge in (1e-6, 0.3):
        result = calibrate(
            0.7, n_samples=800, data_norm=R, l2_reg_strength=ridge, max_sample_weight=W
        )
        assert result.beta == pytest.approx(0.7 / (2 * R * W), rel=1e-15)
        expected = max(0, 2 * R**2 * W / (800 * 0.7) - ridge)
        assert result.delta_reg == pytest.approx(expected, rel=1e-12)
        assert result.kappa == pytest.approx(800 * (ridge + expected), rel=1e-12)


def test_tight_softmax_is_the_closed_form():
    result = calibrate(
        1.5, n_samples=10, data_norm=3, l2_reg_strength=0.0, n_classes=4, max_sample_weight=2
    )
    assert result.beta == pytest.approx(1.5 / (2 * math.sqrt(2) * 3 * 2), rel=1e-15)
    assert result.kappa == pytest.approx(8 * 9 * 2 / 1.5, rel=1e-14)


def test_tight_capped_adds_ridge_only_where_the_curvature_would_take_half():
    free = calibrate(1, n_samples=100, l2_reg_strength=0.1, loss="capped")
    assert free.delta_reg == 0
    assert free.beta == pytest.approx(0.975307387409628, rel=1e-12)
    raised = calibrate(1, n_samples=100, l2_reg_strength=1e-6, loss="capped")
    assert raised.kappa == pytest.approx(1 / (4 * math.expm1(0.5)), rel=1e-12)
    assert raised.beta == pytest.approx(0.5, rel=1e-12)


def reference_cost(t, a, loss, relation):
    """The table of costs, in 40 digits and by golden-section search where it has a maximum."""
    with mpmath.workdps(40):
        t, a = mpmath.mpf(t), mpmath.mpf(a)
        if loss == "capped":
            return t / (1 if relation == "replace_one" else 2) + mpmath.log1p(a / 4)

        def row(s):
            return t * s + mpmath.log1p(a * s * (1 - s))

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        for _ in range(90):
            one, two = low + (high - low) * 0.4, low + (high - low) * 0.6
            low, high = (one, high) if row(one) < row(two) else (low, two)
        return row(low) + (t if relation == "replace_one" else 0)


@pytest.mark.parametrize("setting", BINARY)
def test_cost_against_mpmath(setting):
    rng = np.random.default_rng(5)
    for t, a in 10 ** rng.uniform(-6, 5, size=(15, 2)):
        expected = float(reference_cost(t, a, *setting[:2]))
        found = perturbation_epsilon(beta=t, kappa=1 / a, **keywords(setting))
        assert found == pytest.approx(expected, rel=1e-13)


magnitude = st.floats(-4, 4).map(lambda exponent: 10**exponent)


@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-4, 20), ridge=magnitude, R=st.floats(0.1, 1e3), W=st.floats(0.1, 10))
def test_tight_spends_all_of_epsilon_and_no_more(setting, epsilon, ridge, R, W):
    public = {"data_norm": R, "max_sample_weight": W, **keywords(setting)}
    result = calibrate(epsilon, n_samples=100, l2_reg_strength=ridge, **public)
    cost = perturbation_epsilon(beta=result.beta, kappa=result.kappa, **public)
    assert epsilon * (1 - 1e-14) <= cost <= epsilon
    assert result.kappa >= 100 * ridge


@pytest.mark.parametrize("setting", BINARY)
@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-4, 20), excess=st.floats(1e-6, 1e3))
def test_beta_inverts_epsilon(setting, epsilon, excess):
    kappa = (1 + excess) / (4 * math.expm1(epsilon))
    beta = perturbation_beta(epsilon=epsilon, kappa=kappa, **keywords(setting))
    cost = perturbation_epsilon(beta=beta, kappa=kappa, **keywords(setting))
    assert beta > 0
    assert epsilon * (1 - 1e-14) <= cost <= epsilon


@pytest.mark.parametrize("setting", SETTINGS)
def test_beta_is_monotone_and_continuous(setting):
    """Along epsilon and along the ridge, through every branch, with no jump."""
    for grid, of in (
        (
            np.geomspace(0.01, 10, 2000),
            lambda x: calibrate(x, n_samples=50, l2_reg_strength=0.1, **keywords(setting)),
        ),
        (
            np.geomspace(1e-5, 10, 2000),
            lambda x: calibrate(0.8, n_samples=50, l2_reg_strength=x, **keywords(setting)),
        ),
    ):
        beta = np.array([of(x).beta for x in grid])
        kappa = np.array([of(x).kappa for x in grid])
        assert (np.diff(beta) >= -1e-15 * beta[1:]).all()
        assert np.max(beta[1:] / beta[:-1]) < 1.02
        assert np.max(np.abs(np.diff(np.log(kappa)))) < 0.01


def test_exact_inverse_is_monotone_where_the_jacobian_costs():
    kappas = np.geomspace(0.146, 3, 500)
    betas = [perturbation_beta(epsilon=1, kappa=kappa) for kappa in kappas]
    assert (np.diff(betas) >= 0).all()


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_no_noise_suffices_below_the_smallest_ridge(loss):
    smallest = 1 / (4 * math.expm1(1))
    with pytest.raises(InvalidParameterError, match="kappa"):
        perturbation_beta(epsilon=1, kappa=smallest * (1 - 1e-9), loss=loss)
    assert perturbation_beta(epsilon=1, kappa=smallest * (1 + 1e-9), loss=loss) > 0


def test_softmax_cost_below_its_ridge_is_refused():
    with pytest.raises(InvalidParameterError, match="kappa"):
        perturbation_epsilon(beta=1, kappa=2.8, n_classes=3)
    assert perturbation_epsilon(beta=1, kappa=2.83, n_classes=3) == pytest.approx(8**0.5)
    with pytest.raises(InvalidParameterError, match="kappa"):
        perturbation_beta(epsilon=1, kappa=7.9, n_classes=3)


def test_auto_ridge_value_and_equivariance():
    public = {"n_samples": 1000, "n_coefficients": 51}
    assert auto_l2_reg_strength(0.5, **public) == 51 / 1000
    base = calibrate(
        0.5, n_samples=1000, l2_reg_strength=auto_l2_reg_strength(0.5, **public), loss="capped"
    )
    for R, W in ((10.0, 1.0), (1.0, 3.0), (0.2, 7.0)):
        ridge = auto_l2_reg_strength(0.5, data_norm=R, max_sample_weight=W, **public)
        scaled = calibrate(
            0.5,
            n_samples=1000,
            l2_reg_strength=ridge,
            data_norm=R,
            max_sample_weight=W,
            loss="capped",
        )
        assert scaled.kappa == pytest.approx(base.kappa * R**2 * W, rel=1e-12)
        assert scaled.beta == pytest.approx(base.beta / (R * W), rel=1e-12)


BAD_REALS = [math.nan, math.inf, -math.inf, -1, 0, 1e300, True, "1", None, 10**400, [1]]


@pytest.mark.parametrize("value", BAD_REALS)
@pytest.mark.parametrize("name", ["epsilon", "data_norm", "max_sample_weight"])
def test_bad_reals_are_refused_by_name(name, value):
    public = {"epsilon": 1.0, "n_samples": 10, "l2_reg_strength": 0.1, name: value}
    with pytest.raises(InvalidParameterError, match=name):
        calibrate(**public)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_samples", 0),
        ("n_samples", 10.0),
        ("n_samples", True),
        ("l2_reg_strength", -0.1),
        ("l2_reg_strength", math.nan),
        ("l2_reg_strength", "auto"),
        ("loss", "hinge"),
        ("calibration", "cms"),
        ("neighboring_relation", "zero_out"),
        ("n_classes", 1),
    ],
)
def test_bad_choices_are_refused_by_name(name, value):
    public = {"epsilon": 1.0, "n_samples": 10, "l2_reg_strength": 0.1, name: value}
    with pytest.raises(InvalidParameterError, match=name):
        calibrate(**public)


@pytest.mark.parametrize("setting", SETTINGS[1:])
def test_published_calibration_is_refused_where_no_theorem_covers_it(setting):
    with pytest.raises(InvalidParameterError, match="calibration"):
        calibrate(1, n_samples=10, l2_reg_strength=0.1, calibration="cms2011", **keywords(setting))


def test_capped_softmax_is_refused():
    with pytest.raises(InvalidParameterError, match="loss"):
        calibrate(1, n_samples=10, l2_reg_strength=0.1, loss="capped", n_classes=3)


def test_numpy_scalars_are_numbers():
    assert calibrate(
        np.float32(0.5), n_samples=np.int64(100), l2_reg_strength=np.float64(0.1)
    ) == calibrate(0.5, n_samples=100, l2_reg_strength=0.1)
