"""The solve that C and Cython call, through its capsule."""

import ctypes

import numpy as np
import pytest

from privlr import cython_kernels, solve
from privlr._solvers.solve import Design, Objective
from privlr.design import make_design

CONVERGED, MAX_PASSES, STALLED, NONFINITE, INVALID = 0, 2, 3, 4, 7
pointer = ctypes.POINTER(ctypes.c_double)
integer, number = ctypes.c_int64, ctypes.c_double


def function():
    capsule = cython_kernels.__pyx_capi__["solve"]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.CFUNCTYPE(
        ctypes.c_int,
        *(integer, integer, pointer, integer, integer),
        *(pointer, pointer, pointer, pointer),
        *(number, ctypes.c_int, number, pointer, pointer, pointer),
    )
    return signature(address(capsule, name(capsule)))


def at(array):
    return None if array is None else array.ctypes.data_as(pointer)


def call(
    X, y, ridge, *, weight=None, offset=None, prior=None, loss=0, tolerance=1e-9, n=None, both=True
):
    """Status, coefficients, gradient norm and passes; NaN where nothing is written."""
    coef = np.full(X.shape[1], np.nan)
    norm, passes = number(np.nan), number(np.nan)
    status = function()(
        *(X.shape[0] if n is None else n, X.shape[1], at(X)),
        *(stride // 8 for stride in X.strides),
        *(at(y), at(weight), at(offset), at(prior)),
        *(ridge, loss, tolerance, at(coef)),
        *((ctypes.byref(norm), ctypes.byref(passes)) if both else (None, None)),
    )
    return status, coef, norm.value, passes.value


def problem(n=120, d=9, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return rng, X, y


@pytest.mark.parametrize("loss", [0, 1])
@pytest.mark.parametrize("d", [9, 40])
def test_every_term_enters_the_objective(d, loss):
    rng, X, y = problem(d=d)
    weight, offset, prior = rng.random(120), rng.normal(size=120), rng.normal(size=d)
    for rows in (X, np.asfortranarray(X), X[::-1, ::-1]):
        status, coef, norm, passes = call(
            rows, y, 0.3, weight=weight, offset=offset, prior=prior, loss=loss
        )
        assert status == CONVERGED and norm <= 1e-9 and passes >= 2
        design = Design(rows, rows.shape)
        objective = Objective(
            design,
            y,
            ridge=0.3,
            sample_weight=weight,
            offset=offset,
            prior_mean=prior,
            loss=("logistic", "capped")[loss],
        )
        gradient = objective.evaluate(coef)[1]
        assert np.linalg.norm(gradient) == pytest.approx(norm, rel=1e-3, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "d"), [(37, 100), (2003, 40), (53_007, 40), (21_005, 100), (21_004, 129), (9_330, 230)]
)
def test_a_pass_takes_rows_of_any_number_length_and_stride(n, d, dtype):
    rng, X, y = problem(n=n, d=3 * d)
    X = (X / np.sqrt(d)).astype(dtype)
    w, weight, offset = rng.normal(size=d + 1), rng.random(n), rng.normal(size=n)
    reach = 1.0
    for rows in (X[:, :d].copy(), X[:, : 2 * d].copy()[:, d // 2 : d // 2 + d], X[::-1, :d]):
        stored = rows.astype(np.float64)
        samples = np.column_stack([stored, np.full(n, 0.5)])
        samples *= np.minimum(1.0, reach / np.linalg.norm(samples, axis=1))[:, None]
        margin = y * (samples @ w + offset)
        value = weight @ np.logaddexp(0.0, -margin) + 0.15 * (w @ w)
        gradient = -samples.T @ (weight * y / (1.0 + np.exp(margin))) + 0.3 * w
        design = make_design(rows, intercept=0.5, data_norm=reach)
        objective = Objective(design, y, ridge=0.3, sample_weight=weight, offset=offset)
        found_value, found = objective.evaluate(w)
        assert found_value == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found, gradient, rtol=0, atol=1e-13 * n)


def test_agrees_with_the_python_function():
    _, X, y = problem(n=3000, d=60)
    expected = solve(X, y, l2_reg_strength=1e-3)
    status, coef, norm, _ = call(X, y, 3.0, tolerance=3e-10)
    assert status == CONVERGED and norm <= 3e-10
    np.testing.assert_allclose(coef, expected.coef, atol=1e-9)
    assert call(X, y, 3.0, tolerance=3e-10, both=False)[0] == CONVERGED


def test_a_tolerance_of_zero_ends_where_rounding_does():
    _, X, y = problem()
    status, coef, norm, _ = call(X, y, 1.0, tolerance=0.0)
    assert status == STALLED and norm < 1e-12 and np.isfinite(coef).all()


@pytest.mark.parametrize(
    "change",
    [
        {"ridge": 0.0},
        {"ridge": np.inf},
        {"ridge": np.nan},
        {"tolerance": -1.0},
        {"tolerance": np.nan},
        {"loss": 2},
        {"n": 0},
        {"y": np.zeros(120)},
        {"weight": -np.ones(120)},
    ],
    ids=str,
)
def test_arguments_outside_their_range(change):
    _, X, y = problem()
    status, coef, norm, _ = call(**({"X": X, "y": y, "ridge": 1.0} | change))
    assert status == INVALID and np.isnan(coef).all() and np.isnan(norm)


@pytest.mark.parametrize("name", ["X", "weight", "offset", "prior"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("n", "d"), [(120, 9), (120, 40), (40, 120)])
def test_nonfinite_input(name, value, n, d):
    _, X, y = problem(n, d)
    array = {"X": X, "prior": np.zeros(d)}.get(name, np.ones(n))
    array[-1] = value
    status, coef, norm, _ = call(**({"X": X, "y": y, "ridge": 1.0} | {name: array}))
    assert status == NONFINITE and np.isnan(coef).all() and np.isnan(norm)


@pytest.mark.parametrize(("n", "d"), [(120, 9), (120, 40), (40, 120)])
def test_rows_whose_sums_would_overflow(n, d):
    _, X, y = problem(n, d)
    X[-1] = 1e152
    status, coef, _, _ = call(X, y, 1.0)
    assert status == NONFINITE and np.isnan(coef).all()
