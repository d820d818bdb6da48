"""Tables from CSV and Parquet files: numbers as features, text as labels."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Table",
    "class_labels",
    "encode_table",
    "is_parquet",
    "read_table",
    "read_text",
    "split_names",
]


@dataclass(frozen=True, eq=False)
class Table:
    """Numeric columns, and the label column as text.

    Attributes
    ----------
    names : tuple of str
        Names of the feature columns.
    X : ndarray of shape (n_rows, n_features)
        Features.
    labels : list of str
        Labels; empty if no label column was asked for.
    """

    names: tuple[str, ...]
    X: NDArray[np.float64]
    labels: list[str]


def read_table(
    path: Path,
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    drop: Collection[str] = (),
) -> Table:
    """Read a CSV file with a header line, or a Parquet file.

    Nothing is imputed: an empty or non-numeric cell is an error.

    Parameters
    ----------
    path : Path
        A name ending in .parquet or .pq is a Parquet file, any other is CSV.
    features : sequence of str, default=None
        The feature columns, in order; None takes all but `label` and `drop`.
    label : str, default=None
        The label column.
    drop : collection of str, default=()
        Columns to leave out.

    Returns
    -------
    Table
        The columns asked for.

    Raises
    ------
    ValueError
        If a column is missing or stands twice, or a cell is no finite number.
    """
    header = _header(path)
    droppable = features is None
    if features is None:
        features = [name for name in header if name != label and name not in drop]
    _require_columns(path, header, [*features, *([] if label is None else [label]), *drop])
    if not features:
        raise ValueError(f"{path} has no feature columns")
    read = _read_parquet if is_parquet(path) else _read_csv
    try:
        X, labels = read(path, header, features, label)
        for row, column in np.argwhere(~np.isfinite(X))[:1].tolist():
            raise _CellError(path, features[column], "is no finite number", row)
    except _CellError as error:
        advice = " (leave a column out with --drop)" if droppable else ""
        raise ValueError(
            f"{error}; every feature must be a number in every row, and none is filled in{advice}"
        ) from None
    return Table(tuple(features), X, labels)


def read_text(path: Path, names: Sequence[str]) -> list[list[str]]:
    """Read columns as text, such as ids and labels.

    Parameters
    ----------
    path : Path
        As for `read_table`.
    names : sequence of str
        The columns.

    Returns
    -------
    list of list of str
        One list for each column.

    Raises
    ------
    ValueError
        If a column is missing or stands twice, or the file has no rows.
    """
    header = _header(path)
    _require_columns(path, header, names)
    read = _read_parquet if is_parquet(path) else _read_csv
    return [read(path, header, [], name)[1] for name in names]


def class_labels(labels: Sequence[str], declared: str | None) -> tuple[list[Any], list[Any]]:
    """Labels and classes as integers if all classes look like integers, else as text.

    Parameters
    ----------
    labels : sequence of str
        Label of each row.
    declared : str or None
        Classes separated by commas, as in `split_names`; None takes those that occur.

    Returns
    -------
    labels, classes : list, list
        Labels and sorted classes.

    Raises
    ------
    ValueError
        If a label is not one of the declared classes, or is empty.
    """
    names = set(labels if declared is None else split_names(declared))
    if "" in names:
        raise ValueError("a class or a label is empty")
    for name in set(labels) - names:
        known = ", ".join(sorted(names))
        raise ValueError(f"the label {name!r} is not one of the declared classes {known}")
    if all(_looks_like_integer(name) for name in names):
        return [int(label) for label in labels], sorted(int(name) for name in names)
    return list(labels), sorted(names)


def split_names(text: str) -> list[str]:
    """Split names at commas; double quotes around a name keep its own commas.

    Parameters
    ----------
    text : str
        Such as ``yes,"no, thanks"``.

    Returns
    -------
    list of str
        Without white space around them.
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True)) or [""]]


def is_parquet(path: Path) -> bool:
    """Tell by the ending of its name what a file is.

    Parameters
    ----------
    path : Path
        A file, or where one is to be.

    Returns
    -------
    bool
        Whether it is a Parquet file.
    """
    return path.suffix.lower() in (".parquet", ".pq")


