"""What every estimator refuses, in a fit before it is charged and in a prediction."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import privlr
from privlr import PrivateLogisticRegression
from privlr.exceptions import InvalidParameterError
from privlr.model_file import load_model, save_model
from privlr.model_selection import PrivateSearch
from privlr.preprocessing import BoundedScaler, FeatureImportanceScaler
from privlr.privacy import Ledger
from privlr.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
    load_stack,
    save_stack,
)
from privlr.vertical import VerticalLogisticRegression

N, D = 240, 3
CLASSES = ["no", "yes"]


def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.1, 1, size=(N, D))
    return X, np.where(X[:, 0] > 0.5, "yes", "no")


def regression(**options):
    return PrivateLogisticRegression(50.0, **{"classes": CLASSES, **options})


def columns(**options):
    return FeatureStackingClassifier(50.0, **{"n_groups": 2, "classes": CLASSES, **options})


def rows(**options):
    return SampleStackingClassifier(50.0, **{"n_parts": 2, "classes": CLASSES, **options})


def target(**options):
    source = TransferSourceClassifier(50.0, n_groups=2, classes=CLASSES).fit(*data())
    return TransferStackingClassifier(50.0, **{"source": source, "classes": CLASSES, **options})


def vertical(**options):
    given = {"epsilon": 50.0, "delta": 1e-5, "classes": CLASSES, **options}
    return VerticalLogisticRegression([[0, 1], [2]], **given)


def alone(partitions=None, **options):
    return VerticalLogisticRegression(partitions, max_iter=5, tol=0, **options)


def search(**options):
    return PrivateSearch(regression(), {"loss": ["logistic", "capped"]}, gamma=0.5, **options)


FITS = [regression, columns, rows, target, vertical, search]


def loaded(tmp_path):
    X, y = data()
    save_model(regression().fit(X, y), tmp_path / "model.json")
    save_stack(columns().fit(X, y), tmp_path / "stack.json")
    return load_model(tmp_path / "model.json"), load_stack(tmp_path / "stack.json")


def predictors(tmp_path):
    X, y = data()
    parties = alone().fit_parties([X[:, :1], X], y)
    yield from (make().fit(X, y).predict for make in FITS)
    yield from (model.predict for model in loaded(tmp_path))
    yield lambda given: parties.predict([X[:, :1], given])


def broken(change):
    X, _ = data()
    matrix = sp.csr_array(X)
    if change == "far column":
        matrix.indices[0] = D
    elif change == "very far column":
        matrix.indices[-1] = 2**30
    elif change == "negative column":
        matrix.indices[0] = -1
    elif change == "far row end":
        matrix.indptr[3] = 10**6
    elif change == "falling row end":
        matrix.indptr[3] = matrix.indptr[1]
    elif change == "short data":
        matrix.data = matrix.data[:10]
    elif change == "far row of csc":
        matrix = matrix.tocsc()
        matrix.indices[0] = 10**7
    elif change == "far column end of csc":
        matrix = matrix.tocsc()
        matrix.indptr[1] = 10**7
    elif change == "far block end of bsr":
        matrix = matrix.tobsr()
        matrix.indptr[1] = 10**7
    else:
        matrix = matrix.tocoo()
        matrix.row[0] = 10**7
    return matrix


BROKEN = [
    "far column",
    "very far column",
    "negative column",
    "far row end",
    "short data",
    "falling row end",
    "far row of csc",
    "far column end of csc",
    "far block end of bsr",
    "far row of coo",
]


@pytest.mark.parametrize("change", BROKEN)
def test_broken_sparse_matrices_are_refused_everywhere(change, tmp_path):
    """Or scipy would read, and write, memory that is not the matrix's."""
    _, y = data()
    ledger = Ledger()
    for make in FITS:
        with pytest.raises(InvalidParameterError, match="X must be a well-formed"):
            make(ledger=ledger).fit(broken(change), y)
    assert ledger.spent == 0
    for predict in predictors(tmp_path):
        with pytest.raises(InvalidParameterError, match="(X|party 1) must be a well-formed"):
            predict(broken(change))


def as_polars(X):
    polars = pytest.importorskip("polars")
    return polars.DataFrame(dict(zip("abc", X.T.copy(), strict=True)))


def with_column(values):
    table = pd.DataFrame(data()[0], columns=list("abc"))
    return table.assign(b=values)


def object_cell(value):
    cells = data()[0].astype(object)
    cells[3, 1] = value
    return cells


