"""The plot shows what it was given."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from privlr.exceptions import InvalidParameterError
from privlr.plots import privacy_utility_curve

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
