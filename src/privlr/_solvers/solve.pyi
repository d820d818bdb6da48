from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOSSES: tuple[str, ...]
NARROW: int
STATUS: dict[int, str]

def csr_form(indices: NDArray[Any], indptr: NDArray[Any], n_cols: int) -> str: ...

class Design:
    row_scale: NDArray[np.float64] | None
    intercept: float
    n_threads: int
    def __init__(
        self,
        X: Any,
        shape: tuple[int, int],
        intercept: float = 0.0,
        *,
        rows: NDArray[np.int64] | None = None,
        columns: NDArray[np.int64] | None = None,
    ) -> None: ...
    @property
    def is_narrow(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def work(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def most(self) -> float: ...
    @property
    def is_tall(self) -> bool: ...
    @property
    def parts(self) -> Any: ...
    def longest(self) -> float: ...
    def dots(self, w: NDArray[np.float64]) -> NDArray[np.float64]: ...

def scan(designs: list[Design], bounds: Sequence[float] | None = None) -> list[str]: ...
def are_signs(y: NDArray[np.float64]) -> bool: ...

class Metric:
    @property
    def every(self) -> int: ...
    def step(
        self, start: NDArray[np.float64], gradient: NDArray[np.float64]
    ) -> NDArray[np.float64]: ...

class Objective:
    def __init__(
        self,
        design: Design,
        y: NDArray[np.float64],
        *,
        ridge: float,
        sample_weight: NDArray[np.float64] | None = None,
        offset: NDArray[np.float64] | None = None,
        prior_mean: NDArray[np.float64] | None = None,
        linear: NDArray[np.float64] | None = None,
        loss: str = "logistic",
        n_outputs: int = 1,
    ) -> None: ...
    def evaluate(self, w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]: ...
    def minimize(
        self,
        *,
        tolerance: float,
        max_passes: float,
        start: NDArray[np.float64] | None = None,
        use_samples: bool = True,
        use_metric: bool = True,
        metric: Metric | None = None,
    ) -> tuple[NDArray[np.float64], float, str, float]: ...
    def prepare(
        self, metric: Metric, *, tolerance: float, max_passes: float
    ) -> NDArray[np.float64]: ...