DAY = datetime.date(2026, 1, 1)
NOT_NUMBERS = {
    "dates": lambda X: np.full(X.shape, np.datetime64("2026-01-01")),
    "durations": lambda X: np.full(X.shape, np.timedelta64(3, "D")),
    "numbers in text": lambda X: X.astype(str),
    "numbers in bytes": lambda X: X.astype(bytes),
    "a list of text": lambda X: X.astype(str).tolist(),
    "a list with text": lambda X: [["1", 0, 0], *X[1:].tolist()],
    "a record": lambda X: np.zeros(N, dtype=[("a", float), ("b", float)]),
    "complex": lambda X: X + 0j,
    "sparse complex": lambda X: sp.csr_array(X + 0j),
    "a cell of text": lambda X: object_cell("1"),
    "a cell of bytes": lambda X: object_cell(b"1"),
    "a cell of a date": lambda X: object_cell(DAY),
    "a cell of numpy's date": lambda X: object_cell(np.datetime64("2026-01-01")),
    "a cell of numpy's duration": lambda X: object_cell(np.timedelta64(3, "D")),
    "a complex cell": lambda X: object_cell(1j),
    "a column of text": lambda X: with_column(["1"] * N),
    "a column of dates": lambda X: with_column(pd.Timestamp("2026-01-01")),
    "a column of dates with a zone": lambda X: with_column(pd.Timestamp("2026-01-01", tz="UTC")),
    "categories of text": lambda X: with_column(pd.Categorical(["1"] * N)),
    "objects of text": lambda X: with_column(pd.Series(["1"] * N, dtype=object)),
    "polars with text": lambda X: as_polars(X).with_columns(b=as_polars(X)["a"].cast(str)),
    "polars with dates": lambda X: as_polars(X).with_columns(b=DAY),
    "polars, to be collected": lambda X: as_polars(X).lazy(),
    "masked": lambda X: np.ma.masked_greater(X, 0.9),
}


@pytest.mark.parametrize("make", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
def test_what_is_no_number_is_refused_by_every_fit_and_prediction(make, tmp_path):
    X, y = data()
    given, ledger = make(X), Ledger()
    reason = "X must be (numeric|without masked values|a table, by .collect)"
    for estimator in FITS:
        with pytest.raises(InvalidParameterError, match=reason):
            estimator(ledger=ledger).fit(given, y)
    assert ledger.spent == 0
    for predict in predictors(tmp_path):
        with pytest.raises(InvalidParameterError, match=reason.replace("X", "(X|party 1)")):
            predict(given)
    for scaler in (BoundedScaler([0] * 3, [1] * 3), FeatureImportanceScaler([1, 1, 1])):
        for method in (scaler.fit, scaler.transform):
            with pytest.raises(InvalidParameterError, match=reason):
                method(given)
    signs = np.where(y == "yes", 1.0, -1.0)
    with pytest.raises(InvalidParameterError, match=reason):
        privlr.solve(given, signs, l2_reg_strength=0.1)


NUMBERS = {
    "bool": lambda X: X > 0.5,
    "integers": lambda X: (9 * X).astype(np.int8),
    "half": lambda X: X.astype(np.float16),
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "decimals": lambda X: np.array([[Decimal(str(v)) for v in row] for row in X]),
    "sparse bool": lambda X: sp.coo_array(X > 0.5),
    "nullable": lambda X: pd.DataFrame({"a": X[:, 0] > 0.5, "b": (9 * X[:, 1]).astype(int)}).astype(
        {"a": "boolean", "b": "Int64"}
    ),
    "categories": lambda X: pd.DataFrame({"a": pd.Categorical(X[:, 0] > 0.5), "b": X[:, 1]}),
    "sparse columns": lambda X: pd.DataFrame(X, columns=list("abc")).astype(
        pd.SparseDtype(float, 0)
    ),
    "polars": as_polars,
}


@pytest.mark.parametrize("make", NUMBERS.values(), ids=NUMBERS)
def test_numbers_in_any_form_are_taken(make):
    X, y = data()
    given = make(X)
    plain = given.toarray() if sp.issparse(given) else np.asarray(given)
    fitted = regression().fit(given, y)
    expected = fitted.coef_[0] @ plain.astype(float).T + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(given), expected)


def test_arrays_of_the_array_api_are_numbers_too():
    strict = pytest.importorskip("array_api_strict")
    X, y = data()
    np.testing.assert_array_equal(regression().fit(X, y).predict(strict.asarray(X)).shape, y.shape)
    with pytest.raises(InvalidParameterError, match="X must be numeric"):
        regression().fit(strict.asarray(X + 0j), y)


