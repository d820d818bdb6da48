"""From a frozen problem to its minimiser, with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from privlr._solvers import loss, prox
from privlr._solvers import solve as kernels
from privlr._validation import check_positive
from privlr.exceptions import InvalidParameterError
from privlr.objective import Accuracy, Problem

__all__ = [
    "Certificate",
    "SolveResult",
    "choose_method",
    "logistic_prox",
    "loss_gradient",
    "make_design",
    "minimize",
    "simd_level",
    "solve",
    "well_formed",
]

#: Loss, slope and curvature over arrays, and the z-minimisation of ADMM.
loss_gradient = loss.loss_gradient
logistic_prox = prox.logistic_prox
#: () -> str, the instruction set that the kernels use on this machine.
simd_level = loss.simd_level

#: Newton's method factors a width x width matrix; beyond this L-BFGS is quicker.
NEWTON_MAX_WIDTH = 2000
#: Gradient norm over ridge at which a solve stops: the coefficients are then
#: within this distance of the minimiser.
COEF_TOLERANCE = 1e-10
MAX_PASSES = 10_000
#: Rows beyond 1e150 (EXTREME_LENGTH in design.c) are brought to this length before clipping.
SAFE_LENGTH = 1e120


class Certificate(float):
    """Certified bound on the gradient norm of the mean objective at the returned point.

    The float itself is ``gradient_norm + rounding_bound``: by strong convexity the
    exact minimiser lies within that number over `l2_reg_strength` of `coef`.

    Attributes
    ----------
    gradient_norm : float
        Recomputed in a pass of its own after the solve.
    rounding_bound : float
        Bound on the error of that computation in float64.
    """

    gradient_norm: float
    rounding_bound: float

    def __new__(cls, gradient_norm: float, rounding_bound: float) -> Certificate:
        self = super().__new__(cls, gradient_norm + rounding_bound)
        self.gradient_norm = gradient_norm
        self.rounding_bound = rounding_bound
        return self

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.gradient_norm, self.rounding_bound

    def __repr__(self) -> str:
        return (
            f"Certificate(gradient_norm={self.gradient_norm:.3g}, "
            f"rounding_bound={self.rounding_bound:.3g})"
        )


@dataclass(frozen=True)
class Minimum:
    """What :func:`minimize` found, in sum form."""

    coef: NDArray[np.float64]
    gradient_norm: float
    status: str
    passes: int


@dataclass(frozen=True)
class SolveResult:
    """Result of :func:`solve`.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    certificate : Certificate
    status : {"converged", "stalled", "max_passes"}
        "stalled": rounding allows no smaller gradient, which the certificate shows.
    passes : int
        Evaluations over all rows.
    """

    coef: NDArray[np.float64]
    certificate: Certificate
    status: str
    passes: int


def _native_csr(X: Any) -> Any:
    """CSR with sorted unique indices of one integer type; the input where it is that."""
    X = X.tocsr()
    wide = X.indices.dtype == np.int64 or X.indptr.dtype == np.int64
    index = np.int64 if wide else np.int32
    indices = np.ascontiguousarray(X.indices, dtype=index)
    indptr = np.ascontiguousarray(X.indptr, dtype=index)
    # The matrix's own flags may be stale, and an entry that stands twice makes its row longer
    # than its clipping allows for.
    form = kernels.csr_form(indices, indptr, X.shape[1])
    if form == "broken" or len(X.data) < indptr[-1] or len(indptr) != X.shape[0] + 1:
        raise InvalidParameterError("X", "a well-formed CSR matrix", "indices out of range")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    data = np.ascontiguousarray(X.data, dtype=dtype)
    if form == "unordered":
        fresh = sp.csr_array((data, indices, indptr), shape=X.shape, copy=True)
        fresh.sum_duplicates()
        data, indices, indptr = fresh.data, fresh.indices, fresh.indptr
    return data, indices, indptr


def well_formed(X: Any) -> Any:
    """Return a sparse matrix in checked CSR without repeated entries, anything else as it is.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix/array of shape (n, d)
        Rows. scipy's indexing trusts indices that nobody has checked.

    Returns
    -------
    ndarray or csr_array of shape (n, d)
        The same rows.

    Raises
    ------
    InvalidParameterError
        Indices lie out of range.
    """
    return sp.csr_array(_native_csr(X), shape=X.shape) if sp.issparse(X) else X


def _native_dense(X: Any) -> Any:
    """A float array that the kernels can walk; the input where it is one."""
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64) or not X.dtype.isnative:
        X = X.astype(np.float64)
    if not X.flags.aligned or any(s % X.itemsize for s in X.strides):
        X = X.copy()
    return X


def make_design(
    X: Any, *, intercept: float = 0.0, data_norm: float | None = None
) -> kernels.Design:
    """Wrap a matrix for the kernels, without a copy where its memory can be used as it is.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix/array of shape (n, d)
        Rows.
    intercept : float, default=0.0
        Value of an appended constant column; 0 for none.
    data_norm : float or None, default=None
        Clip every row, with its constant, to this Euclidean length: by a factor a
        row that the kernels apply, such that the length never exceeds `data_norm`
        in exact arithmetic.

    Returns
    -------
    Design
        What the kernels read; it keeps X alive.

    Raises
    ------
    InvalidParameterError
        X holds a NaN or an infinity, or (without `data_norm`) rows so long that
        products overflow.
    """
    parts = _native_csr(X) if sp.issparse(X) else _native_dense(X)
    shape = (int(X.shape[0]), int(X.shape[1]))
    design = kernels.Design(parts, shape, intercept)
    if data_norm is None:
        longest = design.longest()
        if not math.isfinite(longest):
            _refuse_nonfinite(parts)
            raise InvalidParameterError("X", "rows of length below 1e308", longest)
        return design
    status, _ = design.clip(data_norm)
    if status == "nonfinite":
        _refuse_nonfinite(parts)
    if status == "extreme":
        # Products with such rows overflow before their factors can act on them. They alone
        # are scaled, in a copy, so that no row's fate depends on another row; to a length that
        # leaves the constant as little as it had.
        design.clip(SAFE_LENGTH)
        assert design.row_scale is not None
        factor = np.where(design.row_scale < 0.0, -design.row_scale, 1.0)
        if isinstance(parts, tuple):
            data, indices, indptr = parts
            parts = (data * np.repeat(factor, np.diff(indptr)), indices, indptr)
        else:
            parts = parts * factor[:, None]
        design = kernels.Design(parts, shape, intercept)
        design.clip(data_norm)
    return design


def _refuse_nonfinite(parts: Any) -> None:
    values = parts[0] if isinstance(parts, tuple) else parts
    if np.isnan(values).any():
        raise InvalidParameterError("X", "finite; Input X contains NaN", float("nan"))
    if np.isinf(values).any():
        raise InvalidParameterError("X", "finite; Input X contains infinity", float("inf"))


def choose_method(width: int, n_outputs: int) -> str:
    """The solver for a problem of this shape: "newton" or "lbfgs".

    Parameters
    ----------
    width : int
        Coefficients per output.
    n_outputs : int
        1, or the number of classes of the softmax loss.

    Returns
    -------
    str
        "newton" or "lbfgs".
    """
    return "newton" if n_outputs == 1 and width <= NEWTON_MAX_WIDTH else "lbfgs"


def minimize(
    problem: Problem, *, tolerance: float = math.inf, method: str | None = None
) -> Minimum:
    """Minimise a problem and recompute the gradient at the point found.

    The linear term and the prior mean never reach the kernel. With
    w0 = prior_mean - linear / ridge the problem is, in v = w - w0, plain ridge
    regression with the raw predictions of w0 as offsets.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    tolerance : float, default=inf
        Gradient norm (sum form) to reach, where that is less than 1e-10 ridge.
    method : {"newton", "lbfgs"} or None, default=None
        None: :func:`choose_method`.

    Returns
    -------
    Minimum
        Never warns and never judges: compare `gradient_norm` with what is needed.
    """
    design: Any = problem.design
    n, outputs, width = design.shape[0], problem.n_outputs, design.width
    shift = np.zeros(outputs * width)
    if problem.prior_mean is not None:
        shift += problem.prior_mean
    if problem.linear is not None:
        shift -= problem.linear / problem.ridge
    offset = None if problem.offset is None else np.array(problem.offset).reshape(n, outputs)
    if shift.any():
        moved = np.column_stack(
            [design.dots(shift[c * width : (c + 1) * width]) for c in range(outputs)]
        )
        offset = moved if offset is None else offset + moved
    shared: dict[str, Any] = {
        "sample_weight": problem.sample_weight,
        "loss": problem.loss,
        "n_outputs": outputs,
    }
    objective = kernels.Objective(
        design,
        problem.y,
        ridge=problem.ridge,
        offset=None if offset is None else np.ascontiguousarray(offset).ravel(),
        **shared,
    )
    step, status, _, passes = objective.minimize(
        method or choose_method(width, outputs),
        tolerance=min(tolerance, problem.ridge * COEF_TOLERANCE),
        max_passes=MAX_PASSES,
    )
    coef = shift + step
    data_term = kernels.Objective(
        design,
        problem.y,
        ridge=0.0,
        offset=None if problem.offset is None else np.ravel(problem.offset),
        **shared,
    )
    _, gradient = data_term.evaluate(coef)
    prior = 0.0 if problem.prior_mean is None else problem.prior_mean
    gradient += problem.ridge * (coef - prior)
    if problem.linear is not None:
        gradient += problem.linear
    return Minimum(coef, float(np.linalg.norm(gradient)), status, passes + 1)


def _vector(value: ArrayLike | None, name: str, length: int) -> NDArray[np.float64] | None:
    if value is None:
        return None
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(name, "numeric", value) from None
    if array.shape != (length,):
        raise InvalidParameterError(name, f"of shape ({length},)", array.shape)
    if not np.isfinite(array).all():
        raise InvalidParameterError(name, "finite", "NaN or infinity")
    return array


def solve(
    X: Any,
    y: ArrayLike,
    *,
    l2_reg_strength: float,
    offset: ArrayLike | None = None,
    prior_mean: ArrayLike | None = None,
    linear: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> SolveResult:
    """Minimise ridge-regularised logistic regression, without privacy.

    The objective is, in mean form, ::

        1/n sum_i weight_i log(1 + exp(-y_i (x_i . w + offset_i)))
            + l2_reg_strength/2 ||w - prior_mean||^2 + linear . w / n

    Parameters
    ----------
    X : array or scipy.sparse matrix of shape (n, d)
        float64 and float32, C- or F-ordered or strided, and CSR are used without a copy.
    y : array of shape (n,)
        Labels -1 and +1.
    l2_reg_strength : float
        lambda > 0 of the mean objective.
    offset : array of shape (n,) or None, default=None
        Added to the raw predictions.
    prior_mean : array of shape (d,) or None, default=None
        Where the penalty is centred; None is the origin.
    linear : array of shape (d,) or None, default=None
        The vector b of the linear term; note the division by n.
    sample_weight : array of shape (n,) or None, default=None
        Not negative.

    Returns
    -------
    SolveResult
        With `coef` and `certificate`.

    Raises
    ------
    InvalidParameterError
        A parameter is outside its range, or an array holds a NaN or an infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from privlr import solve
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> result = solve(X, [1, 1, -1], l2_reg_strength=0.1)
    >>> result.certificate < 1e-9
    True
    """
    ridge = check_positive("l2_reg_strength", l2_reg_strength)
    if not sp.issparse(X):
        X = np.asarray(X)
    if X.dtype.kind not in "fiub":
        raise InvalidParameterError("X", "of real numbers", X.dtype)
    if X.ndim != 2 or min(X.shape) == 0:
        raise InvalidParameterError("X", "a matrix with at least one row and one column", X.shape)
    n, d = X.shape
    labels = _vector(y, "y", n)
    assert labels is not None
    if not (np.abs(labels) == 1.0).all():
        raise InvalidParameterError("y", "-1 or +1", np.unique(labels)[:5])
    weights = _vector(sample_weight, "sample_weight", n)
    if weights is not None and (weights < 0).any():
        raise InvalidParameterError("sample_weight", "not negative", weights.min())
    offsets = _vector(offset, "offset", n)
    center = _vector(prior_mean, "prior_mean", d)
    slope = _vector(linear, "linear", d)

    design = make_design(X)
    problem = Problem(
        design,
        labels,
        n * ridge,
        sample_weight=weights,
        offset=offsets,
        linear=slope,
        prior_mean=center,
    )
    found = minimize(problem)
    accuracy = Accuracy(
        n,
        d,
        1,
        design.longest(),
        1.0 if weights is None else float(weights.max()),
        0.0 if offsets is None else float(np.abs(offsets).max()),
    )
    error = accuracy.gradient_error(
        float(np.linalg.norm(found.coef))
        + (0.0 if center is None else float(np.linalg.norm(center))),
        0.0 if slope is None else float(np.linalg.norm(slope)),
        problem.ridge,
    )
    certificate = Certificate(found.gradient_norm / n, error / n)
    return SolveResult(found.coef, certificate, found.status, found.passes)
