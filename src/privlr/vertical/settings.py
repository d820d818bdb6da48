"""The public constants of a run, which every party and the coordinator hold alike."""

from __future__ import annotations

from dataclasses import dataclass

from privlr._validation import check_choice, check_integer, check_positive
from privlr.exceptions import InvalidParameterError

__all__ = ["Settings"]

#: Values of all parties that are worked on together: half of a processor's second-level cache.
BLOCK_VALUES = 2**16


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Public constants of a run of ADMM sharing.

    Attributes
    ----------
    n_samples, n_parties, n_features : int
        Rows, parties, and columns of all parties together.
    ridge : float
        lambda of the summed loss: ``n_samples * l2_reg_strength``.
    rho : float, default=0.05
        Weight of the augmented Lagrangian, for the summed loss.
    form : {"boyd", "jacobi"}, default="boyd"
        "boyd" shares through the average of the parties and converges for every rho;
        "jacobi" is the published update, which may diverge.
    over_relaxation : float, default=1.6
        Between 0 and 2; 1 for none.
    """

    n_samples: int
    n_parties: int
    n_features: int
    ridge: float
    rho: float = 0.05
    form: str = "boyd"
    over_relaxation: float = 1.6

    def __post_init__(self) -> None:
        for name in ("n_samples", "n_parties", "n_features"):
            check_integer(name, getattr(self, name))
        check_positive("ridge", self.ridge)
        check_positive("rho", self.rho)
        check_choice("form", self.form, ("boyd", "jacobi"))
        if not 0 < check_positive("over_relaxation", self.over_relaxation) < 2:
            raise InvalidParameterError(
                "over_relaxation", "strictly between 0 and 2", self.over_relaxation
            )

    @property
    def averaged(self) -> int:
        """Number of parties that divide a change among them: all of them, or 1 for "jacobi"."""
        return self.n_parties if self.form == "boyd" else 1

    @property
    def alpha(self) -> float:
        """Ridge of a party's least-squares problem."""
        return self.ridge / (self.rho * self.averaged)

    @property
    def block(self) -> int:
        """Rows that are worked on together; it fixes every rounding."""
        return min(max(BLOCK_VALUES // self.n_features // 8 * 8, 16), 128)