@pytest.mark.parametrize("make", FITS)
def test_objects_and_names_of_no_use_are_refused(make):
    """The first by a TypeError, which scikit-learn asks of every estimator."""
    X, y = data()
    ledger = Ledger()
    with pytest.raises(TypeError, match="X: float.. argument must be"):
        make(ledger=ledger).fit(object_cell({"a": 1}), y)
    with pytest.raises(InvalidParameterError, match="X must be .*string names"):
        make(ledger=ledger).fit(pd.DataFrame(X, columns=["a", 1, "b"]), y)
    assert ledger.spent == 0


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        (lambda X, y: (X[:0], y[:0]), "X", "0 sample"),
        (lambda X, y: (X[:, :0], y), "X", "0 feature"),
        (lambda X, y: (X[:, :, None], y), "X", "dim 3"),
        (lambda X, y: (X[:, 0], y), "X", "1D array"),
        (lambda X, y: (sp.coo_array(([1.0], ([0],)), shape=(N,)), y), "X", "a matrix"),
        (lambda X, y: (None, y), "X", "scalar"),
        (lambda X, y: ([[1.0], [2.0, 3.0]], y[:2]), "X", "numeric matrix"),
        (lambda X, y: (X, y[:-1]), "y", "inconsistent"),
        (lambda X, y: (X, None), "y", "1d array"),
        (lambda X, y: (X, np.c_[y, y]), "y", "1d array"),
        (lambda X, y: (X, np.where(y == "yes", np.nan, 1.0)), "y", "NaN"),
        (lambda X, y: (X, np.where(y == "yes", 1j, 1.0)), "y", "Complex"),
        (lambda X, y: (X, np.where(y == "yes", None, "no")), "y", None),
    ],
)
@pytest.mark.parametrize("make", FITS)
def test_data_errors_are_named(make, change, name, reason):
    ledger = Ledger()
    with pytest.raises(InvalidParameterError, match=reason) as caught:
        make(ledger=ledger).fit(*change(*data()))
    assert caught.value.name == name
    assert ledger.spent == 0


def test_a_prediction_says_what_is_wrong_with_its_rows(tmp_path):
    X, y = data()
    hole = X.copy()
    hole[0, 0] = np.nan
    for predict in predictors(tmp_path):
        for wrong, reason in ((hole, "finite"), (X[:, :2], "2|columns"), (X[:, 0], None)):
            with pytest.raises(InvalidParameterError, match=reason) as caught:
                predict(wrong)
            assert "HistGradientBoosting" not in str(caught.value)
            assert caught.value.name in ("X", "party 1")


def test_no_rows_have_no_predictions(tmp_path):
    X, _ = data()
    for model in loaded(tmp_path):
        for empty in (X[:0], sp.csr_array(X[:0])):
            assert model.predict(empty).shape == (0,)
            assert model.predict_proba(empty).shape == (0, 2)


def test_columns_of_an_arrow_table_have_names():
    pyarrow = pytest.importorskip("pyarrow")
    X, y = data()
    tables = pd.DataFrame(X[:, :1], columns=["a"]), pd.DataFrame(X[:, 1:], columns=["b", "c"])
    arrow = [pyarrow.Table.from_pandas(table, preserve_index=False) for table in tables]
    model = alone().fit_parties(arrow, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(arrow), model.predict(list(tables)))
    for swapped in (arrow[1].select(["c", "b"]), tables[1][["c", "b"]]):
        with pytest.raises(InvalidParameterError, match=r"party 1 must be .*\['b', 'c'\]"):
            model.predict([arrow[0], swapped])


