"""The compiled solve: right, certified, and indifferent to how the data are stored."""

import signal
import subprocess
import sys
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from privlr import solve, solve_many
from privlr._solvers.solve import Design, Metric, Objective, scan
from privlr.design import THREADED_WORK, longest_row, make_design, wrap
from privlr.exceptions import InvalidParameterError
from privlr.objective import BLOCK_ROWS, UNIT, Accuracy, Problem
from privlr.optimize import loss_gradient, minimize


def problem(n, d, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * scale
    y = np.where(rng.random(n) < expit(X @ rng.normal(size=d)), 1.0, -1.0)
    return X, y


def mean_gradient(X, y, w, l2, offset=0.0, prior=0.0, linear=0.0, weight=1.0):
    slope = -weight * y * expit(-y * (X @ w + offset))
    return X.T @ slope / len(y) + l2 * (w - prior) + np.asarray(linear) / len(y)


@pytest.mark.parametrize(
    ("n", "d", "l2"), [(200, 5, 1e-2), (500, 30, 1e-4), (40, 80, 1e-3), (1, 1, 1.0)]
)
def test_the_gradient_vanishes_and_the_certificate_covers_it(n, d, l2):
    X, y = problem(n, d)
    result = solve(X, y, l2_reg_strength=l2)
    gradient = np.linalg.norm(mean_gradient(X, y, result.coef, l2))
    assert result.status in ("converged", "stalled")
    assert gradient <= result.certificate + 1e-15
    assert result.certificate.gradient_norm <= l2 * 1e-9
    assert result.certificate < 1e-9


def test_offset_prior_linear_and_weights_enter_the_objective():
    rng = np.random.default_rng(3)
    X, y = problem(300, 7)
    offset, prior, linear = rng.normal(size=300), rng.normal(size=7), 20 * rng.normal(size=7)
    weight = rng.random(300)
    result = solve(
        X,
        y,
        l2_reg_strength=0.05,
        offset=offset,
        prior_mean=prior,
        linear=linear,
        sample_weight=weight,
    )
    gradient = mean_gradient(X, y, result.coef, 0.05, offset, prior, linear, weight)
    assert np.linalg.norm(gradient) < 1e-10


def test_agrees_with_scikit_learn():
    X, y = problem(400, 12)
    l2 = 1e-3
    peer = LogisticRegression(C=1 / (400 * l2), fit_intercept=False, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(
        solve(X, y, l2_reg_strength=l2).coef, peer.fit(X, y).coef_[0], atol=1e-6
    )


def layouts(X):
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    wide[::2, ::3] = X
    csr = sp.csr_array(X)
    long = csr.copy()
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "C": np.ascontiguousarray(X),
        "F": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": read_only,
        "csr": csr,
        "csr64": long,
        "csc": sp.csc_matrix(X),
    }


@pytest.mark.parametrize("how", [{}, {"use_metric": False}, {"use_samples": False}])
def test_every_layout_and_method_gives_the_same_coefficients(how):
    X, y = problem(700, 20)
    X[np.abs(X) < 0.5] = 0.0
    reference = solve(X, y, l2_reg_strength=1e-3).coef
    for name, stored in layouts(X).items():
        found = minimize(Problem(make_design(stored), y, 0.7), **how)
        np.testing.assert_allclose(found.coef, reference, atol=1e-8, err_msg=name)


def test_float32_is_the_same_problem_in_float64():
    X, y = problem(300, 9)
    X32 = X.astype(np.float32)
    for stored in (X32, np.asfortranarray(X32), sp.csr_array(X32)):
        np.testing.assert_allclose(
            solve(stored, y, l2_reg_strength=0.01).coef,
            solve(X32.astype(np.float64), y, l2_reg_strength=0.01).coef,
            atol=1e-10,
        )


def test_memory_mapped_rows(tmp_path):
    X, y = problem(200, 6)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        solve(mapped, y, l2_reg_strength=0.1).coef, solve(X, y, l2_reg_strength=0.1).coef
    )


def test_row_order_does_not_matter():
    X, y = problem(3000, 15)
    order = np.random.default_rng(1).permutation(3000)
    np.testing.assert_allclose(
        solve(X, y, l2_reg_strength=1e-4).coef,
        solve(X[order], y[order], l2_reg_strength=1e-4).coef,
        atol=1e-9,
    )


