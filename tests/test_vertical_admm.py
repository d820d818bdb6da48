"""ADMM sharing against its definition, the centralised optimum, and its own remote form."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privlr import solve
from privlr.datasets import load_a9a, load_gisette_like
from privlr.exceptions import InvalidParameterError, PrivacyBudgetError
from privlr.mechanisms import RandomSource
from privlr.optimize import logistic_prox
from privlr.privacy import Ledger, calibrate_shares
from privlr.vertical import ADMMSharing, Coordinator, NoisyShares, Party, Settings, fdml_sgd
from privlr.vertical._ridge import INVERSE_ERROR, DualRidge, PrimalRidge, gram, make_ridge


def problem(n=120, widths=(4, 3), seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    blocks = [rng.normal(size=(n, d)) * (rng.random((n, d)) < density) for d in widths]
    score = sum(X @ rng.normal(size=X.shape[1]) for X in blocks)
    return blocks, np.where(rng.random(n) < expit(score), 1.0, -1.0)


def sharing(blocks, y, *, ridge=1.0, rho=0.05, form="boyd", over_relaxation=1.6, **options):
    settings = Settings(
        n_samples=len(y),
        n_parties=len(blocks),
        n_features=sum(X.shape[1] for X in blocks),
        ridge=ridge,
        rho=rho,
        form=form,
        over_relaxation=over_relaxation,
    )
    parties = [Party(X, settings, name=f"party {i}", **options) for i, X in enumerate(blocks)]
    return ADMMSharing(parties, Coordinator(y, settings))


def test_the_dual_is_the_slope_in_every_round():
    blocks, y = problem()
    run = sharing(blocks, y)
    for _ in range(12):
        run.run(1)
        coordinator = run.coordinator
        slope = -y * expit(-y * coordinator.z)
        np.testing.assert_allclose(coordinator.dual, slope, rtol=0, atol=1e-14)
        assert (np.sign(coordinator.dual) == -y).all()  # every message carries the labels


@pytest.mark.parametrize("form", ["boyd", "jacobi"])
@pytest.mark.parametrize("rho", [0.02, 0.3, 3.0])
def test_against_the_published_update(form, rho):
    """Jacobi is the published update; Boyd's form adds rho (M-1)/2 ||D_m (x - x_m)||^2 to it."""
    blocks, y = problem(widths=(4, 3, 5))
    ridge, parties, n = 0.7, len(blocks), len(y)
    run = sharing(blocks, y, ridge=ridge, rho=rho, form=form, over_relaxation=1.0)
    proximal = rho * (parties - 1) if form == "boyd" else 0.0
    x = [np.zeros(X.shape[1]) for X in blocks]
    z, dual = np.zeros(n), np.zeros(n)
    for t in range(9):
        shares = [X @ w for X, w in zip(blocks, x)]
        gap = sum(shares) - z
        x = [
            np.linalg.solve(
                ridge * np.eye(X.shape[1]) + (rho + proximal) * X.T @ X,
                X.T @ (-dual - rho * (gap - share) + proximal * share),
            )
            for X, share in zip(blocks, shares)
        ]
        total = sum(X @ w for X, w in zip(blocks, x))
        z = logistic_prox(total, dual, y, c=1.0, rho=rho)
        dual = dual + rho * (total - z)
        if t:  # from zero, the published first x-update does nothing
            run.run(1)
            for ours, theirs in zip(run.coefs, x):
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["boyd", "jacobi"])
@pytest.mark.parametrize("widths", [(9,), (5, 4), (3, 1, 4), (1, 2, 3, 1, 2, 3, 2)])
def test_fixed_point_is_the_centralised_optimum(widths, form):
    blocks, y = problem(widths=widths)
    rho = 0.05 if form == "boyd" else 0.3 * len(widths)
    run = sharing(blocks, y, rho=rho, form=form, over_relaxation=1.6 if form == "boyd" else 1.0)
    run.run(4000, tol=1e-13)
    coordinator, X, w = run.coordinator, np.hstack(blocks), np.concatenate(run.coefs)
    np.testing.assert_allclose(X @ w, coordinator.z, atol=1e-9)
    for D, x in zip(blocks, run.coefs):
        np.testing.assert_allclose(x + D.T @ coordinator.dual, 0, atol=1e-8)
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, y)

    def objective(v):
        return np.logaddexp(0, -y * (X @ v)).sum() + v @ v / 2

    assert objective(w) <= objective(peer.coef_[0]) * (1 + 1e-8)
    np.testing.assert_allclose(w, peer.coef_[0], atol=1e-6)


