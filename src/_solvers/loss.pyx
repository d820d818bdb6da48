# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Logistic and capped logistic loss with slope and curvature."""

import numpy as np

from privlr.exceptions import InvalidParameterError


cdef int loss_code(str name) except -1:
    if name == "logistic":
        return PRIVLR_LOSS_LOGISTIC
    if name == "capped":
        return PRIVLR_LOSS_CAPPED
    raise InvalidParameterError("loss", "'logistic' or 'capped'", name)


def loss_gradient(const double[::1] raw_prediction not None, const double[::1] y not None,
                  *, const double[::1] sample_weight=None, str loss="logistic"):
    """Loss sum, gradient and curvature of a linear model's raw predictions.

    With the margin m = y * raw_prediction, the loss is phi(m) = log(1 + exp(-m)), and
    ``loss="capped"`` continues it below m = 0 by its tangent log 2 - m/2.

    Parameters
    ----------
    raw_prediction : (n,) contiguous float64 array
    y : (n,) contiguous float64 array
        Labels, -1 or +1. Not checked.
    sample_weight : (n,) contiguous float64 array, optional
        Ones when omitted.
    loss : {"logistic", "capped"}, default="logistic"

    Returns
    -------
    loss_sum : float
        sum of w_i phi(m_i).
    gradient : (n,) ndarray
        w_i y_i phi'(m_i), the derivative in ``raw_prediction``.
    hessian : (n,) ndarray
        w_i phi''(m_i); 0 where the capped loss is linear.

    Raises
    ------
    InvalidParameterError
        For an unknown loss or arrays of different lengths.

    Notes
    -----
    Domain: every float64 margin; NaN gives NaN. Largest error of each element: 2.5 ulp.
    The bits, those of the sum included, do not depend on the instruction set.
    """
    cdef Py_ssize_t n = raw_prediction.shape[0]
    cdef int code = loss_code(loss)
    if y.shape[0] != n:
        raise InvalidParameterError("len(y)", f"len(raw_prediction) = {n}", y.shape[0])
    if sample_weight is not None and sample_weight.shape[0] != n:
        raise InvalidParameterError(
            "len(sample_weight)", f"len(raw_prediction) = {n}", sample_weight.shape[0])
    gradient = np.empty(n)
    hessian = np.empty(n)
    if n == 0:
        return 0.0, gradient, hessian
    cdef double[::1] gradient_out = gradient
    cdef double[::1] hessian_out = hessian
    cdef const double *weight = NULL
    cdef double loss_sum
    if sample_weight is not None:
        weight = &sample_weight[0]
    with nogil:
        loss_sum = privlr_logistic_evaluate(
            n, code, &raw_prediction[0], &y[0], weight, &gradient_out[0], &hessian_out[0])
    return loss_sum, gradient, hessian


def simd_level():
    """Name of the kernel variant in use: "baseline", "x86-64-v3" or "x86-64-v4".

    The best one the processor offers, or at most the one that the environment variable
    ``PRIVLR_SIMD`` named when the library was loaded.
    """
    return privlr_simd_level().decode()
