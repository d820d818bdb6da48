"""Differentially private logistic regression with a compiled core."""

__version__ = "0.1.0"
