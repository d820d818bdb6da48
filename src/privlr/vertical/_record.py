"""What a vertical fit says about its own privacy."""

from __future__ import annotations

from dataclasses import dataclass

from privlr.privacy import check_claim

__all__ = ["VerticalRecord"]


@dataclass(frozen=True, kw_only=True)
class VerticalRecord:
    """What each party may learn of the others' data, and at what cost.

    Attributes
    ----------
    epsilon, delta : float or None
        Cost of the features, and of the labels where they are randomised, together; None
        where nothing bounds it.
    mechanism : str
        "shares", "statistics", "published", or "none".
    neighboring_relation : str
        "replace_one": a sample's row replaced in every party at once. "replace_part": in one
        party. Labels change with it only where they are randomised; the label holder's row
        does not where its scores are disclosed, as is then said here.
    features, labels, scores : str
        What protects the features in training, the labels, and the scores of samples that
        are predicted later.
    rounds : int
        Releases of each party that were paid for.
    mu : float or None
        Gaussian privacy parameter of the features.
    sigma : tuple of float
        Standard deviations of the noise.
    data_norm : tuple of float
        Bound on the norm of a row in each party.
    random_source : {"system", "seeded"}
        Where the noise's bits came from.
    private : bool
        Whether the guarantee holds; if not, `notes` says why.
    notes : tuple of str
        What a reader must know.
    """

    mechanism: str
    features: str
    labels: str
    scores: str
    epsilon: float | None = None
    delta: float | None = None
    neighboring_relation: str = "replace_one"
    rounds: int = 0
    mu: float | None = None
    sigma: tuple[float, ...] = ()
    data_norm: tuple[float, ...] = ()
    random_source: str = "system"
    private: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_claim(self)

    @property
    def summary(self) -> str:
        """One line for a ledger: the notes, and what covers features, labels and scores."""
        cover = (f"{name} {getattr(self, name)}" for name in ("features", "labels", "scores"))
        return "; ".join([*self.notes, *cover])

    @property
    def scope(self) -> str:
        """What the guarantee is for, in words."""
        return (
            "It is for what leaves the parties. "
            f"Features in training: {self.features}. Labels: {self.labels}. "
            f"Scores of later samples: {self.scores}."
        )