@pytest.mark.parametrize(("parties", "limit"), [(2, 0.25), (3, 0.625), (4, 1.0), (6, 1.75)])
def test_jacobi_diverges_where_boyd_converges(parties, limit):
    """All hold the same orthonormal columns; the limit is (3M - 4)/2 times the curvature 1/4."""
    rng = np.random.default_rng(1)
    block = np.linalg.qr(rng.normal(size=(60, 8)))[0]
    y = np.sign(rng.normal(size=60))

    def last_residual(rho, form):
        run = sharing([block] * parties, y, ridge=1e-3, rho=rho, form=form, over_relaxation=1.0)
        history, _ = run.run(1500)
        return history[-1].primal_residual

    # The curvature falls from 1/4 as scores grow, so the paths stay bounded, and cycle.
    assert last_residual(0.88 * limit, "jacobi") > 1
    assert last_residual(1.04 * limit, "jacobi") < 1e-6
    for rho in (0.02, 0.88 * limit, 5.0):
        assert last_residual(rho, "boyd") < 1e-6


@pytest.mark.parametrize(("rho", "atol"), [(1e-3, 1e-5), (1e-1, 1e-5), (2.0, 1e-5), (10.0, 1e-1)])
@pytest.mark.parametrize("over_relaxation", [0.7, 1.0, 1.9])
def test_boyd_converges_for_every_rho_and_rank(rho, atol, over_relaxation):
    blocks, y = problem(widths=(4, 3))
    blocks = [np.hstack([X, X, np.zeros((len(y), 1))]) for X in blocks]  # twice, and nothing
    run = sharing(blocks, y, rho=rho, over_relaxation=over_relaxation)
    run.run(6000, tol=1e-9)
    w, X = np.concatenate(run.coefs), np.hstack(blocks)
    optimum = solve(X, y, l2_reg_strength=1 / len(y)).coef
    np.testing.assert_allclose(X @ w, X @ optimum, atol=atol)  # slow for a large rho


@pytest.mark.parametrize("shape", [(30, 5), (6, 40), (20, 20)])
@pytest.mark.parametrize("radius", [None, 1e-3, 0.4, 50.0])
@pytest.mark.parametrize("kind", [np.array, np.asfortranarray, sp.csr_array])
def test_ridge_on_the_ball(shape, radius, kind):
    rng = np.random.default_rng(2)
    D, v, alpha = rng.normal(size=shape), rng.normal(size=shape[0]), 0.3
    ridge = make_ridge(kind(D), alpha, radius)
    assert isinstance(ridge, DualRidge if shape[1] > shape[0] else PrimalRidge)
    for _ in range(2):  # the second solve starts anew
        ridge.solve(v if ridge.dual else D.T @ v)
    x, product = ridge.coef, ridge.left @ ridge.right
    np.testing.assert_allclose(product, D @ x, atol=1e-11)
    assert ridge.squared_norm(product) == pytest.approx(x @ x)
    slope = D.T @ (D @ x - v) + alpha * x
    if radius is None:
        np.testing.assert_allclose(slope, 0, atol=1e-11)
    else:
        assert np.linalg.norm(x) <= radius * (1 + 1e-12)
        # The variational inequality of the ball holds with equality.
        assert radius * np.linalg.norm(slope) + slope @ x <= 1e-11 * (1 + radius)


@pytest.mark.parametrize("log_condition", [1, 3, 6, 8])
@pytest.mark.parametrize("shape", [(400, 60), (200, 3), (5, 1), (30, 80)])
def test_the_explicit_inverse_solves_as_well_as_stated(shape, log_condition):
    rng = np.random.default_rng(log_condition)
    X = rng.normal(size=shape) * 10.0 ** rng.uniform(-2, 0, shape[1])
    kernel = gram(X if shape[1] <= shape[0] else X.T)
    alpha = np.trace(kernel) / 10**log_condition
    ridge = make_ridge(X, alpha)
    bound = len(kernel) * 2.0**-53 * (1 + np.trace(kernel) / alpha)
    assert (ridge._inverse is not None) == (bound < INVERSE_ERROR)
    system = kernel.astype(np.longdouble) + alpha * np.eye(len(kernel))
    worst = 0.0
    for side in (*rng.normal(size=(40, len(kernel))), *np.linalg.eigh(kernel)[1].T):
        ridge.solve(side)
        left = np.linalg.norm(system @ ridge.solution - side) / np.linalg.norm(side)
        worst = max(worst, left)
    assert worst <= bound


