"""Stacks and transfer: the exact loss of the whole pipeline, and planted faults."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from privlr import PrivateLogisticRegression
from privlr._inputs import random_source
from privlr._solvers import noise
from privlr.audit import extremal_pair, noise_of, privacy_loss
from privlr.design import make_design
from privlr.exceptions import (
    ConvergenceError,
    InvalidParameterError,
    PrivacyBudgetError,
    PrivacyWarning,
)
from privlr.mechanisms import RandomSource
from privlr.objective import Problem
from privlr.optimize import minimize
from privlr.privacy import Ledger, calibrate_groups, perturbation_epsilon
from privlr.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
    _base,
    _combine,
    load_stack,
    save_stack,
)
from privlr.stacking._combine import high_level_prior, prior_bound
from privlr.stacking._low_level import LowLevelModel, designs, raw_predictions
from privlr.stacking._partition import normalized

seeded = pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
BELOW = 127 / 128  # the rest of epsilon pays for the lattices


def data(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / 2
    return X, (X.sum(axis=1) > 0).astype(int)


def meta_features(models, X, published):
    return _combine.meta_features(models, raw_predictions(models, X), published)


def clip(rows, R):
    return rows * np.minimum(1, R / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]


def released(part, coef):
    group, R = part.group, part.plan.record.R
    return LowLevelModel(
        group.columns, group.share, R, coef[None], np.zeros(1), False, part.plan.record
    )


def term(coef, D, D_prime, record, prior_mean=None):
    return privacy_loss(
        coef,
        *D,
        *D_prime,
        beta=record.beta,
        kappa=record.kappa,
        loss=record.loss,
        prior_mean=prior_mean,
    )


def stack_losses(stack, X, y, X_prime, y_prime, rng, scale):
    """The exact loss of each model below and of the one above, at random outputs."""
    planned = stack._plan(*X.shape, 2)
    low, models = [], []
    for part in planned.parts:
        record, columns, rows = part.plan.record, part.group.columns, part.rows
        coef = rng.normal(size=len(columns)) * scale
        models.append(released(part, coef))
        D, D_prime = (
            (clip(A[rows][:, columns], record.R), b[rows]) for A, b in ((X, y), (X_prime, y_prime))
        )
        low.append(term(coef, D, D_prime, record, part.prior_mean))
    rows = planned.levels.high_rows
    D, D_prime = (
        (clip(meta_features(models, A[rows], stack._published), 1.0), b[rows])
        for A, b in ((X, y), (X_prime, y_prime))
    )
    prior = None
    if not stack._published:
        prior = high_level_prior(models, intercept=False, longest=prior_bound(planned.parts))
    coef = rng.normal(size=len(models)) * scale
    return low, term(coef, D, D_prime, planned.high.record, prior)


def neighbour(X, y, row, rng):
    X_prime, y_prime = X.copy(), y.copy()
    X_prime[row] = -10 * X[row] + rng.normal(size=X.shape[1])
    y_prime[row] = rng.choice([-1.0, 1.0])
    return X_prime, y_prime


VARIANTS = {
    "tight": {"loss": "logistic"},
    "capped": {"loss": "capped"},
    "shared": {"levels": "shared", "loss": "logistic"},
    "shared capped": {"levels": "shared"},
    "published": {"pipeline": "published"},
    "weighted": {
        "importance": [8, 7, 6, 5, 4, 3, 2, 0],
        "importance_power": 2,
        "loss": "logistic",
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("K", range(1, 9))
def test_exact_loss_of_the_pipeline(K, variant):
    options = VARIANTS[variant]
    rng = np.random.default_rng(K)
    X, y = data()
    y = 2.0 * y - 1
    stack = FeatureStackingClassifier(
        1.0, n_groups=K, fit_intercept=False, classes=[-1, 1], l2_reg_strength=1e-4, **options
    )
    levels = stack._plan(*X.shape, 2).levels
    share = 1.0 if levels.disjoint else 0.9
    for scale in (0.1, 3.0, 100.0):
        low, high = stack_losses(stack, X, y, *neighbour(X, y, levels.low_rows[0], rng), rng, scale)
        assert abs(sum(low)) <= share * BELOW * (1 + 1e-9)
        if levels.disjoint:
            assert high == 0
        else:
            assert abs(sum(low) + high) <= BELOW * (1 + 1e-9)
        if levels.disjoint:
            low, high = stack_losses(
                stack, X, y, *neighbour(X, y, levels.high_rows[0], rng), rng, scale
            )
            assert low == [0.0] * len(low)
            assert abs(high) <= BELOW * (1 + 1e-9)


@pytest.mark.parametrize("levels", ["disjoint", "shared"])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_exact_loss_of_parts_of_the_rows(K, levels):
    rng = np.random.default_rng(K)
    X, y = data()
    y = 2.0 * y - 1
    stack = SampleStackingClassifier(
        1.0, n_parts=K, fit_intercept=False, l2_reg_strength=1e-4, levels=levels
    )
    planned = stack._plan(*X.shape, 2)
    low_rows = planned.levels.low_rows
    np.testing.assert_array_equal(
        np.sort(np.concatenate([part.rows for part in planned.parts])), low_rows
    )
    for part in planned.parts:
        assert len(part.rows) == part.plan.record.n_samples
    share = 1.0 if planned.levels.disjoint else 0.9
    for scale in (0.1, 3.0, 100.0):
        for row in rng.choice(low_rows, 3):
            low, high = stack_losses(stack, X, y, *neighbour(X, y, row, rng), rng, scale)
            assert sum(loss != 0 for loss in low) <= 1
            assert abs(sum(low)) <= share * BELOW * (1 + 1e-9)
            assert abs(sum(low) + high) <= BELOW * (1 + 1e-9)
            assert high == 0 or not planned.levels.disjoint


@seeded
@pytest.mark.parametrize("kind", [FeatureStackingClassifier, SampleStackingClassifier])
def test_every_release_of_a_fit_has_noise_of_its_own(kind, monkeypatch):
    used, key = [], RandomSource.key

    def spy(source, purpose):
        used.append((source.part, purpose))
        return key(source, purpose)

    monkeypatch.setattr(RandomSource, "key", spy)
    stack = kind(1.0, classes=[0, 1], random_state=0).fit(*data())
    assert len(used) == len(set(used)) == 2 * (len(stack.low_level_) + 1)


def assert_tilted_by(source, coef, rows, y, plan, prior_mean=None):
    """The noise that explains a release is the planned one: these rows and labels, this centre."""
    expected, _ = noise.sphere(plan.dimension, plan.calibration.beta, source.key("tilt"))
    found = noise_of(
        coef,
        rows,
        y,
        kappa=plan.calibration.kappa,
        loss=plan.record.loss,
        prior_mean=prior_mean,
    )
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.linalg.norm(expected))


@seeded
@pytest.mark.parametrize("levels", ["disjoint", "shared"])
@pytest.mark.parametrize("kind", ["columns", "published", "rows", "target"])
def test_a_fit_runs_the_mechanisms_that_were_planned(kind, levels):
    """Rows clipped at both levels, labels, centres and noise, from what was released alone."""
    X, y = data(n=200)
    X *= 100
    options = {"classes": [0, 1], "fit_intercept": False, "levels": levels, "random_state": 0}
    if kind == "rows":
        stack = SampleStackingClassifier(2.0, n_parts=3, **options)
    elif kind == "target":
        other, labels = data(n=200, seed=1)
        source = TransferSourceClassifier(5.0, importance=range(1, 9), classes=[0, 1])
        stack = TransferStackingClassifier(2.0, source=source.fit(other, labels), **options)
    else:
        if kind == "published":
            options |= {"pipeline": "published", "levels": "disjoint"}
        stack = FeatureStackingClassifier(2.0, importance=range(1, 9), **options)
    stack.fit(X, y)
    planned, random = stack._plan(*X.shape, 2), random_source(0)
    sign = 2.0 * y - 1
    for part, model in zip(planned.parts, stack.low_level_, strict=True):
        rows = clip(X[part.rows][:, part.group.columns], part.plan.record.R)
        assert_tilted_by(
            random.at(part.key),
            model.coef_[0],
            rows,
            sign[part.rows],
            part.plan,
            part.prior_mean,
        )
        assert (part.prior_mean is None) == (kind != "target")
    rows = planned.levels.high_rows
    meta = meta_features(stack.low_level_, X[rows], kind == "published")
    prior = None
    if kind == "published":
        assert np.linalg.norm(meta, axis=1).max() <= 1
    else:
        assert np.linalg.norm(meta, axis=1).max() > 1.5  # so that clipping shows
        bound = prior_bound(planned.parts)
        prior = high_level_prior(stack.low_level_, intercept=False, longest=bound)
    assert_tilted_by(
        random.at("high level"), stack.coef_[0], clip(meta, 1.0), sign[rows], planned.high, prior
    )


def attained(parts, loss="logistic", norms=None):
    """The largest loss of the groups together, by the extremal pair of each."""
    total = 0.0
    for k, part in enumerate(parts):
        record = part.plan.record
        R = record.R if norms is None else norms[k]
        pair = extremal_pair(beta=record.beta, kappa=record.kappa, data_norm=R, loss=loss)
        total += privacy_loss(**pair._asdict(), beta=record.beta, kappa=record.kappa, loss=loss)
    return total


@pytest.mark.parametrize("loss", ["logistic", "capped"])
def test_the_groups_attain_epsilon_and_no_more(loss):
    stack = FeatureStackingClassifier(
        0.5, importance=[4, 3, 2, 1], n_groups=4, loss=loss, l2_reg_strength=1e-4
    )
    assert attained(stack._plan(500, 4, 2).parts, loss) == pytest.approx(0.5 * BELOW, abs=1e-3)


def test_groups_without_importance_are_left_out():
    X, y = data()
    stack = FeatureStackingClassifier(
        1.0, groups=[[0, 1], [2, 3]], importance=[1, 1, 0, 0, 0, 0, 0, 0], classes=[0, 1]
    ).fit(X, y)
    assert [model.columns.tolist() for model in stack.low_level_] == [[0, 1]]
    assert stack.low_level_[0].share == 1
    assert stack.coef_.shape == (1, 1)


@pytest.mark.parametrize("tiny", [1e-13, 1e-300])
def test_a_share_too_small_for_a_release_is_named(tiny):
    X, y = data()
    ledger = Ledger()
    with pytest.raises(InvalidParameterError, match="share of a group must be"):
        FeatureStackingClassifier(
            1.0, n_groups=2, importance=4 * [1] + 4 * [tiny], classes=[0, 1], ledger=ledger
        ).fit(X, y)
    assert ledger.spent == 0
    with pytest.raises(InvalidParameterError, match="epsilon must be at least"):
        FeatureStackingClassifier(1e-13, n_groups=1, classes=[0, 1], ledger=ledger).fit(X, y)


KINDS = {
    "columns": lambda **o: FeatureStackingClassifier(0.3, importance=[5, 4, 3, 2, 1, 0], **o),
    "rows": lambda **o: SampleStackingClassifier(0.3, n_parts=4, **o),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ridge", [1e-4, 1.0])
@pytest.mark.parametrize(
    ("options", "classes"),
    [
        ({}, 2),
        ({"loss": "logistic"}, 2),
        ({"levels": "shared"}, 2),
        ({"levels": "shared", "loss": "logistic"}, 2),
        ({"combiner": "vote"}, 2),
        ({"pipeline": "published"}, 2),
        ({}, 3),
        ({"levels": "shared"}, 3),
    ],
)
def test_the_worst_row_costs_epsilon_and_little_less(kind, ridge, options, classes):
    """Over all mechanisms and lattices that a row enters, by the exact cost of each."""
    n = 300
    planned = KINDS[kind](l2_reg_strength=ridge, **options)._plan(n, 6, classes)
    cost = np.zeros(n)
    for rows, plan in [
        *((part.rows, part.plan) for part in planned.parts),
        *([(planned.levels.high_rows, planned.high)] if planned.high else []),
    ]:
        assert len(rows) == plan.record.n_samples
        cost[rows] += plan.lattice.epsilon + perturbation_epsilon(
            beta=plan.calibration.beta,
            kappa=plan.calibration.kappa,
            data_norm=plan.accuracy.data_norm,
            loss=plan.record.loss,
            n_classes=classes,
        )
    assert cost.max() <= 0.3 * (1 + 1e-12)
    if options.get("pipeline") != "published":
        assert cost.min() >= 0.3 * (1 - 1e-9)
    assert float(planned.cost) == planned.record.epsilon == 0.3


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_the_lattices_of_all_groups_are_paid_for(published, share):
    """Each group's noise and lattice, added up as exact rationals, are within epsilon."""
    stack = FeatureStackingClassifier(
        0.3,
        importance=[5, 4, 3, 2, 1] if share else None,
        pipeline="published" if published else "privlr",
        l2_reg_strength=1e-3,
    )
    plans = [part.plan for part in stack._plan(300, 5, 2).parts]
    assert sum(Fraction(plan.lattice.epsilon) for plan in plans) <= Fraction(0.3) / 128
    for plan in plans:
        noise, lattice = plan.record.charges
        assert lattice.epsilon == Fraction(plan.lattice.epsilon)
        cost = perturbation_epsilon(
            beta=plan.calibration.beta,
            kappa=plan.calibration.kappa,
            data_norm=plan.record.R,
            loss=plan.record.loss,
        )
        assert cost <= float(noise.epsilon) * (1 + 1e-12)
    assert sum(item.epsilon for plan in plans for item in plan.record.charges) <= Fraction(0.3)


