"""Time of a fit, beside scikit-learn's solvers at the same objective."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from privlr import solve
from privlr.linear_model import PrivateLogisticRegression


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 and labels from a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    margins = X @ (8 * rng.standard_normal(d))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-margins)), 1, -1)


def gradient_norm(coef: np.ndarray, X: np.ndarray, y: np.ndarray, l2: float) -> float:
    """Gradient norm of the mean objective, apart from any solver's own account."""
    slopes = -y / (1 + np.exp(y * (X @ coef)))
    return float(np.linalg.norm(X.T @ slopes / len(y) + l2 * coef))


class Fit:
    """One private fit, certified release included."""

    params = ([(1_000, 20), (3_000, 100), (30_000, 100)], ["logistic", "capped"])
    param_names = ("shape", "loss")

    def setup(self, shape: tuple[int, int], loss: str) -> None:
        self.X, self.y = rows(*shape)
        self.model = PrivateLogisticRegression(1.0, loss=loss, classes=[-1, 1])

    def time_fit(self, shape: tuple[int, int], loss: str) -> None:
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, shape: tuple[int, int], loss: str) -> None:
        self.model.fit(self.X, self.y)


class Solve:
    """The non-private solve at 3,000 x 100 and a gradient norm of at most 1e-9."""

    params = ([1e-1, 1e-2, 1e-4, 1e-6], ["privlr", "lbfgs", "newton-cholesky"])
    param_names = ("l2", "solver")

    def setup(self, l2: float, solver: str) -> None:
        self.X, self.y = rows(3_000, 100)
        self.peer = LogisticRegression(
            C=1 / (l2 * len(self.y)),
            fit_intercept=False,
            solver="lbfgs" if solver == "privlr" else solver,
            tol=1e-10,
            max_iter=10_000,
        )

    def coefficients(self, l2: float, solver: str) -> np.ndarray:
        if solver == "privlr":
            return solve(self.X, self.y, l2_reg_strength=l2).coef
        return self.peer.fit(self.X, self.y).coef_[0]

    def time_solve(self, l2: float, solver: str) -> None:
        self.coefficients(l2, solver)

    def track_gradient_norm(self, l2: float, solver: str) -> float:
        return gradient_norm(self.coefficients(l2, solver), self.X, self.y, l2)
