"""The exact privacy loss of objective perturbation, and what follows from it.

Given the data, the released coefficients determine the noise: w -> b_D(w) is a bijection with
Jacobian A_D(w). The density of the release is therefore known in closed form, and with it the
privacy loss of any output between any two data sets, without sampling.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular, svdvals
from scipy.special import expit, softmax
from scipy.stats import beta as beta_law
from scipy.stats import binomtest, gamma, kstest

from privlr._validation import check_choice, check_positive
from privlr.exceptions import InvalidParameterError
from privlr.privacy import PrivacyRecord, perturbation_epsilon
from privlr.privacy.calibration import LOSSES, worst_slope

__all__ = [
    "Check",
    "NeighboringPair",
    "PivotTest",
    "check_record",
    "extremal_pair",
    "noise_of",
    "pivot_test",
    "privacy_loss",
]

Array = npt.NDArray[np.float64]


class _Rows(NamedTuple):
    """Rows that enter the objective: features, labels, weights."""

    X: Array
    y: Array
    weight: Array

    def take(self, index: npt.NDArray[Any]) -> _Rows:
        return _Rows(self.X[index], self.y[index], self.weight[index])


def _as_rows(X: Any, y: Any, sample_weight: Any, coef: Array) -> _Rows:
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    weight = np.ones(y.shape) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if X.ndim != 2 or X.shape[1] != coef.shape[-1] or not np.isfinite(X).all():
        raise InvalidParameterError("X", f"finite, of shape (n, {coef.shape[-1]})", X.shape)
    for name, array in (("y", y), ("sample_weight", weight)):
        if array.shape != (len(X),):
            raise InvalidParameterError(name, f"of shape ({len(X)},)", array.shape)
    labels = np.arange(len(coef)) if coef.ndim == 2 else np.array([-1, 1])
    if not np.isin(y, labels).all():
        raise InvalidParameterError("y", f"among {labels.tolist()}", np.unique(y).tolist())
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidParameterError("sample_weight", "finite and nonnegative", weight.tolist())
    return _Rows(X, y, weight)


def _as_coef(coef: Any, prior_mean: Any, loss: str) -> tuple[Array, Array]:
    """Return the coefficients and their distance from the centre of the ridge."""
    check_choice("loss", loss, LOSSES)
    coef = np.asarray(coef, dtype=np.float64)
    if coef.ndim not in (1, 2) or not np.isfinite(coef).all():
        raise InvalidParameterError("coef", "finite, of shape (d,) or (C, d)", coef.shape)
    if coef.ndim == 2 and loss != "logistic":
        raise InvalidParameterError("loss", "'logistic' for coefficients of shape (C, d)", loss)
    if prior_mean is None:
        return coef, coef
    prior = np.asarray(prior_mean, dtype=np.float64)
    if prior.shape != coef.shape or not np.isfinite(prior).all():
        raise InvalidParameterError("prior_mean", f"finite, of shape {coef.shape}", prior.shape)
    return coef, coef - prior


def _slope_and_root_curvature(coef: Array, rows: _Rows, loss: str) -> tuple[Array, Array]:
    """Return, per row, minus the gradient in the raw prediction and a root of the Hessian.

    Shapes (n, C) and (n, C, C), C = 1 for two classes; the Hessian is the root times its
    transpose. Weights are not applied. No entry is a difference of nearly equal numbers.
    """
    if coef.ndim == 1:
        margin = rows.y * (rows.X @ coef)
        slope = expit(-margin)
        root = np.sqrt(slope * expit(margin))
        if loss == "capped":
            slope = np.minimum(slope, 0.5)
            root = np.where(margin < 0, 0.0, root)
        return (rows.y * slope)[:, None], root[:, None, None]
    p = softmax(rows.X @ coef.T, axis=1)
    n, C = p.shape
    others = p @ (1 - np.eye(C))  # 1 - p without the subtraction
    label = rows.y.astype(int)
    slope = -p
    slope[np.arange(n), label] = others[np.arange(n), label]
    # (diag(sqrt p) - p sqrt(p)') times its transpose is diag(p) - p p'.
    root = -p[:, :, None] * np.sqrt(p)[:, None, :]
    root[:, np.arange(C), np.arange(C)] = np.sqrt(p) * others
    return slope, root


def _gradient_sum(coef: Array, rows: _Rows, loss: str) -> Array:
    """Return minus the gradient of the weighted loss, shape of `coef`."""
    slope = _slope_and_root_curvature(coef, rows, loss)[0] * rows.weight[:, None]
    gradient: Array = slope.T @ rows.X
    return gradient.reshape(coef.shape)


def _root_hessian(coef: Array, rows: _Rows, loss: str) -> Array:
    """Return M with M'M the Hessian of the weighted loss, shape (n C, coef.size)."""
    root = _slope_and_root_curvature(coef, rows, loss)[1] * np.sqrt(rows.weight)[:, None, None]
    blocks: Array = np.einsum("icr,ij->ircj", root, rows.X)
    return blocks.reshape(-1, coef.size)


