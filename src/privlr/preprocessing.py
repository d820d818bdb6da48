"""Scaling by public constants; nothing here is fitted to rows."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from privlr._inputs import checked_rows
from privlr._validation import check_positive
from privlr.exceptions import InvalidParameterError

__all__ = ["BoundedScaler", "FeatureImportanceScaler"]


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map declared public ranges to the unit ball.

    Column j is clipped to [lower_j, upper_j] and mapped linearly to [-1, 1]/sqrt(d), so that
    no row is longer than 1.

    Parameters
    ----------
    lower, upper : float or array-like of shape (n_features,)
        Public ends of the ranges, from the meaning of the columns and not from the rows.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> from privlr.preprocessing import BoundedScaler
    >>> BoundedScaler(lower=[0], upper=[120]).fit_transform([[60.0], [90.0], [500.0]]).tolist()
    [[0.0], [0.5], [1.0]]
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower = lower
        self.upper = upper

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the ranges against the number of columns; values are not looked at.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        BoundedScaler
            The transformer.

        Raises
        ------
        InvalidParameterError
            A range is empty, infinite, or not one a column.
        """
        X = checked_rows(self, X, reset=True, accept_sparse=False)
        lower, upper = (_per_feature(self, name, X.shape[1]) for name in ("lower", "upper"))
        with np.errstate(over="ignore"):
            width = upper - lower
        if not ((width > 0) & np.isfinite(width)).all():
            raise InvalidParameterError(
                "upper", "above lower in every column, by a finite number", self.upper
            )
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Clip and map rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of norm at most 1.
        """
        X = checked_rows(self, X, accept_sparse=False)
        lower, upper = (_per_feature(self, name, X.shape[1]) for name in ("lower", "upper"))
        unit = (np.clip(X, lower, upper) - lower) / (upper - lower)
        scaled: NDArray[np.float64] = (2 * unit - 1) / math.sqrt(X.shape[1])
        return scaled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class FeatureImportanceScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Multiply columns by factors that grow with public importances.

    A private regression spends norm and noise evenly over directions; after this it spends
    them where the importance is. One regression on such columns is a strong rival of a stack.

    Column j is multiplied by importance_j^power, divided by the root mean square of these
    over columns: a row that is spread evenly over the columns keeps its length. Others may
    become longer than they were, and are clipped by the private estimator that follows.

    Parameters
    ----------
    importance : array-like of shape (n_features,)
        Public, not computed from the private rows.
    power : float, default=0.5
        Exponent of the importance.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> from privlr.preprocessing import FeatureImportanceScaler
    >>> FeatureImportanceScaler([7.0, 1.0]).fit_transform([[2.0, 2.0]]).round(3).tolist()
    [[2.646, 1.0]]
    """

    def __init__(self, importance: ArrayLike, power: float = 0.5) -> None:
        self.importance = importance
        self.power = power

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the importances against the number of columns; values are not looked at.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        FeatureImportanceScaler
            The transformer.

        Raises
        ------
        InvalidParameterError
            Importances are negative, infinite, all 0, or not one a column.
        """
        X = checked_rows(self, X, reset=True, accept_sparse=False)
        self._factor(X.shape[1])
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Multiply the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Scaled rows.
        """
        X = checked_rows(self, X, accept_sparse=False)
        scaled: NDArray[np.float64] = X * self._factor(X.shape[1])
        return scaled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _factor(self, n_features: int) -> NDArray[np.float64]:
        importance = _per_feature(self, "importance", n_features)
        if not ((importance >= 0).all() and importance.any()):
            raise InvalidParameterError("importance", "nonnegative, not all 0", self.importance)
        power = check_positive("power", self.power)
        factor: NDArray[np.float64] = (importance / importance.max()) ** power
        return factor / math.sqrt(float(np.mean(factor**2)))


def _per_feature(scaler: Any, name: str, n_features: int) -> NDArray[np.float64]:
    given = getattr(scaler, name)
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind not in "iuf":
            raise TypeError
        values = np.broadcast_to(numbers.astype(np.float64), (n_features,))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise InvalidParameterError(name, f"one or {n_features} finite numbers", given)
    return values
