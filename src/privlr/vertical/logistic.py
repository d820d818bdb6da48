"""Logistic regression over columns that several parties hold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from privlr._inputs import (
    check_labels,
    checked_rows,
    declared_classes,
    encode_labels,
    label_array,
    random_source,
    unchanged_if_refused,
    validated,
)
from privlr._validation import check_integer, check_positive
from privlr.card import ModelCard, model_card
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import RandomSource, randomize_labels
from privlr.optimize import solve
from privlr.privacy import Charge, Ledger
from privlr.vertical._align import aligned_rows
from privlr.vertical._plan import Plan, whole_cost
from privlr.vertical._record import VerticalRecord
from privlr.vertical._rows import clipped_rows, party_rows
from privlr.vertical.coordinator import Coordinator
from privlr.vertical.party import Party
from privlr.vertical.settings import Settings
from privlr.vertical.sharing import ADMMSharing, Iteration
from privlr.vertical.statistics import coef_from_statistics, released_statistics

__all__ = ["VerticalLogisticRegression"]

Array = NDArray[np.float64]


class VerticalLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression over columns that several parties hold, by ADMM sharing.

    Every party keeps its columns and its coefficients. In each round it gives one number a
    sample, its share of the scores, and takes one number a sample from the holder of the
    labels, who is the first party.

    Parameters
    ----------
    partitions : sequence of sequences of int or str, or None, default=None
        Columns of each party, every column once, for `fit`; `fit_parties` needs none.
    l2_reg_strength : float, default=1e-4
        lambda of the mean-loss objective.
    rho : float, default=0.05
        Weight of the augmented Lagrangian, for the summed loss.
    max_iter : int or "auto", default="auto"
        Most rounds; with `epsilon` and shares, exactly the number of releases of each party.
        "auto" is 1000, and 1 with `epsilon`.
    tol : float, default=1e-5
        Of the primal and dual residuals, absolute (a sample) and relative at once; 0 runs
        every round. Not used with `epsilon`.
    fit_intercept : bool, default=True
        Append a constant 1 to the first party's columns, penalised and clipped with them.
    form : {"boyd", "jacobi"}, default="boyd"
        "boyd" converges for every `rho`; "jacobi" is the published update, which may diverge.
    over_relaxation : float, default=1.6
        Between 0 and 2.
    epsilon, delta : float or None, default=None
        Budget of the features. None: no noise, for parties that trust each other with their
        shares.
    release : {"shares", "statistics"}, default="shares"
        What leaves a party under `epsilon`: noisy shares in each round; or, once, a noisy
        Gram matrix and a noisy moment, which also cover the scores of later samples.
    mechanism : {"privlr", "published"}, default="privlr"
        "published" adds the noise of the publication to shares. It protects nothing, and the
        record says so: for replication.
    data_norm : float or sequence of float, default=1.0
        Bound that the rows of each party are clipped to under `epsilon`. A constant that must
        not be computed from the data.
    share_bound : float, default=4.0
        b: under `epsilon` a party's share of any score lies between -b and b.
    neighboring_relation : {"replace_one", "replace_part"}, default="replace_one"
        Whether a sample's row is hidden in all parties at once, or in any one party.
    targets : {"labels", "residuals"}, default="labels"
        What the statistics are correlated with. "residuals" of the label holder's own model
        predict better calibrated probabilities, and disclose that model's training scores.
    label_epsilon : float or None, default=None
        Randomise the labels once, at this cost, before anything else. None: they are seen by
        every party.
    classes : sequence of two labels, "public" or None, default=None
        Declared; needed with `label_epsilon`. None and "public" take them from y, which every
        party sees without it.
    ledger : privlr.privacy.Ledger or None, default=None
        Charged before noise is drawn. Clones share it.
    callback : callable or None, default=None
        Called with each `Iteration`; a true result stops. Not with noise, for it tells more
        than is released.
    progress : bool, default=False
        Show a progress bar.
    random_state : int, RandomState or None, default=None
        None draws from the operating system. Anything else repeats the noise: it warns, and
        `privacy_.private` is then False.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients in the order of the columns. In the field each part stays with its party.
    intercept_ : ndarray of shape (1,)
        Zero without `fit_intercept`.
    classes_ : ndarray of shape (2,)
        Sorted labels.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Only where all columns have names.
    history_ : list of Iteration
        Objective and residuals of each round; only without noise.
    status_ : str
        "converged", "max_iter", "stopped" or "interrupted"; only without noise.
    privacy_ : VerticalRecord
        What is covered, and what is not.

    Notes
    -----
    **Guarantee.** All messages of a party are together (epsilon, delta)-differentially
    private in its features, by exact Gaussian accounting, for the program as it runs in
    floating point; with "statistics" so are the coefficients of every party but the first.
    `label_epsilon` adds up.

    **Neighbouring relation.** `neighboring_relation`; the number of samples and the ids are
    public.

    **Assumptions.** One row per person; parameters are chosen without looking at the private
    data; a party that answers follows the protocol.

    **Source.** Hu, Liu, Kong and Niu, arXiv 1907.07735, for the setting; Boyd et al. 2011,
    sections 7.3 and 8.3, for the algorithm; :func:`privlr.privacy.calibrate_shares` and
    :func:`privlr.privacy.calibrate_statistics` for the noise, which is not the published one.

    **Not covered.** Labels without `label_epsilon`; scores of later samples with "shares";
    the label holder's features with ``targets="residuals"``; timing, and whether a fit fails.

    Examples
    --------
    >>> import numpy as np
    >>> from privlr.vertical import VerticalLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> bank, shop = rng.normal(size=(500, 3)), rng.normal(size=(500, 2))
    >>> y = bank[:, 0] + shop[:, 0] > 0
    >>> model = VerticalLogisticRegression().fit_parties([bank, shop], y)
    >>> model.score([bank, shop], y) > 0.9
    True
    """

    def __init__(
        self,
        partitions: Any = None,
        *,
        l2_reg_strength: float = 1e-4,
        rho: float = 0.05,
        max_iter: int | str = "auto",
        tol: float = 1e-5,
        fit_intercept: bool = True,
        form: str = "boyd",
        over_relaxation: float = 1.6,
        epsilon: float | None = None,
        delta: float | None = None,
        release: str = "shares",
        mechanism: str = "privlr",
        data_norm: Any = 1.0,
        share_bound: float = 4.0,
        neighboring_relation: str = "replace_one",
        targets: str = "labels",
        label_epsilon: float | None = None,
        classes: Any = None,
        ledger: Ledger | None = None,
        callback: Callable[[Iteration], Any] | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.partitions = partitions
        self.l2_reg_strength = l2_reg_strength
        self.rho = rho
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.form = form
        self.over_relaxation = over_relaxation
        self.epsilon = epsilon
        self.delta = delta
        self.release = release
        self.mechanism = mechanism
        self.data_norm = data_norm
        self.share_bound = share_bound
        self.neighboring_relation = neighboring_relation
        self.targets = targets
        self.label_epsilon = label_epsilon
        self.classes = classes
        self.ledger = ledger
        self.callback = callback
        self.progress = progress
        self.random_state = random_state

    def privacy_cost(
        self, n_samples: int | None = None, n_features: Sequence[int] | None = None
    ) -> VerticalRecord | Charge:
        """Tell what a fit will cost, without any data.

        Parameters
        ----------
        n_samples : int or None, default=None
            Rows of the data to come.
        n_features : sequence of int or None, default=None
            Columns of each party, the label holder first; without the constant.

        Returns
        -------
        Charge or VerticalRecord
            Epsilon and delta; with a shape, the whole record of such a fit: noise, releases,
            and what is covered.

        Raises
        ------
        InvalidParameterError
            A parameter is outside its range.
        """
        if n_samples is None or n_features is None:
            return Charge(type(self).__name__, *whole_cost(self))
        try:
            widths = [check_integer("n_features", width) for width in n_features]
        except TypeError:
            widths = []
        if not widths:
            raise InvalidParameterError("n_features", "a number for each party", n_features)
        plan = self._plan(check_integer("n_samples", n_samples), widths)
        return plan.record(RandomSource(seed=None if self.random_state is None else 0))

    @unchanged_if_refused
    def fit(self, X: Any, y: Any, *, eval_set: tuple[Any, Any] | None = None) -> Self:
        """Fit to one matrix whose columns `partitions` deals out to the parties.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        eval_set : (X, y) or None, default=None
            Test rows, whose loss the history then holds. Only without noise.

        Returns
        -------
        VerticalLogisticRegression
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
            A share was not accurate enough; the budget stays spent.
        KeyboardInterrupt
            After Ctrl-C; the coefficients of the last round are kept.
        """
        X, y = validated(self, X, y)
        columns = self._columns(X.shape[1])
        test = None
        if eval_set is not None:
            held_out = checked_rows(self, eval_set[0])
            test = [held_out[:, part] for part in columns], eval_set[1]
        names = [f"party {i}" for i in range(len(columns))]
        blocks = [X[:, part] for part in columns]
        known = getattr(self, "feature_names_in_", None)
        headers = [None if known is None else known[part].tolist() for part in columns]
        return self._fit(names, blocks, columns, headers, y, test)

    @unchanged_if_refused
    def fit_parties(
        self,
        parties: Sequence[Any] | Mapping[str, Any],
        y: Any,
        *,
        eval_set: tuple[Sequence[Any], Any] | None = None,
    ) -> Self:
        """Fit to one matrix for each party.

        Parameters
        ----------
        parties : sequence of, or dict from names to, matrices of shape (n_samples, n_columns)
            The first party holds the labels. Tables are compared by their ids (the index of a
            DataFrame), which must agree with each other and with those of y.
        y : array-like of shape (n_samples,)
            Labels.
        eval_set : (parties, y) or None, default=None
            Test rows, whose loss the history then holds. Only without noise.

        Returns
        -------
        VerticalLogisticRegression
            The estimator.

        Raises
        ------
        InvalidParameterError
            Bad parameters or data, ids that disagree; the error names the party.
        PrivacyBudgetError
            The ledger does not hold the cost.
        ConvergenceError
            A share was not accurate enough; the budget stays spent.
        KeyboardInterrupt
            After Ctrl-C; the coefficients of the last round are kept.
        """
        names, blocks, headers = aligned_rows(parties, y)
        y = label_array(y)
        bounds = np.cumsum([0, *(X.shape[1] for X in blocks)])
        columns = [np.arange(low, high) for low, high in zip(bounds, bounds[1:], strict=False)]
        test = None
        if eval_set is not None:
            widths = np.diff(bounds).tolist()
            _, held_out, _ = aligned_rows(*eval_set, names=names, headers=headers, widths=widths)
            test = held_out, eval_set[1]
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        known = [name for header in headers for name in header or ()]
        if len(known) == bounds[-1]:
            self.feature_names_in_ = np.array(known, dtype=object)
        if self.partitions is not None:  # not needed here, but not to be nonsense either
            self._columns(int(bounds[-1]))
        return self._fit(names, blocks, columns, headers, y, test)

    def card(self) -> ModelCard:
        """Say what the fit's guarantee is, for people and for programs.

        Returns
        -------
        ModelCard
            Markdown as text, HTML in a notebook, JSON by its method; public facts only.
        """
        check_is_fitted(self, "coef_")
        return model_card(self)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of ``classes_[1]``, the sum of the parties' scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or list or dict of them
            One matrix, or one for each party, under the names of the fit where it had any.
            A matrix without names, where it had some, brings a warning.

        Returns
        -------
        ndarray of shape (n_samples,), float64
            Log-odds.

        Raises
        ------
        InvalidParameterError
            Rows or columns are too many or too few, columns have other names than in the fit,
            a value is no finite number, or ids disagree.
        """
        check_is_fitted(self, "coef_")
        parties = len(self._columns_)
        listed = isinstance(X, list | tuple) and len(X) == parties and np.ndim(X[0]) == 2
        if listed or isinstance(X, Mapping):
            widths = [len(part) for part in self._columns_]
            _, blocks, _ = aligned_rows(
                X, names=self._names_, headers=self._headers_, widths=widths
            )
            coefs = [self.coef_[0, part] for part in self._columns_]
            scores = sum(part @ coef for part, coef in zip(blocks, coefs, strict=True))
        else:
            X = checked_rows(self, X)
            scores = X @ self.coef_[0]
        raw: Array = scores + self.intercept_[0]
        return raw

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or list of matrices
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            In the order of ``classes_``.
        """
        raw = self.decision_function(X)
        return np.column_stack([expit(-raw), expit(raw)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each sample.

        Parameters
        ----------
        X : array-like, sparse matrix or list of matrices
            As for `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Members of ``classes_``.
        """
        labels: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(np.intp)]
        return labels

    def _columns(self, n_features: int) -> list[NDArray[np.intp]]:
        accepted = f"lists that name each of the {n_features} columns once"
        names = list(getattr(self, "feature_names_in_", ()))
        try:
            parts = [
                np.array([names.index(c) if isinstance(c, str) else c for c in part])
                for part in self.partitions
            ]
            empty = [i for i, part in enumerate(parts) if not len(part)]
            if empty:
                raise InvalidParameterError(f"party {empty[0]}", "of at least one column", [])
            given = np.concatenate(parts)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidParameterError):
                raise
            raise InvalidParameterError("partitions", accepted, self.partitions) from None
        if given.dtype.kind not in "iu" or sorted(given.tolist()) != list(range(n_features)):
            raise InvalidParameterError("partitions", accepted, self.partitions)
        return [part.astype(np.intp) for part in parts]

    def _fit(
        self,
        names: list[str],
        blocks: list[Any],
        columns: list[NDArray[np.intp]],
        headers: list[list[str] | None],
        y: NDArray[Any],
        test: Any,
    ) -> Self:
        n = blocks[0].shape[0]
        if y.shape != (n,):
            raise InvalidParameterError("y", f"of shape ({n},)", y.shape)
        check_labels(y)
        if self.label_epsilon is not None and np.ndim(self.classes) == 0:
            raise InvalidParameterError("classes", "declared, with label_epsilon", self.classes)
        classes = declared_classes("public" if self.classes is None else self.classes, y)
        if len(classes) != 2:
            raise InvalidParameterError("y", "of two classes", f"{len(classes)} classes")
        labels = encode_labels(y, classes)
        if test is not None:
            held_out = np.asarray(test[1])
            if held_out.shape != (test[0][0].shape[0],):
                raise InvalidParameterError("eval_set", "a label for each row", held_out.shape)
            test = test[0], encode_labels(held_out, classes)
        plan = self._plan(n, [X.shape[1] for X in blocks])
        if self.fit_intercept:
            blocks = [_with_constant(blocks[0]), *blocks[1:]]
            test = test and ([_with_constant(test[0][0]), *test[0][1:]], test[1])
        blocks = [party_rows(X, name) for X, name in zip(blocks, names, strict=True)]
        source = RandomSource() if plan.exact else random_source(self.random_state)
        record = plan.record(source)
        for name, value in (("callback", self.callback), ("eval_set", test and "test rows")):
            if plan.noisy and value is not None:
                raise InvalidParameterError(
                    name, "None with epsilon: it tells what is not released", value
                )
        if self.ledger is not None:
            self.ledger.charge(type(self).__name__, *plan.cost, note=record.summary)
        if self.label_epsilon is not None:
            labels = randomize_labels(labels, self.label_epsilon, source.at("labels"))
        history: list[Iteration] = []
        status = ""
        if plan.statistics is not None:
            coefs = self._from_statistics(blocks, labels, plan, source)
        else:
            parties = [
                Party(
                    X,
                    plan.settings,
                    name=name,
                    release=release,
                    data_norm=norm if plan.noisy else None,
                    random=source.at("party", i),
                )
                for i, (X, name, release, norm) in enumerate(
                    zip(blocks, names, plan.releases, plan.norms, strict=True)
                )
            ]
            sharing = ADMMSharing(parties, Coordinator(labels, plan.settings))
            history, status = sharing.run(
                plan.rounds,
                tol=0.0 if plan.noisy else plan.tol,
                test=test,
                callback=self.callback,
                progress=self.progress,
            )
            if plan.noisy:
                sharing.finish()
            if not plan.noisy and plan.tol and status == "max_iter":
                warnings.warn(
                    f"the residuals are above tol={self.tol:g} after {plan.rounds} rounds",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            coefs = list(sharing.coefs)
        # All at once and last: what a failed fit leaves is the earlier model and its record.
        self.privacy_, self.classes_ = record, classes
        self._columns_, self._names_, self._headers_ = columns, names, headers
        for name in ("history_", "status_"):
            self.__dict__.pop(name, None)
        if not plan.noisy:
            self.history_, self.status_ = history, status
        self.intercept_ = np.zeros(1)
        if self.fit_intercept:
            self.intercept_, coefs[0] = coefs[0][-1:].copy(), coefs[0][:-1]
        self.n_features_in_ = sum(map(len, columns))
        self.coef_ = np.zeros((1, self.n_features_in_))
        for part, coef in zip(self._columns_, coefs, strict=True):
            self.coef_[0, part] = coef
        if status == "interrupted":
            raise KeyboardInterrupt
        return self

    def _plan(self, n_samples: int, widths: list[int]) -> Plan:
        """The constants of a fit to parties of so many columns."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidParameterError("fit_intercept", "True or False", self.fit_intercept)
        if not isinstance(self.progress, bool | np.bool_):
            raise InvalidParameterError("progress", "True or False", self.progress)
        if self.callback is not None and not callable(self.callback):
            raise InvalidParameterError("callback", "callable or None", self.callback)
        widths = [widths[0] + int(self.fit_intercept), *widths[1:]]
        settings = Settings(
            n_samples=n_samples,
            n_parties=len(widths),
            n_features=sum(widths),
            ridge=n_samples * check_positive("l2_reg_strength", self.l2_reg_strength),
            rho=self.rho,
            form=self.form,
            over_relaxation=self.over_relaxation,
        )
        return Plan(self, settings, widths)

    def _from_statistics(
        self, blocks: list[Any], labels: Array, plan: Plan, source: RandomSource
    ) -> list[Array]:
        """The label holder fits its own model; the others' come from their statistics."""
        assert plan.statistics is not None
        own = solve(blocks[0], labels, l2_reg_strength=self.l2_reg_strength).coef
        score = blocks[0] @ own if self.targets == "residuals" else np.zeros(len(labels))
        target = labels * expit(-labels * score)
        # Parties step at the same time, so each divides its step by their number.
        curvature = float((expit(score) * expit(-score)).mean()) * max(len(blocks) - 1, 1)
        coefs = [own]
        for i, (X, norm) in enumerate(zip(blocks[1:], plan.norms[1:], strict=True), start=1):
            gram, moment = released_statistics(
                clipped_rows(X, norm), target, plan.statistics, source.at("party", i)
            )
            scaled = coef_from_statistics(
                gram, moment, plan.statistics, plan.settings.ridge / norm**2, curvature
            )
            coefs.append(scaled / norm)
        return coefs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _with_constant(X: Any) -> Any:
    constant = np.ones((X.shape[0], 1))
    return sp.hstack([X, constant], format="csr") if sp.issparse(X) else np.hstack([X, constant])
