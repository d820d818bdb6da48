"""Figures and a table of the experiments on ADMM sharing, from their files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from privlr._experiments.run import Result, read

COLOURS = {
    "ADMM, Boyd": "#0072B2",
    "ADMM, Jacobi": "#56B4E9",
    "SGD": "#D55E00",
    "shares, rho=.05": "#0072B2",
    "shares, rho=.2": "#56B4E9",
    "statistics, labels": "#009E73",
    "statistics, residuals": "#E69F00",
    "statistics, randomised labels": "#000000",
    "PST-F": "#CC79A7",
    "published, 10 rounds": "0.45",
}
MARKERS = dict(zip(COLOURS, "osDos^vhPx", strict=True))
TITLES = {"a9a": "a9a, columns 66 | 57", "gisette-like": "GISETTE-like, 2,000 | 2,000 | 1,000"}

Curves = dict[str, dict[tuple[str, float], list[list[float]]]]


def load(path: Path) -> Curves:
    """Rows of epoch, objective, log loss and AUC by data set, method and setting."""
    found: Curves = defaultdict(lambda: defaultdict(list))
    for row in read(path):
        values = (row[name] for name in ("epoch", "objective", "log_loss", "auc"))
        found[row["data"]][row["method"], float(row["setting"])].append(
            [float(value) if value else np.nan for value in values]
        )
    return found


def polish(axes: Any, label: str) -> None:
    """Give axes the house's look."""
    axes.set_ylabel(label)
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def curve_figure(name: str, curves: dict[tuple[str, float], Any], optimum: list[float]) -> Figure:
    """Objective and test loss per epoch, each method at the setting of the lowest curve."""
    figure = Figure(figsize=(8.4, 3.6), dpi=120, layout="constrained")
    left, right = figure.subplots(1, 2)
    best: dict[str, tuple[float, float, Any]] = {}
    for (method, setting), rows in curves.items():
        table = np.array(rows)
        score = np.log(table[:, 1] - optimum[1]).mean()
        if method not in best or score < best[method][0]:
            best[method] = score, setting, table
    for method, (_, setting, table) in best.items():
        sign = "step" if method == "SGD" else "rho"
        style = {"color": COLOURS[method], "marker": MARKERS[method], "markevery": 4, "ms": 4}
        left.plot(
            table[:, 0], table[:, 1] - optimum[1], label=f"{method}, {sign} {setting:g}", **style
        )
        right.plot(table[:, 0], table[:, 2], **style)
    left.set_yscale("log")
    polish(left, "Training objective above its minimum")
    right.axhline(optimum[2], color="0.25", linestyle="--", linewidth=1.2, label="centralised")
    tail = np.concatenate([table[:, 2] for *_, table in best.values()])
    right.set_ylim(optimum[2] - 0.02 * optimum[2], min(np.quantile(tail, 0.97), 3 * optimum[2]))
    polish(right, "Test log loss")
    for axes in (left, right):
        axes.set_xlabel("Epoch (round)")
    left.legend(frameon=False, fontsize="small")
    right.legend(frameon=False, fontsize="small")
    figure.suptitle(TITLES[name], x=0.01, ha="left", fontsize="medium")
    return figure


def privacy_figure(curves: Curves) -> Figure:
    """Test log loss and AUC against epsilon."""
    figure = Figure(figsize=(9.0, 6.6), dpi=100, layout="constrained")
    grid = figure.subplots(len(curves), 2, squeeze=False)
    for row, (name, values) in zip(grid, curves.items(), strict=True):
        for axes, column, label in zip(row, (2, 3), ("Test log loss", "Test AUC"), strict=True):
            for method in (m for m in COLOURS if any(m == key[0] for key in values)):
                settings = sorted(s for m, s in values if m == method)
                means = [np.mean(values[method, s], axis=0)[column] for s in settings]
                axes.plot(
                    settings,
                    means,
                    color=COLOURS[method],
                    marker=MARKERS[method],
                    linestyle=":" if method.startswith("published") else "-",
                    label=method + (" (no guarantee)" if method.startswith("published") else ""),
                )
            for method, style in (("centralised", "--"), ("first party alone", "-.")):
                level = np.array(values[method, 0.0])[0, column]
                axes.axhline(level, color="0.25", linestyle=style, linewidth=1.2, label=method)
            axes.set_xscale("log", base=2)
            axes.set_xticks(settings, [f"{s:g}" for s in settings])
            axes.minorticks_off()
            axes.set_xlabel("ε (δ = 1e-5; the published noise: each round)")
            axes.set_title(TITLES[name], loc="left", fontsize="medium")
            polish(axes, label)
        low = np.array(values["centralised", 0.0])[0, 2]
        row[0].set_ylim(0.93 * low, max(0.75, 2.2 * low))
    figure.legend(
        *grid[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize="small",
    )
    return figure


def draw(out: Path) -> Iterator[Path]:
    """Write every figure and yield its path."""
    privacy = load(out / "privacy.csv")
    for name, curves in load(out / "curves.csv").items():
        target = out / f"vertical-{name}.png"
        curve_figure(name, curves, privacy[name]["centralised", 0.0][0]).savefig(target)
        yield target
    target = out / "vertical-privacy.png"
    privacy_figure(privacy).savefig(target)
    yield target


def summarise(out: Path) -> Iterator[Result]:
    """Make a table at equal epsilon for each data set."""
    for name, values in load(out / "privacy.csv").items():
        epsilons = sorted({setting for _, setting in values if setting})
        rows = []
        for method in dict.fromkeys(method for method, _ in values):
            keys = [(method, e if (method, e) in values else 0.0) for e in epsilons]
            means = [np.mean(values[key], axis=0) if key in values else None for key in keys]
            rows.append([method, *("" if m is None else f"{m[3]:.3f} / {m[2]:.3f}" for m in means)])
        headings = ("method", *(f"eps {e:g}" for e in epsilons))
        yield Result(f"{name}: AUC / log loss", headings, rows)
