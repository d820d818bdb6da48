"""A budget that is charged before each run and survives clones, processes and crashes."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from numbers import Rational, Real
from pathlib import Path
from typing import Any

from privlr.exceptions import InvalidParameterError, PrivacyBudgetError
from privlr.privacy.record import Charge

__all__ = ["Ledger", "exact"]

_TABLES = (
    """CREATE TABLE IF NOT EXISTS budget (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1), epsilon TEXT, delta TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS charges (
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        note TEXT NOT NULL
    )""",
)
#: Seconds to wait for other processes; a charge takes milliseconds.
_BUSY_TIMEOUT = 60.0


def exact(name: str, value: Any) -> Fraction:
    """Return the exact rational that the caller meant.

    Parameters
    ----------
    name : str
        The parameter, for the error message.
    value : int, float, Fraction or str
        A float stands for the ratio with denominator at most 1000 that rounds to it, if there
        is one (``1/11`` is one eleventh), else for the decimal that it prints as (0.0001 is
        1/10000). A string is a decimal or a ratio such as "1/11".

    Returns
    -------
    Fraction
        Nonnegative.

    Raises
    ------
    InvalidParameterError
        For bool, nan, infinite or negative values and anything that is not a number.
    """
    number = None
    try:
        if isinstance(value, Real | str) and not isinstance(value, bool):
            if not isinstance(value, Rational | str):
                value = float(value)  # a float32 of .1 is more than .1, and is used as it is
            number = Fraction(str(value))
            if not isinstance(value, Rational | str):
                ratio = number.limit_denominator(1000)
                number = ratio if float(ratio) == value else number
    except (ValueError, ZeroDivisionError, OverflowError):
        pass
    if number is None or number < 0:
        raise InvalidParameterError(name, "a finite nonnegative number or a ratio", value)
    return number


class Ledger:
    """A privacy budget shared by every estimator that holds it.

    A charge is written before the run that it pays for, and stays if that run fails, because
    a failure tells something too. Amounts are exact rationals, so eleven times 1/11 fits
    into 1 and nothing more does. Copies (`copy`, `sklearn.clone`) are the same ledger.

    Parameters
    ----------
    limit : int, float, Fraction, str or None, default=None
        Largest total epsilon. None for no limit, or for the one that the file holds.
    path : path-like or None, default=None
        SQLite file, made if absent. It may be shared by threads and processes on one machine,
        and pickles as its path. None keeps the ledger in the memory of this process.
    delta_limit : int, float, Fraction, str or None, default=None
        Largest total delta; None means 0 where `limit` is given.

    Raises
    ------
    InvalidParameterError
        If a limit is no number, or differs from the one that the file holds.
    PrivacyBudgetError
        If the file cannot be read and written as a ledger.

    Notes
    -----
    **Guarantee.** The totals never exceed the limits, so runs that are each private at the
    cost charged are together (limit, delta_limit)-differentially private, by basic
    composition with adaptively chosen runs and costs (a privacy filter for pure epsilon).

    **Neighbouring relation.** One for the whole ledger: that of every run charged.

    **Assumptions.** Every access to the data charges first, the file is kept, and it lies on a
    local disk.

    **Source.** Rogers, Roth, Ullman and Vadhan, NeurIPS 2016 (filters for basic composition).

    **Not covered.** Runs that carry a note that they are not private, and runs on disjoint
    parts, which are added up although the largest would do.

    Examples
    --------
    >>> ledger = Ledger(limit=1)
    >>> _ = ledger.charge("first fit", 0.1)
    >>> _ = ledger.charge("second fit", 0.9)
    >>> ledger.remaining
    Fraction(0, 1)
    """

    def __init__(
        self,
        limit: Any = None,
        path: str | os.PathLike[str] | None = None,
        *,
        delta_limit: Any = None,
    ) -> None:
        epsilon = None if limit is None else exact("limit", limit)
        delta = None if delta_limit is None else exact("delta_limit", delta_limit)
        if epsilon is None and delta is not None:
            raise InvalidParameterError("limit", "given where delta_limit is", limit)
        self._path = None if path is None else Path(path).resolve()
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._memory = None if self._path else _connect(":memory:")
        if self._memory is not None:  # sqlite warns of connections that nobody closed
            weakref.finalize(self, self._memory.close)
        with self._transaction(create=True) as connection:
            for table in _TABLES:
                connection.execute(table)
            self._adopt(connection, epsilon, delta)

    def _adopt(
        self, connection: sqlite3.Connection, epsilon: Fraction | None, delta: Fraction | None
    ) -> None:
        """Write the limits into a new ledger, or compare them with those it has."""
        if connection.execute("SELECT * FROM budget").fetchone() is None:
            limits = (None, None) if epsilon is None else (str(epsilon), str(delta or 0))
            connection.execute("INSERT INTO budget VALUES (1, ?, ?)", limits)
        names, given = ("limit", "delta_limit"), (epsilon, delta)
        for name, new, held in zip(names, given, _limits(connection), strict=True):
            if new is not None and new != held:
                shown = int(new) if new.denominator == 1 else float(new)
                raise InvalidParameterError(name, f"{held}, which the ledger holds", shown)

    @contextmanager
    def _connection(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if self._path is not None:
                # A connection per operation: none is ever carried across a fork or a thread.
                mode = "rwc" if create else "rw"
                with closing(_connect(f"{self._path.as_uri()}?mode={mode}")) as connection:
                    yield connection
            elif self._memory is None or os.getpid() != self._process:
                raise PrivacyBudgetError(
                    "a ledger in memory counts in one process only; give it a path"
                )
            else:
                with self._lock:
                    yield self._memory
        except sqlite3.Error as error:
            raise PrivacyBudgetError(f"the ledger {self._path} cannot be used: {error}") from error

    @contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        with self._connection(create=create) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def charge(self, label: str, epsilon: Any, delta: Any = 0, *, note: str = "") -> Charge:
        """Write a charge, durably, before the run that it pays for.

        Parameters
        ----------
        label : str
            What is about to run.
        epsilon, delta : int, float, Fraction or str
            Its cost; see `exact` for what a float stands for.
        note : str, default=""
            Kept with the charge.

        Returns
        -------
        Charge
            As written.

        Raises
        ------
        InvalidParameterError
            If the label is no text, or an amount no finite nonnegative number.
        PrivacyBudgetError
            If a total would exceed its limit; nothing is written then.
        """
        if not isinstance(label, str):
            raise InvalidParameterError("label", "text", label)
        entry = Charge(label, exact("epsilon", epsilon), exact("delta", delta), str(note))
        with self._transaction() as connection:
            charges = [*_charges(connection), entry]
            kinds = (("epsilon", "limit"), ("delta", "delta_limit"))
            for (name, bound), limit in zip(kinds, _limits(connection), strict=True):
                total = sum(getattr(charge, name) for charge in charges)
                if limit is not None and total > limit:
                    raise PrivacyBudgetError(
                        f"charging {name}={getattr(entry, name)} for {entry.label!r} would make "
                        f"the total {name} {total}, above the {bound} {limit}"
                    )
            connection.execute(
                "INSERT INTO charges (label, epsilon, delta, note) VALUES (?, ?, ?, ?)",
                (entry.label, str(entry.epsilon), str(entry.delta), entry.note),
            )
        return entry

    @property
    def path(self) -> Path | None:
        """The file, None in memory."""
        return self._path

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, in the order in which they were made."""
        with self._connection() as connection:
            return tuple(_charges(connection))

    @property
    def spent(self) -> Fraction:
        """Total epsilon."""
        return sum((charge.epsilon for charge in self.charges), Fraction(0))

    @property
    def spent_delta(self) -> Fraction:
        """Total delta."""
        return sum((charge.delta for charge in self.charges), Fraction(0))

    @property
    def limit(self) -> Fraction | None:
        """Largest total epsilon, None if there is none."""
        with self._connection() as connection:
            return _limits(connection)[0]

    @property
    def delta_limit(self) -> Fraction | None:
        """Largest total delta, None if there is none."""
        with self._connection() as connection:
            return _limits(connection)[1]

    @property
    def remaining(self) -> Fraction | None:
        """What is left of `limit`, None if there is none."""
        limit = self.limit
        return None if limit is None else limit - self.spent

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError(
                "a ledger in memory cannot be pickled: its copy would be a second budget; "
                "give it a path"
            )
        return _reopen, (str(self._path),)

    def __repr__(self) -> str:
        where = "in memory" if self._path is None else str(self._path)
        return f"<Ledger {where}: spent {self.spent}, limit {self.limit}>"


def _reopen(path: str) -> Ledger:
    """Unpickle; a file that is gone must not come back as an empty, unlimited ledger."""
    if not Path(path).exists():
        raise PrivacyBudgetError(f"the ledger {path} no longer exists")
    return Ledger(path=path)


def _connect(database: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        # EXTRA also flushes the directory entry, without which a power cut could undo a commit.
        connection.execute("PRAGMA synchronous = EXTRA")
    except sqlite3.Error:  # such as a file that is no database
        connection.close()
        raise
    return connection


def _charges(connection: sqlite3.Connection) -> Iterator[Charge]:
    rows = connection.execute("SELECT label, epsilon, delta, note FROM charges ORDER BY id")
    for label, epsilon, delta, note in rows:
        yield Charge(label, Fraction(epsilon), Fraction(delta), note)


def _limits(connection: sqlite3.Connection) -> tuple[Fraction | None, ...]:
    row = connection.execute("SELECT epsilon, delta FROM budget").fetchone()
    return tuple(None if limit is None else Fraction(limit) for limit in row)
