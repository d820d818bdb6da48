"""The command ``privlr scale``: columns brought to one length by public ranges."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Annotated

import typer

from privlr._tables import encode_table, is_parquet, read_table, read_text
from privlr.cli.report import Overwrite, print_facts, reported, require_writable
from privlr.preprocessing import BoundedScaler

__all__: list[str] = []


def _scale(
    data: Annotated[Path, typer.Argument(help="CSV with a header line, or Parquet.")],
    ranges: Annotated[
        Path,
        typer.Option(
            help="CSV with columns feature, lower and upper: what the columns mean, "
            "not what the rows hold."
        ),
    ],
    out: Annotated[Path, typer.Option(help="CSV or Parquet to write.")],
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to copy as it is, such as the label; may be repeated."),
    ] = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Map public ranges of columns to rows of length at most 1; other columns are left out."""
    with reported():
        require_writable(out, overwrite, data, ranges)
        table = read_table(ranges, features=["lower", "upper"], label="feature")
        kept, names = keep or [], table.labels
        for name in {*names, *kept}:
            if [*names, *kept].count(name) > 1:
                raise ValueError(f"the column {name!r} stands twice in {ranges} and --keep")
        lower, upper = table.X.T
        for name, low, high in zip(names, lower, upper, strict=True):
            if not low < high:
                raise ValueError(f"{ranges}: lower must be below upper for the column {name!r}")
        rows = read_table(data, features=names).X
        scaled = BoundedScaler(lower=lower, upper=upper).fit_transform(rows)
        columns = dict(zip(names, scaled.T.tolist(), strict=True))
        columns.update(zip(kept, read_text(data, kept), strict=True))
        out.write_bytes(encode_table(columns, parquet=is_parquet(out)))
    facts = {
        "rows": len(rows),
        "scaled columns": len(names),
        "copied columns": len(kept),
        "data_norm": sqrt(2),
        "data_norm with --groups": 1.0,  # no intercept, whose constant 1 would count
    }
    print_facts(f"Rows written to {out}", facts, json)