def test_published_delta_is_clamped_in_the_stack():
    stack = FeatureStackingClassifier(
        0.1, importance=[97, 1, 1, 1], n_groups=4, pipeline="published", l2_reg_strength=1e-3
    )
    kappas = [part.plan.record.kappa for part in stack._plan(2000, 4, 2).parts]
    # A negative Delta would bring these below n_l lambda.
    assert min(kappas) == pytest.approx(1000 * 1e-3)
    costs = [part.plan.record.epsilon for part in stack._plan(2000, 4, 2).parts]
    assert sum(costs) <= 0.1


def test_shares_never_add_up_to_more_than_one():
    rng = np.random.default_rng(0)
    for _ in range(200):
        shares = normalized(rng.random(7).tolist())
        assert sum(map(Fraction, shares)) <= 1
        assert math.fsum(shares) == pytest.approx(1, abs=1e-15)


@seeded
def test_one_group_is_private_logistic_regression():
    X, y = data()
    stack = FeatureStackingClassifier(
        0.7, n_groups=1, combiner=0, classes=[0, 1], random_state=3
    ).fit(X, y)
    peer = PrivateLogisticRegression(
        0.7, loss="capped", classes=[0, 1], fit_intercept=False, random_state=3
    ).fit(X, y)
    np.testing.assert_array_equal(stack.low_level_[0].coef_, peer.coef_)


