"""Making sure that all parties speak of the same samples in the same order."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import numpy as np

from privlr.exceptions import InvalidParameterError

__all__ = ["check_alignment", "id_digest"]


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
        (table.index, name)
        for table, name in zip(tables, names, strict=True)
        if hasattr(table, "index") and hasattr(table.index, "duplicated")
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
                f"in the order of {owner} (sort both by id)",
                f"{moved} of {len(index)} ids elsewhere",
            )
