"""What the stacks are worth on real data, everything at its default; means of 10 draws."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from privlr._experiments.stacking import Cell, by_branch, by_epsilon

BOUNDS = {
    ("NEWS20", "PST-F(W)"): {0.1: 0.85, 0.25: 0.937, 0.5: 0.957, 1.0: 0.965},
    ("MNIST", "PST-F(W)"): {0.1: 0.97, 0.25: 0.989, 0.5: 0.994, 1.0: 0.995},
    ("NEWS20", "PLR"): {1.0: 0.970, 4.0: 0.977},
}


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("data", "method", "epsilon", "least"),
    [(*curve, x, least) for curve, bounds in BOUNDS.items() for x, least in bounds.items()],
)
def test_auc(real_data: str, data: str, method: str, epsilon: float, least: float) -> None:
    scores = [
        by_epsilon(Cell("epsilon", data, method, "privlr", epsilon, repeat, "auto"))[0]
        for repeat in range(10)
    ]
    assert np.mean(scores) >= least


@pytest.mark.slow
@pytest.mark.data
def test_transfer_helps_every_way(real_data: str) -> None:
    def mean(method: str) -> float:
        cells = [Cell("branches", "diabetes", method, "privlr", s, 0, "auto") for s in range(1, 17)]
        return float(np.mean([by_branch(cell)[0] for cell in cells]))

    target = mean("PLR(target)")
    assert mean("PST-H(W)") > mean("PST-H(U)") > target
    assert mean("HTL") > target + 0.01
