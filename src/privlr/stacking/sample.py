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
    data_norm : float, default=1.0
        Bound on the norm of a row, a constant that is not computed from the data.
    l2_reg_strength : float or "auto", default="auto"
        lambda of every model, as in `FeatureStackingClassifier`.
    loss : {"auto", "logistic", "capped"}, default="auto"
        As in `FeatureStackingClassifier`.
    pipeline : {"privlr", "published"}, default="privlr"
        "published" is the paper's, for replication.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int, default="stack"
        As in `FeatureStackingClassifier`; "sum" is the mean of the log-odds, as all models see
        the same columns.
    levels : {"disjoint", "shared"}, default="disjoint"
        Whether the levels divide the rows or the budget.
    fit_intercept : bool, default=True
        Whether the models of both levels have an intercept. Rows then carry the constant 1,
        which `data_norm` bounds with the rest.
    classes : sequence or "public"
        The possible labels, declared.
    partition_seed : int, default=0
        Public seed of the partitions, which look at no data.
    ledger : privlr.privacy.Ledger or None, default=None
        Charged before noise is drawn. Clones share it.
    n_jobs : int or None, default=None
        Threads over models. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        None draws from the operating system; anything else voids the guarantee.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Models of the parts.
    coef_, intercept_, high_level_privacy_, classes_, privacy_, released_on_
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
        parts = split_rows(n_low, sizes, self.partition_seed, dealt=levels.dealt)
        return tuple(
            Part(
                levels.low_rows[rows] if levels.dealt else rows,
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
            for k, rows in enumerate(parts)
        )
