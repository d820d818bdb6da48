"""The estimator: scikit-learn's manners, its record and ledger, and errors that name a party."""

import os
import pickle
import signal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from privlr import solve
from privlr.exceptions import (
    ConvergenceError,
    InvalidParameterError,
    PrivacyBudgetError,
    PrivacyWarning,
)
from privlr.model_selection import PrivateSearch
from privlr.privacy import Ledger
from privlr.vertical import VerticalLogisticRegression, align, id_digest

PARTS = [[4, 0, 2], [1, 3], [5]]
PRIVATE = {"epsilon": 4.0, "delta": 1e-5, "data_norm": 3.0}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = np.where(X @ [1, -1, 0.5, 0, 2, 1] + rng.logistic(size=400) > 0.3, "yes", "no")
    return X, y


def test_fit_is_the_centralised_optimum(data):
    X, y = data
    model = VerticalLogisticRegression(PARTS, l2_reg_strength=1e-2, tol=1e-10).fit(X, y)
    whole = np.hstack([X, np.ones((400, 1))])
    peer = LogisticRegression(C=1 / (400 * 1e-2), fit_intercept=False, tol=1e-10).fit(whole, y)
    np.testing.assert_allclose(model.coef_[0], peer.coef_[0, :-1], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, peer.coef_[0, -1:], atol=1e-6)
    assert model.status_ == "converged"
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(whole), atol=1e-6)
    assert (model.predict(X) == peer.predict(whole)).all()


def test_ways_of_giving_the_columns_agree(data):
    X, y = data
    model = VerticalLogisticRegression(PARTS).fit(X, y)
    names = list("abcdef")
    table = pd.DataFrame(X, columns=names)
    named = VerticalLogisticRegression([[names[c] for c in part] for part in PARTS]).fit(table, y)
    np.testing.assert_array_equal(named.coef_, model.coef_)
    blocks = [X[:, part] for part in PARTS]
    apart = VerticalLogisticRegression().fit_parties(blocks, y)
    np.testing.assert_allclose(apart.coef_[0], model.coef_[0, np.concatenate(PARTS)], atol=1e-12)
    np.testing.assert_allclose(apart.decision_function(blocks), model.decision_function(X))
    np.testing.assert_allclose(
        apart.decision_function(np.hstack(blocks)), apart.decision_function(blocks)
    )
    thin = VerticalLogisticRegression(PARTS).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(thin.coef_, model.coef_, atol=1e-10)
    single = VerticalLogisticRegression().fit_parties({"alone": X}, y)
    np.testing.assert_allclose(single.coef_, model.coef_, atol=1e-3)


def test_history_and_test_loss(data):
    X, y = data
    seen = []
    model = VerticalLogisticRegression(
        PARTS, max_iter=5, tol=0, callback=lambda it: seen.append(it.round)
    ).fit(X, y, eval_set=(X, y))
    assert seen == [1, 2, 3, 4, 5] and model.status_ == "max_iter"
    raw = model.decision_function(X) * np.where(y == "yes", 1, -1)
    assert model.history_[-1].test_log_loss == pytest.approx(np.logaddexp(0, -raw).mean())
    with pytest.warns(ConvergenceWarning, match="2 rounds"):
        VerticalLogisticRegression(PARTS, max_iter=2).fit(X, y)


def test_without_noise_the_private_path_is_the_exact_one(data):
    X, y = data
    exact = VerticalLogisticRegression(PARTS, l2_reg_strength=1e-2, max_iter=61, tol=0).fit(X, y)
    noisy = VerticalLogisticRegression(
        PARTS,
        l2_reg_strength=1e-2,
        max_iter=60,  # and a last solve
        epsilon=1e16,
        delta=0.5,
        data_norm=10.0,
        share_bound=50.0,
    ).fit(X, y)
    np.testing.assert_allclose(noisy.coef_, exact.coef_, atol=1e-5)
    np.testing.assert_allclose(noisy.intercept_, exact.intercept_, atol=1e-5)
    assert not hasattr(noisy, "history_") and not hasattr(noisy, "status_")


