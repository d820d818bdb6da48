"""The published experiments: a small part of each runs, and a stopped run goes on."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("matplotlib")

from privlr._experiments.run import Experiment, fill, read
from privlr.cli import app


@dataclass(frozen=True)
class Cell:
    table: str
    method: str
    x: float


CELLS = [Cell("curves", "a, b", 0.5), Cell("curves", "c", 1.0), Cell("privacy", "c", 1.0)]


@pytest.fixture
def experiment() -> Experiment:
    def measure(cell: Cell) -> list[tuple[float, ...]]:
        return [(epoch, cell.x * epoch) for epoch in (1, 2)]

    return Experiment(1, lambda *_: CELLS, ("epoch", "auc"), measure, lambda _: [], lambda _: [])


def measured(experiment: Experiment, out: Path) -> list[Cell]:
    """Cells that a run measures."""
    done = []

    def measure(cell: Cell) -> list[tuple[float, ...]]:
        done.append(cell)
        return experiment.measure(cell)

    assert list(fill(replace(experiment, measure=measure), CELLS, out)) == CELLS
    return done


def test_a_stopped_run_goes_on_where_it_was(experiment: Experiment, tmp_path: Path) -> None:
    assert measured(experiment, tmp_path) == CELLS
    assert measured(experiment, tmp_path) == []
    path = tmp_path / "curves.csv"
    whole = path.read_text()
    assert read(path)[1] == {"method": "a, b", "x": "0.5", "epoch": "2", "auc": "1.0"}
    # In the second row of the last cell, and in its first, which might be of the cell before.
    for cut, missing in ((2, CELLS[1:2]), (len("c,1.0,2,2.0\n") + 2, CELLS[:2])):
        path.write_text(whole[:-cut])
        assert measured(experiment, tmp_path) == missing
        assert path.read_text() == whole
    path.write_text("method,y\n")
    with pytest.raises(ValueError, match="curves.csv holds something else"):
        list(fill(experiment, CELLS, tmp_path))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "figures", "tables", "best"),
    [
        ("stacking", 5, 8, ("AUC by epsilon", ["NEWS20", "", "not private"])),
        ("admm", 2, 1, ("a9a: AUC / log loss", ["centralised"])),
    ],
)
def test_quick(
    real_data: str,
    tmp_path: Path,
    name: str,
    figures: int,
    tables: int,
    best: tuple[str, list[str]],
) -> None:
    def run() -> dict[str, list]:
        arguments = ["reproduce", name, "--quick", "--out", str(tmp_path)]
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    facts = run()
    assert len(facts["figures"]) == figures
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in facts["figures"])
    found = {result["title"]: result for result in facts["results"]}
    assert len(found) == tables
    (row,) = (row for row in found[best[0]]["rows"] if row[: len(best[1])] == best[1])
    score = next(cell for cell in row[len(best[1]) :] if cell != "")
    assert float(str(score).split()[0]) > 0.9
    assert run() == facts  # nothing is measured twice


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privlr._experiments import admm

    admm.data.cache_clear()
    monkeypatch.setenv("PRIVLR_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: open(tmp_path / "absent"))
    result = CliRunner().invoke(app, ["reproduce", "admm", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "PRIVLR_DATA" in result.stderr
