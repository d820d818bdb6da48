"""What a private release costs, how much noise pays for it, and who keeps the account."""

from privlr.privacy.calibration import (
    Calibration,
    auto_l2_reg_strength,
    calibrate,
    perturbation_beta,
    perturbation_epsilon,
)
from privlr.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from privlr.privacy.ledger import Ledger, exact
from privlr.privacy.record import Charge, Lattice, PrivacyRecord, check_claim
from privlr.privacy.stacking_calibration import calibrate_groups

__all__ = [
    "Calibration",
    "Charge",
    "Lattice",
    "Ledger",
    "PrivacyRecord",
    "auto_l2_reg_strength",
    "calibrate",
    "calibrate_groups",
    "check_claim",
    "exact",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "perturbation_beta",
    "perturbation_epsilon",
]