def test_duplicate_entries_of_a_sparse_matrix_add_up():
    data, indices, indptr = [1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3]
    X = sp.csr_array((data, indices, indptr), shape=(2, 2))
    np.testing.assert_allclose(
        solve(X, [1, -1], l2_reg_strength=0.1).coef,
        solve(np.array([[3.0, 0.0], [0.0, 3.0]]), [1, -1], l2_reg_strength=0.1).coef,
    )
    assert X.nnz == 3  # the caller's matrix is untouched


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    d=st.integers(1, 40),
    log_l2=st.floats(-8, 1),
    log_scale=st.floats(-3, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_shape_ends_in_a_certificate(n, d, log_l2, log_scale, seed):
    X, y = problem(n, d, seed, 10.0**log_scale)
    l2 = 10.0**log_l2
    result = solve(X, y, l2_reg_strength=l2)
    assert np.isfinite(result.coef).all()
    assert np.linalg.norm(mean_gradient(X, y, result.coef, l2)) <= 2 * result.certificate
    # Reached what rounding allows, or what was asked for.
    floor = (
        1e3
        * UNIT
        * np.sqrt(n * d)
        * max(1.0, np.abs(X).max())
        * (1 + np.linalg.norm(result.coef) * np.abs(X).max())
    )
    assert result.certificate.gradient_norm <= max(1e-9 * l2, floor)


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: (X * 0.0, y),
        lambda X, y: (np.column_stack([X, X, X[:, :1]]), y),
        lambda X, y: (np.column_stack([X, np.ones(len(X))]), y),
        lambda X, y: (X * np.logspace(-3, 3, X.shape[1]), y),
        lambda X, y: (y[:, None] * np.abs(X), y),
        lambda X, y: (X, np.ones(len(X))),
        lambda X, y: (np.vstack([X, 1e8 * X[:1]]), np.r_[y, -y[0]]),
        lambda X, y: (X * 1e-310, y),
    ],
    ids=[
        "zero",
        "duplicate",
        "constant",
        "scales",
        "separable",
        "one-label",
        "outlier",
        "denormal",
    ],
)
def test_awkward_columns_and_labels(make):
    X, y = make(*problem(150, 6))
    with np.errstate(all="raise", under="ignore"):
        result = solve(X, y, l2_reg_strength=1e-6)
    assert np.isfinite(result.coef).all()
    assert np.linalg.norm(mean_gradient(X, y, result.coef, 1e-6)) < 1e-7 * max(1, np.abs(X).max())


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])
def test_rows_are_short_enough_to_be_solved_or_refused(kind):
    X, y = problem(100, 4)
    X *= 1e150 / np.linalg.norm(X, axis=1).max()
    found = solve(kind(X), y, l2_reg_strength=1.0)
    assert found.coef.any()
    assert np.isfinite(found.certificate)
    for size in (1e2, 1e40, 1e157):
        with pytest.raises(InvalidParameterError, match=r"X must be .* at most 1e\+151"):
            solve(kind(size * X), y, l2_reg_strength=1.0)


def test_separable_data_with_a_tiny_ridge_are_finite():
    X, y = problem(100, 4)
    result = solve(y[:, None] * np.abs(X), y, l2_reg_strength=1e-12)
    assert np.isfinite(result.coef).all()


@pytest.mark.parametrize("margin", [1.0, 1e3, 1e154, 1e308])
def test_large_margins_neither_overflow_nor_give_nan(margin):
    y = np.array([1.0, -1.0])
    offset = np.array([margin, margin])
    with np.errstate(all="raise", under="ignore"):
        result = solve(np.ones((2, 1)), y, l2_reg_strength=1.0, offset=offset)
    assert np.isfinite(result.coef).all()
    assert np.isfinite(result.certificate.gradient_norm)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"l2_reg_strength": 0}, "l2_reg_strength"),
        ({"l2_reg_strength": -1.0}, "l2_reg_strength"),
        ({"l2_reg_strength": float("nan")}, "l2_reg_strength"),
        ({"l2_reg_strength": True}, "l2_reg_strength"),
        ({"y": [1, 0, 1]}, "y"),
        ({"y": [1, -1]}, "y"),
        ({"y": ["a", "b", "a"]}, "y"),
        ({"X": np.zeros((0, 2))}, "X"),
        ({"X": np.zeros((3, 0))}, "X"),
        ({"X": np.zeros(3)}, "X"),
        ({"X": np.array([[1.0, np.nan]] * 3)}, "X"),
        ({"X": np.array([[1.0, np.inf]] * 3)}, "X"),
        ({"X": np.array([["a", "b"]] * 3)}, "X"),
        ({"X": sp.csr_array(np.full((3, 2), 1j))}, "X"),
        ({"offset": [1.0]}, "offset"),
        ({"offset": [np.nan] * 3}, "offset"),
        ({"prior_mean": [1.0]}, "prior_mean"),
        ({"linear": [[1.0, 2.0]]}, "linear"),
        ({"sample_weight": [-1.0, 1.0, 1.0]}, "sample_weight"),
    ],
)
def test_bad_input_is_named(change, name):
    arguments = {"X": np.eye(3, 2), "y": [1, -1, 1], "l2_reg_strength": 0.1} | change
    with pytest.raises(InvalidParameterError) as caught:
        solve(**arguments)
    assert caught.value.name == name


def test_unknown_arguments_are_refused():
    with pytest.raises(TypeError):
        solve(np.eye(2), [1, -1], l2_reg_strength=1.0, tolerance=1e-3)


def squares_after_clipping(X, factors, intercept):
    """Exactly."""
    return [
        sum(Fraction(float(v)) ** 2 for v in [*row, intercept]) * Fraction(float(factor)) ** 2
        for row, factor in zip(X, factors, strict=True)
    ]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "d", "dtype"), [(40, 7, "d"), (270, 45, "d"), (270, 45, "f")])
def test_clipped_rows_never_exceed_the_bound(n, d, dtype, order):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    X = X.astype(dtype, order=order)
    for bound in (0.1, 1.0, 37.5):
        design = Design(X, X.shape, 1.0)
        scan([design], [bound])
        squares = squares_after_clipping(X, design.row_scale, 1.0)
        assert max(squares) <= Fraction(bound) ** 2
        least = Fraction(bound) ** 2 * (1 - Fraction(1, 10**13))
        assert all(s >= least for s, f in zip(squares, design.row_scale, strict=True) if f != 1.0)


def test_planted_bug_factors_without_slack():
    X = np.random.default_rng(5).normal(size=(270, 45))
    factors = 1.0 / np.sqrt(1.0 + (X**2).sum(axis=1))
    assert max(squares_after_clipping(X, factors, 1.0)) > 1


@pytest.mark.parametrize("size", [1e160, 1e300, 1.7e308])
def test_extreme_rows_are_clipped_without_overflow(size):
    X = np.array([[size, -size], [0.3, 0.1], [-0.2, 0.5]])
    w = np.array([1e3, -1e3, 1.0])
    for stored in (X, np.asfortranarray(X), sp.csr_array(X)):
        design = make_design(stored, intercept=1.0, data_norm=1.0)
        assert np.isfinite(design.dots(w)).all()
        assert design.longest() <= 1.0
        # The other rows are what they are without the extreme one.
        alone = make_design(stored[1:], intercept=1.0, data_norm=1.0)
        np.testing.assert_array_equal(design.dots(w)[1:], alone.dots(w))


