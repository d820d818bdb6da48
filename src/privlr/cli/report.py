"""How the commands speak: facts as a table or JSON, refusals as one line and an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from privlr.card import plain_text
from privlr.exceptions import ConvergenceError, EntropyError, FederationError, PrivacyWarning

__all__ = ["print_facts", "reported"]


def print_facts(title: str, facts: Any, json: bool) -> None:
    """Print facts as a table of two columns, or as JSON.

    Parameters
    ----------
    title : str
        Heading of the table.
    facts : dict or dataclass
        What to print.
    json : bool
        Whether to print JSON instead.
    """
    builtins = msgspec.to_builtins(facts, enc_hook=str)
    if json:
        print(msgspec.json.encode(builtins).decode())
        return
    table = Table(title=title, show_header=False)
    for name, value in builtins.items():
        table.add_row(name, plain_text(value))
    Console().print(table)


@contextmanager
def reported() -> Iterator[None]:
    """Turn refusals into one line and exit code 2, failures of the run into exit code 1.

    Yields
    ------
    None
        Nothing.
    """
    console = Console(stderr=True, soft_wrap=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        try:
            yield
        except (ConvergenceError, EntropyError, FederationError) as error:
            console.print("failed: ", style="bold red", end="")
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
        except (ValueError, OSError, UnicodeError) as error:
            console.print("refused: ", style="bold red", end="")
            console.print(str(error), markup=False)
            raise typer.Exit(2) from None
        finally:
            for warning in caught:
                if issubclass(warning.category, PrivacyWarning):
                    console.print(f"warning: {warning.message}", style="yellow", markup=False)
