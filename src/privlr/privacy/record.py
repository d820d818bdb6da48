"""What a release says about its own privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privlr._validation import check_choice

__all__ = ["Charge", "Lattice", "PrivacyRecord", "check_claim"]


@dataclass(frozen=True, slots=True)
class Charge:
    """One entry of a ledger.

    Attributes
    ----------
    label : str
        What was run.
    epsilon, delta : Fraction
        What it cost, exactly.
    note : str
        Anything a reader of the total must know, such as that the run was seeded.
    """

    label: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lattice:
    """The grid that released coefficients lie on, and the noise that hides the solver's error.

    Attributes
    ----------
    step : float
        Spacing of the grid, a power of two.
    scale : int
        Scale of the discrete Laplace noise, in steps.
    epsilon : float
        The part of the budget that this noise takes.
    """

    step: float
    scale: int
    epsilon: float


def check_claim(record: Any) -> None:
    """Refuse a record that claims a guarantee it cannot have, or denies one without a reason.

    Parameters
    ----------
    record : object
        With the attributes ``random_source``, ``private`` and ``notes`` of a `PrivacyRecord`.

    Raises
    ------
    ValueError
        If it does.
    """
    check_choice("random_source", record.random_source, ("system", "seeded"))
    if record.private and record.random_source == "seeded":
        raise ValueError("a seeded release is not private: whoever has the seed has the noise")
    if not record.private and not record.notes:
        raise ValueError("a record without a guarantee must say why in its notes")


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyRecord:
    """The public facts of one private release; none of them depends on the data.

    Attributes
    ----------
    epsilon, delta : float
        Guarantee of the whole release.
    neighboring_relation : str
        "replace_one" or "add_remove".
    loss, calibration : str
        As in `privlr.privacy.calibrate`.
    beta, kappa, R : float
        Noise rate, ridge in sum form, bound on the norm of a row.
    n_samples : int
        Number of rows; under "add_remove" the declared public number.
    max_sample_weight : float
        Bound on the weight of a row.
    n_classes : int
        Number of declared classes.
    certificate : float
        The public bound on the gradient norm (sum form) that the computed minimiser met.
    lattice : Lattice or None
        The grid of the release, None if it was not put on one.
    random_source : {"system", "seeded"}
        Where the noise's bits came from.
    private : bool
        Whether the guarantee holds; if not, `notes` says why.
    public : tuple of str
        What was declared public, such as "classes".
    charges : tuple of Charge
        What the ledger was charged.
    notes : tuple of str
        What a reader must know, such as why there is no guarantee.
    """

    epsilon: float
    neighboring_relation: str
    loss: str
    calibration: str
    beta: float
    kappa: float
    R: float
    n_samples: int
    certificate: float
    delta: float = 0.0
    max_sample_weight: float = 1.0
    n_classes: int = 2
    lattice: Lattice | None = None
    random_source: str = "system"
    private: bool = True
    public: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_claim(self)
