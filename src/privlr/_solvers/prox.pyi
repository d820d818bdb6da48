import numpy as np
from numpy.typing import NDArray

def logistic_prox(
    s: NDArray[np.float64],
    a: NDArray[np.float64],
    y: NDArray[np.float64],
    *,
    c: float = 1.0,
    rho: float,
) -> NDArray[np.float64]: ...
