"""Objective perturbation with a certified release."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from privlr._random import RandomSource
from privlr._solvers import noise
from privlr._validation import check_integer, check_nonnegative, check_positive, unless_auto
from privlr.exceptions import ConvergenceError, InvalidParameterError
from privlr.objective import Accuracy, Problem, gamma
from privlr.optimize import minimize
from privlr.privacy import (
    Calibration,
    Charge,
    Lattice,
    PrivacyRecord,
    auto_l2_reg_strength,
    calibrate,
)

__all__ = [
    "Plan",
    "RandomSource",
    "Release",
    "add_gaussian_noise",
    "noisy_count",
    "objective_perturbation",
    "plan",
    "randomize_labels",
]

#: Share of epsilon that the lattice release takes.
LATTICE_SHARE = 1 / 128
#: Probability with which a noise vector may exceed the length that the public bounds allow
#: for; such a vector is refused, and the refusal depends on no data.
NOISE_TAIL = 2.0**-100
#: Relative error of the computed noise vector, as a share of its largest length.
NOISE_ERROR = 2.0**-47
#: Largest scale of the integer sampler.
MAX_SCALE = 2**50


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The public constants of a release, all fixed before the data are looked at.

    Attributes
    ----------
    calibration : Calibration
        Noise rate and ridge.
    accuracy : Accuracy
        Shape of the problem and the rounding errors that follow from it.
    radius : float
        Largest length of the noise, times its rate.
    coef_bound : float
        Largest length of the minimiser.
    certificate : float
        Gradient norm (sum form, rounding included) that the solve has to reach.
    lattice : Lattice
        Grid of the release, with the discrete noise on it.
    record : PrivacyRecord
        What the release will say about itself.
    """

    calibration: Calibration
    accuracy: Accuracy
    radius: float
    coef_bound: float
    certificate: float
    lattice: Lattice
    record: PrivacyRecord

    @property
    def dimension(self) -> int:
        """Number of coefficients."""
        return self.accuracy.width * self.accuracy.n_outputs

    @property
    def rounding_error(self) -> float:
        """Bound on what rounding adds to a gradient of this problem."""
        return self.certificate / 4


@dataclass(frozen=True, eq=False)
class Release:
    """What leaves the mechanism.

    Attributes
    ----------
    coef : ndarray of shape (n_outputs, width)
        Multiples of the lattice step.
    record : PrivacyRecord
        The guarantee and every public constant behind it.
    """

    coef: NDArray[np.float64]
    record: PrivacyRecord


