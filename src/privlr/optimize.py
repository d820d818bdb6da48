"""From a frozen problem to its minimiser, with a certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from privlr._numeric import numeric
from privlr._solvers import loss, prox, sharing
from privlr._solvers import solve as kernels
from privlr._validation import check_n_jobs, check_positive
from privlr.design import longest_row, thread_map, wrap
from privlr.exceptions import InvalidParameterError
from privlr.objective import Accuracy, Problem

__all__ = [
    "Certificate",
    "Columns",
    "Labels",
    "SolveResult",
    "exchange",
    "logistic_prox",
    "loss_gradient",
    "minimize",
    "minimize_many",
    "simd_level",
    "solve",
    "solve_many",
]

# Loss, slope and curvature over arrays, and the z-minimisation of ADMM.
loss_gradient = loss.loss_gradient
logistic_prox = prox.logistic_prox
# What a party and the label holder do in a round of ADMM sharing, and a round of all at once.
Columns = sharing.Columns
Labels = sharing.Labels
exchange = sharing.exchange
# () -> str, the instruction set that the kernels use on this machine.
simd_level = loss.simd_level

#: Gradient norm over ridge at which a solve stops: the coefficients are then
#: within this distance of the minimiser.
COEF_TOLERANCE = 1e-10
MAX_PASSES = 10_000
#: Passes after which a solve that shares another's start and factor goes its own way.
SHARED_PASSES = 40
#: Mean gradient norm at which the common start of many problems is good enough.
COARSE = 1e-6


class Certificate(float):
    """Certified bound on the gradient norm of the mean objective at the returned point.

    The float itself is ``gradient_norm + rounding_bound``: by strong convexity the
    exact minimiser lies within that number over `l2_reg_strength` of `coef`.

    Attributes
    ----------
    gradient_norm : float
        From a pass over all rows at exactly that point, in float64.
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
    passes: float


@dataclass(frozen=True)
class SolveResult:
    """Result of :func:`solve`.

    Attributes
    ----------
    coef : ndarray of shape (d,)
    certificate : Certificate
    status : {"converged", "stalled", "max_passes"}
        "stalled": rounding allows no smaller gradient, which the certificate shows.
    passes : float
        Looks at all rows; a look at a sample counts for its share.
    """

    coef: NDArray[np.float64]
    certificate: Certificate
    status: str
    passes: float


def minimize(
    problem: Problem,
    *,
    tolerance: float | None = None,
    use_samples: bool = True,
    use_metric: bool = True,
) -> Minimum:
    """Minimise a problem.

    L-BFGS on samples of the rows that grow, at last on all of them, around a Hessian
    estimated from a sample where that saves more than it costs (``worthwhile_metric`` in
    lbfgs.c), or that of all rows where columns are few (``newton_pays``). Rows whose entries are
    few for so many columns are solved in their span first (``privlr_span_is_apt`` in span.c).
    The Hessian's diagonal stands in for it over sparse rows (``diagonal_pays``).
    Dense columns for which a Hessian costs much and that need many passes are copied in single
    precision for most of those (``copy_pays`` in lbfgs.c).

    Parameters
    ----------
    problem : Problem
        What to minimise.
    tolerance : float or None, default=None
        Gradient norm (sum form) to reach; None is 1e-10 ridge.
    use_samples, use_metric : bool, default=True
        False leaves out that part of the method; without samples, the span too.

    Returns
    -------
    Minimum
        Never warns and never judges: compare `gradient_norm`, which a pass over all rows
        found at exactly `coef`, with what is needed.
    """
    objective = _objective(problem, problem.linear, problem.offset)
    return Minimum(
        *objective.minimize(
            tolerance=problem.ridge * COEF_TOLERANCE if tolerance is None else tolerance,
            max_passes=MAX_PASSES,
            use_samples=use_samples,
            use_metric=use_metric,
        )
    )


def _objective(
    problem: Problem, linear: NDArray[np.float64] | None, offset: NDArray[np.float64] | None
) -> kernels.Objective:
    design: Any = problem.design
    return kernels.Objective(
        design,
        problem.y,
        ridge=problem.ridge,
        loss=problem.loss,
        n_outputs=problem.n_outputs,
        sample_weight=problem.sample_weight,
        offset=None if offset is None else np.ravel(offset),
        prior_mean=problem.prior_mean,
        linear=linear,
    )


