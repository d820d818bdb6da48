"""What leaves a party: audited against its promise, and with its protections taken out."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta

from privlr.design import make_design
from privlr.exceptions import ConvergenceError, InvalidParameterError, PrivacyBudgetError
from privlr.mechanisms import RandomSource, randomize_labels
from privlr.optimize import Columns
from privlr.privacy import (
    Ledger,
    calibrate_shares,
    calibrate_statistics,
    gaussian_delta,
    gaussian_mu,
)
from privlr.vertical import (
    ColumnSpaceNoise,
    NoisyShares,
    Party,
    Settings,
    VerticalLogisticRegression,
)
from privlr.vertical._ridge import make_ridge
from privlr.vertical._rows import clipped_rows, party_rows
from privlr.vertical.statistics import coef_from_statistics, released_statistics

ROUNDS, N, RADIUS, RIDGE = 6, 200, 3.0, 0.5


def settings_of(n, d=1, ridge=RIDGE):
    return Settings(
        n_samples=n, n_parties=1, n_features=d, ridge=ridge, rho=1.0, over_relaxation=1.0
    )


def exact_share(party):
    """What the party would share without noise."""
    return party.columns.product(party.right)


def transcript(D, release, seed, rounds=ROUNDS):
    """Shares of a real party, asked for the worst case by a coordinator that knows everything.

    The target is b in every row and 0 in the last, whatever noise the anchor carries.
    """
    party = Party(
        D, settings_of(len(D)), release=release, data_norm=1.0, random=RandomSource(seed=seed)
    )
    target = np.full(len(D), RADIUS)
    target[-1] = 0.0
    anchor, message, shares = np.zeros(len(D)), np.zeros(len(D)), []
    for _ in range(rounds):
        if shares:
            anchor = shares[-1] + message
        message = (anchor - target) / 2
        shares.append(party.answer(message))
    return np.array(shares)


def pair():
    first, second = np.ones((N, 1)), np.ones((N, 1))
    second[-1] = -1.0
    return first, second


def empirical_delta(release, epsilons, runs, sigma, statistic):
    """Bounds on delta(epsilon) that hold together with confidence 1 - 1e-4, from real runs."""
    first, second = pair()
    losses = np.array(
        [
            [statistic(transcript(D, release, 2 * seed + i), sigma) for seed in range(runs)]
            for i, D in enumerate((first, second))
        ]
    )
    error = 1e-4 / (4 * len(epsilons))
    low, high = [], []
    for epsilon in epsilons:
        hits = (losses > epsilon).sum(axis=1)
        below = beta.ppf(error, hits, runs - hits + 1)
        above = beta.ppf(1 - error, hits + 1, runs - hits)
        below, above = np.where(hits == 0, 0, below), np.where(hits == runs, 1, above)
        low.append(below[0] - math.exp(epsilon) * above[1])
        high.append(above[0] - math.exp(epsilon) * below[1])
    return np.array(low), np.array(high)


def likelihood_ratio(shares, sigma):
    """log density ratio of the transcript: the exact shares differ in the last entry only."""
    exact = RADIUS * (N - 1) / (N + RIDGE)
    return 2 * exact * shares[:, -1].sum() / sigma**2


EPSILONS = np.array([0.0, 0.5, 1.0])


def calibration(**changes):
    promised = gaussian_delta(mu=1.0, epsilon=1.0)
    chosen = calibrate_shares(
        1.0, promised, rounds=ROUNDS, n_samples=N, n_features=1, radius=RADIUS, alpha=RIDGE
    )
    return dataclasses.replace(chosen, **changes)


def promised_curve():
    return np.array([gaussian_delta(mu=1.0, epsilon=e) for e in EPSILONS])


def test_audit_of_six_rounds():
    chosen = calibration()
    low, high = empirical_delta(
        NoisyShares.calibrated(chosen), EPSILONS, 2500, chosen.sigma, likelihood_ratio
    )
    assert (low <= promised_curve()).all()
    assert (high >= 0.97 * promised_curve()).all()  # nothing is wasted on this pair


@pytest.mark.parametrize("bug", [0.5, 1 / math.sqrt(ROUNDS)], ids=["half", "one round"])
def test_audit_finds_too_little_noise(bug):
    sigma = calibration().sigma * bug
    low, _ = empirical_delta(
        NoisyShares.calibrated(calibration(sigma=sigma)), EPSILONS, 600, sigma, likelihood_ratio
    )
    assert (low > promised_curve()).all()


def column_space_attack(shares, sigma):
    """+inf where every share is a multiple of (1, .., 1), which only the first matrix allows."""
    spread = np.ptp(shares, axis=1).max()
    return math.inf if spread < 1e-6 * np.abs(shares).max() else -math.inf


def test_column_space_attack_on_the_published_noise_and_ours():
    """One message tells the matrices apart with certainty, however large sigma is."""
    sigma = 1e6 * calibration().sigma
    published = ColumnSpaceNoise(sigma=sigma)
    first, second = pair()
    for seed in range(40):
        for D, expected in ((first, math.inf), (second, -math.inf)):
            shares = transcript(D, published, seed, rounds=1)
            assert column_space_attack(shares, sigma) == expected
            ours = transcript(D, NoisyShares.calibrated(calibration()), seed, rounds=1)
            assert column_space_attack(ours, sigma) == -math.inf
    low, _ = empirical_delta(published, EPSILONS, 100, sigma, column_space_attack)
    assert (low > promised_curve()).all()


def test_column_space_attack_on_one_hot_rows():
    """Without an inverse of D'D, too: the share of identical rows is identical."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 50)
    D = np.eye(3)[groups]
    D = np.hstack([D, D])
    party = Party(
        D, settings_of(50, 6), release=ColumnSpaceNoise(sigma=100.0), random=RandomSource(seed=1)
    )
    share = party.answer(rng.normal(size=50))
    for group in range(3):
        assert np.ptp(share[groups == group]) < 1e-9 * np.abs(share).max()


