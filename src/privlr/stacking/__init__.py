"""Private stacking and transfer: models of parts of the rows or columns, combined."""

from privlr.stacking._low_level import LowLevelModel
from privlr.stacking._record import StackRecord
from privlr.stacking.feature import FeatureStackingClassifier
from privlr.stacking.file import SCHEMA, ReleasedStack, load_stack, save_stack
from privlr.stacking.sample import SampleStackingClassifier
from privlr.stacking.transfer import TransferSourceClassifier, TransferStackingClassifier

__all__ = [
    "SCHEMA",
    "FeatureStackingClassifier",
    "LowLevelModel",
    "ReleasedStack",
    "SampleStackingClassifier",
    "StackRecord",
    "TransferSourceClassifier",
    "TransferStackingClassifier",
    "load_stack",
    "save_stack",
]
