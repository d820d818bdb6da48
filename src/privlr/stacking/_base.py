"""What the stacking estimators share: levels, budget, combiners."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from privlr._inputs import (
    check_labels,
    checked_rows,
    declared_classes,
    encode_labels,
    random_source,
    unchanged_if_refused,
    validated,
)
from privlr._numeric import check_finite
from privlr._pipeline import preprocessing_notes
from privlr._validation import check_choice, check_integer, check_n_jobs, check_positive
from privlr.card import ModelCard, model_card
from privlr.design import make_design, thread_map
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import Plan, RandomSource, Release, objective_perturbation, plan
from privlr.privacy import Charge, Ledger, auto_l2_reg_strength, exact
from privlr.stacking._combine import (
    META_NORM,
    check_combiner,
    combined,
    high_level_prior,
    meta_features,
    prior_bound,
    probabilities,
)
from privlr.stacking._low_level import (
    LowLevelModel,
    Part,
    designs,
    labels_of,
    raw_of,
    upper_designs,
)
from privlr.stacking._partition import Rows, split_rows
from privlr.stacking._record import SAME_ROWS, StackRecord

__all__ = ["Levels", "StackingClassifier"]

Array = NDArray[np.float64]

#: Share of the rows ("disjoint") or of epsilon ("shared") that the lower level takes.
LOW_LEVEL_SHARE = 0.9
PUBLISHED_LOW_LEVEL_SHARE = 0.5
#: The upper level's automatic ridge, as a multiple of a regression's own. Its penalty is
#: centred at a good model, so that a stronger pull costs little and tames the noise.
HIGH_LEVEL_RIDGE = 4.0


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows and budget of the two levels; no upper rows where there is no upper level.

    Of rows that are not `dealt` only the number counts, which is all that a plan needs.
    """

    low_rows: Rows
    low_epsilon: float
    high_rows: Rows | None = None
    high_epsilon: float = 0.0
    disjoint: bool = True
    dealt: bool = True


@dataclass(frozen=True, eq=False)
class _StackPlan:
    levels: Levels
    parts: tuple[Part, ...]
    high: Plan | None
    cost: Fraction
    record: StackRecord