def encode_table(columns: dict[str, Sequence[Any]], *, parquet: bool) -> bytes:
    """Write columns as CSV or Parquet.

    Parameters
    ----------
    columns : dict of str to sequence
        Names and cells, as many in each.
    parquet : bool
        Whether to write Parquet.

    Returns
    -------
    bytes
        Content of the file.

    Raises
    ------
    ValueError
        If Parquet is asked for and pyarrow is not installed.
    """
    if parquet:
        stream = io.BytesIO()
        pyarrow = _pyarrow()
        pyarrow.parquet.write_table(pyarrow.table(columns), stream)
        return stream.getvalue()
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


class _CellError(ValueError):
    """A cell cannot be used: where it stands, and not what it holds, which is private."""

    def __init__(self, path: Path, column: str, what: str, row: int) -> None:
        super().__init__(
            f"{path}: column {column!r} {what} in row {row + 1} (the header not counted)"
        )


def _looks_like_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 18 and str(int(text)) == text


def _header(path: Path) -> list[str]:
    return _parquet_header(path) if is_parquet(path) else _csv_header(path)


def _require_columns(path: Path, header: list[str], names: Sequence[str]) -> None:
    for name in names:
        if header.count(name) != 1:
            how = "no column" if name not in header else "several columns"
            found = ", ".join(map(repr, header))
            if any(mark in "".join(header) for mark in ";\t"):
                found += " (cells are separated by commas)"
            raise ValueError(f"{path} has {how} {name!r}; its columns are {found}")


def _csv_rows(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        try:
            yield from csv.reader(stream)
        except csv.Error:
            raise ValueError(f"{path}: not a table of numbers and labels") from None
        except UnicodeError:
            raise ValueError(f"{path} is not text in UTF-8") from None


def _csv_header(path: Path) -> list[str]:
    header = next(_csv_rows(path), None)
    if header is None:
        raise ValueError(f"{path} is empty")
    return [name.strip() for name in header]


def _require_full_rows(path: Path, width: int) -> None:
    """Refuse rows of more or fewer cells than the header: their columns are unknown."""
    for number, row in enumerate(filter(None, _csv_rows(path))):
        if len(row) != width:
            how = "more" if len(row) > width else "fewer"
            raise ValueError(
                f"{path}: row {number} (the header not counted) has {how} cells than the header"
            )


def _read_csv(
    path: Path, header: list[str], features: Sequence[str], label: str | None
) -> tuple[NDArray[np.float64], list[str]]:
    def columns(names: Sequence[str], dtype: type) -> NDArray[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # no rows: said below
            try:
                cells: NDArray[Any] = np.loadtxt(
                    path,
                    dtype=dtype,
                    delimiter=",",
                    comments=None,
                    quotechar='"',
                    skiprows=1,
                    usecols=[header.index(name) for name in names],
                    encoding="utf-8-sig",
                    ndmin=2,
                )
            except ValueError as error:
                place = re.search(r"at row (\d+), column (\d+)", str(error))
                if place is None:
                    raise ValueError(f"{path}: not a table of numbers and labels") from None
                what = "is empty" if "string ''" in str(error) else "is no number"
                raise _CellError(path, header[int(place[2]) - 1], what, int(place[1])) from None
        if not len(cells):
            raise ValueError(f"{path} has no rows")
        return cells

    _require_full_rows(path, len(header))
    labels = [] if label is None else [text.strip() for text in columns([label], str)[:, 0]]
    X = columns(features, np.float64) if features else np.empty((len(labels), 0))
    return X, labels


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'privlr[parquet]'") from None
    return pyarrow


def _parquet_header(path: Path) -> list[str]:
    return list(_pyarrow().parquet.read_schema(path).names)


def _read_parquet(
    path: Path, header: list[str], features: Sequence[str], label: str | None
) -> tuple[NDArray[np.float64], list[str]]:
    names = [*features, *([] if label is None else [label])]
    table = _pyarrow().parquet.read_table(path, columns=names)
    if not table.num_rows:
        raise ValueError(f"{path} has no rows")
    for name in names:
        for row in np.flatnonzero(table[name].is_null().to_numpy())[:1].tolist():
            raise _CellError(path, name, "is empty", row)
    X = np.empty((table.num_rows, len(features)), order="F")
    for j, name in enumerate(features):
        cells = table[name].to_numpy()
        if cells.dtype.kind not in "biuf":
            raise _CellError(path, name, "is no number", 0)
        X[:, j] = cells
    labels = [] if label is None else [_label_text(cell) for cell in table[label].to_pylist()]
    return X, labels


def _label_text(cell: Any) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)
