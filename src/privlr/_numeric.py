"""What counts as rows of numbers: one rule for every estimator, in fits and in predictions."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from privlr.exceptions import InvalidParameterError

__all__ = ["check_finite", "check_names", "column_names", "numeric", "refuse_masked"]

#: numpy's letters for bool, integers and floats.
KINDS = "biuf"
ACCEPTED = "numeric (bool, int or float)"
#: Objects of these types are no numbers, although some of them can be converted to one.
_WRONG = (str, bytes, complex, datetime.date, datetime.time, datetime.timedelta)
_DATES = (np.datetime64, np.timedelta64)


def refuse_masked(**arrays: Any) -> None:
    """Refuse masked arrays, whose hidden values would be used.

    Parameters
    ----------
    **arrays : object
        By the names of the parameters.

    Raises
    ------
    InvalidParameterError
        If a value is masked.
    """
    for name, array in arrays.items():
        if np.ma.is_masked(array):
            raise InvalidParameterError(name, "without masked values", "a masked array")


def numeric(X: Any, name: str = "X") -> Any:
    """Refuse rows of anything but numbers; no value is converted.

    Parameters
    ----------
    X : array-like, table or sparse matrix
        Rows, as given.
    name : str, default="X"
        What to call them.

    Returns
    -------
    array, table or sparse matrix
        As given; a list as an array.

    Raises
    ------
    InvalidParameterError
        Text, dates, complex numbers, masked values, or a query that is still to be run.
    """
    refuse_masked(**{name: X})
    if hasattr(X, "collect"):  # of polars
        raise InvalidParameterError(name, "a table, by .collect() first", type(X).__name__)
    if sp.issparse(X):
        _check_kind(np.empty(0, X.dtype), name)
    elif hasattr(X, "iloc") and X.ndim == 2:
        for j, dtype in enumerate(X.dtypes):
            if dtype.kind not in KINDS:
                _check_kind(np.asarray(X.iloc[:, j]), name)
    elif hasattr(X, "columns") and hasattr(X, "head"):
        for column in X.columns:
            # Without rows the type alone decides, and none is converted twice.
            objects = np.asarray(X.head(0)[column]).dtype.kind == "O"
            _check_kind(np.asarray((X if objects else X.head(0))[column]), name)
    else:
        try:
            array = np.asarray(X)
        except (TypeError, ValueError):  # such as rows of several lengths
            raise InvalidParameterError(name, "a numeric matrix", type(X).__name__) from None
        _check_kind(array, name)
        return array if isinstance(X, list | tuple) else X
    return X


def _check_kind(array: Any, name: str) -> None:
    found = [str(array.dtype)] if array.dtype.kind not in KINDS + "O" else []
    if array.dtype.kind == "O":
        kinds = set(map(type, array.flat))
        found = sorted(kind.__name__ for kind in kinds if issubclass(kind, _WRONG + _DATES))
    if found:
        complexes = "; Complex data not supported" if "complex" in found[0] else ""
        raise InvalidParameterError(name, ACCEPTED + complexes, found[0])


def check_finite(X: Any, name: str = "X") -> None:
    """Refuse NaN and infinities.

    Parameters
    ----------
    X : ndarray or sparse matrix
        Numbers.
    name : str, default="X"
        What to call them.

    Raises
    ------
    InvalidParameterError
        One is not finite.
    """
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        found = "NaN" if np.isnan(values).any() else "infinity"
        raise InvalidParameterError(name, "finite", found)


def column_names(X: Any) -> list[Any] | None:
    """Return what the columns of a table are called.

    Parameters
    ----------
    X : array-like, sparse matrix or table
        Rows; pandas, polars and Arrow tables have names.

    Returns
    -------
    list or None
        None without names.
    """
    names = getattr(X, "column_names", None)  # Arrow, whose columns are the data
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else list(names)


def check_names(X: Any, names: Iterable[str] | None, name: str = "X") -> None:
    """Refuse a table whose columns are not those of the training rows, in their order.

    Parameters
    ----------
    X : array-like, sparse matrix or table
        Rows; only those of a table have names.
    names : sequence of str, or None
        Names of the training columns, where they had any.
    name : str, default="X"
        What to call the rows.

    Raises
    ------
    InvalidParameterError
        The names differ.
    """
    columns = column_names(X)
    if columns is not None and names is not None and columns != list(names):
        raise InvalidParameterError(name, f"a table with the columns {list(names)}", columns)
