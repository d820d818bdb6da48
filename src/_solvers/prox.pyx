# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The z-minimisation of ADMM for the logistic loss."""

import numpy as np

from privlr.exceptions import InvalidParameterError


def logistic_prox(const double[::1] s not None, const double[::1] a not None,
                  const double[::1] y not None, *, double c=1.0, double rho):
    """Minimise c log(1 + exp(-y z)) - a z + rho/2 (s - z)^2 over z, entry by entry.

    Parameters
    ----------
    s : (n,) contiguous float64 array
        Where the quadratic pulls z to; in ADMM the sum of the shares.
    a : (n,) contiguous float64 array
        Linear term; in ADMM the dual variable.
    y : (n,) contiguous float64 array
        Labels, -1 or +1. Not checked.
    c : float, default=1.0
        Weight of the loss, c >= 0.
    rho : float
        Weight of the quadratic, finite and >= 1e-300; c / rho may be at most 1e200.

    Returns
    -------
    z : (n,) ndarray

    Raises
    ------
    InvalidParameterError
        For c or rho out of range or arrays of different lengths.

    Notes
    -----
    With t = y z and tau = y (s + a / rho), t - (c / rho) / (1 + exp(t)) = tau. Largest
    error: 4 ulp of max(1, abs(z)). Domain: every finite s and a, z saturates at the
    largest double; NaN gives NaN. The bits do not depend on the instruction set.
    """
    cdef Py_ssize_t n = s.shape[0]
    cdef int status
    if a.shape[0] != n:
        raise InvalidParameterError("len(a)", f"len(s) = {n}", a.shape[0])
    if y.shape[0] != n:
        raise InvalidParameterError("len(y)", f"len(s) = {n}", y.shape[0])
    z = np.empty(n)
    if n == 0:
        return z
    cdef double[::1] z_out = z
    with nogil:
        status = privlr_logistic_prox(n, c, rho, &y[0], &s[0], &a[0], &z_out[0])
    if status != 0:
        raise InvalidParameterError(
            "(c, rho)", "c >= 0, finite rho >= 1e-300, c / rho <= 1e200", (c, rho))
    return z
