"""Differentially private logistic regression with the scikit-learn API."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from privlr._inputs import (
    check_labels,
    checked_rows,
    checked_weights,
    declared_classes,
    encode_labels,
    random_source,
    unchanged_if_refused,
    validated,
)
from privlr._pipeline import preprocessing_notes
from privlr._validation import LARGEST, check_integer, check_n_jobs, check_positive
from privlr.card import ModelCard, model_card
from privlr.design import make_design
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import Plan, objective_perturbation, plan
from privlr.privacy import Charge, Ledger, PrivacyRecord, exact

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression under pure epsilon-differential privacy.

    Minimises, by objective perturbation, the ridge-regularised mean loss of rows clipped
    to `data_norm` and releases the certified minimiser on a lattice. Two classes use the
    logistic or capped loss, more of them one joint softmax.

    Parameters
    ----------
    epsilon : float
        Privacy budget of one `fit`, in nats.
    data_norm : float, default=1.0
        Rows, with the constant 1 of the intercept appended, are clipped to this Euclidean
        length. A constant that must not be computed from the data.
    l2_reg_strength : float or "auto", default="auto"
        lambda of the mean-loss objective; raised where the mechanism needs more.
        "auto" depends on public quantities only: data_norm^2 d/(2 n epsilon).
    loss : {"logistic", "capped"}, default="logistic"
        "capped" continues the loss by its tangent below margin 0. It needs half the
        noise, and its probabilities are calibrated less well. Two classes only.
    calibration : {"tight", "cms2011"}, default="tight"
        "cms2011" is the published calibration, for replication.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What the guarantee hides: the values of a row, or its presence too.
    fit_intercept : bool, default=True
        Append a constant 1 to each row. The intercept is clipped and penalised with the
        rest: an unpenalised one has unbounded privacy loss.
    classes : sequence or "public"
        The possible labels, declared. "public" takes them from y, and says in the record
        that they were no secret.
    max_sample_weight : float, default=1.0
        Bound on every sample weight; below 1 `fit` needs the weights.
    public_n_samples : int or None, default=None
        Needed under "add_remove", where the number of rows is private: a number declared
        without looking, at least half the rows.
    prior_mean : array-like of shape (n_coefficients,) or None, default=None
        Public or privately released coefficients (the intercept last, class after class)
        that the penalty is centred at.
    ledger : privlr.privacy.Ledger or None, default=None
        Charged before noise is drawn. Clones share it.
    n_jobs : int or None, default=None
        Threads of a fit; None is one, -1 all processors. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        None draws from the operating system. Anything else repeats the noise: it warns,
        and `privacy_.private` is then False.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Released coefficients, float64.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Released intercepts; zero without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Only for tables with named columns.
    privacy_ : PrivacyRecord
        The guarantee, and the public constants behind it.
    released_on_ : datetime.date
        The day (UTC) of the fit.

    Notes
    -----
    **Guarantee.** Everything `fit` stores is epsilon-differentially private together
    (delta = 0), for the program as it runs in floating point.

    **Neighbouring relation.** `neighboring_relation`; the number of rows is public under
    "replace_one".

    **Assumptions.** One row per person; constructor parameters, the number of columns and
    their names are chosen without looking at the private data.

    **Source.** Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011), Algorithm 2, with the
    calibration of :func:`privlr.privacy.calibrate`.

    **Not covered.** Preprocessing fitted to the same data, the choice of parameters by
    looking at results, timing, and whether a fit fails: noise longer than a public bound, of
    which the probability is below 2^-100, is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from privlr import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)) / 4
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    >>> model = PrivateLogisticRegression(epsilon=4, classes=["no", "yes"]).fit(X, y)
    >>> model.privacy_.private
    True
    """

    def __init__(
        self,
        epsilon: float,
        *,
        data_norm: float = 1.0,
        l2_reg_strength: float | str = "auto",
        loss: str = "logistic",
        calibration: str = "tight",
        neighboring_relation: str = "replace_one",
        fit_intercept: bool = True,
        classes: Any = None,
        max_sample_weight: float = 1.0,
        public_n_samples: int | None = None,
        prior_mean: ArrayLike | None = None,
        ledger: Ledger | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.l2_reg_strength = l2_reg_strength
        self.loss = loss
        self.calibration = calibration
        self.neighboring_relation = neighboring_relation
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.max_sample_weight = max_sample_weight
        self.public_n_samples = public_n_samples
        self.prior_mean = prior_mean
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    def privacy_cost(
        self, n_samples: int | None = None, n_features: int | None = None
    ) -> PrivacyRecord | Charge:
        """Tell what `fit` will cost, without any data.

        Parameters
        ----------
        n_samples, n_features : int or None, default=None
            Shape of the data to come. `classes` must be declared then.

        Returns
        -------
        Charge or PrivacyRecord
            Epsilon and delta; with a shape, the whole record of such a fit: noise rate,
            ridge, certificate and lattice.

        Raises
        ------
        InvalidParameterError
            A parameter is outside its range, or classes are not declared.
        """
        if n_samples is None or n_features is None:
            check_positive("epsilon", self.epsilon)
            return Charge(type(self).__name__, exact("epsilon", self.epsilon))
        if isinstance(self.classes, str):
            raise InvalidParameterError("classes", "declared, to plan without data", self.classes)
        n_classes = len(declared_classes(self.classes))
        n_features = check_integer("n_features", n_features)
        return self._plan(n_samples, n_features, n_classes).record

    @unchanged_if_refused
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit and release a model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            float64, float32 and CSR are used without a copy.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            From 0 to `max_sample_weight`.

        Returns
        -------
        PrivateLogisticRegression
            The estimator.

        Raises
        ------
        InvalidParameterError
            Bad parameters or data; no budget is spent.
        TypeError
            X holds objects that are no numbers; no budget is spent.
        PrivacyBudgetError
            The ledger does not hold `epsilon`.
        ConvergenceError
            The certificate was not met; the budget stays spent.
        """
        X, y = validated(self, X, y)
        if isinstance(self.classes, str):
            check_labels(y)  # declared classes know their members
        classes = declared_classes(self.classes, y)
        labels = encode_labels(y, classes)
        planned = self._plan(X.shape[0], X.shape[1], len(classes))
        if X.shape[0] > planned.accuracy.n_samples:
            raise InvalidParameterError(
                "public_n_samples", "at least half the number of rows", self.public_n_samples
            )
        weights = checked_weights(sample_weight, X.shape[0], planned.accuracy.max_sample_weight)
        prior = self._prior(planned.dimension)
        design = make_design(
            X,
            intercept=1.0 if self.fit_intercept else 0.0,
            data_norm=planned.accuracy.data_norm,
            n_jobs=self.n_jobs,
        )
        source = random_source(self.random_state)
        notes = preprocessing_notes()
        if self.ledger is not None:
            self.ledger.charge(
                type(self).__name__,
                self.epsilon,
                note="" if source.seed is None else "seeded: not private",
            )
        release = objective_perturbation(
            design, labels, planned, sample_weight=weights, prior_mean=prior, random=source
        )
        self.classes_ = classes
        self.coef_ = np.ascontiguousarray(release.coef[:, : X.shape[1]])
        self.intercept_ = (
            release.coef[:, -1].copy() if self.fit_intercept else np.zeros(len(release.coef))
        )
        self.privacy_ = replace(release.record, notes=(*release.record.notes, *notes))
        self.released_on_ = datetime.datetime.now(datetime.UTC).date()
        return self

    def card(self) -> ModelCard:
        """Say what the fitted model's guarantee is, for people and for programs.

        Returns
        -------
        ModelCard
            Markdown as text, HTML in a notebook, JSON by its method; public facts only.
        """
        check_is_fitted(self)
        return model_card(self)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw predictions.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, finite; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of ``classes_[1]`` for two classes, else one value a class.

        Raises
        ------
        InvalidParameterError
            X has other columns than in `fit`, or a value that is no finite number.
        """
        check_is_fitted(self)
        X = checked_rows(self, X)
        raw: NDArray[np.float64] = np.asarray(X @ self.coef_.T) + self.intercept_
        return raw[:, 0] if len(self.classes_) == 2 else raw

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, finite; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        raw = self.decision_function(X)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        probability: NDArray[np.float64] = softmax(raw, axis=1)
        return probability

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, finite; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float64
            In the order of ``classes_``; minus infinity where a probability underflows.
        """
        with np.errstate(divide="ignore"):
            logarithm: NDArray[np.float64] = np.log(self.predict_proba(X))
        return logarithm

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, finite; they are not clipped.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``; between two equal ones the first.
        """
        raw = self.decision_function(X)
        index = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels

    def _plan(self, n_samples: int, n_features: int, n_classes: int) -> Plan:
        declared = self.public_n_samples
        if declared is not None:
            declared = check_integer("public_n_samples", declared)
        if self.neighboring_relation == "add_remove":
            if declared is None:
                raise InvalidParameterError(
                    "public_n_samples", "declared under 'add_remove', where n is private", None
                )
            n_samples = declared
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidParameterError("fit_intercept", "True or False", self.fit_intercept)
        if self.ledger is not None and not isinstance(self.ledger, Ledger):
            raise InvalidParameterError("ledger", "a privlr.privacy.Ledger or None", self.ledger)
        check_n_jobs(self.n_jobs)
        width = n_features + bool(self.fit_intercept)
        outputs = 1 if n_classes == 2 else n_classes
        prior = self._prior(outputs * width)
        public = ["number of rows", "number and names of columns"]
        if self.neighboring_relation == "add_remove":
            public[0] = "declared number of rows"
        if isinstance(self.classes, str):
            public.append("classes")
        if self.prior_mean is not None:
            public.append("prior mean")
        return plan(
            self.epsilon,
            n_samples=n_samples,
            width=width,
            data_norm=self.data_norm,
            l2_reg_strength=self.l2_reg_strength,
            loss=self.loss,
            calibration=self.calibration,
            neighboring_relation=self.neighboring_relation,
            max_sample_weight=self.max_sample_weight,
            n_classes=n_classes,
            prior_norm=0.0 if prior is None else float(np.linalg.norm(prior)),
            public=tuple(public),
        )

    def _prior(self, size: int) -> NDArray[np.float64] | None:
        if self.prior_mean is None:
            return None
        accepted = f"{size} numbers from {-LARGEST:g} to {LARGEST:g}"
        try:
            prior = np.asarray(self.prior_mean, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            raise InvalidParameterError("prior_mean", accepted, self.prior_mean) from None
        if prior.shape != (size,):
            raise InvalidParameterError("prior_mean", accepted, f"shape {prior.shape}")
        if not (np.abs(prior) <= LARGEST).all():
            raise InvalidParameterError("prior_mean", accepted, self.prior_mean)
        return prior

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