def plan(
    epsilon: float,
    *,
    n_samples: int,
    width: int,
    data_norm: float = 1.0,
    l2_reg_strength: float | str = "auto",
    loss: str = "logistic",
    calibration: str = "tight",
    neighboring_relation: str = "replace_one",
    max_sample_weight: float = 1.0,
    n_classes: int = 2,
    prior_norm: float = 0.0,
    public: tuple[str, ...] = (),
) -> Plan:
    """Fix every public constant of a release: noise, ridge, certificate and lattice.

    Parameters
    ----------
    epsilon : float
        Budget of the whole release; 1/128 of it pays for the lattice.
    n_samples : int
        Rows; under "add_remove" a declared public number of which the data have at most
        twice as many.
    width : int
        Coefficients per class, the intercept included.
    data_norm : float, default=1.0
        R, the bound on the Euclidean norm of every row, intercept entry included.
    l2_reg_strength : float or "auto", default="auto"
        lambda of the mean objective; see :func:`privlr.privacy.auto_l2_reg_strength`.
    loss : {"logistic", "capped"}, default="logistic"
        See :func:`privlr.privacy.perturbation_epsilon`.
    calibration : {"tight", "cms2011"}, default="tight"
        See :func:`privlr.privacy.calibrate`.
    neighboring_relation : {"replace_one", "add_remove"}, default="replace_one"
        What two neighbouring data sets differ by.
    max_sample_weight : float, default=1.0
        W, the bound on every sample weight.
    n_classes : int, default=2
        More than two means the joint softmax.
    prior_norm : float, default=0.0
        Length of the public vector that the penalty is centred at.
    public : tuple of str, default=()
        What the caller declares public, for the record.

    Returns
    -------
    Plan
        Everything that `objective_perturbation` needs beside the data.

    Raises
    ------
    InvalidParameterError
        A parameter is outside its range, or no certified release exists for such values.

    Notes
    -----
    **Guarantee.** `objective_perturbation` under the plan is `epsilon`-differentially private,
    127/128 of it for the perturbed minimiser and 1/128 for the lattice release.

    **Neighbouring relation.** `neighboring_relation`, of rows with their labels and weights.

    **Assumptions.** Rows of norm at most `data_norm` and weights in [0, `max_sample_weight`]
    (both enforced by the mechanism), and arguments chosen without looking at the data.

    **Source.** Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011), Algorithm 2; for the lattice,
    approximate minima perturbation in pure-epsilon form.

    **Not covered.** Making the plan reads no data and costs nothing; several releases under it
    add up.
    """
    n_samples = check_integer("n_samples", n_samples)
    width = check_integer("width", width)
    ridge = unless_auto("l2_reg_strength", l2_reg_strength, check_nonnegative)
    if ridge is None:
        ridge = auto_l2_reg_strength(
            epsilon,
            n_samples=n_samples,
            n_coefficients=width,
            data_norm=data_norm,
            max_sample_weight=max_sample_weight,
        )
    calibrated = partial(
        calibrate,
        n_samples=n_samples,
        data_norm=data_norm,
        l2_reg_strength=ridge,
        loss=loss,
        calibration=calibration,
        neighboring_relation=neighboring_relation,
        max_sample_weight=max_sample_weight,
        n_classes=n_classes,
    )
    whole = calibrated(epsilon).epsilon
    lattice_epsilon = whole * LATTICE_SHARE
    # Rounded down, so that the two parts never exceed the whole.
    chosen = calibrated(math.nextafter(whole - lattice_epsilon, 0.0))
    accuracy = Accuracy(
        n_samples if neighboring_relation == "replace_one" else 2 * n_samples,
        width,
        1 if n_classes == 2 else n_classes,
        float(data_norm),
        float(max_sample_weight),
    )
    return certify(
        chosen,
        accuracy,
        lattice_epsilon=lattice_epsilon,
        prior_norm=prior_norm,
        record={
            "epsilon": whole,
            "neighboring_relation": neighboring_relation,
            "loss": loss,
            "calibration": calibration,
            "beta": chosen.beta,
            "kappa": chosen.kappa,
            "R": accuracy.data_norm,
            "n_samples": n_samples,
            "max_sample_weight": accuracy.max_sample_weight,
            "n_classes": n_classes,
            "public": public,
            "charges": (
                Charge("objective perturbation", Fraction(whole) - Fraction(lattice_epsilon)),
                Charge("lattice release", Fraction(lattice_epsilon)),
            ),
        },
    )


def certify(
    calibration: Calibration,
    accuracy: Accuracy,
    *,
    lattice_epsilon: float,
    prior_norm: float,
    record: dict[str, Any],
) -> Plan:
    """Add to a calibration the accuracy that its solve must reach, and the lattice that hides it.

    Parameters
    ----------
    calibration : Calibration
        Noise rate and ridge of the mechanism.
    accuracy : Accuracy
        Shape of the problem.
    lattice_epsilon : float
        What the lattice release may cost.
    prior_norm : float
        Length of the vector that the penalty is centred at.
    record : dict
        Fields of the PrivacyRecord other than `certificate` and `lattice`.

    Returns
    -------
    Plan
        With certificate and lattice.

    Raises
    ------
    InvalidParameterError
        The numbers leave the range of the integer sampler.

    Notes
    -----
    A solver stops near the minimiser, and how near depends on the data. With the certificate
    G on the gradient, strong convexity puts the computed point within G/kappa of the exact
    minimiser, so two data sets that share that minimiser give points at most 2G/kappa apart;
    rounded to the lattice they differ by at most D1 steps in the sum norm.

    **Guarantee.** Discrete Laplace noise of scale ceil(D1/lattice_epsilon) steps makes the
    rounded point lattice_epsilon-differentially private given the exact minimiser, which is
    itself private by the calibration; the pair costs the sum, and dropping the minimiser is
    post-processing.

    **Neighbouring relation.** That of the calibration.

    **Assumptions.** The kernels round as IEEE 754 asks, within the bounds of `Accuracy`.

    **Source.** Approximate minima perturbation (Iyengar et al., IEEE S&P 2019) in pure
    epsilon form; discrete noise after Canonne, Kamath and Steinke, NeurIPS 2020.

    **Not covered.** Time and memory that a solve takes, and whether it fails.
    """
    dimension = accuracy.width * accuracy.n_outputs
    radius = 1.001 * float(gammainccinv(dimension, NOISE_TAIL))
    noise_norm = radius / calibration.beta
    # One part in a thousand more than the exact minimiser, for the computed one.
    coef_bound = 1.001 * accuracy.coef_bound(noise_norm, calibration.kappa, prior_norm)
    rounding = accuracy.gradient_error(coef_bound + prior_norm, noise_norm, calibration.kappa)
    certificate = 4 * (rounding + NOISE_ERROR * noise_norm)
    distance = 2 * certificate / calibration.kappa
    if not (math.isfinite(certificate) and math.isfinite(distance) and distance > 1e-300):
        raise InvalidParameterError(
            "epsilon", "within the range of a certified release", record["epsilon"]
        )
    step = 2.0 ** math.floor(math.log2(distance / (16 * math.sqrt(dimension))))
    steps = math.ceil(math.sqrt(dimension) * distance / step) + dimension
    scale = math.ceil(steps / lattice_epsilon)
    if scale > MAX_SCALE:
        raise InvalidParameterError(
            "epsilon", f"at least {128 * steps / MAX_SCALE:.2g} at this size", record["epsilon"]
        )
    if coef_bound / step > 2.0**61:
        raise InvalidParameterError(
            "data_norm", "within the range of a lattice", accuracy.data_norm
        )
    lattice = Lattice(step=step, scale=scale, epsilon=lattice_epsilon)
    return Plan(
        calibration=calibration,
        accuracy=accuracy,
        radius=radius,
        coef_bound=coef_bound,
        certificate=certificate,
        lattice=lattice,
        record=PrivacyRecord(certificate=certificate, lattice=lattice, **record),
    )