@seeded
def test_permuting_groups_permutes_models():
    X, y = data()
    groups = [[0, 3], [1, 2, 4], [5, 6, 7]]
    fits = [
        FeatureStackingClassifier(
            1.0, groups=order, classes=[0, 1], combiner="vote", random_state=1
        ).fit(X, y)
        for order in (groups, groups[::-1])
    ]
    for model, other in zip(fits[0].low_level_, fits[1].low_level_[::-1], strict=True):
        np.testing.assert_array_equal(model.coef_, other.coef_)


@seeded
def test_a_high_level_row_and_its_label_leave_the_low_level_alone():
    X, y = data()
    stack = FeatureStackingClassifier(1.0, n_groups=2, classes=[0, 1], random_state=1)
    row = stack._plan(*X.shape, 2).levels.high_rows[0]
    before = stack.fit(X, y).low_level_
    X[row], y[row] = 5.0, 1 - y[row]
    for model, other in zip(before, stack.fit(X, y).low_level_, strict=True):
        np.testing.assert_array_equal(model.coef_, other.coef_)


@seeded
def test_the_target_is_a_function_of_the_sources_file(tmp_path):
    X, y = data()
    source = TransferSourceClassifier(1.0, n_groups=2, classes=[0, 1]).fit(X, y)
    save_stack(source, tmp_path / "source.json")
    exchanged = load_stack(tmp_path / "source.json")
    X, y = data(seed=5)
    coefs = [
        TransferStackingClassifier(1.0, source=given, classes=[0, 1], random_state=2)
        .fit(X, y)
        .coef_
        for given in (source, exchanged)
    ]
    np.testing.assert_array_equal(*coefs)


