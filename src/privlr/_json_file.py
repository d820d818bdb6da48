"""JSON files of released models: bounded, exact, inert, with a sum over the content.

The SHA-256 sum in a file shows damage and careless edits. It is not a signature:
whoever can write the file can write a matching sum. Where that matters, sign the file.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from privlr.exceptions import ModelFileError

__all__ = [
    "MAX_BYTES",
    "Coefficient",
    "Format",
    "Header",
    "frozen_array",
    "numbers",
    "require",
    "schema_of",
    "linear_fields",
    "written",
]

MAX_BYTES = 64 * 2**20

_HEX_FLOAT = r"^-?0x[01]\.[0-9a-f]{1,13}p[+-][0-9]{1,4}$"
_RATIO = r"[0-9]{1,400}(/[1-9][0-9]{0,399})?"
Coefficient = (
    Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[str, Meta(max_length=32, pattern=_HEX_FLOAT)]
)
_Name = Annotated[str, Meta(max_length=256)]
_Class = bool | int | float | _Name

Content = TypeVar("Content", bound=msgspec.Struct)
Model = TypeVar("Model")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    version: int
    sha256: str
    content: msgspec.Raw


@dataclass(frozen=True)
class Format(Generic[Content, Model]):
    """One kind of file, with what it holds and what is made of that.

    Parameters
    ----------
    schema : str
        Its name.
    version : int
        The one version that is read and written.
    content : type
        A msgspec.Struct.
    model : callable
        Makes a model of a content, or raises ModelFileError.
    """

    schema: str
    version: int
    content: type[Content]
    model: Callable[[Content], Model]

    def save(self, path: str | os.PathLike[str], content: Content) -> None:
        """Write a file, replacing an old one only once the whole new one is on disk.

        Parameters
        ----------
        path : path-like
            The file.
        content : msgspec.Struct
            What it is to hold.

        Raises
        ------
        ModelFileError
            If `load` would refuse it.
        OSError
            If the file cannot be written.
        """
        try:
            # An int where the content promises a float becomes one.
            raw = msgspec.json.format(_plain(self._typed(_plain(content))), indent=1)
        except msgspec.MsgspecError as error:
            raise ModelFileError(f"not a valid model: {error}") from None
        data = msgspec.json.encode(_File(self.schema, self.version, _digest(raw), msgspec.Raw(raw)))
        self._parse(data)  # whatever is written can be read
        path = Path(path)
        scratch = path.with_name(path.name + ".partial")
        try:
            scratch.write_bytes(data)
            scratch.replace(path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None

    def load(self, path: str | os.PathLike[str]) -> Model:
        """Read a file that nobody vouches for.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        object
            What `model` made of its content.

        Raises
        ------
        ModelFileError
            If the file is anything but one that `save` wrote.
        """
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        try:
            return self._parse(data)
        except ModelFileError as error:
            raise ModelFileError(f"{os.fspath(path)}: {error}") from None

    def _parse(self, data: bytes) -> Model:
        if len(data) > MAX_BYTES:
            raise ModelFileError(f"a model file has at most {MAX_BYTES} bytes")
        try:
            file = msgspec.json.decode(data, type=_File)
            if file.schema != self.schema:
                raise ModelFileError(f"the schema is {file.schema[:80]!r}, not {self.schema!r}")
            if file.version != self.version:
                raise ModelFileError(f"version {file.version} is not one that this privlr reads")
            if file.sha256 != _digest(file.content):
                raise ModelFileError("the content does not match its SHA-256 sum")
            content = self._typed(file.content)
            if file.sha256 != _digest(_plain(content)):
                raise ModelFileError("the content has fields that this version does not know")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ModelFileError(f"not a valid model file: {error}") from None
        return self.model(content)

    def _typed(self, content: bytes | msgspec.Raw) -> Content:
        return msgspec.json.decode(content, type=self.content, dec_hook=_decode_fraction)


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind of model file begins with.

    Attributes
    ----------
    released_on : datetime.date
        The day (UTC) of the fit.
    classes : tuple of bool, int, float or str
        Class labels.
    n_features : int
        Number of columns.
    feature_names : tuple of str or None
        Their names.
    """

    released_on: datetime.date
    classes: Annotated[tuple[_Class, ...], Meta(min_length=2, max_length=2**16)]
    n_features: Annotated[int, Meta(ge=1, le=2**24)]
    feature_names: tuple[_Name, ...] | None

    @staticmethod
    def fields(model: Any) -> dict[str, Any]:
        """Return these fields of a model, but for the number of columns.

        Parameters
        ----------
        model : object
            With ``classes_``, a date, and perhaps names.

        Returns
        -------
        dict
            By name.
        """
        names = getattr(model, "feature_names_in_", None)
        return {
            "released_on": getattr(model, "released_on_", None) or model.released_on,
            "classes": tuple(model.classes_.tolist()),
            "feature_names": None if names is None else tuple(names.tolist()),
        }

    @property
    def n_outputs(self) -> int:
        """Raw predictions for each row."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def names(self) -> NDArray[Any] | None:
        """Names of the columns as a read-only array."""
        return None if self.feature_names is None else frozen_array(self.feature_names, object)

    def check(self) -> None:
        """Refuse labels or names that no fit has.

        Raises
        ------
        ModelFileError
            If the classes are of several types, or a class or a name stands twice.
        """
        require(len({type(label) for label in self.classes}) == 1, "classes of several types")
        require(len(set(self.classes)) == len(self.classes), "a class that stands twice")
        if self.feature_names is not None:
            require(len(self.feature_names) == self.n_features, "a wrong number of feature names")
            distinct = len(set(self.feature_names)) == self.n_features
            require(distinct, "a feature name that stands twice")


def schema_of(path: str | os.PathLike[str]) -> str:
    """Tell what kind of model a file says it holds.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    str
        The schema; "" if the file is no model file.
    """
    with open(path, "rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    try:
        return msgspec.json.decode(data, type=_File).schema if len(data) <= MAX_BYTES else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def require(condition: bool, otherwise: str) -> None:
    """Refuse a model that lacks a property.

    Parameters
    ----------
    condition : bool
        Whether it has it.
    otherwise : str
        What it has instead.

    Raises
    ------
    ModelFileError
        If the condition does not hold.
    """
    if not condition:
        raise ModelFileError(f"the model has {otherwise}")


def linear_fields(coef: Any, intercept: Any, privacy: Any) -> dict[str, Any]:
    """Return how a released linear model stands in a file.

    Parameters
    ----------
    coef : ndarray of shape (n_outputs, n_features)
        Coefficients.
    intercept : ndarray of shape (n_outputs,)
        Coefficients of the constant.
    privacy : PrivacyRecord
        Record of the release, with the lattice that the coefficients lie on, if any.

    Returns
    -------
    dict
        The fields "coef", "intercept" and "privacy".
    """
    step = privacy.lattice.step if privacy.lattice else None
    return {
        "coef": tuple(written(row, step) for row in coef),
        "intercept": written(intercept, step),
        "privacy": privacy,
    }


def written(values: Iterable[float], step: float | None) -> tuple[Coefficient, ...]:
    """Return coefficients as text or integers, without rounding.

    Parameters
    ----------
    values : iterable of float
        Finite.
    step : float or None
        Lattice step that they are multiples of; None writes hexadecimal floats.

    Returns
    -------
    tuple of int or of str
        Their notation.

    Raises
    ------
    ModelFileError
        If one is not finite, or off the lattice.
    """
    floats = [float(value) for value in values]
    require(all(np.isfinite(floats)), "a coefficient that is not finite")
    if step is None:
        return tuple(number.hex() for number in floats)
    multiples = [number / step for number in floats]
    on_lattice = all(m.is_integer() and abs(m) < 2.0**63 for m in multiples)
    require(on_lattice, "a coefficient off its lattice")
    return tuple(int(multiple) for multiple in multiples)


def numbers(values: tuple[Coefficient, ...], step: float | None) -> list[float]:
    """Return the coefficients that `written` wrote.

    Parameters
    ----------
    values : tuple of int or of str
        Untrusted.
    step : float or None
        Lattice step.

    Returns
    -------
    list of float
        Finite.

    Raises
    ------
    ModelFileError
        If the step is no power of two, the notation is wrong, or a number is not finite.
    """
    require(step is None or math.frexp(step)[0] == 0.5, "a lattice whose step is no power of two")
    kind = str if step is None else int
    require(all(type(value) is kind for value in values), "coefficients in the wrong notation")
    try:
        floats = [
            float.fromhex(value) if isinstance(value, str) else value * (step or 0.0)
            for value in values
        ]
    except OverflowError:
        floats = [np.inf]
    require(all(np.isfinite(floats)), "a coefficient that is not finite")
    return floats


def frozen_array(values: Any, dtype: Any = None) -> NDArray[Any]:
    """Return a read-only array.

    Parameters
    ----------
    values : array-like
        Its entries.
    dtype : dtype or None, default=None
        Their type.

    Returns
    -------
    ndarray
        Not writeable.
    """
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def _digest(content: bytes | msgspec.Raw) -> str:
    """SHA-256 over the content, whatever its white space and the order of its keys."""
    canonical = msgspec.json.encode(msgspec.json.decode(content), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _plain(content: msgspec.Struct) -> bytes:
    return msgspec.json.encode(content, enc_hook=_encode_fraction)


def _encode_fraction(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise ModelFileError(f"a {type(value).__name__} cannot stand in a model file")


def _decode_fraction(kind: type, value: Any) -> Fraction:
    # Digits alone: Fraction would spend hours on "1e999999999".
    if kind is Fraction and isinstance(value, str) and re.fullmatch(_RATIO, value):
        return Fraction(value)
    raise ValueError("expected an exact fraction")
