"""Stacking of models of disjoint rows (PST-S)."""

from __future__ import annotations

from typing import Any

import numpy as np

from privlr._validation import check_integer
from privlr.mechanisms import plan
from privlr.privacy import Ledger
from privlr.stacking._base import Levels, StackingClassifier
from privlr.stacking._low_level import Part
from privlr.stacking._partition import FeatureGroup, split_rows

__all__ = ["SampleStackingClassifier"]


class SampleStackingClassifier(StackingClassifier):
    """Private models of disjoint sets of rows, stacked (PST-S).

    Parameters
    ----------
    epsilon : float
        Budget of everything that `fit` releases.
    n_parts : int, default=5
        K, the number of models below.
    data_norm, l2_reg_strength, loss, pipeline, combiner, levels, fit_intercept, classes
        As in `FeatureStackingClassifier`; rows of the models below too carry the constant
        of the intercept.
    partition_seed, ledger, n_jobs, random_state
        As in `FeatureStackingClassifier`.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Models of the parts.
    coef_, intercept_, high_level_privacy_, classes_, privacy_
        As in `FeatureStackingClassifier`.

    Notes
    -----
    **Guarantee.** Everything `fit` stores is epsilon-differentially private together.

    **Neighbouring relation.** One row replaced; the number of rows is public.

    **Assumptions.** One row per person; parameters are chosen without looking at the data.
    A row enters one part, or one part and the upper level.

    **Source.** Guo et al., Privacy-preserving stacking, IJCAI 2019, PST-S; calibrated as in
    :func:`privlr.privacy.calibrate` unless published.

    **Not covered.** What `PrivateLogisticRegression` does not cover.
    """

    def __init__(
        self,
        epsilon: float,
        *,
        n_parts: int = 5,
        data_norm: float = 1.0,
        l2_reg_strength: float | str = "auto",
        loss: str = "auto",
        pipeline: str = "privlr",
        combiner: str | int = "stack",
        levels: str = "disjoint",
        fit_intercept: bool = True,
        classes: Any = None,
        partition_seed: int = 0,
        ledger: Ledger | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_parts = n_parts
        self.data_norm = data_norm
        self.l2_reg_strength = l2_reg_strength
        self.loss = loss
        self.pipeline = pipeline
        self.combiner = combiner
        self.levels = levels
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.partition_seed = partition_seed
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _parts(self, levels: Levels, n_features: int, n_classes: int) -> tuple[Part, ...]:
        count = check_integer("n_parts", self.n_parts)
        n_low = len(levels.low_rows)
        sizes = [n_low // count + (k < n_low % count) for k in range(count)]
        every = FeatureGroup(np.arange(n_features), 1 / count)
        return tuple(
            Part(
                levels.low_rows[rows],
                every,
                plan(
                    levels.low_epsilon,
                    n_samples=len(rows),
                    width=n_features + bool(self.fit_intercept),
                    data_norm=self._bound,
                    l2_reg_strength=self.l2_reg_strength,
                    loss=self._loss(n_classes),
                    calibration="cms2011" if self._published else "tight",
                    n_classes=n_classes,
                ),
                key=k,
                intercept=bool(self.fit_intercept),
            )
            for k, rows in enumerate(split_rows(n_low, sizes, self.partition_seed))
        )
