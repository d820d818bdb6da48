"""Released models as JSON files: exact, readable, and inert.

A file holds what was released and nothing else. Coefficients on a lattice are stored
as integer multiples of its step, others as hexadecimal floats, so that a model reads
back bit for bit. Reading runs no code, and accepts only a bounded file of exactly the
expected shape.

The SHA-256 sum in the file shows damage and careless edits. It is not a signature:
whoever can write the file can write a matching sum. Where that matters, sign the file.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from privlr.exceptions import InvalidParameterError, ModelFileError
from privlr.privacy import PrivacyRecord

__all__ = ["ReleasedModel", "load_model", "save_model"]

SCHEMA = "privlr-model"
VERSION = 1
MAX_BYTES = 64 * 2**20

_HEX_FLOAT = r"^-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}$"
_RATIO = r"[0-9]{1,400}(/[1-9][0-9]{0,399})?"
_Coefficient = (
    Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[str, Meta(max_length=32, pattern=_HEX_FLOAT)]
)
_Name = Annotated[str, Meta(max_length=256)]
_Class = bool | int | float | _Name


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    released_on: datetime.date
    classes: Annotated[tuple[_Class, ...], Meta(min_length=2, max_length=2**16)]
    n_features: Annotated[int, Meta(ge=1, le=2**24)]
    feature_names: tuple[_Name, ...] | None
    coef: tuple[tuple[_Coefficient, ...], ...]
    intercept: tuple[_Coefficient, ...]
    privacy: PrivacyRecord


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    version: int
    sha256: str
    content: msgspec.Raw


class _Fitted(Protocol):
    """What is asked of an estimator: the attributes that a private fit releases."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    privacy_: PrivacyRecord


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
        The day (UTC) on which the model was first saved.
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
        raw = np.asarray(self._checked(X) @ self.coef_.T) + self.intercept_
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

    def _checked(self, X: Any) -> Any:
        columns = getattr(X, "columns", None)
        if columns is not None and self.feature_names_in_ is not None:
            names = self.feature_names_in_.tolist()
            if list(columns) != names:
                raise InvalidParameterError("X", f"a table with the columns {names}", list(columns))
        rows = X if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features_in_:
            raise InvalidParameterError(
                "X", f"of shape (n_samples, {self.n_features_in_})", rows.shape
            )
        if not np.isfinite(rows.data if sparse.issparse(rows) else rows).all():
            raise InvalidParameterError("X", "finite", "NaN or infinity")
        return rows


