from typing import Literal

import numpy as np
from numpy.typing import NDArray

def loss_gradient(
    raw_prediction: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    sample_weight: NDArray[np.float64] | None = None,
    loss: Literal["logistic", "capped"] = "logistic",
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]: ...
def simd_level() -> str: ...
