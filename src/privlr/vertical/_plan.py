"""The public constants of a vertical fit, fixed before any row is looked at."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from privlr._validation import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
    unless_auto,
)
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import RandomSource
from privlr.privacy import (
    Ledger,
    calibrate_shares,
    calibrate_statistics,
    exact,
    published_share_sigma,
)
from privlr.vertical._record import VerticalRecord
from privlr.vertical._release import ColumnSpaceNoise, ExactShares, NoisyShares
from privlr.vertical.settings import Settings

__all__ = ["Plan", "whole_cost"]

#: Rounds where max_iter is "auto".
ROUNDS, PRIVATE_ROUNDS = 1000, 1

#: Largest negative slope of the loss at a score of 0, and at any.
_TARGET_BOUNDS = {"labels": 0.5, "residuals": 1.0}

_SEEN_LABELS = "disclosed to every party, by the sign of the message"
_SCORES = "not covered: the parties score new samples with coefficients that carry no noise"


def whole_cost(model: Any) -> tuple[Any, Any]:
    """Return epsilon and delta that a ledger is charged for a fit, whatever the data.

    Parameters
    ----------
    model : VerticalLogisticRegression
        The estimator.

    Returns
    -------
    epsilon, delta : Fraction
        Of features and labels together.

    Raises
    ------
    InvalidParameterError
        One is out of range, or given without the other.
    """
    labels = Fraction(0)
    if model.label_epsilon is not None:
        check_positive("label_epsilon", model.label_epsilon, high=44.0)
        labels = exact("label_epsilon", model.label_epsilon)
    if model.epsilon is None:
        if model.delta is not None:
            raise InvalidParameterError("epsilon", "given, for a release with noise", None)
        return labels, Fraction(0)
    check_positive("epsilon", model.epsilon)
    if model.delta is None:
        raise InvalidParameterError("delta", "given with epsilon", None)
    check_probability("delta", model.delta)
    return exact("epsilon", model.epsilon) + labels, exact("delta", model.delta)


class Plan:
    """The public constants of a fit: bounds, noise and what the record says of them."""

    def __init__(self, model: Any, settings: Settings, widths: list[int]) -> None:
        self.model, self.settings = model, settings
        published = check_choice("mechanism", model.mechanism, ("privlr", "published"))
        release = check_choice("release", model.release, ("shares", "statistics"))
        check_choice("targets", model.targets, tuple(_TARGET_BOUNDS))
        relation = check_choice(
            "neighboring_relation", model.neighboring_relation, ("replace_one", "replace_part")
        )
        if model.ledger is not None and not isinstance(model.ledger, Ledger):
            raise InvalidParameterError("ledger", "a privlr.privacy.Ledger or None", model.ledger)
        norms = model.data_norm if np.ndim(model.data_norm) else [model.data_norm] * len(widths)
        if len(norms) != len(widths):
            raise InvalidParameterError(
                "data_norm", f"a number, or one for each of {len(widths)} parties", norms
            )
        self.norms = tuple(check_positive("data_norm", norm) for norm in norms)
        self.tol = check_nonnegative("tol", model.tol)
        self.exact = model.epsilon is None
        self.published = published == "published"
        self.noisy = not self.exact and not self.published
        rounds = unless_auto("max_iter", model.max_iter, check_integer)
        self.rounds = rounds or (PRIVATE_ROUNDS if self.noisy else ROUNDS)
        self.statistics = None
        self.releases: list[ExactShares] = [ExactShares()] * len(widths)
        if release == "statistics" and (self.published or len(widths) == 1):
            raise InvalidParameterError(
                "release", "'shares' with 'published', and with a single party", release
            )
        if release == "shares" and model.targets != "labels":
            raise InvalidParameterError("targets", "'labels' with 'shares'", model.targets)
        self.mu: float | None = None
        self.sigmas: tuple[float, ...] = ()
        self.cost = whole_cost(model)
        if self.exact:
            if self.published or release == "statistics":
                raise InvalidParameterError("epsilon", "given, for a release with noise", None)
            return
        epsilon = float(model.epsilon)
        radius = check_positive("share_bound", model.share_bound)
        together = settings.n_parties if relation == "replace_one" else 1
        if self.published:
            self.sigmas = tuple(
                published_share_sigma(
                    epsilon,
                    model.delta,
                    n_features=width,
                    n_parties=settings.n_parties,
                    ridge=settings.ridge,
                    rho=settings.rho,
                    radius=radius,
                )
                for width in widths
            )
            self.releases = [ColumnSpaceNoise(sigma=sigma) for sigma in self.sigmas]
        elif release == "shares":
            calibration = calibrate_shares(
                epsilon,
                model.delta,
                rounds=self.rounds,
                n_samples=settings.n_samples,
                n_features=max(widths),
                n_parties=together,
                radius=radius,
                alpha=settings.alpha / min(self.norms) ** 2,
            )
            self.releases = [NoisyShares.calibrated(calibration)] * len(widths)
            self.mu, self.sigmas = calibration.mu, (calibration.sigma,)
        else:
            if model.max_iter not in ("auto", 1):
                raise InvalidParameterError("max_iter", "1 with 'statistics'", model.max_iter)
            self.statistics = calibrate_statistics(
                epsilon,
                model.delta,
                n_samples=settings.n_samples,
                n_parties=max(min(together, settings.n_parties - 1), 1),
                clip=_TARGET_BOUNDS[model.targets],
            )
            self.mu = self.statistics.mu
            self.sigmas = (self.statistics.gram_sigma, self.statistics.moment_sigma)

    def record(self, source: RandomSource) -> VerticalRecord:
        """What the fit says about itself."""
        model, notes = self.model, []
        mechanism, relation, scores = "shares", model.neighboring_relation, _SCORES
        features = f"covered: {self.rounds} noisy share(s) of each party"
        if self.exact:
            mechanism, features = "none", "not covered: shares are exchanged without noise"
            notes.append("no guarantee: shares are exchanged without noise")
        elif self.published:
            mechanism, features = "published", "not covered: noise in the column space of the data"
            notes.append("no guarantee: the published noise does not hide a row")
        elif self.statistics is not None:
            mechanism = "statistics"
            features = "covered: one noisy Gram matrix and moment of each party but the first"
            scores = "covered, except for the label holder's own part"
            if model.targets == "residuals":
                relation += ", in the parties without labels"
                features += "; the label holder's training scores are disclosed"
                notes.append("the label holder's features are not covered (targets='residuals')")
        labels = _SEEN_LABELS
        if model.label_epsilon is not None:
            labels = f"randomised once, at epsilon={model.label_epsilon:g}"
        if source.seed is not None:
            notes.append("random_state was set: whoever knows it can remove the noise")
        return VerticalRecord(
            mechanism=mechanism,
            features=features,
            labels=labels,
            scores=scores,
            epsilon=float(self.cost[0]) if self.noisy else None,
            delta=float(self.cost[1]) if self.noisy else None,
            neighboring_relation=relation,
            rounds=0 if self.exact else self.rounds,
            mu=self.mu,
            sigma=self.sigmas,
            data_norm=self.norms if self.noisy else (),
            random_source=source.name,
            private=self.noisy and source.seed is None,
            notes=tuple(notes),
        )
