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
from privlr.vertical import Iteration

__all__ = ["admm_curve", "budget_curve", "noise_curve", "privacy_utility_curve", "sweep_curve"]

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
    _draw_scores(axes, epsilons, scores, non_private)
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{value:g}" for value in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("Privacy budget ε  (left: more private)")
    axes.set_ylabel(score_name)
    return _written(figure, path)


def sweep_curve(
    values: Sequence[float],
    scores: dict[str, ArrayLike],
    *,
    parameter: str,
    non_private: float | None = None,
    title: str | None = None,
    score_name: str = "Test AUC",
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw a score against a parameter, such as the number of groups or an importance.

    Parameters
    ----------
    values : sequence of float
        Increasing values of the parameter, drawn at equal distances.
    scores : dict of str to array-like of shape (n_repeats, n_values)
        As in `privacy_utility_curve`.
    parameter : str
        Label of the horizontal axis.
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
        If scores do not fit the values.
    """
    figure, axes = _axes(title)
    places = range(len(values))
    _draw_scores(axes, places, scores, non_private)
    axes.set_xticks(places, [f"{value:g}" for value in values])
    axes.set_xlabel(parameter)
    axes.set_ylabel(score_name)
    return _written(figure, path)


def admm_curve(
    history: Sequence[Iteration],
    *,
    title: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draw what the rounds of ADMM did: objective, test loss, and residuals.

    Parameters
    ----------
    history : sequence of privlr.vertical.Iteration
        Such as ``VerticalLogisticRegression.history_``; what is NaN or None in every round,
        as the objective of a run with noise, is left out.
    title : str, default=None
        Title of the figure.
    path : path-like, default=None
        Where to write the figure; the ending (.png, .svg, .pdf) gives the format.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    figure = Figure(figsize=(9.0, 3.8), dpi=150, layout="constrained")
    if title is not None:
        figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    rounds = [iteration.round for iteration in history]
    panels = (
        ("Loss", {"objective": "training objective", "test_log_loss": "test log loss"}),
        ("Norm", {"primal_residual": "primal residual", "dual_residual": "dual residual"}),
    )
    for axes, (label, names) in zip(figure.subplots(1, 2), panels, strict=True):
        _tidy(axes)
        for i, (name, shown) in enumerate(names.items()):
            found = [getattr(iteration, name) for iteration in history]
            line = np.array(found, dtype=np.float64)
            if np.isfinite(line).any():
                axes.plot(rounds, line, _DASHES[i], color=_COLOURS[i], linewidth=2, label=shown)
        axes.set_yscale("linear" if label == "Loss" else "log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("Round")
        axes.set_ylabel(label)
        if axes.lines:
            axes.legend(frameon=False)
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
    return _written(figure, path)


def _draw_scores(
    axes: Axes, positions: Sequence[float], scores: dict[str, ArrayLike], level: float | None
) -> None:
    """Draw a line and a band for each curve, and a dashed line at the level without privacy."""
    for i, (name, values) in enumerate(scores.items()):
        table = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if table.shape[1:] != (len(positions),):
            raise InvalidParameterError(
                "scores", f"of shape (n_repeats, {len(positions)})", table.shape
            )
        colour, marker = _COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)]
        low, high = np.quantile(table, [0.1, 0.9], axis=0)
        axes.fill_between(positions, low, high, color=colour, alpha=0.2, linewidth=0)
        mean = table.mean(axis=0)
        axes.plot(positions, mean, color=colour, marker=marker, linewidth=2, label=name)
    if level is not None:
        axes.axhline(level, color="0.25", linestyle="--", linewidth=1.4, label="not private")
    axes.legend(frameon=False, loc="best")


def _axes(title: str | None) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.0, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    _tidy(axes)
    if title is not None:
        axes.set_title(title, loc="left", fontsize="medium")
    return figure, axes


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9")


def _written(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        figure.savefig(path)
    return figure