def objective_perturbation(
    design: Any,
    y: NDArray[np.float64],
    plan: Plan,
    *,
    sample_weight: NDArray[np.float64] | None = None,
    prior_mean: NDArray[np.float64] | None = None,
    random: RandomSource | None = None,
) -> Release:
    """Release the minimiser of a randomly tilted ridge logistic regression.

    The minimiser of ``sum_i phi(y_i a_i . w) + kappa/2 ||w - prior_mean||^2 + b . w`` is
    computed, certified, rounded to a public lattice and moved on it by discrete noise.

    Parameters
    ----------
    design : Design
        Rows clipped to the plan's `data_norm`, from :func:`privlr.design.make_design`.
    y : ndarray of shape (n,), float64
        -1 and +1, or class indices where there are more than two classes.
    plan : Plan
        The public constants.
    sample_weight : ndarray of shape (n,) or None, default=None
        Between 0 and the plan's bound.
    prior_mean : ndarray of shape (n_outputs * width,) or None, default=None
        Public or already released; no longer than the plan's `prior_norm`.
    random : RandomSource or None, default=None
        None for the operating system's generator.

    Returns
    -------
    Release
        Coefficients of shape (n_outputs, width), float64, and their record.

    Raises
    ------
    ConvergenceError
        The certificate was not met. Nothing is released, and the budget counts as spent.
    EntropyError
        The operating system's generator failed.

    Notes
    -----
    **Guarantee.** epsilon-differential privacy with delta = 0, for the program in floating
    point and not only for the formula.

    **Neighbouring relation.** The record's: one row replaced, or one row added or removed.

    **Assumptions.** Rows are clipped row by row at a constant; classes, weights' bound,
    `prior_mean` and every constant of the plan are independent of the private data.

    **Source.** Chaudhuri, Monteleoni and Sarwate, JMLR 12 (2011), with an exact calibration
    (:func:`privlr.privacy.calibrate`) and a certified release (:func:`certify`).

    **Not covered.** Hyper-parameters, scaling or feature selection fitted to the same data;
    correlated rows of one person; how long the call takes; noise beyond its public bound, of
    probability below 2^-100, which is refused.
    """
    random = random or RandomSource()
    beta, dimension = plan.calibration.beta, plan.dimension
    tilt, radius = noise.sphere(dimension, beta, random.key("tilt"))
    shake = noise.discrete_laplace(dimension, plan.lattice.scale, random.key("lattice"))
    try:
        found = minimize(
            Problem(
                design,
                y,
                plan.calibration.kappa,
                plan.record.loss,
                plan.accuracy.n_outputs,
                sample_weight=sample_weight,
                linear=tilt,
                prior_mean=prior_mean,
            ),
            tolerance=plan.certificate / 2,  # a quarter is for rounding, and one to spare
        )
    finally:  # nor may the traceback of an interrupted solve hold it
        tilt.fill(0.0)
    reached = found.gradient_norm * (1 + gamma(dimension + 2)) + plan.rounding_error
    if (
        radius > plan.radius
        or not reached <= plan.certificate
        or not float(np.linalg.norm(found.coef)) <= plan.coef_bound
    ):
        raise ConvergenceError(
            "the solve did not reach its certificate; nothing is released and the budget "
            "stays spent"
        )
    multiples = np.rint(found.coef / plan.lattice.step).astype(np.int64) + shake
    coef = np.multiply(multiples, plan.lattice.step, dtype=np.float64)
    record = plan.record
    if random.seed is not None:
        record = replace(
            record,
            random_source=random.name,
            private=False,
            notes=(*record.notes, "random_state was set: whoever knows it can remove the noise"),
        )
    return Release(coef.reshape(plan.accuracy.n_outputs, plan.accuracy.width), record)


