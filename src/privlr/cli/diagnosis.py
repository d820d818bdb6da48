"""What this installation is made of, and whether its noise is what it should be."""

from __future__ import annotations

import platform
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from privlr.audit import Check, extremal_pair, noise_of, pivot_test, privacy_loss
from privlr.linear_model import PrivateLogisticRegression
from privlr.optimize import simd_level
from privlr.privacy import perturbation_beta

__all__ = ["facts", "self_audit"]

PACKAGES = ("privlr", "numpy", "scipy", "scikit-learn", "msgspec")
#: The calls of src/_solvers/entropy.c.
ENTROPY = {"linux": "getrandom", "darwin": "getentropy", "win32": "BCryptGenRandom"}
#: A right generator fails the self-audit once in a million runs.
SMALLEST_PVALUE = 1e-6
FEWEST_FITS = 50


def facts() -> dict[str, Any]:
    """Describe the installation.

    Returns
    -------
    dict
        Versions, platform, instruction set of the kernels, BLAS, source of randomness.
    """
    blas = [
        f"{entry['internal_api']} {entry.get('version') or ''}, {entry['num_threads']} threads"
        for entry in threadpool_info()
        if entry["user_api"] == "blas"
    ]
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "instruction_set": simd_level(),
        "blas": "; ".join(dict.fromkeys(blas)) or "not seen",
        "entropy": ENTROPY.get(sys.platform, "the system's generator"),
    }


def self_audit(seconds: float) -> list[Check]:
    """Fit private models for some seconds, recover their noise, and test it.

    Parameters
    ----------
    seconds : float
        How long to fit; at least 50 fits are made.

    Returns
    -------
    list of Check
        What was tested.
    """
    return [*_calibration(), *_noise(seconds)]


def _calibration() -> list[Check]:
    """The worst pair of neighbours loses epsilon and no more."""
    checks = []
    for loss in ("logistic", "capped"):
        beta = perturbation_beta(epsilon=1.0, kappa=20.0, loss=loss)
        pair = extremal_pair(beta=beta, kappa=20.0, loss=loss)
        worst = privacy_loss(**pair._asdict(), beta=beta, kappa=20.0, loss=loss)
        checks.append(
            Check(
                f"worst privacy loss at epsilon 1, {loss}",
                0.999 <= worst <= 1 + 1e-9,
                f"{worst:.6f}",
            )
        )
    return checks


def _noise(seconds: float) -> list[Check]:
    """The noise in released models has the density that the guarantee assumes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    X /= 1.001 * np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = rng.choice([-1, 1], size=40)
    model = PrivateLogisticRegression(1.0, classes=[-1, 1], fit_intercept=False)
    found: list[Any] = []
    end = time.monotonic() + seconds
    while len(found) < FEWEST_FITS or (time.monotonic() < end and len(found) < 20_000):
        model.fit(X, y)
        found.append(noise_of(model.coef_[0], X, y, kappa=model.privacy_.kappa))
    test = pivot_test(found, model.privacy_.beta)
    vectors = np.array(found)
    return [
        Check(
            f"noise of {len(found)} fits against its density",
            test.pvalue > SMALLEST_PVALUE,
            f"p = {test.pvalue:.3g}",
        ),
        Check(
            "no two fits share their noise",
            len(np.unique(vectors, axis=0)) == len(vectors),
            f"mean norm {np.linalg.norm(vectors, axis=1).mean():.3g}, "
            f"expected {3 / model.privacy_.beta:.3g}",
        ),
    ]
