"""Vertical learning: parties that hold different columns of the same samples."""

from privlr.vertical._align import align, id_digest
from privlr.vertical._record import VerticalRecord
from privlr.vertical._release import ColumnSpaceNoise, ExactShares, NoisyShares
from privlr.vertical.baselines import fdml_sgd
from privlr.vertical.coordinator import Coordinator
from privlr.vertical.logistic import VerticalLogisticRegression
from privlr.vertical.party import Party
from privlr.vertical.settings import Settings
from privlr.vertical.sharing import ADMMSharing, Iteration

__all__ = [
    "ADMMSharing",
    "ColumnSpaceNoise",
    "Coordinator",
    "ExactShares",
    "Iteration",
    "NoisyShares",
    "Party",
    "Settings",
    "VerticalLogisticRegression",
    "VerticalRecord",
    "align",
    "fdml_sgd",
    "id_digest",
]