def test_noise_is_isotropic_and_on_the_grid():
    chosen = calibration(rounds=400)
    shares = transcript(pair()[0], NoisyShares.calibrated(chosen), 3, rounds=400)
    noise = shares - shares.mean(axis=0)
    values = np.linalg.eigvalsh(noise.T @ noise / (399 * chosen.sigma**2))
    # Marchenko and Pastur: (1 +- sqrt(200/400))^2.
    assert 0.05 < values[0] and values[-1] < 3.2
    steps = shares / chosen.grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    # The grid is the public one in every round and row, and not a coarser one here or there.
    assert 0.3 < (steps % 2).mean(axis=0).min() and 0.3 < (steps % 2).mean(axis=1).min()


def test_a_share_is_drawn_once_a_round():
    """Asking again for a round's share repeats it; a second draw would halve the noise."""
    chosen = calibration()
    party = Party(pair()[0], settings_of(N), release=NoisyShares.calibrated(chosen), data_norm=1.0)
    share = party.answer(np.zeros(N))
    np.testing.assert_array_equal(party.share(), share)
    twin = Party(pair()[0], settings_of(N), release=NoisyShares.calibrated(chosen), data_norm=1.0)
    twin.restore(party.state())
    np.testing.assert_array_equal(twin.share(), share)


def test_releases_that_were_not_paid_for_are_refused():
    with pytest.raises(PrivacyBudgetError, match="6 releases"):
        transcript(pair()[0], NoisyShares.calibrated(calibration()), 0, rounds=ROUNDS + 1)


def test_an_inaccurate_solution_is_not_shared():
    release = NoisyShares.calibrated(calibration())
    party = Party(pair()[0], settings_of(N), release=release, data_norm=1.0)
    party._ridge.values = party._ridge.values * 1.01
    with pytest.raises(ConvergenceError):
        party.answer(np.full(N, -1.0))


