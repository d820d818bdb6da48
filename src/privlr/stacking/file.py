"""Released stacks as JSON files, for organisations that exchange models and no rows.

The file holds the models below with their columns, the way they are combined, and every
record; see `privlr.model_file` for how numbers are written.
"""

from __future__ import annotations

import datetime
import math
import os
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from privlr._json_file import (
    Coefficient,
    Format,
    Header,
    frozen_array,
    linear_fields,
    numbers,
    require,
)
from privlr.card import ModelCard, model_card
from privlr.exceptions import InvalidParameterError
from privlr.model_file import checked_rows
from privlr.privacy import PrivacyRecord
from privlr.stacking._combine import check_combiner, combined, probabilities
from privlr.stacking._low_level import LowLevelModel
from privlr.stacking._record import StackRecord

__all__ = ["SCHEMA", "ReleasedStack", "load_stack", "save_stack"]

SCHEMA = "privlr-stack"

_Positive = Annotated[float, Meta(gt=0, le=1e50)]


class _Linear(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    coef: tuple[tuple[Coefficient, ...], ...]
    intercept: tuple[Coefficient, ...]
    privacy: PrivacyRecord


class _Below(_Linear, frozen=True, kw_only=True, forbid_unknown_fields=True):
    columns: tuple[Annotated[int, Meta(ge=0, lt=2**24)], ...]
    share: Annotated[float, Meta(gt=0, le=1)]
    data_norm: _Positive
    has_intercept: bool


class _Content(Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_norm: _Positive
    combiner: str | int
    models: Annotated[tuple[_Below, ...], Meta(min_length=1, max_length=2**16)]
    high_level: _Linear | None
    privacy: StackRecord


@dataclass(frozen=True, eq=False)
class ReleasedStack:
    """A released stack, read from a file: predicts, and is a source for a transfer.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Models below; read-only.
    combiner : {"stack", "sum", "vote", "weighted_vote"} or int
        How they are combined.
    coef_, intercept_ : ndarray or None
        Those of the upper level, where there is one; read-only.
    high_level_privacy_ : PrivacyRecord or None
        Its record.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str, or None
        Their names, where the training rows had them.
    data_norm_ : float
        Bound that rows were clipped to, before it was divided over groups.
    privacy_ : StackRecord
        What the release says about its own privacy.
    released_on : datetime.date
        The day (UTC) of the fit.
    """

    low_level_: tuple[LowLevelModel, ...]
    combiner: str | int
    coef_: NDArray[np.float64] | None
    intercept_: NDArray[np.float64] | None
    high_level_privacy_: PrivacyRecord | None
    classes_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: NDArray[Any] | None
    data_norm_: float
    privacy_: StackRecord
    released_on: datetime.date

    def card(self) -> ModelCard:
        """Say what the model's guarantee is, for people and for programs.

        Returns
        -------
        ModelCard
            Markdown as text, HTML in a notebook, JSON by its method; public facts only.
        """
        return model_card(self)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Combine the models' predictions.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows. The columns of a table must carry the names of the training columns.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Log-odds, or for the votes a number in [-1, 1], of ``classes_[1]``; with more
            classes one value a class.

        Raises
        ------
        InvalidParameterError
            If names or number of the columns differ, or a value is not finite.
        """
        rows = checked_rows(X, self.n_features_in_, self.feature_names_in_)
        return combined(
            self.low_level_,
            rows,
            self.combiner,
            published=self.privacy_.pipeline == "published",
            coef=self.coef_,
            intercept=self.intercept_,
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities; for the votes, shares of the votes.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return probabilities(self.decision_function(X), self.combiner)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most likely class of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or table of shape (n_samples, n_features)
            Rows, as in `decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        raw = self.decision_function(X)
        index = (raw > 0).astype(np.intp) if raw.ndim == 1 else raw.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels


def save_stack(stack: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted or a loaded stack to a JSON file.

    Parameters
    ----------
    stack : fitted stacking estimator or ReleasedStack
        What to write.
    path : path-like
        The file. It is replaced only once the whole new content is on disk.

    Raises
    ------
    ModelFileError
        If the stack is one that `load_stack` would refuse.
    InvalidParameterError
        If it is not fitted.
    """
    if not hasattr(stack, "low_level_"):
        raise InvalidParameterError("stack", "fitted or loaded", stack)
    high = None
    if stack.combiner == "stack":
        high = _Linear(**linear_fields(stack.coef_, stack.intercept_, stack.high_level_privacy_))
    content = _Content(
        **Header.fields(stack),
        n_features=int(stack.n_features_in_),
        data_norm=stack.data_norm_,
        combiner=stack.combiner if isinstance(stack.combiner, str) else int(stack.combiner),
        models=tuple(
            _Below(
                columns=tuple(model.columns.tolist()),
                share=model.share,
                data_norm=model.data_norm,
                has_intercept=model.has_intercept,
                **linear_fields(model.coef_, model.intercept_, model.privacy_),
            )
            for model in stack.low_level_
        ),
        high_level=high,
        privacy=stack.privacy_,
    )
    _FORMAT.save(path, content)


def load_stack(path: str | os.PathLike[str]) -> ReleasedStack:
    """Read a stack from a file that nobody vouches for.

    Parameters
    ----------
    path : path-like
        A file that `save_stack` wrote.

    Returns
    -------
    ReleasedStack
        The stack, bit for bit as it was saved.

    Raises
    ------
    ModelFileError
        If the file is not such a file, is damaged or altered, is above 64 MiB, is newer than
        this version, or contradicts itself.
    """
    return _FORMAT.load(path)


def _stack(content: _Content) -> ReleasedStack:
    content.check()
    try:
        check_combiner(content.combiner, len(content.models))
    except InvalidParameterError as error:
        require(False, f"a wrong combiner: {error}")
    require(content.privacy.pipeline in ("privlr", "published"), "an unknown pipeline")
    whole = content.privacy
    require(0 < whole.epsilon < math.inf and whole.delta == 0, "a budget that is none")
    require(whole.neighboring_relation == "replace_one", "an unknown neighbouring relation")
    require(len(whole.charges) > 0, "no charges")
    models = tuple(_below(model, content) for model in content.models)
    width = len(models) * content.n_outputs
    high = content.high_level
    require((high is not None) == (content.combiner == "stack"), "a combiner of other levels")
    parts = [*content.models, *([high] if high else [])]
    costs = [part.privacy.epsilon for part in parts]
    require(min(costs) > 0, "a part without a budget")
    costs += [float(charge.epsilon) for charge in whole.charges]
    budget = whole.epsilon * (1 + 1e-9)
    require(max(costs) <= budget, "a budget below that of a part")
    below = [model.privacy.epsilon for model in content.models]
    # Models of a part of the columns are of the same rows; models of all columns are of others.
    grouped = all(len(model.columns) < content.n_features for model in content.models)
    level = sum(below) if grouped else max(below)
    require(level <= budget, "a budget below the sum of its models")
    if high and whole.shares_rows:
        both = level + high.privacy.epsilon, float(sum(c.epsilon for c in whole.charges))
        require(max(both) <= budget, "a budget below the sum of its levels")
    private = all(part.privacy.private for part in parts)
    require(private or not content.privacy.private, "a guarantee that a part of it denies")
    coef, intercept = _arrays(high, width, content) if high else (None, None)
    return ReleasedStack(
        low_level_=models,
        combiner=content.combiner,
        coef_=coef,
        intercept_=intercept,
        high_level_privacy_=high.privacy if high else None,
        classes_=frozen_array(content.classes),
        n_features_in_=content.n_features,
        feature_names_in_=content.names,
        data_norm_=content.data_norm,
        privacy_=content.privacy,
        released_on=content.released_on,
    )


def _below(model: _Below, content: _Content) -> LowLevelModel:
    require(0 < len(set(model.columns)) == len(model.columns), "a column that stands twice")
    require(max(model.columns) < content.n_features, "a column that does not exist")
    require(model.data_norm == model.privacy.R, "a bound other than its record's")
    require(model.data_norm <= content.data_norm, "a bound beyond the whole's")
    coef, intercept = _arrays(model, len(model.columns), content)
    require(model.has_intercept or not intercept.any(), "an intercept that it denies")
    return LowLevelModel(
        columns=frozen_array(model.columns, np.intp),
        share=model.share,
        data_norm=model.data_norm,
        coef_=coef,
        intercept_=intercept,
        has_intercept=model.has_intercept,
        privacy_=model.privacy,
    )


def _arrays(model: _Linear, width: int, content: _Content) -> tuple[Any, Any]:
    rows = len(model.coef), len(model.intercept)
    require(rows == (content.n_outputs,) * 2, "a wrong number of rows")
    require({len(row) for row in model.coef} == {width}, "a row of wrong length")
    require(model.privacy.n_classes == len(content.classes), "a record of other classes")
    step = model.privacy.lattice.step if model.privacy.lattice else None
    coef = frozen_array([numbers(row, step) for row in model.coef])
    return coef, frozen_array(numbers(model.intercept, step))


_FORMAT = Format(SCHEMA, 1, _Content, _stack)