def test_columns_of_a_party_keep_their_names():
    X, y = data()
    bank, shop = pd.DataFrame(X[:, :1], columns=["a"]), pd.DataFrame(X[:, 1:], columns=["b", "c"])
    swapped, renamed = shop[["c", "b"]], shop.rename(columns={"b": "B"})
    model = alone().fit_parties({"bank": bank, "shop": shop}, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    expected = model.predict([bank, shop])
    np.testing.assert_array_equal(model.predict(pd.concat([bank, shop], axis=1)), expected)
    with pytest.warns(UserWarning, match="shop does not have valid feature names"):
        np.testing.assert_array_equal(model.predict([bank, shop.to_numpy()]), expected)
    for wrong in (swapped, renamed):
        for given in ([bank, wrong], {"bank": bank, "shop": wrong}):
            with pytest.raises(InvalidParameterError, match=r"shop must be .*\['b', 'c'\]"):
                model.predict(given)
        with pytest.raises(InvalidParameterError, match="X must be .*feature names"):
            model.predict(pd.concat([bank, wrong], axis=1))
        with pytest.raises(InvalidParameterError, match=r"shop must be .*\['b', 'c'\]"):
            alone().fit_parties({"bank": bank, "shop": shop}, y, eval_set=([bank, wrong], y))
    model = alone([["a"], ["b", "c"]])
    model.fit(pd.concat([bank, shop], axis=1), y)
    with pytest.raises(InvalidParameterError, match=r"party 1 must be .*\['b', 'c'\]"):
        model.predict([bank, swapped])
    model = alone().fit_parties([bank.to_numpy(), shop], y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(InvalidParameterError, match="party 1 must be"):
        model.predict([bank, swapped])


def refused(make, name, reason=None, **options):
    ledger = Ledger()
    with warnings.catch_warnings(), pytest.raises(InvalidParameterError, match=reason) as caught:
        warnings.simplefilter("error")
        make(ledger=ledger, **options).fit(*data())
    assert caught.value.name == name
    assert ledger.spent == 0
    return caught.value


@pytest.mark.parametrize("value", ["x", -1, 1.5])
@pytest.mark.parametrize("make", [regression, columns, rows, target, vertical])
def test_a_seed_that_is_none_is_named(make, value):
    refused(make, "random_state", random_state=value)


def test_a_search_looks_at_the_seeds_of_its_runs_before_it_pays():
    ledger = Ledger()
    model = PrivateSearch(regression(random_state="x"), {"loss": ["capped"]}, ledger=ledger)
    with pytest.raises(InvalidParameterError, match="random_state must be None, an integer"):
        model.fit(*data())
    assert ledger.spent == 0


@pytest.mark.parametrize("value", [0, -3, 1.5, True])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_declared_number_of_rows_is_a_number_wherever_it_is_given(relation, value):
    refused(regression, "public_n_samples", neighboring_relation=relation, public_n_samples=value)


@pytest.mark.parametrize("value", [1e300, 1e51, np.inf, np.nan])
def test_a_prior_mean_out_of_range_is_named(value):
    error = refused(regression, "prior_mean", prior_mean=[value] * (D + 1))
    assert "1e+50" in str(error)
    regression(prior_mean=[1e49] * (D + 1)).privacy_cost(N, D)


@pytest.mark.parametrize("value", [0, np.nan, "1", True, -1.0])
def test_a_bound_of_a_transfer_is_checked_itself(value):
    refused(target, "data_norm", data_norm=value)


@pytest.mark.parametrize("make", [regression, columns, rows, target])
def test_auto_is_among_what_is_accepted(make):
    assert "'auto'" in refused(make, "l2_reg_strength", l2_reg_strength=-1).accepted
    if make is not regression:
        assert "'auto'" in refused(make, "loss", loss="hinge").accepted


@pytest.mark.parametrize(
    ("name", "value"), [("callback", 3), ("progress", "a"), ("max_iter", 1.5), ("max_iter", "x")]
)
@pytest.mark.parametrize("epsilon", [None, 50.0])
def test_options_of_a_vertical_fit_are_shown_as_given(name, value, epsilon):
    delta = None if epsilon is None else 1e-5
    error = refused(vertical, name, epsilon=epsilon, delta=delta, **{name: value})
    assert error.value == value
    assert name != "max_iter" or "'auto'" in error.accepted


def test_parts_are_checked_although_the_parties_have_them():
    X, y = data()
    for partitions in ("x", [[0], [1]]):
        with pytest.raises(InvalidParameterError, match="partitions"):
            alone(partitions).fit_parties([X[:, :1], X[:, 1:]], y)
    with pytest.raises(InvalidParameterError, match="parties must be at least one matrix"):
        alone().fit_parties([], y)


def test_public_classes_of_a_vertical_fit_are_those_in_y():
    X, y = data()
    fitted = alone(classes="public").fit_parties([X[:, :1], X[:, 1:]], y)
    assert list(fitted.classes_) == CLASSES


@pytest.mark.parametrize("classes", [[1, "no"], ["no", np.nan], ["no", b"yes"], [None, "no"]])
@pytest.mark.parametrize("make", FITS[:5])
def test_classes_of_several_types_are_refused(make, classes):
    refused(make, "classes", classes=classes)


@pytest.mark.parametrize("ends", [(True, 2), (0, [True] * 3), ("0", "1"), (0, 1j)])
def test_ranges_are_numbers(ends):
    with pytest.raises(InvalidParameterError, match=r"(lower|upper) must be"):
        BoundedScaler(*ends).fit(data()[0])


@pytest.mark.parametrize("make", [columns, rows, target])
@pytest.mark.parametrize("options", [{}, {"combiner": "sum"}, {"levels": "shared"}])
def test_the_cost_of_any_number_of_rows_is_told(make, options):
    stack = make(**options)
    assert stack.privacy_cost(10**12, D).epsilon == 50
    assert stack.privacy_cost(N, D) == stack._plan(N, D, 2).record
    with pytest.raises(InvalidParameterError, match="n_features must be an integer"):
        stack.privacy_cost(N, 3.5)
