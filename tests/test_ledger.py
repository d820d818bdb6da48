"""The budget: exact, shared, and standing through crashes, processes and threads."""

import copy
import gc
import math
import os
import pickle
import random
import signal
import sqlite3
import sys
import threading
import time
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from privlr.exceptions import InvalidParameterError, PrivacyBudgetError
from privlr.privacy import Charge, Ledger, PrivacyRecord

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "ledger.db"
    return lambda *args, **kwargs: Ledger(*args, path=path, **kwargs)


@pytest.mark.parametrize("eleventh", [Fraction(1, 11), "1/11", 1 / 11])
def test_eleven_elevenths_fit_and_nothing_more(make, eleventh):
    ledger = make(1)
    for _ in range(11):
        ledger.charge("fit", eleventh)
    assert ledger.spent == ledger.limit == 1
    assert ledger.remaining == 0
    with pytest.raises(PrivacyBudgetError, match="limit"):
        ledger.charge("one more", 1e-12)
    assert len(ledger.charges) == 11


def test_a_float_is_the_decimal_that_was_written(make):
    ledger = make(1.0)
    for amount in (0.1, 0.9):
        ledger.charge("fit", amount)
    assert ledger.spent == 1
    assert [charge.epsilon for charge in ledger.charges] == [Fraction(1, 10), Fraction(9, 10)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.0001, Fraction(1, 10000)),
        (1e-12, Fraction(1, 10**12)),
        (0.123456789, Fraction(123456789, 10**9)),
        (2 / 3, Fraction(2, 3)),
        # What an estimator computes with is the float64 of the same value, which is more.
        (np.float32(0.1), Fraction("0.10000000149011612")),
        (np.float16(0.5), Fraction(1, 2)),
        (np.int64(2), Fraction(2)),
        ("0.25", Fraction(1, 4)),
        (3, Fraction(3)),
    ],
)
def test_amounts_as_written(written, meant):
    assert Ledger().charge("fit", written).epsilon == meant


@pytest.mark.parametrize(
    "amount", [math.nan, math.inf, -0.1, True, None, "x", "nan", "1/0", "-1", 1j, [1]]
)
def test_other_amounts_are_refused_by_name_and_cost_nothing(make, amount):
    ledger = make(1)
    with pytest.raises(InvalidParameterError, match="epsilon"):
        ledger.charge("fit", amount)
    with pytest.raises(InvalidParameterError, match="delta"):
        ledger.charge("fit", 0.1, amount)
    assert ledger.charges == ()


def test_a_charge_stands_though_the_run_fails(make):
    ledger = make(1)
    with pytest.raises(RuntimeError, match="run"):
        ledger.charge("fit", "1/2")
        raise RuntimeError("the run failed")
    assert ledger.charges == (Charge("fit", Fraction(1, 2)),)


def test_delta_has_its_own_limit(make):
    ledger = make(10, delta_limit="1e-5")
    ledger.charge("shares", 1, 1e-5, note="vertical")
    with pytest.raises(PrivacyBudgetError, match="delta"):
        ledger.charge("shares", 1, 1e-12)
    assert ledger.spent_delta == ledger.delta_limit == Fraction(1, 10**5)
    assert ledger.charges[0].note == "vertical"


def test_a_limit_without_delta_is_a_pure_one(make):
    with pytest.raises(PrivacyBudgetError, match="delta"):
        make(1).charge("shares", 0.5, 1e-9)


def test_no_limit_only_counts(make):
    ledger = make()
    ledger.charge("fit", 1000, 0.5)
    assert ledger.limit is None
    assert ledger.remaining is None
    assert ledger.spent == 1000


