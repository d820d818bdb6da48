"""The measured figures of the documentation.

``python docs/figures.py measure`` fits models of the real data sets that
``measured.json`` beside this file lacks, and writes their scores there; ``draw`` makes
figures and tables of it, as every build of the site does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from privlr import datasets, plots
from privlr.exceptions import ConvergenceError
from privlr.linear_model import PrivateLogisticRegression
from privlr.privacy import auto_l2_reg_strength, calibrate
from privlr.stacking import FeatureStackingClassifier, SampleStackingClassifier

HERE = Path(__file__).parent
EPSILONS = (0.25, 1.0, 4.0)
MULTIPLES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
NOISE_EPSILONS = np.geomspace(0.02, 20, 400)
REPEATS = 5
DATASETS = {
    "MNIST 0/8": datasets.load_mnist_0_8,
    "20 Newsgroups": datasets.load_news20,
    "Adult (a9a)": datasets.load_a9a,
    "Diabetes 130": datasets.load_diabetes130,
}
METHODS = {
    "PLR, logistic": lambda e, **kw: PrivateLogisticRegression(e, loss="logistic", **kw),
    "PLR, capped": lambda e, **kw: PrivateLogisticRegression(e, loss="capped", **kw),
    "PST-S, K = 5": lambda e, **kw: SampleStackingClassifier(e, n_parts=5, loss="capped", **kw),
    "PST-F, K = 5": lambda e, **kw: FeatureStackingClassifier(e, n_groups=5, loss="capped", **kw),
}


def auc(model: Any, data: datasets.Dataset) -> float:
    return float(roc_auc_score(data.y_test, model.decision_function(data.X_test)))


def fits(make: Any, data: datasets.Dataset, epsilon: float, **options: Any) -> Iterator[float]:
    classes = np.unique(data.y_train).tolist()
    for _ in range(REPEATS):
        model = make(epsilon, data_norm=data.data_norm, classes=classes, **options)
        try:
            yield auc(model.fit(data.X_train, data.y_train), data)
        except ConvergenceError as error:
            print(type(model).__name__, epsilon, options, error, flush=True)


def measure() -> None:
    path = HERE / "measured.json"
    found: dict[str, Any] = {"repeats": REPEATS, "epsilons": EPSILONS, "datasets": {}}
    if path.exists():
        found = json.loads(path.read_text())
    for name, load in DATASETS.items():
        if name in found["datasets"]:
            continue
        start = time.monotonic()
        data = load()
        n, d = data.X_train.shape
        entry: dict[str, Any] = {"rows": n, "columns": d}
        entry["not private"] = auc(
            LogisticRegression(C=1.0, max_iter=2000).fit(data.X_train, data.y_train), data
        )
        entry["methods"] = {
            method: [list(fits(make, data, epsilon)) for epsilon in EPSILONS]
            for method, make in METHODS.items()
        }
        entry["l2"] = [
            [
                float(
                    np.mean(list(fits(METHODS["PLR, capped"], data, epsilon, l2_reg_strength=l2)))
                )
                for l2 in (
                    # "auto" is half of W R^2 d/(n epsilon).
                    2
                    * multiple
                    * auto_l2_reg_strength(
                        epsilon, n_samples=n, n_coefficients=d + 1, data_norm=data.data_norm
                    )
                    for multiple in MULTIPLES
                )
            ]
            for epsilon in EPSILONS
        ]
        found["datasets"][name] = entry
        print(name, f"{time.monotonic() - start:.0f} s", flush=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


def draw() -> None:
    found = json.loads((HERE / "measured.json").read_text())
    out = HERE / "generated"
    out.mkdir(exist_ok=True)
    for name, entry in found["datasets"].items():
        stem = "".join(c for c in name.lower() if c.isalnum())
        plots.privacy_utility_curve(
            found["epsilons"],
            {method: np.transpose(scores) for method, scores in entry["methods"].items()},
            non_private=entry["not private"],
            title=f"{name}: {entry['rows']:,} rows, {entry['columns']:,} columns",
            path=out / f"{stem}.png",
        )
    (out / "methods.md").write_text(methods_table(found))
    (out / "l2.md").write_text(l2_table(found))
    plots.noise_curve(
        NOISE_EPSILONS,
        {
            label: [
                calibrate(
                    float(epsilon),
                    n_samples=1000,
                    l2_reg_strength=0.01,
                    loss=loss,
                    calibration=calibration,
                ).beta
                for epsilon in NOISE_EPSILONS
            ]
            for label, loss, calibration in (
                ("logistic, tight", "logistic", "tight"),
                ("logistic, cms2011", "logistic", "cms2011"),
                ("capped, tight", "capped", "tight"),
            )
        },
        n_coefficients=10,
        title="n = 1,000 rows, d = 10, lambda = 0.01, R = 1",
        path=out / "noise.png",
    )


def methods_table(found: dict[str, Any]) -> str:
    heading = ["data", "epsilon", "not private", *METHODS]
    lines = [row(heading), row(["---"] * len(heading))]
    for name, entry in found["datasets"].items():
        for i, epsilon in enumerate(found["epsilons"]):
            means = [np.mean(entry["methods"][method][i]) for method in METHODS]
            cells = [f"**{m:.3f}**" if m > max(means) - 5e-4 else f"{m:.3f}" for m in means]
            lines.append(row([name, f"{epsilon:g}", f"{entry['not private']:.3f}", *cells]))
    return "\n".join(lines) + "\n"


def l2_table(found: dict[str, Any]) -> str:
    heading = ["data", "epsilon", *(f"{m:g}" for m in MULTIPLES), "regret of auto"]
    lines = [row(heading), row(["---"] * len(heading))]
    auto = MULTIPLES.index(0.5)
    for name, entry in found["datasets"].items():
        for epsilon, scores in zip(found["epsilons"], entry["l2"], strict=True):
            cells = [f"{score:.3f}" for score in scores]
            cells[auto] = f"**{cells[auto]}**"
            regret = f"{max(scores) - scores[auto]:.3f}"
            lines.append(row([name, f"{epsilon:g}", *cells, regret]))
    return "\n".join(lines) + "\n"


def row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    {"measure": measure, "draw": draw}[sys.argv[1]]()