def test_exact_loss_of_the_transfer():
    rng = np.random.default_rng(0)
    X, y = data()
    source = TransferSourceClassifier(1.0, n_groups=3, classes=[0, 1]).fit(X, y)
    X, y = data(seed=1)
    y = 2.0 * y - 1
    target = TransferStackingClassifier(0.5, source=source, fit_intercept=False)
    row = target._plan(*X.shape, 2).levels.low_rows[0]
    for scale in (0.1, 10.0):
        low, high = stack_losses(target, X, y, *neighbour(X, y, row, rng), rng, scale)
        assert abs(sum(low)) <= 0.5 * BELOW * (1 + 1e-9)
        assert high == 0


def test_the_published_source_costs_k_epsilon_and_ours_one():
    X, y = data(n=40, d=5)
    ledger = Ledger()
    for pipeline in ("published", "privlr"):
        TransferSourceClassifier(
            1.0, n_groups=5, classes=[0, 1], pipeline=pipeline, ledger=ledger
        ).fit(X, y)
    assert [charge.epsilon for charge in ledger.charges] == [5, 1]
    planned = TransferSourceClassifier(1.0, n_groups=5, classes=[0, 1], pipeline="published")
    assert planned.privacy_cost().epsilon == planned.privacy_cost(40, 5).epsilon == 5
    assert planned.set_params(groups=[[0, 1], [2]]).privacy_cost().epsilon == 2
    assert "5 regressions on the same 40 rows" in ledger.charges[0].note
    # The paper's claim of epsilon is false: K extremal pairs, one per group of the same row.
    parts = (
        TransferSourceClassifier(1.0, n_groups=5, pipeline="published", l2_reg_strength=0.01)
        ._plan(1000, 5, 2)
        .parts
    )
    assert attained(parts) > 4.5


def test_a_cost_without_data_needs_a_budget_and_classes():
    with pytest.raises(InvalidParameterError, match="epsilon"):
        FeatureStackingClassifier(0.0).privacy_cost()
    with pytest.raises(InvalidParameterError, match="classes"):
        FeatureStackingClassifier(1.0, classes="public").privacy_cost(10, 5)
    assert FeatureStackingClassifier(1.0).privacy_cost().epsilon == 1


def test_charged_before_and_refused_beyond_the_limit():
    X, y = data()
    ledger = Ledger(limit=1)
    stack = FeatureStackingClassifier(1.0, levels="shared", classes=[0, 1], ledger=ledger)
    assert stack.privacy_cost().epsilon == 1
    stack.fit(X, y)
    assert ledger.spent == 1
    with pytest.raises(PrivacyBudgetError):
        stack.fit(X, y)
    assert stack.privacy_.epsilon == 1
    assert stack.privacy_cost(60, 8).charges == stack.privacy_.charges