@pytest.mark.parametrize("bound", [1e-20, 1.0])
def test_an_extreme_row_keeps_its_proportion_to_the_constant(bound):
    X = np.array([[1e160, 0.0], [0.3, 0.1]])
    for stored in (X, sp.csr_array(X)):
        design = make_design(stored, intercept=1.0, data_norm=bound)
        assert abs(design.dots(np.array([0.0, 0.0, 1.0]))[0]) < 1e-100
        np.testing.assert_allclose(design.dots(np.array([1.0, 0.0, 0.0]))[0], bound)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_columns_are_walked_in_long_pieces_as_rows_are(dtype, intercept):
    rng = np.random.default_rng(13)
    X = rng.normal(size=(531, 700)).astype(dtype)
    X[7] *= 1e-30
    by_row, by_column = (
        make_design(np.asarray(X, order=order), intercept=intercept, data_norm=26.0)
        for order in "CF"
    )
    assert (by_row.block, by_column.block) == (16, 256)
    np.testing.assert_allclose(by_column.row_scale, by_row.row_scale, rtol=1e-12)
    w = rng.normal(size=by_row.width)
    np.testing.assert_allclose(by_column.dots(w), by_row.dots(w), atol=1e-11)
    y = np.where(rng.random(531) < 0.5, 1.0, -1.0)
    gradients = [Objective(d, y, ridge=1.0).evaluate(w)[1] for d in (by_row, by_column)]
    np.testing.assert_allclose(*gradients, atol=1e-10)


def strided(X, layout):
    """The rows of X where no kernel walks them as they lie."""
    if layout == "rows of columns":
        return np.repeat(np.asfortranarray(X), 2, axis=0).copy(order="F")[::2]
    if layout == "backwards":
        return np.asfortranarray(X[::-1])[::-1]
    return np.repeat(X, 2, axis=1)[:, ::2]


@pytest.mark.parametrize("d", [5, 40])
@pytest.mark.parametrize("layout", ["rows of columns", "backwards", "parts of rows"])
def test_an_extreme_row_moves_no_bit_of_another_rows_products(layout, d):
    rng = np.random.default_rng(12)
    X, w = rng.normal(size=(70, d)), rng.normal(size=d)
    longer = X.copy()
    longer[3] *= 1e200
    design, changed = (make_design(strided(A, layout), data_norm=1.0) for A in (X, longer))
    different = np.flatnonzero(design.dots(w) != changed.dots(w))
    np.testing.assert_array_less(np.abs(different - 3), 1)
    np.testing.assert_array_equal(np.delete(design.row_scale, 3), np.delete(changed.row_scale, 3))


def test_planted_bug_extreme_rows_copied_as_they_lie():
    rng = np.random.default_rng(12)
    X, w = strided(rng.normal(size=(70, 40)), "backwards"), rng.normal(size=40)
    copied = X * np.ones((70, 1))
    assert copied.flags.f_contiguous
    design, other = (make_design(A, data_norm=100.0) for A in (X, copied))
    np.testing.assert_array_equal(design.row_scale, other.row_scale)
    assert (design.dots(w) != other.dots(w)).any()


TALL = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "float32": np.float32,
}


@pytest.mark.parametrize("stored", TALL.values(), ids=TALL)
@pytest.mark.parametrize("place", [0, 1111, 20_010])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "X must be finite; got 'NaN'"),
        (-np.inf, "X must be finite; got 'infinity'"),
        (1e152, r"X must be rows of length at most 5e\+148"),
        (1e308, r"X must be rows of length at most 5e\+148"),
    ],
)
def test_passes_refuse_what_a_scan_would(stored, place, value, message):
    # Most rows are in none of the samples.
    X, y = problem(20_011, 40, scale=0.1)
    X[place, [3, 7]] = value
    with np.errstate(over="ignore"):
        X = stored(X)
    if np.isinf(X[place, 3]):  # a float32 is
        message = "X must be finite; got 'infinity'"
    bad = np.full_like(X, X[place, 3])
    with pytest.raises(InvalidParameterError, match=message):
        make_design(X)
    with pytest.raises(InvalidParameterError, match=message):
        solve(X, y, l2_reg_strength=1e-3)
    with pytest.raises(InvalidParameterError, match=message):
        solve(bad, y, l2_reg_strength=1e-3)
    with pytest.raises(InvalidParameterError, match=message):
        solve_many(X, y, l2_reg_strength=1e-3, linear=np.ones((2, 40)))


@pytest.mark.parametrize("stored", TALL.values(), ids=TALL)
@pytest.mark.parametrize("name", ["offset", "prior_mean", "linear", None])
def test_passes_find_the_longest_row(stored, name):
    n, d = 2 * THREADED_WORK // 40, 40
    X, y = problem(n, d, scale=0.1)
    X[-6] *= 3.0  # in no sample
    X[1:n:2] *= 1e-165  # squares vanish
    X[2:n:32] = 0.0
    X = stored(X)
    scanned, passed = make_design(X), wrap(X, n_jobs=2)
    other = {} if name is None else {name: np.full(n if name == "offset" else d, 0.1)}
    found = [minimize(Problem(design, y, 2.0, **other)) for design in (scanned, passed)]
    assert passed.longest() == longest_row(passed) == scanned.longest()
    np.testing.assert_allclose(found[0].coef, found[1].coef, rtol=0, atol=1e-9)
    alone = solve(X, y, l2_reg_strength=2.0 / n, **other)
    np.testing.assert_array_equal(alone.coef, found[1].coef)