def noisy_count(count: int, epsilon: float) -> int:
    """Release a count of rows.

    Parameters
    ----------
    count : int
        Changes by at most 1 with one row.
    epsilon : float
        Budget.

    Returns
    -------
    int
        The count with discrete Laplace noise of scale ceil(1/epsilon).

    Raises
    ------
    InvalidParameterError
        epsilon is not positive, or below the range of the integer sampler.

    Notes
    -----
    **Guarantee.** epsilon-differential privacy, exactly: sampler and sum are in integers.

    **Neighbouring relation.** Any under which the count changes by at most 1.

    **Assumptions.** epsilon is at least 2^-50.

    **Source.** Canonne, Kamath and Steinke, NeurIPS 2020.

    **Not covered.** How long the call takes.
    """
    scale = math.ceil(1 / check_positive("epsilon", epsilon))
    if scale > MAX_SCALE:
        raise InvalidParameterError("epsilon", f"at least {1 / MAX_SCALE:.2g}", epsilon)
    return int(count) + int(noise.discrete_laplace(1, scale, None)[0])


def add_gaussian_noise(
    value: NDArray[np.float64], sigma: float, grid: float, random: RandomSource
) -> NDArray[np.float64]:
    """Release numbers with isotropic Gaussian noise, rounded to a public grid.

    Parameters
    ----------
    value : ndarray of shape (n,)
        Finite.
    sigma : float
        Standard deviation.
    grid : float
        Power of two that the exact sums are rounded to.
    random : RandomSource
        One part of it for each call.

    Returns
    -------
    ndarray of shape (n,), float64
        Multiples of `grid`.

    Notes
    -----
    **Guarantee.** C/sigma-Gaussian differential privacy, in floating point: what is returned
    is a function of the ideal Gaussian around `value`.

    **Neighbouring relation.** Any under which `value`, as computed, moves by at most C in
    Euclidean norm.

    **Assumptions.** C allows for the rounding errors in `value`.

    **Source.** Balle and Wang, ICML 2018; rounding is post-processing.

    **Not covered.** How long the call takes.
    """
    return noise.rounded_gaussian(
        np.ascontiguousarray(value), sigma, grid, random.key("gaussian noise")
    )


def randomize_labels(
    y: NDArray[np.float64], epsilon: float, random: RandomSource
) -> NDArray[np.float64]:
    """Flip each label with probability 1/(1 + exp(epsilon)).

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1 and +1.
    epsilon : float
        Budget.
    random : RandomSource
        One part of it for each call.

    Returns
    -------
    ndarray of shape (n,), float64
        Labels -1 and +1.

    Notes
    -----
    **Guarantee.** epsilon-differential privacy of every label: randomised response, whose
    probability is rounded up to a multiple of 2^-64.

    **Neighbouring relation.** One label changed.

    **Assumptions.** epsilon is at most 44, so that the rounded probability is not 0.

    **Source.** Warner, JASA 60 (1965).

    **Not covered.** Labels that are used without this.
    """
    epsilon = check_positive("label_epsilon", epsilon, high=44.0)
    # Exact to 2^-64 and never too low, exp(-epsilon) being within 2 ulp; nor above a half.
    odds = Fraction(math.exp(-epsilon)) * (1 + Fraction(1, 2**50))
    threshold = np.uint64(min(math.ceil(odds / (1 + odds) * 2**64), 2**63))
    flip = noise._keystream(random.key("labels"), len(y)) < threshold
    return np.where(flip, -y, y)
