"""How the commands speak: facts as a table or JSON, refusals as one line and an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from privlr.card import plain_text
from privlr.exceptions import ConvergenceError, EntropyError, FederationError, PrivacyWarning

__all__ = ["Overwrite", "print_facts", "reported", "require_writable", "warn"]

#: What brings the packages that only some commands need.
EXTRAS = {"matplotlib": "plots", "nvflare": "federated"}

Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file that --out names, if there is one.")
]


def require_writable(out: Path, overwrite: bool, *inputs: Path | None) -> None:
    """Refuse a file that cannot be written, or is needed, before anything is spent.

    Parameters
    ----------
    out : Path
        File that a command is to write.
    overwrite : bool
        Whether it may be there.
    *inputs : Path or None
        Files that the command reads; they are never replaced.

    Raises
    ------
    ValueError
        If it may not be written.
    """
    if not out.absolute().parent.is_dir():
        raise ValueError(f"{out} lies in no existing directory")
    if out.is_dir():
        raise ValueError(f"{out} is a directory")
    for path in inputs:
        if path is not None and _same_file(out, path):
            raise ValueError(f"{out} is one of the files that are read; write another")
    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists already; --overwrite replaces it")


def _same_file(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def warn(text: str) -> None:
    """Print a warning on standard error.

    Parameters
    ----------
    text : str
        What the user must know.
    """
    console = Console(stderr=True, soft_wrap=True)
    console.print(f"warning: {text}", style="yellow", markup=False)


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
        except BrokenPipeError:  # whoever read the output has enough: typer ends without a word
            raise
        except (ConvergenceError, EntropyError, FederationError) as error:
            console.print("failed: ", style="bold red", end="")
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in EXTRAS:
                raise
            console.print("refused: ", style="bold red", end="")
            hint = f"this needs {package}: pip install 'privlr[{EXTRAS[package]}]'"
            console.print(hint, markup=False)
            raise typer.Exit(2) from None
        except (ValueError, OSError, UnicodeError) as error:
            console.print("refused: ", style="bold red", end="")
            console.print(str(error), markup=False)
            raise typer.Exit(2) from None
        finally:
            for warning in caught:
                if issubclass(warning.category, PrivacyWarning):
                    warn(str(warning.message))