@pytest.mark.parametrize("size", [1.0, 1e-162])
def test_a_solve_that_ends_at_once_has_seen_every_row(size):
    X, y = problem(20_011, 40, scale=0.1 * size)
    X[20_005] *= 10.0
    result = solve(X, y, l2_reg_strength=1.0, tol=1e9)
    accuracy = Accuracy(20_011, 40, 1, make_design(X).longest())
    error = accuracy.gradient_error(float(np.linalg.norm(result.coef)), 0.0, 20_011.0)
    assert result.passes < 2.5
    assert result.certificate.rounding_bound == pytest.approx(error / 20_011, rel=1e-12)


def test_planted_bug_duplicates_behind_a_stale_flag():
    # Twice 0.7 in one column is a row of length 1.4, whatever the flags say.
    X = sp.csr_array(np.full((5, 2), 0.7))
    assert X.has_canonical_format
    X.indices[:] = 0
    design = make_design(X, data_norm=1.0)
    assert np.abs(design.dots(np.array([1.0, 0.0]))).max() <= 1.0


@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("value", [-1, 10**6])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_a_broken_sparse_matrix_is_refused(part, value, kind):
    X = sp.csr_array(np.ones((5, 2)))
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    getattr(X, part)[2] = value
    with pytest.raises(InvalidParameterError, match="well-formed CSR"):
        make_design(X)


def test_clipping_is_local_and_idempotent():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 4)) * 3
    design = make_design(X, data_norm=1.0)
    alone = make_design(X[7:8], data_norm=1.0)
    assert alone.row_scale[0] == design.row_scale[7]
    clipped = X * (design.row_scale * (1 - 1e-12))[:, None]
    np.testing.assert_allclose(make_design(clipped, data_norm=1.0).row_scale, 1.0, atol=1e-13)


def test_the_block_of_a_pass_is_the_one_in_the_bound():
    for d in (1, 10, 100, 1000, 10_000):
        assert make_design(np.zeros((3, d))).block <= BLOCK_ROWS


@pytest.mark.parametrize("stored", TALL.values(), ids=TALL)
def test_passes_add_up_without_a_scan_as_after_one(stored):
    # Several blocks a chunk, of which more rows in all than the bound allows without compensation.
    X, y = problem(9000, 200)
    X = stored(X)
    w = np.random.default_rng(8).normal(size=200)
    value, gradient = Objective(make_design(X), y, ridge=1.0).evaluate(w)
    alone, unscanned = Objective(wrap(X), y, ridge=1.0).evaluate(w)
    assert alone == value
    np.testing.assert_array_equal(unscanned, gradient)


@pytest.mark.parametrize("layout", ["rows", "columns", "csr"])
@pytest.mark.parametrize(("n", "d"), [(600, 8), (900, 40)])
def test_the_rounding_bound_covers_the_gradient_error(n, d, layout):
    from mpmath import mp, mpf

    mp.dps = 50
    X, y = problem(n, d, scale=2.0)
    if layout == "csr":
        X[np.random.default_rng(1).random((n, d)) < 0.8] = 0.0
    w = np.random.default_rng(8).normal(size=d)
    _, gradient = Objective(make_design(as_stored(X, layout)), y, ridge=0.0).evaluate(w)
    exact = [mpf(0)] * d
    for row, label in zip(X, y, strict=True):
        margin = mpf(label) * sum(mpf(a) * mpf(b) for a, b in zip(row, w, strict=True))
        slope = -mpf(label) / (1 + mp.exp(margin))
        for j in range(d):
            exact[j] += slope * mpf(row[j])
    error = float(mp.sqrt(sum((mpf(g) - e) ** 2 for g, e in zip(gradient, exact, strict=True))))
    bound = Accuracy(n, d, 1, float(np.linalg.norm(X, axis=1).max())).gradient_error(
        float(np.linalg.norm(w)), 0.0, 0.0
    )
    assert error <= bound


def short_rows(size):
    """A certificate, and the length of the gradient that it is for."""
    X = np.random.default_rng(4).normal(size=(1, 20)) * size
    result = solve(X, [1.0], l2_reg_strength=1e-11)
    gradient = -X[0] / (1 + np.exp(X[0] @ result.coef)) + 1e-11 * result.coef
    return result.certificate, float(np.linalg.norm(gradient / size)) * size


@pytest.mark.parametrize("size", [1e-150, 1e-155, 1e-161, 1e-165])
def test_the_certificate_covers_gradients_whose_squares_vanish(size):
    certificate, length = short_rows(size)
    assert abs(length - certificate.gradient_norm) <= certificate.rounding_bound


def test_planted_bug_squares_that_do_not_vanish(monkeypatch):
    monkeypatch.setattr("privlr.objective.UNDERFLOW", 0.0)
    certificate, length = short_rows(1e-165)
    assert length > 1e6 * certificate


def test_planted_bug_plain_sum_across_blocks():
    # Sixteen rows a block, each block's sum exact, and every addition across blocks in the
    # upper half of the total loses just under half a unit: a plain sum breaks the bound.
    blocks, width = 8192, 2048
    part = 1 + 2.0**-41 - 2.0**-47
    n = 16 * blocks
    X = sp.csr_array((np.full(n, part / 8), np.zeros(n, int), np.arange(n + 1)), shape=(n, width))
    design = make_design(X)
    assert design.block == 16
    _, gradient = Objective(design, np.ones(n), ridge=0.0).evaluate(np.zeros(width))
    bound = Accuracy(n, width, 1, part / 8).gradient_error(0.0, 0.0, 0.0)
    assert abs(gradient[0] + blocks * part) <= bound
    plain = 0.0
    for _ in range(blocks):
        plain += part
    assert abs(plain - blocks * part) > 2 * bound


