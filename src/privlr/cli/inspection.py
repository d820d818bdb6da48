"""Commands that look at a model or at this installation: ``card``, ``audit`` and ``doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from privlr.audit import Check, check_record
from privlr.card import model_card
from privlr.cli import diagnosis
from privlr.cli.report import Overwrite, print_facts, reported, require_writable
from privlr.cli.stacking import load_released
from privlr.exceptions import InvalidParameterError
from privlr.privacy import PrivacyRecord
from privlr.stacking import ReleasedStack

_Model = Annotated[Path, typer.Argument(help="A model that `privlr fit` wrote.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _card(
    model: _Model,
    out: Annotated[Path | None, typer.Option(help="File to write: .md, .html or .json.")] = None,
    overwrite: Overwrite = False,
    json: _Json = False,
) -> None:
    """Show what a model says about its own privacy."""
    with reported():
        if out is not None:
            require_writable(out, overwrite, model)
        made = model_card(load_released(model))
        if out is not None:
            forms = {".md": made.__str__, ".html": made._repr_html_, ".json": made.json}
            if out.suffix.lower() not in forms:
                raise InvalidParameterError("out", "a name ending in .md, .html or .json", out.name)
            out.write_text(forms[out.suffix.lower()](), encoding="utf-8")
        elif json:
            print(made.json())
        else:
            Console().print(Markdown(str(made)))


def _audit(model: _Model, json: _Json = False) -> None:
    """Recompute a model's privacy cost from its public constants; exit code 1 if it is wrong."""
    with reported():
        released = load_released(model)
        if isinstance(released, ReleasedStack):
            checks = [
                check._replace(name=f"model {i}: {check.name}")
                for i, below in enumerate(released.low_level_)
                for check in _checks(below.privacy_, below.coef_, below.intercept_)
            ]
            if released.high_level_privacy_ is not None:
                upper = _checks(released.high_level_privacy_, released.coef_, released.intercept_)
                checks += [check._replace(name=f"upper level: {check.name}") for check in upper]
        else:
            checks = _checks(released.privacy_, released.coef_, released.intercept_)
    _print_checks(f"Audit of {model}", checks, json)


def _checks(record: PrivacyRecord, coef: Any, intercept: Any) -> list[Check]:
    """Check the record of one release; without an intercept there are as many fewer numbers."""
    size = coef.size + (intercept.size if np.any(intercept) else 0)
    return check_record(record, n_coefficients=size)


def _doctor(
    seconds: Annotated[
        float, typer.Option(min=0.0, max=600.0, help="Time for the self-audit.")
    ] = 5.0,
    json: _Json = False,
) -> None:
    """Tell versions and machine, and audit the noise that this installation draws."""
    with reported():
        facts = diagnosis.facts()
        checks = diagnosis.self_audit(seconds)
    if json:
        print_facts("", {**facts, "checks": [check._asdict() for check in checks]}, True)
    else:
        print_facts("This installation", facts, False)
    _print_checks("Self-audit", checks, json, printed=json)


def _print_checks(title: str, checks: list[Check], json: bool, *, printed: bool = False) -> None:
    """Print checks, unless they are printed, and exit with 1 if one failed."""
    if json and not printed:
        print_facts("", {"checks": [check._asdict() for check in checks]}, True)
    elif not json:
        table = Table(title=title)
        for heading in ("check", "passed", "found"):
            table.add_column(heading)
        for check in checks:
            passed = "[green]yes[/green]" if check.passed else "[bold red]NO[/bold red]"
            table.add_row(check.name, passed, check.found)
        Console().print(table)
    if not all(check.passed for check in checks):
        raise typer.Exit(1)
