"""Search within a budget, ours and scikit-learn's, and scaling by public constants."""

import re
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler

from privlr import PrivateLogisticRegression, model_selection
from privlr.audit import check_record
from privlr.exceptions import (
    ConvergenceError,
    InvalidParameterError,
    PrivacyBudgetError,
    PrivacyWarning,
)
from privlr.model_file import load_model, save_model
from privlr.model_selection import PrivateSearch, repetitions
from privlr.preprocessing import BoundedScaler, FeatureImportanceScaler
from privlr.privacy import Ledger
from privlr.stacking import (
    FeatureStackingClassifier,
    TransferSourceClassifier,
    load_stack,
    save_stack,
)

KINDS = {PrivateLogisticRegression: {}, FeatureStackingClassifier: {"n_groups": 2}}
GRID = {"l2_reg_strength": [1e-3, 1e-2, 1e-1]}


def data(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) / 2
    return X, (X.sum(axis=1) > 0).astype(int)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, FeatureStackingClassifier])
def test_grid_search_charges_every_fit(kind):
    ledger = Ledger()
    model = kind(0.5, classes=[0, 1], ledger=ledger)
    if kind is FeatureStackingClassifier:
        model.set_params(n_groups=3, n_jobs=2)
    GridSearchCV(clone(model), GRID, cv=6).fit(*data())
    assert [charge.epsilon for charge in ledger.charges] == [model.epsilon] * 19


def test_grid_search_is_refused_beyond_the_budget():
    ledger = Ledger(limit=5)
    model = PrivateLogisticRegression(0.5, classes=[0, 1], ledger=ledger)
    with pytest.raises(PrivacyBudgetError):
        GridSearchCV(model, GRID, cv=6, error_score="raise").fit(*data())
    assert ledger.spent == 5


@pytest.mark.slow
def test_grid_search_in_processes_charges_every_fit(tmp_path):
    ledger = Ledger(path=tmp_path / "ledger.db")
    model = PrivateLogisticRegression(0.5, classes=[0, 1], ledger=ledger)
    GridSearchCV(model, GRID, cv=6, n_jobs=2).fit(*data())
    assert len(ledger.charges) == 19


@pytest.mark.parametrize(
    ("options", "cost"),
    [
        ({"method": "repeat", "gamma": 0.3}, 3),
        ({"method": "repeat", "eta": 0, "gamma": 0.3}, 2),
        ({"method": "disjoint"}, 1),
    ],
)
def test_a_search_charges_its_cost_once(options, cost):
    ledger = Ledger()
    X, y = data(400)
    search = PrivateSearch(
        PrivateLogisticRegression(100.0, classes=[0, 1]), GRID, ledger=ledger, **options
    )
    assert search.privacy_cost().epsilon == 100 * cost
    search.fit(X, y)
    assert ledger.spent == 100 * cost
    assert search.best_params_["l2_reg_strength"] in GRID["l2_reg_strength"]
    assert search.score(X, y) > 0.8


def published(tmp_path, model):
    """What the files, the card and the audit of a model say of its budget."""
    stacked = hasattr(model, "low_level_")
    path = tmp_path / "model.json"
    (save_stack if stacked else save_model)(model, path)
    loaded = (load_stack if stacked else load_model)(path)
    if not stacked:
        assert all(check.passed for check in check_record(loaded.privacy_, n_coefficients=4))
    return loaded.privacy_, model.card().guarantee


@pytest.mark.parametrize(
    ("options", "cost"),
    [
        ({"method": "repeat", "gamma": 0.5}, Fraction(3, 2)),
        ({"method": "disjoint"}, Fraction(1, 2)),
    ],
)
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, FeatureStackingClassifier])
def test_a_chosen_model_states_the_cost_of_the_search(kind, options, cost, tmp_path):
    X, y = data(400)
    search = PrivateSearch(kind(0.5, classes=[0, 1], **KINDS[kind]), GRID, **options)
    model = search.fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y).best_estimator_
    record, guarantee = published(tmp_path, model)
    assert record == model.privacy_
    assert search.charge_.epsilon == cost
    assert record.epsilon == float(cost)
    assert guarantee.startswith(f"{float(cost):g}-differential privacy")
    assert "chosen by PrivateSearch" in record.notes
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    if kind is PrivateLogisticRegression:
        assert sum(charge.epsilon for charge in record.charges) == cost


def test_a_chosen_model_is_not_private_if_another_run_was_seeded(monkeypatch):
    X, y = data(400)
    monkeypatch.setattr(model_selection.SystemRandom, "choices", lambda *_, **__: [0])
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    with pytest.warns(PrivacyWarning, match="random_state"):
        search = PrivateSearch(model, {"random_state": [None, 3]}, method="disjoint").fit(X, y)
    record = search.best_estimator_.privacy_
    assert record.random_source == "system"
    assert not record.private
    assert "seeded" in record.notes[-1]


