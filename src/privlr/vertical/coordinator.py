"""The label holder's side of a vertical run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privlr.exceptions import InvalidParameterError
from privlr.optimize import Labels
from privlr.vertical.settings import Settings

__all__ = ["Coordinator", "Residuals"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Residuals:
    """What one round showed the coordinator.

    Attributes
    ----------
    rho : float
        Weight of the augmented Lagrangian.
    loss : float
        Summed logistic loss of the shares received.
    primal : float
        Norm of the sum of shares minus z.
    change, total, level, multiplier : float
        Norms of the change of z, of the sum of shares, of z, and of the dual over rho.
    """

    rho: float
    loss: float
    primal: float
    change: float
    total: float
    level: float
    multiplier: float

    @property
    def dual(self) -> float:
        """Rho times the norm of the change of z."""
        return self.rho * self.change

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
        primal = math.sqrt(n_samples) + max(self.total, self.level)
        dual = self.rho * (math.sqrt(n_samples) + self.multiplier)
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
        labels = np.ascontiguousarray(y, dtype=np.float64)
        if labels.shape != (settings.n_samples,):
            raise InvalidParameterError("y", f"of shape ({settings.n_samples},)", labels.shape)
        if not (np.abs(labels) == 1).all():
            raise InvalidParameterError("y", "-1 or +1", "another label")
        self.settings = settings
        self.labels = Labels(
            labels,
            block=settings.block,
            rho=settings.rho,
            over_relaxation=settings.over_relaxation,
            averaged=settings.averaged,
        )

    @property
    def z(self) -> Array:
        """What the sum of the shares should be."""
        return self.labels.z

    @property
    def dual(self) -> Array:
        """The dual variable y."""
        dual: Array = self.settings.rho * (self.labels.center - self.labels.z)
        return dual

    @property
    def message(self) -> Array:
        """The last message."""
        message: Array = (self.labels.center - self.labels.z) / self.settings.averaged
        return message

    @property
    def residuals(self) -> Residuals:
        """Of the last round."""
        loss, *squares = self.labels.sums
        return Residuals(self.settings.rho, loss, *map(math.sqrt, squares))

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
        n = self.settings.n_samples
        if len(shares) not in (0, self.settings.n_parties):
            raise InvalidParameterError("shares", f"{self.settings.n_parties}", len(shares))
        for i, share in enumerate(shares):
            if share.shape != (n,) or not np.isfinite(share).all():
                raise InvalidParameterError(f"share of party {i}", f"{n} finite numbers", "others")
        total = sum(shares[1:], shares[0]) if shares else np.zeros(n)
        return self.labels.step(total)

    def state(self) -> dict[str, Array]:
        """What `restore` needs to go on in another process.

        Returns
        -------
        dict of str to ndarray
            Copies.
        """
        return {"center": self.labels.center.copy(), "z": self.labels.z.copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of a coordinator with the same labels and settings.

        Parameters
        ----------
        state : dict
            From `state`.
        """
        self.labels.center[:] = state["center"]
        self.labels.z[:] = state["z"]
