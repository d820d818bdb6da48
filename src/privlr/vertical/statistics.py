"""Vertical learning from one private release of second moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privlr.mechanisms import RandomSource, add_gaussian_noise
from privlr.privacy import StatisticsCalibration, noise_grid
from privlr.vertical._ridge import gram

__all__ = ["coef_from_statistics", "released_statistics"]

Array = NDArray[np.float64]


def released_statistics(
    X: Any, target: Array, calibration: StatisticsCalibration, random: RandomSource
) -> tuple[Array, Array]:
    """Release X'X and X'v, each with Gaussian noise on its independent entries.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
        Rows of norm at most 1.
    target : ndarray of shape (n,)
        v; clipped here.
    calibration : StatisticsCalibration
        Clip and noise.
    random : RandomSource
        One part of it for each call.

    Returns
    -------
    gram : ndarray of shape (d, d)
        Symmetric; variance sigma^2 on the diagonal and half of it elsewhere, so that
        the noise is isotropic in the Frobenius norm.
    moment : ndarray of shape (d,)
        X'v, as released.

    Notes
    -----
    **Guarantee.** mu-Gaussian differential privacy, mu being the calibration's.

    **Neighbouring relation.** One row replaced.

    **Assumptions.** A row's target depends on that row and on what is public only.

    **Source.** Analyze Gauss (Dwork, Talwar, Thakurta and Zhang, STOC 2014), with an exact
    account of the joint release.

    **Not covered.** How long the call takes.
    """
    d, sigma, largest = X.shape[1], calibration.gram_sigma, 2.0 * X.shape[0]
    upper = np.triu_indices(d, 1)
    exact = gram(X)
    flat = np.concatenate([np.diag(exact), np.sqrt(2) * exact[upper]])
    flat = add_gaussian_noise(
        flat, sigma, noise_grid(sigma, largest), random.at(*random.part, "gram")
    )
    noisy = np.diag(flat[:d])
    noisy[upper] = flat[d:] / np.sqrt(2)
    noisy.T[upper] = noisy[upper]
    moment = np.clip(target, -calibration.clip, calibration.clip) @ X
    sigma, largest = calibration.moment_sigma, calibration.clip * X.shape[0]
    return noisy, add_gaussian_noise(
        moment, sigma, noise_grid(sigma, largest), random.at(*random.part, "moment")
    )


def coef_from_statistics(
    gram: Array, moment: Array, calibration: StatisticsCalibration, ridge: float, curvature: float
) -> Array:
    """Take the Newton step of a party's coefficients that its released statistics allow.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        X'X, as released.
    moment : ndarray of shape (d,)
        X'v for v the negative slope of the loss.
    calibration : StatisticsCalibration
        Tells the size of the noise in `gram`.
    ridge : float
        Penalty, in sum form.
    curvature : float
        Curvature of the loss, a constant for all rows.

    Returns
    -------
    ndarray of shape (d,)
        Post-processing of the two releases, so as private as they are.
    """
    values, vectors = np.linalg.eigh(gram)
    # The noise alone has about this spectral norm; directions below it carry no signal.
    floor = calibration.gram_sigma * math.sqrt(2 * len(moment))
    scaled = curvature * (np.maximum(values, 0.0) + floor) + ridge
    coef: Array = vectors @ ((vectors.T @ moment) / scaled)
    return coef