@pytest.mark.parametrize("combiner", ["stack", "sum", "vote", "weighted_vote", 1])
@pytest.mark.parametrize("kind", [FeatureStackingClassifier, SampleStackingClassifier])
def test_combiners_predict(kind, combiner):
    X, y = data(n=200)
    stack = kind(1e4, loss="logistic", combiner=combiner, classes=[0, 1], n_jobs=2).fit(X, y)
    probability = stack.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert stack.score(X, y) > 0.6
    assert hasattr(stack, "coef_") == (combiner == "stack")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [FeatureStackingClassifier, SampleStackingClassifier])
def test_the_upper_level_starts_at_the_sum(kind, classes):
    X, y = labelled(classes)
    stack = kind(1.0, classes=range(classes)).fit(X, y)
    bound = prior_bound(stack._plan(*X.shape, classes).parts)
    prior = high_level_prior(stack.low_level_, intercept=True, longest=bound)
    assert np.linalg.norm(prior) <= bound
    short = high_level_prior(stack.low_level_, intercept=True, longest=1e-3)
    assert np.linalg.norm(short) == pytest.approx(1e-3)
    prior = prior.reshape(len(stack.coef_), -1)
    assert not prior[:, -1].any()
    # A stack whose upper level stayed at its prior predicts what "sum" predicts.
    stack.coef_, stack.intercept_ = prior[:, :-1], prior[:, -1]
    predicted = stack.decision_function(X)
    np.testing.assert_allclose(predicted, stack.set_params(combiner="sum").decision_function(X))


def labelled(classes, n=200):
    X, _ = data(n=n)
    return X, np.digitize(X[:, :4].sum(axis=1), [0.0] if classes == 2 else [-0.4, 0.4])


@pytest.mark.parametrize("classes", [2, 3])
def test_a_target_of_little_budget_stays_near_its_source(classes):
    X, y = labelled(classes)
    source = TransferSourceClassifier(1e4, loss="logistic", n_groups=2, classes=range(classes))
    source.fit(X, y)
    target = TransferStackingClassifier(
        1.0, source=source, l2_reg_strength=1e4, combiner="sum", classes=range(classes)
    ).fit(X[:50], y[:50])
    for model, prior in zip(target.low_level_, source.low_level_, strict=True):
        np.testing.assert_allclose(model.coef_, prior.coef_, atol=1e-2)
    assert (target.predict(X) == source.predict(X)).mean() > 0.95


def test_a_refit_leaves_no_old_upper_level():
    X, y = data()
    stack = FeatureStackingClassifier(1.0, classes=[0, 1]).fit(X, y)
    stack.set_params(combiner="vote").fit(X, y)
    assert not hasattr(stack, "coef_")
    with pytest.raises(InvalidParameterError, match="combiner"):
        stack.set_params(combiner="stack").predict(X)


def test_parameters_set_after_the_fit():
    X, y = data()
    stack = FeatureStackingClassifier(1.0, classes=[0, 1]).fit(X, y)
    expected = stack.decision_function(X)
    np.testing.assert_array_equal(
        stack.set_params(pipeline="published").decision_function(X), expected
    )
    for combiner in (5, -1, "mean", None, 1.5, True):
        with pytest.raises(InvalidParameterError, match="combiner"):
            stack.set_params(combiner=combiner).predict(X)


@seeded
def test_a_target_says_what_its_source_says():
    X, y = data()
    source = TransferSourceClassifier(1.0, n_groups=2, classes=[0, 1], random_state=0).fit(X, y)
    target = TransferStackingClassifier(1.0, source=source, classes=[0, 1]).fit(X, y)
    assert target.privacy_.private  # for the rows of the target
    assert target.privacy_.notes[0].startswith("source: random_state was set")


@seeded
def test_a_clone_of_a_target_keeps_the_source():
    X, y = data()
    source = TransferSourceClassifier(1.0, n_groups=2, classes=[0, 1]).fit(X, y)
    ledger = Ledger()
    target = TransferStackingClassifier(
        1.0, source=source, classes=[0, 1], ledger=ledger, random_state=1
    )
    copy = clone(target)
    np.testing.assert_array_equal(copy.fit(X, y).coef_, target.fit(X, y).coef_)
    assert not hasattr(clone(target), "coef_")
    GridSearchCV(target, {"l2_reg_strength": [0.1, 1.0]}, cv=2).fit(X, y)
    assert ledger.spent == 2 + 5


def test_a_failed_refit_leaves_the_earlier_fit(monkeypatch):
    X, y = data()
    stack = FeatureStackingClassifier(1.0, classes=[0, 1], ledger=Ledger()).fit(X, y)
    before = {**vars(stack)}

    def fail(*arguments, **options):
        raise ConvergenceError("planted")

    monkeypatch.setattr(_base, "objective_perturbation", fail)
    with pytest.raises(ConvergenceError):
        stack.fit(X, y)
    assert stack.ledger.spent == 2
    assert vars(stack) == before


