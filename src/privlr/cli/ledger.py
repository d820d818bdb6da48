"""Ledgers on the command line: the options that charge one, and the command ``privlr ledger``."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privlr.cli.report import print_facts, reported
from privlr.privacy import Ledger

__all__ = ["LedgerFile", "Limit", "open_ledger", "print_charges", "with_totals"]

LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="Charge this file, which refuses what would exceed its limit. "
        "Without it nothing adds up the fits.",
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        metavar="EPSILON",
        help="Largest total epsilon of a new ledger; of one that is there, the limit it holds.",
    ),
]


def open_ledger(path: Path | None, limit: str | None) -> Ledger | None:
    """Open what the two options name.

    Parameters
    ----------
    path : Path or None
        File of the ledger, if one is to be charged.
    limit : str or None
        Decimal or ratio.

    Returns
    -------
    Ledger or None
        None without a path.

    Raises
    ------
    ValueError
        If a new ledger has no limit, or a limit no ledger or one with another.
    """
    if path is None:
        if limit is not None:
            raise ValueError("--limit is that of a ledger: give --ledger too")
        return None
    if limit is None and not _is_there(path):
        raise ValueError(f"there is no ledger {path}; --limit makes one")
    return Ledger(limit, path)


def with_totals(record: Any, ledger: Ledger | None) -> dict[str, Any]:
    """Return a record as plain values, and what its ledger holds after it.

    Parameters
    ----------
    record : PrivacyRecord or StackRecord
        Of a release.
    ledger : Ledger or None
        What paid for it.

    Returns
    -------
    dict
        The fields of the record, and "ledger" if there is one.
    """
    facts: dict[str, Any] = msgspec.to_builtins(record, enc_hook=str)
    return facts if ledger is None else {**facts, "ledger": _totals(ledger)}


def print_charges(ledger: Ledger, title: str) -> None:
    """Print a table of all charges, with the totals below.

    Parameters
    ----------
    ledger : Ledger
        Any.
    title : str
        Heading of the table.
    """
    sums = [("epsilon", ledger.spent, ledger.limit)]
    if ledger.spent_delta or ledger.delta_limit:
        sums.append(("delta", ledger.spent_delta, ledger.delta_limit))
    table = Table(title=Text(title))
    for heading in ("charge", "epsilon", "delta", "note"):
        table.add_column(heading)
    for c in ledger.charges:
        amounts = (f"{float(amount):g}" for amount in (c.epsilon, c.delta))
        table.add_row(Text(c.label), *amounts, Text(c.note))
    console = Console()
    console.print(table)
    for entry in sums:
        console.print(_sum(*entry))


def _is_there(path: Path) -> bool:
    """Whether there is a ledger to open; of an empty file SQLite would make one without a limit."""
    return path.is_file() and path.stat().st_size > 0


def _totals(ledger: Ledger) -> dict[str, Any]:
    """Sums of epsilon; None where there is no limit."""
    found = {name: getattr(ledger, name) for name in ("spent", "limit", "remaining")}
    plain: dict[str, Any] = msgspec.to_builtins(found, enc_hook=str)
    return plain


def _sum(name: str, spent: Fraction, limit: Fraction | None) -> str:
    if limit is None:
        return f"{float(spent):g} of {name} spent, without a limit"
    return f"{float(spent):g} of {name} {float(limit):g} spent, {float(limit - spent):g} remain"


def _ledger(
    file: Annotated[Path, typer.Argument(help="What `--ledger` named.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the charges of a ledger, and what remains of its limit."""
    with reported():
        if not _is_there(file):
            raise ValueError(f"there is no ledger {file}")
        ledger = Ledger(path=file)
        charges = msgspec.to_builtins(ledger.charges, enc_hook=str)
        if json:
            delta = {"spent_delta": ledger.spent_delta, "delta_limit": ledger.delta_limit}
            print_facts("", {"charges": charges, **_totals(ledger), **delta}, True)
        else:
            print_charges(ledger, f"Ledger {file}")
