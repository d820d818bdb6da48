"""The plot shows what it was given."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from privlr.exceptions import InvalidParameterError
from privlr.plots import budget_curve, noise_curve, privacy_utility_curve
from privlr.privacy import Ledger, calibrate

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