@pytest.fixture
def rows_seen(monkeypatch):
    """The rows that each fit and each prediction of a regression was given, in turn."""
    seen = []
    for name in ("fit", "predict"):
        method = getattr(PrivateLogisticRegression, name)

        def spy(model, X, *labels, name=name, method=method):
            seen.append((name, set(X[:, 0].tolist())))
            return method(model, X, *labels)

        monkeypatch.setattr(PrivateLogisticRegression, name, spy)
    return seen


def test_a_repeated_run_is_chosen_by_its_noisy_score_on_other_rows(rows_seen, monkeypatch):
    X, y = data()
    scored, scores = [], [5, 7, 7, 2]

    def noisy(count, epsilon):
        scored.append((count, epsilon))
        return scores[len(scored) - 1]

    monkeypatch.setattr(model_selection, "noisy_count", noisy)
    monkeypatch.setattr(model_selection, "repetitions", lambda *law: len(scores))
    grid = {"l2_reg_strength": [0.1, 0.2]}
    drawn = iter([{"l2_reg_strength": ridge} for ridge in (0.1, 0.2, 0.1, 0.1)])
    monkeypatch.setattr(
        model_selection,
        "SystemRandom",
        lambda: SimpleNamespace(random=lambda: 0.5, choice=lambda candidates: next(drawn)),
    )
    model = PrivateLogisticRegression(0.5, classes=[0, 1])
    search = PrivateSearch(model, grid).fit(X, y)
    assert search.best_params_ == {"l2_reg_strength": 0.2}  # the first of the highest scores
    assert [epsilon for _, epsilon in scored] == [0.5] * 4
    assert all(isinstance(count, int) and 0 <= count <= 12 for count, _ in scored)
    for fitted, tested in zip(rows_seen[::2], rows_seen[1::2], strict=True):
        assert (fitted[0], len(fitted[1])) == ("fit", 48)
        assert (tested[0], len(tested[1])) == ("predict", 12)
        assert not fitted[1] & tested[1]


def test_disjoint_parts_are_chosen_from_by_the_exponential_mechanism(rows_seen, monkeypatch):
    X, y = data()
    given, correct, run = [], [], PrivateSearch._run

    def counted(*arguments):
        model, _ = run(*arguments)
        correct.append(3 * len(correct) + 1)
        return model, correct[-1]

    monkeypatch.setattr(PrivateSearch, "_run", counted)

    def choices(population, weights):
        given[:] = weights
        return [2]

    monkeypatch.setattr(model_selection, "SystemRandom", lambda: SimpleNamespace(choices=choices))
    model = PrivateLogisticRegression(0.5, classes=[0, 1])
    search = PrivateSearch(model, GRID, method="disjoint").fit(X, y)
    assert search.best_params_ == {"l2_reg_strength": 1e-1}
    parts = [rows for name, rows in rows_seen if name == "fit"]
    tests = [rows for name, rows in rows_seen if name == "predict"]
    assert tests == [tests[0]] * 3
    assert set.union(*parts, tests[0]) == set(X[:, 0].tolist())
    assert sum(map(len, parts)) + len(tests[0]) == 60
    # A row changes a count of correct predictions by 1, so counts enter by epsilon/2 each.
    np.testing.assert_allclose(np.log(given), 0.25 * (np.array(correct) - max(correct)))


@pytest.mark.parametrize("method", ["repeat", "disjoint"])
def test_a_failed_search_stays_charged(method, monkeypatch):
    def fail(*arguments):
        raise ConvergenceError("planted")

    monkeypatch.setattr(PrivateLogisticRegression, "fit", fail)
    ledger = Ledger()
    search = PrivateSearch(
        PrivateLogisticRegression(1.0, classes=[0, 1]), GRID, method=method, ledger=ledger
    )
    with pytest.raises(ConvergenceError):
        search.fit(*data())
    assert ledger.spent == (3 if method == "repeat" else 1)


