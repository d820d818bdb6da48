"""Transfer of released group models to another organisation (PST-H)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from privlr._validation import LARGEST, check_integer, check_positive
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import plan
from privlr.privacy import Charge, Ledger, exact
from privlr.stacking._base import Levels
from privlr.stacking._low_level import LowLevelModel, Part
from privlr.stacking._partition import FeatureGroup
from privlr.stacking.feature import GroupedStackingClassifier

__all__ = ["TransferSourceClassifier", "TransferStackingClassifier"]


class TransferSourceClassifier(GroupedStackingClassifier):
    """The source's side of a transfer: private models of groups of columns on all rows.

    The sum of their predictions is a classifier; `TransferStackingClassifier` takes it as `source`.

    Parameters
    ----------
    epsilon : float
        Budget of all groups together; under "published" of each.
    groups : sequence of sequences of int, or None, default=None
        Columns of each group, as in `FeatureStackingClassifier`.
    n_groups : int, default=5
        K, where `groups` is None.
    importance : array-like of shape (n_features,) or None, default=None
        Public importance of each column.
    importance_power : float, default=1.0
        Exponent of the importance.
    data_norm : float, default=1.0
        Bound on the norm of a row, a constant that is not computed from the data.
    l2_reg_strength : float or "auto", default="auto"
        lambda of every model, as in `FeatureStackingClassifier`.
    loss : {"auto", "logistic", "capped"}, default="auto"
        As in `FeatureStackingClassifier`.
    pipeline : {"privlr", "published"}, default="privlr"
        "published" runs one private regression at `epsilon` and the full `data_norm` on each
        group. The groups are columns of the same rows, so this costs K epsilon, not the
        epsilon that the paper states, and K epsilon is what the ledger is charged.
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
        Models of the groups.
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
    **Guarantee.** The models are together epsilon-differentially private; under "published"
    K epsilon-differentially private.

    **Neighbouring relation.** One row replaced; the number of rows is public.

    **Assumptions.** Those of `FeatureStackingClassifier`.

    **Source.** Guo et al., Privacy-preserving stacking, IJCAI 2019, PST-H, first phase, with
    the shares q_k of PST-F.

    **Not covered.** What `FeatureStackingClassifier` does not cover.
    """

    #: The source releases its group models only, so there is no upper level.
    combiner = "sum"
    levels = "disjoint"
    fit_intercept = False

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
        self.classes = classes
        self.partition_seed = partition_seed
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _parts(self, levels: Levels, n_features: int, n_classes: int) -> tuple[Part, ...]:
        if not self._published:
            return super()._parts(levels, n_features, n_classes)
        return tuple(
            Part(
                levels.low_rows,
                group,
                plan(
                    self.epsilon,
                    n_samples=len(levels.low_rows),
                    width=len(group.columns),
                    data_norm=self._bound,
                    l2_reg_strength=self.l2_reg_strength,
                    loss=self._loss(n_classes),
                    calibration="cms2011",
                ),
                key=int(group.columns.min()),
            )
            for group in self._feature_groups(n_features)
        )

    def _whole_cost(self) -> Fraction:
        count = self.n_groups if self.groups is None else len(self.groups)
        times = check_integer("n_groups", count) if self._published else 1
        return times * super()._whole_cost()

    def _low_charges(self, levels: Levels, parts: Sequence[Part]) -> tuple[Charge, ...]:
        if not self._published:
            return super()._low_charges(levels, parts)
        label = f"{len(parts)} regressions on the same {len(levels.low_rows)} rows"
        return (Charge(label, len(parts) * exact("epsilon", self.epsilon)),)


class TransferStackingClassifier(GroupedStackingClassifier):
    """Feature stacking whose penalties are centred at released models of a source (PST-H).

    Parameters
    ----------
    epsilon : float
        Budget of everything that `fit` releases.
    source : TransferSourceClassifier, FeatureStackingClassifier or loaded stack
        Released models of groups of the same columns. Groups and shares are the source's.
        One group and ``combiner=0`` is transfer of a single hypothesis without stacking.
    data_norm : float or None, default=None
        Bound on the norm of a row. None: the source's. Another one is refused.
    l2_reg_strength : float or "auto", default="auto"
        lambda of every model, as in `FeatureStackingClassifier`.
    loss : {"auto", "logistic", "capped"}, default="auto"
        As in `FeatureStackingClassifier`.
    pipeline : {"privlr", "published"}, default="privlr"
        "published" is the paper's, for replication.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int, default="stack"
        As in `FeatureStackingClassifier`.
    levels : {"disjoint", "shared"}, default="disjoint"
        Whether the levels divide the rows or the budget.
    fit_intercept : bool, default=True
        Whether the upper level has an intercept.
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
    low_level_, coef_, intercept_, high_level_privacy_, classes_, privacy_, released_on_
        As in `FeatureStackingClassifier`.

    Notes
    -----
    **Guarantee.** Everything `fit` stores is epsilon-differentially private together, for the
    rows of the target. The source paid for its models itself.

    **Neighbouring relation.** One row of the target replaced; the number of rows is public.

    **Assumptions.** Those of `FeatureStackingClassifier`; the source's models were released
    with a guarantee, and on other persons' rows (else the two costs add up).

    **Source.** Guo et al., Privacy-preserving stacking, IJCAI 2019, PST-H, with both quadratic
    terms centred at the source's models.

    **Not covered.** The source's rows, and what `FeatureStackingClassifier` does not cover.
    """

    def __init__(
        self,
        epsilon: float,
        *,
        source: Any,
        data_norm: float | None = None,
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
        self.source = source
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

    def __sklearn_clone__(self) -> TransferStackingClassifier:
        """Keep the source: cloned as other parameters are, it would lose its models."""
        given = self.get_params(deep=False)
        source = given.pop("source")
        return type(self)(
            source=source, **{name: clone(value, safe=False) for name, value in given.items()}
        )

    @property
    def _bound(self) -> float:
        return check_positive("source.data_norm_", self.source.data_norm_)

    def _check_source(self, n_features: int, classes: Any) -> None:
        missing = [
            name
            for name in ("low_level_", "classes_", "n_features_in_", "data_norm_")
            if not hasattr(self.source, name)
        ]
        if missing:
            raise InvalidParameterError("source", "a fitted or loaded stack", self.source)
        if self.source.n_features_in_ != n_features:
            raise InvalidParameterError(
                "source", f"of {n_features} features", f"{self.source.n_features_in_} features"
            )
        names = getattr(self.source, "feature_names_in_", None)
        ours = getattr(self, "feature_names_in_", None)
        if names is not None and ours is not None and list(names) != list(ours):
            raise InvalidParameterError("source", f"of the features {list(ours)}", list(names))
        if classes is not None and not np.array_equal(self.source.classes_, classes):
            raise InvalidParameterError(
                "source", f"of the classes {classes.tolist()}", self.source.classes_.tolist()
            )
        if self.data_norm is not None:
            bound = check_positive("data_norm", self.data_norm)
            if bound != self._bound:
                raise InvalidParameterError(
                    "source", f"of rows clipped to {self.data_norm}", self._bound
                )
        n_outputs = 1 if len(self.source.classes_) == 2 else len(self.source.classes_)
        models = self.source.low_level_
        if not models or not all(
            isinstance(model, LowLevelModel)
            and np.asarray(model.columns).dtype.kind in "iu"
            and np.shape(model.coef_) == (n_outputs, np.size(model.columns))
            for model in models
        ):
            accepted = f"of models with {n_outputs} rows of a coefficient for each column"
            raise InvalidParameterError("source", accepted, "others")
        largest = float(np.max([np.abs(model.coef_).max(initial=0.0) for model in models]))
        if not largest <= LARGEST:
            raise InvalidParameterError("source", f"of coefficients up to {LARGEST:g}", largest)
        total = math.fsum(check_positive("source's share", model.share) for model in models)
        if not total <= 1 + 1e-12:
            raise InvalidParameterError("source", "of shares that add up to at most 1", total)
        every = np.concatenate([model.columns for model in models])
        if (
            len(np.unique(every)) < len(every)
            or not every.size
            or every.min() < 0
            or every.max() >= n_features
            or any(model.has_intercept for model in models)
        ):
            raise InvalidParameterError("source", "of models of disjoint columns", "others")

    def _source_notes(self) -> tuple[str, ...]:
        # What the target stores tells of the source's rows, too.
        record = getattr(self.source, "privacy_", None)
        return tuple(f"source: {note}" for note in getattr(record, "notes", ()))

    def _feature_groups(self, n_features: int) -> tuple[FeatureGroup, ...]:
        return tuple(FeatureGroup(m.columns, m.share) for m in self.source.low_level_)

    def _priors(self, groups: tuple[FeatureGroup, ...]) -> list[NDArray[np.float64] | None]:
        return [model.coef_.ravel() for model in self.source.low_level_]
