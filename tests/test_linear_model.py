"""PrivateLogisticRegression as a user of scikit-learn meets it."""

import gc
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from privlr import PrivateLogisticRegression, solve
from privlr.exceptions import InvalidParameterError, PrivacyBudgetError, PrivacyWarning
from privlr.privacy import Ledger

WEIGHTS = "the objective is a mean over rows, whose number is public: a weight is no repetition"


@pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@parametrize_with_checks(
    [PrivateLogisticRegression(1e6, data_norm=10.0, classes="public", max_sample_weight=10.0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / 3
    return X, (X.sum(axis=1) + 0.3 * rng.normal(size=n) > 0).astype(int)


def clipped(X, R=1.0):
    rows = np.column_stack([X, np.ones(len(X))])
    return rows * np.minimum(1, R / np.linalg.norm(rows, axis=1))[:, None]


def test_without_noise_it_is_ridge_logistic_regression():
    X, y = data()
    model = PrivateLogisticRegression(1e9, classes=[0, 1], l2_reg_strength=1e-3).fit(X, y)
    exact = solve(clipped(X), 2 * y - 1, l2_reg_strength=1e-3).coef
    np.testing.assert_allclose(np.r_[model.coef_[0], model.intercept_], exact, atol=1e-6)


def test_without_noise_the_softmax_is_scikit_learns():
    rng = np.random.default_rng(1)
    X, y = data()[0], rng.integers(0, 3, 300)
    model = PrivateLogisticRegression(
        1e9, classes=[0, 1, 2], l2_reg_strength=1e-2, fit_intercept=False, data_norm=10.0
    ).fit(X, y)
    peer = LogisticRegression(C=1 / 3.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-6)
    assert model.intercept_.shape == (3,)


@pytest.mark.data
@pytest.mark.parametrize("name", ["a9a", "mnist_0_8"])
def test_without_noise_on_real_data(real_data, name):
    from privlr import datasets

    found = getattr(datasets, f"load_{name}")()
    X, y = found.X_train, found.y_train
    if name == "mnist_0_8":
        X, y = np.asarray(X[:4000], dtype=np.float64) / 255 / 28, y[:4000]
    R = 4.0 if name == "a9a" else 1.0
    l2 = 1e-3
    model = PrivateLogisticRegression(
        1e9, classes=np.unique(y), l2_reg_strength=l2, data_norm=R, fit_intercept=False
    ).fit(X, y)
    dense = sp.csr_array(X)
    norms = np.sqrt(dense.multiply(dense).sum(axis=1))
    assert norms.max() <= R
    peer = LogisticRegression(
        C=1 / (len(y) * l2), fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-6)


def test_layouts_give_one_model():
    X, y = data()
    fits = [PrivateLogisticRegression(1.0, classes=[0, 1], random_state=0) for _ in range(3)]
    with pytest.warns(PrivacyWarning):
        C = fits[0].fit(X, y)
        F = fits[1].fit(np.asfortranarray(X), y)
        S = fits[2].fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(C.coef_, F.coef_, atol=1e-8)
    np.testing.assert_allclose(C.coef_, S.coef_, atol=1e-8)
    order = np.random.default_rng(0).permutation(len(X))
    with pytest.warns(PrivacyWarning):
        moved = clone(C).fit(X[order], y[order])
    np.testing.assert_allclose(C.coef_, moved.coef_, atol=1e-9)


def test_the_record():
    X, y = data()
    model = PrivateLogisticRegression(0.5, classes=[0, 1]).fit(X, y)
    record = model.privacy_
    assert (record.epsilon, record.delta, record.R, record.n_samples) == (0.5, 0.0, 1.0, 300)
    assert record.private and record.random_source == "system"
    assert record.beta == pytest.approx(0.5 * 127 / 128 / 2)
    assert "classes" not in record.public
    public = PrivateLogisticRegression(0.5, classes="public").fit(X, y)
    assert "classes" in public.privacy_.public
    with pytest.raises(AttributeError):
        record.epsilon = 9.0


def test_the_cost_is_known_without_data():
    model = PrivateLogisticRegression(0.5, classes=[0, 1])
    cost = model.privacy_cost()
    assert (float(cost.epsilon), float(cost.delta)) == (0.5, 0.0)
    X, y = data()
    assert model.privacy_cost(*X.shape) == model.fit(X, y).privacy_


def test_the_cost_with_a_prior_mean_is_known_without_data():
    model = PrivateLogisticRegression(0.5, classes=[0, 1], prior_mean=[0.1] * 5)
    assert model.privacy_cost().epsilon == Fraction(1, 2)
    assert model.privacy_cost(n_samples=100, n_features=4).epsilon == 0.5
    # A distant centre makes long coefficients, whose rounding the certificate has to allow for.
    near = model.privacy_cost(n_samples=100, n_features=4)
    far = model.set_params(prior_mean=[1e6] * 5).privacy_cost(n_samples=100, n_features=4)
    assert far.certificate > 1e3 * near.certificate
    for wrong in (0, -1, 1.5, True, "4"):
        with pytest.raises(InvalidParameterError, match="n_features"):
            model.privacy_cost(n_samples=100, n_features=wrong)


def test_add_remove_hides_the_number_of_rows():
    X, y = data()
    model = PrivateLogisticRegression(1.0, classes=[0, 1], neighboring_relation="add_remove")
    with pytest.raises(InvalidParameterError, match="public_n_samples"):
        model.fit(X, y)
    model.set_params(public_n_samples=250)
    assert model.fit(X, y).privacy_ == model.fit(X[1:], y[1:]).privacy_
    assert model.privacy_.n_samples == 250
    with pytest.raises(InvalidParameterError, match="at least half"):
        model.set_params(public_n_samples=149).fit(X, y)


def test_only_what_is_released_is_stored():
    X, y = data()
    model = PrivateLogisticRegression(1.0, classes=[0, 1]).fit(X, y)
    stored = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert stored == {
        "coef_",
        "intercept_",
        "classes_",
        "privacy_",
        "n_features_in_",
        "released_on_",
    }
    dumped = pickle.dumps(model)
    assert X[17].tobytes() not in dumped and len(dumped) < 5000
    again = pickle.loads(dumped)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.privacy_ == model.privacy_


def test_ledger_is_charged_before_and_by_every_clone():
    X, y = data()
    ledger = Ledger(limit=1)
    model = PrivateLogisticRegression(0.3, classes=[0, 1], ledger=ledger)
    for _ in range(3):
        clone(model).fit(X, y)
    with pytest.raises(PrivacyBudgetError):
        clone(model).fit(X, y)
    assert float(ledger.spent) == 0.9


def test_a_failed_solve_stays_charged(monkeypatch):
    from test_mechanisms import loosen_the_solver

    from privlr.exceptions import ConvergenceError

    X, y = data(500, 20)
    ledger = Ledger(limit=100)
    loosen_the_solver(monkeypatch)
    with pytest.raises(ConvergenceError):
        PrivateLogisticRegression(50.0, classes=[0, 1], l2_reg_strength=1e-5, ledger=ledger).fit(
            X, y
        )
    assert ledger.spent == 50


BAD = [
    ({"epsilon": float("nan")}, {}, "epsilon"),
    ({"epsilon": float("inf")}, {}, "epsilon"),
    ({"epsilon": 0}, {}, "epsilon"),
    ({"epsilon": -1}, {}, "epsilon"),
    ({"epsilon": True}, {}, "epsilon"),
    ({"epsilon": "1"}, {}, "epsilon"),
    ({"epsilon": 1e300}, {}, "epsilon"),
    ({"data_norm": 0}, {}, "data_norm"),
    ({"data_norm": float("nan")}, {}, "data_norm"),
    ({"data_norm": -2.0}, {}, "data_norm"),
    ({"l2_reg_strength": -1.0}, {}, "l2_reg_strength"),
    ({"l2_reg_strength": "balanced"}, {}, "l2_reg_strength"),
    ({"loss": "hinge"}, {}, "loss"),
    ({"loss": "capped", "calibration": "cms2011"}, {}, "calibration"),
    ({"calibration": "loose"}, {}, "calibration"),
    ({"neighboring_relation": "row"}, {}, "neighboring_relation"),
    ({"fit_intercept": "yes"}, {}, "fit_intercept"),
    ({"max_sample_weight": 0}, {}, "max_sample_weight"),
    ({"n_jobs": 1.5}, {}, "n_jobs"),
    ({"ledger": 1.0}, {}, "ledger"),
    ({"prior_mean": [1.0]}, {}, "prior_mean"),
    ({"prior_mean": "none"}, {}, "prior_mean"),
    ({"prior_mean": [float("nan")] * 5}, {}, "prior_mean"),
    ({"classes": None}, {}, "classes"),
    ({"classes": [1]}, {}, "classes"),
    ({"classes": [0, 0, 1]}, {}, "classes"),
    ({"classes": "infer"}, {}, "classes"),
    ({"classes": [0, 2]}, {}, "y"),
    ({"classes": ["a", "b"]}, {}, "y"),
    ({"classes": "public"}, {"y": np.zeros(300, dtype=int)}, "y"),
    ({}, {"X": np.where(np.arange(1200).reshape(300, 4) == 7, np.nan, 0.5)}, "X"),
    ({}, {"X": np.where(np.arange(1200).reshape(300, 4) == 7, np.inf, 0.5)}, "X"),
    ({}, {"sample_weight": np.full(300, 1.5)}, "sample_weight"),
    ({}, {"sample_weight": np.full(300, -0.5)}, "sample_weight"),
    ({}, {"sample_weight": np.full(300, np.nan)}, "sample_weight"),
    ({}, {"sample_weight": np.ones(299)}, "sample_weight"),
    # A row without a weight weighs 1, which is more than such a bound.
    ({"max_sample_weight": 0.5}, {}, "sample_weight"),
    ({}, {"sample_weight": "balanced"}, "sample_weight"),
    ({}, {"sample_weight": ["heavy"] * 300}, "sample_weight"),
    ({}, {"sample_weight": np.full(300, 0.5 + 1j)}, "sample_weight"),
]


@pytest.mark.parametrize(("parameters", "arguments", "name"), BAD)
def test_bad_input_is_named_before_any_budget_is_spent(parameters, arguments, name):
    X, y = data()
    ledger = Ledger(limit=1e40)
    options = {"epsilon": 1.0, "classes": [0, 1], "ledger": ledger} | parameters
    with pytest.raises(InvalidParameterError) as caught:
        PrivateLogisticRegression(**options).fit(**({"X": X, "y": y} | arguments))
    assert caught.value.name == name
    assert ledger.spent == 0


@pytest.mark.parametrize(
    "X",
    [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.array([["a"], ["b"], ["c"]])],
    ids=["no-rows", "no-columns", "vector", "text"],
)
def test_bad_shapes_are_refused(X):
    ledger = Ledger(limit=1)
    with pytest.raises(ValueError):
        PrivateLogisticRegression(1.0, classes=[0, 1], ledger=ledger).fit(X, [0, 1, 0][: len(X)])
    assert ledger.spent == 0


@pytest.mark.parametrize(
    "change",
    [
        {"X": np.where(np.eye(300, 4), "4711", "0.5").astype(object).reshape(300, 4)},
        {"X": np.full((300, 4), "4711x")},
        {"X": np.full((300, 4), 4711 + 1j)},
        {"X": np.full(300, 4711.0)},
        {"y": np.full(300, 4711)},
        {"y": np.full(300, 4711.5)},
        {"y": np.full(300, 4711 + 1j)},
        {"sample_weight": ["4711x"] * 300},
        {"sample_weight": np.full(300, 4711.0)},
    ],
)
def test_refusals_quote_no_value_of_the_data(change):
    X, y = data()
    if "X" in change and change["X"].dtype == object:
        change["X"][0, 0] = "4711x"
    with pytest.raises((TypeError, ValueError)) as caught:
        PrivateLogisticRegression(1.0, classes=[0, 1]).fit(**({"X": X, "y": y} | change))
    assert "4711" not in str(caught.value)


def test_the_ledger_is_charged_what_the_fit_uses():
    X, y = data()
    ledger = Ledger()
    for epsilon in (np.float32(0.1), np.float16(0.3), 0.1, 1):
        before = ledger.spent
        model = PrivateLogisticRegression(epsilon, classes=[0, 1], ledger=ledger).fit(X, y)
        assert ledger.spent - before >= model.privacy_.epsilon * (1 - Fraction(1, 2**52))


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError):
        PrivateLogisticRegression(1.0, tol=1e-3)
    with pytest.raises(TypeError):
        PrivateLogisticRegression(1.0, 2.0)


def test_one_label_among_declared_classes_is_legal():
    X, _ = data()
    model = PrivateLogisticRegression(1.0, classes=["a", "b"]).fit(X, ["a"] * 300)
    assert set(model.predict(X)) <= {"a", "b"}


def test_a_single_row_and_a_single_column():
    model = PrivateLogisticRegression(1.0, classes=[0, 1], fit_intercept=False)
    assert model.fit([[0.5]], [1]).coef_.shape == (1, 1)


def test_a_row_of_any_length_moves_the_gradient_by_the_bound():
    X, y = data()
    X2 = X.copy()
    X2[3] *= 1e6
    with pytest.warns(PrivacyWarning):
        a, b = (
            PrivateLogisticRegression(1.0, classes=[0, 1], random_state=1).fit(Z, y)
            for Z in (X, X2)
        )
    difference = np.linalg.norm(np.r_[a.coef_[0] - b.coef_[0], a.intercept_ - b.intercept_])
    assert difference <= 2.001 / a.privacy_.kappa


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f8"])
def test_plain_arrays_are_taken_as_scikit_learn_takes_them(dtype):
    X, y = data()
    X = X.astype(dtype)
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    model.fit(pd.DataFrame(X.astype(float), columns=list("abcd")), y).fit(X, y)
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    bad = y.astype(float)
    bad[0] = np.nan
    for rows, labels in ((X[:0], y[:0]), (X[:, :0], y), (X[:5], y), (X[0], y[:1]), (X, bad)):
        with pytest.raises(ValueError):
            model.fit(rows, labels)
    assert model.n_features_in_ == 4


def test_data_frames_keep_their_names():
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = PrivateLogisticRegression(1.0, classes=[0, 1]).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("bacd")])


def test_no_warning_without_a_seed():
    X, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateLogisticRegression(1.0, classes=[0, 1]).fit(X, y)


def test_constructor_parameters_are_never_written():
    X, y = data()
    model = PrivateLogisticRegression(1.0, classes=[0, 1], data_norm=2)
    before = dict(model.get_params())
    model.fit(X * 100, y)
    assert model.get_params() == before


def test_utility_grows_with_epsilon():
    X, y = data(3000)
    score = [
        np.mean(
            [PrivateLogisticRegression(e, classes=[0, 1]).fit(X, y).score(X, y) for _ in range(5)]
        )
        for e in (0.01, 10.0)
    ]
    assert score[1] > max(0.85, score[0])


def test_fits_leak_no_memory():
    import resource

    X, y = data(100)
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    for _ in range(50):
        model.fit(X, y)
    gc.collect()
    objects, peak = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        model.fit(X, y)
    gc.collect()
    assert len(gc.get_objects()) - objects < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 4096
