"""The command ``privlr reproduce``: the experiments of the publications, run anew."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from privlr.cli.report import reported

__all__: list[str] = []


class _Name(Enum):
    stacking = "stacking"
    admm = "admm"


def _reproduce(
    experiment: Annotated[
        _Name, typer.Argument(help="stacking: over rows, columns, hospitals; admm: over parties.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for numbers and figures; by default out/EXPERIMENT.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Draws of noise; by default 10, for admm 3.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One draw and few settings: a minute.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Repeat published experiments on real data; a run that was stopped goes on where it was."""
    with reported():
        from privlr._experiments import admm, run, stacking

        chosen = {_Name.stacking: stacking.EXPERIMENT, _Name.admm: admm.EXPERIMENT}[experiment]
        folder = out or Path("out", experiment.value)
        folder.mkdir(parents=True, exist_ok=True)
        cells = list(chosen.cells(repeats or chosen.repeats, quick))
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(experiment.value, total=len(cells))
            for cell in run.fill(chosen, cells, folder):
                progress.update(task, advance=1, description=f"{cell.data} {cell.method}")
        figures = [str(path) for path in chosen.draw(folder)]
        results = list(chosen.summarise(folder))
    if json:
        print(msgspec.json.encode({"figures": figures, "results": results}).decode())
        return
    console = Console()
    for result in results:
        table = Table(*result.headings, title=result.title)
        for row in result.rows:
            table.add_row(*(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row))
        console.print(table)
    for path in figures:
        console.print(path, soft_wrap=True)