class StackingClassifier(ClassifierMixin, BaseEstimator):
    """Base of the stacking estimators; see there."""

    epsilon: float
    data_norm: float | None
    l2_reg_strength: float | str
    loss: str
    pipeline: str
    combiner: str | int
    levels: str
    fit_intercept: bool
    classes: Any
    partition_seed: int
    ledger: Ledger | None
    n_jobs: int | None
    random_state: Any

    @abstractmethod
    def _parts(self, levels: Levels, n_features: int, n_classes: int) -> tuple[Part, ...]:
        """Plan the lower level."""

    def _low_charges(self, levels: Levels, parts: Sequence[Part]) -> tuple[Charge, ...]:
        """What the lower level costs."""
        label = f"low level, {len(parts)} models on {len(levels.low_rows)} rows"
        return (Charge(label, exact("epsilon", levels.low_epsilon)),)

    def _whole_cost(self) -> Fraction:
        """Cost of a fit to data of any shape."""
        return exact("epsilon", self.epsilon)

    @property
    def _published(self) -> bool:
        return check_choice("pipeline", self.pipeline, ("privlr", "published")) == "published"

    @property
    def _bound(self) -> float:
        """R, before it is divided over groups."""
        return check_positive("data_norm", self.data_norm)

    def _loss(self, n_classes: int) -> str:
        """Resolve "auto"."""
        if check_choice("loss", self.loss, ("auto", "logistic", "capped")) != "auto":
            return self.loss
        return "capped" if n_classes == 2 and not self._published else "logistic"

    def privacy_cost(
        self, n_samples: int | None = None, n_features: int | None = None
    ) -> StackRecord | Charge:
        """Tell what `fit` will cost, without any data.

        Parameters
        ----------
        n_samples, n_features : int or None, default=None
            Shape of the data to come. `classes` must be declared then.

        Returns
        -------
        Charge or StackRecord
            Epsilon and delta; with a shape, every item of it.

        Raises
        ------
        InvalidParameterError
            A parameter is outside its range, or the classes are not declared.
        """
        if n_samples is None or n_features is None:
            check_positive("epsilon", self.epsilon)
            return Charge(type(self).__name__, self._whole_cost())
        if isinstance(self.classes, str):
            raise InvalidParameterError("classes", "declared, to plan without data", self.classes)
        n_classes = len(declared_classes(self.classes))
        return self._plan(n_samples, n_features, n_classes, dealt=False).record

    @unchanged_if_refused
    def fit(self, X: Any, y: Any) -> Self:
        """Fit and release all models.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        StackingClassifier
            The estimator.

        Raises
        ------
        InvalidParameterError
            Bad parameters or data; no budget is spent.
        TypeError
            X holds objects that are no numbers; no budget is spent.
        PrivacyBudgetError
            The ledger does not hold the cost.
        ConvergenceError
            A certificate was not met; the budget stays spent.
        """
        X, y = validated(self, X, y)
        if isinstance(self.classes, str):
            check_labels(y)  # declared classes know their members
        classes = declared_classes(self.classes, y)
        labels = encode_labels(y, classes)
        planned = self._plan(X.shape[0], X.shape[1], len(classes), classes)
        clipped = designs(planned.parts, X, self.n_jobs)
        high_rows, high = planned.levels.high_rows, None
        if high_rows is not None:  # now, since nothing may be refused once it is paid for
            high = upper_designs(planned.parts, X, high_rows, clipped, self.n_jobs)
        read = set().union(*(part.group.columns.tolist() for part in planned.parts))
        if len(read) < X.shape[1]:  # designs looked at the others
            check_finite(X)
        source = random_source(self.random_state)
        record = replace(planned.record, notes=(*self._source_notes(), *preprocessing_notes()))
        if source.seed is not None:
            why = "random_state was set: whoever knows it can remove the noise"
            record = replace(
                record, random_source=source.name, private=False, notes=(*record.notes, why)
            )
        if self.ledger is not None:
            seeded = "" if record.private else " (seeded: not private)"
            self.ledger.charge(
                type(self).__name__,
                planned.cost,
                note=record.items + seeded,
            )
        models = self._low_level(planned.parts, clipped, labels, source)
        release = self._high_level(planned, models, high, labels, source)
        # Nothing is stored before all is released, so that no attribute is of another fit.
        for name in ("coef_", "intercept_", "high_level_privacy_"):
            self.__dict__.pop(name, None)
        if release is not None:
            width = release.coef.shape[1] - bool(self.fit_intercept)
            self.coef_ = np.ascontiguousarray(release.coef[:, :width])
            self.intercept_ = (
                release.coef[:, -1].copy() if self.fit_intercept else np.zeros(len(release.coef))
            )
            self.high_level_privacy_ = release.record
        self.low_level_ = tuple(models)
        self.classes_ = classes
        self.data_norm_ = self._bound
        self.privacy_ = record
        self.released_on_ = datetime.datetime.now(datetime.UTC).date()
        return self

    def _low_level(
        self, parts: Sequence[Part], clipped: list[Any], labels: Array, source: RandomSource
    ) -> list[LowLevelModel]:
        own = labels_of(parts, labels)

        def _fit(k: int) -> LowLevelModel:
            # Let go of a design with its fit: the next one can then use its memory.
            design, clipped[k] = clipped[k], None
            return parts[k].fit(design, own[k], source)

        return thread_map(_fit, range(len(parts)), self.n_jobs)

    def _high_level(
        self,
        planned: _StackPlan,
        models: Sequence[LowLevelModel],
        rows: list[Any] | None,
        labels: Array,
        source: RandomSource,
    ) -> Release | None:
        if planned.high is None or rows is None:
            return None
        prior = None
        if not self._published:
            prior = high_level_prior(
                models,
                intercept=bool(self.fit_intercept),
                longest=prior_bound(planned.parts),
            )
        design = make_design(
            meta_features(models, raw_of(models, rows), self._published),
            intercept=1.0 if self.fit_intercept else 0.0,
            data_norm=META_NORM,
        )
        return objective_perturbation(
            design,
            labels[planned.levels.high_rows],
            planned.high,
            prior_mean=prior,
            random=source.at("high level"),
        )

    def card(self) -> ModelCard:
        """Say what the model's guarantee is, for people and for programs.

        Returns
        -------
        ModelCard
            Markdown as text, HTML in a notebook, JSON by its method; public facts only.
        """
        check_is_fitted(self)
        return model_card(self)

    def decision_function(self, X: Any) -> Array:
        """Combine the models' predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds, or for the votes a number in [-1, 1], of ``classes_[1]``; with more
            classes one value a class.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidParameterError
            X has other columns than in the fit, or a value that is no finite number.
        """
        check_is_fitted(self)
        check_combiner(self.combiner, len(self.low_level_))
        X = checked_rows(self, X)
        return combined(
            self.low_level_,
            X,
            self.combiner,
            published=self.privacy_.pipeline == "published",  # that of the fit
            coef=getattr(self, "coef_", None),
            intercept=getattr(self, "intercept_", None),
        )

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities; for the votes, shares of the votes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidParameterError
            X has other columns than in the fit, or a value that is no finite number.
        """
        return probabilities(self.decision_function(X), self.combiner)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidParameterError
            X has other columns than in the fit, or a value that is no finite number.
        """
        raw = self.decision_function(X)
        index = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels

    def _levels(self, n_samples: int, dealt: bool) -> Levels:
        epsilon = check_positive("epsilon", self.epsilon)
        check_choice("levels", self.levels, ("disjoint", "shared"))
        every = np.arange(n_samples) if dealt else range(n_samples)
        if self.combiner != "stack":
            return Levels(every, epsilon, dealt=dealt)
        if self.levels == "shared":
            if self._published:
                raise InvalidParameterError("levels", "'disjoint' when published", self.levels)
            low = epsilon * LOW_LEVEL_SHARE
            high = math.nextafter(epsilon - low, 0.0)
            return Levels(every, low, every, high, disjoint=False, dealt=dealt)
        share = PUBLISHED_LOW_LEVEL_SHARE if self._published else LOW_LEVEL_SHARE
        n_low = int(share * n_samples)
        low_rows, high_rows = split_rows(
            n_samples, [n_low, n_samples - n_low], self.partition_seed, dealt=dealt
        )
        return Levels(low_rows, epsilon, high_rows, epsilon, dealt=dealt)

    def _plan(
        self,
        n_samples: int,
        n_features: int,
        n_classes: int,
        classes: Any = None,
        dealt: bool = True,
    ) -> _StackPlan:
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidParameterError("fit_intercept", "True or False", self.fit_intercept)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidParameterError("ledger", "a privlr.privacy.Ledger or None", self.ledger)
        check_n_jobs(self.n_jobs)
        if self._published and n_classes > 2:
            raise InvalidParameterError("pipeline", "'privlr' for three or more classes", n_classes)
        levels = self._levels(check_integer("n_samples", n_samples), dealt)
        n_features = check_integer("n_features", n_features)
        self._check_source(n_features, classes)
        parts = self._parts(levels, n_features, n_classes)
        check_combiner(self.combiner, len(parts))
        public = ["number of rows", "number and names of columns", "partition", "importance"]
        if isinstance(self.classes, str):
            public.append("classes")
        charges = self._low_charges(levels, parts)
        high: Plan | None = None
        if levels.high_rows is not None:
            outputs = 1 if n_classes == 2 else n_classes
            width = len(parts) * outputs + bool(self.fit_intercept)
            ridge = self.l2_reg_strength
            if ridge == "auto" and not self._published:
                ridge = HIGH_LEVEL_RIDGE * auto_l2_reg_strength(
                    levels.high_epsilon,
                    n_samples=len(levels.high_rows),
                    n_coefficients=width,
                    data_norm=META_NORM,
                )
            high = plan(
                levels.high_epsilon,
                n_samples=len(levels.high_rows),
                width=width,
                data_norm=META_NORM,
                l2_reg_strength=ridge,
                loss=self._loss(n_classes),
                calibration="cms2011" if self._published else "tight",
                n_classes=n_classes,
                prior_norm=0.0 if self._published else prior_bound(parts),
                public=tuple(public),
            )
            where = "other" if levels.disjoint else SAME_ROWS
            label = f"high level on {where} {len(levels.high_rows)} rows"
            charges += (Charge(label, exact("epsilon", levels.high_epsilon)),)
        costs = [charge.epsilon for charge in charges]
        # A row pays one level where the levels are disjoint; halves of a float add up to it.
        cost = max(costs) if levels.disjoint else exact("epsilon", self.epsilon)
        return _StackPlan(
            levels,
            parts,
            high,
            cost,
            StackRecord(
                epsilon=float(cost),
                pipeline=self.pipeline,
                charges=charges,
                public=tuple(public),
            ),
        )

    def _check_source(self, n_features: int, classes: Any) -> None:
        """Refuse a source that does not fit the data, where there is a source."""

    def _source_notes(self) -> tuple[str, ...]:
        """Return what the source's record has to say, where there is a source."""
        return ()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
