"""What a party does to its solution and its share before anything leaves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privlr.exceptions import ConvergenceError, InvalidParameterError, PrivacyBudgetError
from privlr.mechanisms import RandomSource, add_gaussian_noise
from privlr.optimize import Columns
from privlr.privacy import ShareCalibration
from privlr.vertical._ridge import PrimalRidge, Ridge

__all__ = ["ColumnSpaceNoise", "ExactShares", "NoisyShares"]

Array = NDArray[np.float64]
UNIT = 2.0**-53


@dataclass(frozen=True)
class ExactShares:
    """No noise: for parties that trust each other with their shares."""

    radius: float | None = None
    clip: float = np.inf
    needs_spectrum = False

    @property
    def cost(self) -> tuple[float, float, str]:
        """Epsilon and delta of all releases, and a note for the ledger."""
        return 0.0, 0.0, "no guarantee: the shares are not protected"

    def check(self, shape: tuple[int, int], alpha: float) -> None:
        """Look at the problem that the party's shares will come from."""

    def settle(self, ridge: Ridge, columns: Columns, round: int, random: RandomSource) -> None:
        """Look at a new solution, before any of it is shared."""

    def publish(self, share: Array, round: int, random: RandomSource) -> Array:
        """Return what leaves the party in place of its share."""
        return share


@dataclass(frozen=True)
class NoisyShares(ExactShares):
    """Shares on a ball, certified, with isotropic Gaussian noise rounded to a public grid.

    Parameters
    ----------
    calibration : ShareCalibration
        Bounds, noise and number of releases.
    """

    calibration: ShareCalibration | None = None

    @classmethod
    def calibrated(cls, calibration: ShareCalibration) -> NoisyShares:
        """Release under a calibration."""
        return cls(calibration.radius, calibration.clip, calibration)

    @property
    def cost(self) -> tuple[float, float, str]:
        """Epsilon and delta of all releases, and a note for the ledger."""
        assert self.calibration is not None
        return self.calibration.epsilon, self.calibration.delta, ""

    def check(self, shape: tuple[int, int], alpha: float) -> None:
        """Refuse noise that was made for another problem.

        Raises
        ------
        InvalidParameterError
            More rows, more columns or a larger ridge than the calibration allows for; or a
            smaller ridge, on which the sensitivity depends where `clip` exceeds the radius.
        """
        chosen = self.calibration
        assert chosen is not None
        largest = (chosen.n_samples, chosen.n_features, chosen.alpha * (1 + 8 * UNIT))
        least = chosen.alpha * (1 - 8 * UNIT) if chosen.clip > chosen.radius else 0.0
        if any(a > b for a, b in zip((*shape, alpha), largest, strict=True)) or alpha < least:
            raise InvalidParameterError(
                "release",
                f"calibrated for n_samples={shape[0]}, n_features={shape[1]}, alpha={alpha:g}",
                f"{chosen.n_samples}, {chosen.n_features}, {chosen.alpha:g}",
            )

    def settle(self, ridge: Ridge, columns: Columns, round: int, random: RandomSource) -> None:
        """Make sure of the ball and of the variational inequality that the noise assumes.

        Raises
        ------
        ConvergenceError
            The computed solution is not accurate enough; nothing is released.
        """
        assert self.calibration is not None
        radius, (n, d) = self.calibration.radius, ridge.shape
        largest = radius * (1 - (d + n + 32) * UNIT)
        length = float(np.linalg.norm(ridge.coef))
        if length > largest:
            ridge.solution *= largest / length
        coef = ridge.coef
        slope = columns.slope(coef) + ridge.alpha * coef
        # min over the ball of <slope, x' - x>, negated; the calibration allows twice the
        # rounding error of its evaluation.
        violation = radius * float(np.linalg.norm(slope)) + float(slope @ coef)
        # Rounding may have undone what shortening did.
        inside = float(np.linalg.norm(coef)) <= radius * (1 - (d + 16) * UNIT)
        if not (inside and violation <= self.calibration.optimality / 2):
            raise ConvergenceError(
                "a share did not reach the accuracy that its noise assumes; nothing more is "
                "released and the budget stays spent"
            )

    def publish(self, share: Array, round: int, random: RandomSource) -> Array:
        """Add the noise.

        Raises
        ------
        PrivacyBudgetError
            Every release that was paid for has been made.
        """
        assert self.calibration is not None
        if round > self.calibration.rounds:
            raise PrivacyBudgetError(f"{self.calibration.rounds} releases were paid for, not more")
        return add_gaussian_noise(
            share,
            self.calibration.sigma,
            self.calibration.grid,
            random.at(*random.part, "share", round),
        )


@dataclass(frozen=True)
class ColumnSpaceNoise(ExactShares):
    """The published mechanism, which is not private: noise in the column space of the data.

    Parameters
    ----------
    sigma : float
        Noise N(0, sigma^2 (D'D)^-1) on the coefficients, on the row space of D where D'D
        has no inverse.
    """

    sigma: float = 0.0
    needs_spectrum = True

    def settle(self, ridge: Ridge, columns: Columns, round: int, random: RandomSource) -> None:
        """Perturb the coefficients."""
        values, vectors = ridge.values, ridge.vectors
        normal = add_gaussian_noise(
            np.zeros(len(values)), 1.0, 2.0**-30, random.at(*random.part, "coefficients", round)
        )
        kept = values > 1e-10 * values[-1]
        # The share X x then carries noise N(0, sigma^2 P), P the projection on the columns.
        power = -0.5 if isinstance(ridge, PrimalRidge) else -1.0
        ridge.solution += self.sigma * vectors[:, kept] @ (normal[kept] * values[kept] ** power)