@pytest.mark.parametrize("shape", [(40, 3), (5, 12)])
def test_released_solutions_lie_in_the_ball(shape):
    rng = np.random.default_rng(4)
    n, d = shape
    chosen = calibrate_shares(1.0, 1e-5, rounds=20, n_samples=n, n_features=d, radius=0.5)
    party = Party(
        10 * rng.normal(size=shape),
        settings_of(n, d, 1e-3),
        release=NoisyShares.calibrated(chosen),
        data_norm=2.0,
    )
    for _ in range(20):
        party.answer(rng.normal(size=n) * 100)
        assert np.linalg.norm(party.coef) * 2.0 <= 0.5


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("bound", [0.01, 1.0, 7.3])
def test_rows_are_clipped_exactly_and_alone(kind, bound):
    from fractions import Fraction

    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 7)) * 10.0 ** rng.uniform(-3, 3, (60, 1))
    X[0] = 0.0
    X[1] = 1e300
    X[2] = 1e-300
    X[3] = X[3] / np.linalg.norm(X[3]) * bound
    clipped = clipped_rows(kind(X), bound)
    dense = clipped.toarray() if sp.issparse(clipped) else clipped
    for row in dense:
        assert sum(Fraction(value) ** 2 for value in row) <= 1
    short = np.linalg.norm(X[4:], axis=1) < bound * 0.999
    np.testing.assert_allclose(dense[4:][short], X[4:][short] / bound, rtol=1e-14)
    alone = clipped_rows(kind(X[10:11]), bound)
    np.testing.assert_array_equal(alone.toarray()[0] if sp.issparse(alone) else alone[0], dense[10])


def test_repeated_entries_of_a_sparse_row_are_added_before_clipping():
    X = sp.csr_array((np.ones(40), np.zeros(40, dtype=int), [0, 40]), shape=(1, 2))
    assert clipped_rows(party_rows(X, "party"), 1.0).toarray()[0, 0] <= 1


def test_unclipped_rows_break_the_promise():
    """The planted bug: without clipping the last row moves a share by more than C."""
    chosen = calibration()
    long = np.ones((N, 1))
    long[-1] = 100.0
    party = Party(long, settings_of(N), data_norm=None)
    assert abs(party.answer(np.full(N, -RADIUS / 2))[-1]) > chosen.sensitivity
    kept = Party(long, settings_of(N), release=NoisyShares.calibrated(chosen), data_norm=1.0)
    kept.answer(np.full(N, -RADIUS / 2))
    assert abs(exact_share(kept)[-1]) <= RADIUS


def test_targets_are_clipped():
    """Without the clip (planted) one row that asks for 20 b moves the share by 8.5 b."""
    distances = []
    for clip in (1.0, 20.0):
        shares = []
        for last in (1.0, -1.0):
            D, message = np.ones((19, 1)), np.zeros(19)
            D[-1], message[-1] = last, -10.0
            chosen = calibrate_shares(
                1.0, 1e-5, rounds=1, n_samples=19, n_features=1, radius=1.0, clip=clip, alpha=0.01
            )
            party = Party(
                D, settings_of(19, 1, 0.01), release=NoisyShares.calibrated(chosen), data_norm=1.0
            )
            party.answer(message)
            shares.append(exact_share(party))
        distances.append(np.linalg.norm(shares[0] - shares[1]))
        assert distances[-1] <= chosen.sensitivity
    assert distances[0] <= 2.0 < 8.4 < distances[1]


def test_statistics_noise():
    chosen = calibrate_statistics(1.0, 1e-5, n_samples=50)
    X = np.zeros((50, 6))
    grams, moments = zip(
        *(
            released_statistics(X, np.ones(50), chosen, RandomSource(seed=seed))
            for seed in range(800)
        )
    )
    grams, moments = np.array(grams), np.array(moments)
    np.testing.assert_array_equal(grams, grams.transpose(0, 2, 1))
    diagonal = grams[:, np.arange(6), np.arange(6)].std() / chosen.gram_sigma
    beside = grams[:, *np.triu_indices(6, 1)].std() / chosen.gram_sigma
    assert diagonal == pytest.approx(1, abs=0.05)
    assert beside == pytest.approx(1 / math.sqrt(2), abs=0.05)
    assert moments.std() / chosen.moment_sigma == pytest.approx(1, abs=0.05)
    # The Gram matrix, its moment, and other parties' never share a stream.
    assert abs(np.corrcoef(grams[:, 0, 0], moments[:, 0])[0, 1]) < 0.15


