"""Private stacking and transfer: models of parts of the rows or columns, combined."""

from privlr.stacking._low_level import LowLevelModel
from privlr.stacking._record import StackRecord
from privlr.stacking.feature import FeatureStackingClassifier
from privlr.stacking.sample import SampleStackingClassifier
from privlr.stacking.transfer import TransferSourceClassifier, TransferStackingClassifier

__all__ = [
    "FeatureStackingClassifier",
    "LowLevelModel",
    "SampleStackingClassifier",
    "StackRecord",
    "TransferSourceClassifier",
    "TransferStackingClassifier",
]
