"""The command line: ``privlr fit``, ``predict``, ``transfer``, ``card`` and more.

Its guarantee is for one row replaced by another; the number of rows is public.

Exit codes: 0 done; 1 the run itself failed; 2 the input was refused, or an extra is missing.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from privlr._tables import class_labels, encode_table, is_parquet, read_table
from privlr.cli import federated, inspection, ledger, reproduce, scale, stacking
from privlr.cli.report import Overwrite, print_facts, reported, require_writable, warn
from privlr.linear_model import PrivateLogisticRegression
from privlr.model_file import ReleasedModel, save_model
from privlr.privacy import Ledger
from privlr.stacking import ReleasedStack, TransferSourceClassifier, save_stack

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # they would print private rows
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"privlr {version('privlr')}")
        raise typer.Exit()


@app.callback()
def _main(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Differentially private logistic regression."""


_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_Epsilon = Annotated[float, typer.Option(help="Privacy budget of the whole release.")]
_L2 = Annotated[
    float | None,
    typer.Option("--l2", help="Ridge of the mean loss; by default n_features / (2 n epsilon)."),
]
_Loss = Annotated[str, typer.Option(help="logistic, or capped (less noise).")]


@app.command("fit")
def _fit(
    data: Annotated[Path, typer.Argument(help="CSV with a header line, or Parquet.")],
    label: Annotated[str, typer.Option(help="The label column.")],
    epsilon: _Epsilon,
    data_norm: Annotated[
        float,
        typer.Option(
            help="Bound R on the norm of a row, in which the constant 1 of the intercept counts; "
            "models of --groups have no intercept. Longer rows are scaled down. Choose it "
            "without looking at the data."
        ),
    ],
    classes: Annotated[
        str,
        typer.Option(
            help='All classes: yes,no or yes,"no, thanks"; or public: those that occur, '
            "which then is no secret, and the record says so."
        ),
    ],
    l2: _L2 = None,
    loss: Annotated[
        str | None, typer.Option(help="logistic, or capped (less noise; for groups the default).")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column that is no feature; may be repeated.")
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(help="Fit this many models of groups of columns: a source for transfers."),
    ] = None,
    importance: Annotated[
        Path | None,
        typer.Option(help="CSV with columns feature and importance, public; needs --groups."),
    ] = None,
    charged: ledger.LedgerFile = None,
    limit: ledger.Limit = None,
    out: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("model.json"),
    overwrite: Overwrite = False,
    json: _Json = False,
) -> None:
    """Fit a private model to a table and write it as JSON."""
    with reported():
        require_writable(out, overwrite, data, importance, charged)
        if importance is not None and groups is None:
            raise ValueError("--importance divides the budget over groups: give --groups too")
        table = read_table(data, label=label, drop=drop or ())
        public = classes == "public"
        labels, found = class_labels(table.labels, None if public else classes)
        declared = "public" if public else found
        weights = None if importance is None else stacking.importance(importance, table.names)
        budget = ledger.open_ledger(charged, limit)
        fitted: Any
        if groups is None:
            fitted = _estimator(epsilon, data_norm, l2, loss or "logistic", declared, budget)
        else:
            fitted = TransferSourceClassifier(
                epsilon,
                n_groups=groups,
                importance=weights,
                data_norm=data_norm,
                l2_reg_strength="auto" if l2 is None else l2,
                loss=loss or "auto",
                classes=declared,
                ledger=budget,
            )
        fitted.fit(table.X, labels)
        fitted.feature_names_in_ = np.array(table.names, dtype=object)
        save_model(fitted, out) if groups is None else save_stack(fitted, out)
        facts = ledger.with_totals(fitted.privacy_, budget)
    print_facts(f"Model written to {out}", facts, json)


