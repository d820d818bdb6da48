"""The command line, from files to files."""

import csv
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privlr._tables import class_labels, read_table, read_text
from privlr.cli import app, demo
from privlr.datasets import Dataset
from privlr.linear_model import PrivateLogisticRegression
from privlr.model_file import load_model, save_model
from privlr.preprocessing import BoundedScaler
from privlr.privacy import Ledger
from privlr.stacking import load_stack

COMMON = ["--label", "y", "--epsilon", "1", "--data-norm", "1"]


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def rows() -> tuple[list[str], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3)) / 3
    return ["age", "dose", "weight, kg"], X, np.where(X[:, 0] > 0, "yes", "no")


@pytest.fixture
def data(rows: tuple[list[str], np.ndarray, np.ndarray], tmp_path: Path) -> Path:
    names, X, y = rows
    path = tmp_path / "data.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as stream:
        writer = csv.writer(stream)
        writer.writerow([*names[:2], "y", names[2]])
        writer.writerows(
            [*row[:2], label, row[2]] for row, label in zip(X.tolist(), y, strict=True)
        )
    return path


def test_fit_and_predict(
    rows: tuple[list[str], np.ndarray, np.ndarray], data: Path, tmp_path: Path
) -> None:
    names, X, _ = rows
    model, out = tmp_path / "m.json", tmp_path / "p.csv"
    result = run("fit", data, *COMMON, "--classes", "no,yes", "--out", model, "--json")
    facts = json.loads(result.stdout)
    assert facts["epsilon"] == 1
    assert facts["private"] is True
    released = load_model(model)
    assert list(released.feature_names_in_) == names
    assert released.privacy_.n_samples == 400

    run("predict", model, data, "--out", out)
    with out.open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["prediction"] for row in table] == released.predict(X).tolist()
    proba = [[float(row["probability_no"]), float(row["probability_yes"])] for row in table]
    np.testing.assert_array_equal(proba, released.predict_proba(X))
    assert run("predict", model, data).stdout == out.read_text()
    first = json.loads(run("predict", model, data, "--json").stdout)[0]
    assert first["probability"]["yes"] == proba[0][1]


