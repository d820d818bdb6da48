"""What private estimators do among their neighbours: tables, pipelines, pickles."""

import io
import pickle

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from privlr import PrivateLogisticRegression
from privlr.audit import noise_of
from privlr.exceptions import InvalidParameterError, PrivacyBudgetError
from privlr.mechanisms import RandomSource, noise
from privlr.model_selection import PrivateSearch
from privlr.preprocessing import BoundedScaler
from privlr.privacy import Ledger
from privlr.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
)
from privlr.vertical import VerticalLogisticRegression

NAMES = ["age", "dose", "weight"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(400, 3))
    return X, np.where(X[:, 0] + rng.normal(0, 0.3, size=400) > 0.5, "yes", "no")


def model(**options):
    return PrivateLogisticRegression(50.0, classes=["no", "yes"], **options)


STACKS = [
    lambda: SampleStackingClassifier(50.0, n_parts=2, classes=["no", "yes"]),
    lambda: FeatureStackingClassifier(50.0, n_groups=2, classes=["no", "yes"]),
]


def as_polars(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(dict(zip(NAMES, X.T.copy(), strict=True)))


def as_pandas(X):
    return pd.DataFrame(X, columns=NAMES)


@pytest.mark.parametrize("make", [model, *STACKS])
@pytest.mark.parametrize("table", [as_pandas, as_polars])
def test_tables_keep_their_names_and_refuse_others(data, make, table):
    X, y = data
    fitted = make().fit(table(X), y)
    assert list(fitted.feature_names_in_) == NAMES
    np.testing.assert_array_equal(fitted.predict(table(X)), fitted.predict(as_pandas(X)))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(as_pandas(X)[NAMES[::-1]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(data, library):
    pytest.importorskip(library)
    X, _ = data
    scaler = BoundedScaler(lower=0, upper=[1, 1, 1]).set_output(transform=library)
    scaled = scaler.fit_transform(as_pandas(X))
    assert type(scaled).__module__.startswith(library)
    assert list(scaled.columns) == NAMES


def test_column_transformer_in_a_pipeline(data):
    X, y = data
    chosen = make_column_transformer(
        (BoundedScaler(lower=[0, 0], upper=[1, 1]), ["age", "dose"]), ("drop", ["weight"])
    )
    pipeline = make_pipeline(chosen, model()).fit(as_pandas(X), y)
    assert pipeline[-1].coef_.shape == (1, 2)
    assert pipeline.score(as_pandas(X), y) > 0.7


def test_every_fit_of_a_search_is_charged(data):
    X, y = data
    ledger = Ledger(limit=1000)
    cross_val_score(model(ledger=ledger), X, y, cv=4)
    assert ledger.spent == 200
    GridSearchCV(model(ledger=ledger), {"loss": ["logistic", "capped"]}, cv=3).fit(X, y)
    assert ledger.spent == 200 + 7 * 50


def test_sample_weight_is_routed(data):
    X, y = data
    weight = np.zeros(len(y))
    weight[y == "yes"] = 1.0
    with sklearn.config_context(enable_metadata_routing=True):
        final = model(max_sample_weight=1.0).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(BoundedScaler(lower=0, upper=1), final)
        pipeline.fit(X, y, sample_weight=weight)
    # Only rows of one class count.
    assert (pipeline.predict(X) == "yes").all()


def test_arrays_of_the_array_api_standard(data):
    strict = pytest.importorskip("array_api_strict")
    X, y = data
    assert model().fit(strict.asarray(X), y).score(X, y) > 0.7


def joblib_dumps(value):
    buffer = io.BytesIO()
    joblib.dump(value, buffer)
    return buffer.getvalue()


def spied_noise(monkeypatch):
    """Record every vector that the samplers hand out."""
    seen = []
    for name in ("sphere", "discrete_laplace"):
        draw = getattr(noise, name)

        def spy(*arguments, draw=draw):
            drawn = draw(*arguments)
            seen.append(np.array(drawn[0] if isinstance(drawn, tuple) else drawn))
            return drawn

        monkeypatch.setattr(noise, name, spy)
    gaussian = noise.rounded_gaussian

    def spy_gaussian(mean, *arguments):
        drawn = gaussian(mean, *arguments)
        seen.extend([mean.copy(), drawn - mean])
        return drawn

    monkeypatch.setattr(noise, "rounded_gaussian", spy_gaussian)
    return seen


def source():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, size=(300, 3))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    return TransferSourceClassifier(50.0, n_groups=2, classes=["no", "yes"]).fit(X, y)


def vertical(**options):
    options = {"epsilon": 50.0, "delta": 1e-5, "classes": ["no", "yes"], **options}
    return VerticalLogisticRegression([[0, 1], [2]], **options)


EVERY = {
    "regression": model,
    "rows": STACKS[0],
    "columns": STACKS[1],
    "source": lambda: TransferSourceClassifier(50.0, n_groups=2, classes=["no", "yes"]),
    "target": lambda: TransferStackingClassifier(50.0, source=source(), classes=["no", "yes"]),
    "search": lambda: PrivateSearch(model(), {"loss": ["logistic", "capped"]}),
    "shares": lambda: vertical(release="shares"),
    "statistics": lambda: vertical(release="statistics"),
}


@pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps, joblib_dumps])
@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
def test_a_pickle_holds_neither_rows_nor_noise(data, make, dumps, monkeypatch):
    X, y = data
    seen = spied_noise(monkeypatch)
    fitted = make().fit(X, y)
    assert len(seen) >= 2
    dumped = dumps(fitted)
    load = joblib.load if dumps is joblib_dumps else pickle.load
    again = load(io.BytesIO(dumped))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    for value in X.ravel():
        assert value.tobytes() not in dumped
        assert np.float32(value).tobytes() + np.float32(X[0, 1]).tobytes() not in dumped
    for vector in seen:
        for value in vector.ravel():
            # Small integers are anywhere; so is the statistic of a constant.
            if abs(value) > 1000 or (vector.dtype.kind == "f" and value != round(value)):
                assert value.tobytes() not in dumped
                assert value.tobytes()[::-1] not in dumped
                assert repr(value.item()).encode() not in dumped
    for label in (
        b"no",
        b"yes",
    ):  # the declared classes stand once or twice, labels would 400 times
        assert dumped.count(label) < 30


