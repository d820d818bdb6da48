"""Settings that every test shares."""

import os
import signal
import time

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


_START = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, visibly, the long audits that no longer fit into PRIVLR_SLOW_SECONDS."""
    budget = float(os.environ.get("PRIVLR_SLOW_SECONDS", "inf"))
    if item.get_closest_marker("slow") and time.monotonic() - _START > budget:
        pytest.skip(f"the {budget:g} seconds of PRIVLR_SLOW_SECONDS are used up")


@pytest.fixture
def ctrl_c():
    """Python's handler of Ctrl-C, which a process in the background is started without."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
