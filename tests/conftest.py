"""Settings that every test shares."""

import os

import pytest
from hypothesis import settings

# A busy machine makes no example wrong.
settings.register_profile("privlr", deadline=None)
settings.load_profile("privlr")


@pytest.fixture
def real_data() -> str:
    """The directory of real data sets; the test is skipped where there is none."""
    directory = os.environ.get("PRIVLR_DATA")
    if not directory:
        pytest.skip("the environment variable PRIVLR_DATA names no directory of real data sets")
    return directory
