"""Calibrations of vertical learning: how far a row moves what a party releases each round."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privlr._validation import check_integer, check_positive, check_probability
from privlr.exceptions import InvalidParameterError
from privlr.privacy.gaussian import gaussian_mu

__all__ = [
    "ShareCalibration",
    "StatisticsCalibration",
    "calibrate_shares",
    "calibrate_statistics",
    "noise_grid",
    "published_share_sigma",
    "share_sensitivity",
    "value_sensitivity",
]

UNIT = 2.0**-53
#: Beyond it mu and epsilon are too flat in each other to be told apart; there is no privacy left.
LARGEST_EPSILON = 1e16
#: Share of a round's rounded noise that one step of the public grid is.
GRID_SHARE = 2.0**-10


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareCalibration:
    """The public constants of a party's released shares.

    Attributes
    ----------
    epsilon, delta : float
        Cost of all releases together.
    rounds : int
        Releases that are paid for.
    mu : float
        Gaussian privacy parameter of all of them together.
    n_samples, n_features : int
        Largest numbers of rows and of columns of a party.
    radius, clip : float
        Bounds b on ``||x||`` (times the row bound) and B on every target.
    alpha : float
        Largest ridge, for rows of norm at most 1; the only one where clip exceeds radius.
    sensitivity : float
        Largest distance of the computed shares of two neighbouring data sets.
    optimality : float
        Largest violation of the ball problem's variational inequality that the computed
        coefficients may show; `sensitivity` allows for it.
    sigma, grid : float
        Standard deviation of the noise, and the spacing that the sum is rounded to.
    """

    epsilon: float
    delta: float
    rounds: int
    mu: float
    n_samples: int
    n_features: int
    radius: float
    clip: float
    alpha: float
    sensitivity: float
    optimality: float
    sigma: float
    grid: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsCalibration:
    """The public constants of a party's released Gram matrix and moments.

    Attributes
    ----------
    mu : float
        Gaussian privacy parameter of the Gram matrix and every moment together.
    clip : float
        Bound B on every target.
    gram_sigma, moment_sigma : float
        Standard deviations, for rows of norm at most 1.
    """

    mu: float
    clip: float
    gram_sigma: float
    moment_sigma: float


def noise_grid(sigma: float, largest: float) -> float:
    """Spacing of the public grid that numbers with noise are rounded to.

    Parameters
    ----------
    sigma : float
        Size of the noise.
    largest : float
        Public bound on the numbers, which must be less than 2^46 steps.

    Returns
    -------
    float
        A power of two, some thousandth of sigma: rounding to it adds nothing noticeable.
    """
    return 2.0 ** math.floor(math.log2(max(sigma, largest * 2.0**-34) * GRID_SHARE))


def share_sensitivity(*, radius: float, clip: float, alpha: float) -> float:
    """Return how far a replaced row moves D x in Euclidean norm.

    Parameters
    ----------
    radius : float
        b; x is restricted to ``||x|| <= b``.
    clip : float
        B; every target v_i is clipped to [-B, B].
    alpha : float
        Ridge of the least-squares problem, for rows of norm at most 1.

    Returns
    -------
    float
        C. For B <= b it is 2b, whatever alpha, and reached in the limit of many rows.

    Raises
    ------
    InvalidParameterError
        A parameter is out of range.

    Notes
    -----
    x minimises ``||D x - v||^2/2 + alpha ||x||^2/2`` on the ball. Add the variational
    inequalities of the two problems at each other's solution. With p = d.x, a = d.x' for
    the row d of one, p' = d'.x', a' = d'.x for its replacement,

        ||D x - D' x'||^2 + alpha ||x - x'||^2 <= -2 p p' + p a + p' a' + v (p - a + p' - a').

    The right-hand side is affine in every variable, so it is largest at a vertex of
    ``|p|, |a|, |p'|, |a'| <= b, |v| <= B``. For B <= b that is 4 b^2; above, the term in
    alpha takes part, as ``||x - x'||`` is at least each of ``|p - a|`` and ``|p' - a'|``.
    """
    b = check_positive("radius", radius)
    bound = check_positive("clip", clip)
    alpha = check_positive("alpha", alpha)
    if bound <= b:
        return 2 * b

    def best(constant: float, slope: float, curvature: float) -> float:
        """Return the largest constant + slope r - curvature r^2 for r from 0 to 2b.

        Parameters
        ----------
        constant, slope, curvature : float
            Coefficients, the last one positive.

        Returns
        -------
        float
            The maximum.
        """
        r = min(max(slope / (2 * curvature), 0.0), 2 * b)
        return constant + slope * r - curvature * r * r

    square = max(
        4 * b * b,
        best(4 * b * b, bound - b, alpha),
        best(4 * b * b, 2 * (bound - 2 * b), alpha),
        best(0.0, 2 * (b + bound), 2 + alpha),
    )
    return math.sqrt(square)


def value_sensitivity(
    *, change: float, coef_bound: float, radius: float, clip: float, alpha: float
) -> float:
    """Return how far one changed feature value moves D x in Euclidean norm.

    Parameters
    ----------
    change : float
        w; the value moves by at most this much.
    coef_bound : float
        Bound on every ``|x_j|``.
    radius, clip, alpha : float
        As in :func:`share_sensitivity`.

    Returns
    -------
    float
        w sqrt(coef_bound^2 + (coef_bound + b + B)^2/(4 alpha)), or the bound for a whole
        row where that is smaller. Rows must be short without clipping, which would move
        the row's other values too.

    Raises
    ------
    InvalidParameterError
        A parameter is out of range.
    """
    whole = share_sensitivity(radius=radius, clip=clip, alpha=alpha)
    beta = check_positive("coef_bound", coef_bound)
    w = check_positive("change", change)
    reach = (beta + radius + clip) ** 2 / (4 * alpha)
    return min(w * math.sqrt(beta * beta + reach), whole)


def calibrate_shares(
    epsilon: float,
    delta: float,
    *,
    rounds: int,
    n_samples: int,
    n_features: int,
    n_parties: int = 1,
    radius: float = 1.0,
    clip: float | None = None,
    alpha: float = 1.0,
) -> ShareCalibration:
    """Find the noise with which released shares cost (epsilon, delta) in all.

    Parameters
    ----------
    epsilon : float
        Positive, at most 1e16.
    delta : float
        Strictly between 0 and 1.
    rounds : int
        Releases of each party.
    n_samples, n_features : int
        Rows, and the largest number of columns of a party.
    n_parties : int, default=1
        Parties in which a sample may change at once.
    radius, clip, alpha : float
        As in :func:`share_sensitivity`; `clip` is the radius by default.

    Returns
    -------
    ShareCalibration
        Noise, and what it was made for.

    Raises
    ------
    InvalidParameterError
        A parameter is out of range.

    Notes
    -----
    Given the transcript every release is a Gaussian mechanism, so all of them are
    sqrt(rounds n_parties) C/sigma-GDP. The computed coefficients satisfy the variational
    inequality up to `optimality` and the computed product D x is within E of the exact
    one, so that C grows to sqrt(C^2 + 2 optimality) + 2E.

    **Guarantee.** All shares that a run releases are together (epsilon, delta)-DP.

    **Neighbouring relation.** One row replaced in each of `n_parties` parties.

    **Assumptions.** Rows have norm at most 1 and targets depend on the transcript only.

    **Source.** :func:`share_sensitivity`; Balle and Wang, ICML 2018.

    **Not covered.** Labels, and anything computed from the coefficients afterwards.
    """
    mu = gaussian_mu(epsilon=check_positive("epsilon", epsilon, high=LARGEST_EPSILON), delta=delta)
    rounds, n_parties = check_integer("rounds", rounds), check_integer("n_parties", n_parties)
    n, d = check_integer("n_samples", n_samples), check_integer("n_features", n_features)
    bound = radius if clip is None else clip
    ideal = share_sensitivity(radius=radius, clip=bound, alpha=alpha)
    # The residual's inequality is evaluated from sums of n products, each at most b + B, and
    # of alpha b; a multiple of their rounding error, and of b^2, is cheap to allow for.
    residual = n * (radius + bound)
    rounding = 8 * radius * (n + d + 16) * UNIT * (residual + alpha * radius)
    optimality = 2.0**-20 * radius * radius + 2 * rounding
    product = math.sqrt(n) * (d + 16) * UNIT * radius
    sensitivity = math.sqrt(ideal**2 + 2 * optimality) + 2 * product
    sigma = sensitivity * math.sqrt(rounds * n_parties) / mu * (1 + 2.0**-45)
    return ShareCalibration(
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        mu=mu,
        n_samples=n,
        n_features=d,
        radius=radius,
        clip=bound,
        alpha=alpha,
        sensitivity=sensitivity,
        optimality=optimality,
        sigma=sigma,
        grid=noise_grid(sigma, radius),
    )


def calibrate_statistics(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    rounds: int = 1,
    n_parties: int = 1,
    clip: float = 1.0,
    gram_share: float = 0.5,
) -> StatisticsCalibration:
    """Find the noise with which Gram matrices and moments cost (epsilon, delta) in all.

    Parameters
    ----------
    epsilon : float
        Positive, at most 1e16.
    delta : float
        Strictly between 0 and 1.
    n_samples : int
        Rows.
    rounds : int, default=1
        Moments that each party releases.
    n_parties : int, default=1
        Parties in which a sample may change at once.
    clip : float, default=1.0
        B, the bound on every target.
    gram_share : float, default=0.5
        Share of mu^2 that the Gram matrix takes, strictly between 0 and 1.

    Returns
    -------
    StatisticsCalibration
        Noise, and what it was made for.

    Raises
    ------
    InvalidParameterError
        A parameter is out of range.

    Notes
    -----
    A replaced row moves D'D by at most sqrt 2 in Frobenius norm and D'v by at most 2B, so
    mu^2 = n_parties (2/gram_sigma^2 + 4 rounds B^2/moment_sigma^2). Both sensitivities are
    enlarged by the rounding errors of sums of `n_samples` terms.

    **Guarantee.** All statistics that a run releases are together (epsilon, delta)-DP.

    **Neighbouring relation.** One row replaced in each of `n_parties` parties.

    **Assumptions.** Rows have norm at most 1; the target of a row depends on the transcript
    and on that row only.

    **Source.** Dong, Roth and Su, JRSS B 84 (2022), for the composition.

    **Not covered.** Labels and features of the party that chooses the targets.
    """
    mu = gaussian_mu(epsilon=check_positive("epsilon", epsilon, high=LARGEST_EPSILON), delta=delta)
    n = check_integer("n_samples", n_samples)
    if not 0 < gram_share < 1:
        raise InvalidParameterError("gram_share", "strictly between 0 and 1", gram_share)
    error = 2 * n * (n + 16) * UNIT
    gram = (math.sqrt(2) + error) / (mu * math.sqrt(gram_share / n_parties))
    moment = (2 + error) * clip * math.sqrt(check_integer("rounds", rounds))
    moment /= mu * math.sqrt((1 - gram_share) / check_integer("n_parties", n_parties))
    up = 1 + 2.0**-45
    return StatisticsCalibration(
        mu=mu, clip=check_positive("clip", clip), gram_sigma=gram * up, moment_sigma=moment * up
    )


def published_share_sigma(
    epsilon: float,
    delta: float,
    *,
    n_features: int,
    n_parties: int,
    ridge: float,
    rho: float,
    radius: float = 1.0,
) -> float:
    """Return the noise level that the published analysis asks for, which protects nothing.

    Parameters
    ----------
    epsilon, delta : float
        Of each round.
    n_features, n_parties : int
        Columns of the party, and number of parties.
    ridge, rho : float
        lambda in sum form, and the augmented Lagrangian's weight.
    radius : float, default=1.0
        Bound on the coefficients.

    Returns
    -------
    float
        sqrt(2 log(1.25/delta)) C/epsilon, C = 3 (ridge + 1 + n_parties rho) radius/(d rho).

    Raises
    ------
    InvalidParameterError
        delta is out of range.

    Notes
    -----
    **Guarantee.** None: the noise lies in the column space of the private matrix, which a
    neighbouring matrix does not share, and C is exceeded.

    **Neighbouring relation.** One row replaced, in the publication.

    **Assumptions.** Those of the publication.

    **Source.** Hu, Liu, Kong and Niu, arXiv 1907.07735, Theorem 3.

    **Not covered.** Everything; for the replication of figures only.
    """
    sensitivity = 3 * (ridge + 1 + n_parties * rho) * radius / (n_features * rho)
    delta = check_probability("delta", delta)
    return math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / epsilon
