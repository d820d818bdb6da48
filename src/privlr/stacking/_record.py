"""What a stack says about its own privacy."""

from __future__ import annotations

from dataclasses import dataclass

from privlr.privacy import Charge, check_claim

__all__ = ["SAME_ROWS", "StackRecord"]

#: In the label of a charge: it is for rows that others were charged for, too.
SAME_ROWS = "the same"


@dataclass(frozen=True, kw_only=True)
class StackRecord:
    """The guarantee of a stack, and the items it is made of.

    Attributes
    ----------
    epsilon, delta : float
        Guarantee of everything that the fit released, together.
    neighboring_relation : str
        "replace_one".
    pipeline : str
        "privlr" or "published".
    charges : tuple of Charge
        Cost of each item. Items on disjoint rows run in parallel: a row pays the dearest.
        Others add up.
    public : tuple of str
        What was declared public.
    random_source : {"system", "seeded"}
        Where the noise's bits came from.
    private : bool
        Whether the guarantee holds; if not, `notes` says why.
    notes : tuple of str
        What a reader must know.
    """

    epsilon: float
    pipeline: str
    charges: tuple[Charge, ...]
    public: tuple[str, ...]
    delta: float = 0.0
    neighboring_relation: str = "replace_one"
    random_source: str = "system"
    private: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_claim(self)

    @property
    def shares_rows(self) -> bool:
        """Whether the levels are of the same rows, so that their costs add up."""
        return any(f"on {SAME_ROWS} " in charge.label for charge in self.charges)

    @property
    def items(self) -> str:
        """The items in one line, for a ledger."""
        return "; ".join(f"{item.label}: {float(item.epsilon):g}" for item in self.charges)
