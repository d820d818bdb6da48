"""Choice of parameters that is itself private, and charged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import SystemRandom
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from privlr._inputs import (
    declared_classes,
    encode_labels,
    random_generator,
    unchanged_if_refused,
    validated,
)
from privlr._numeric import check_finite
from privlr._validation import check_choice, check_integer, check_probability
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import noisy_count
from privlr.privacy import Charge, Ledger, exact

__all__ = ["PrivateSearch", "repetitions"]


def repetitions(gamma: float, eta: int, uniform: float) -> int:
    """Return a number of runs from the truncated negative binomial law, by inversion.

    Parameters
    ----------
    gamma : float
        Between 0 and 1; smaller means more runs.
    eta : {0, 1}
        1 is the geometric law, of mean 1/gamma; 0 the logarithmic one, shorter in the mean.
    uniform : float
        In [0, 1).

    Returns
    -------
    int
        At least 1.
    """
    keep = 1 - gamma
    if eta == 1:
        return 1 + math.floor(math.log1p(-uniform) / math.log(keep))
    count, term, total = 1, keep / -math.log(gamma), 0.0
    while True:
        total += term
        if uniform < total or term < 1e-18:
            return count
        term *= keep * count / (count + 1)
        count += 1


class PrivateSearch(ClassifierMixin, BaseEstimator):
    """Search over parameters of a private estimator within a stated budget.

    Parameters
    ----------
    estimator : estimator
        A classifier of this library. Its own ledger must be None: the search charges.
    param_grid : dict or list of dicts
        Public candidates, without `epsilon` and `ledger`: every run has the estimator's
        epsilon. Where other parameters (`pipeline`, `n_groups`) make a run cost more than its
        epsilon, every run is charged at the cost of the dearest candidate.
    method : {"repeat", "disjoint"}, default="repeat"
        "repeat": a random number of runs, each with a candidate drawn at random, fitted on
        four fifths of the rows and scored with noise on the rest; the best run is released.
        Costs (2 + eta) runs. "disjoint": candidate i is fitted on the i-th of m + 1 disjoint
        parts and the exponential mechanism chooses by mistakes on the last. Costs one run.
    eta : {0, 1}, default=1
        Law of the number of runs; see `repetitions`.
    gamma : float, default=0.05
        Of the same law; with eta=1 there are 1/gamma runs in the mean.
    partition_seed : int, default=0
        Public seed of the partition, which looks at no label.
    ledger : privlr.privacy.Ledger or None, default=None
        Charged before the first run.

    Attributes
    ----------
    best_estimator_ : estimator
        The run that is released. Its record, card and file state the cost of the search.
    best_params_ : dict
        Its parameters.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    charge_ : Charge
        What the search cost; its note says so if the runs were seeded.
    private_ : bool
        Whether the guarantee holds; a seeded estimator voids it.

    Notes
    -----
    **Guarantee.** The released model and parameters are (2 + eta) epsilon-differentially
    private under "repeat", epsilon-differentially private under "disjoint", where epsilon is
    the cost of the dearest run.

    **Neighbouring relation.** One row replaced; the number of rows is public.

    **Assumptions.** The candidates are chosen without looking at the data, and the guarantee
    of each holds. The number of runs stays secret.

    **Source.** "repeat": Papernot and Steinke, ICLR 2022, Theorem 2 (Liu and Talwar, STOC 2019,
    for eta = 1). "disjoint": Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011), Algorithm 3.

    **Not covered.** How long a search takes, which tells the number of runs, and the rounding
    of the probabilities of the exponential mechanism.
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        method: str = "repeat",
        eta: int = 1,
        gamma: float = 0.05,
        partition_seed: int = 0,
        ledger: Ledger | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.method = method
        self.eta = eta
        self.gamma = gamma
        self.partition_seed = partition_seed
        self.ledger = ledger

    def privacy_cost(self) -> Charge:
        """Tell what `fit` will cost, without any data.

        Returns
        -------
        Charge
            Epsilon of the whole search.

        Raises
        ------
        InvalidParameterError
            `method` or `eta` is outside its range, or a candidate is none of a private
            estimator under replace_one.
        """
        check_choice("method", self.method, ("repeat", "disjoint"))
        if self.eta not in (0, 1):
            raise InvalidParameterError("eta", "0 or 1", self.eta)
        # A run may cost more than its epsilon: a published source of K groups K times that.
        run = max(_cost_of_a_run(model) for model in self._models())
        times = 2 + int(self.eta) if self.method == "repeat" else 1
        return Charge(type(self).__name__, times * run)

    @unchanged_if_refused
    def fit(self, X: Any, y: Any) -> Self:
        """Search, and release the chosen run.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        PrivateSearch
            The estimator.

        Raises
        ------
        InvalidParameterError
            Bad parameters or data; no budget is spent.
        TypeError
            X holds objects that are no numbers; no budget is spent.
        PrivacyBudgetError
            The ledger does not hold the cost.
        """
        X, y = validated(self, X, y)
        check_finite(X)
        cost = self.privacy_cost()
        check_probability("gamma", self.gamma)
        candidates = list(ParameterGrid(self.param_grid))
        seed = check_integer("partition_seed", self.partition_seed, low=0)
        order = np.random.default_rng(seed).permutation(len(y))
        least = 2 if self.method == "repeat" else len(candidates) + 1
        if len(y) < least:
            raise InvalidParameterError("X", f"of at least {least} rows", len(y))
        self._check_runs(X, y)
        # Whoever knows the seeds of the runs can remove their noise, and with it the search's.
        seeded = any(
            name.rpartition("__")[2] == "random_state" and value is not None
            for parameters in (self.estimator.get_params(), *candidates)
            for name, value in parameters.items()
        )
        note = self.method + (" (seeded: not private)" if seeded else "")
        if self.ledger is not None:
            self.ledger.charge(cost.label, cost.epsilon, note=note)
        chosen, model = (self._repeat if self.method == "repeat" else self._disjoint)(
            X, y, order, candidates
        )
        self.charge_, self.private_ = replace(cost, note=note), not seeded
        model.privacy_ = self._record(model.privacy_)
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        self.best_params_, self.best_estimator_ = chosen, model
        self.classes_ = model.classes_
        return self

    def _record(self, run: Any) -> Any:
        """Return the record of the chosen run, which costs what the whole search does."""
        cost, notes = self.charge_, (*run.notes, f"chosen by {type(self).__name__}")
        choice = cost.epsilon - exact("epsilon", run.epsilon)
        if not self.private_:
            notes += (
                "a run of the search was seeded: whoever knows the seed can remove its noise",
            )
        return replace(
            run,
            epsilon=float(cost.epsilon),
            charges=(
                *run.charges,
                *([Charge(f"choice ({self.method})", choice)] if choice else []),
            ),
            private=run.private and self.private_,
            notes=notes,
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict with the chosen model.

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
            X has other columns than in `fit`, or a value that is no finite number.
        """
        check_is_fitted(self, "best_estimator_")
        labels: NDArray[Any] = self.best_estimator_.predict(X)
        return labels

    def _models(self) -> list[Any]:
        """One unfitted model for each candidate."""
        try:
            candidates = list(ParameterGrid(self.param_grid))
            if any({"epsilon", "ledger"} & set(candidate) for candidate in candidates):
                raise InvalidParameterError(
                    "param_grid", "without epsilon and ledger", self.param_grid
                )
            models = [clone(self.estimator).set_params(**candidate) for candidate in candidates]
        except InvalidParameterError:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidParameterError(
                "param_grid", f"of the estimator's parameters ({error})", self.param_grid
            ) from None
        if not any(candidates):  # of an empty grid scikit-learn makes one candidate
            raise InvalidParameterError("param_grid", "of at least one candidate", self.param_grid)
        return models

    def _check_runs(self, X: Any, y: Any) -> None:
        """Refuse, before any charge, what a run would refuse after it."""
        n_rows = 4 * len(y) // 5 if self.method == "repeat" else len(y) // (len(self._models()) + 1)
        for model in self._models():
            classes = declared_classes(model.classes, y)
            encode_labels(y, classes)
            random_generator(model.random_state)
            model.set_params(classes=classes).privacy_cost(n_rows, X.shape[1])

    def _run(self, candidate: dict[str, Any], X: Any, y: Any, rows: Any, test: Any) -> Any:
        """Fit a candidate; return it and its correct predictions on the test rows."""
        model = clone(self.estimator).set_params(**candidate).fit(X[rows], y[rows])
        return model, int(np.sum(model.predict(X[test]) == y[test]))

    def _repeat(self, X: Any, y: Any, order: Any, candidates: Sequence[Any]) -> tuple[Any, Any]:
        random = SystemRandom()
        rows, test = np.split(order, [4 * len(order) // 5])
        best: Any = None
        # Fit and score use disjoint rows, so a run costs epsilon, not twice that.
        for _ in range(repetitions(self.gamma, self.eta, random.random())):
            candidate = random.choice(candidates)
            model, correct = self._run(candidate, X, y, rows, test)
            score = noisy_count(correct, self.estimator.epsilon)
            if best is None or score > best[0]:
                best = score, candidate, model
        return best[1], best[2]

    def _disjoint(self, X: Any, y: Any, order: Any, candidates: Sequence[Any]) -> tuple[Any, Any]:
        *parts, test = np.array_split(order, len(candidates) + 1)
        runs = [
            self._run(candidate, X, y, rows, test)
            for candidate, rows in zip(candidates, parts, strict=True)
        ]
        correct = np.array([count for _, count in runs])
        # One row of the last part changes each count by at most 1.
        weight = np.exp(self.estimator.epsilon / 2 * (correct - correct.max()))
        index = SystemRandom().choices(range(len(runs)), weights=weight.tolist())[0]
        return candidates[index], runs[index][0]


def _cost_of_a_run(model: Any) -> Fraction:
    """Cost of one fit, which must be a pure epsilon under replace_one."""
    if not (hasattr(model, "privacy_cost") and hasattr(model, "classes")):
        raise InvalidParameterError("estimator", "a private classifier of this library", model)
    if getattr(model, "ledger", None) is not None:
        raise InvalidParameterError("estimator", "without a ledger of its own", "one with")
    relation = getattr(model, "neighboring_relation", "replace_one")
    if relation != "replace_one":
        raise InvalidParameterError("neighboring_relation", "'replace_one' in a search", relation)
    cost = model.privacy_cost()
    if cost.delta:
        raise InvalidParameterError("delta", "0 in a search", cost.delta)
    # The score's noise is drawn at epsilon, on other rows than the fit's.
    epsilon: Fraction = max(cost.epsilon, exact("epsilon", model.epsilon))
    return epsilon