@pytest.mark.parametrize("release", ["shares", "statistics"])
def test_private_fits(data, release):
    X, y = data
    ledger = Ledger(limit=5, delta_limit=1e-4)
    model = VerticalLogisticRegression(
        PARTS, **PRIVATE, release=release, label_epsilon=1.0, classes=["no", "yes"], ledger=ledger
    )
    model.fit(X, y)
    record = model.privacy_
    assert record.private and record.epsilon == 5.0 and record.delta == 1e-5
    assert record.features.startswith("covered") and "randomised" in record.labels
    assert ("not covered" in record.scores) == (release == "shares")
    assert "labels randomised once" in ledger.charges[0].note
    assert ledger.spent == 5 and ledger.remaining == 0
    with pytest.raises(PrivacyBudgetError):
        clone(model).fit(X, y)
    coef = VerticalLogisticRegression(PARTS, **PRIVATE, release=release).fit(X, y).coef_
    again = VerticalLogisticRegression(PARTS, **PRIVATE, release=release).fit(X, y).coef_
    assert (coef != again).any()


def test_statistics_do_not_need_the_label_holders_features(data):
    """With targets="labels" nothing of the first party moves what the others release."""
    X, y = data
    changed = X.copy()
    changed[:, PARTS[0]] = 0.0
    options = {**PRIVATE, "release": "statistics", "random_state": 1}
    with pytest.warns(PrivacyWarning):
        one = VerticalLogisticRegression(PARTS, **options).fit(X, y)
        other = VerticalLogisticRegression(PARTS, **options).fit(changed, y)
        exposed = VerticalLogisticRegression(PARTS, **options, targets="residuals").fit(X, y)
    passive = [1, 3, 5]
    np.testing.assert_array_equal(one.coef_[0, passive], other.coef_[0, passive])
    assert (exposed.coef_[0, passive] != one.coef_[0, passive]).any()
    assert "not covered" in exposed.privacy_.notes[0]
    assert one.privacy_.neighboring_relation == "replace_one"
    assert exposed.privacy_.neighboring_relation == "replace_one, in the parties without labels"


@pytest.mark.parametrize("release", ["shares", "statistics"])
@pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
def test_long_rows_count_as_clipped_ones(data, release):
    """The same noise, the rows given as they are and cut beforehand: the same coefficients."""
    X, y = data
    options = {"epsilon": 4.0, "delta": 1e-5, "release": release, "random_state": 1}
    blocks = [10 * X[:, part] for part in PARTS]
    model = VerticalLogisticRegression(**options, data_norm=[9.0, 3.0, 0.5], fit_intercept=False)
    cut = [
        D * np.minimum(1, norm / np.linalg.norm(D, axis=1))[:, None]
        for D, norm in zip(blocks, model.data_norm)
    ]
    cut[0] = blocks[0] if release == "statistics" else cut[0]  # its rows stay at home
    expected = clone(model).fit_parties(cut, y).coef_
    np.testing.assert_allclose(model.fit_parties(blocks, y).coef_, expected, rtol=1e-6)


@pytest.mark.parametrize("release", ["shares", "statistics"])
@pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
def test_parties_with_the_same_columns_have_noise_of_their_own(data, release):
    """A stream that two parties share would make their coefficients equal, and cancel."""
    X, y = data
    model = VerticalLogisticRegression(**PRIVATE, release=release, fit_intercept=False)
    coef = model.set_params(random_state=1).fit_parties([X[:, :2]] * 4, y).coef_[0]
    assert np.abs(coef[2:4] - coef[4:6]).min() > 1e-6 * np.abs(coef).max()
    assert np.abs(coef[4:6] - coef[6:]).min() > 1e-6 * np.abs(coef).max()


def test_what_has_no_guarantee_says_so(data):
    X, y = data
    ledger = Ledger()
    exact = VerticalLogisticRegression(PARTS, ledger=ledger).fit(X, y).privacy_
    published = VerticalLogisticRegression(
        PARTS, **PRIVATE, mechanism="published", max_iter=3, tol=0, ledger=ledger
    )
    with pytest.warns(PrivacyWarning):
        published.set_params(random_state=0).fit(X, y)
    for record in (exact, published.privacy_):
        assert not record.private and record.epsilon is None
        assert "no guarantee" in record.notes[0]
    assert all("no guarantee" in charge.note for charge in ledger.charges)
    with pytest.warns(PrivacyWarning):
        seeded = VerticalLogisticRegression(PARTS, **PRIVATE, random_state=0).fit(X, y).privacy_
    assert not seeded.private and seeded.random_source == "seeded"


