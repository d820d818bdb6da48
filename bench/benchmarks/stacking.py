"""Time of a stack beside one regression of the same size."""

import time

import numpy as np

from privlr.linear_model import PrivateLogisticRegression
from privlr.stacking import FeatureStackingClassifier, SampleStackingClassifier

from .solve import problem


class Stack:
    """One private fit at 30,000 x 100 with the capped loss, by kind of model."""

    params = (["ungrouped", "10 groups", "10 groups, no upper level", "10 parts"],)
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        self.X, self.y = problem(30_000, 100)
        common = {"classes": [-1, 1], "loss": "capped", "fit_intercept": False}
        importance = np.arange(100, 0, -1.0)
        self.model = {
            "ungrouped": lambda: PrivateLogisticRegression(1.0, **common),
            "10 groups": lambda: FeatureStackingClassifier(
                1.0, n_groups=10, importance=importance, **common
            ),
            "10 groups, no upper level": lambda: FeatureStackingClassifier(
                1.0, n_groups=10, importance=importance, combiner="sum", **common
            ),
            "10 parts": lambda: SampleStackingClassifier(1.0, n_parts=10, **common),
        }[kind]()

    def time_fit(self, kind: str) -> None:
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, kind: str) -> None:
        self.model.fit(self.X, self.y)


class Beside:
    """CPU time of a fit of 10 groups, over that of one ungrouped fit that alternates with it."""

    params = ([0.1, 1.0, 10.0], ["logistic", "capped"])
    param_names = ("epsilon", "loss")
    unit = "times"

    def setup(self, epsilon: float, loss: str) -> None:
        self.X, self.y = problem(30_000, 100)
        common = {"classes": [-1, 1], "loss": loss}
        self.models = (
            FeatureStackingClassifier(epsilon, n_groups=10, **common),
            PrivateLogisticRegression(epsilon, **common),
        )

    def track_ratio(self, epsilon: float, loss: str) -> float:
        spent: tuple[list[float], list[float]] = ([], [])
        for _ in range(16):
            for model, times in zip(self.models, spent, strict=True):
                begun = time.process_time()
                model.fit(self.X, self.y)
                times.append(time.process_time() - begun)
        return min(spent[0]) / min(spent[1])