def test_three_classes():
    X, _ = data(n=200)
    y = np.digitize(X[:, :4].sum(axis=1), [-0.4, 0.4])
    stack = FeatureStackingClassifier(1e4, n_groups=2, classes=[0, 1, 2]).fit(X, y)
    assert stack.coef_.shape == (3, 6)
    assert stack.predict_proba(X).shape == (200, 3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("groups", {"groups": [[0, 1], [1, 2]]}),
        ("groups", {"groups": [[0, 99]]}),
        ("importance", {"importance": [1.0, 2.0]}),
        ("importance", {"importance": [-1.0] * 8}),
        ("n_groups", {"n_groups": 9}),
        ("pipeline", {"pipeline": "paper"}),
        ("levels", {"levels": "shared", "pipeline": "published"}),
        ("combiner", {"combiner": 7}),
        ("epsilon", {"epsilon": math.nan}),
        ("partition_seed", {"partition_seed": -1}),
        ("n_jobs", {"n_jobs": 0}),
        ("n_jobs", {"n_jobs": "all"}),
        ("loss", {"loss": "hinge"}),
        ("loss", {"loss": "capped", "pipeline": "published"}),
        ("l2_reg_strength", {"l2_reg_strength": -1}),
        ("l2_reg_strength", {"l2_reg_strength": "best"}),
        ("data_norm", {"data_norm": 0}),
        ("fit_intercept", {"fit_intercept": 1}),
        ("importance_power", {"importance": [1.0] * 8, "importance_power": 0}),
        ("importance", {"importance": [math.nan] * 8}),
        ("importance", {"importance": list("abcdefgh")}),
        ("importance", {"importance": [[1], [1, 2]]}),
        ("classes", {"classes": None}),
        ("y", {"classes": [0, 2]}),
    ],
)
def test_bad_parameters_are_refused_before_any_charge(name, options):
    ledger = Ledger()
    options = {"epsilon": 1.0, "classes": [0, 1], "ledger": ledger, **options}
    with pytest.raises(InvalidParameterError, match=name):
        FeatureStackingClassifier(**options).fit(*data())
    assert ledger.spent == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_features_in_": 7},
        {"classes_": np.array([0, 2])},
        {"low_level_": None},
        {"data_norm_": 2.0},
        {"feature_names_in_": np.array(list("abcdefgi"), dtype=object)},
    ],
)
def test_a_source_that_does_not_fit_is_refused(wrong):
    X, y = data()
    source = TransferSourceClassifier(1.0, n_groups=2, classes=[0, 1]).fit(X, y)
    given = SimpleNamespace(
        low_level_=source.low_level_, classes_=source.classes_, n_features_in_=8, data_norm_=1.0
    )
    given.__dict__.update(wrong)
    if wrong.get("low_level_", 0) is None:
        del given.low_level_
    X = pandas.DataFrame(X, columns=list("abcdefgh"))
    ledger = Ledger()
    with pytest.raises(InvalidParameterError, match="source"):
        TransferStackingClassifier(
            1.0, source=given, data_norm=1.0, classes=[0, 1], ledger=ledger
        ).fit(X, y)
    assert ledger.spent == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"share": 0.6}, "shares that add up"),
        ({"columns": np.array([0, 1, 2, 3])}, "disjoint columns"),
        ({"has_intercept": True}, "disjoint columns"),
        ({"columns": np.array([-4, -3, -2, -1])}, "disjoint columns"),
        ({"columns": np.array([5, 6, 7, 8])}, "disjoint columns"),
        ({"columns": np.array([4.0, 5.0, 6.0, 7.0])}, "of models with 1 rows"),
        ({"coef_": np.full((1, 4), 1e60)}, "coefficients up to"),
        ({"coef_": np.full((1, 4), np.nan)}, "coefficients up to"),
        ({"coef_": np.ones((1, 3))}, "of models with 1 rows"),
        ({"coef_": np.ones((2, 4))}, "of models with 1 rows"),
        ({"coef_": np.ones(4)}, "of models with 1 rows"),
        ({"share": 0}, "share"),
        ({"share": -0.1}, "share"),
        ({"share": 1e-13}, "share of a group must be large enough"),
    ],
)
def test_a_source_of_models_that_cannot_share_a_row_is_refused(change, reason):
    X, y = data()
    source = TransferSourceClassifier(1.0, groups=[[0, 1, 2, 3], [4, 5, 6, 7]], classes=[0, 1])
    source.fit(X, y)
    first, second = source.low_level_
    source.low_level_ = (first, replace(second, **change))
    ledger = Ledger()
    with pytest.raises(InvalidParameterError, match=reason):
        TransferStackingClassifier(1.0, source=source, classes=[0, 1], ledger=ledger).fit(X, y)
    assert ledger.spent == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [FeatureStackingClassifier, SampleStackingClassifier])
@pytest.mark.parametrize("level", ["low_rows", "high_rows"])
def test_what_is_not_finite_is_refused_before_any_charge(level, kind, value):
    """Rows of the upper level too, which are read only after the lower one is released."""
    X, y = data()
    ledger = Ledger()
    stack = kind(1.0, classes=[0, 1], ledger=ledger)
    X[getattr(stack._plan(*X.shape, 2).levels, level)[0], 3] = value
    for rows in (X, scipy.sparse.csr_array(X)):
        with pytest.raises(InvalidParameterError, match="X must be finite"):
            stack.fit(rows, y)
    assert ledger.spent == 0


