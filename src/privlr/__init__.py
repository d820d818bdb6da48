"""Differentially private logistic regression with a compiled core."""

from privlr.linear_model import PrivateLogisticRegression
from privlr.optimize import solve

__version__ = "0.1.0"

__all__ = ["PrivateLogisticRegression", "__version__", "solve"]
