"""Which rows and columns a model sees: functions of public numbers, never of a label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privlr._validation import check_integer, check_positive
from privlr.exceptions import InvalidParameterError

__all__ = ["FeatureGroup", "feature_groups", "normalized", "split_rows"]

Index = NDArray[np.intp]
Rows = Index | range


@dataclass(frozen=True, eq=False)
class FeatureGroup:
    """Columns that share a model, and their share q_k of a row's norm and budget.

    Attributes
    ----------
    columns : ndarray of shape (n_columns,)
        Their numbers.
    share : float
        q_k, above 0 and at most 1.
    """

    columns: Index
    share: float


def split_rows(
    n_samples: int, sizes: Sequence[int], seed: Any, *, dealt: bool = True
) -> tuple[Any, ...]:
    """Cut a public permutation of the rows into parts, each sorted.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    sizes : sequence of int
        Sizes of the parts, adding up to `n_samples`.
    seed : int
        Public.
    dealt : bool, default=True
        False: a plan needs no more than the sizes.

    Returns
    -------
    tuple of ndarray or range
        Row numbers of each part; any as many where they are not `dealt`.

    Raises
    ------
    InvalidParameterError
        The seed is no nonnegative integer, or a part would be empty.
    """
    seed = check_integer("partition_seed", seed, low=0)
    if min(sizes) < 1:
        raise InvalidParameterError("X", f"of enough rows for {len(sizes)} parts", n_samples)
    if not dealt:
        return tuple(map(range, sizes))
    # The largest part is what the others leave: they alone are drawn.
    parts = sorted(range(len(sizes)), key=sizes.__getitem__)
    drawn = [sizes[k] for k in parts[:-1]]
    part = np.full(n_samples, parts[-1], dtype=np.min_scalar_type(len(sizes)))
    order = np.random.default_rng(seed).choice(n_samples, sum(drawn), replace=False)
    part[order] = np.repeat(parts[:-1], drawn)
    return tuple(np.flatnonzero(part == k) for k in range(len(sizes)))


def normalized(values: Sequence[float]) -> tuple[float, ...]:
    """Return numbers in proportion to `values` whose exact sum is at most 1.

    Parameters
    ----------
    values : sequence of float
        Not negative, not all zero.

    Returns
    -------
    tuple of float
        As many.
    """
    total = math.fsum(values)
    shares = [value / total for value in values]
    while math.fsum([*shares, -1.0]) > 0:  # of the exact sum the sign is right
        largest = shares.index(max(shares))
        shares[largest] = math.nextafter(shares[largest], 0.0)
    return tuple(shares)


def feature_groups(
    n_features: int,
    *,
    groups: Any,
    n_groups: Any,
    importance: ArrayLike | None,
    importance_power: Any,
    seed: Any,
) -> tuple[FeatureGroup, ...]:
    """Cut the columns into groups; groups without importance are left out.

    Parameters
    ----------
    n_features : int
        Number of columns.
    groups : sequence of sequences of int, or None
        Columns of each group. None: sorted by importance and cut into `n_groups` of equal
        size; at random, from the public seed, without importance.
    n_groups : int
        Number of groups, where they are not given.
    importance : array-like of shape (n_features,) or None
        Public. None: every group has the same share.
    importance_power : float
        Exponent of the importance before it is added up over a group.
    seed : int
        Public, of the random cut.

    Returns
    -------
    tuple of FeatureGroup
        Those with a share above 0; shares add up to at most 1.

    Raises
    ------
    InvalidParameterError
        Groups that share a column or name one that does not exist, importances that are
        negative, infinite or all 0, or more groups than columns.
    """
    weight = None
    if importance is not None:
        try:
            weight = np.asarray(importance, dtype=np.float64)
        except (TypeError, ValueError):
            weight = np.empty(0)
        if weight.shape != (n_features,) or not (np.isfinite(weight) & (weight >= 0)).all():
            raise InvalidParameterError(
                "importance", f"{n_features} nonnegative finite numbers", importance
            )
        if not weight.any():
            raise InvalidParameterError("importance", "positive for some feature", importance)
        weight = (weight / weight.max()) ** check_positive("importance_power", importance_power)
    if groups is not None:
        columns = _declared(groups, n_features)
    else:
        count = check_integer("n_groups", n_groups)
        if count > n_features:
            raise InvalidParameterError("n_groups", f"at most {n_features}, the columns", count)
        if weight is None:
            seed = check_integer("partition_seed", seed, low=0)
            order = np.random.default_rng(seed).permutation(n_features)
        else:
            order = np.argsort(-weight, kind="stable")
        columns = [np.sort(part) for part in np.array_split(order, count)]
    if weight is None:
        shares = normalized([1.0] * len(columns))
    else:
        sums = [math.fsum(weight[part]) for part in columns]
        if not any(sums):
            raise InvalidParameterError("groups", "with some importance", groups)
        shares = normalized(sums)
    return tuple(
        FeatureGroup(part, share) for part, share in zip(columns, shares, strict=True) if share > 0
    )


def _declared(groups: Any, n_features: int) -> list[Index]:
    accepted = f"lists of columns from 0 to {n_features - 1}, no column twice"
    try:
        parts = [np.asarray(group) for group in groups]
    except (TypeError, ValueError):
        raise InvalidParameterError("groups", accepted, groups) from None
    if not parts or any(
        part.ndim != 1 or not len(part) or part.dtype.kind not in "iu" for part in parts
    ):
        raise InvalidParameterError("groups", accepted, groups)
    every = np.concatenate(parts)
    if every.min() < 0 or every.max() >= n_features or len(np.unique(every)) < len(every):
        raise InvalidParameterError("groups", accepted, groups)
    return [part.astype(np.intp) for part in parts]