@pytest.mark.parametrize(
    ("n", "widths"), [(3001, (300, 200)), (1001, (1, 9)), (301, (400, 4)), (1, (1, 2))]
)
@pytest.mark.parametrize("density", [1.0, 0.2])
def test_remote_rounds_give_the_same_bits_and_resume(density, n, widths):
    """All sorts: many columns and few, fewer rows than columns, a last block that is short."""
    blocks, y = problem(n=n, widths=widths, density=density)
    if density < 1:
        blocks = [sp.csr_array(X) for X in blocks]
    run = sharing(blocks, y)
    run.run(5)
    remote = sharing(blocks, y)
    parties, coordinator = remote.parties, remote.coordinator
    shares = []
    for t in range(5):
        message = coordinator.reply(shares)
        shares = [party.answer(message) for party in parties]
        if t == 2:  # another process takes over
            fresh = sharing(blocks, y)
            for new, old in zip(fresh.parties, parties):
                new.restore(old.state())
            fresh.coordinator.restore(coordinator.state())
            parties, coordinator = fresh.parties, fresh.coordinator
    for ours, theirs in zip(run.coefs, (party.coef for party in parties)):
        np.testing.assert_array_equal(ours, theirs)


def test_remote_rounds_with_seeded_noise_give_the_same_bits():
    blocks, y = problem(n=3000, widths=(300, 200))
    chosen = calibrate_shares(4.0, 1e-5, rounds=3, n_samples=3000, n_features=300)
    options = {
        "release": NoisyShares.calibrated(chosen),
        "data_norm": 20.0,
        "random": RandomSource(seed=7),
    }
    run, remote = sharing(blocks, y, **options), sharing(blocks, y, **options)
    run.run(3)
    run.finish()
    shares = []
    for _ in range(3):
        message = remote.coordinator.reply(shares)
        shares = [party.answer(message) for party in remote.parties]
    message = remote.coordinator.reply(shares)
    for party in remote.parties:
        party.update(message)
    for ours, theirs in zip(run.coefs, remote.coefs):
        np.testing.assert_array_equal(ours, theirs)


def test_a_run_goes_on_where_it_stopped():
    blocks, y = problem()
    whole, halves = sharing(blocks, y), sharing(blocks, y)
    whole.run(8)
    halves.run(3)
    halves.run(5)
    for one, other in zip(whole.coefs, halves.coefs):
        np.testing.assert_array_equal(one, other)


def test_callback_stops_and_history_tells():
    blocks, y = problem()
    run = sharing(blocks, y)
    history, status = run.run(100, callback=lambda it: it.round == 7, test=(blocks, y))
    assert status == "stopped" and [it.round for it in history] == [*range(1, 8)]
    w = np.concatenate(run.coefs)
    loss = np.logaddexp(0, -y * (np.hstack(blocks) @ w))
    assert history[-1].objective == pytest.approx((loss.sum() + w @ w / 2) / len(y))
    assert history[-1].test_log_loss == pytest.approx(loss.mean())
    assert run.run(500, tol=1e-8)[1] == "converged"


