"""Rounds of ADMM sharing and their two kernels, beside plain numpy and scipy."""

import statistics
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize_scalar
from scipy.special import expit

from privlr.optimize import logistic_prox
from privlr.vertical import ADMMSharing, Coordinator, Party, Settings


def ratio(ours, peer, repeats=7):
    """Median of peer's time over ours, interleaved."""
    ratios = []
    for _ in range(repeats):
        start = time.perf_counter()
        peer()
        middle = time.perf_counter()
        ours()
        ratios.append((middle - start) / (time.perf_counter() - middle))
    return statistics.median(ratios)


def numpy_prox(s, a, y, rho, steps=12):
    """Newton's method on all entries at once, safe for c/rho up to some 10."""
    tau, kappa = y * (s + a / rho), 1 / rho
    t = tau.copy()
    for _ in range(steps):
        slope = expit(-t)
        t -= (t - tau - kappa * slope) / (1 + kappa * slope * (1 - slope))
    return y * t


class Prox:
    """The z-minimisation of 100,000 samples."""

    params = ([1e-3, 0.5, 20.0],)
    param_names = ("kappa",)

    def setup(self, kappa):
        """Draw scores, duals and labels."""
        rng = np.random.default_rng(0)
        n = 100_000
        self.s, self.a, self.y = rng.normal(size=n), rng.normal(size=n), np.sign(rng.normal(size=n))
        self.rho = 1 / kappa

    def time_prox(self, kappa):
        """Seconds of one call."""
        logistic_prox(self.s, self.a, self.y, c=1.0, rho=self.rho)

    def track_times_faster_than_numpy_newton(self, kappa):
        """Twelve vectorised Newton steps take so many times longer."""
        return ratio(
            lambda: logistic_prox(self.s, self.a, self.y, c=1.0, rho=self.rho),
            lambda: numpy_prox(self.s, self.a, self.y, self.rho),
        )

    def track_times_faster_than_minimize_scalar(self, kappa):
        """scipy.optimize.minimize_scalar takes so many times longer a sample."""
        few = 200
        s, a, y, rho = self.s[:few], self.a[:few], self.y[:few], self.rho

        def scalar():
            for i in range(few):
                minimize_scalar(
                    lambda z, s, a, y: np.logaddexp(0, -y * z) - a * z + rho / 2 * (s - z) ** 2,
                    args=(s[i], a[i], y[i]),
                )

        return (
            len(self.s)
            / few
            * ratio(lambda: logistic_prox(self.s, self.a, self.y, c=1.0, rho=rho), scalar)
        )

    track_times_faster_than_minimize_scalar.timeout = 300


def make_run(n, widths, seed=0):
    """Gaussian columns of several parties and labels from a logistic model."""
    rng = np.random.default_rng(seed)
    blocks = [rng.standard_normal((n, d)) / np.sqrt(sum(widths)) for d in widths]
    score = sum(X @ rng.standard_normal(X.shape[1]) for X in blocks)
    y = np.where(rng.random(n) < expit(4 * score), 1.0, -1.0)
    settings = Settings(n_samples=n, n_parties=len(widths), n_features=sum(widths), ridge=1.0)
    return blocks, y, ADMMSharing([Party(X, settings) for X in blocks], Coordinator(y, settings))


class NumpyRounds:
    """Boyd's form as one would write it: whole products, cho_solve, Newton's method."""

    def __init__(self, blocks, y, rho=0.05, ridge=1.0):
        self.blocks, self.y, self.rho = blocks, y, rho
        self.dual, self.z = np.zeros(len(y)), np.zeros(len(y))
        self.shares = [np.zeros(len(y)) for _ in blocks]
        self.factors = [
            cho_factor(X.T @ X + ridge / (len(blocks) * rho) * np.eye(X.shape[1])) for X in blocks
        ]

    def round(self):
        """One round without over-relaxation."""
        pull = (sum(self.shares) - self.z + self.dual / self.rho) / len(self.blocks)
        self.shares = [
            X @ cho_solve(factor, X.T @ (share - pull))
            for X, factor, share in zip(self.blocks, self.factors, self.shares, strict=True)
        ]
        total = sum(self.shares)
        self.z = numpy_prox(total, self.dual, self.y, self.rho)
        self.dual += self.rho * (total - self.z)


class Rounds:
    """One round of all parties."""

    params = ([(100_000, (167, 167, 166)), (30_000, (34, 33, 33)), (6_000, (2_000, 2_000, 1_000))],)
    param_names = ("shape",)
    timeout = 600

    def setup(self, shape):
        """Factor every matrix and run the first round."""
        self.blocks, self.y, self.run = make_run(*shape)
        self.run.run(1)
        self.peer = NumpyRounds(self.blocks, self.y)
        self.peer.round()

    def time_round(self, shape):
        """Seconds of a round."""
        self.run.run(1)

    def track_times_faster_than_numpy(self, shape):
        """The plain form takes so many times longer."""
        return ratio(lambda: self.run.run(1), self.peer.round)


class WideParty:
    """A party of 4,000 columns for 1,000 samples: the N x N system."""

    timeout = 600

    def setup(self):
        """Factor both systems."""
        rng = np.random.default_rng(0)
        self.X, self.v = rng.standard_normal((1_000, 4_000)), rng.standard_normal(1_000)
        settings = Settings(n_samples=1_000, n_parties=1, n_features=4_000, ridge=1.0)
        self.party = Party(self.X, settings)
        self.factor = cho_factor(self.X.T @ self.X + settings.alpha * np.eye(4_000))

    def track_times_faster_than_primal(self):
        """The same round with a d x d factor takes so many times longer."""
        return ratio(
            lambda: self.party.answer(self.v),
            lambda: self.X @ cho_solve(self.factor, self.X.T @ self.v),
        )


class FiftyRounds:
    """100,000 samples, 500 columns, three parties, 50 rounds, factorisation included."""

    timeout = 600
    number, repeat = 1, 1

    def time_fifty_rounds(self):
        """Seconds, data generation included."""
        make_run(100_000, (167, 167, 166))[2].run(50)