def test_the_number_of_runs_follows_its_law():
    uniforms = (np.arange(20000) + 0.5) / 20000
    geometric = np.array([repetitions(0.2, 1, u) for u in uniforms])
    logarithmic = np.array([repetitions(0.2, 0, u) for u in uniforms])
    assert geometric.mean() == pytest.approx(5, rel=1e-2)
    # Mean of the logarithmic law: (1/gamma - 1)/log(1/gamma).
    assert logarithmic.mean() == pytest.approx(4 / np.log(5), rel=1e-2)
    for k in (1, 2, 3):
        assert (geometric == k).mean() == pytest.approx(0.2 * 0.8 ** (k - 1), abs=1e-3)
        assert (logarithmic == k).mean() == pytest.approx(0.8**k / k / np.log(5), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "estimator", "options"),
    [
        ("method", {}, {"method": "grid"}),
        ("eta", {}, {"eta": 2}),
        ("gamma", {}, {"gamma": 1.0}),
        ("estimator", {"ledger": Ledger()}, {}),
        ("param_grid", {}, {"param_grid": {"epsilon": [1, 2]}}),
        ("param_grid", {}, {"param_grid": {"ledger": [None]}}),
        ("param_grid", {}, {"param_grid": {"epsilom": [1, 2]}}),
        ("param_grid", {}, {"param_grid": []}),
        ("l2_reg_strength", {}, {"param_grid": {"l2_reg_strength": [0.1, -1]}}),
        ("classes", {"classes": None}, {}),
        ("y", {"classes": [0, 2]}, {}),
        ("neighboring_relation", {}, {"param_grid": [{"neighboring_relation": ["add_remove"]}]}),
        (
            "neighboring_relation",
            {"neighboring_relation": "add_remove", "public_n_samples": 50},
            {},
        ),
    ],
)
@pytest.mark.parametrize("method", ["repeat", "disjoint"])
def test_bad_searches_are_refused_before_any_charge(name, estimator, options, method):
    model = PrivateLogisticRegression(1.0, **{"classes": [0, 1], **estimator})
    ledger = Ledger()
    options = {"param_grid": GRID, "method": method, "ledger": ledger, **options}
    with pytest.raises(InvalidParameterError, match=name):
        PrivateSearch(model, **options).fit(*data())
    assert ledger.spent == 0


@pytest.mark.parametrize(("method", "times"), [("repeat", 3), ("disjoint", 1)])
@pytest.mark.parametrize("where", ["estimator", "grid"])
def test_a_run_costs_what_it_says_and_not_its_epsilon(method, times, where):
    """A published source of three groups costs three times its epsilon."""
    source, grid = TransferSourceClassifier(1.0, n_groups=3, classes=[0, 1]), GRID
    if where == "estimator":
        source.set_params(pipeline="published")
    else:
        grid = {"pipeline": ["privlr", "published"]}
    ledger = Ledger()
    PrivateSearch(source, grid, method=method, gamma=0.5, ledger=ledger).fit(*data())
    assert ledger.spent == 3 * times


def test_a_search_needs_a_private_estimator():
    pipeline = make_pipeline(PrivateLogisticRegression(1.0))
    for other, grid in ((LogisticRegression(), {"C": [1.0]}), (pipeline, {"verbose": [False]})):
        with pytest.raises(InvalidParameterError, match="estimator"):
            PrivateSearch(other, grid).privacy_cost()


@pytest.mark.parametrize("grid", [{}, [], [{}], {"loss": []}])
def test_a_search_over_nothing_is_refused_before_any_charge(grid):
    ledger = Ledger()
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    with pytest.raises(InvalidParameterError, match="param_grid must be"):
        PrivateSearch(model, grid, ledger=ledger).fit(*data())
    assert ledger.spent == 0


@pytest.mark.parametrize("method", ["repeat", "disjoint"])
def test_rows_that_a_search_cannot_take_are_refused_before_any_charge(method):
    X, y = data()
    ledger = Ledger()
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    search = PrivateSearch(model, GRID, method=method, ledger=ledger)
    cells = X.astype(object)
    cells[3, 2] = "secret"
    for rows, labels in ((X, y[:50]), (X[:50], y), (X[:1], y[:1]), (cells, y)):
        with pytest.raises(ValueError) as refused:
            search.fit(rows, labels)
        assert "secret" not in str(refused.value)
    assert ledger.spent == 0


def test_a_search_knows_its_columns_by_name():
    X, y = data()
    X = pandas.DataFrame(X, columns=list("abc"))
    search = PrivateSearch(PrivateLogisticRegression(1.0, classes=[0, 1]), GRID, gamma=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y).predict(X)
    with pytest.raises(ValueError, match="feature names"):
        search.predict(X[["c", "b", "a"]])


def test_bounded_scaler_maps_ranges_to_the_unit_ball():
    X = np.array([[0.0, -5.0], [10.0, 5.0], [5.0, 0.0], [1e9, -1e9]])
    scaled = BoundedScaler(lower=[0, -5], upper=[10, 5]).fit(X[:1]).transform(X)
    assert np.linalg.norm(scaled, axis=1) == pytest.approx([1, 1, 0, 1])
    for lower, upper in [
        ([0, 0], [1, 0]),
        ([0], [np.nan]),
        ([0, 0, 0], [1, 1, 1]),
        (-1e308, 1e308),
    ]:
        with pytest.raises(InvalidParameterError):
            BoundedScaler(lower, upper).fit(X)