def test_interrupt_keeps_the_last_whole_round(ctrl_c):
    blocks, y = problem()
    run, reference = sharing(blocks, y), sharing(blocks, y)
    history, status = run.run(
        50, callback=lambda it: it.round == 3 and os.kill(os.getpid(), signal.SIGINT)
    )
    assert status == "interrupted" and len(history) == 3
    reference.run(3)
    for one, other in zip(run.coefs, reference.coefs):
        np.testing.assert_array_equal(one, other)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_ignores_interrupts_stays():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, status = sharing(*problem()).run(
            5, callback=lambda it: it.round == 2 and os.kill(os.getpid(), signal.SIGINT)
        )
        assert status == "max_iter" and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_callback_that_raises_leaves_a_run_that_goes_on(ctrl_c):
    blocks, y = problem()
    run, reference = sharing(blocks, y), sharing(blocks, y)

    def fail(iteration):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run.run(5, callback=fail, progress=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run.run(4, progress=True)
    reference.run(5)
    np.testing.assert_array_equal(run.coefs[0], reference.coefs[0])


def test_the_history_of_noisy_shares_tells_no_more_than_they_do():
    blocks, y = problem()
    chosen = calibrate_shares(4.0, 1e-5, rounds=2, n_samples=120, n_features=4, alpha=50.0)
    run = sharing(blocks, y, release=NoisyShares.calibrated(chosen), data_norm=1.0)
    with pytest.raises(InvalidParameterError, match="test"):
        run.run(1, test=(blocks, y))
    history, _ = run.run(2)
    assert all(np.isnan(it.objective) and it.test_log_loss is None for it in history)


def test_a_run_that_one_party_cannot_pay_has_not_begun():
    blocks, y = problem()
    chosen = calibrate_shares(4.0, 1e-5, rounds=2, n_samples=120, n_features=4, alpha=50.0)
    options = {"release": NoisyShares.calibrated(chosen), "data_norm": 1.0}
    run = sharing(blocks, y, random=RandomSource(seed=1), **options)
    reference = sharing(blocks, y, random=RandomSource(seed=1), **options)
    for party, limit in zip(run.parties, (4, 3)):
        party._ledger, party._paid = Ledger(limit=limit, delta_limit=1), False
    with pytest.raises(PrivacyBudgetError):
        run.run(2)
    run.parties[1]._ledger = Ledger()
    run.run(2)
    reference.run(2)
    assert [len(party._ledger.charges) for party in run.parties] == [1, 1]
    for one, other in zip(run.coefs, reference.coefs):
        np.testing.assert_array_equal(one, other)


def test_progress_bar(capsys):
    blocks, y = problem()
    sharing(blocks, y).run(2, progress=True)
    assert "ADMM" in capsys.readouterr().out


@pytest.mark.data
def test_a9a_comes_close_in_few_rounds(real_data):
    data = load_a9a()
    n, X, y = len(data.y_train), data.X_train, data.y_train.astype(float)
    cuts = [X[:, :66], X[:, 66:]]
    run = sharing(cuts, y, ridge=1.0)
    test = [data.X_test[:, :66], data.X_test[:, 66:]], data.y_test.astype(float)
    history, _ = run.run(20, test=test)
    optimum = solve(X, y, l2_reg_strength=1 / n).coef
    reference = np.logaddexp(0, -data.y_test * (data.X_test @ optimum)).mean()
    assert abs(history[14].test_log_loss - reference) < 1e-4
    assert abs(history[9].test_log_loss - reference) < 9e-5
    least = np.logaddexp(0, -y * (X @ optimum)).mean() + optimum @ optimum / (2 * n)
    assert least <= history[-1].objective <= least * (1 + 1e-4)


@pytest.mark.data
def test_gisette_like_comes_close_in_few_rounds(real_data):
    data = load_gisette_like()
    X, y = data.X_train.astype(float), data.y_train.astype(float)
    held_out = data.X_test.astype(float)
    bounds = [slice(0, 2000), slice(2000, 4000), slice(4000, 5000)]
    run = sharing([X[:, part] for part in bounds], y, ridge=1.0)
    history, _ = run.run(
        25, test=([held_out[:, part] for part in bounds], data.y_test.astype(float))
    )
    optimum = solve(X, y, l2_reg_strength=1 / len(y)).coef
    reference = np.logaddexp(0, -data.y_test * (held_out @ optimum)).mean()
    assert abs(history[-1].test_log_loss - reference) < 1e-4


def test_fdml_sgd_approaches_the_optimum():
    blocks, y = problem(n=400)
    X, l2 = np.hstack(blocks), 1e-2
    optimum = solve(X, y, l2_reg_strength=l2).coef
    seen = []
    coefs = fdml_sgd(
        blocks,
        y,
        l2_reg_strength=l2,
        learning_rate=2.0,
        epochs=150,
        batch_size=20,
        callback=lambda epoch, coefs: seen.append(epoch),
    )
    assert seen == [*range(1, 151)]

    def objective(w):
        return np.logaddexp(0, -y * (X @ w)).mean() + l2 / 2 * w @ w

    assert objective(np.concatenate(coefs)) <= objective(optimum) * (1 + 2e-3)
