"""Every instruction set must give the same bits, and no build flag may put that at risk."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privlr._solvers.loss import simd_level

LEVELS = ["baseline", "x86-64-v3", "x86-64-v4"]

DIGEST = """
import hashlib
import numpy as np
import scipy.sparse as sp
from privlr._solvers import noise
from privlr._solvers.loss import loss_gradient, simd_level
from privlr._solvers.prox import logistic_prox
from privlr._solvers.solve import Objective
from privlr.design import make_design, wrap

rng = np.random.default_rng(3)
margins = np.concatenate([
    rng.normal(size=3001) * 4, rng.uniform(-760, 760, 1000), [1e308, np.nan]])
y = np.where(rng.random(margins.size) < 0.5, -1.0, 1.0)
weight = rng.exponential(size=margins.size)
digest = hashlib.sha256()
for loss in ("logistic", "capped"):
    for w in (None, weight):
        total, gradient, hessian = loss_gradient(margins[:-1], y[:-1], loss=loss,
                                                 sample_weight=None if w is None else w[:-1])
        digest.update(np.float64(total).tobytes() + gradient.tobytes() + hessian.tobytes())
a = rng.normal(size=margins.size)
for kappa in (1e-8, 1e-3, 0.3, 1.7, 12.0, 1e4, 1e9):
    digest.update(logistic_prox(margins[:-1], a[:-1], y[:-1], c=kappa * 0.3, rho=0.3).tobytes())
assert np.isnan(loss_gradient(margins, y)[0])
for d in (1, 8, 31, 33, 103, 603):
    X = rng.normal(size=(141, d))
    labels = np.where(rng.random(141) < 0.5, -1.0, 1.0)
    floats, thin = X.astype(np.float32), sp.csr_array(X * (rng.random(X.shape) < 0.03))
    for stored in (X, np.asfortranarray(X), floats, np.asfortranarray(floats), X[:, ::-1],
                   sp.csr_array(X), thin):
        objective = Objective(make_design(stored, intercept=1.0, data_norm=2.0), labels, ridge=0.1)
        value, gradient = objective.evaluate(rng.normal(size=d + 1))
        digest.update(np.float64(value).tobytes() + gradient.tobytes())
        found = objective.minimize(tolerance=1e-9, max_passes=1000, use_metric=d < 32)
        digest.update(found[0].tobytes())
X = rng.normal(size=(21_003, 100))  # more than a cache holds
few = Objective(make_design(X[:, :11], intercept=1.0), np.sign(X[:, 0] + X[:, 90]), ridge=1.0)
digest.update(few.minimize(tolerance=1e-6, max_passes=1000)[0].tobytes())  # with its Hessian
for stored in (X, X.astype(np.float32)):
    objective = Objective(make_design(stored, intercept=1.0), np.sign(X[:, 0]), ridge=0.1)
    value, gradient = objective.evaluate(rng.normal(size=101))
    digest.update(np.float64(value).tobytes() + gradient.tobytes())
for stored in (X, np.asfortranarray(X), X.astype(np.float32)):  # passes find the lengths
    design = wrap(stored)
    found = Objective(design, np.sign(X[:, 0]), ridge=0.1).minimize(tolerance=1e-6, max_passes=99)
    digest.update(np.float64(design.longest()).tobytes() + found[0].tobytes())
key = np.arange(32, dtype=np.uint8)
b, radius = noise.sphere(3001, 0.3, key)
digest.update(b.tobytes() + np.float64(radius).tobytes())
digest.update(noise.rounded_gaussian(a, 3.0, 2.0**-20, key).tobytes())
digest.update(noise.discrete_laplace(3001, 70000, key).tobytes())
print(simd_level(), digest.hexdigest())
"""


@functools.cache
def run_with(level):
    output = subprocess.run(
        [sys.executable, "-c", DIGEST],
        env={**os.environ, "PRIVLR_SIMD": level},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return output.split()


def test_variants_agree_to_the_last_bit():
    best = run_with("")
    digests = {}
    for level in LEVELS[: LEVELS.index(best[0]) + 1]:
        used, digests[level] = run_with(level)
        assert used == level
    assert set(digests.values()) == {best[1]}


def test_an_unknown_level_leaves_the_best_one():
    assert run_with("avx1024")[0] == run_with("")[0]


def test_level_has_a_known_name():
    assert simd_level() in LEVELS


def compile_commands():
    root = Path(__file__).parents[1]
    for path in sorted(root.glob("build/*/compile_commands.json")):
        yield from json.loads(path.read_text())


def test_flags_keep_ieee_arithmetic():
    # the C core consists of static libraries, the Python modules of shared ones
    commands = [
        entry["command"].split() for entry in compile_commands() if ".a.p/" in entry["output"]
    ]
    if not commands:
        pytest.skip("no build directory here")
    for command in commands:
        assert "-ffp-contract=off" in command
        forbidden = {
            "-ffast-math",
            "-Ofast",
            "-funsafe-math-optimizations",
            "-fassociative-math",
            "-freciprocal-math",
            "-ffinite-math-only",
        }
        assert not forbidden.intersection(command)