def test_softmax_gradient_vanishes():
    rng = np.random.default_rng(9)
    X, labels = rng.normal(size=(300, 6)), rng.integers(0, 4, size=300)
    linear, prior = 5 * rng.normal(size=24), rng.normal(size=24)
    found = minimize(
        Problem(
            make_design(X), labels.astype(float), 3.0, n_outputs=4, linear=linear, prior_mean=prior
        )
    )
    W = found.coef.reshape(4, 6)
    P = np.exp(X @ W.T)
    P /= P.sum(axis=1, keepdims=True)
    P[np.arange(300), labels] -= 1
    gradient = (P.T @ X).ravel() + 3.0 * (found.coef - prior) + linear
    assert np.linalg.norm(gradient) < 1e-8
    assert found.gradient_norm < 1e-8


@pytest.mark.parametrize("ridge", [1e-4, 1e-6])
def test_softmax_of_separable_classes_with_a_tiny_ridge(ridge):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 10))
    found = minimize(
        Problem(make_design(X, intercept=1.0), np.floor(4 * X[:, 0]), ridge, n_outputs=4),
        tolerance=1e-11,
    )
    assert found.gradient_norm <= 1e-11
    assert found.passes < 200


def as_stored(X, layout):
    return {
        "rows": X,
        "columns": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "csr": sp.csr_array(X),
    }[layout]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_condition_ends_in_a_certificate(data):
    n, d = data.draw(st.integers(1, 900)), data.draw(st.sampled_from([1, 3, 20, 31, 32, 33, 70]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=d)
    X[rng.random((n, d)) < data.draw(st.sampled_from([0.0, 0.9]))] = 0.0
    if d > 2 and data.draw(st.booleans()):
        X[:, 1] = X[:, 0]
    if data.draw(st.booleans()):
        X[0] *= 1e3
    y = np.where(rng.random(n) < data.draw(st.sampled_from([0.5, 0.99, 1.0])), 1.0, -1.0)
    y = np.where(data.draw(st.booleans()), np.sign(X[:, 0] + 1e-300), y)
    stored = as_stored(
        X, data.draw(st.sampled_from(["rows", "columns", "float32", "strided", "csr"]))
    )
    X = (stored.toarray() if sp.issparse(stored) else stored).astype(np.float64)
    l2 = 10.0 ** data.draw(st.floats(-8, 1))
    optional = {
        "offset": rng.normal(size=n),
        "prior_mean": rng.normal(size=d),
        "linear": rng.normal(size=d) * 10.0 ** data.draw(st.floats(-2, 2)),
        "sample_weight": rng.random(n),
    }
    used = {k: v for k, v in optional.items() if data.draw(st.booleans())}
    result = solve(stored, y, l2_reg_strength=l2, **used)
    found = mean_gradient(
        X,
        y,
        result.coef,
        l2,
        used.get("offset", 0.0),
        used.get("prior_mean", 0.0),
        used.get("linear", 0.0),
        used.get("sample_weight", 1.0),
    )
    assert result.status != "max_passes"
    assert np.linalg.norm(found) <= 2 * result.certificate
    assert result.certificate.gradient_norm <= max(1e-9 * l2, result.certificate.rounding_bound)


@pytest.mark.parametrize("n", [7, 300, 5000])
@pytest.mark.parametrize("d", [5, 50])
def test_the_norm_reported_is_that_of_a_pass_at_the_point_returned(n, d):
    X, y = problem(n, d)
    design = make_design(X)
    for tolerance in (1e-3 * n, None):
        found = minimize(Problem(design, y, 0.01 * n), tolerance=tolerance)
        _, gradient = Objective(design, y, ridge=0.01 * n).evaluate(found.coef)
        assert found.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-12)
        assert found.status == "converged"


def sample_of_the_metric(X, y, l2):
    metric = Metric()
    Objective(make_design(X), y, ridge=l2 * len(y)).minimize(
        tolerance=1e-9 * len(y), max_passes=1000, metric=metric
    )
    return metric.every


def test_a_hessian_is_estimated_where_that_pays():
    X, y = problem(6000, 20)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert sample_of_the_metric(X, y, 1.0) == 0  # all but a sphere: a few steps do
    uneven = X * np.logspace(-2, 0, 20)
    assert sample_of_the_metric(uneven, y, 1e-5) >= 1
    assert sample_of_the_metric(sp.csr_array(uneven), y, 1e-5) >= 1
    many_X, many_y = problem(40_000, 40)
    assert sample_of_the_metric(many_X * np.logspace(-2, 0, 40), many_y, 1e-5) > 1  # not all rows
    few_X, few_y = problem(40_000, 10)  # that of all rows comes along with a look at them
    assert sample_of_the_metric(few_X / np.linalg.norm(few_X, axis=1)[:, None], few_y, 1e-3) == 1
    wide_X, wide_y = problem(50, 2100)
    assert sample_of_the_metric(wide_X, wide_y, 1e-5) == 0  # a factor would outweigh the rows


@pytest.mark.parametrize("seed", [1, 2])
def test_the_span_needs_no_hessian_where_the_norm_rests_a_while(seed):
    rng = np.random.default_rng(seed)
    X = sp.random_array((300, 1400), density=0.06, format="csr", rng=rng)
    X.data = rng.normal(size=X.nnz)
    X = sp.csr_array(X @ sp.diags_array(10.0 ** (-4 * rng.random(1400))))
    X = sp.csr_array(X / np.sqrt(X.multiply(X).sum(axis=1).max()))
    margin = X @ rng.normal(size=1400)
    y = np.where(margin + margin.std() * rng.normal(size=300) > 0, 1.0, -1.0)
    assert sample_of_the_metric(X, y, 3e-8) == 0