def test_a_changed_sample_costs_more_than_a_changed_part(data):
    X, y = data
    whole = VerticalLogisticRegression(PARTS, **PRIVATE).fit(X, y).privacy_
    part = (
        VerticalLogisticRegression(PARTS, **PRIVATE, neighboring_relation="replace_part")
        .fit(X, y)
        .privacy_
    )
    assert whole.sigma[0] == pytest.approx(part.sigma[0] * 3**0.5, rel=1e-12)
    model = VerticalLogisticRegression(PARTS, **PRIVATE, release="statistics")
    whole = model.fit(X, y).privacy_
    part = model.set_params(neighboring_relation="replace_part").fit(X, y).privacy_
    for one, other in zip(whole.sigma, part.sigma):  # the first party releases nothing
        assert one == pytest.approx(other * 2**0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partitions": [[0, 1], [1, 2, 3, 4, 5]]}, "partitions"),
        ({"partitions": [[0, 1], [2, 3]]}, "partitions"),
        ({"partitions": [[0, 1, 2, 3, 4, 5], []]}, "party 1"),
        ({"partitions": None}, "partitions"),
        ({"l2_reg_strength": 0}, "l2_reg_strength"),
        ({"rho": -1}, "rho"),
        ({"form": "gauss"}, "form"),
        ({"over_relaxation": 2.0}, "over_relaxation"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"fit_intercept": 1}, "fit_intercept"),
        ({"epsilon": 1.0}, "delta"),
        ({"delta": 1e-5}, "epsilon"),
        ({"release": "statistics"}, "epsilon"),
        ({"mechanism": "published"}, "epsilon"),
        ({**PRIVATE, "epsilon": 0}, "epsilon"),
        ({**PRIVATE, "epsilon": True}, "epsilon"),
        ({**PRIVATE, "epsilon": 1e17}, "epsilon"),
        ({**PRIVATE, "delta": 1.0}, "delta"),
        ({**PRIVATE, "data_norm": 0}, "data_norm"),
        ({**PRIVATE, "data_norm": [1.0, 2.0]}, "data_norm"),
        ({**PRIVATE, "share_bound": float("nan")}, "share_bound"),
        ({**PRIVATE, "neighboring_relation": "add"}, "neighboring_relation"),
        ({**PRIVATE, "release": "statistics", "max_iter": 3}, "max_iter"),
        ({**PRIVATE, "callback": print}, "callback"),
        ({"label_epsilon": 1.0}, "classes"),
        ({"label_epsilon": 1.0, "classes": "public"}, "classes"),
        ({"over_relaxation": "1"}, "over_relaxation"),
        ({**PRIVATE, "release": "statistics", "mechanism": "published"}, "release"),
        ({**PRIVATE, "targets": "residuals"}, "targets"),
        ({**PRIVATE, "mechanism": "published", "delta": 2.0}, "delta"),
        ({**PRIVATE, "release": "statistics", "partitions": [list(range(6))]}, "release"),
        ({"label_epsilon": 0, "classes": ["no", "yes"]}, "label_epsilon"),
        ({"classes": ["no", "maybe"]}, "y"),
        ({"ledger": 3}, "ledger"),
    ],
)
def test_bad_parameters_are_refused_before_the_budget_is_touched(data, options, message):
    X, y = data
    ledger = Ledger(limit=100, delta_limit=0.5)
    model = VerticalLogisticRegression(**{"partitions": PARTS, "ledger": ledger, **options})
    with pytest.raises(InvalidParameterError, match=message):
        model.fit(X, y)
    assert not ledger.charges