def test_parquet_reads_like_csv(data: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = read_table(data, label="y")
    path = tmp_path / "data.parquet"
    columns = dict(zip(table.names, table.X.T, strict=True))
    parquet.write_table(pyarrow.table({**columns, "y": table.labels}), path)
    again = read_table(path, label="y")
    assert (again.names, again.labels) == (table.names, table.labels)
    np.testing.assert_array_equal(again.X, table.X)
    predictions = tmp_path / "p.parquet"
    run("fit", path, *COMMON, "--classes", "no,yes", "--out", tmp_path / "m.json")
    run("predict", tmp_path / "m.json", path, "--out", predictions)
    shown = csv.DictReader(run("predict", tmp_path / "m.json", path).stdout.splitlines())
    written = parquet.read_table(predictions).to_pylist()
    assert [{name: str(cell) for name, cell in row.items()} for row in written] == list(shown)
    parquet.write_table(pyarrow.table({"a": [1.0, None], "t": ["x", "y"]}), path)
    for features, reason in ((["a"], "'a' is empty in row 2"), (["t"], "'t' is no number")):
        with pytest.raises(ValueError, match=reason):
            read_table(path, features=features)
    with pytest.raises(ValueError, match="'t' is no number.*--drop"):
        read_table(path, drop=["a"])
    parquet.write_table(pyarrow.table({"a": [1.0, np.inf], "t": ["x", None]}), path)
    with pytest.raises(ValueError, match="'a' is no finite number in row 2"):
        read_table(path, features=["a"])
    with pytest.raises(ValueError, match="data.parquet: column 't' is empty in row 2"):
        read_text(path, ["t"])
    parquet.write_table(pyarrow.table({"a": [1, 2], "y": [0.0, 1.0]}), path)
    assert read_table(path, label="y").labels == ["0", "1"]


def test_labels_become_integers_only_together() -> None:
    assert class_labels(["1", "-1"], "-1, 1") == ([1, -1], [-1, 1])
    assert class_labels(["1", "b"], None) == (["1", "b"], ["1", "b"])
    assert class_labels(["01", "1"], None) == (["01", "1"], ["01", "1"])
    with pytest.raises(ValueError, match="'2' is not one of"):
        class_labels(["1", "2"], "0,1")


def test_a_class_may_hold_a_comma() -> None:
    found = class_labels(["no, thanks", "yes"], 'yes, "no, thanks"')
    assert found == (["no, thanks", "yes"], ["no, thanks", "yes"])
    for text in ("", "yes,,no", "yes,"):
        with pytest.raises(ValueError, match="is empty"):
            class_labels(["yes"], text)


def test_classes_are_declared_or_on_record(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    arguments = ["fit", data, *COMMON, "--out", out, "--overwrite", "--json"]
    assert "--classes" in run(*arguments, code=2).stderr
    assert not out.exists()
    public = run(*arguments, "--classes", "public")
    assert "classes" in json.loads(public.stdout)["public"]
    assert load_model(out).classes_.tolist() == ["no", "yes"]
    declared = run(*arguments, "--classes", "no,yes")
    assert "classes" not in json.loads(declared.stdout)["public"]


def test_unasked_for_options_do_not_exist(data: Path) -> None:
    run("fit", data, *COMMON, "--tune", "1", code=2)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--classes", "no,yes", "--label", "z"], "no column 'z'"),
        (["--classes", "no,yes", "--drop", "id"], "no column 'id'"),
        (
            ["--classes", "no,yes", "--drop", "age", "--drop", "dose", "--drop", "weight, kg"],
            "no feature columns",
        ),
        (["--classes", "no,maybe"], "'yes' is not one of"),
        (["--classes", "no,yes", "--limit", "1"], "give --ledger too"),
        (["--classes", "no,yes", "--ledger", "absent.ledger"], "--limit makes one"),
        (["--classes", "no,yes", "--ledger", "absent/l", "--limit", "1"], "cannot be used"),
        (["--classes", "no,yes", "--epsilon", "0"], "epsilon must be"),
        (["--classes", "no,yes", "--epsilon", "nan"], "epsilon must be"),
        (["--classes", "no,yes", "--data-norm", "-1"], "data_norm must be"),
        (["--classes", "no,yes", "--loss", "hinge"], "loss must be"),
        (["--classes", "no,yes", "--l2", "-1"], "l2_reg_strength must be"),
        (["--classes", "no,yes", "--out", "absent/m.json"], "no existing directory"),
        (["--classes", "no,yes", "--out", "."], "is a directory"),
        (["--classes", "no,,yes"], "is empty"),
    ],
)
def test_refusals(data: Path, tmp_path: Path, arguments: list[str], reason: str) -> None:
    out = tmp_path / "m.json"
    result = run("fit", data, *COMMON, "--out", out, *arguments, code=2)
    assert reason in result.stderr
    assert "Traceback" not in result.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"),
        ("a,y\n", "has no rows"),
        ("a,a,y\n1,2,no\n", "several columns 'a'"),
        ("a,y\n1,no\n,yes\n", "column 'a' is empty in row 2"),
        ("a,y\n1,no\nx,yes\n", "column 'a' is no number in row 2"),
        ("a,y\n1,no\nnan,yes\n", "column 'a' is no finite number in row 2"),
        ("b,a,y\n1,2,no\n\n3,1e999,yes\n", "column 'a' is no finite number in row 2"),
        ("a,y\n1,no\nx,yes\n", "(leave a column out with --drop)"),
        ("a,y\n1,no\n2\n", "row 2 (the header not counted) has fewer cells"),
        ("a,y\n1,no\n\n2,yes\n3,yes,\n", "row 3 (the header not counted) has more cells"),
        ("a,y\n1,no\n\nx,yes\n", "is no number in row 2"),
        ("a,y\n1," + 200_000 * "n" + "\n", "not a table"),
        ('"a, b",c,y\n1,2,no\n1,,yes\n', "column 'c' is empty in row 2"),
        ('"a, b",c,z\n1,2,no\n', "its columns are 'a, b', 'c', 'z'"),
        ("a;y\n1;no\n", "cells are separated by commas"),
        ("a;b, c;y\n1;2;no\n", "cells are separated by commas"),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(content)
    result = run("fit", path, *COMMON, "--classes", "no,yes", "--out", tmp_path / "m", code=2)
    assert reason in result.stderr
    assert str(path) in result.stderr


