"""Budgets of feature groups, against the published values and the exact cost."""

import math

import pytest

from privlr.exceptions import InvalidParameterError
from privlr.privacy import calibrate_groups, perturbation_epsilon


def cost(groups, importance, data_norm=1.0, **options):
    """The exact cost of one low-level row: the sum over its groups."""
    return sum(
        perturbation_epsilon(beta=g.beta, kappa=g.kappa, data_norm=data_norm * q, **options)
        for g, q in zip(groups, importance, strict=True)
    )


def test_published_first_branch():
    groups = calibrate_groups(
        1, (0.7, 0.3), n_samples=1000, l2_reg_strength=0.01, calibration="published"
    )
    for group in groups:
        assert 2 * group.beta == pytest.approx(0.971153903058775, rel=1e-12)
        assert group.delta_reg == 0
        assert group.kappa == 10


def test_published_second_branch():
    groups = calibrate_groups(
        0.1, (0.5, 0.3, 0.15, 0.05), n_samples=1500, l2_reg_strength=1e-4, calibration="published"
    )
    expected = (0.00321254340266, 0.00189250937499, 0.000898126171875, 0.000233125043403)
    for group, delta_reg in zip(groups, expected, strict=True):
        assert group.delta_reg == pytest.approx(delta_reg, rel=1e-11)
        assert group.beta == 0.025


def test_published_negative_delta_is_clamped():
    importance = (0.97, 0.01, 0.01, 0.01)
    groups = calibrate_groups(
        1,
        importance,
        n_samples=1000,
        l2_reg_strength=(1e-5, 0.01, 0.01, 0.01),
        calibration="published",
    )
    unclamped = 0.01**2 / (4000 * math.expm1(0.0025)) - 0.01
    assert unclamped == pytest.approx(-0.009990012495, rel=1e-9)
    assert [group.delta_reg for group in groups[1:]] == [0, 0, 0]
    assert cost(groups, importance) <= 1


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("data_norm", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("ridge", [1e-7, 1e-4, 0.1])
def test_tight_spends_all_of_epsilon_over_the_groups(loss, data_norm, ridge):
    importance = (0.5, 0.3, 0.15, 0.05)
    groups = calibrate_groups(
        0.4, importance, n_samples=900, l2_reg_strength=ridge, data_norm=data_norm, loss=loss
    )
    assert cost(groups, importance, data_norm, loss=loss) == pytest.approx(0.4, rel=1e-13)


def test_tight_logistic_is_the_closed_form():
    importance = (0.7, 0.3)
    groups = calibrate_groups(0.5, importance, n_samples=100, l2_reg_strength=0.02)
    for group, q in zip(groups, importance, strict=True):
        assert group.beta == pytest.approx(0.25, rel=1e-14)
        assert group.delta_reg == pytest.approx(max(0, 2 * q / 50 - 0.02), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("ridge", [0.0, 1e-5, 1e-2])
def test_published_never_spends_more_than_epsilon(epsilon, ridge):
    importance = (0.4, 0.3, 0.2, 0.1)
    groups = calibrate_groups(
        epsilon, importance, n_samples=700, l2_reg_strength=ridge, calibration="published"
    )
    assert cost(groups, importance) <= epsilon


def test_fifth_parts_written_as_decimals_add_up():
    assert len(calibrate_groups(1, [0.1] * 10, n_samples=10, l2_reg_strength=0.1)) == 10


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("importance", {"importance": (0.7, 0.4)}),
        ("importance", {"importance": (0.7, 0.0)}),
        ("importance", {"importance": ()}),
        ("l2_reg_strength", {"l2_reg_strength": (0.1, 0.1, 0.1)}),
        ("calibration", {"calibration": "cms2011"}),
        ("loss", {"loss": "capped", "calibration": "published"}),
    ],
)
def test_bad_groups_are_refused_by_name(name, options):
    options = {"importance": (0.7, 0.3), "n_samples": 10, "l2_reg_strength": 0.1, **options}
    with pytest.raises(InvalidParameterError, match=name):
        calibrate_groups(1, options.pop("importance"), **options)
