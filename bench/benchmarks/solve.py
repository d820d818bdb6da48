"""Solves of one problem by privlr and its peers, to the same gradient norm."""

import statistics
import time

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privlr import PrivateLogisticRegression, solve

#: Gradient norm of the mean objective that everyone has to reach.
GRADIENT_NORM = 1e-9


def problem(n, d):
    """Synthetic rows of unit length at most, with labels from a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(n) < expit(4 * X @ rng.normal(size=d)), 1.0, -1.0)
    return X, y


def gradient_norm(X, y, w, l2):
    """Recomputed independently of the solvers."""
    return np.linalg.norm(X.T @ (-y * expit(-y * (X @ w))) / len(y) + l2 * w)


def peer(solver, X, y, l2):
    """Fit scikit-learn with the loosest tolerance that reaches the gradient norm."""
    for tol in 10.0 ** -np.arange(4, 14):
        model = LogisticRegression(
            C=1 / (len(y) * l2), fit_intercept=False, solver=solver, tol=tol, max_iter=10_000
        )
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        if gradient_norm(X, y, model.coef_[0], l2) <= GRADIENT_NORM:
            return model, seconds
    return None, np.nan


class Solve:
    """3,000 x 100 at several ridge strengths."""

    params = ([1e-1, 1e-2, 1e-4, 1e-6],)
    param_names = ("l2_reg_strength",)

    def setup(self, l2):
        """Make the rows once."""
        self.X, self.y = problem(3000, 100)

    def time_solve(self, l2):
        """Seconds of one solve."""
        solve(self.X, self.y, l2_reg_strength=l2)

    def time_private_fit(self, l2):
        """Seconds of one private fit, release included."""
        PrivateLogisticRegression(
            1.0, classes=[-1, 1], l2_reg_strength=l2, fit_intercept=False
        ).fit(self.X, self.y)

    def track_gradient_norm(self, l2):
        """Gradient norm reached."""
        return gradient_norm(self.X, self.y, solve(self.X, self.y, l2_reg_strength=l2).coef, l2)

    def _ratio(self, solver, l2):
        model, _ = peer(solver, self.X, self.y, l2)
        if model is None:
            return np.nan
        ratios = []
        for _ in range(7):
            start = time.perf_counter()
            model.fit(self.X, self.y)
            middle = time.perf_counter()
            solve(self.X, self.y, l2_reg_strength=l2)
            ratios.append((middle - start) / (time.perf_counter() - middle))
        return statistics.median(ratios)

    def track_ratio_lbfgs(self, l2):
        """Times faster than scikit-learn's lbfgs, interleaved."""
        return self._ratio("lbfgs", l2)

    def track_ratio_newton_cholesky(self, l2):
        """Times faster than scikit-learn's newton-cholesky, interleaved."""
        return self._ratio("newton-cholesky", l2)
