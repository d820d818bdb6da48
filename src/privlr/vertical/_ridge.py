"""Ridge regression on one matrix and many targets: the work of a party in every round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsymv, dsyrk

__all__ = ["DualRidge", "PrimalRidge", "Ridge", "gram", "make_ridge"]

Array = NDArray[np.float64]
UNIT = 2.0**-53

#: An explicit inverse is used where what it leaves of the right-hand side, as a share of that
#: and at most d u times the condition number, is below this.
INVERSE_ERROR = 1e-9


def gram(X: Any) -> Array:
    """X'X as a dense array.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)

    Returns
    -------
    ndarray of shape (d, d)
    """
    if sp.issparse(X):
        return np.asarray((X.T @ X).todense(), dtype=np.float64)
    upper = dsyrk(1.0, X.T) if X.flags.c_contiguous else dsyrk(1.0, X, trans=1)
    result: Array = np.triu(upper) + np.triu(upper, 1).T
    return result


class Ridge(ABC):
    """argmin_x ||X x - v||^2/2 + alpha ||x||^2/2, optionally on a ball, for many v.

    What is factored once is X'X or, for more columns than rows, X X': either way a
    symmetric matrix K, and (K + (alpha + nu) I)^-1 is applied to a vector. On the ball nu is
    the root of ``||x|| = radius``, found from one eigendecomposition.

    Parameters
    ----------
    X : ndarray (float64) or csr_array of shape (n, d)
    alpha : float
    radius : float or None, default=None
        Radius of the ball.
    spectral : bool, default=False
        Keep the eigendecomposition without a ball, too.

    Attributes
    ----------
    solution : ndarray
        What the inverse yields; x is a linear function of it.
    left, right : matrix and ndarray
        Their product is X x.
    dual : bool
        Whether `solve` takes v itself in place of X'v.
    """

    dual: bool
    left: Any

    def __init__(
        self, X: Any, alpha: float, radius: float | None = None, spectral: bool = False
    ) -> None:
        self.alpha, self.radius, self.shape = alpha, radius, X.shape
        self._inverse: Array | None = None
        self.values: Array
        self.vectors: Array
        matrix = self._kernel_of(X)
        self.solution: Array = np.zeros(len(matrix))
        if radius is not None or spectral:
            values, self.vectors = eigh(matrix, overwrite_a=True, check_finite=False)
            self.values = np.maximum(values, 0.0)
        else:
            bound = len(matrix) * UNIT * (1 + np.trace(matrix) / alpha)
            matrix[np.diag_indices_from(matrix)] += alpha
            self._factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
            if bound < INVERSE_ERROR:
                # One product with the inverse, of which a half is read, takes a fraction of
                # two triangular solves.
                inverse = cho_solve(self._factor, np.eye(len(matrix)), overwrite_b=True)
                self._inverse = np.asfortranarray(inverse)

    @abstractmethod
    def _kernel_of(self, X: Any) -> Array:
        """K, to be overwritten."""

    @property
    @abstractmethod
    def coef(self) -> Array:
        """x, of shape (d,)."""

    @property
    @abstractmethod
    def right(self) -> Array:
        """What `left` is multiplied by."""

    @abstractmethod
    def squared_norm(self, product: Array) -> float:
        """``||x||^2``, given X x."""

    def solve(self, moment: Array) -> None:
        """Replace x by the solution for X'v or, of the dual, v."""
        if hasattr(self, "vectors"):
            rotated = self.vectors.T @ moment
            rotated /= self.values + (self.alpha + self._multiplier(rotated))
            self.solution = self.vectors @ rotated
        elif self._inverse is not None:
            self.solution = dsymv(1.0, self._inverse, moment)
        else:
            self.solution = cho_solve(self._factor, moment, check_finite=False)

    def _weights(self) -> Array:
        """Weight of each eigenvector's squared coordinate in ``||x||^2``."""
        return np.ones_like(self.values)

    def _multiplier(self, rotated: Array) -> float:
        """nu >= 0 with ``||x|| = radius``, or 0 where the solution lies in the ball."""
        if self.radius is None:
            return 0.0
        squares, shifted, nu = self._weights() * rotated**2, self.values + self.alpha, 0.0
        for _ in range(100):
            scaled = squares / (shifted + nu) ** 2
            length = np.sqrt(scaled.sum())
            if length <= self.radius * (1 + 4e-16):
                break
            # Newton's method on 1/||x||, concave in nu: from the left it never passes the
            # root, and a few steps reach it.
            nu += (length / self.radius - 1) * length**2 / (scaled / (shifted + nu)).sum()
        return nu


class PrimalRidge(Ridge):
    """K = X'X: a product with X' before each solve, and one with X after it."""

    dual = False

    def _kernel_of(self, X: Any) -> Array:
        self.left = X
        return gram(X)

    @property
    def coef(self) -> Array:
        """See `Ridge`."""
        return self.solution

    right = coef

    def squared_norm(self, product: Array) -> float:
        """See `Ridge`."""
        return float(self.solution @ self.solution)


class DualRidge(Ridge):
    """K = X X' and x = X'a: without a ball, no pass over X after the first."""

    dual = True

    def _kernel_of(self, X: Any) -> Array:
        self._matrix = X
        kernel = gram(X.T.tocsr() if sp.issparse(X) else X.T)
        # On a ball x itself is certified, so the product is that of x: without one row beyond
        # the solution's rounding errors, which a small alpha makes large.
        self.left = kernel.copy() if self.radius is None else X
        return kernel

    @property
    def coef(self) -> Array:
        """See `Ridge`."""
        coef: Array = self.solution @ self._matrix
        return coef

    @property
    def right(self) -> Array:
        """See `Ridge`."""
        return self.solution if self.radius is None else self.coef

    def squared_norm(self, product: Array) -> float:
        """See `Ridge`."""
        return float(self.solution @ product)

    def _weights(self) -> Array:
        return self.values


def make_ridge(X: Any, *args: Any, **options: Any) -> Ridge:
    """Choose the smaller of the two systems.

    Parameters
    ----------
    X : ndarray (float64) or csr_array of shape (n, d)
    *args, **options
        As for `Ridge`.

    Returns
    -------
    Ridge
    """
    return (DualRidge if X.shape[1] > X.shape[0] else PrimalRidge)(X, *args, **options)