def test_limits_must_not_contradict_the_file(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(1, path)
    assert Ledger(path=path).limit == 1
    assert Ledger("1.0", path, delta_limit=0).limit == 1
    for other in (2, Fraction(3, 2)):
        with pytest.raises(InvalidParameterError, match="limit must be 1, .*holds") as caught:
            Ledger(other, path)
        assert caught.value.value == other
    with pytest.raises(InvalidParameterError, match="delta_limit"):
        Ledger(1, path, delta_limit=1e-6)
    Ledger(path=tmp_path / "unlimited.db")
    with pytest.raises(InvalidParameterError, match="limit"):
        Ledger(1, tmp_path / "unlimited.db")


@pytest.mark.parametrize("label", [None, 3, b"fit"])
def test_a_label_is_text(make, label):
    ledger = make(1)
    with pytest.raises(InvalidParameterError, match="label must be text"):
        ledger.charge(label, 0.1)
    assert not ledger.charges


@pytest.mark.parametrize("limit", [math.nan, -1, True, "much"])
def test_bad_limits_are_refused(limit):
    with pytest.raises(InvalidParameterError, match="limit"):
        Ledger(limit)
    with pytest.raises(InvalidParameterError, match="limit"):
        Ledger(delta_limit=0.1)


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
        Ledger(1, path)
    assert path.read_text().startswith("not a database")
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
        Ledger(1, tmp_path / "absent" / "ledger.db")


def test_a_ledger_whose_file_is_gone_charges_nothing(tmp_path):
    ledger = Ledger(1, tmp_path / "ledger.db")
    pickled = pickle.dumps(ledger)
    ledger.path.unlink()
    with pytest.raises(PrivacyBudgetError, match="cannot be used"):
        ledger.charge("fit", 0.1)
    with pytest.raises(PrivacyBudgetError, match="no longer exists"):
        pickle.loads(pickled)
    assert not ledger.path.exists()


class Holder(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger


def test_copies_and_clones_are_the_same_ledger(make):
    ledger = make(1)
    assert copy.copy(ledger) is copy.deepcopy(ledger) is ledger
    for _ in range(19):
        clone(Holder(ledger)).ledger.charge("fit", "1/19")
    assert len(ledger.charges) == 19
    assert ledger.remaining == 0


def test_a_file_pickles_as_its_path_wherever_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(1, "ledger.db")
    pickled = pickle.dumps(ledger)
    assert len(pickled) < 1000
    monkeypatch.chdir(tmp_path.parent)
    pickle.loads(pickled).charge("elsewhere", 1)
    assert ledger.remaining == 0


def test_a_ledger_in_memory_refuses_to_be_pickled():
    with pytest.raises(TypeError, match="give it a path"):
        pickle.dumps(Ledger(1))


def test_a_refusal_names_the_limit_in_the_way():
    ledger = Ledger(4)
    with pytest.raises(PrivacyBudgetError, match="total epsilon 5, above the limit 4"):
        ledger.charge("too much", 5)
    with pytest.raises(PrivacyBudgetError, match="total delta 1/100000, above the delta_limit 0"):
        ledger.charge("vertical", 1, 1e-5)
    assert not ledger.charges


def spend_all(path_or_ledger, label):
    """Charge 1/64 until refused; return how many charges went through."""
    ledger = path_or_ledger if isinstance(path_or_ledger, Ledger) else Ledger(path=path_or_ledger)
    count = 0
    try:
        while True:
            ledger.charge(label, "1/64")
            count += 1
    except PrivacyBudgetError as error:
        assert "above the limit" in str(error)
    return count


def test_threads_share_the_limit(make):
    ledger = make(1)
    counts = []
    threads = [
        threading.Thread(target=lambda: counts.append(spend_all(ledger, "thread")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 4
    assert sum(counts) == len(ledger.charges) == 64


def fork(target):
    """Run `target` in a forked child, which exits with its result."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(target())
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(255)
    return pid


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_share_the_limit(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(1, path)
    children = [fork(lambda: spend_all(path, "process")) for _ in range(4)]
    counts = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sum(counts) == len(ledger.charges) == 64
    assert ledger.remaining == 0


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_ledger_in_memory_refuses_to_serve_a_forked_child():
    ledger = Ledger(1)

    def refused():
        with pytest.raises(PrivacyBudgetError, match="one process only"):
            ledger.charge("child", 0.5)
        return 0

    assert os.waitpid(fork(refused), 0)[1] == 0
    ledger.charge("parent", 1)


def kill_while_charging(path, kills):
    """Kill children in the middle of charging: what they were told stays charged."""
    ledger = Ledger(path=path)
    generator = random.Random(1)
    acknowledged = 0
    for _ in range(kills):
        read, write = os.pipe()

        def charge_for_ever(write=write):
            mine = Ledger(path=path)
            while True:
                mine.charge("fit", "1/7")
                os.write(write, b".")

        child = fork(charge_for_ever)
        os.close(write)
        os.read(read, 1)  # it is running
        time.sleep(generator.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged += 1
        while chunk := os.read(read, 65536):
            acknowledged += len(chunk)
        os.close(read)
        # At most the charge under way when the kill came is there without acknowledgement.
        written = len(ledger.charges)
        assert acknowledged <= written <= acknowledged + 1
        acknowledged = written
    assert ledger.spent == Fraction(acknowledged, 7)
    ledger.charge("after", 1)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kills", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_charges_survive_kills(tmp_path, kills):
    kill_while_charging(tmp_path / "ledger.db", kills)


def kill_among_four(path, kills):
    """Four processes charge at once, and are killed at random moments; a new one takes over."""
    limit = Fraction(100_000)
    ledger = Ledger(limit, path)
    generator = random.Random(2)
    acknowledged = 0

    def start():
        read, write = os.pipe()

        def charge_for_ever():
            mine = Ledger(path=path)
            while True:
                mine.charge(str(os.getpid()), "1/11")
                os.write(write, b".")

        child = fork(charge_for_ever)
        os.close(write)
        return child, read

    def stop(child, read):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        count = 0
        while chunk := os.read(read, 65536):
            count += len(chunk)
        os.close(read)
        # The charge under way when the kill came may be there without acknowledgement.
        written = sum(charge.label == str(child) for charge in ledger.charges)
        assert count <= written <= count + 1
        return written

    running = [start() for _ in range(4)]
    for _ in range(kills):
        time.sleep(generator.uniform(0, 0.02))
        victim = running.pop(generator.randrange(4))
        acknowledged += stop(*victim)
        running.append(start())
    for child, read in running:
        acknowledged += stop(child, read)
    assert len(ledger.charges) == acknowledged
    assert ledger.spent == Fraction(acknowledged, 11)
    return ledger


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_among_four_processes(tmp_path, kills):
    ledger = kill_among_four(tmp_path / "ledger.db", kills)
    ledger.charge("after", 1)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kills_never_take_a_ledger_above_its_limit(tmp_path):
    """Eleven elevenths fit among processes that are killed; nothing more ever does."""
    generator = random.Random(3)
    for trial in range(5):
        path = tmp_path / f"{trial}.db"
        ledger = Ledger(1, path)

        def charge_until_refused(path=path):
            mine = Ledger(path=path)
            for _ in range(11):
                try:
                    mine.charge("fit", 1 / 11)
                except PrivacyBudgetError:
                    return 0
            return 0

        children = [fork(charge_until_refused) for _ in range(4)]
        time.sleep(generator.uniform(0, 0.03))
        os.kill(children[0], signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
        assert ledger.spent == 1 and len(ledger.charges) == 11
        with pytest.raises(PrivacyBudgetError):
            ledger.charge("one more", 1e-12)


def record(**changes):
    public = {
        "epsilon": 1.0,
        "neighboring_relation": "replace_one",
        "loss": "logistic",
        "calibration": "tight",
        "beta": 0.5,
        "kappa": 2.0,
        "R": 1.0,
        "n_samples": 10,
        "certificate": 1e-9,
    }
    return PrivacyRecord(**public | changes)


def test_a_record_claims_privacy_only_where_there_is_some():
    assert record().private
    assert record() == record()
    with pytest.raises(ValueError, match="seeded"):
        record(random_source="seeded")
    with pytest.raises(ValueError, match="say why"):
        record(random_source="seeded", private=False)
    assert not record(random_source="seeded", private=False, notes=("seeded run",)).private
    with pytest.raises(InvalidParameterError, match="random_source"):
        record(random_source="clock")


def test_a_ledger_in_memory_closes_its_connection(monkeypatch):
    closed = []

    class Connection(sqlite3.Connection):
        def close(self):
            closed.append(True)
            super().close()

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
    ledger = Ledger(limit=1)
    ledger.charge("fit", 1)
    assert not closed
    del ledger
    gc.collect()
    assert closed
