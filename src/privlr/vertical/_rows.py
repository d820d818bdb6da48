"""A party's rows: checked, named in every complaint, and clipped one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from privlr.design import finite_rows
from privlr.exceptions import InvalidParameterError

__all__ = ["party_rows", "clipped_rows", "row_norms"]


def party_rows(X: Any, name: str) -> Any:
    """Return a float64 array or CSR matrix, or complain about the party by name.

    Parameters
    ----------
    X : array-like, table or sparse matrix of shape (n_samples, n_features)
    name : str
        What to call it.

    Returns
    -------
    ndarray or csr_array

    Raises
    ------
    InvalidParameterError
        Not a finite numeric matrix of at least one row and one column.
    """
    rows = finite_rows(X, name)
    if min(rows.shape) == 0:
        raise InvalidParameterError(
            name, "a matrix with at least one row and one column", rows.shape
        )
    return rows if sp.issparse(rows) else np.ascontiguousarray(rows)


def row_norms(X: Any) -> NDArray[np.float64]:
    """Euclidean norm of every row, without overflow.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)

    Returns
    -------
    ndarray of shape (n_samples,)
    """
    if sp.issparse(X):
        largest = np.asarray(abs(X).max(axis=1).todense()).ravel()
        scale = np.where(largest > 0, largest, 1.0)
        scaled = sp.csr_array((X.data / np.repeat(scale, np.diff(X.indptr)), X.indices, X.indptr))
        squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
    else:
        largest = np.maximum(X.max(axis=1), -X.min(axis=1))
        scale = np.where(largest > 0, largest, 1.0)
        scaled = X / scale[:, None]
        squares = np.einsum("ij,ij->i", scaled, scaled)
    norms: NDArray[np.float64] = scale * np.sqrt(squares)
    return norms


def clipped_rows(X: Any, bound: float) -> Any:
    """Return X/bound with every row shortened to norm 1 or less, in exact arithmetic.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    bound : float

    Returns
    -------
    ndarray or csr_array
        A copy; what happens to a row depends on that row only.
    """
    # The computed norm and the scaled values are off by less than this, relatively.
    slack = 1 - (X.shape[1] + 32) * 2.0**-53
    with np.errstate(over="ignore"):
        norms = row_norms(X) / bound
    factor = slack / np.maximum(norms, slack) / bound
    if sp.issparse(X):
        repeats = np.repeat(factor, np.diff(X.indptr))
        return sp.csr_array((X.data * repeats, X.indices, X.indptr), shape=X.shape)
    return X * factor[:, None]
