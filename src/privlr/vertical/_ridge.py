"""Ridge regression on one matrix and many targets: the work of a party in every round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.blas import dsyrk

__all__ = ["DualRidge", "PrimalRidge", "Ridge", "gram", "make_ridge"]

Array = NDArray[np.float64]
UNIT = 2.0**-53

#: An explicit inverse is used where its relative error, at most some d u times the condition
#: number, is below this.
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
    the root of ``||x|| = radius``, found from one eigendecomposition. The vector that the
    inverse yields is `solution`; x is a linear function of it.

    Parameters
    ----------
    X : ndarray (float64) or csr_array of shape (n, d)
    alpha : float
    blocks : sequence of slice
        The blocks of rows in which targets arrive and products leave.
    radius : float or None, default=None
        Radius of the ball.
    spectral : bool, default=False
        Keep the eigendecomposition without a ball, too.
    """

    def __init__(
        self,
        X: Any,
        alpha: float,
        blocks: Sequence[slice],
        radius: float | None = None,
        spectral: bool = False,
    ) -> None:
        self.alpha, self.radius, self.shape = alpha, radius, X.shape
        self._inverse: Array | None = None
        self.values: Array
        self.vectors: Array
        self.rows = {rows.start: X[rows] for rows in blocks}
        matrix = self._kernel_of(X)
        self.solution: Array = np.zeros(len(matrix))
        self._input = np.zeros(len(matrix))
        if radius is not None or spectral:
            values, self.vectors = eigh(matrix, overwrite_a=True, check_finite=False)
            self.values = np.maximum(values, 0.0)
        else:
            bound = len(matrix) * UNIT * (1 + np.trace(matrix) / alpha)
            matrix[np.diag_indices_from(matrix)] += alpha
            self._factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
            if bound < INVERSE_ERROR:
                # One product with the inverse takes a fraction of two triangular solves.
                self._inverse = cho_solve(self._factor, np.eye(len(matrix)), overwrite_b=True)

    @abstractmethod
    def _kernel_of(self, X: Any) -> Array:
        """K."""

    @property
    @abstractmethod
    def coef(self) -> Array:
        """x, of shape (d,)."""

    @abstractmethod
    def absorb(self, rows: slice, target: Array) -> None:
        """Take the target v of a block of rows."""

    @abstractmethod
    def product(self, rows: slice) -> Array:
        """X x for a block of rows."""

    @property
    def squared_norm(self) -> float:
        """``||x||^2``."""
        return float(self.coef @ self.coef)

    def solve(self) -> None:
        """Replace x by the solution for the targets absorbed since the last call."""
        if hasattr(self, "vectors"):
            rotated = self.vectors.T @ self._input
            rotated /= self.values + (self.alpha + self._multiplier(rotated))
            self.solution = self.vectors @ rotated
        elif self._inverse is not None:
            self.solution = self._inverse @ self._input
        else:
            self.solution = cho_solve(self._factor, self._input, check_finite=False)
        self._input = np.zeros_like(self._input)

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
    """K = X'X: two products with a block, which a caller may run back to back."""

    def _kernel_of(self, X: Any) -> Array:
        return gram(X)

    @property
    def coef(self) -> Array:
        """See `Ridge`."""
        return self.solution

    def absorb(self, rows: slice, target: Array) -> None:
        """See `Ridge`."""
        self._input += target @ self.rows[rows.start]

    def product(self, rows: slice) -> Array:
        """See `Ridge`."""
        product: Array = self.rows[rows.start] @ self.solution
        return product


class DualRidge(Ridge):
    """K = X X' and x = X'a: without a ball, no pass over X after the first."""

    def _kernel_of(self, X: Any) -> Array:
        self._matrix = X
        self._kernel = gram(X.T.tocsr() if sp.issparse(X) else X.T)
        return self._kernel.copy()

    @property
    def coef(self) -> Array:
        """See `Ridge`."""
        coef: Array = self.solution @ self._matrix
        return coef

    def absorb(self, rows: slice, target: Array) -> None:
        """See `Ridge`."""
        self._input[rows] = target

    def product(self, rows: slice) -> Array:
        """See `Ridge`."""
        # On a ball x itself is certified, so the product is that of x: without one row beyond
        # the solution's rounding errors, which a small alpha makes large.
        left, right = (
            (self._kernel[rows], self.solution)
            if self.radius is None
            else (self.rows[rows.start], self.coef)
        )
        product: Array = left @ right
        return product

    @property
    def squared_norm(self) -> float:
        """See `Ridge`."""
        return float(self.solution @ (self._kernel @ self.solution))

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
