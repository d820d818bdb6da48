"""The last step of every inversion: round so that the promise holds as computed."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["settle"]


def settle(value: float, keeps_promise: Callable[[float], bool], *, upward: bool) -> float:
    """Move `value` by the fewest ulp, doubling, until `keeps_promise` accepts it.

    A root found to working accuracy lies a few ulp on either side of the true one. Of the
    two sides only one is private: the rate of a noise is rounded down, a cost is rounded up.
    The step doubles because a function that is flat at the root leaves many ulp undecided.
    """
    step = 2.0**-53
    while not keeps_promise(value):
        value += value * step if upward else -value * step
        step *= 2
    return value