def sparse_problem(n, d, entries, seed=1, decades=4.0):
    """So many entries a row, on average, of columns whose scales differ."""
    rng = np.random.default_rng(seed)
    X = sp.random_array(
        (n, d), density=entries / d, format="csr", rng=rng, data_sampler=rng.standard_normal
    )
    scale = 10.0 ** (-decades * rng.random(d))
    X.data *= scale[X.indices]
    X /= np.sqrt(X.multiply(X).sum(axis=1).max())
    margin = X @ (rng.normal(size=d) / scale)
    return X, np.where(rng.random(n) < expit(2 * margin / margin.std()), 1.0, -1.0)


@pytest.mark.parametrize("d", [800, 2500])  # a Hessian costs much there, or is none
def test_the_diagonal_of_the_hessian_serves_for_sparse_rows(d):
    X, y = sparse_problem(4000, d, 5)
    assert sample_of_the_metric(X, y, 5e-7) == 0
    found = solve(X, y, l2_reg_strength=5e-7, tol=1e-9)
    assert np.linalg.norm(mean_gradient(X, y, found.coef, 5e-7)) <= 1.01e-9
    sphere = minimize(Problem(make_design(X), y, 4000 * 5e-7), use_metric=False, tolerance=4e-6)
    assert found.passes < 0.25 * sphere.passes


def test_the_diagonal_is_given_up_where_columns_are_even():
    X = sp.random_array((20_000, 2100), density=0.05, format="csr", rng=np.random.default_rng(2))
    X.data[:] = 0.05
    y = np.where(np.random.default_rng(3).random(20_000) < 0.5, 1.0, -1.0)
    given = Problem(make_design(X), y, 0.5)
    found = minimize(given, tolerance=2e-5)
    plain = minimize(given, tolerance=2e-5, use_metric=False)
    np.testing.assert_array_equal(found.coef, plain.coef)


@pytest.mark.parametrize(("data_norm", "passes"), [(None, 16), (0.3, 11)])
def test_rows_of_one_entry_take_newton_steps(data_norm, passes):
    """Their Hessian has no other elements; a wrong diagonal would cost many more."""
    rng = np.random.default_rng(4)
    n, d = 3000, 700
    column = rng.integers(0, d, size=n)
    value = rng.normal(size=n) * (10.0 ** (-3 * rng.random(d)))[column]
    X = sp.csr_array((value, (np.arange(n), column)), shape=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    found = minimize(Problem(make_design(X, data_norm=data_norm), y, n * 1e-6), tolerance=n * 1e-11)
    assert found.gradient_norm <= n * 1e-11
    assert found.passes <= passes


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("n", "d"), [(1500, 400), (400, 900)])  # from the span, the second
def test_everything_enters_where_the_diagonal_serves(n, d, index, dtype, loss):
    rng = np.random.default_rng(9)
    X, y = sparse_problem(n, d, 6, seed=9, decades=2.0)
    X = sp.csr_array(
        (10 * X.data.astype(dtype), X.indices.astype(index), X.indptr.astype(index)), shape=(n, d)
    )
    given = Problem(
        make_design(X, intercept=0.5, data_norm=2.0),
        y,
        n * 1e-4,
        loss=loss,
        sample_weight=rng.integers(0, 3, size=n).astype(float),
        offset=rng.normal(size=n),
        prior_mean=0.1 * rng.normal(size=d + 1),
        linear=0.01 * rng.normal(size=d + 1),
    )
    found = minimize(given, tolerance=1e-10 * n)
    plain = minimize(given, tolerance=1e-10 * n, use_samples=False, use_metric=False)
    assert found.gradient_norm <= 1e-10 * n
    assert plain.gradient_norm <= 1e-10 * n
    np.testing.assert_allclose(found.coef, plain.coef, atol=3e-6)  # both are as near as 1e-6
    assert found.passes < plain.passes + 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_hessian_of_many_sparse_columns_is_made_in_haste(seed):
    """After the span, where the norm may rise for two steps; it would cost a thousand passes."""
    X, y = sparse_problem(400, 900, 6, seed)
    assert sample_of_the_metric(X, y, 1e-7) == 0
    found = solve(X, y, l2_reg_strength=1e-7, tol=1e-9)
    assert found.certificate.gradient_norm <= 1e-9
    assert found.passes < 250


