"""Differentially private logistic regression with a compiled core."""

from privlr._native import get_include, get_library
from privlr.linear_model import PrivateLogisticRegression
from privlr.optimize import solve, solve_many

__version__ = "0.1.0"

__all__ = [
    "PrivateLogisticRegression",
    "__version__",
    "get_include",
    "get_library",
    "solve",
    "solve_many",
]
