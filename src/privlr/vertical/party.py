"""One party of a vertical run: its rows, its coefficients, and what leaves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privlr._validation import check_positive
from privlr.design import make_design
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import RandomSource
from privlr.optimize import Columns
from privlr.privacy import Ledger
from privlr.vertical._release import ExactShares, NoisyShares
from privlr.vertical._ridge import make_ridge
from privlr.vertical._rows import clipped_rows, party_rows
from privlr.vertical.settings import Settings

__all__ = ["Party"]

Array = NDArray[np.float64]
#: Sums of squares of larger entries might overflow.
LARGEST = 1e120
_STATE = ("anchor", "message", "share")


class Party:
    """The holder of some columns.

    In every round it takes one number a sample, `message`, fits its columns to what the
    message asks for, and gives one number a sample, its share of the scores. Nothing else
    crosses its boundary. A remote transport calls `answer`; `ADMMSharing`, which holds all
    parties, reads every matrix once a round instead of twice, and gets the same bits.

    Parameters
    ----------
    X : array-like, table or sparse matrix of shape (n_samples, n_columns)
        The party's columns.
    settings : Settings
        The public constants of the run.
    name : str, default="party"
        What errors call it.
    release : ExactShares, NoisyShares or ColumnSpaceNoise, default=ExactShares()
        What is done to a share before it leaves.
    data_norm : float or None, default=None
        Bound that every row is clipped to, one by one; needed by `NoisyShares`.
    ledger : Ledger or None, default=None
        The party's own, charged for every release of the run before the first is made.
    random : RandomSource or None, default=None
        Where noise comes from; None for the operating system.

    Raises
    ------
    InvalidParameterError
        The rows are not finite, empty, or of the wrong number, the error names the party; or
        shares need a `data_norm`, or their noise was made for another problem.
    """

    def __init__(
        self,
        X: Any,
        settings: Settings,
        *,
        name: str = "party",
        release: ExactShares | None = None,
        data_norm: float | None = None,
        ledger: Ledger | None = None,
        random: RandomSource | None = None,
    ) -> None:
        rows = party_rows(X, name)
        if rows.shape[0] != settings.n_samples:
            raise InvalidParameterError(name, f"of {settings.n_samples} rows", rows.shape[0])
        if data_norm is None and isinstance(release, NoisyShares):
            raise InvalidParameterError("data_norm", "given, for shares with noise", None)
        self.name, self.settings = name, settings
        self.release = release or ExactShares()
        self._random, self._ledger = random or RandomSource(), ledger
        self._scale = 1.0
        if data_norm is not None:
            self._scale = check_positive("data_norm", data_norm)
            rows = clipped_rows(rows, self._scale)
        elif max(rows.max(), -rows.min()) > LARGEST:
            raise InvalidParameterError(name, f"of entries up to {LARGEST:g}", "a larger one")
        alpha = settings.alpha / self._scale**2
        self.release.check(rows.shape, alpha)
        self._ridge = make_ridge(rows, alpha, self.release.radius, self.release.needs_spectrum)
        self.columns = Columns(
            make_design(self._ridge.left),
            block=settings.block,
            over_relaxation=settings.over_relaxation,
            clip=self.release.clip,
            with_moment=not self._ridge.dual,
        )
        self._round, self._shared = 0, True
        self._paid = ledger is None

    @property
    def coef(self) -> Array:
        """Coefficients of the party's columns; they stay with it."""
        return self._ridge.coef / self._scale

    @property
    def squared_norm(self) -> float:
        """Squared norm of `coef`, once its share was exchanged without noise."""
        return self._ridge.squared_norm(self.columns.share) / self._scale**2

    @property
    def right(self) -> Array:
        """What the matrix in `columns` is multiplied by."""
        return self._ridge.right

    @property
    def round(self) -> int:
        """Number of solves so far."""
        return self._round

    def share(self) -> Array:
        """Release the present share, once; a repeated call repeats it.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            The share, with its noise.
        """
        if not self._shared:
            product = self.columns.product(self._ridge.right)
            self.columns.share[:] = self.release.publish(product, self._round, self._random)
            self._shared = True
        return self.columns.share.copy()

    def pay(self) -> None:
        """Charge the ledger for the whole run, once and before its first round.

        Raises
        ------
        PrivacyBudgetError
            The ledger does not hold the cost; the party is as it was.
        """
        if self._ledger is not None and not self._paid:
            *cost, note = self.release.cost
            if self._random.seed is not None:
                note = f"{note} seeded: not private".strip()
            self._ledger.charge(f"vertical run of {self.name}", *cost, note=note)
            self._paid = True

    def advance(self) -> None:
        """Solve for the coefficients of the next round.

        Raises
        ------
        ConvergenceError
            The solution is not accurate enough for its noise.
        PrivacyBudgetError
            The ledger does not hold the cost of the run.
        """
        self.pay()
        moment = self.columns.moment
        self._ridge.solve(self.columns.target if moment is None else moment)
        self._round += 1
        self._shared = False
        self.release.settle(self._ridge, self.columns, self._round, self._random)

    def update(self, message: Array) -> None:
        """Take a whole message and solve, without a release; the end of a run with noise.

        Parameters
        ----------
        message : ndarray of shape (n_samples,), float64
            The coordinator's message.

        Raises
        ------
        InvalidParameterError
            The message has another length or is not finite.
        ConvergenceError, PrivacyBudgetError
            As for `advance`; without budget the message is not taken.
        """
        n = self.settings.n_samples
        if message.shape != (n,) or not np.isfinite(message).all():
            raise InvalidParameterError("message", f"{n} finite numbers", message.shape)
        self.pay()
        self.columns.absorb(message)
        self.advance()

    def answer(self, message: Array) -> Array:
        """Run a whole round: `update`, and release the share.

        Parameters
        ----------
        message : ndarray of shape (n_samples,), float64
            The coordinator's message.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            The share, with its noise.
        """
        self.update(message)
        return self.share()

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on in another process, noise of past rounds included.

        Returns
        -------
        dict of str to ndarray or int
            Copies; private, like the party itself. To be stored before the share of its round
            leaves the party, and not gone back behind: a round that is run twice releases
            twice, and is paid for once.
        """
        arrays = {name: getattr(self.columns, name).copy() for name in _STATE}
        arrays["solution"] = self._ridge.solution.copy()
        return {"round": self._round, "shared": int(self._shared), **arrays}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a party with the same rows and settings.

        Parameters
        ----------
        state : dict
            From `state`.
        """
        self._round, self._shared = int(state["round"]), bool(state["shared"])
        self._paid = self._paid or self._round > 0
        for name in _STATE:
            getattr(self.columns, name)[:] = state[name]
        self._ridge.solution = np.array(state["solution"], dtype=np.float64)
