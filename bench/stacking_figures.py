"""Figures and tables of the experiments on private stacking, from their CSV files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from PIL import Image
from rich.console import Console
from rich.table import Table

# Okabe and Ito's palette: told apart under every common colour blindness.
COLOURS = {
    "PLR": "#E69F00",
    "PLR(target)": "#E69F00",
    "PLR rescaled": "#CC79A7",
    "PST-S": "#009E73",
    "PST-F(U)": "#56B4E9",
    "PST-H(U)": "#56B4E9",
    "PST-F(W)": "#0072B2",
    "PST-H(W)": "#0072B2",
    "HTL": "#D55E00",
}
MARKERS = {
    "PLR": "o",
    "PLR(target)": "o",
    "PLR rescaled": "P",
    "PST-S": "^",
    "PST-F(U)": "s",
    "PST-H(U)": "s",
    "PST-F(W)": "D",
    "PST-H(W)": "D",
    "HTL": "v",
}
BRANCH_ORDER = ("PST-H(W)", "PST-H(U)", "HTL", "PLR(target)")
COMBINER_ORDER = (*(f"C-{k}" for k in range(5)), "C-mv", "C-wmv", "C-hl", "C-sum")
TITLES = {"published": "published pipeline, best ridge in hindsight", "privlr": "privlr, defaults"}
CAVEAT = "Principal components, scales and importances come from the data: not covered by ε."
TICKS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998)


def draw(out: Path) -> Iterator[Path]:
    """Draw every experiment that has numbers."""
    for name, label in (
        ("epsilon", "Privacy budget ε"),
        ("groups", "Number K of models below"),
        ("alpha", "α (the i-th best column counts αⁱ)"),
    ):
        if (out / f"{name}.csv").exists():
            yield _curves(out, name, label)
    if (out / "combiners.csv").exists():
        yield _combiners(out)
    if (out / "branches.csv").exists():
        yield _branches(out)


def _read(out: Path, name: str, rule: str = "best") -> pd.DataFrame:
    """Read an experiment, with one ridge a curve point ("best") or a repeat ("tuned")."""
    table = pd.read_csv(out / f"{name}.csv", keep_default_na=False, na_values=["nan"])
    by = ["data", "method", "pipeline", "x"]
    if rule == "best":
        mean = table.groupby([*by, "ridge"])["auc"].mean()
        kept = mean.groupby(by).idxmax().tolist()
        return table.set_index([*by, "ridge"]).loc[kept].reset_index()
    order = table.sort_values("validation", ascending=False, kind="stable")
    return order.drop_duplicates([*by, "repeat"])


def _curves(out: Path, name: str, label: str) -> Path:
    table = _read(out, name)
    sets = ["NEWS20", "MNIST"]
    figure = Figure(figsize=(9.5, 7.4), dpi=110, layout="constrained")
    grid = figure.subplots(len(sets), 2, sharex=True, sharey="row")
    low = dict.fromkeys(sets, 1.0)
    for row, data in zip(grid, sets, strict=True):
        for axes, pipeline in zip(row, TITLES, strict=True):
            part = table[(table["data"] == data) & (table["pipeline"] == pipeline)]
            for method in [m for m in COLOURS if m in set(part["method"])]:
                curve = part[part["method"] == method]
                grouped = curve.groupby("x")["auc"]
                x = np.array(sorted(curve["x"].unique()))
                mean, worst, best = grouped.mean(), grouped.quantile(0.1), grouped.quantile(0.9)
                colour = COLOURS[method]
                axes.fill_between(x, worst, best, color=colour, alpha=0.15, linewidth=0)
                axes.plot(x, mean, color=colour, marker=MARKERS[method], label=method, lw=1.8)
                low[data] = min(low[data], float(mean.min()))
            free = table[(table["data"] == data) & (table["method"] == "not private")]["auc"]
            if len(free):
                axes.axhline(free.mean(), color="0.25", linestyle="--", lw=1.2, label="not private")
            axes.set_title(f"{data}: {TITLES[pipeline]}", loc="left", fontsize="medium")
            _tidy(axes)
            if name != "alpha":
                axes.set_xscale("log")
            values = sorted(part["x"].unique())
            axes.xaxis.set_major_locator(FixedLocator(values))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(NullLocator())
        row[0].set_ylabel("Test AUC (logit scale)")
        top = float(table[table["data"] == data]["auc"].quantile(0.98))
        row[0].set_ylim(max(0.45, low[data] - 0.03), 1 - (1 - top) / 1.4)
    for axes in grid[-1]:
        axes.set_xlabel(label)
    grid[0][1].legend(frameon=False, loc="lower right", fontsize="small")
    figure.supxlabel(
        f"Lines: mean of 10 repeats; bands: worst to best tenth. {CAVEAT}", fontsize="small"
    )
    return _save(figure, out / f"{name}.png")


def _combiners(out: Path) -> Path:
    table = _read(out, "combiners")
    methods = [m for m in COMBINER_ORDER if m in set(table["method"])]
    figure = Figure(figsize=(8.5, 4.2), dpi=110, layout="constrained")
    axes = figure.subplots()
    for shift, (pipeline, colour, marker) in zip(
        (-0.12, 0.12), (("published", "#D55E00", "o"), ("privlr", "#0072B2", "D")), strict=True
    ):
        part = table[table["pipeline"] == pipeline].groupby("method")["auc"]
        shown = [m for m in methods if m in part.groups]
        x = np.array([methods.index(m) for m in shown]) + shift
        mean = np.array([part.get_group(m).mean() for m in shown])
        ends = np.array([part.get_group(m).quantile([0.1, 0.9]) for m in shown])
        bars = np.abs(ends.T - mean)
        axes.errorbar(
            x, mean, bars, fmt=marker, color=colour, capsize=3, label=TITLES[pipeline], ms=7
        )
    axes.set_xticks(range(len(methods)), methods)
    axes.set_ylabel("Test AUC (logit scale)")
    _tidy(axes)
    axes.legend(frameon=False, loc="upper center", fontsize="small")
    axes.set_title("NEWS20, PST-F(W), ε = 1, K = 5: combiners", loc="left", fontsize="medium")
    figure.supxlabel(f"Mean of 10 repeats, worst to best tenth. {CAVEAT}", fontsize="small")
    return _save(figure, out / "combiners.png")


def _branches(out: Path) -> Path:
    table = _read(out, "branches")
    figure = Figure(figsize=(9.5, 7.0), dpi=110, layout="constrained")
    for axes, pipeline in zip(figure.subplots(2, 1, sharex=True, sharey=True), TITLES, strict=True):
        part = table[table["pipeline"] == pipeline]
        for i, method in enumerate(BRANCH_ORDER):
            curve = part[part["method"] == method]
            grouped = curve.groupby("x")["auc"]
            mean, std = grouped.mean(), grouped.std()
            axes.errorbar(
                mean.index + 0.16 * (i - 1.5),
                mean,
                std,
                fmt=MARKERS[method],
                color=COLOURS[method],
                capsize=2,
                label=f"{method}: {mean.mean():.3f}",
            )
        axes.set_title(TITLES[pipeline], loc="left", fontsize="medium")
        axes.set_ylabel("Test AUC (legend: mean over branches)")
        axes.grid(axis="y", color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            frameon=False,
            ncols=4,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0,
            fontsize="small",
            columnspacing=1,
            handletextpad=0.3,
        )
        axes.set_xticks(range(1, 17))
        axes.set_ylim(0.44, 0.89)
    axes.set_xlabel("Branch")
    figure.supxlabel(
        "Diabetes130, ε = 1 for the main site and 1 for the branch; mean and standard deviation of "
        "10 repeats.\nThe published source of five groups really spends 5 on its rows. Scales and "
        "importances come from the main site's data:\nnot covered by ε.",
        fontsize="small",
    )
    return _save(figure, out / "branches.png")


def _tidy(axes: Any) -> None:
    axes.set_yscale("logit")
    axes.yaxis.set_major_locator(FixedLocator(TICKS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path)
    with Image.open(path) as image:  # few colours: a third of the bytes
        image.convert("RGB").quantize(128).save(path, optimize=True)
    return path


def summarise(out: Path) -> None:
    """Print the mean of every curve, and in how many branches each ordering holds."""
    console = Console(width=120)
    for path in sorted(out.glob("*.csv")):
        name = path.stem
        if name == "branches":
            _orderings(_read(out, name), console)
            continue
        tuned = _read(out, name, "tuned").query("pipeline == 'published'")
        table = pd.concat([_read(out, name), tuned.assign(pipeline="published, tuned")])
        index = ["data", "pipeline", "method"]
        means = table.pivot_table(values="auc", index=index, columns="x").sort_index()
        shown = Table(*index, *(f"{x:g}" for x in means.columns), title=f"AUC by {name}")
        for labels, row in means.iterrows():
            shown.add_row(*labels, *("" if np.isnan(v) else f"{v:.4f}" for v in row))
        console.print(shown)


def _orderings(table: pd.DataFrame, console: Console) -> None:
    for pipeline in TITLES:
        part = table[table["pipeline"] == pipeline]
        grouped = part.groupby(["x", "method"], sort=False)["auc"]
        mean, deviation = (v.unstack()[list(BRANCH_ORDER)] for v in (grouped.mean(), grouped.std()))
        shown = Table("branch", *mean.columns, title=f"Branches, {pipeline}")
        for site in mean.index:
            values = zip(mean.loc[site], deviation.loc[site], strict=True)
            shown.add_row(f"{site:g}", *(f"{m:.3f} ± {s:.3f}" for m, s in values))
        shown.add_row("mean", *(f"{m:.3f}" for m in mean.mean()))
        console.print(shown)
        for better, worse in (
            ("PST-H(W)", "PST-H(U)"),
            ("PST-H(W)", "HTL"),
            ("PST-H(U)", "HTL"),
            ("HTL", "PLR(target)"),
            ("PST-H(W)", "PLR(target)"),
        ):
            holds = int((mean[better] > mean[worse]).sum())
            console.print(f"{better} above {worse} in {holds} of {len(mean)} branches")
