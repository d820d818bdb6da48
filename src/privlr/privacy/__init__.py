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
from privlr.privacy.vertical_calibration import (
    ShareCalibration,
    StatisticsCalibration,
    calibrate_shares,
    calibrate_statistics,
    noise_grid,
    published_share_sigma,
    share_sensitivity,
    value_sensitivity,
)

__all__ = [
    "Calibration",
    "Charge",
    "Lattice",
    "Ledger",
    "PrivacyRecord",
    "ShareCalibration",
    "StatisticsCalibration",
    "auto_l2_reg_strength",
    "calibrate",
    "calibrate_groups",
    "calibrate_shares",
    "calibrate_statistics",
    "check_claim",
    "exact",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "noise_grid",
    "perturbation_beta",
    "perturbation_epsilon",
    "published_share_sigma",
    "share_sensitivity",
    "value_sensitivity",
]
