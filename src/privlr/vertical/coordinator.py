"""The label holder's side of a vertical run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privlr.exceptions import InvalidParameterError
from privlr.optimize import logistic_prox, loss_gradient
from privlr.vertical.settings import Settings

__all__ = ["Coordinator", "Residuals"]

Array = NDArray[np.float64]


class Residuals:
    """What one round showed the coordinator, added up over its blocks.

    Parameters
    ----------
    rho : float
        Weight of the augmented Lagrangian.

    Attributes
    ----------
    loss : float
        Summed logistic loss of the shares received.
    """

    def __init__(self, rho: float) -> None:
        self.rho, self.loss = rho, 0.0
        self._squares = dict.fromkeys(("gap", "change", "total", "z", "dual"), 0.0)

    def add(self, loss: float, **vectors: Array) -> None:
        """Add a block.

        Parameters
        ----------
        loss : float
            Of the block.
        **vectors : ndarray of shape (n_rows,)
            gap, change, total, z and dual: sum of shares minus z, change of z, sum of shares,
            z, dual over rho.
        """
        self.loss += loss
        for name, vector in vectors.items():
            self._squares[name] += float(vector @ vector)

    @property
    def primal(self) -> float:
        """Norm of the sum of shares minus z."""
        return math.sqrt(self._squares["gap"])

    @property
    def dual(self) -> float:
        """Rho times the norm of the change of z."""
        return self.rho * math.sqrt(self._squares["change"])

    def converged(self, n_samples: int, tol: float) -> bool:
        """Compare both with their tolerances (Boyd et al. 2011, section 3.3.1).

        Parameters
        ----------
        n_samples : int
            Number of rows.
        tol : float
            Absolute, a sample, and relative at once.

        Returns
        -------
        bool
            Whether both are within their tolerances.
        """
        scores = max(self._squares["total"], self._squares["z"])
        primal = math.sqrt(n_samples) + math.sqrt(scores)
        dual = self.rho * (math.sqrt(n_samples) + math.sqrt(self._squares["dual"]))
        return self.primal <= tol * primal and self.dual <= tol * dual


class Coordinator:
    """The label holder: adds up the shares, and says what they should have been.

    z minimises ``loss(z) + rho/2 ||z - center||^2`` sample by sample, and the dual
    y = rho (center - z) is the gradient of the loss at z. The message is y over rho and, for
    "boyd", the number of parties. Its sign is the sign of minus the label: whoever sees it
    has every label.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.
    settings : Settings
        The public constants of the run.

    Raises
    ------
    InvalidParameterError
        The labels are of another number or value.
    """

    def __init__(self, y: Array, settings: Settings) -> None:
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        if self.y.shape != (settings.n_samples,):
            raise InvalidParameterError("y", f"of shape ({settings.n_samples},)", self.y.shape)
        if not (np.abs(self.y) == 1).all():
            raise InvalidParameterError("y", "-1 or +1", "another label")
        self.settings = settings
        self.center, self.z = np.zeros_like(self.y), np.zeros_like(self.y)
        self._zeros = np.zeros(len(self.y))
        self.residuals = Residuals(settings.rho)

    @property
    def dual(self) -> Array:
        """The dual variable y."""
        dual: Array = self.settings.rho * (self.center - self.z)
        return dual

    def begin(self) -> None:
        """Begin a round: forget the residuals of the last one."""
        self.residuals = Residuals(self.settings.rho)

    def step(self, rows: slice, total: Array) -> Array:
        """Take a block of the sum of all shares, and give that block of the next message.

        Parameters
        ----------
        rows : slice
            One of ``settings.blocks``.
        total : ndarray of shape (n_rows,)
            Sum of the parties' shares, in the order of the parties.

        Returns
        -------
        ndarray of shape (n_rows,), float64
            The block of the message.
        """
        labels, old = self.y[rows], self.z[rows]
        gap = total - old
        self.center[rows] += self.settings.over_relaxation * gap
        center = self.center[rows]
        new = logistic_prox(center, self._zeros[rows], labels, c=1.0, rho=self.settings.rho)
        dual = center - new
        loss = loss_gradient(total, labels)[0]
        self.residuals.add(loss, gap=gap, change=new - old, total=total, z=new, dual=dual)
        self.z[rows] = new
        message: Array = dual / self.settings.averaged
        return message

    def reply(self, shares: list[Array]) -> Array:
        """Run a whole round: take every party's share, and give the next message.

        Parameters
        ----------
        shares : list of ndarray of shape (n_samples,)
            In the order of the parties; empty before the first round.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            The message.

        Raises
        ------
        InvalidParameterError
            A share is missing, of another length, or not finite.
        """
        n = len(self.y)
        if len(shares) not in (0, self.settings.n_parties):
            raise InvalidParameterError("shares", f"{self.settings.n_parties}", len(shares))
        for i, share in enumerate(shares):
            if share.shape != (n,) or not np.isfinite(share).all():
                raise InvalidParameterError(f"share of party {i}", f"{n} finite numbers", "others")
        self.begin()
        total = sum(shares[1:], shares[0]) if shares else self._zeros
        return np.concatenate([self.step(rows, total[rows]) for rows in self.settings.blocks])

    def state(self) -> dict[str, Array]:
        """What `restore` needs to go on in another process.

        Returns
        -------
        dict of str to ndarray
            Copies.
        """
        return {"center": self.center.copy(), "z": self.z.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a coordinator with the same labels and settings.

        Parameters
        ----------
        state : dict
            From `state`.
        """
        self.center = np.array(state["center"], dtype=np.float64)
        self.z = np.array(state["z"], dtype=np.float64)
