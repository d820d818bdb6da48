"""Figures and tables of the experiments on private stacking, from their CSV files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from numpy.typing import NDArray
from PIL import Image

from privlr._experiments.run import Result, read

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


#: AUC of the repeats, by data, pipeline, method and x.
Scores = dict[tuple[str, str, str, float], NDArray[np.float64]]


def draw(out: Path) -> Iterator[Path]:
    """Draw every table."""
    for name, label in (
        ("epsilon", "Privacy budget ε"),
        ("groups", "Number K of models below"),
        ("alpha", "α (the i-th best column counts αⁱ)"),
    ):
        yield _curves(out, name, label)
    yield _combiners(out)
    yield _branches(out)


def _load(out: Path, name: str, rule: str = "best") -> Scores:
    """Read a table, with the ridge that is best on average ("best"), or in each repeat
    on the rows kept for validation ("tuned")."""
    found: dict[Any, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in read(out / f"{name}.csv"):
        key = row["data"], row["pipeline"], row["method"], float(row["x"])
        found[key][row["ridge"]].append((float(row["auc"]), float(row["validation"])))
    scores = {}
    for key, ridges in found.items():
        # Repeats of a run that was stopped may be there for some ridges only.
        n = min(map(len, ridges.values()))
        auc, validation = np.moveaxis(np.array([table[:n] for table in ridges.values()]), 2, 0)
        best = auc.mean(axis=1).argmax() if rule == "best" else validation.argmax(axis=0)
        scores[key] = auc[best, np.arange(n)]
    return scores


def _curves(out: Path, name: str, label: str) -> Path:
    table = _load(out, name)
    sets = ["NEWS20", "MNIST"]
    figure = Figure(figsize=(9.5, 7.4), dpi=110, layout="constrained")
    grid = figure.subplots(len(sets), 2, sharex=True, sharey="row")
    for row, data in zip(grid, sets, strict=True):
        scores = np.concatenate([auc for key, auc in table.items() if key[0] == data])
        low = 1.0
        for axes, pipeline in zip(row, TITLES, strict=True):
            values = sorted({x for *start, x in table if start[:2] == [data, pipeline]})
            for method in [m for m in COLOURS if (data, pipeline, m, values[0]) in table]:
                aucs = np.array([table[data, pipeline, method, x] for x in values])
                mean, (worst, best) = aucs.mean(axis=1), np.quantile(aucs, [0.1, 0.9], axis=1)
                colour = COLOURS[method]
                axes.fill_between(values, worst, best, color=colour, alpha=0.15, linewidth=0)
                axes.plot(values, mean, color=colour, marker=MARKERS[method], label=method, lw=1.8)
                low = min(low, float(mean.min()))
            free = table.get((data, "", "not private", 0.0))
            if free is not None:
                axes.axhline(free.mean(), color="0.25", linestyle="--", lw=1.2, label="not private")
            axes.set_title(f"{data}: {TITLES[pipeline]}", loc="left", fontsize="medium")
            _tidy(axes)
            if name != "alpha":
                axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(values))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(NullLocator())
        row[0].set_ylabel("Test AUC (logit scale)")
        top = float(np.quantile(scores, 0.98))
        row[0].set_ylim(max(0.45, low - 0.03), 1 - (1 - top) / 1.4)
    for axes in grid[-1]:
        axes.set_xlabel(label)
    grid[0][1].legend(frameon=False, loc="lower right", fontsize="small")
    figure.supxlabel(
        f"Lines: {_mean(table)}; bands: worst to best tenth. {CAVEAT}", fontsize="small"
    )
    return _save(figure, out / f"stacking_{name}.png")


def _mean(table: Scores) -> str:
    return f"mean of {max(map(len, table.values()))} repeats"


def _combiners(out: Path) -> Path:
    table = _load(out, "combiners")
    figure = Figure(figsize=(8.5, 4.2), dpi=110, layout="constrained")
    axes = figure.subplots()
    for shift, (pipeline, colour, marker) in zip(
        (-0.12, 0.12), (("published", "#D55E00", "o"), ("privlr", "#0072B2", "D")), strict=True
    ):
        found = {m: table.get(("NEWS20", pipeline, m, 1.0)) for m in COMBINER_ORDER}
        shown = {m: auc for m, auc in found.items() if auc is not None}
        x = np.array([COMBINER_ORDER.index(m) for m in shown]) + shift
        aucs = np.array(list(shown.values()))
        mean = aucs.mean(axis=1)
        bars = np.abs(np.quantile(aucs, [0.1, 0.9], axis=1) - mean)
        axes.errorbar(
            x, mean, bars, fmt=marker, color=colour, capsize=3, label=TITLES[pipeline], ms=7
        )
    axes.set_xticks(range(len(COMBINER_ORDER)), COMBINER_ORDER)
    axes.set_ylabel("Test AUC (logit scale)")
    _tidy(axes)
    axes.legend(frameon=False, loc="upper center", fontsize="small")
    axes.set_title("NEWS20, PST-F(W), ε = 1, K = 5: combiners", loc="left", fontsize="medium")
    figure.supxlabel(
        f"{_mean(table).capitalize()}, worst to best tenth. {CAVEAT}", fontsize="small"
    )
    return _save(figure, out / "stacking_combiners.png")


def _sites(table: Scores, pipeline: str, method: str) -> dict[float, NDArray[np.float64]]:
    return {site: auc for (_, p, m, site), auc in table.items() if (p, m) == (pipeline, method)}


def _branches(out: Path) -> Path:
    table = _load(out, "branches")
    figure = Figure(figsize=(9.5, 7.0), dpi=110, layout="constrained")
    for axes, pipeline in zip(figure.subplots(2, 1, sharex=True, sharey=True), TITLES, strict=True):
        for i, method in enumerate(BRANCH_ORDER):
            sites = _sites(table, pipeline, method)
            mean = np.array([auc.mean() for auc in sites.values()])
            axes.errorbar(
                np.array(list(sites)) + 0.16 * (i - 1.5),
                mean,
                [_deviation(auc) for auc in sites.values()],
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
        f"{max(map(len, table.values()))} repeats.\nThe published source of five groups really "
        "spends 5 on its rows. Scales and importances come from the main site's data:\nnot covered "
        "by ε.",
        fontsize="small",
    )
    return _save(figure, out / "stacking_branches.png")


def _deviation(auc: NDArray[np.float64]) -> float:
    return float(auc.std(ddof=1)) if len(auc) > 1 else 0.0


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


def summarise(out: Path) -> Iterator[Result]:
    """Give the mean of every curve, and in how many branches each ordering holds."""
    for name in ("alpha", "combiners", "epsilon", "groups"):
        found = _load(out, name)
        for (data, pipeline, method, x), auc in _load(out, name, "tuned").items():
            if pipeline == "published":
                found[data, "published, tuned", method, x] = auc
        xs = sorted({x for *_, x in found})
        rows = [
            [*curve, *(float(found[*curve, x].mean()) if (*curve, x) in found else "" for x in xs)]
            for curve in sorted({(data, pipeline, method) for data, pipeline, method, _ in found})
        ]
        headings = ("data", "pipeline", "method", *(f"{x:g}" for x in xs))
        yield Result(f"AUC by {name}", headings, rows)
    branches = _load(out, "branches")
    for pipeline in TITLES:
        yield from _orderings(branches, pipeline)


def _orderings(table: Scores, pipeline: str) -> Iterator[Result]:
    sites = {method: _sites(table, pipeline, method) for method in BRANCH_ORDER}
    mean = {m: np.array([auc.mean() for auc in found.values()]) for m, found in sites.items()}
    rows: list[list[Any]] = [
        [
            f"{site:g}",
            *(f"{s[site].mean():.3f} ± {_deviation(s[site]):.3f}" for s in sites.values()),
        ]
        for site in sites["HTL"]
    ]
    rows.append(["mean", *(float(m.mean()) for m in mean.values())])
    yield Result(f"Branches, {pipeline}", ("branch", *BRANCH_ORDER), rows)
    orders = [
        [better, worse, int((mean[better] > mean[worse]).sum()), len(mean[better])]
        for better, worse in (
            ("PST-H(W)", "PST-H(U)"),
            ("PST-H(W)", "HTL"),
            ("PST-H(U)", "HTL"),
            ("HTL", "PLR(target)"),
            ("PST-H(W)", "PLR(target)"),
        )
    ]
    yield Result(f"Orderings, {pipeline}", ("better", "worse", "branches", "of"), orders)
