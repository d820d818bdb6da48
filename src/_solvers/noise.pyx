# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Noise drawn from the operating system's generator, or from a given key."""

import math

import numpy as np

from privlr.exceptions import EntropyError, InvalidParameterError


cdef check(privlr_status status, str accepted):
    """Raise what a status stands for."""
    if status == PRIVLR_NO_ENTROPY:
        raise EntropyError("the operating system's random generator could not be read")
    if status == PRIVLR_EXTREME:
        raise ValueError(accepted)


cdef const uint8_t *key_bytes(const uint8_t[::1] key) except? NULL:
    if key is None:
        return NULL
    if key.shape[0] != PRIVLR_KEY_BYTES:
        raise InvalidParameterError("key", f"{PRIVLR_KEY_BYTES} bytes", f"{key.shape[0]} bytes")
    return &key[0]


cdef Py_ssize_t length(object n, str name, Py_ssize_t smallest) except -1:
    if not smallest <= n < 2**48:
        raise InvalidParameterError(name, f"an integer of at least {smallest}", n)
    return n


def sphere(d, double rate, const uint8_t[::1] key=None):
    """Draw b in R^d of density proportional to exp(-rate ||b||).

    Parameters
    ----------
    d : int
        Dimension, at least 1.
    rate : float
        Positive and finite.
    key : bytes of length 32, optional
        Key of the stream of bits. By default a fresh one of the system; a given
        key repeats its noise, which then carries no privacy.

    Returns
    -------
    b : ndarray of shape (d,)
        Within 2^-47 ||b|| of the ideal vector on the same bits.
    radius : float
        rate ||b||, which follows Gamma(d, 1).

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range.
    EntropyError
        The system's generator failed.
    """
    cdef Py_ssize_t size = length(d, "d", 1)
    cdef const uint8_t *seed = key_bytes(key)
    cdef double radius = 0.0
    cdef privlr_status status
    cdef double[::1] out
    if not (math.isfinite(rate) and rate > 0.0):
        raise InvalidParameterError("rate", "positive and finite", rate)
    b = np.empty(size)
    out = b
    with nogil:
        status = privlr_noise_sphere(seed, size, rate, &out[0], &radius)
    check(status, "")
    return b, radius


def discrete_laplace(n, scale, const uint8_t[::1] key=None):
    """Draw n integers with P(k) proportional to exp(-|k| / scale), exactly.

    Parameters
    ----------
    n : int
        How many, at least 0.
    scale : int
        From 1 to 2^50.
    key : bytes of length 32, optional
        Key of the stream of bits, as in `sphere`.

    Returns
    -------
    ndarray of shape (n,), int64

    Raises
    ------
    InvalidParameterError
        A parameter is out of its range.
    EntropyError
        The system's generator failed.
    """
    cdef Py_ssize_t size = length(n, "n", 0)
    cdef const uint8_t *seed = key_bytes(key)
    cdef int64_t t
    cdef privlr_status status
    cdef int64_t[::1] out
    if not 1 <= scale <= PRIVLR_LAPLACE_SCALE_MAX or scale != int(scale):
        raise InvalidParameterError("scale", "an integer from 1 to 2**50", scale)
    t = int(scale)
    noise = np.empty(size, dtype=np.int64)
    out = noise
    with nogil:
        status = privlr_noise_discrete_laplace(seed, size, t, &out[0] if size else NULL)
    check(status, "")
    return noise


def rounded_gaussian(const double[::1] mean, double sigma, double grid,
                     const uint8_t[::1] key=None):
    """Release mean + sigma N(0, I), exactly rounded to multiples of a public grid.

    Rounding the ideal Gaussian is post-processing, so what holds for the
    Gaussian mechanism in real numbers holds for the doubles returned here.

    Parameters
    ----------
    mean : ndarray of shape (n,), float64, contiguous
        Finite, with ``|mean| + 16 sigma <= 2^46 grid``.
    sigma : float
        Standard deviation, positive.
    grid : float
        A power of two between 2^-500 and 2^500. The time per value grows with
        the share of values that need refinement, about 2^-47 (|mean| + sigma) / grid.
    key : bytes of length 32, optional
        Key of the stream of bits, as in `sphere`.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        A parameter is out of its range.
    EntropyError
        The system's generator failed.
    """
    cdef const uint8_t *seed = key_bytes(key)
    cdef privlr_status status
    cdef double[::1] out
    cdef Py_ssize_t size
    if mean is None:
        raise InvalidParameterError("mean", "a float64 array", mean)
    size = mean.shape[0]
    released = np.empty(size)
    out = released
    with nogil:
        status = privlr_noise_rounded_gaussian(seed, size, sigma, &mean[0] if size else NULL, grid,
                                               &out[0] if size else NULL)
    check(status, "grid must be a power of two from 2**-500 to 2**500, sigma positive, "
                  "and |mean| + 16 sigma finite and at most 2**46 grid")
    return released


def _keystream(const uint8_t[::1] key, n, uint64_t first_block=0):
    """Return n words of the stream of a key, for tests against RFC 8439."""
    cdef Py_ssize_t size = length(n, "n", 1)
    cdef privlr_bits bits
    cdef uint64_t[::1] out
    words = np.empty(size, dtype=np.uint64)
    out = words
    check(privlr_bits_open(&bits, key_bytes(key)), "")
    bits.block = first_block
    privlr_bits_fill(&bits, size, &out[0])
    privlr_memory_wipe(&bits, sizeof(bits))
    return words
