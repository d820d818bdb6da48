"""Solves to a gradient norm of 1e-9 of the mean objective; see bench/compare.py for peers."""

import statistics
import time

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privlr import solve, solve_many

GRADIENT_NORM = 1e-9
LAMBDAS = [1e-1, 1e-2, 1e-4, 1e-6]


def problem(n, d, density=1.0):
    """Rows of unit length with labels from a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    if density < 1.0:
        X[rng.random((n, d)) >= density] = 0.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    y = np.where(rng.random(n) < expit(4 * X @ rng.normal(size=d)), 1.0, -1.0)
    return (sp.csr_array(X) if density < 1.0 else X), y


def gradient_norm(X, y, w, l2):
    """Recomputed independently of the solver."""
    return np.linalg.norm(X.T @ (-y * expit(-y * (X @ w))) / len(y) + l2 * w)


class Solve:
    """One solve."""

    params = (
        [(8, 2, 1.0), (1_000, 20, 1.0), (5_000, 20, 1.0), (3_000, 100, 1.0), (30_000, 100, 1.0),
         (32_561, 123, 0.11), (3_000, 2_500, 1.0)],
        LAMBDAS,
    )  # fmt: skip
    param_names = ("shape", "l2_reg_strength")

    def setup(self, shape, l2):
        """Make the rows once."""
        self.X, self.y = problem(*shape)

    def solve(self, l2):
        """What is measured."""
        return solve(self.X, self.y, l2_reg_strength=l2, tol=GRADIENT_NORM)

    def time_solve(self, shape, l2):
        """Seconds."""
        self.solve(l2)

    def peakmem_solve(self, shape, l2):
        """Bytes."""
        self.solve(l2)

    def track_passes(self, shape, l2):
        """Looks at all rows."""
        return self.solve(l2).passes

    def track_gradient_norm(self, shape, l2):
        """Gradient norm reached."""
        return gradient_norm(self.X, self.y, self.solve(l2).coef, l2)


class Peers:
    """Times faster than scikit-learn at 3,000 x 100, to the same gradient norm, in turn."""

    params = (["lbfgs", "newton-cholesky"], LAMBDAS)
    param_names = ("solver", "l2_reg_strength")

    def setup(self, solver, l2):
        """Find the loosest tolerance with which the peer reaches the gradient norm."""
        self.X, self.y = problem(3_000, 100)
        for tol in 10.0 ** -np.arange(4, 14):
            self.peer = LogisticRegression(
                C=1 / (3_000 * l2), fit_intercept=False, solver=solver, tol=tol, max_iter=10_000
            )
            w = self.peer.fit(self.X, self.y).coef_[0]
            if gradient_norm(self.X, self.y, w, l2) <= GRADIENT_NORM:
                return
        raise NotImplementedError  # asv's way to leave a case out

    def track_ratio(self, solver, l2):
        """Median over the turns."""
        ratios = []
        for _ in range(15):
            start = time.perf_counter()
            self.peer.fit(self.X, self.y)
            middle = time.perf_counter()
            solve(self.X, self.y, l2_reg_strength=l2, tol=GRADIENT_NORM)
            ratios.append((middle - start) / (time.perf_counter() - middle))
        return statistics.median(ratios)


class SolveMany:
    """A hundred noise vectors on one X."""

    params = (LAMBDAS,)
    param_names = ("l2_reg_strength",)

    def setup(self, l2):
        """Make rows and noise once."""
        self.X, self.y = problem(1_000, 20)
        self.noise = np.random.default_rng(1).normal(size=(100, 20))

    def time_solve_many(self, l2):
        """Seconds of all."""
        solve_many(self.X, self.y, l2_reg_strength=l2, linear=self.noise, tol=GRADIENT_NORM)