def test_importance_scaler_keeps_the_length_of_an_even_row():
    X, _ = data()
    scaler = FeatureImportanceScaler([4.0, 1.0, 0.0])
    np.testing.assert_allclose(scaler.fit_transform(X), X * [2, 1, 0] * np.sqrt(3 / 5))
    assert np.linalg.norm(scaler.transform([[1.0, 1.0, 1.0]])) == pytest.approx(np.sqrt(3))
    for importance in ([-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0], [1.0, 1.0]):
        with pytest.raises(InvalidParameterError, match="importance"):
            FeatureImportanceScaler(importance).fit(X)


@pytest.mark.filterwarnings("ignore:random_state")
@pytest.mark.parametrize("where", ["estimator", "grid"])
def test_a_search_over_seeded_runs_is_not_private(where):
    ledger = Ledger()
    X, y = data()
    model = PrivateLogisticRegression(1.0, classes=[0, 1])
    grid = GRID
    if where == "estimator":
        model.set_params(random_state=0)
    else:
        grid = {**GRID, "random_state": [None, 3]}
    search = PrivateSearch(model, grid, method="disjoint", ledger=ledger).fit(X, y)
    assert not search.private_
    assert search.charge_.note == ledger.charges[0].note == "disjoint (seeded: not private)"
    search = PrivateSearch(PrivateLogisticRegression(1.0, classes=[0, 1]), GRID).fit(X, y)
    assert search.private_
    assert search.charge_.note == "repeat"


def estimators():
    return [
        PrivateLogisticRegression(1.0, classes=[0, 1]),
        FeatureStackingClassifier(1.0, n_groups=2, classes=[0, 1]),
    ]


@pytest.mark.parametrize("estimator", estimators(), ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    ("step", "name"),
    [
        (StandardScaler(), "step (StandardScaler)"),
        (MinMaxScaler(), "step (MinMaxScaler)"),
        (PCA(2), "step (PCA)"),
        (make_pipeline(Normalizer(), PCA(2)), "pca (PCA)"),
        (make_union(Normalizer(), StandardScaler()), "standardscaler (StandardScaler)"),
        (make_column_transformer((MinMaxScaler(), [0]), ("drop", [1])), "minmaxscaler (MinMax"),
        (
            make_column_transformer(("passthrough", [0]), remainder=MinMaxScaler()),
            "remainder (MinMaxScaler)",
        ),
    ],
)
def test_a_step_that_learns_is_told_of(step, name, estimator):
    X, y = data()
    if isinstance(step, ColumnTransformer) and not isinstance(estimator, PrivateLogisticRegression):
        estimator = clone(estimator).set_params(n_groups=1)
    ledger = Ledger()
    pipeline = Pipeline([("step", step), ("model", clone(estimator).set_params(ledger=ledger))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match=re.escape(name)):
            pipeline.fit(X, y)
    assert ledger.spent == 0
    with pytest.warns(PrivacyWarning, match="not covered: steps of the pipeline"):
        pipeline.fit(X, y)
    assert name in pipeline[-1].privacy_.notes[0]


@pytest.mark.parametrize("estimator", estimators(), ids=lambda model: type(model).__name__)
@pytest.mark.parametrize(
    "step",
    [
        BoundedScaler(-1, 1),
        FeatureImportanceScaler([1.0, 2.0, 3.0]),
        Normalizer(),
        FunctionTransformer(np.tanh),
        "passthrough",
    ],
)
def test_a_step_that_learns_nothing_is_not(step, estimator):
    X, y = data()
    pipeline = Pipeline([("step", step), ("model", clone(estimator))]).fit(X, y)
    assert pipeline[-1].privacy_.notes == ()
    if step != "passthrough":  # and its transform needs no fit
        clone(step).transform(X)


def test_a_search_inside_a_pipeline_is_told_too():
    X, y = data()
    search = GridSearchCV(PrivateLogisticRegression(1.0, classes=[0, 1]), GRID, cv=2)
    with pytest.warns(PrivacyWarning, match="StandardScaler"):
        make_pipeline(StandardScaler(), search).fit(X, y)
    with pytest.warns(PrivacyWarning, match="StandardScaler"):
        GridSearchCV(
            make_pipeline(StandardScaler(), PrivateLogisticRegression(1.0, classes=[0, 1])),
            {"privatelogisticregression__l2_reg_strength": [0.1]},
            cv=2,
        ).fit(X, y)