def test_a_gram_matrix_and_its_moment_have_noise_of_their_own():
    chosen = calibrate_statistics(1.0, 1e-5, n_samples=50)
    source = RandomSource(seed=0)
    gram, moment = released_statistics(np.zeros((50, 1)), np.ones(50), chosen, source)
    assert abs(gram[0, 0] / chosen.gram_sigma - moment[0] / chosen.moment_sigma) > 1e-3


@pytest.mark.parametrize("message", [np.full(N, np.nan), np.full(N, np.inf), np.zeros(N - 1)])
def test_a_bad_message_is_refused_before_anything_is_charged(message):
    ledger = Ledger()
    party = Party(
        pair()[0],
        settings_of(N),
        release=NoisyShares.calibrated(calibration()),
        data_norm=1.0,
        ledger=ledger,
    )
    with pytest.raises(InvalidParameterError, match="message"):
        party.answer(message)
    assert not ledger.charges


def test_statistics_clip_their_targets():
    chosen = dataclasses.replace(
        calibrate_statistics(1.0, 1e-5, n_samples=1), gram_sigma=1e-9, moment_sigma=1e-9
    )
    row = np.array([[0.6, 0.8]])
    for target in (100.0, -100.0):
        _, moment = released_statistics(row, np.array([target]), chosen, RandomSource())
        np.testing.assert_allclose(moment, math.copysign(1, target) * row[0], atol=1e-6)


def exact_mu(first, second, targets, chosen):
    """Of releasing X'X and X'v of two data sets, the noise being what is really added."""
    (X, v), (other, w) = (first, targets[0]), (second, targets[1])
    gram, moment = X.T @ X - other.T @ other, v @ X - w @ other
    # Off the diagonal the noise has half the variance, and each entry counts once.
    upper = np.triu_indices(len(gram), 1)
    square = np.sum(np.diag(gram) ** 2) + 2 * np.sum(gram[upper] ** 2)
    return math.sqrt(square / chosen.gram_sigma**2 + np.sum(moment**2) / chosen.moment_sigma**2)


def statistics_released(monkeypatch, X, y, **options):
    """Rows, targets and noise of every release that a fit makes."""
    seen = []

    def record(rows, target, chosen, random):
        seen.append((rows, np.clip(target, -chosen.clip, chosen.clip), chosen))
        return released_statistics(rows, target, chosen, random)

    monkeypatch.setattr("privlr.vertical.logistic.released_statistics", record)
    VerticalLogisticRegression(
        **{"epsilon": 1.0, "delta": 1e-5, "release": "statistics", **options}
    ).fit_parties(X, y)
    return seen


@pytest.mark.parametrize("targets", ["labels", "residuals"])
@pytest.mark.parametrize("parties", [2, 4])
def test_exact_loss_of_released_statistics(monkeypatch, targets, parties):
    """Rows of every passive party and the label replaced: never above mu, and near it."""
    rng, n, d = np.random.default_rng(parties), 12, 3
    X = [rng.normal(size=(n, d)) for _ in range(parties)]
    y = np.where(np.arange(n) % 2, 1, -1)
    reached = []
    for trial in range(40):
        other, labels = [block.copy() for block in X], y.copy()
        labels[-1] *= rng.choice([-1, 1])
        turned = labels[-1] == y[-1] and trial % 2
        for block, old in zip(other[1:], X[1:]):
            block[-1] = -old[-1] if turned else rng.normal(size=d)
        runs = [
            statistics_released(monkeypatch, rows, target, targets=targets)
            for rows, target in ((X, y), (other, labels))
        ]
        squares = [
            exact_mu(one[0], two[0], (one[1], two[1]), one[2]) ** 2
            for one, two in zip(*runs, strict=True)
        ]
        promised = runs[0][0][2].mu
        reached.append(math.sqrt(sum(squares)) / promised)
    assert max(reached) <= 1
    if targets == "labels":  # the moment's half of the budget is used up
        assert max(reached) > 0.7