@app.command("predict")
def _predict(
    model: Annotated[Path, typer.Argument(help="A model that `privlr fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the model's columns.")],
    out: Annotated[
        Path | None,
        typer.Option(help="CSV or Parquet to write; by default CSV on standard output."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            help="A column that is no feature, for a model without names of columns; "
            "may be repeated."
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: _Json = False,
) -> None:
    """Predict classes and probabilities; columns are found by name."""
    with reported():
        if out is not None:
            require_writable(out, overwrite, model, data)
        released = stacking.load_released(model)
        known = released.feature_names_in_
        if known is not None and drop:
            raise ValueError(f"{model} names its columns and takes no others: leave out --drop")
        features = None if known is None else known.tolist()
        table = read_table(data, features=features, drop=drop or ())
        classes = [str(name) for name in released.classes_.tolist()]
        probabilities = released.predict_proba(table.X).tolist()
        predicted = released.predict(table.X).tolist()
        if json:
            rows = [
                {"prediction": label, "probability": dict(zip(classes, row, strict=True))}
                for label, row in zip(predicted, probabilities, strict=True)
            ]
            content = msgspec.json.encode(rows) + b"\n"
        else:
            names = ["prediction", *(f"probability_{name}" for name in classes)]
            columns = dict(zip(names, [predicted, *zip(*probabilities, strict=True)], strict=True))
            content = encode_table(columns, parquet=out is not None and is_parquet(out))
        long, bound = _longer_rows(released, table.X)
        if long:
            warn(
                f"{long} of {len(table.X)} rows are longer than {bound:.6g}, to which rows were "
                "scaled down in training; were these scaled as those were?"
            )
        if out is None:
            sys.stdout.buffer.write(content)
        else:
            out.write_bytes(content)


def _longer_rows(
    released: ReleasedModel | ReleasedStack, X: NDArray[np.float64]
) -> tuple[int, float]:
    """Count the rows beyond a model's bound on their norm, and return it; it may be rounded."""
    if isinstance(released, ReleasedStack):
        bound = released.data_norm_
        constant = any(model.has_intercept for model in released.low_level_)
    else:
        bound, constant = released.privacy_.R, bool(released.intercept_.any())
    with np.errstate(over="ignore"):
        norm = np.hypot(np.linalg.norm(X, axis=1), constant)
    return int(np.sum(norm > 1.001 * bound)), bound


app.command("transfer")(stacking._transfer)
app.command("scale")(scale._scale)


@app.command("cost")
def _cost(
    n_samples: Annotated[int, typer.Option(help="Number of rows (public).")],
    n_features: Annotated[int, typer.Option(help="Number of columns.")],
    epsilon: _Epsilon,
    data_norm: Annotated[float, typer.Option(help="As for `privlr fit` without --groups.")],
    n_classes: Annotated[int, typer.Option(help="Number of classes.")] = 2,
    l2: _L2 = None,
    loss: _Loss = "logistic",
    json: _Json = False,
) -> None:
    """Tell what a fit would cost and how much noise it would add, without any data."""
    with reported():
        declared = list(range(n_classes))
        model = _estimator(epsilon, data_norm, l2, loss, declared)
        cost = model.privacy_cost(n_samples=n_samples, n_features=n_features)
    print_facts("Cost of one fit", cost, json)


@app.command("demo")
def _demo(
    repeats: Annotated[int, typer.Option(min=1, help="Fits at each epsilon.")] = 5,
    out: Annotated[Path, typer.Option(help="Where to write the plot.")] = Path(
        "out/privacy-utility.png"
    ),
    json: _Json = False,
) -> None:
    """Train on real digits at several budgets, and plot utility against privacy."""
    with reported():
        from privlr.cli import demo
        from privlr.plots import privacy_utility_curve

        name, data = demo.dataset()
        budgets = []
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(name, total=len(demo.EPSILONS) * len(demo.LOSSES))
            for budget in demo.run(data, repeats=repeats):
                budgets.append(budget)
                progress.advance(task)
        best = demo.non_private_auc(data)
        out.parent.mkdir(parents=True, exist_ok=True)
        privacy_utility_curve(
            demo.EPSILONS,
            {
                f"{loss} loss": np.transpose([b.auc for b in budgets if b.loss == loss])
                for loss in demo.LOSSES
            },
            non_private=best,
            title=f"{name}: {len(data.X_train):,} rows, {data.X_train.shape[1]} features",
            path=out,
        )
    if json:
        facts = {"plot": str(out), "non_private_auc": best, "fits": budgets}
        print(msgspec.json.encode(facts, enc_hook=np.ndarray.tolist).decode())
        return
    table = Table(title=name, caption=f"without privacy: AUC {best:.4f};  plot: {out}")
    for heading in ("loss", "epsilon", "test AUC", "noise norm d/beta", "certificate"):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for b in budgets:
        auc = f"{b.auc.mean():.4f} ± {b.auc.std():.4f}"
        table.add_row(b.loss, f"{b.epsilon:g}", auc, f"{b.noise:.4g}", f"{b.certificate:.1e}")
    Console().print(table)


def _estimator(
    epsilon: float,
    data_norm: float,
    l2: float | None,
    loss: str,
    classes: Any,
    budget: Ledger | None = None,
) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        epsilon,
        data_norm=data_norm,
        l2_reg_strength="auto" if l2 is None else l2,
        loss=loss,
        classes=classes,
        ledger=budget,
    )


app.add_typer(federated.commands, name="federated")
app.command("align")(federated._align)
app.command("ledger")(ledger._ledger)
app.command("card")(inspection._card)
app.command("audit")(inspection._audit)
app.command("doctor")(inspection._doctor)
app.command("reproduce")(reproduce._reproduce)