def test_other_encodings_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    for content in ("a,y\n1,é\n".encode("latin-1"), "é,y\n1,no\n".encode("latin-1")):
        path.write_bytes(content)
        result = run("fit", path, *COMMON, "--classes", "no,yes", code=2)
        assert f"{path} is not text in UTF-8" in result.stderr
        assert "codec" not in result.stderr


def test_what_is_refused_of_a_cell_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("a,y\n1e777,no\n")
    result = run("fit", path, *COMMON, "--classes", "no,yes", code=2)
    assert "777" not in result.output and "inf" not in result.output
    for row in ("1,no,secret", "secret,no", "secret"):
        path.write_text(f"a,y\n{row}\n")
        result = run("fit", path, *COMMON, "--classes", "no,yes", code=2)
        assert "row 1 " in result.stderr
        assert "secret" not in result.output


def test_an_existing_file_is_replaced_only_on_demand(
    data: Path, source: Path, tmp_path: Path
) -> None:
    taken = tmp_path / "taken.md"
    for arguments in (
        ["fit", data, *COMMON, "--classes", "no,yes"],
        ["transfer", source, data, "--label", "y", "--epsilon", 1],
        ["predict", source, data],
        ["card", source],
    ):
        taken.write_text("precious")
        assert "exists already" in run(*arguments, "--out", taken, code=2).stderr
        assert taken.read_text() == "precious"
        run(*arguments, "--out", taken, "--overwrite")
        assert taken.read_text() != "precious"


def test_what_a_command_reads_is_never_replaced(data: Path, source: Path, tmp_path: Path) -> None:
    importance, ranges, budget = (tmp_path / name for name in ("importance.csv", "r.csv", "b"))
    ranges.write_text("feature,lower,upper\nage,0,1\n")
    fit = ["fit", data, *COMMON, "--classes", "no,yes"]
    run(*fit, "--ledger", budget, "--limit", 3, "--out", tmp_path / "m.json")
    grouped = [*fit, "--groups", 2, "--importance", importance]
    transfer = ["transfer", source, data, "--label", "y", "--epsilon", 1, "--ledger", budget]
    for arguments, inputs in (
        (fit, [data]),
        ([*fit, "--ledger", budget], [budget]),
        ([*fit, "--ledger", tmp_path / "new", "--limit", 1], [tmp_path / "new"]),
        (grouped, [importance]),
        (transfer, [source, data, budget]),
        (["predict", source, data], [source, data]),
        (["scale", data, "--ranges", ranges], [data, ranges]),
        (["card", source], [source]),
    ):
        for path in inputs:
            before = path.read_bytes() if path.exists() else None
            link = tmp_path / "link.json"
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            for out in (path, link, tmp_path / "." / path.name):
                refused = run(*arguments, "--out", out, "--overwrite", code=2)
                assert "one of the files that are read" in refused.stderr
                assert (path.read_bytes() if path.exists() else None) == before
    assert len(Ledger(path=budget).charges) == 1


def test_fits_and_transfers_charge_one_ledger(data: Path, source: Path, tmp_path: Path) -> None:
    budget, out = tmp_path / "b.ledger", tmp_path / "m.json"
    options = ["--ledger", budget, "--out", out, "--overwrite"]
    fit = ["fit", data, *COMMON, "--classes", "no,yes", *options]
    transfer = ["transfer", source, data, "--label", "y", "--epsilon", 0.3, *options]
    facts = json.loads(run(*fit, "--limit", "2.5", "--json").stdout)["ledger"]
    assert (facts["spent"], facts["limit"], facts["remaining"]) == ("1", "5/2", "3/2")
    assert "spent 13/10, limit 5/2, remaining 6/5" in run(*transfer, code=0).stdout.replace(
        "\n", " "
    )
    run(*fit, "--groups", 2, "--limit", "5/2")
    assert "limit must be 5/2" in run(*fit, "--limit", 3, code=2).stderr
    before = out.read_bytes()
    refused = run(*fit, code=2)
    assert "above the limit 5/2" in refused.stderr
    assert out.read_bytes() == before
    ledger = Ledger(path=budget)
    assert ledger.spent == Fraction("2.3")
    labels = [charge.label for charge in ledger.charges]
    assert labels == [
        "PrivateLogisticRegression",
        "TransferStackingClassifier",
        "TransferSourceClassifier",
    ]

    ledger.charge("[red]by hand", "1/5", note="[b]")
    shown = json.loads(run("ledger", budget, "--json").stdout)
    assert [charge["epsilon"] for charge in shown["charges"]] == ["1", "3/10", "1", "1/5"]
    assert (shown["spent"], shown["remaining"], shown["delta_limit"]) == ("5/2", "0", "0")
    table = run("ledger", budget).stdout
    assert "[red]by hand" in table and "[b]" in table
    assert "2.5 of epsilon 2.5 spent, 0 remain" in table


