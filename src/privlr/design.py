"""From the caller's matrix to rows that the kernels walk."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from privlr._numeric import ACCEPTED, check_finite, numeric
from privlr._solvers import solve as kernels
from privlr.exceptions import InvalidParameterError

__all__ = [
    "finite_rows",
    "longest_row",
    "make_design",
    "make_designs",
    "thread_count",
    "thread_map",
    "well_formed",
    "wrap",
]

#: Rows beyond 1e150 (EXTREME_LENGTH in scan.c) are brought to this length before clipping.
SAFE_LENGTH = 1e120
#: Entries of X (a sparse one counts for four) below which a thread costs more than it saves.
THREADED_WORK = 1_000_000
MAX_THREADS = 64

T = TypeVar("T")
R = TypeVar("R")


def _as_csr(X: Any) -> Any:
    """CSR whose indices may lie out of range, but only where scipy need not follow them."""
    if X.ndim != 2:
        raise InvalidParameterError("X", "a matrix", f"shape {X.shape}")
    try:
        if X.format in ("csc", "bsr"):
            X.check_format(full_check=True)
        elif X.format == "coo":
            X = sp.coo_array((X.data, (X.row, X.col)), shape=X.shape)
        return X.tocsr()
    except (IndexError, ValueError):
        raise InvalidParameterError("X", "a well-formed sparse matrix", X.format) from None


def _native_csr(X: Any) -> Any:
    """CSR with sorted unique indices of one integer type; the input where it is that."""
    numeric(X)
    X = _as_csr(X)
    wide = X.indices.dtype == np.int64 or X.indptr.dtype == np.int64
    index = np.int64 if wide else np.int32
    indices = np.ascontiguousarray(X.indices, dtype=index)
    indptr = np.ascontiguousarray(X.indptr, dtype=index)
    # The matrix's own flags may be stale, and an entry that stands twice makes its row longer
    # than its clipping allows for.
    form = kernels.csr_form(indices, indptr, X.shape[1])
    if form == "broken" or len(X.data) < indptr[-1] or len(indptr) != X.shape[0] + 1:
        raise InvalidParameterError("X", "a well-formed CSR matrix", "indices out of range")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    data = np.ascontiguousarray(X.data, dtype=dtype)
    if form == "unordered":
        fresh = sp.csr_array((data, indices, indptr), shape=X.shape, copy=True)
        fresh.sum_duplicates()
        data, indices, indptr = fresh.data, fresh.indices, fresh.indptr
    return data, indices, indptr


def well_formed(X: Any) -> Any:
    """Return a sparse matrix in checked CSR without repeated entries, anything else as it is.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix/array of shape (n, d)
        Rows. scipy's indexing trusts indices that nobody has checked.

    Returns
    -------
    ndarray or csr_array of shape (n, d)
        The same rows.

    Raises
    ------
    InvalidParameterError
        Indices lie out of range.
    """
    return sp.csr_array(_native_csr(X), shape=X.shape) if sp.issparse(X) else X


def finite_rows(X: Any, name: str = "X") -> Any:
    """Return rows as finite float64, or complain about them by name.

    Parameters
    ----------
    X : array-like, table or sparse matrix of shape (n, d)
        Rows.
    name : str, default="X"
        What to call them.

    Returns
    -------
    ndarray or csr_array of shape (n, d)
        The same rows; the input where it is that.

    Raises
    ------
    InvalidParameterError
        Not a finite matrix of numbers, or indices out of range.
    """
    rows = numeric(X, name)
    try:
        if sp.issparse(rows):
            rows = well_formed(rows).astype(np.float64, copy=False)
        else:
            rows = np.asarray(rows, dtype=np.float64)
    except InvalidParameterError as error:
        raise InvalidParameterError(name, error.accepted, error.value) from None
    except (TypeError, ValueError):
        raise InvalidParameterError(name, ACCEPTED, type(X).__name__) from None
    if rows.ndim != 2:
        raise InvalidParameterError(name, "a matrix", f"shape {rows.shape}")
    check_finite(rows, name)
    return rows


def _native_dense(X: Any) -> Any:
    """A float array that the kernels can walk; the input where it is one."""
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
        X = numeric(X).astype(np.float64)
    if not X.flags.aligned or any(s % X.itemsize for s in X.strides):
        X = X.copy()
    return X


def wrap(X: Any, *, intercept: float = 0.0, n_jobs: int | None = None) -> kernels.Design:
    """Wrap a matrix for the kernels without a look at its rows.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix/array of shape (n, d)
        Rows.
    intercept : float, default=0.0
        As in :func:`make_design`.
    n_jobs : int or None, default=None
        As in :func:`make_design`.

    Returns
    -------
    Design
        What a solve without clipping reads; :func:`longest_row` judges the rows then.
    """
    parts = _native_csr(X) if sp.issparse(X) else _native_dense(X)
    design = kernels.Design(parts, (int(X.shape[0]), int(X.shape[1])), intercept)
    design.n_threads = thread_count(n_jobs) if design.work >= THREADED_WORK else 1
    return design


def _check_finite(design: kernels.Design) -> None:
    check_finite(design.parts[0] if isinstance(design.parts, tuple) else design.parts)


def longest_row(design: kernels.Design) -> float:
    """Tell the length of the longest row, by a look at all unless a solve has found it.

    Parameters
    ----------
    design : Design
        Not clipped.

    Returns
    -------
    float
        The length.

    Raises
    ------
    InvalidParameterError
        A row holds a NaN or an infinity, or is longer than 1e153 over the number of rows, with
        which squares would overflow.
    """
    longest = design.longest()
    if not math.isfinite(longest):
        _check_finite(design)
    if not longest <= design.most:
        raise InvalidParameterError("X", f"rows of length at most {design.most:.3g}", longest)
    return longest


def make_design(
    X: Any,
    *,
    intercept: float = 0.0,
    data_norm: float | None = None,
    n_jobs: int | None = None,
) -> kernels.Design:
    """Wrap a matrix for the kernels, without a copy where its memory can be used as it is.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix/array of shape (n, d)
        Rows.
    intercept : float, default=0.0
        Value of an appended constant column; 0 for none.
    data_norm : float or None, default=None
        Clip every row, with its constant, to this Euclidean length: by a factor a
        row that the kernels apply, such that the length never exceeds `data_norm`
        in exact arithmetic.
    n_jobs : int or None, default=None
        Threads of a solve; None is one, -1 all processors. Results do not depend on it, and
        little work gets one: to start a thread takes as long.

    Returns
    -------
    Design
        What the kernels read; it keeps X alive.

    Raises
    ------
    InvalidParameterError
        X holds a NaN or an infinity, or (without `data_norm`) a row longer than 1e153 over
        the number of rows, with which squares would overflow.
    """
    design = wrap(X, intercept=intercept, n_jobs=n_jobs)
    if data_norm is None:
        longest_row(design)
    else:
        parts, shape, threads = design.parts, design.shape, design.n_threads
        (status,) = kernels.scan([design], [data_norm])
        if status == "nonfinite":
            _check_finite(design)
        if status == "extreme":
            # Products with such rows overflow before their factors can act on them. They
            # alone are scaled, in a copy, so that no row's fate depends on another row; to a
            # length that leaves the constant as little as it had.
            safe = kernels.Design(parts, shape, intercept)
            kernels.scan([safe], [SAFE_LENGTH])
            assert safe.row_scale is not None
            factor = np.where(safe.row_scale < 0.0, -safe.row_scale, 1.0)
            if isinstance(parts, tuple):
                data, indices, indptr = parts
                parts = (data * np.repeat(factor, np.diff(indptr)), indices, indptr)
            else:
                # Kernels that add up in another order would move the other rows' products.
                by_column = parts.strides[0] == parts.itemsize != parts.strides[1]
                parts = np.multiply(parts, factor[:, None], order="F" if by_column else "C")
            design = kernels.Design(parts, shape, intercept)
            design.n_threads = threads
            kernels.scan([design], [data_norm])
    return design


def make_designs(
    X: Any,
    columns: Sequence[NDArray[np.intp]],
    *,
    rows: NDArray[np.intp] | None = None,
    intercept: float,
    data_norms: Sequence[float],
    n_jobs: int | None = None,
) -> Iterator[kernels.Design]:
    """Wrap groups of columns of some rows, each clipped on its own.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        All rows and columns.
    columns : sequence of ndarray of int
        Those of each design.
    rows : ndarray of int, or None, default=None
        Those that every design has, ascending; None is all.
    intercept : float
        As in :func:`make_design`, of all.
    data_norms : sequence of float
        As in :func:`make_design`, of each.
    n_jobs : int or None, default=None
        Threads that cut the groups out; None is one, -1 all processors. A solve of one has one.

    Returns
    -------
    iterator of Design
        Bit for bit those of `make_design` with a copy of these rows and columns, which it is
        where one cannot share the others' pass over X: then each is made as it is asked for.

    Raises
    ------
    InvalidParameterError
        X holds a NaN or an infinity there.
    """

    def _alone(k: int) -> kernels.Design:
        own = X
        # Columns first: they are few. Neither step copies what is all there.
        if not np.array_equal(columns[k], np.arange(X.shape[1])):
            own = own[:, columns[k]]
        if rows is not None and len(rows) < X.shape[0]:
            own = own[rows]
        return make_design(own, intercept=intercept, data_norm=data_norms[k])

    everyone = range(len(columns))
    if sp.issparse(X) or max(map(len, columns)) + (intercept != 0.0) > kernels.NARROW:
        return map(_alone, everyone)
    # A pass over X for each group would take longer than the solves.
    native = _native_dense(X)
    places = None if rows is None else rows.astype(np.int64, copy=False)
    designs = [
        kernels.Design(
            native,
            (X.shape[0] if rows is None else len(rows), len(own)),
            intercept,
            rows=places,
            columns=own.astype(np.int64, copy=False),
        )
        for own in columns
    ]
    designs[0].n_threads = thread_count(n_jobs) if native.size >= THREADED_WORK else 1
    found = kernels.scan(designs, data_norms)
    designs[0].n_threads = 1
    return (designs[k] if found[k] == "converged" else _alone(k) for k in everyone)


def thread_map(
    function: Callable[[T], R], items: Sequence[T], n_jobs: int | None = None
) -> list[R]:
    """Call a function on every item, in threads of which each takes some.

    Parameters
    ----------
    function : callable
        Of one item; worth a thread where it lets go of the interpreter.
    items : sequence
        In the order of the results.
    n_jobs : int or None, default=None
        Threads; None is one, -1 all processors.

    Returns
    -------
    list
        One result an item.
    """
    threads = min(thread_count(n_jobs), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def thread_count(n_jobs: int | None) -> int:
    """Tell how many threads `n_jobs` asks for.

    Parameters
    ----------
    n_jobs : int or None
        None is 1; -1 stands for all processors, -2 for all but one, and so on.

    Returns
    -------
    int
        From 1 to 64.
    """
    if n_jobs is None:
        return 1
    wanted = n_jobs if n_jobs > 0 else (os.cpu_count() or 1) + 1 + n_jobs
    return min(max(1, wanted), MAX_THREADS)
