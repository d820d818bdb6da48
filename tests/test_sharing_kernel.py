"""The exchange of a round of ADMM sharing against its definition in numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from privlr._solvers import sharing
from privlr._solvers.prox import logistic_prox
from privlr.design import make_design
from privlr.exceptions import InvalidParameterError

OMEGA = 1.6


def make_columns(X, *, block=16, clip=np.inf, with_moment=True):
    return sharing.Columns(
        make_design(X), block=block, over_relaxation=OMEGA, clip=clip, with_moment=with_moment
    )


def make_labels(y, *, block=16, rho=0.3, averaged=2):
    return sharing.Labels(y, block=block, rho=rho, over_relaxation=OMEGA, averaged=averaged)


def matrices(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(n, 5)),
        sp.random_array((n, 40), density=0.2, rng=rng, format="csr"),
        rng.normal(size=(n, 130)),
        np.ones((n, 1)),
    ]


@pytest.mark.parametrize("n", [1, 15, 16, 70])
@pytest.mark.parametrize("clip", [np.inf, 0.3])
def test_rounds_against_numpy(n, clip):
    rng = np.random.default_rng(n)
    blocks, y, rho = matrices(n), np.where(rng.random(n) < 0.5, 1.0, -1.0), 0.3
    parties, labels = [make_columns(X, clip=clip) for X in blocks], make_labels(y)
    center, z, anchors = np.zeros(n), np.zeros(n), [np.zeros(n) for _ in blocks]
    last = np.zeros(n)
    for _ in range(4):
        w = [rng.normal(size=X.shape[1]) for X in blocks]
        shares = [X @ v for X, v in zip(blocks, w)]
        total = sum(shares)
        gap = total - z
        center = center + OMEGA * gap
        fresh = logistic_prox(center, np.zeros(n), y, c=1.0, rho=rho)
        change, z, message = fresh - z, fresh, (center - fresh) / 2
        sharing.exchange(parties, w, labels)
        for i, (X, party) in enumerate(zip(blocks, parties)):
            anchors[i] = anchors[i] + OMEGA * (shares[i] - anchors[i] + last)
            target = np.clip(anchors[i] - 2 * message, -clip, clip)
            np.testing.assert_allclose(party.share, shares[i], atol=1e-12)
            np.testing.assert_allclose(party.message, message, atol=1e-12)
            np.testing.assert_allclose(party.target, target, atol=1e-11)
            np.testing.assert_allclose(party.moment, X.T @ target, atol=1e-10)
            np.testing.assert_allclose(party.product(w[i]), shares[i], atol=1e-12)
            slope = X.T @ (shares[i] - target)
            np.testing.assert_allclose(party.slope(w[i]), slope, atol=1e-9)
        last = message
        norms = [np.sum(v**2) for v in (gap, change, total, z, 2 * message)]
        loss = np.logaddexp(0, -y * total).sum()
        np.testing.assert_allclose(labels.sums, [loss, *norms], rtol=1e-10)


def test_one_pass_and_whole_vectors_give_the_same_bits():
    n, rng = 83, np.random.default_rng(5)
    blocks, y = matrices(n), np.sign(rng.normal(size=n))
    together, apart = ([make_columns(X) for X in blocks] for _ in range(2))
    labels, remote = make_labels(y), make_labels(y)
    for _ in range(3):
        w = [rng.normal(size=X.shape[1]) for X in blocks]
        sharing.exchange(together, w, labels)
        for party, v in zip(apart, w):
            party.share[:] = party.product(v)
        shares = [party.share for party in apart]
        message = remote.step(sum(shares[1:], shares[0]))
        for one, other in zip(together, apart):
            other.absorb(message)
            np.testing.assert_array_equal(one.moment, other.moment)
            np.testing.assert_array_equal(one.target, other.target)
        assert labels.sums == remote.sums


def test_without_a_moment_the_target_is_all():
    party = make_columns(np.eye(3), with_moment=False)
    party.absorb(np.array([1.0, 2.0, 3.0]))
    assert party.moment is None
    np.testing.assert_array_equal(party.target, [-2.0, -4.0, -6.0])


def test_what_does_not_fit_is_refused():
    party, labels = make_columns(np.eye(3)), make_labels(np.ones(3))
    for call in (party.product, party.slope, party.absorb, labels.step):
        with pytest.raises(ValueError, match="wrong length"):
            call(np.zeros(2))
    with pytest.raises(ValueError, match="same rows"):
        sharing.exchange([make_columns(np.eye(4))], [np.zeros(4)], labels)
    with pytest.raises(ValueError, match="wrong length"):
        sharing.exchange([party], [np.zeros(4)], labels)
    for X in (np.eye(3, dtype=np.float32), np.asfortranarray(np.ones((3, 2)))):
        with pytest.raises(ValueError, match="C-ordered"):
            make_columns(X)
    for block in (0, 129):
        with pytest.raises(InvalidParameterError, match="block"):
            make_columns(np.eye(3), block=block)
    for rho in (0.0, 1e-201, np.inf, np.nan):
        with pytest.raises(InvalidParameterError, match="rho"):
            make_labels(np.ones(3), rho=rho)
