"""Plots; the only module that needs matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from privlr.exceptions import InvalidParameterError
from privlr.privacy import Ledger

__all__ = ["budget_curve", "noise_curve", "privacy_utility_curve"]

# Okabe and Ito's palette: told apart under every common colour blindness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":")


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
    figure, axes = _axes(title)
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
    axes.legend(frameon=False, loc="lower right")
    return _written(figure, path)


def noise_curve(
    epsilons: ArrayLike,
    betas: dict[str, ArrayLike],
    *,
    n_coefficients: int,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw the length of the noise vector against epsilon.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Increasing privacy budgets.
    betas : dict of str to array-like of shape (n_epsilons,)
        For each curve its name and noise rates, as `privlr.privacy.calibrate` gives them.
    n_coefficients : int
        d, the length of the coefficient vector: the mean length of the noise is d/beta.
    title : str, default=None
        Title of the figure.
    path : path-like, default=None
        Where to write the figure; the ending (.png, .svg, .pdf) gives the format.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    InvalidParameterError
        If noise rates do not fit the epsilons, or are not positive.
    """
    figure, axes = _axes(title)
    positions = np.asarray(epsilons, dtype=np.float64)
    for i, (name, values) in enumerate(betas.items()):
        rates = np.asarray(values, dtype=np.float64)
        if rates.shape != positions.shape or not (rates > 0).all():
            raise InvalidParameterError("betas", f"{len(positions)} positive numbers", rates.shape)
        axes.plot(
            positions,
            n_coefficients / rates,
            color=_COLOURS[i % len(_COLOURS)],
            linestyle=_DASHES[i % len(_DASHES)],
            linewidth=2,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Privacy budget ε  (left: more private)")
    axes.set_ylabel("Mean length of the noise vector, d/β")
    axes.grid(color="0.9")
    axes.legend(frameon=False, loc="upper right")
    return _written(figure, path)


def budget_curve(
    ledger: Ledger,
    *,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw what is left of a ledger's budget after each charge.

    Parameters
    ----------
    ledger : privlr.privacy.Ledger
        The account; without a limit, what was spent is drawn instead.
    title : str, default=None
        Title of the figure.
    path : path-like, default=None
        Where to write the figure; the ending (.png, .svg, .pdf) gives the format.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    figure, axes = _axes(title)
    charges, limit = ledger.charges, ledger.limit
    amounts = np.array([float(charge.epsilon) for charge in charges])
    spent = np.concatenate([[0.0], np.cumsum(amounts)])
    level = spent if limit is None else float(limit) - spent
    ends = np.append(np.arange(len(level)), len(level) - 0.5)  # the last level is seen, too
    steps = np.append(level, level[-1])
    axes.step(ends, steps, where="post", color=_COLOURS[0], linewidth=2)
    axes.fill_between(ends, steps, step="post", color=_COLOURS[0], alpha=0.2, linewidth=0)
    noted = [i for i, charge in enumerate(charges, start=1) if charge.note]
    if noted:
        axes.plot(noted, level[noted], _MARKERS[3], color=_COLOURS[1], label="charge with a note")
        axes.legend(frameon=False)
    axes.set_xlim(0, ends[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Charges")
    axes.set_ylabel("Spent, ε" if limit is None else f"Left of ε = {float(limit):g}")
    axes.grid(axis="y", color="0.9")
    return _written(figure, path)


def _axes(title: str | None) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    if title is not None:
        axes.set_title(title, loc="left", fontsize="medium")
    return figure, axes


def _written(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        figure.savefig(path)
    return figure