def test_a_ledger_is_shown_and_never_made(data: Path, tmp_path: Path) -> None:
    budget = tmp_path / "b.ledger"
    assert "no ledger" in run("ledger", budget, code=2).stderr
    assert not budget.exists()
    budget.touch()
    assert "no ledger" in run("ledger", budget, code=2).stderr
    fit = ["fit", data, *COMMON, "--classes", "no,yes", "--ledger", budget]
    assert "no ledger" in run(*fit, "--out", tmp_path / "m.json", code=2).stderr
    assert not budget.stat().st_size
    assert "cannot be used" in run("ledger", data, code=2).stderr
    Ledger(path=budget).charge("free", 3, 1e-6)
    table = run("ledger", budget).stdout
    assert "3 of epsilon spent, without a limit\n1e-06 of delta spent" in table
    assert json.loads(run("ledger", budget, "--json").stdout)["remaining"] is None


def test_a_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    taken, absent = tmp_path / "taken.json", tmp_path / "absent.csv"
    taken.touch()
    fit = ["fit", absent, *COMMON, "--classes", "no,yes"]
    assert "exists already" in run(*fit, "--out", taken, code=2).stderr


def test_prediction_needs_the_model_and_its_columns(data: Path, tmp_path: Path) -> None:
    model, other = tmp_path / "m.json", tmp_path / "other.csv"
    run("fit", data, *COMMON, "--classes", "no,yes", "--out", model)
    other.write_text("age,dose\n1,2\n")
    assert "no column 'weight, kg'" in run("predict", model, other, code=2).stderr
    model.write_text(model.read_text()[:-9])
    assert "m.json" in run("predict", model, data, code=2).stderr
    run("predict", tmp_path / "absent.json", data, code=2)


def test_prediction_by_a_model_without_names(
    rows: tuple[list[str], np.ndarray, np.ndarray], data: Path, tmp_path: Path
) -> None:
    _, X, y = rows
    model, named = tmp_path / "m.json", tmp_path / "named.json"
    fitted = PrivateLogisticRegression(1.0, classes=["no", "yes"]).fit(X, y)
    save_model(fitted, model)
    assert "(leave a column out with --drop)" in run("predict", model, data, code=2).stderr
    shown = csv.DictReader(run("predict", model, data, "--drop", "y").stdout.splitlines())
    assert [row["prediction"] for row in shown] == fitted.predict(X).tolist()
    fit = ["fit", data, *COMMON, "--classes", "no,yes"]
    run(*fit, "--out", named)
    assert "leave out --drop" in run("predict", named, data, "--drop", "y", code=2).stderr
    data.write_text(data.read_text().replace("\n", "\nx", 1))
    refused = run("predict", named, data, code=2).stderr
    assert "column 'age' is no number in row 1" in refused
    assert "--drop" not in refused


def test_rows_beyond_the_bound_are_counted(data: Path, source: Path, tmp_path: Path) -> None:
    model, few = tmp_path / "m.json", tmp_path / "few.csv"
    fit = ["fit", data, "--label", "y", "--epsilon", 1, "--data-norm", 2**0.5]
    run(*fit, "--classes", "no,yes", "--out", model)
    few.write_text('age,dose,"weight, kg"\n1,0,0\n0,0,1e300\n0,1.0001,0\n0,0,-1.1\n')
    assert "2 of 4 rows are longer than 1.41421" in run("predict", model, few).stderr
    assert "2 of 4 rows are longer than 1, " in run("predict", source, few).stderr
    few.write_text('age,dose,"weight, kg"\n1,0,0\n')
    for released in (model, source):
        assert not run("predict", released, few, "--json").stderr


