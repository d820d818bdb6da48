"""Making sure that all parties speak of the same samples in the same order."""

from __future__ import annotations

import hashlib
import hmac
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privlr._numeric import check_names, column_names
from privlr.exceptions import InvalidParameterError
from privlr.vertical._rows import party_rows

__all__ = ["align", "aligned_rows", "check_alignment", "id_digest"]


def id_digest(ids: Sequence[Any], key: bytes) -> bytes:
    """Keyed digest of a party's ids in their order, to compare without showing them.

    Parameters
    ----------
    ids : sequence
        Compared as text.
    key : bytes
        Shared by the parties, and no one else.

    Returns
    -------
    bytes of length 32
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for value in ids:
        text = str(value).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.digest()


def _has_ids(table: Any) -> bool:
    return hasattr(table, "index") and hasattr(table.index, "duplicated")


def _named(parties: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The parties under their names."""
    if isinstance(parties, Mapping):
        return {str(name): table for name, table in parties.items()}
    return {f"party {i}": table for i, table in enumerate(parties)}


def _header(table: Any) -> list[str] | None:
    """The names of a table's columns, where they are names."""
    columns = column_names(table)
    return columns if columns and all(isinstance(name, str) for name in columns) else None


def align(parties: Sequence[Any] | Mapping[str, Any], y: Any = None) -> tuple[Any, Any]:
    """Put the rows of every table into the order of their ids.

    The result does not depend on the order in which any table came, and nor does a fit to it.

    Parameters
    ----------
    parties : sequence of, or dict from names to, DataFrames
        One for each party; the ids are the index, and sorted as text.
    y : Series or None, default=None
        Labels.

    Returns
    -------
    parties : list or dict of DataFrame
        As given, sorted.
    y : Series or None
        Sorted.

    Raises
    ------
    InvalidParameterError
        A table without ids, ids that repeat, or that one table has and another has not; the
        error names the party and says how many.

    Examples
    --------
    >>> import pandas as pd
    >>> from privlr.vertical import align
    >>> bank = pd.DataFrame({"income": [1.0, 2.0]}, index=["ann", "bob"])
    >>> shop = pd.DataFrame({"spent": [4.0, 3.0]}, index=["bob", "ann"])
    >>> (_, shop), _ = align([bank, shop])
    >>> list(shop["spent"])
    [3.0, 4.0]
    """
    named = _named(parties)
    names, tables = [*named, "y"], [*named.values(), y]
    if y is None:
        del names[-1], tables[-1]
    for name, table in zip(names, tables, strict=True):
        if not _has_ids(table):
            raise InvalidParameterError(name, "a pandas table with ids", type(table).__name__)
    ordered = [
        table.iloc[np.argsort([str(id) for id in table.index], kind="stable")] for table in tables
    ]
    check_alignment(ordered, names)
    labels = None if y is None else ordered.pop()
    if isinstance(parties, Mapping):
        return dict(zip(parties, ordered, strict=True)), labels
    return ordered, labels


def check_alignment(tables: Sequence[Any], names: Sequence[str]) -> None:
    """Compare row ids, where tables have any, with those of the first table that has them.

    Parameters
    ----------
    tables : sequence
        Those with an ``index`` (pandas) are compared.
    names : sequence of str
        What to call them.

    Raises
    ------
    InvalidParameterError
        Ids that repeat, that one party has and another has not, or in another order; the
        error names the party and says how many.
    """
    indexed = [
        (table.index, name) for table, name in zip(tables, names, strict=True) if _has_ids(table)
    ]
    for index, name in indexed:
        repeated = int(index.duplicated().sum())
        if repeated:
            raise InvalidParameterError(name, "of unique ids", f"{repeated} repeated ids")
    for index, name in indexed[1:]:
        first, owner = indexed[0]
        missing, extra = len(first.difference(index)), len(index.difference(first))
        if missing or extra:
            raise InvalidParameterError(
                name,
                f"of the same ids as {owner}",
                f"{missing} ids missing and {extra} that {owner} has not",
            )
        moved = int(np.count_nonzero(np.asarray(first) != np.asarray(index)))
        if moved:
            raise InvalidParameterError(
                name,
                f"in the order of {owner} (privlr.vertical.align sorts both by id)",
                f"{moved} of {len(index)} ids elsewhere",
            )


def aligned_rows(
    parties: Sequence[Any] | Mapping[str, Any],
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    headers: Sequence[Sequence[str] | None] | None = None,
    widths: Sequence[int] | None = None,
) -> tuple[list[str], list[Any], list[list[str] | None]]:
    """Check every party's table alone and against the others'.

    Parameters
    ----------
    parties : sequence of, or dict from names to, matrices of shape (n_samples, n_columns)
        One for each party.
    y : array-like or None, default=None
        Labels, whose ids are compared where they have any.
    names : sequence of str or None, default=None
        What the parties must be called, in this order.
    headers : sequence of lists of str or None, default=None
        What the columns of each must be called, where it is a table.
    widths : sequence of int or None, default=None
        How many columns each must have.

    Returns
    -------
    names : list of str
        The parties'.
    blocks : list of ndarray or csr_array
        Their rows, float64.
    headers : list of list of str or None
        The names of their columns, where they have any.

    Raises
    ------
    InvalidParameterError
        Parties, ids, rows or columns that disagree; the error names the party.
    """
    named = _named(parties)
    found, tables = list(named), list(named.values())
    if isinstance(parties, Mapping):
        if names is not None and found != list(names):
            raise InvalidParameterError("parties", f"{', '.join(names)}, in this order", found)
    elif names is not None:
        found = list(names)
    if not tables or len(tables) != len(found):
        accepted = f"{len(found)} matrices" if found else "at least one matrix"
        raise InvalidParameterError("parties", accepted, len(tables))
    check_alignment([*tables, y], [*found, "y"])
    blocks = [party_rows(X, name) for X, name in zip(tables, found, strict=True)]
    for table, name, header in zip(tables, found, headers or [None] * len(found), strict=True):
        check_names(table, header, name)
        if header is not None and column_names(table) is None:
            fitted = "but the model was fitted with feature names"
            warnings.warn(f"{name} does not have valid feature names, {fitted}", stacklevel=3)
    for i, (X, name) in enumerate(zip(blocks, found, strict=True)):
        if X.shape[0] != blocks[0].shape[0]:
            raise InvalidParameterError(
                name, f"of as many rows as {found[0]}, {blocks[0].shape[0]}", X.shape[0]
            )
        if widths is not None and X.shape[1] != widths[i]:
            raise InvalidParameterError(name, f"of {widths[i]} columns", X.shape[1])
    return found, blocks, list(map(_header, tables))