@pytest.mark.parametrize(("gram", "moment"), [(1, 0.5), (0.5, 1), (0.7, 0.7)])
def test_too_little_noise_in_statistics_is_found(monkeypatch, gram, moment):
    """The planted bug: the exact loss of some pair of rows exceeds the promise."""
    honest = calibrate_statistics(1.0, 1e-5, n_samples=4, clip=0.5)
    weak = dataclasses.replace(
        honest, gram_sigma=gram * honest.gram_sigma, moment_sigma=moment * honest.moment_sigma
    )
    base, v = np.zeros((3, 2)), np.full(4, 0.5)
    worst = {"honest": 0.0, "weak": 0.0}
    for angle in np.linspace(0, np.pi, 181):
        rows = [np.vstack([base, row]) for row in ([1.0, 0.0], [np.cos(angle), np.sin(angle)])]
        for name, chosen in (("honest", honest), ("weak", weak)):
            worst[name] = max(worst[name], exact_mu(*rows, (v, v), chosen))
    assert worst["honest"] <= honest.mu < worst["weak"]


def test_targets_beyond_their_bound_would_break_the_promise(monkeypatch):
    """Residuals reach 1, labels 1/2; noise for the latter hides the former only when clipped."""
    chosen = calibrate_statistics(1.0, 1e-5, n_samples=1, clip=0.5)
    pair = np.array([[1.0]]), np.array([[-1.0]])
    v = np.array([1.0])
    assert exact_mu(*pair, (v, v), chosen) > chosen.mu
    clipped = np.clip(v, -chosen.clip, chosen.clip)
    assert exact_mu(*pair, (clipped, clipped), chosen) <= chosen.mu
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(30, 2)) for _ in range(2)], np.where(np.arange(30) % 2, 1, -1)
    for targets, bound in (("labels", 0.5), ("residuals", 1.0)):
        ((_, used, found),) = statistics_released(monkeypatch, X, y, targets=targets)
        assert found.clip == bound
        assert np.abs(used).max() <= bound


