"""Checks of scalar parameters, each of which names the parameter it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

from privlr.exceptions import InvalidParameterError

__all__ = [
    "LARGEST",
    "check_choice",
    "check_integer",
    "check_n_jobs",
    "check_nonnegative",
    "check_positive",
    "check_probability",
    "unless_auto",
]

T = TypeVar("T")

#: Magnitudes outside [1/LARGEST, LARGEST] are refused: a product of up to six accepted numbers
#: then neither overflows nor vanishes.
LARGEST = 1e50


def _as_float(value: Any) -> float:
    """Return a real number as float, and nan for anything else (bool included)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_positive(
    name: str, value: Any, *, low: float = 1 / LARGEST, high: float = LARGEST
) -> float:
    """Return `value` as float if it is a real number in [`low`, `high`]."""
    number = _as_float(value)
    if not low <= number <= high:
        raise InvalidParameterError(name, f"a positive finite number, at most {high:g}", value)
    return number


def check_nonnegative(name: str, value: Any) -> float:
    """Return `value` as float if it is 0 or passes `check_positive`."""
    number = _as_float(value)
    if number != 0 and not 1 / LARGEST <= number <= LARGEST:
        raise InvalidParameterError(
            name, f"0 or a positive finite number, at most {LARGEST:g}", value
        )
    return number


def unless_auto(name: str, value: Any, check: Callable[[str, Any], T]) -> T | None:
    """Return None if `value` is "auto", else what `check` makes of it."""
    if isinstance(value, str) and value == "auto":
        return None
    try:
        return check(name, value)
    except InvalidParameterError as error:
        raise InvalidParameterError(name, f"'auto', or {error.accepted}", value) from None


def check_probability(name: str, value: Any) -> float:
    """Return `value` as float if it lies strictly between 0 and 1."""
    number = _as_float(value)
    if not 0 < number < 1:
        raise InvalidParameterError(name, "a number strictly between 0 and 1", value)
    return number


def check_integer(name: str, value: Any, *, low: int = 1) -> int:
    """Return `value` as int if it is an integer (not a bool) of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise InvalidParameterError(name, f"an integer of at least {low}", value)
    return int(value)


def check_n_jobs(value: Any) -> int | None:
    """Return `value` if it counts threads: None, or an integer other than 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value == 0:
        raise InvalidParameterError("n_jobs", "an integer other than 0, or None", value)
    return int(value)


def check_choice(name: str, value: Any, accepted: Sequence[str]) -> str:
    """Return `value` if it is one of the `accepted` strings."""
    if not isinstance(value, str) or value not in accepted:
        raise InvalidParameterError(name, "one of " + ", ".join(map(repr, accepted)), value)
    return value