def test_a_hessian_from_few_rows_is_not_trusted_too_far():
    """Ten rows a column shrink the gradient by .5 a step, not by .3: all rows pay sooner."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(3000) < expit(4 * X @ rng.normal(size=100)), 1.0, -1.0)
    found = solve(X, y, l2_reg_strength=1e-5, tol=1e-9)
    assert found.status == "converged"
    assert found.passes < 16  # 20 with too much trust


def test_many_dense_columns_have_a_hessian_where_nothing_else_helps():
    rng = np.random.default_rng(2)
    n, d = 2600, 2100
    X = rng.normal(size=(n, d)) * (scale := 10 ** rng.uniform(-4, 0, size=d))
    X /= np.linalg.norm(X, axis=1).max()
    margins = X @ (rng.normal(size=d) / scale)
    y = np.where(rng.random(n) < expit(3 * margins / margins.std()), 1.0, -1.0)
    found = solve(X, y, l2_reg_strength=1e-8, tol=1e-9)
    assert found.status == "converged"
    assert found.passes < 300  # L-BFGS alone stands still after a thousand
    assert sample_of_the_metric(X, y, 1e-8) == 1


def test_a_copy_in_single_precision_serves_where_a_hessian_costs_more():
    X, y = problem(1100, 1000)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert sample_of_the_metric(X, y, 1e-5) == 0
    assert sample_of_the_metric(np.asfortranarray(X), y, 1e-5) == 0
    assert sample_of_the_metric(X.astype(np.float32), y, 1e-6) == 1  # which has no shorter copy
    assert sample_of_the_metric(X[:, :500], y, 1e-6) == 1


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("width", [*range(1, 10), 31, 32])
def test_the_factor_of_few_columns_is_that_of_the_hessian(width, loss):
    X, y = problem(1003, width)  # no whole panel, no whole block
    weight = np.linspace(0.1, 1.0, 1003)
    metric = Metric()
    objective = Objective(make_design(X), y, ridge=2.0, loss=loss, sample_weight=weight)
    w = np.asarray(objective.prepare(metric, tolerance=1e-8, max_passes=1000))
    assert metric.every == 1
    _, _, curvature = loss_gradient(X @ w, y, loss=loss, sample_weight=weight)
    hessian = (X * curvature[:, None]).T @ X + 2.0 * np.eye(width)
    step = w - metric.step(w, np.ones(width))
    np.testing.assert_allclose(hessian @ step, np.ones(width), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_long_rows(order, dtype):
    """They are read four at a time; 803 is no multiple of the lanes, nor 30 of the four."""
    X, y = problem(30, 803, seed=7)
    X = X.astype(dtype, order=order)
    w = np.random.default_rng(8).normal(size=803)
    design = make_design(X)
    np.testing.assert_allclose(design.dots(w), X @ w, atol=1e-11)
    found = solve(X, y, l2_reg_strength=1e-3, tol=1e-11)
    gradient = mean_gradient(X.astype(float), y, found.coef, 1e-3)
    assert np.linalg.norm(gradient) <= 2e-11


def test_the_span_of_the_rows_falls_back_where_its_numbers_overflow():
    design = make_design(sp.csr_array(np.eye(3, 5)))
    given = Problem(design, np.array([1.0, -1.0, 1.0]), 1e-200, linear=np.full(5, 1e150))
    found = minimize(given)
    assert np.isfinite(found.coef).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("l2", [1e-2, 1e-5, 1e-9])
def test_wide_sparse_rows_are_solved_in_their_span(l2, dtype):
    """Offsets, weights, a prior mean, a linear term, a constant and clipping all enter it."""
    rng = np.random.default_rng(5)
    n, d = 150, 700
    X = sp.random_array((n, d), density=0.03, rng=rng, format="csr", dtype=dtype) * dtype(2)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    weight = rng.integers(0, 3, size=n).astype(float)
    design = make_design(X, intercept=0.5, data_norm=1.0)
    given = Problem(
        design,
        y,
        n * l2,
        sample_weight=weight,
        offset=rng.normal(size=n),
        prior_mean=0.1 * rng.normal(size=d + 1),
        linear=l2 * rng.normal(size=d + 1),
    )
    found = minimize(given, tolerance=1e-9 * n * l2)
    plain = minimize(given, tolerance=1e-9 * n * l2, use_samples=False)
    assert found.gradient_norm <= 1e-9 * n * l2 or found.status == "stalled"
    np.testing.assert_allclose(found.coef, plain.coef, atol=1e-6 * (1 + np.abs(plain.coef).max()))
    assert found.passes <= plain.passes + 2


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("magnitude", [1.0, 1e39])
def test_large_wide_rows_are_copied_in_single_precision(order, magnitude):
    """Or not, where a float cannot hold them; the gradient that counts is that of the rows."""
    rng = np.random.default_rng(11)
    n, d = 1800, 2400
    X = np.asarray(rng.normal(size=(n, d)), order=order)
    X *= magnitude / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    l2 = 1e-6 * magnitude**2
    given = Problem(
        make_design(X, intercept=0.1 * magnitude),
        y,
        n * l2,
        offset=rng.normal(size=n),
        prior_mean=rng.normal(size=d + 1) / magnitude,
        linear=magnitude * rng.normal(size=d + 1),
    )
    found = minimize(given, tolerance=1e-9 * n * magnitude)
    plain = minimize(given, tolerance=1e-9 * n * magnitude, use_samples=False, use_metric=False)
    assert found.status == plain.status == "converged"
    np.testing.assert_allclose(
        found.coef * magnitude,
        plain.coef * magnitude,
        atol=2e-3 * np.abs(plain.coef * magnitude).max(),
    )
    # The copy's steps are no worse than those with the rows.
    assert found.passes < 1.3 * plain.passes + 5
    gradient = X.T @ (
        -y * expit(-y * (X @ found.coef[:-1] + 0.1 * magnitude * found.coef[-1] + given.offset))
    )
    gradient += n * l2 * (found.coef[:-1] - given.prior_mean[:-1]) + given.linear[:-1]
    assert np.linalg.norm(gradient) <= 1.01e-9 * n * magnitude


@pytest.mark.parametrize("columns", [400, 4000])
def test_nearly_equal_sparse_rows(columns):
    """Two hundred columns hold entries; with few others the rows are no work for their span."""
    rng = np.random.default_rng(6)
    X = np.zeros((60, columns))
    X[:, :200] = 1 + 1e-3 * rng.normal(size=(60, 200))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    found = solve(sp.csr_array(X), y, l2_reg_strength=1e-4, tol=1e-10)
    dense = solve(X, y, l2_reg_strength=1e-4, tol=1e-10)
    assert found.certificate.gradient_norm <= 1e-10
    np.testing.assert_allclose(found.coef, dense.coef, atol=1e-5)
    assert found.passes < dense.passes + 30


@pytest.mark.parametrize(
    ("density", "noise", "l2"), [(0.004, 0.01, 1e-9), (0.004, 1.0, 1e-9), (0.25, 30.0, 5e-8)]
)
def test_huge_margins_of_sparse_rows(density, noise, l2):
    """Of two entries a row, where a Hessian costs as much as a thousand passes, but is needed."""
    n, d = 200, 500
    rng = np.random.default_rng(0)
    X = sp.random_array(
        (n, d), density=density, rng=rng, format="csr", data_sampler=rng.standard_normal
    )
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    found = solve(
        X,
        y,
        l2_reg_strength=l2,
        offset=rng.normal(size=n),
        prior_mean=rng.normal(size=d),
        linear=noise * rng.normal(size=d),
    )
    assert np.abs(X @ found.coef).max() > 1e4
    assert found.passes < 1900
    assert found.certificate.gradient_norm <= found.certificate.rounding_bound


@pytest.mark.parametrize("d", [25, 60])
def test_threads_change_no_bit(d):
    X, y = problem(2 * THREADED_WORK // d, d)
    reference = minimize(Problem(make_design(X), y, 1.0))
    scale = make_design(X, data_norm=0.9).row_scale
    for n_jobs in (2, 3):
        design = make_design(X, n_jobs=n_jobs)
        assert design.n_threads == n_jobs
        found = minimize(Problem(design, y, 1.0))
        np.testing.assert_array_equal(found.coef, reference.coef)
        assert found.passes == reference.passes
        clipped = make_design(X, data_norm=0.9, n_jobs=n_jobs)
        np.testing.assert_array_equal(clipped.row_scale, scale)
    X[-1, -1] = np.nan
    with pytest.raises(InvalidParameterError, match="NaN"):
        make_design(X, data_norm=0.9, n_jobs=2)


def test_threads_change_no_bit_of_sparse_rows():
    X, y = sparse_problem(THREADED_WORK // 4, 500, 5)
    designs = [make_design(X, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
    assert [design.n_threads for design in designs] == [1, 2, 3]
    first, *others = (minimize(Problem(design, y, 0.1)) for design in designs)
    for other in others:
        np.testing.assert_array_equal(other.coef, first.coef)
        assert other.passes == first.passes


def test_small_work_gets_no_threads():
    assert make_design(np.ones((1000, 20)), n_jobs=4).n_threads == 1
    assert make_design(np.ones((1, THREADED_WORK)), n_jobs=-1).n_threads >= 1


@pytest.mark.parametrize("n_jobs", [0, True, 1.5, "2"])
def test_bad_thread_counts_are_named(n_jobs):
    with pytest.raises(InvalidParameterError) as caught:
        solve(np.eye(2), [1, -1], l2_reg_strength=1.0, n_jobs=n_jobs)
    assert caught.value.name == "n_jobs"


def test_tol_is_the_gradient_norm_of_the_mean():
    X, y = problem(4000, 30)
    for tol in (1e-3, 1e-6, 1e-9):
        result = solve(X, y, l2_reg_strength=1e-4, tol=tol)
        assert np.linalg.norm(mean_gradient(X, y, result.coef, 1e-4)) <= tol


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("d", [6, 45])
def test_many_problems_are_solved_as_one_by_one(d, n_jobs):
    X, y = problem(800, d)
    rng = np.random.default_rng(2)
    linear, offset = 30 * rng.normal(size=(5, d)), rng.normal(size=(5, 800))
    linear[4] *= 1e4  # far from the common start
    for these in ({"linear": linear}, {"offset": offset}, {"linear": linear, "offset": offset}):
        results = solve_many(X, y, l2_reg_strength=1e-3, n_jobs=n_jobs, **these)
        for k, result in enumerate(results):
            single = solve(X, y, l2_reg_strength=1e-3, **{a: v[k] for a, v in these.items()})
            scale = max(1.0, np.abs(single.coef).max())
            np.testing.assert_allclose(result.coef, single.coef, atol=1e-8 * scale)
            assert result.status in ("converged", "stalled")


def test_many_problems_need_a_difference():
    with pytest.raises(InvalidParameterError):
        solve_many(np.eye(2), [1, -1], l2_reg_strength=1.0)
    with pytest.raises(InvalidParameterError):
        solve_many(np.eye(2), [1, -1], l2_reg_strength=1.0, linear=[[1.0, 0.0, 0.0]])


def test_float64_input_is_not_copied():
    X, y = problem(20_000, 50)
    for stored in (X, np.asfortranarray(X)):
        solve(stored, y, l2_reg_strength=1.0)
        tracemalloc.start()
        solve(stored, y, l2_reg_strength=1.0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 0.25 * X.nbytes


@pytest.mark.slow
def test_peak_memory_of_a_private_fit():
    script = """
import resource, numpy as np
from privlr import PrivateLogisticRegression
rng = np.random.default_rng(0)
X = rng.random((300_000, 100)); y = rng.integers(0, 2, 300_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
PrivateLogisticRegression(1.0, classes=[0, 1]).fit(X, y)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / X.nbytes)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) <= 0.25


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_signal_ends_a_long_solve(n_jobs):
    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough

    def hard():
        started = time.process_time()
        try:
            objective.minimize(tolerance=0.0, max_passes=600, use_metric=False, use_samples=False)
        finally:
            took.append(time.process_time() - started)

    X, y = problem(20_000, 100)
    took = []
    objective = Objective(make_design(X * np.logspace(-3, 3, 100), n_jobs=n_jobs), y, ridge=1e-9)
    hard()
    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.05 * took[0])
        with pytest.raises(Enough):
            hard()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    assert took[1] < 0.7 * took[0]
    hard()  # nothing of it is left
