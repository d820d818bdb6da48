"""Rounds of ADMM sharing and their two kernels, beside plain numpy and scipy."""

import math
import statistics
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize_scalar
from scipy.special import expit

from privlr.optimize import logistic_prox
from privlr.privacy import calibrate_shares
from privlr.vertical import ADMMSharing, Coordinator, NoisyShares, Party, Settings

try:
    import numba
except ImportError:
    numba = None


def seconds(call, calls):
    """Processor time of a call."""
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def ratio(ours, peer, repeats=7):
    """Median of peer's time over ours, interleaved."""
    calls = [1 + int(0.02 / max(seconds(call, 1), 1e-6)) for call in (ours, peer)]
    return statistics.median(
        seconds(peer, calls[1]) / seconds(ours, calls[0]) for _ in range(repeats)
    )


def numpy_prox(s, a, y, rho):
    """Newton's method on all entries at once, until the steps are lost in rounding."""
    tau, kappa = y * (s + a / rho), 1 / rho
    # f(t) = t - tau - kappa sigma(-t) is convex below 0 and concave above: from there the
    # method neither oscillates nor leaves the root's side, whatever kappa.
    t = tau.copy() if kappa <= 4 else np.zeros_like(tau)
    for _ in range(100):
        slope = expit(-t)
        step = (t - tau - kappa * slope) / (1 + kappa * slope * (1 - slope))
        t -= step
        if np.abs(step).max() <= 1e-15 * max(1.0, np.abs(t).max()):
            break
    return y * t


def numba_newton(s, a, y, rho, z):
    """The same a sample at a time: to be compiled."""
    kappa = 1 / rho
    for i in range(len(s)):
        tau = y[i] * (s[i] + a[i] / rho)
        t = tau if kappa <= 4 else 0.0
        for _ in range(100):
            slope = 1 / (1 + math.exp(t))
            step = (t - tau - kappa * slope) / (1 + kappa * slope * (1 - slope))
            t -= step
            if abs(step) <= 1e-15 * max(1.0, abs(t)):
                break
        z[i] = y[i] * t


class Prox:
    """The z-minimisation of 100,000 samples."""

    params = ([1e-3, 0.5, 20.0, 1e3],)
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
        """Vectorised Newton steps take so many times longer."""
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


class ProxBesideNumba:
    """The same beside a compiled loop, where numba is installed."""

    params, param_names = Prox.params, Prox.param_names

    def setup(self, kappa):
        """Compile the loop, and compare its result."""
        if numba is None:
            raise NotImplementedError("numba is not installed")
        Prox.setup(self, kappa)
        self.z, self.newton = np.empty_like(self.s), numba.njit(numba_newton)
        self.newton(self.s, self.a, self.y, self.rho, self.z)
        ours = logistic_prox(self.s, self.a, self.y, c=1.0, rho=self.rho)
        np.testing.assert_allclose(self.z, ours, rtol=1e-13, atol=1e-13)

    def track_times_faster_than_numba(self, kappa):
        """A compiled loop of Newton steps takes so many times longer."""
        return ratio(
            lambda: logistic_prox(self.s, self.a, self.y, c=1.0, rho=self.rho),
            lambda: self.newton(self.s, self.a, self.y, self.rho, self.z),
        )


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

    params = (
        [
            (5_000, (20,)),
            (30_000, (60,)),
            (30_000, (34, 33, 33)),
            (100_000, (167,)),
            (100_000, (167, 167, 166)),
            (6_000, (2_000, 2_000, 1_000)),
            (500, (2_000,)),
        ],
    )
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


class PrivateRounds:
    """One round of a party whose shares carry noise: certificate, noise and two passes."""

    params = ([(5_000, 20), (30_000, 60), (100_000, 167)],)
    param_names = ("shape",)

    def setup(self, shape):
        """Decompose the matrix."""
        n, d = shape
        rng = np.random.default_rng(0)
        settings = Settings(n_samples=n, n_parties=1, n_features=d, ridge=1.0)
        calibration = calibrate_shares(
            4.0, 1e-5, rounds=10**6, n_samples=n, n_features=d, alpha=settings.alpha
        )
        X = rng.standard_normal((n, d)) / np.sqrt(d)
        self.party = Party(X, settings, release=NoisyShares.calibrated(calibration), data_norm=1.0)
        self.message = rng.uniform(-1, 1, n)

    def time_answer(self, shape):
        """Seconds from message to share."""
        self.party.answer(self.message)


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
