import numpy as np
from numpy.typing import NDArray

from privlr._solvers.solve import Design

class Columns:
    share: NDArray[np.float64]
    anchor: NDArray[np.float64]
    message: NDArray[np.float64]
    target: NDArray[np.float64]
    moment: NDArray[np.float64] | None
    def __init__(
        self,
        design: Design,
        *,
        block: int,
        over_relaxation: float,
        clip: float,
        with_moment: bool,
    ) -> None: ...
    def product(self, w: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def slope(self, w: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def absorb(self, message: NDArray[np.float64]) -> None: ...

class Labels:
    y: NDArray[np.float64]
    center: NDArray[np.float64]
    z: NDArray[np.float64]
    def __init__(
        self,
        y: NDArray[np.float64],
        *,
        block: int,
        rho: float,
        over_relaxation: float,
        averaged: int,
    ) -> None: ...
    def begin(self) -> None: ...
    @property
    def sums(self) -> tuple[float, float, float, float, float, float]: ...
    def step(self, total: NDArray[np.float64]) -> NDArray[np.float64]: ...

def exchange(
    parties: list[Columns], vectors: list[NDArray[np.float64]], labels: Labels
) -> None: ...