def minimize_many(
    problem: Problem,
    *,
    linear: NDArray[np.float64] | None = None,
    offset: NDArray[np.float64] | None = None,
    tolerance: float | None = None,
    n_jobs: int | None = None,
) -> list[Minimum]:
    """Minimise problems that differ in their linear terms or offsets alone.

    The problem without either is solved once; every other solve shares the factor of the
    Hessian at its minimiser, and starts there, or where Newton's step for its linear term
    leads.

    Parameters
    ----------
    problem : Problem
        What is common; one output. Its own linear term and offset are not used.
    linear : ndarray of shape (n_problems, width) or None, default=None
        Linear terms, unless there are offsets.
    offset : ndarray of shape (n_problems, n) or None, default=None
        Offsets, unless there are linear terms.
    tolerance : float or None, default=None
        As in :func:`minimize`.
    n_jobs : int or None, default=None
        Threads, each of which takes some of the problems.

    Returns
    -------
    list of Minimum
        One a problem.
    """
    if tolerance is None:
        tolerance = problem.ridge * COEF_TOLERANCE
    given = linear if linear is not None else offset
    assert given is not None
    metric = kernels.Metric()
    start = _objective(problem, None, None).prepare(
        metric, tolerance=max(tolerance, COARSE * problem.y.size), max_passes=MAX_PASSES
    )

    def _one(k: int) -> Minimum:
        objective = _objective(
            problem,
            None if linear is None else linear[k],
            None if offset is None else offset[k],
        )
        found = Minimum(
            *objective.minimize(
                tolerance=tolerance,
                max_passes=SHARED_PASSES,
                start=start if linear is None else metric.step(start, linear[k]),
                use_samples=False,
                use_metric=False,
                metric=metric,
            )
        )
        if found.status == "max_passes":  # too far from the common start
            found = Minimum(*objective.minimize(tolerance=tolerance, max_passes=MAX_PASSES))
        return found

    return thread_map(_one, range(len(given)), n_jobs)