def save_model(model: _Fitted, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator or a released model to a JSON file.

    Parameters
    ----------
    model : fitted estimator or ReleasedModel
        Whatever has ``coef_``, ``intercept_``, ``classes_`` and ``privacy_``.
    path : path-like
        The file to write. It is replaced only once the whole new content is on disk.

    Raises
    ------
    ModelFileError
        If the model is one that `load_model` would refuse, such as one with more than
        64 MiB of coefficients, or with coefficients off the lattice it claims.
    """
    path = Path(path)
    names = getattr(model, "feature_names_in_", None)
    step = model.privacy_.lattice.step if model.privacy_.lattice else None
    content = _Content(
        released_on=getattr(model, "released_on", datetime.datetime.now(datetime.UTC).date()),
        classes=tuple(model.classes_.tolist()),
        n_features=model.coef_.shape[1],
        feature_names=None if names is None else tuple(names.tolist()),
        coef=tuple(_written(row, step) for row in model.coef_),
        intercept=_written(model.intercept_, step),
        privacy=model.privacy_,
    )
    try:
        content = _typed(_encoded(content))  # an int where a float is promised becomes one
    except msgspec.ValidationError as error:
        raise ModelFileError(f"not a valid model file: {error}") from None
    raw = msgspec.json.format(_encoded(content), indent=1)
    file = _File(SCHEMA, VERSION, _digest(raw), msgspec.Raw(raw))
    data = msgspec.json.encode(file)
    _parse(data)  # whatever is written can be read
    scratch = path.with_name(path.name + ".partial")
    scratch.write_bytes(data)
    scratch.replace(path)


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
    with open(path, "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    try:
        return _parse(data)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None


def _parse(data: bytes) -> ReleasedModel:
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"a model file has at most {MAX_BYTES} bytes")
    try:
        file = msgspec.json.decode(data, type=_File)
        if file.schema != SCHEMA:
            raise ModelFileError(f"the schema is {file.schema[:80]!r}, not {SCHEMA!r}")
        if file.version != VERSION:
            raise ModelFileError(f"version {file.version} is not one that this privlr reads")
        if file.sha256 != _digest(file.content):
            raise ModelFileError("the content does not match its SHA-256 sum")
        content = _typed(file.content)
        if file.sha256 != _digest(_encoded(content)):
            raise ModelFileError("the content has fields that this version does not know")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ModelFileError(f"not a valid model file: {error}") from None
    return _model(content)


def _model(content: _Content) -> ReleasedModel:
    rows = 1 if len(content.classes) == 2 else len(content.classes)
    _require(len({type(label) for label in content.classes}) == 1, "classes of several types")
    _require(len(set(content.classes)) == len(content.classes), "a class that stands twice")
    _require(content.privacy.n_classes == len(content.classes), "a record of other classes")
    _require(len(content.coef) == len(content.intercept) == rows, "a wrong number of rows")
    _require({len(row) for row in content.coef} == {content.n_features}, "a row of wrong length")
    names = content.feature_names
    if names is not None:
        _require(len(names) == content.n_features, "a wrong number of feature names")
        _require(len(set(names)) == len(names), "a feature name that stands twice")
    step = content.privacy.lattice.step if content.privacy.lattice else None
    _require(step is None or math.frexp(step)[0] == 0.5, "a lattice whose step is no power of two")
    return ReleasedModel(
        coef_=_read_only([_read(row, step) for row in content.coef]),
        intercept_=_read_only(_read(content.intercept, step)),
        classes_=_read_only(content.classes),
        privacy_=content.privacy,
        feature_names_in_=None if names is None else _read_only(names, dtype=object),
        released_on=content.released_on,
    )


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ModelFileError(f"the model has {otherwise}")


def _written(values: Iterable[float], step: float | None) -> tuple[_Coefficient, ...]:
    """Coefficients as text or integers without rounding."""
    numbers = [float(value) for value in values]
    _require(all(np.isfinite(numbers)), "a coefficient that is not finite")
    if step is None:
        return tuple(number.hex() for number in numbers)
    multiples = [number / step for number in numbers]
    on_lattice = all(m.is_integer() and abs(m) < 2.0**63 for m in multiples)
    _require(on_lattice, "a coefficient off its lattice")
    return tuple(int(multiple) for multiple in multiples)


def _read(values: tuple[_Coefficient, ...], step: float | None) -> list[float]:
    kind = str if step is None else int
    _require(all(type(value) is kind for value in values), "coefficients in the wrong notation")
    try:
        numbers = [
            float.fromhex(value) if isinstance(value, str) else value * (step or 0.0)
            for value in values
        ]
    except OverflowError:
        numbers = [np.inf]
    _require(all(np.isfinite(numbers)), "a coefficient that is not finite")
    return numbers


def _read_only(values: Any, dtype: Any = None) -> NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def _digest(content: bytes | msgspec.Raw) -> str:
    """SHA-256 over the content, whatever its white space and the order of its keys."""
    canonical = msgspec.json.encode(msgspec.json.decode(content), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _encoded(content: _Content) -> bytes:
    return msgspec.json.encode(content, enc_hook=_encode_fraction)


def _typed(content: bytes | msgspec.Raw) -> _Content:
    return msgspec.json.decode(content, type=_Content, dec_hook=_decode_fraction)


def _encode_fraction(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise ModelFileError(f"a {type(value).__name__} cannot stand in a model file")


def _decode_fraction(kind: type, value: Any) -> Fraction:
    # Digits alone: Fraction would spend hours on "1e999999999".
    if kind is Fraction and isinstance(value, str) and re.fullmatch(_RATIO, value):
        return Fraction(value)
    raise ValueError("expected an exact fraction")