def _split(rows: _Rows, other: _Rows) -> tuple[_Rows, _Rows, _Rows]:
    """Return what two multisets of rows share, and what each has beyond that."""
    table = np.column_stack([np.vstack([rows.X, other.X]), np.r_[rows.y, other.y]])
    table = np.column_stack([table, np.r_[rows.weight, other.weight]])
    kinds, kind = np.unique(table, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    n = len(rows.y)
    count = np.bincount(kind[:n], minlength=len(kinds))
    count_other = np.bincount(kind[n:], minlength=len(kinds))
    shared = np.minimum(count, count_other)
    every = _Rows(kinds[:, :-2], kinds[:, -2], kinds[:, -1])
    common, extra, extra_other = (
        every.take(np.repeat(np.arange(len(kinds)), times))
        for times in (shared, count - shared, count_other - shared)
    )
    return common, extra, extra_other


def noise_of(
    coef: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    kappa: float,
    loss: str = "logistic",
    prior_mean: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> Array:
    """Return the one noise vector b under which `coef` is the minimiser.

    Parameters
    ----------
    coef : array of shape (d,) or (C, d)
        Coefficients; (C, d) is the joint softmax.
    X : array of shape (n, d)
        Rows as they enter the objective, already clipped, intercept column included.
    y : array of shape (n,)
        Labels: -1 and 1, or class numbers 0 to C - 1 for coefficients of shape (C, d).
    kappa : float
        Ridge in sum form.
    loss : {"logistic", "capped"}, default="logistic"
        The loss function.
    prior_mean : array like `coef`, optional
        Centre of the ridge.
    sample_weight : array of shape (n,), optional
        Weights.

    Returns
    -------
    array like `coef`
        b_D(w) = sum_i w_i y_i s_i x_i - kappa (w - u), s_i the loss's slope.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range or of the wrong shape.
    """
    w, offset = _as_coef(coef, prior_mean, loss)
    rows = _as_rows(X, y, sample_weight, w)
    return _gradient_sum(w, rows, loss) - check_positive("kappa", kappa) * offset


def privacy_loss(
    coef: npt.ArrayLike,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    X_prime: npt.ArrayLike,
    y_prime: npt.ArrayLike,
    *,
    beta: float,
    kappa: float,
    loss: str = "logistic",
    prior_mean: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    sample_weight_prime: npt.ArrayLike | None = None,
) -> float:
    """Return log of the density of `coef` given (X, y) over that given (X_prime, y_prime).

    Parameters
    ----------
    coef : array of shape (d,) or (C, d)
        The output, any at all.
    X, y : arrays of shape (n, d) and (n,)
        One data set, in any order; see `noise_of` for labels.
    X_prime, y_prime : arrays of shape (n', d) and (n',)
        The other one. n' may differ from n, and either may be empty.
    beta : float
        Rate of the noise.
    kappa : float
        Ridge in sum form.
    loss : {"logistic", "capped"}, default="logistic"
        The loss function. The curvature of the capped one jumps at margin 0; the value from
        above is used there.
    prior_mean : array like `coef`, optional
        Centre of the ridge.
    sample_weight, sample_weight_prime : arrays of shapes (n,) and (n',), optional
        Weights.

    Returns
    -------
    float
        beta (||b'|| - ||b||) + log det A - log det A', in nats.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range or of the wrong shape.

    Notes
    -----
    What the two data sets share cancels, and is made to cancel before it is rounded: b' - b
    comes from the differing rows alone, and so do both determinants, relative to that of the
    shared rows, which is factored as a QR decomposition of their square root.

    **Guarantee.** Objective perturbation is epsilon-differentially private exactly if this is
    at most epsilon for every output (but a null set) and every pair of neighbours.

    **Neighbouring relation.** None: the two data sets may be any.

    **Assumptions.** The release is the exact minimiser, the noise has density proportional to
    exp(-beta ||b||).

    **Source.** Change of variables, as in Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011),
    proof of Theorem 9.

    **Not covered.** The loss of a lattice release, which adds its own epsilon.
    """
    w, offset = _as_coef(coef, prior_mean, loss)
    beta, kappa = check_positive("beta", beta), check_positive("kappa", kappa)
    rows = _as_rows(X, y, sample_weight, w)
    rows_prime = _as_rows(X_prime, y_prime, sample_weight_prime, w)
    common, extra, extra_prime = _split(rows, rows_prime)

    shared = _gradient_sum(w, common, loss) - kappa * offset
    gradient, gradient_prime = (_gradient_sum(w, part, loss) for part in (extra, extra_prime))
    b, b_prime = (shared + part for part in (gradient, gradient_prime))
    norms = float(np.linalg.norm(b) + np.linalg.norm(b_prime))
    change = float(np.sum((gradient_prime - gradient) * (b + b_prime))) / norms if norms else 0.0

    ridge = math.sqrt(kappa) * np.eye(w.size)
    factor = np.asarray(np.linalg.qr(np.vstack([ridge, _root_hessian(w, common, loss)]), mode="r"))
    logdet, logdet_prime = (
        _relative_logdet(factor, _root_hessian(w, part, loss)) for part in (extra, extra_prime)
    )
    return beta * change + logdet - logdet_prime


def _relative_logdet(factor: Array, root: Array) -> float:
    """Return log det(A + M'M) - log det A, where A = R'R."""
    if not len(root):
        return 0.0
    scaled = solve_triangular(factor, root.T, trans="T")
    return float(np.log1p(svdvals(scaled) ** 2).sum())


class NeighboringPair(NamedTuple):
    """An output and two neighbouring data sets; the names are those of `privacy_loss`.

    Attributes
    ----------
    coef : ndarray of shape (d,) or (C, d)
        The output.
    X, y, X_prime, y_prime : ndarray
        The two data sets.
    sample_weight, sample_weight_prime : ndarray
        Weights of their rows.
    """

    coef: Array
    X: Array
    y: Array
    X_prime: Array
    y_prime: Array
    sample_weight: Array
    sample_weight_prime: Array


def extremal_pair(
    *,
    beta: float,
    kappa: float,
    data_norm: float = 1.0,
    loss: str = "logistic",
    neighboring_relation: str = "replace_one",
    max_sample_weight: float = 1.0,
    n_classes: int = 2,
) -> NeighboringPair:
    """Return neighbours and an output whose privacy loss all but attains the exact cost.

    Many copies (written as one weight) of a row fix the direction of b. The row they are
    copies of is steepest and has no curvature; the one that it replaces, or that is removed,
    points the other way, with the slope that maximises its gradient and curvature together.

    Parameters
    ----------
    beta : float
        Rate of the noise.
    kappa : float
        Ridge in sum form.
    data_norm : float, default=1.0
        R, the bound on the norm of a row.
    loss : {"logistic", "capped"}, default="logistic"
        The loss function.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What the two data sets differ by.
    max_sample_weight : float, default=1.0
        W, the bound on a sample weight.
    n_classes : int, default=2
        More than two means the joint softmax.

    Returns
    -------
    NeighboringPair
        Pass it on as ``privacy_loss(**pair._asdict(), beta=beta, kappa=kappa, loss=loss)``.
    """
    R = data_norm
    if loss == "capped":
        margin = 1e-9  # just above the kink: the slope is still 1/2, the curvature 1/4
    elif n_classes > 2:
        margin = -20.0
    else:
        slope = worst_slope(beta * R * max_sample_weight, max_sample_weight * R**2 / kappa)
        slope = min(slope, 1 - 1e-9)
        margin = math.log((1 - slope) / slope)
    reach = 1e4  # a long coefficient vector gives any margin by a slight turn of the row
    odd = [margin / reach, -math.sqrt(1 - (margin / reach) ** 2)]
    repeated = [-6e-3, math.sqrt(1 - 3.6e-5)]
    heavy = 1e9 * max(max_sample_weight, kappa / R**2)
    label = 1.0
    coef = np.array([reach, 0.0]) / R
    if n_classes > 2:
        # Class 0 is the label, class 1 takes its place, and the rest are out of reach.
        coef = np.array([[0.0, 0.0], [-reach, 0.0], *[[10 * reach, 0.0]] * (n_classes - 2)]) / R
        label = 0.0
    with_odd = np.array([odd, repeated]) * R
    without = np.array([repeated, repeated]) * R
    weight = np.array([max_sample_weight, heavy])
    first = 0 if neighboring_relation == "replace_one" else 1
    y = np.full(2, label)
    return NeighboringPair(coef, with_odd, y, without[first:], y[first:], weight, weight[first:])


class PivotTest(NamedTuple):
    """p-values of `pivot_test`.

    Attributes
    ----------
    norm : float
        Of beta ||b||, which follows Gamma(d).
    direction : float
        Of b/||b||, which is uniform on the sphere.
    """

    norm: float
    direction: float

    @property
    def pvalue(self) -> float:
        """Both together, by Bonferroni's inequality."""
        return min(1.0, 2 * min(self.norm, self.direction))


def pivot_test(b: npt.ArrayLike, beta: float, *, n_projections: int = 8) -> PivotTest:
    """Test whether noise vectors have density proportional to exp(-beta ||b||).

    Parameters
    ----------
    b : array of shape (N, d) or (N, C, d)
        Noise vectors, such as those that `noise_of` recovers from N fits.
    beta : float
        Rate.
    n_projections : int, default=8
        Number of fixed random directions that the vectors are projected on.

    Returns
    -------
    PivotTest
        p-values; small ones speak against the density.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range or of the wrong shape.

    Notes
    -----
    beta ||b|| is compared with Gamma(d), and each projection p of b/||b||, as (1 + p)/2, with
    Beta((d - 1)/2, (d - 1)/2), by Kolmogorov-Smirnov tests; for d = 1 the signs are counted.
    """
    beta = check_positive("beta", beta)
    vectors = np.asarray(b, dtype=np.float64)
    if vectors.ndim not in (2, 3) or not len(vectors) or not np.isfinite(vectors).all():
        raise InvalidParameterError("b", "finite, of shape (N, d) or (N, C, d)", vectors.shape)
    vectors = vectors.reshape(len(vectors), -1)
    n, d = vectors.shape
    norms = np.linalg.norm(vectors, axis=1)
    norm_pvalue = float(kstest(beta * norms, gamma(d).cdf).pvalue)
    if d == 1:
        return PivotTest(norm_pvalue, float(binomtest(int((vectors > 0).sum()), n).pvalue))
    # The directions are fixed so that the test is a function of its input.
    axes = np.random.default_rng(0).standard_normal((d, n_projections))
    axes /= np.linalg.norm(axes, axis=0)
    law = beta_law((d - 1) / 2, (d - 1) / 2).cdf
    projections = (1 + (vectors / norms[:, None]) @ axes) / 2
    smallest = min(float(kstest(column, law).pvalue) for column in projections.T)
    return PivotTest(norm_pvalue, min(1.0, n_projections * smallest))


class Check(NamedTuple):
    """One question and its answer.

    Attributes
    ----------
    name : str
        The question.
    passed : bool
        Whether the answer is the right one.
    found : str
        What was found, in words or numbers.
    """

    name: str
    passed: bool
    found: str


def check_record(record: PrivacyRecord, *, n_coefficients: int) -> list[Check]:
    """Recompute from its public constants what a release cost, and compare it with its claim.

    Parameters
    ----------
    record : PrivacyRecord
        The record of a release.
    n_coefficients : int
        Number of released coefficients, intercepts included.

    Returns
    -------
    list of Check
        Any that did not pass speaks against the record.

    Raises
    ------
    InvalidParameterError
        It is the record of something else: a stack has one for each of its models, and a
        vertical fit's Gaussian noise has none.

    Notes
    -----
    This is arithmetic on what the record says. It shows a record that contradicts itself; it
    cannot show that the program that wrote it drew such noise (see `pivot_test`).
    """
    if not isinstance(record, PrivacyRecord):
        accepted = "the PrivacyRecord of one objective perturbation"
        raise InvalidParameterError("record", accepted, type(record).__name__)
    spent = perturbation_epsilon(
        beta=record.beta,
        kappa=record.kappa,
        data_norm=record.R,
        loss=record.loss,
        neighboring_relation=record.neighboring_relation,
        max_sample_weight=record.max_sample_weight,
        n_classes=record.n_classes,
    )
    checks = [
        Check("the record claims a guarantee", record.private, "; ".join(record.notes) or "yes"),
        Check(
            "noise from the system's generator",
            record.random_source == "system",
            record.random_source,
        ),
    ]
    lattice = 0.0
    if record.lattice is not None:
        distance = 2 * record.certificate / record.kappa
        steps = math.ceil(math.sqrt(n_coefficients) * distance / record.lattice.step)
        lattice = (steps + n_coefficients) / record.lattice.scale
        checks.append(
            Check(
                "the lattice noise covers the certificate",
                lattice <= record.lattice.epsilon,
                f"costs {lattice:.6g} of {record.lattice.epsilon:.6g}",
            )
        )
    checks.append(
        Check(
            "the exact cost is within epsilon",
            spent + lattice <= record.epsilon,
            f"{spent + lattice:.6g} of {record.epsilon:.6g}",
        )
    )
    return checks