def _array(value: ArrayLike, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError(name, "numeric", value) from None
    if array.shape != shape:
        raise InvalidParameterError(name, f"of shape {shape}", array.shape)
    return array


def _vector(
    value: ArrayLike | None, name: str, shape: tuple[int, ...]
) -> NDArray[np.float64] | None:
    if value is None:
        return None
    array = _array(value, name, shape)
    if np.count_nonzero(np.isfinite(array)) < array.size:  # all() takes four times as long
        raise InvalidParameterError(name, "finite", "NaN or infinity")
    return array


def _problem(
    X: Any,
    y: ArrayLike,
    l2_reg_strength: float,
    sample_weight: ArrayLike | None,
    prior_mean: ArrayLike | None,
    *,
    offset: ArrayLike | None = None,
    linear: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Problem:
    """What solve is given, checked; solve_many has its own linear terms and offsets."""
    ridge = check_positive("l2_reg_strength", l2_reg_strength)
    X = numeric(X)
    if not sp.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2 or min(X.shape) == 0:
        raise InvalidParameterError("X", "a matrix with at least one row and one column", X.shape)
    n, d = X.shape
    labels = _array(y, "y", (n,))
    if not kernels.are_signs(labels):
        _vector(labels, "y", (n,))  # a NaN has a complaint of its own
        raise InvalidParameterError("y", "-1 or +1", np.unique(labels)[:5])
    weights = _vector(sample_weight, "sample_weight", (n,))
    if weights is not None and (weights < 0).any():
        raise InvalidParameterError("sample_weight", "not negative", weights.min())
    center = _vector(prior_mean, "prior_mean", (d,))
    design = wrap(X, n_jobs=n_jobs)
    if not design.is_tall:
        longest_row(design)
    return Problem(
        design,
        labels,
        n * ridge,
        sample_weight=weights,
        prior_mean=center,
        offset=_vector(offset, "offset", (n,)),
        linear=_vector(linear, "linear", (d,)),
    )


def _certified(
    problem: Problem,
    found: list[Minimum],
    linear: NDArray[np.float64] | None,
    offset: NDArray[np.float64] | None,
) -> list[SolveResult]:
    """One result a minimum; linear terms and offsets are those of all, or one for all."""
    design: Any = problem.design
    n, d = design.shape
    weights, center = problem.sample_weight, problem.prior_mean
    accuracy = Accuracy(
        n,
        d,
        1,
        longest_row(design),
        1.0 if weights is None else float(weights.max()),
        0.0 if offset is None else float(np.abs(offset).max()),
    )
    center_norm = _length(center)
    linear_norm = 0.0 if linear is None else float(np.linalg.norm(linear, axis=-1).max())
    results = []
    for minimum in found:
        error = accuracy.gradient_error(
            _length(minimum.coef) + center_norm, linear_norm, problem.ridge
        )
        certificate = Certificate(minimum.gradient_norm / n, error / n)
        results.append(SolveResult(minimum.coef, certificate, minimum.status, minimum.passes))
    return results


def _length(vector: NDArray[np.float64] | None) -> float:
    return 0.0 if vector is None else math.sqrt(vector @ vector)


def _tolerance(tol: float | None, problem: Problem) -> float:
    if tol is None:
        return problem.ridge * COEF_TOLERANCE
    return check_positive("tol", tol) * problem.y.size


def solve(
    X: Any,
    y: ArrayLike,
    *,
    l2_reg_strength: float,
    offset: ArrayLike | None = None,
    prior_mean: ArrayLike | None = None,
    linear: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
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
    tol : float or None, default=None
        Gradient norm of the mean objective at which to stop. None goes on until the
        coefficients are within 1e-10 of the minimiser, or rounding stops it.
    n_jobs : int or None, default=None
        Threads; None is one, -1 all processors. The result does not depend on it.

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
    problem = _problem(
        X,
        y,
        l2_reg_strength,
        sample_weight,
        prior_mean,
        offset=offset,
        linear=linear,
        n_jobs=check_n_jobs(n_jobs),
    )
    found = minimize(problem, tolerance=_tolerance(tol, problem))
    return _certified(problem, [found], problem.linear, problem.offset)[0]


def solve_many(
    X: Any,
    y: ArrayLike,
    *,
    l2_reg_strength: float,
    linear: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    prior_mean: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    tol: float | None = None,
    n_jobs: int | None = None,
) -> list[SolveResult]:
    """Solve problems that share the rows and differ in linear terms or offsets.

    Parameters
    ----------
    X : array or scipy.sparse matrix of shape (n, d)
        As in :func:`solve`.
    y : array of shape (n,)
        Labels -1 and +1.
    l2_reg_strength : float
        lambda > 0 of the mean objective.
    linear : array of shape (n_problems, d) or None, default=None
        One linear term a problem.
    offset : array of shape (n_problems, n) or None, default=None
        One vector of offsets a problem.
    prior_mean : array of shape (d,) or None, default=None
        Where the penalty of all problems is centred.
    sample_weight : array of shape (n,) or None, default=None
        Not negative.
    tol : float or None, default=None
        As in :func:`solve`.
    n_jobs : int or None, default=None
        Threads, each of which takes some of the problems; -1 is all processors.

    Returns
    -------
    list of SolveResult
        The same up to rounding as one :func:`solve` each, several times sooner: the
        packed rows, a start and the factor of a Hessian are shared.

    Raises
    ------
    InvalidParameterError
        A parameter is outside its range, or an array holds a NaN or an infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from privlr.optimize import solve_many
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])
    >>> results = solve_many(X, [1, 1, -1], l2_reg_strength=0.1, linear=[[0.1, 0], [0, 0.1]])
    >>> [result.status for result in results]
    ['converged', 'converged']
    """
    problem = _problem(X, y, l2_reg_strength, sample_weight, prior_mean)
    n, d = np.shape(X)
    counts = [len(np.atleast_1d(a)) for a in (linear, offset) if a is not None]
    if not counts:
        raise InvalidParameterError("linear", "given unless `offset` is", None)
    slopes = _vector(linear, "linear", (counts[0], d))
    offsets = _vector(offset, "offset", (counts[0], n))
    found = minimize_many(
        problem,
        linear=slopes,
        offset=offsets,
        tolerance=_tolerance(tol, problem),
        n_jobs=check_n_jobs(n_jobs),
    )
    return _certified(problem, found, slopes, offsets)
