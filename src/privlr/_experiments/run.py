"""How an experiment is run: one cell after the other, into files that a later run goes on with."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["Experiment", "Result", "fill", "read"]


@dataclass(frozen=True)
class Result:
    """A table of what was found.

    Attributes
    ----------
    title : str
        What it is.
    headings : tuple of str
        Of its columns.
    rows : list of list
        Text and numbers.
    """

    title: str
    headings: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Experiment:
    """What is fitted and what is made of it.

    Attributes
    ----------
    repeats : int
        Draws of noise, where a user asks for no other number.
    cells : callable
        Takes the number of repeats and whether to be quick; returns cells, dataclasses of
        plain values whose first one, `table`, names the file that they belong to.
    measured : tuple of str
        What is measured of a cell.
    measure : callable
        Takes a cell, returns rows of as many values.
    draw, summarise : callable
        Take the folder, make figures and tables of the files in it.
    """

    repeats: int
    cells: Callable[[int, bool], Iterable[Any]]
    measured: tuple[str, ...]
    measure: Callable[[Any], list[tuple[Any, ...]]]
    draw: Callable[[Path], Iterable[Path]]
    summarise: Callable[[Path], Iterable[Result]]


def fill(experiment: Experiment, cells: Iterable[Any], out: Path) -> Iterator[Any]:
    """Measure the cells that the files lack, each written as soon as it is there.

    Parameters
    ----------
    experiment : Experiment
        Where the cells come from.
    cells : iterable of dataclass
        What is to be in the files.
    out : Path
        Folder of the files.

    Yields
    ------
    dataclass
        Each cell, once its numbers are there.
    """
    found: dict[str, set[tuple[str, ...]]] = {}
    for cell in cells:
        path = out / f"{cell.table}.csv"
        key = tuple(str(value) for value in astuple(cell)[1:])
        if cell.table not in found:
            names = [field.name for field in fields(cell)[1:]]
            found[cell.table] = _keys(path, names, experiment.measured)
        if key not in found[cell.table]:
            with path.open("a", newline="") as stream:
                stream.write(_lines([*key, *row] for row in experiment.measure(cell)))
        yield cell


def _keys(path: Path, names: list[str], measured: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Cells that a file holds; a half-written line is cut off, and the cell before it."""
    header, n = [*names, *measured], len(names)
    if not path.exists():
        path.write_text(_lines([header]))
    whole, _, half = path.read_text().rpartition("\n")
    found, *rows = csv.reader(whole.splitlines())
    if found != header:
        raise ValueError(f"{path} holds something else: its columns are {', '.join(found)}")
    if half:
        rows = [row for row in rows if row[:n] != rows[-1][:n]]
        path.write_text(_lines([header, *rows]))
    return {tuple(row[:n]) for row in rows}


def _lines(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read(path: Path) -> list[dict[str, str]]:
    """Read a file.

    Parameters
    ----------
    path : Path
        What `fill` wrote; one that is not there has no rows.

    Returns
    -------
    list of dict
        A row each.
    """
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))
