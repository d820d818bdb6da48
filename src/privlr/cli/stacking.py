"""The command ``privlr transfer``: a branch's side, from a source's file to its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from privlr._tables import read_table
from privlr.cli.ledger import LedgerFile, Limit, open_ledger, with_totals
from privlr.cli.report import Overwrite, print_facts, reported, require_writable
from privlr.exceptions import ModelFileError
from privlr.model_file import ReleasedModel, load_model, schema_of
from privlr.stacking import (
    SCHEMA,
    ReleasedStack,
    TransferStackingClassifier,
    load_stack,
    save_stack,
)

__all__ = ["importance", "load_released"]


def load_released(path: Path) -> ReleasedModel | ReleasedStack:
    """Read a model or a stack, whichever the file holds.

    Parameters
    ----------
    path : Path
        What a command wrote.

    Returns
    -------
    ReleasedModel or ReleasedStack
        As the file says.

    Raises
    ------
    ModelFileError
        If it is another file, such as a party's part of a vertical model.
    """
    schema = schema_of(path)
    if not schema:
        raise ModelFileError(f"{path} is not a file of `privlr fit` or `privlr transfer`")
    return load_stack(path) if schema == SCHEMA else load_model(path)


def _transfer(
    source: Annotated[Path, typer.Argument(help="What `privlr fit --groups` wrote elsewhere.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the source's columns.")],
    label: Annotated[str, typer.Option(help="The label column; its classes are the source's.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget for the rows of this table.")],
    data_norm: Annotated[
        float | None,
        typer.Option(help="Refuse a source whose bound on the norm of a row is another."),
    ] = None,
    l2: Annotated[float | None, typer.Option("--l2", help="Ridge of the mean losses.")] = None,
    loss: Annotated[str, typer.Option(help="auto, logistic, or capped (less noise).")] = "auto",
    combiner: Annotated[
        str, typer.Option(help="stack, sum, vote, weighted_vote, or the number of a model.")
    ] = "stack",
    ledger: LedgerFile = None,
    limit: Limit = None,
    out: Annotated[Path, typer.Option(help="Where to write the model.")] = Path("model.json"),
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Fit a private stack that starts from a source's released models, and write it as JSON."""
    with reported():
        require_writable(out, overwrite, source, data, ledger)
        released = load_released(source)
        if not isinstance(released, ReleasedStack):
            raise ValueError(f"{source} is one model: a source is made by `privlr fit --groups`")
        names = released.feature_names_in_
        if names is None:
            raise ValueError(f"{source} names no columns, so that a table's cannot be matched")
        table = read_table(data, features=names.tolist(), label=label)
        known = {str(name): name for name in released.classes_.tolist()}
        for text in table.labels:
            if text not in known:
                raise ValueError(f"the label {text!r} is not one of the classes of {source}")
        budget = open_ledger(ledger, limit)
        model = TransferStackingClassifier(
            epsilon,
            source=released,
            data_norm=data_norm,
            l2_reg_strength="auto" if l2 is None else l2,
            loss=loss,
            combiner=int(combiner) if combiner.isdecimal() else combiner,
            classes=released.classes_,
            ledger=budget,
        )
        model.fit(table.X, [known[text] for text in table.labels])
        model.feature_names_in_ = names
        save_stack(model, out)
        facts = with_totals(model.privacy_, budget)
    print_facts(f"Model written to {out}", facts, json)


def importance(path: Path, names: Sequence[str]) -> NDArray[np.float64]:
    """Read public importances of columns.

    Parameters
    ----------
    path : Path
        CSV or Parquet with the columns ``feature`` and ``importance``.
    names : sequence of str
        The columns that need one.

    Returns
    -------
    ndarray of shape (n_names,)
        Their importances, in the order of `names`.

    Raises
    ------
    ValueError
        If a column has none, or two, or the file names other columns.
    """
    table = read_table(path, features=["importance"], label="feature")
    found = dict(zip(table.labels, table.X[:, 0].tolist(), strict=True))
    if len(found) < len(table.labels) or found.keys() != set(names):
        wrong = sorted(found.keys() ^ set(names)) or ["one that stands twice"]
        raise ValueError(f"{path} must give each feature once; look at {', '.join(wrong)}")
    return np.array([found[name] for name in names])