def spoil(blocks, value):
    blocks[1][7, 0] = value
    return blocks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda blocks: spoil(blocks, np.nan), "shop"),
        (lambda blocks: spoil(blocks, np.inf), "shop"),
        (lambda blocks: [blocks[0], blocks[1][:-3]], "shop.*400.*397"),
        (lambda blocks: [blocks[0], blocks[1][:, :0]], "shop"),
        (lambda blocks: [blocks[0], blocks[1][:, 0]], "shop"),
        (lambda blocks: [blocks[0], blocks[1].astype(str)], "shop"),
        (lambda blocks: [blocks[0], blocks[1] + 1j], "shop"),
        (lambda blocks: [blocks[0], sp.csr_array(blocks[1] + 1j)], "shop"),
        (lambda blocks: [blocks[0], blocks[1].astype("timedelta64[s]")], "shop"),
        (lambda blocks: [blocks[0], 1e200 * blocks[1]], "shop.*1e.120"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_bad_rows_name_their_party(data, change, message):
    X, y = data
    blocks = change([X[:, :3].copy(), X[:, 3:].copy()])
    if blocks[1].dtype.kind == "U":
        blocks[1][0, 0] = "x"
    with pytest.raises(InvalidParameterError, match=message):
        VerticalLogisticRegression().fit_parties(dict(zip(["bank", "shop"], blocks)), y)


@pytest.mark.parametrize(
    "labels", [np.zeros(399), np.zeros(400), np.arange(400) % 3, np.zeros((400, 2)), 1.0]
)
def test_bad_labels(data, labels):
    X, _ = data
    with pytest.raises(ValueError, match="y|class|label"):
        VerticalLogisticRegression().fit_parties([X[:, :3], X[:, 3:]], labels)


def test_ids_must_agree(data):
    X, y = data
    ids = pd.Index([f"p{i}" for i in range(400)])
    bank, shop = pd.DataFrame(X[:, :3], index=ids), pd.DataFrame(X[:, 3:], index=ids)
    labels = pd.Series(y, index=ids)
    fit = VerticalLogisticRegression().fit_parties
    expected = fit([X[:, :3], X[:, 3:]], y).coef_
    np.testing.assert_array_equal(fit({"bank": bank, "shop": shop}, labels).coef_, expected)
    cases = [
        (shop.iloc[::-1], "shop.*400 of 400"),
        (shop.iloc[:-5], "shop.*5 ids missing"),
        (pd.concat([shop, shop[:2]]), "shop.*2 repeated"),
        (shop.rename(index={"p3": "q3"}), "shop.*1 ids missing and 1"),
    ]
    for wrong, message in cases:
        with pytest.raises(InvalidParameterError, match=message):
            fit({"bank": bank, "shop": wrong}, labels)
    with pytest.raises(InvalidParameterError, match=r"y.*2 of 400"):
        fit({"bank": bank, "shop": shop}, labels.iloc[[1, 0, *range(2, 400)]])
    assert id_digest(ids, b"key") == id_digest(list(ids), b"key")
    assert id_digest(ids, b"key") != id_digest(ids[::-1], b"key")
    assert id_digest(ids, b"key") != id_digest(ids, b"other")
    assert id_digest(["ab", "c"], b"") != id_digest(["a", "bc"], b"")


@pytest.mark.parametrize("kind", [list, dict])
def test_aligned_parties_give_the_same_model_however_they_were_shuffled(data, kind):
    X, y = data
    rng, ids = np.random.default_rng(9), [f"p{i}" for i in range(399)] + [7]
    tables = [pd.DataFrame(X[:, :3], index=ids), pd.DataFrame(X[:, 3:], index=ids)]
    labels = pd.Series(y, index=ids)
    models = []
    for _ in range(3):
        shuffled = [table.iloc[rng.permutation(400)] for table in (*tables, labels)]
        parties = dict(zip(("bank", "y"), shuffled)) if kind is dict else shuffled[:2]
        with pytest.raises(InvalidParameterError, match="of 400 ids elsewhere"):
            VerticalLogisticRegression().fit_parties(parties, shuffled[2])
        parties, sorted_labels = align(parties, shuffled[2])
        assert type(parties) is kind
        models.append(VerticalLogisticRegression().fit_parties(parties, sorted_labels))
        assert models[-1].score(align(parties)[0], sorted_labels) > 0.7
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
    in_order = VerticalLogisticRegression().fit_parties(tables, labels)
    np.testing.assert_allclose(models[0].coef_, in_order.coef_, atol=1e-4)


def test_what_cannot_be_aligned_is_refused_by_name(data):
    bank, shop = pd.DataFrame(np.eye(4)), pd.DataFrame(np.eye(4), index=[3, 2, 1, 0])
    y = pd.Series([1, 1, -1, -1])
    for parties, labels, message in [
        ({"bank": bank, "shop": shop.to_numpy()}, y, "shop.*ids"),
        ({"bank": bank, "shop": shop[:2]}, y, "shop.*2 ids missing and 0"),
        ({"bank": bank, "shop": pd.concat([shop, shop])}, y, "shop.*4 repeated ids"),
        ({"bank": bank, "shop": shop.rename(index={1: "1"})}, y, "shop.*1 ids missing and 1"),
        ([bank, shop], y[:3], "y.*1 ids missing"),
        ([bank, shop], [1, 1, -1, -1], "y.*list"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            align(parties, labels)


@pytest.mark.parametrize(
    "labels", [["a", 1] * 200, [None, "a"] * 200, ["a", np.nan] * 200, [True, "x"] * 200]
)
def test_labels_of_several_types_are_refused_in_words(data, labels):
    X, _ = data
    with pytest.raises(ValueError, match=r"y must be .*(of one type|Unknown label|NaN)"):
        y = np.array(labels, dtype=object)
        VerticalLogisticRegression().fit_parties([X[:, :3], X[:, 3:]], y)


def test_the_cost_is_known_without_data(data):
    X, y = data
    statistics = {**PRIVATE, "release": "statistics"}
    labels = {"label_epsilon": 0.5, "classes": ["no", "yes"]}
    for options in ({}, PRIVATE, statistics, {**statistics, **labels}, {**PRIVATE, **labels}):
        for fit_intercept in (True, False):
            ledger = Ledger()
            model = VerticalLogisticRegression(
                **options, ledger=ledger, fit_intercept=fit_intercept
            )
            cost = model.privacy_cost()
            planned = model.privacy_cost(n_samples=400, n_features=[3, X.shape[1] - 3])
            assert not ledger.charges
            model.fit_parties([X[:, :3], X[:, 3:]], y)
            assert planned == model.privacy_
            (charge,) = ledger.charges
            assert (cost.label, cost.epsilon, cost.delta) == (
                *("VerticalLogisticRegression", charge.epsilon, charge.delta),
            )
    for options, shape, message in [
        ({"epsilon": -1.0}, (), "epsilon"),
        ({"epsilon": 1.0}, (), "delta"),
        ({"epsilon": 1.0, "delta": 2.0}, (), "delta"),
        ({"delta": 1e-5}, (), "epsilon"),
        ({"label_epsilon": 0.0}, (), "label_epsilon"),
        (PRIVATE, (0, [3, 4]), "n_samples"),
        (PRIVATE, (400, 7), "n_features"),
        (PRIVATE, (400, []), "n_features"),
        (PRIVATE, (400, [3, 0]), "n_features"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            VerticalLogisticRegression(**options).privacy_cost(*shape)
    seeded = VerticalLogisticRegression(**PRIVATE).set_params(random_state=1)
    assert not seeded.privacy_cost(400, [3, 4]).private


@pytest.mark.parametrize("options", [{}, PRIVATE])
def test_a_search_over_vertical_models_is_refused(options):
    """It needs a pure epsilon, that covers labels and scores, too."""
    model = VerticalLogisticRegression([[0], [1]], **options)
    with pytest.raises(InvalidParameterError, match="epsilon|delta"):
        PrivateSearch(model, {"rho": [0.1, 0.2]}).privacy_cost()


@pytest.mark.parametrize("options", [{}, PRIVATE, {**PRIVATE, "release": "statistics"}])
def test_awkward_columns(options):
    """Constant, zero and repeated columns, more columns than rows: the optimum, or a fit."""
    rng = np.random.default_rng(3)
    wide, thin = rng.normal(size=(30, 80)), rng.normal(size=(30, 2))
    thin = np.hstack([thin, thin, np.zeros((30, 1))])
    y = np.sign(wide[:, 0] + thin[:, 0])
    model = VerticalLogisticRegression(l2_reg_strength=0.1, fit_intercept=False, **options)
    model.fit_parties([wide, thin], y)
    assert np.isfinite(model.coef_).all()
    if not options:
        X = np.hstack([wide, thin])
        optimum = solve(X, y, l2_reg_strength=0.1).coef
        np.testing.assert_allclose(model.coef_[0], optimum, atol=1e-4)


def test_new_samples_are_compared_as_the_training_samples_were(data):
    X, y = data
    bank, shop = pd.DataFrame(X[:, :3]), pd.DataFrame(X[:, 3:])
    model = VerticalLogisticRegression().fit_parties({"bank": bank, "shop": shop}, y)
    expected = model.decision_function([bank, shop])
    np.testing.assert_array_equal(model.decision_function({"bank": bank, "shop": shop}), expected)
    for wrong, message in [
        ([bank, shop.iloc[::-1]], "shop.*400 of 400"),
        ([bank.to_numpy(), shop.to_numpy()[:1]], "shop.*400.*1"),
        ([bank, shop.iloc[:, :2]], "shop.*3 columns"),
        ({"shop": shop, "bank": bank}, "bank, shop"),
        ({"bank": bank}, "bank, shop"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            model.predict(wrong)
        with pytest.raises(InvalidParameterError, match=message):
            model.fit_parties({"bank": bank, "shop": shop}, y, eval_set=(wrong, y))
    with pytest.raises(InvalidParameterError, match="eval_set"):
        model.fit_parties({"bank": bank, "shop": shop}, y, eval_set=([bank, shop], y[:1]))


def test_a_failed_fit_leaves_the_earlier_model_and_its_record(data):
    X, y = data
    model = VerticalLogisticRegression(PARTS, ledger=Ledger(limit=1, delta_limit=1)).fit(X, y)
    with pytest.raises(PrivacyBudgetError):
        model.set_params(**PRIVATE).fit(X, y)
    assert not model.privacy_.private and hasattr(model, "history_")
    model.set_params(ledger=None).fit(X, y)
    assert model.privacy_.private
    assert not hasattr(model, "history_") and not hasattr(model, "status_")


@pytest.mark.parametrize(
    ("release", "first"),
    [
        ("shares", "privlr.vertical.logistic.Party"),
        ("shares", "privlr.vertical._release.NoisyShares.settle"),
        ("statistics", "privlr.vertical.logistic.solve"),
        ("statistics", "privlr.vertical.logistic.randomize_labels"),
    ],
)
def test_a_fit_that_fails_midway_stays_charged(data, monkeypatch, release, first):
    """The charge is made before anything looks at a row, and an error does not take it back."""

    def fail(*args, **options):
        raise ConvergenceError("midway")

    monkeypatch.setattr(first, fail)
    ledger = Ledger()
    model = VerticalLogisticRegression(PARTS, **PRIVATE, release=release, ledger=ledger)
    model.set_params(label_epsilon=1.0, classes=["no", "yes"])
    with pytest.raises(ConvergenceError):
        model.fit(*data)
    assert ledger.spent == 5 and not hasattr(model, "privacy_")


def test_model_selection_charges_every_fit(data):
    X, y = data
    ledger = Ledger()
    model = VerticalLogisticRegression(PARTS, **PRIVATE, ledger=ledger)
    search = GridSearchCV(model, {"l2_reg_strength": [1e-3, 1e-2]}, cv=3).fit(X, y)
    assert ledger.spent == 7 * 4 and ledger.spent_delta == 7 * Fraction("1e-5")
    fitted = search.best_estimator_.set_params(ledger=None)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_interrupt_keeps_the_coefficients_and_then_raises(data, ctrl_c):
    X, y = data
    model = VerticalLogisticRegression(
        PARTS, callback=lambda it: it.round == 4 and os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted" and len(model.history_) == 4
    whole = VerticalLogisticRegression(PARTS, max_iter=4, tol=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    with pytest.raises(KeyboardInterrupt):
        apart = clone(model).set_params(callback=model.callback)
        apart.fit_parties([X[:, part] for part in PARTS], y)
    np.testing.assert_allclose(
        apart.decision_function(X[:, np.concatenate(PARTS)]), whole.decision_function(X)
    )


@pytest.mark.parametrize("epsilon", [1e-9, 1e16])
@pytest.mark.parametrize("release", ["shares", "statistics"])
def test_extreme_budgets(data, epsilon, release):
    X, y = data
    options = {**PRIVATE, "epsilon": epsilon, "release": release}
    assert np.isfinite(VerticalLogisticRegression(PARTS, **options).fit(X, y).coef_).all()