def test_statistics_without_noise_are_a_newton_step():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 3)) / 10
    v = rng.uniform(-0.5, 0.5, 50)
    chosen = dataclasses.replace(
        calibrate_statistics(1.0, 1e-5, n_samples=50), gram_sigma=1e-9, moment_sigma=1e-9
    )
    gram, moment = released_statistics(X, v, chosen, RandomSource(seed=0))
    coef = coef_from_statistics(gram, moment, chosen, 0.1, 0.25)
    expected = np.linalg.solve(0.25 * X.T @ X + 0.1 * np.eye(3), X.T @ v)
    np.testing.assert_allclose(coef, expected, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_labels_flip_as_often_as_promised(epsilon):
    n = 40_000
    flipped = (randomize_labels(np.ones(n), epsilon, RandomSource(seed=1)) < 0).mean()
    expected = 1 / (1 + math.exp(epsilon))
    assert flipped == pytest.approx(expected, abs=5 * math.sqrt(expected / n))
    fresh = [randomize_labels(np.ones(64), epsilon, RandomSource()) for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_audit_is_not_blind():
    """mu of the audited pair, computed: the audit above tests the whole budget, not a part."""
    chosen = calibration()
    distance = 2 * RADIUS * (N - 1) / (N + RIDGE)
    mu = math.sqrt(ROUNDS) * distance / chosen.sigma
    assert 0.985 < mu <= gaussian_mu(epsilon=1.0, delta=gaussian_delta(mu=1.0, epsilon=1.0))


def test_a_partys_own_ledger_is_charged_once_before_anything_leaves():
    chosen = calibration()
    options = {"release": NoisyShares.calibrated(chosen), "data_norm": 1.0}
    ledger = Ledger(limit=1, delta_limit=0.2)
    party = Party(pair()[0], settings_of(N), ledger=ledger, name="bank", **options)
    for _ in range(2):
        party.answer(np.zeros(N))
    (charge,) = ledger.charges
    assert charge.epsilon == 1 and float(charge.delta) == chosen.delta and "bank" in charge.label
    resumed = Party(pair()[0], settings_of(N), ledger=ledger, **options)
    resumed.restore(party.state())
    resumed.answer(np.zeros(N))
    assert len(ledger.charges) == 1
    with pytest.raises(PrivacyBudgetError):
        Party(pair()[0], settings_of(N), ledger=ledger, **options).answer(np.zeros(N))
    open_book = Ledger()
    Party(pair()[0], settings_of(N), ledger=open_book).answer(np.zeros(N))
    assert "no guarantee" in open_book.charges[0].note


def test_shares_with_noise_need_a_row_bound():
    with pytest.raises(InvalidParameterError, match="data_norm"):
        Party(pair()[0], settings_of(N), release=NoisyShares.calibrated(calibration()))


@pytest.mark.parametrize("norm", [-1.0, 0.0, math.nan, math.inf, True, "1"])
def test_a_partys_row_bound_is_checked(norm):
    """A negative one used to leave rows as they were, under the noise of clipped ones."""
    with pytest.raises(InvalidParameterError, match="data_norm"):
        Party(
            100 * pair()[0],
            settings_of(N),
            release=NoisyShares.calibrated(calibration()),
            data_norm=norm,
        )


@pytest.mark.parametrize(
    ("n", "d", "alpha", "clip", "accepted"),
    [
        (N, 1, RIDGE, RADIUS, True),
        (N + 9, 3, 2 * RIDGE, RADIUS, True),
        (N - 1, 1, RIDGE, RADIUS, False),
        (N, 1, RIDGE / 2, RADIUS, False),
        (N, 1, RIDGE, 5 * RADIUS, True),
        (N, 1, 2 * RIDGE, 5 * RADIUS, False),  # large targets: the bound depends on alpha
    ],
)
def test_noise_made_for_another_problem_is_refused(n, d, alpha, clip, accepted):
    chosen = calibrate_shares(
        1.0, 1e-5, rounds=1, n_samples=n, n_features=d, radius=RADIUS, clip=clip, alpha=alpha
    )
    options = {"release": NoisyShares.calibrated(chosen), "data_norm": 1.0}
    if accepted:
        Party(pair()[0], settings_of(N), **options)
    else:
        with pytest.raises(InvalidParameterError, match="calibrated for n_samples=200"):
            Party(pair()[0], settings_of(N), **options)
    with pytest.raises(InvalidParameterError, match="n_features=4"):
        Party(np.ones((N, 4)), settings_of(N, 4), **options)


@pytest.mark.parametrize("alpha", [1e-6, 1e-9])
def test_the_share_is_that_of_the_certified_solution(alpha):
    """Equal rows that ask for opposite things: the dual solution is as long as 1/alpha."""
    rng = np.random.default_rng(1)
    n, d = 50, 60
    D, v = rng.normal(size=(n, d)), 0.3 * rng.normal(size=n)
    D[n // 2 :], v[n // 2 :] = D[: n // 2], -v[: n // 2]
    chosen = calibrate_shares(1.0, 1e-5, rounds=1, n_samples=n, n_features=d, alpha=alpha)
    release = NoisyShares.calibrated(chosen)
    party = Party(D, settings_of(n, d, alpha), release=release, data_norm=1.0)
    party.update(-v / 2)
    product = party._ridge.left.astype(np.longdouble) @ party._ridge.coef
    allowed = math.sqrt(n) * (d + 16) * 2.0**-53  # the E of the calibration
    assert np.linalg.norm(exact_share(party) - product) <= allowed


@pytest.mark.parametrize("seed", [27, 671, 778, 1384, 2494])
def test_no_solution_that_rounding_took_out_of_the_ball_is_shared(seed):
    """Opposite targets of equal rows, and a target just beyond the ball: a dual solution so
    long that shortening it leaves x up to 1e-11 too long."""
    rng = np.random.default_rng(seed)
    n, d, alpha = 20, 30, 10 ** rng.uniform(-14, -6)
    D = rng.normal(size=(n, d))
    D[n // 2 :] = D[: n // 2]
    D /= np.linalg.norm(D, axis=1, keepdims=True) * (1 + 1e-14)
    x = D[: n // 2].T @ rng.normal(size=n // 2)
    x *= (1 + 10 ** rng.uniform(-7, -3)) / np.linalg.norm(x)
    apart = 0.1 * rng.normal(size=n)
    apart[n // 2 :] = -apart[: n // 2]
    target = np.clip(D @ x + apart, -1, 1)
    ridge = make_ridge(D, alpha, 1.0)
    ridge.solve(target)
    columns = Columns(make_design(D), block=16, over_relaxation=1.0, clip=1.0, with_moment=False)
    columns.target[:] = target
    chosen = calibrate_shares(1.0, 1e-5, rounds=1, n_samples=n, n_features=d, alpha=alpha)
    try:
        NoisyShares.calibrated(chosen).settle(ridge, columns, 1, RandomSource())
    except ConvergenceError:
        return
    assert np.sum(ridge.coef.astype(np.longdouble) ** 2) <= 1


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (12, 2), (40, 60), (400, 2)])
@pytest.mark.parametrize("clip", [1.0, 5.0])
def test_neighbours_through_real_parties(n, d, clip, kind):
    """Hill climbing with clipping, scales and rounding as they run: never above C."""
    rng = np.random.default_rng(6)
    radius, alpha = 10 ** rng.uniform(-4, 4), 10 ** rng.uniform(-3, 1)
    norm = 10 ** rng.uniform(-4, 4)
    chosen = calibrate_shares(
        *(1.0, 1e-5),
        **{"rounds": 1, "n_samples": n, "n_features": d},
        **{"radius": radius, "clip": clip * radius, "alpha": alpha},
    )
    settings = settings_of(n, d, alpha * norm**2)

    def distance(D, row, v):
        shares = []
        for last in (D[-1], row):
            rows = norm * np.vstack([D[:-1], last])
            release = NoisyShares.calibrated(chosen)
            party = Party(kind(rows), settings, release=release, data_norm=norm)
            party.update(-v * radius / 2)
            shares.append(exact_share(party))
        return np.linalg.norm(shares[0] - shares[1])

    row = -np.eye(d)[0]
    best = np.tile(-row, (n, 1)), row, np.full(n, clip) * (rng.random(n) < 0.9)
    reached = distance(*best)
    for _ in range(12):
        size = 10 ** rng.uniform(-2, 1)
        trial = tuple(part + size * rng.normal(size=part.shape) for part in best)
        if distance(*trial) > reached:
            best, reached = trial, distance(*trial)
    assert 0.2 * radius < reached <= chosen.sensitivity


def test_a_refused_party_takes_part_once_it_can_pay():
    options = {"release": NoisyShares.calibrated(calibration()), "data_norm": 1.0}
    message = np.full(N, -0.4)
    fresh = Party(pair()[0], settings_of(N), random=RandomSource(seed=1), **options)
    ledger = Ledger(limit=1, delta_limit=0.2)
    ledger.charge("before", 0.5)
    party = Party(pair()[0], settings_of(N), ledger=ledger, random=RandomSource(seed=1), **options)
    for _ in range(2):
        with pytest.raises(PrivacyBudgetError):
            party.answer(message)
    party._ledger = Ledger()
    np.testing.assert_array_equal(party.answer(message), fresh.answer(message))


def test_labels_at_the_smallest_budget_flip_with_probability_a_half_at_most(monkeypatch):
    """One unit above a half would cost more than an epsilon below 2^-50."""
    words = np.array([2**63 - 1, 2**63], dtype=np.uint64)
    monkeypatch.setattr("privlr.mechanisms.noise._keystream", lambda key, n: words)
    np.testing.assert_array_equal(randomize_labels(np.ones(2), 1e-20, RandomSource()), [-1, 1])


def test_seeded_parties_and_rounds_have_streams_of_their_own():
    """Reused noise would cancel in differences, and a test that is seeded would not see it."""
    n = 400
    settings = Settings(
        n_samples=n, n_parties=2, n_features=3000, ridge=1.0, rho=1.0, over_relaxation=1.0
    )
    release = NoisyShares.calibrated(
        calibrate_shares(1.0, 1e-5, rounds=2, n_samples=n, n_features=1)
    )
    shares = []
    for i in range(2):
        source = RandomSource(seed=1).at("party", i)
        party = Party(np.zeros((n, 1)), settings, release=release, data_norm=1.0, random=source)
        for _ in range(2):
            share = party.answer(np.zeros(n))
            shares += [share[i : i + 80] for i in range(0, n, 80)]  # and so have its parts
    correlation = np.corrcoef(shares) - np.eye(len(shares))
    assert np.abs(correlation).max() < 0.5