def test_a_reader_that_has_enough_is_no_refusal(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.json"
    run("fit", data, *COMMON, "--classes", "no,yes", "--out", model)
    command = [Path(sys.executable).with_name("privlr"), "predict", model, data]
    for arguments in (command, [*command, "--json"], [command[0], "card", model]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(arguments, stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        assert "refused" not in done.stderr and "Errno" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scaled_by_public_ranges(data: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    ranges, out = tmp_path / "ranges.csv", tmp_path / f"scaled.{ending}"
    ranges.write_text('feature,lower,upper\n"weight, kg",-1,1\nage,-2,2\n')
    arguments = ["scale", data, "--ranges", ranges, "--out", out]
    facts = json.loads(run(*arguments, "--keep", "y", "--json").stdout)
    assert (facts["rows"], facts["scaled columns"]) == (400, 2)
    scaled, rows = read_table(out, label="y"), read_table(data, label="y")
    assert scaled.names == ("weight, kg", "age")
    assert scaled.labels == rows.labels
    expected = BoundedScaler(lower=[-1, -2], upper=[1, 2]).fit_transform(rows.X[:, [2, 0]])
    np.testing.assert_array_equal(scaled.X, expected)
    assert np.linalg.norm(scaled.X, axis=1).max() <= 1
    assert facts["data_norm"] ** 2 == pytest.approx(2)
    assert facts["data_norm with --groups"] == 1
    assert "exists already" in run(*arguments, code=2).stderr
    run(*arguments, "--overwrite")
    assert "age" in run(*arguments, "--overwrite", "--keep", "age", code=2).stderr
    ranges.write_text("feature,lower,upper\nage,1,1\n")
    assert "below upper for the column 'age'" in run(*arguments, "--overwrite", code=2).stderr
    ranges.write_text("feature,lower,upper\nsize,0,1\n")
    assert "no column 'size'" in run(*arguments, "--overwrite", code=2).stderr


def test_version() -> None:
    assert run("--version").stdout.startswith("privlr ")


def test_cost_without_data() -> None:
    arguments = ["--n-samples", 1000, "--n-features", 10, "--epsilon", 1, "--data-norm", 1]
    facts = json.loads(run("cost", *arguments, "--json").stdout)
    assert facts["epsilon"] == 1
    run("cost", *arguments)
    run("cost", *arguments, "--epsilon", "inf", code=2)


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) / 4
    y = (X[:, 0] > 0).astype(np.int64)
    small = Dataset(X[:200], y[:200], X[200:], y[200:], data_norm=1.0)
    monkeypatch.setattr(demo, "dataset", lambda: ("noise", small))
    out = tmp_path / "deep" / "plot.png"
    result = run("demo", "--repeats", 2, "--out", out)
    assert result.stdout.count("logistic") == len(demo.EPSILONS)
    assert out.read_bytes().startswith(b"\x89PNG")
    facts = json.loads(run("demo", "--repeats", 1, "--out", out, "--json").stdout)
    assert len(facts["fits"]) == 2 * len(demo.EPSILONS)


def test_a_missing_federated_extra_is_named(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nvflare", None)
    options = ["--party", data, "--labels", data, "--label", "y", "--classes", "no,yes"]
    more = ["--id", "age", "--rounds", 1, "--out", tmp_path / "try"]
    refused = run("federated", "simulate", *options, *more, code=2)
    assert "pip install 'privlr[federated]'" in refused.stderr


def test_what_is_no_job_folder_is_named_as_given(tmp_path: Path) -> None:
    job = tmp_path / "nojob"
    for command in ("predict", "resume"):
        refused = run("federated", command, job, "--out", tmp_path / "out", code=2).stderr
        assert "job must be a folder" in refused and "config_fed" not in refused


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "admm"]])
def test_a_missing_extra_is_named(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("privlr.plots", "privlr._exp"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'privlr[plots]'" in run(*command, code=2).stderr


def test_demo_data_needs_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVLR_DATA", raising=False)
    name, data = demo.dataset()
    assert "digits" in name
    assert data.X_train.shape == (1297, 64)


@pytest.fixture
def source(data: Path, tmp_path: Path) -> Path:
    importance, out = tmp_path / "importance.csv", tmp_path / "source.json"
    importance.write_text('feature,importance\ndose,1\nage,5\n"weight, kg",1\n')
    options = ["--classes", "no,yes", "--groups", 2, "--importance", importance]
    facts = json.loads(run("fit", data, *COMMON, *options, "--out", out, "--json").stdout)
    assert facts["epsilon"] == 1
    assert load_stack(out).low_level_[0].privacy_.loss == "capped"
    return out


def test_transfer_from_file_to_file(
    rows: tuple[list[str], np.ndarray, np.ndarray], data: Path, source: Path, tmp_path: Path
) -> None:
    names, X, _ = rows
    assert load_stack(source).low_level_[0].columns.tolist() == [0, 1]
    assert load_stack(source).low_level_[0].share == pytest.approx(6 / 7)
    out, predicted = tmp_path / "target.json", tmp_path / "p.csv"
    arguments = ["transfer", source, data, "--label", "y", "--epsilon", 2, "--out", out]
    facts = json.loads(run(*arguments, "--json").stdout)
    assert (facts["epsilon"], facts["private"]) == (2, True)
    target = load_stack(out)
    assert list(target.feature_names_in_) == names
    for released in (source, out):
        run("predict", released, data, "--out", predicted, "--overwrite")
        with predicted.open(newline="") as stream:
            table = list(csv.DictReader(stream))
        assert [row["prediction"] for row in table] == load_stack(released).predict(X).tolist()
    run(*arguments, "--combiner", 0, "--overwrite")
    assert load_stack(out).combiner == 0
    arguments[1] = out
    run(*arguments, "--data-norm", 1, "--out", tmp_path / "next.json")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--label", "z"], "no column 'z'"),
        (["--label", "dose"], "is not one of the classes of"),
        (["--data-norm", "2"], "source must be of rows clipped to 2"),
        (["--epsilon", "-1"], "epsilon must be"),
        (["--combiner", "7"], "combiner must be"),
        (["--combiner", "mean"], "combiner must be"),
        (["--loss", "hinge"], "loss must be"),
        (["--out", "absent/m.json"], "no existing directory"),
        (["--out", "."], "is a directory"),
    ],
)
def test_refused_transfers(
    data: Path, source: Path, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    out = tmp_path / "m.json"
    common = ["--label", "y", "--epsilon", "1", "--out", out]
    result = run("transfer", source, data, *common, *arguments, code=2)
    assert reason in result.stderr
    assert not out.exists()


def test_a_source_that_does_not_fit_the_table(data: Path, source: Path, tmp_path: Path) -> None:
    common = ["--label", "y", "--epsilon", 1, "--out", tmp_path / "m.json"]
    other = tmp_path / "other.csv"
    other.write_text("age,dose,y\n1,2,no\n")
    assert "no column 'weight, kg'" in run("transfer", source, other, *common, code=2).stderr
    run("fit", data, *COMMON, "--classes", "no,yes", "--out", other, "--overwrite")
    assert "`privlr fit --groups`" in run("transfer", other, data, *common, code=2).stderr
    source.write_text(source.read_text()[:-50])
    assert "source.json" in run("transfer", source, data, *common, code=2).stderr
    assert "source.json" in run("predict", source, data, code=2).stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("feature,importance\nage,1\n", "look at dose"),
        ("feature,importance\nage,1\nage,1\ndose,1\n", "look at weight"),
        ("feature,importance\nage,-1\ndose,1\n'weight, kg',1\n", "other.csv"),
        ("name,importance\nage,1\n", "no column 'feature'"),
    ],
)
def test_bad_importances(data: Path, tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(content)
    options = ["--classes", "no,yes", "--importance", path, "--out", tmp_path / "m.json"]
    assert reason in run("fit", data, *COMMON, *options, "--groups", 2, code=2).stderr
    assert "--groups" in run("fit", data, *COMMON, *options, code=2).stderr
