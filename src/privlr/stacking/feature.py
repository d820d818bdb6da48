"""Stacking of models of disjoint columns (PST-F)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privlr.privacy import Ledger
from privlr.stacking._base import Levels, StackingClassifier
from privlr.stacking._low_level import Part, plan_groups
from privlr.stacking._partition import FeatureGroup, feature_groups

__all__ = ["FeatureStackingClassifier", "GroupedStackingClassifier"]


class GroupedStackingClassifier(StackingClassifier):
    """Base of the stacks whose models share every row and divide its columns; see there."""

    groups: Any
    n_groups: int
    importance: ArrayLike | None
    importance_power: float

    def _feature_groups(self, n_features: int) -> tuple[FeatureGroup, ...]:
        return feature_groups(
            n_features,
            groups=self.groups,
            n_groups=self.n_groups,
            importance=self.importance,
            importance_power=self.importance_power,
            seed=self.partition_seed,
        )

    def _priors(self, groups: tuple[FeatureGroup, ...]) -> list[NDArray[np.float64] | None]:
        return [None] * len(groups)

    def _parts(self, levels: Levels, n_features: int, n_classes: int) -> tuple[Part, ...]:
        groups = self._feature_groups(n_features)
        priors = self._priors(groups)
        plans = plan_groups(
            levels.low_epsilon,
            groups,
            n_samples=len(levels.low_rows),
            data_norm=self._bound,
            l2_reg_strength=self.l2_reg_strength,
            loss=self._loss(n_classes),
            published=self._published,
            n_classes=n_classes,
            prior_norms=[0.0 if u is None else float(np.linalg.norm(u)) for u in priors],
        )
        return tuple(
            Part(levels.low_rows, group, planned, key=int(group.columns.min()), prior_mean=prior)
            for group, planned, prior in zip(groups, plans, priors, strict=True)
        )


class FeatureStackingClassifier(GroupedStackingClassifier):
    """Private models of groups of columns, stacked (PST-F).

    One model for each group of columns, all on the same rows, divide the budget as the
    groups divide a row's norm; a private regression on their predictions combines them.

    Parameters
    ----------
    epsilon : float
        Budget of everything that `fit` releases, in nats.
    groups : sequence of sequences of int, or None, default=None
        Columns of each group. None: sorted by importance and cut into `n_groups` of equal
        size (PST-F(W)); at random without importance (PST-F(U)).
    n_groups : int, default=5
        K, where `groups` is None.
    importance : array-like of shape (n_features,) or None, default=None
        Public importance of each column. Group k's share q_k of norm and budget is the share
        of its importance; groups without any are left out. None: equal shares.
    importance_power : float, default=1.0
        Exponent of the importance. Where the importances are good, 1.5 to 2 serves small
        budgets better.
    data_norm : float, default=1.0
        Group k's part of a row is clipped to this times q_k. A constant that must not be
        computed from the data.
    l2_reg_strength : float or "auto", default="auto"
        lambda of every model's mean-loss objective; raised where the mechanism needs more.
        "auto" depends on public quantities only: R^2 d_k/(2 n epsilon) for d_k columns.
    loss : {"auto", "logistic", "capped"}, default="auto"
        As in `PrivateLogisticRegression`. "auto" is "capped" for two classes, whose stacks
        rank and fit better with it at the same epsilon; "logistic" for more of them, and
        where the pipeline is published.
    pipeline : {"privlr", "published"}, default="privlr"
        "published" is the paper's: its calibration, half of the rows at each level,
        probabilities as meta features. For replication.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int, default="stack"
        "stack" fits the upper level, whose penalty is centred at "sum". The others need
        none, so the models below get every row: the sum of the models' log-odds, a majority
        vote, one weighted by q_k, or one model alone.
    levels : {"disjoint", "shared"}, default="disjoint"
        Whether the levels divide the rows (nine tenths below) or the budget.
    fit_intercept : bool, default=True
        Whether the upper level has an intercept; the groups have none.
    classes : sequence or "public"
        The possible labels, declared. "public" takes them from y, and says so in the record.
    partition_seed : int, default=0
        Public seed of the partitions, which look at no data.
    ledger : privlr.privacy.Ledger or None, default=None
        Charged before noise is drawn. Clones share it.
    n_jobs : int or None, default=None
        Threads over groups. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        None draws from the operating system. Anything else repeats the noise: it warns, and
        `privacy_.private` is then False.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Models of the groups.
    coef_, intercept_ : ndarray
        Those of the upper level, one coefficient a model; only with ``combiner="stack"``.
    high_level_privacy_ : PrivacyRecord
        Guarantee and public constants of the upper level; only with ``combiner="stack"``.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    data_norm_ : float
        Bound that rows are clipped to, before it is divided over groups.
    privacy_ : StackRecord
        The guarantee of the whole, and its items.
    released_on_ : datetime.date
        The day (UTC) of the fit.

    Notes
    -----
    **Guarantee.** Everything `fit` stores is epsilon-differentially private together.

    **Neighbouring relation.** One row replaced; the number of rows is public.

    **Assumptions.** One row per person; groups, importances and all other parameters are
    chosen without looking at the private data.

    **Source.** Guo et al., Privacy-preserving stacking, IJCAI 2019, PST-F; calibrated as in
    :func:`privlr.privacy.calibrate_groups`.

    **Not covered.** Importances computed from the private rows, and what
    `PrivateLogisticRegression` does not cover.
    """

    def __init__(
        self,
        epsilon: float,
        *,
        groups: Any = None,
        n_groups: int = 5,
        importance: ArrayLike | None = None,
        importance_power: float = 1.0,
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
        self.groups = groups
        self.n_groups = n_groups
        self.importance = importance
        self.importance_power = importance_power
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
