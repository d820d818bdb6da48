"""The plot shows what it was given."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from privlr.exceptions import InvalidParameterError
from privlr.plots import (
    admm_curve,
    budget_curve,
    noise_curve,
    privacy_utility_curve,
    sweep_curve,
)
from privlr.privacy import Ledger, calibrate
from privlr.vertical import VerticalLogisticRegression

EPSILONS = [0.25, 1.0, 4.0]


def test_lines_bands_and_file(tmp_path: Path) -> None:
    scores = {
        "logistic": np.linspace(0.6, 0.9, 12).reshape(4, 3),
        "capped": np.linspace(0.7, 0.95, 12).reshape(4, 3),
    }
    path = tmp_path / "curve.png"
    figure = privacy_utility_curve(EPSILONS, scores, non_private=0.97, title="digits", path=path)
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    for name, table in scores.items():
        np.testing.assert_allclose(lines[name].get_xdata(), EPSILONS)
        np.testing.assert_allclose(lines[name].get_ydata(), table.mean(axis=0))
    np.testing.assert_allclose(lines["not private"].get_ydata(), 0.97)
    assert len(axes.collections) == 2
    assert path.read_bytes().startswith(b"\x89PNG")


def test_scores_must_fit() -> None:
    with pytest.raises(InvalidParameterError, match="scores"):
        privacy_utility_curve(EPSILONS, {"logistic": [0.5, 0.6]})


def test_noise_shrinks_along_its_curve(tmp_path: Path) -> None:
    betas = [calibrate(e, n_samples=1000, l2_reg_strength=0.01).beta for e in EPSILONS]
    path = tmp_path / "noise.svg"
    (axes,) = noise_curve(EPSILONS, {"tight": betas}, n_coefficients=10, path=path).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 10 / np.array(betas))
    assert "<svg" in path.read_text()
    for wrong in ([1.0, 2.0], [1.0, 0.0, 1.0]):
        with pytest.raises(InvalidParameterError, match="betas"):
            noise_curve(EPSILONS, {"tight": wrong}, n_coefficients=10)


def test_budget_burns_down_to_what_is_left() -> None:
    ledger = Ledger(limit=1)
    for epsilon, note in (("1/2", ""), ("1/4", "seeded"), ("1/8", "")):
        ledger.charge("fit", epsilon, note=note)
    (axes,) = budget_curve(ledger, title="study").axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [1, 0.5, 0.25, 0.125, 0.125])
    assert axes.lines[1].get_xdata().tolist() == [2]
    (axes,) = budget_curve(Ledger()).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0, 0])
    assert axes.get_ylabel() == "Spent, ε"


def test_a_sweep_shows_its_values(tmp_path: Path) -> None:
    scores = {"PST-F": np.linspace(0.6, 0.9, 8).reshape(2, 4)}
    path = tmp_path / "sweep.png"
    (axes,) = sweep_curve([1, 2, 5, 20], scores, parameter="groups", path=path).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "5", "20"]
    assert axes.get_xlabel() == "groups"
    np.testing.assert_allclose(axes.lines[0].get_ydata(), scores["PST-F"].mean(axis=0))
    assert path.exists()
    with pytest.raises(InvalidParameterError, match="scores"):
        sweep_curve([1, 2], scores, parameter="groups")


def test_admm_shows_losses_and_residuals() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 4)), rng.integers(0, 2, 200)
    model = VerticalLogisticRegression([[0, 1], [2, 3]], max_iter=8, tol=0.0)
    history = model.fit(X, y, eval_set=(X, y)).history_
    losses, residuals = admm_curve(history, title="two parties").axes
    assert [line.get_label() for line in losses.lines] == ["training objective", "test log loss"]
    np.testing.assert_allclose(losses.lines[0].get_ydata(), [it.objective for it in history])
    np.testing.assert_allclose(residuals.lines[1].get_ydata(), [it.dual_residual for it in history])
    hidden = [replace(it, objective=np.nan, test_log_loss=None) for it in history]
    losses, _ = admm_curve(hidden).axes
    assert not losses.lines
