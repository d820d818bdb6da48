from typing import Any

import numpy as np
from numpy.typing import NDArray

LOSSES: tuple[str, ...]
STATUS: dict[int, str]

def csr_form(indices: NDArray[Any], indptr: NDArray[Any], n_cols: int) -> str: ...

class Design:
    row_scale: NDArray[np.float64] | None
    intercept: float
    def __init__(self, X: Any, shape: tuple[int, int], intercept: float = 0.0) -> None: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def width(self) -> int: ...
    @property
    def block(self) -> int: ...
    def clip(self, bound: float) -> tuple[str, int]: ...
    def longest(self) -> float: ...
    def dots(self, w: NDArray[np.float64]) -> NDArray[np.float64]: ...

class Objective:
    def __init__(
        self,
        design: Design,
        y: NDArray[np.float64],
        *,
        ridge: float,
        sample_weight: NDArray[np.float64] | None = None,
        offset: NDArray[np.float64] | None = None,
        loss: str = "logistic",
        n_outputs: int = 1,
    ) -> None: ...
    def evaluate(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]: ...
    def minimize(
        self, method: str, *, tolerance: float, max_passes: int
    ) -> tuple[NDArray[np.float64], str, float, int]: ...
