"""Released models as JSON files: exact, readable, and inert.

A file holds what was released and nothing else. Coefficients on a lattice are stored
as integer multiples of its step, others as hexadecimal floats, so that a model reads
back bit for bit. Reading runs no code, and accepts only a bounded file of exactly the
expected shape.
"""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privlr._json_file import (
    Coefficient,
    Format,
    Header,
    frozen_array,
    linear_fields,
    numbers,
    require,
    schema_of,
)
from privlr._numeric import check_names
from privlr.card import ModelCard, model_card
from privlr.design import finite_rows
from privlr.exceptions import InvalidParameterError
from privlr.privacy import PrivacyRecord

__all__ = ["ReleasedModel", "checked_rows", "load_model", "save_model", "schema_of"]


class _Content(Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    coef: tuple[tuple[Coefficient, ...], ...]
    intercept: tuple[Coefficient, ...]
    privacy: PrivacyRecord


class _Fitted(Protocol):
    """What is asked of an estimator: the attributes that a private fit releases."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    privacy_: PrivacyRecord
    released_on_: datetime.date


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """A released model, read from a file: predicts, and cannot be changed or refitted.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients; read-only.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; read-only.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    privacy_ : PrivacyRecord
        What the release says about its own privacy.
    feature_names_in_ : ndarray of str, or None
        Names of the columns, where the training rows had them.
    released_on : datetime.date
        The day (UTC) of the fit.
    """

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    privacy_: PrivacyRecord
    feature_names_in_: NDArray[Any] | None
    released_on: datetime.date

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the model takes."""
        return int(self.coef_.shape[1])

    def card(self) -> ModelCard:
        """Say what the model's guarantee is, for people and for programs.

        Returns
        -------
        ModelCard
            Markdown as text, HTML in a notebook, JSON by its method; public facts only.
        """
        return model_card(self)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Raw predictions.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows. The columns of a table must carry the names of the training columns.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds of ``classes_[1]`` for two classes; otherwise one raw prediction a class.

        Raises
        ------
        InvalidParameterError
            If names or number of the columns differ, or a value is not finite.
        """
        rows = checked_rows(X, self.n_features_in_, self.feature_names_in_)
        raw = np.asarray(rows @ self.coef_.T) + self.intercept_
        return raw[:, 0] if len(self.coef_) == 1 else raw

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities; columns in the order of ``classes_``.
        """
        raw = self.decision_function(X)
        if raw.ndim == 1:
            raw = np.column_stack([np.zeros_like(raw), raw])
        with np.errstate(under="ignore"):  # a probability below the smallest float is 0
            odds = np.exp(raw - raw.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Most likely class of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        raw = self.decision_function(X)
        chosen = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels


def checked_rows(X: Any, n_features: int, names: NDArray[Any] | None) -> Any:
    """Return rows for a prediction after checking them against a model.

    Parameters
    ----------
    X : array-like, sparse matrix or table of shape (n_samples, n_features)
        Rows.
    n_features : int
        Columns that the model takes.
    names : ndarray of str, or None
        Their names.

    Returns
    -------
    ndarray or csr_array of shape (n_samples, n_features)
        The rows, float64.

    Raises
    ------
    InvalidParameterError
        If names or number of the columns differ, or a value is not finite.
    """
    rows = finite_rows(X)
    check_names(X, names)
    if rows.shape[1] != n_features:
        raise InvalidParameterError("X", f"of shape (n_samples, {n_features})", rows.shape)
    return rows


def save_model(model: _Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator or a released model to a JSON file.

    Parameters
    ----------
    model : fitted estimator or ReleasedModel
        Whatever has ``coef_``, ``intercept_``, ``classes_``, ``privacy_`` and ``released_on_``.
    path : path-like
        The file to write. It is replaced only once the whole new content is on disk.

    Raises
    ------
    ModelFileError
        If the model is one that `load_model` would refuse, such as one with more than
        64 MiB of coefficients, or with coefficients off the lattice it claims.
    InvalidParameterError
        If it is something else: `privlr.stacking.save_stack` writes stacks, and the parts of
        a vertical model stay with their parties.
    """
    if not isinstance(getattr(model, "privacy_", None), PrivacyRecord):
        accepted = "one fitted or loaded private regression (stacks: privlr.stacking.save_stack)"
        raise InvalidParameterError("model", accepted, type(model).__name__)
    content = _Content(
        **Header.fields(model),
        n_features=model.coef_.shape[1],
        **linear_fields(model.coef_, model.intercept_, model.privacy_),
    )
    _FORMAT.save(path, content)


def load_model(path: str | os.PathLike[str]) -> ReleasedModel:
    """Read a model file.

    Parameters
    ----------
    path : path-like
        A file that `save_model` wrote.

    Returns
    -------
    ReleasedModel
        The model, bit for bit as it was saved.

    Raises
    ------
    ModelFileError
        If the file is not a model file, damaged, altered, above 64 MiB, or newer than this version.
    """
    return _FORMAT.load(path)


def _model(content: _Content) -> ReleasedModel:
    content.check()
    require(content.privacy.n_classes == len(content.classes), "a record of other classes")
    rows = len(content.coef), len(content.intercept)
    require(rows == (content.n_outputs,) * 2, "a wrong number of rows")
    require({len(row) for row in content.coef} == {content.n_features}, "a row of wrong length")
    step = content.privacy.lattice.step if content.privacy.lattice else None
    return ReleasedModel(
        coef_=frozen_array([numbers(row, step) for row in content.coef]),
        intercept_=frozen_array(numbers(content.intercept, step)),
        classes_=frozen_array(content.classes),
        privacy_=content.privacy,
        feature_names_in_=content.names,
        released_on=content.released_on,
    )


_FORMAT = Format("privlr-model", 1, _Content, _model)
