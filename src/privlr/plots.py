"""Plots; the only module that needs matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from privlr.exceptions import InvalidParameterError

__all__ = ["privacy_utility_curve"]

# Okabe and Ito's palette: told apart under every common colour blindness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def privacy_utility_curve(
    epsilons: Sequence[float],
    scores: dict[str, ArrayLike],
    *,
    non_private: float | None = None,
    title: str | None = None,
    score_name: str = "Test AUC",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw a score against epsilon, with a band over repeated fits.

    Parameters
    ----------
    epsilons : sequence of float
        Increasing privacy budgets.
    scores : dict of str to array-like of shape (n_repeats, n_epsilons)
        For each curve its name and scores. The line is the mean over the repeats, the band
        reaches from the worst to the best tenth.
    non_private : float, default=None
        Score without privacy, drawn as a dashed line.
    title : str, default=None
        Title of the figure.
    score_name : str, default="Test AUC"
        Label of the vertical axis.
    path : path-like, default=None
        Where to write the figure; the ending (.png, .svg, .pdf) gives the format.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    InvalidParameterError
        If scores do not fit the epsilons.
    """
    figure = Figure(figsize=(7.0, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    positions = np.asarray(epsilons, dtype=np.float64)
    for i, (name, values) in enumerate(scores.items()):
        table = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if table.shape[1:] != positions.shape:
            raise InvalidParameterError(
                "scores", f"of shape (n_repeats, {len(positions)})", table.shape
            )
        colour = _COLOURS[i % len(_COLOURS)]
        low, high = np.quantile(table, [0.1, 0.9], axis=0)
        axes.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            positions,
            table.mean(axis=0),
            color=colour,
            marker=_MARKERS[i % len(_MARKERS)],
            linewidth=2,
            label=name,
        )
    if non_private is not None:
        axes.axhline(non_private, color="0.25", linestyle="--", linewidth=1.4, label="not private")
    axes.set_xscale("log")
    axes.set_xticks(positions, [f"{value:g}" for value in positions])
    axes.minorticks_off()
    axes.set_xlabel("Privacy budget ε  (left: more private)")
    axes.set_ylabel(score_name)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    if title is not None:
        axes.set_title(title, loc="left", fontsize="medium")
    if path is not None:
        figure.savefig(path)
    return figure