def test_the_scan_would_find_rows_and_noise(data, monkeypatch):
    X, y = data
    seen = spied_noise(monkeypatch)
    fitted = model().fit(X, y)
    fitted.rows_, fitted.noise_ = X, seen[0]
    dumped = pickle.dumps(fitted)
    assert X[3, 1].tobytes() in dumped
    assert seen[0][0].tobytes() in dumped


def test_a_released_model_does_not_store_what_gives_its_noise_away(data):
    """The noise follows from coefficients and rows together, and from nothing less."""
    X, y = data
    fitted = model(fit_intercept=False).fit(X, y)
    labels = np.where(y == "yes", 1.0, -1.0)
    clipped = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    b = noise_of(fitted.coef_[0], clipped, labels, kappa=fitted.privacy_.kappa)
    assert np.linalg.norm(b) > 0
    assert not any(value.tobytes() in pickle.dumps(fitted) for value in b)


def test_a_live_ledger_is_no_part_of_a_pickle(data, tmp_path):
    X, y = data
    with_memory = model(ledger=Ledger(limit=100)).fit(X, y)
    with pytest.raises(TypeError, match="give it a path"):
        pickle.dumps(with_memory)
    fitted = model(ledger=Ledger(limit=100, path=tmp_path / "l.db")).fit(X, y)
    assert b"SQLite" not in pickle.dumps(fitted)
    assert pickle.loads(pickle.dumps(fitted)).ledger.spent == 50


def search():
    return PrivateSearch(model(), {"loss": ["logistic", "capped"]}, method="disjoint")


@pytest.mark.parametrize("make", [model, *STACKS, vertical, search])
def test_a_refused_refit_leaves_the_fitted_model_as_it_was(data, make):
    X, y = data
    spare = {name: array.copy() for name, array in (("X", X), ("y", y))}
    fitted = make().set_params(ledger=Ledger(120, delta_limit=1)).fit(X, y)
    before = dict(vars(fitted))
    wide = pd.DataFrame(np.hstack([X, X]), columns=list("abcdef"))
    spoilt = X.copy()
    spoilt[-1, -1] = np.nan
    refusals = [(wide, np.full(400, "maybe")), (X[:, :2], y[:5]), (spoilt, y)]
    for rows, labels in refusals:
        with pytest.raises(ValueError):
            fitted.fit(rows, labels)
        assert vars(fitted) == before
    with pytest.raises(PrivacyBudgetError):
        for _ in range(3):
            before = dict(vars(fitted))
            fitted.fit(X, y)
    assert vars(fitted) == before
    assert (X == spare["X"]).all() and (y == spare["y"]).all()


@pytest.mark.parametrize("make", [model, *STACKS, vertical, search])
def test_an_interrupted_refit_leaves_the_fitted_model_as_it_was(data, make, monkeypatch):
    X, y = data
    ledger = Ledger()
    fitted = make().set_params(ledger=ledger).fit(X, y)
    before, spent = dict(vars(fitted)), ledger.spent

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(RandomSource, "key", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(as_pandas(X), y)
    assert vars(fitted) == before
    assert ledger.spent > spent


@pytest.mark.parametrize("make", [model, *STACKS, vertical, search])
def test_hidden_values_of_masked_arrays_are_refused(data, make):
    X, y = data
    ledger = Ledger()
    fitted = make().set_params(ledger=ledger)
    hidden = np.arange(X.size).reshape(X.shape) == 7
    with pytest.raises(InvalidParameterError, match="X must be without masked values"):
        fitted.fit(np.ma.masked_array(X, hidden), y)
    with pytest.raises(InvalidParameterError, match="y must be without masked values"):
        fitted.fit(X, np.ma.masked_array(y, hidden.any(axis=1)))
    assert ledger.spent == 0
    fitted.fit(np.ma.masked_array(X, np.zeros_like(hidden)), y)


def test_masked_parties_and_weights_are_refused(data):
    X, y = data
    hidden = np.ma.masked_greater(X, 0.9)
    with pytest.raises(InvalidParameterError, match="shop must be without masked values"):
        VerticalLogisticRegression().fit_parties({"bank": X, "shop": hidden}, y)
    with pytest.raises(InvalidParameterError, match="sample_weight must be without masked"):
        model().fit(X, y, sample_weight=hidden[:, 0])


@pytest.mark.parametrize("make", [model, *STACKS])
def test_no_threads_at_all_are_refused(data, make):
    for value in (0, True, 1.5):
        with pytest.raises(InvalidParameterError, match="n_jobs must be"):
            make().set_params(n_jobs=value).fit(*data)