def test_a_broken_sparse_matrix_is_refused_before_any_charge():
    X, y = data()
    ledger = Ledger()
    broken = scipy.sparse.csr_array(X)
    broken.indices = broken.indices.copy()
    broken.indices[-1] = 1 << 20
    with pytest.raises(InvalidParameterError, match="X must be a well-formed CSR"):
        FeatureStackingClassifier(1.0, classes=[0, 1], ledger=ledger).fit(broken, y)
    assert ledger.spent == 0


def test_errors_quote_no_data():
    X, y = data()
    cells = X.astype(object)
    cells[3, 2] = "secret"
    with pytest.raises((TypeError, ValueError)) as refused:
        FeatureStackingClassifier(1.0, classes=[0, 1]).fit(cells, y)
    assert "secret" not in str(refused.value)


@seeded
@pytest.mark.parametrize("kind", [FeatureStackingClassifier, SampleStackingClassifier])
@pytest.mark.parametrize("length", [1e19, 1e160, 1e307])
def test_a_long_row_changes_no_other_rows_meta_features(kind, length):
    X, y = data(n=80)
    stack = kind(1.0, classes=[0, 1], random_state=0).fit(X, y)
    for form in (np.asarray, scipy.sparse.csr_array, lambda A: A.astype(np.float32)):
        if length > 1e38 and form(X).dtype == np.float32:
            continue
        with np.errstate(all="raise", under="ignore"):
            before = meta_features(stack.low_level_, form(X), False)
            longer = X.copy()
            longer[0] *= length
            after = meta_features(stack.low_level_, form(longer), False)
            stack.fit(form(longer), y)
        np.testing.assert_array_equal(before[1:], after[1:])
        for model, found in zip(stack.low_level_, stack.low_level_):
            raw = found.raw_prediction(form(longer))[0]
            whole = np.r_[longer[0][model.columns] / length, model.has_intercept / length]
            coef = np.r_[model.coef_[0], model.intercept_]
            expected = model.data_norm * (whole / np.linalg.norm(whole)) @ coef
            np.testing.assert_allclose(raw, expected, rtol=1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_groups_cut_out_together_are_those_cut_out_alone(dtype, order):
    X = data(n=150)[0].astype(dtype, order=order)
    X[5] *= 1e30  # clipped
    X[20] = 0.0
    if dtype is np.float64:
        X[::7, 5] = 1e200  # products with such rows overflow: not in the other groups
    stack = FeatureStackingClassifier(1.0, groups=[[7, 2], [0], [5, 1, 3]])
    parts = stack._plan(*X.shape, 2).parts
    for part, design in zip(parts, designs(parts, X), strict=True):
        own = X[np.ix_(part.rows, part.group.columns)]
        assert design.longest() <= part.plan.accuracy.data_norm
        alone = make_design(own, data_norm=part.plan.accuracy.data_norm)
        np.testing.assert_array_equal(design.row_scale, alone.row_scale)
        y = np.where(np.arange(len(part.rows)) % 3, 1.0, -1.0)
        np.testing.assert_array_equal(
            *(minimize(Problem(rows, y, 1.0)).coef for rows in (design, alone))
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("column", range(8))
def test_nothing_is_charged_for_rows_that_are_not_finite(bad, column):
    X, y = data(n=50)
    ledger = Ledger()
    stack = FeatureStackingClassifier(
        1.0, groups=[[7, 2], [0], [5, 1, 3]], classes=[0, 1], ledger=ledger
    )
    for row in (0, 24, 49):  # of either level; columns 4 and 6 are in no group
        rows = X.copy()
        rows[row, column] = bad
        with pytest.raises(InvalidParameterError, match="X"):
            stack.fit(rows, y)
    assert ledger.spent == 0


def test_float32_and_sparse_rows_give_the_same_models():
    X, y = data()
    X = X.astype(np.float32)
    with pytest.warns(PrivacyWarning):
        fits = [
            FeatureStackingClassifier(1.0, classes=[0, 1], random_state=1).fit(rows, y)
            for rows in (X, X.astype(float), scipy.sparse.csr_array(X), np.asfortranarray(X))
        ]
    for other in fits[1:]:
        np.testing.assert_allclose(other.decision_function(X), fits[0].decision_function(X), 1e-6)


@pytest.mark.filterwarnings("ignore::privlr.exceptions.PrivacyWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@parametrize_with_checks(
    [
        FeatureStackingClassifier(1e3, n_groups=1, data_norm=10.0, classes="public"),
        SampleStackingClassifier(1e3, n_parts=2, data_norm=10.0, classes="public"),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# Planted bugs: each asserts that the audits above tell the wrong code from the right one.


def test_planted_n_of_all_rows():
    # Half of these rows are in the sum, so the ridge in sum form is half as large as thought.
    wrong = calibrate_groups(0.5, (0.5, 0.5), n_samples=2000, l2_reg_strength=1e-9)
    costs = [perturbation_epsilon(beta=g.beta, kappa=g.kappa / 2, data_norm=0.5) for g in wrong]
    assert sum(costs) > 0.52
    stack = FeatureStackingClassifier(0.1, pipeline="published")
    planned = stack._plan(2000, 8, 2)
    assert {p.plan.record.n_samples for p in planned.parts} == {1000}
    assert len(planned.levels.low_rows) == 1000
    planned = FeatureStackingClassifier(0.1)._plan(2000, 8, 2)
    assert {p.plan.record.n_samples for p in planned.parts} == {1800}
    assert len(planned.levels.low_rows) == 1800
    assert planned.high.record.n_samples == len(planned.levels.high_rows) == 200


@seeded
def test_planted_stratified_split(monkeypatch):
    X, y = data()
    seen = []

    def low_level_moves():
        """Whether the label of a high-level row reaches a model below."""
        stack = FeatureStackingClassifier(1.0, n_groups=2, classes=[0, 1], random_state=1)
        before = [model.coef_ for model in stack.fit(X, y).low_level_]
        moved = False
        for row in range(len(y)):
            if row in set(rows_of(stack)):
                continue
            flipped = y.copy()
            flipped[row] = 1 - y[row]
            after = stack.fit(X, flipped).low_level_
            moved |= any((a != b.coef_).any() for a, b in zip(before, after))
        return moved

    def rows_of(stack):
        return stack._plan(*X.shape, 2).levels.low_rows

    assert not low_level_moves()

    def labels(y, classes):
        seen[:] = [_encode(y, classes)]
        return seen[0]

    def stratified(n_samples, sizes, seed, *, dealt):
        order = np.argsort(seen[0], kind="stable")  # each class in turn, as a stratifier deals
        high = order[:: n_samples // sizes[1]][: sizes[1]]
        return np.setdiff1d(np.arange(n_samples), high), np.sort(high)

    _encode = _base.encode_labels
    monkeypatch.setattr(_base, "encode_labels", labels)
    monkeypatch.setattr(_base, "split_rows", stratified)
    assert low_level_moves()


@seeded
def test_planted_same_noise_in_two_groups(monkeypatch):
    X, y = data()

    def noises():
        stack = FeatureStackingClassifier(
            1.0, groups=[[0, 1], [2, 3]], combiner="vote", classes=[0, 1], random_state=1
        ).fit(X, y)
        return [
            noise_of(
                model.coef_[0],
                clip(X[:, model.columns], model.data_norm),
                2 * y - 1,
                kappa=model.privacy_.kappa,
                loss=model.privacy_.loss,
            )
            for model in stack.low_level_
        ]

    b, other = noises()
    assert np.linalg.norm(b - other) > 1e-3 * np.linalg.norm(b)
    monkeypatch.setattr(RandomSource, "at", lambda self, *part: self)
    b, other = noises()
    assert np.linalg.norm(b - other) < 1e-3 * np.linalg.norm(b)


def test_planted_shares_ignored_in_clipping():
    stack = FeatureStackingClassifier(1.0, importance=[4, 3, 2, 1], n_groups=4, loss="logistic")
    parts = stack._plan(500, 4, 2).parts
    assert attained(parts) <= 1
    assert attained(parts, norms=[1.0] * 4) > 2
    for part in parts:
        rows = part.design(100 * np.ones((500, 4)))
        assert rows.longest() <= part.group.share


def test_planted_meta_features_not_rescaled():
    record = FeatureStackingClassifier(1.0, pipeline="published")._plan(500, 8, 2).high.record
    worst = perturbation_epsilon(beta=record.beta, kappa=record.kappa, data_norm=math.sqrt(5))
    assert worst > 1
    # The library's own are enlarged, so that the clipping is what bounds them.
    X, y = data(n=200)
    stack = FeatureStackingClassifier(1e3, classes=[0, 1]).fit(X, y)
    meta = meta_features(stack.low_level_, 100 * X, False)
    assert np.linalg.norm(meta, axis=1).max() > 1
    assert make_design(meta, intercept=1.0, data_norm=1.0).longest() <= 1
    X, y = data(n=200)
    stack = FeatureStackingClassifier(1e3, pipeline="published", classes=[0, 1]).fit(X, y)
    meta = meta_features(stack.low_level_, 100 * X, True)
    assert np.linalg.norm(meta, axis=1).max() <= 1 + 1e-12


def test_a_seed_warns_and_is_recorded():
    ledger = Ledger()
    with pytest.warns(PrivacyWarning):
        stack = FeatureStackingClassifier(1.0, classes=[0, 1], random_state=0, ledger=ledger).fit(
            *data()
        )
    assert not stack.privacy_.private
    assert ledger.charges[0].note.endswith("(seeded: not private)")
