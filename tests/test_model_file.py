"""Model files: exact there and back; whatever is hostile is refused with one kind of error."""

import dataclasses
import datetime
import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from privlr import _json_file
from privlr.exceptions import InvalidParameterError, ModelFileError
from privlr.model_file import ReleasedModel, load_model, save_model
from privlr.privacy import Charge, Lattice, PrivacyRecord

STEP = 2.0**-40


def record(**changes: Any) -> PrivacyRecord:
    values: dict[str, Any] = {
        "epsilon": 1.0,
        "neighboring_relation": "replace_one",
        "loss": "logistic",
        "calibration": "tight",
        "beta": 127 / 256,
        "kappa": 2.5,
        "R": 1.0,
        "n_samples": 100,
        "certificate": 1e-9,
        "lattice": Lattice(STEP, 7, 1 / 128),
        "charges": (Charge("fit", Fraction(1, 3)),),
    }
    return PrivacyRecord(**{**values, **changes})


class Fitted:
    """The attributes of a fitted estimator."""

    def __init__(self, rows: int = 1, d: int = 3, lattice: bool = True) -> None:
        numbers = np.random.default_rng(rows).standard_normal((rows, d + 1)) * 3
        if lattice:
            numbers = np.rint(numbers / STEP) * STEP
        self.coef_, self.intercept_ = numbers[:, :d], numbers[:, d]
        self.classes_ = np.array(["no", "yes"]) if rows == 1 else np.arange(rows)
        self.privacy_ = record(n_classes=len(self.classes_))
        if not lattice:
            self.privacy_ = dataclasses.replace(self.privacy_, lattice=None)
        self.released_on_ = datetime.date(2026, 1, 31)
        self.feature_names_in_ = np.array([f"x{j}" for j in range(d)], dtype=object)


def saved(path: Path, model: Any = None) -> dict[str, Any]:
    save_model(Fitted() if model is None else model, path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def signed(file: dict[str, Any]) -> bytes:
    """A file whose sum fits, as a capable attacker would write it."""
    canonical = msgspec.json.encode(file["content"], order="sorted")
    return json.dumps({**file, "sha256": hashlib.sha256(canonical).hexdigest()}).encode()


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("lattice", [True, False])
def test_bit_for_bit(tmp_path: Path, rows: int, lattice: bool) -> None:
    model = Fitted(rows, lattice=lattice)
    save_model(model, tmp_path / "a")
    released = load_model(tmp_path / "a")
    assert released.coef_.tobytes() == model.coef_.tobytes()
    assert released.intercept_.tobytes() == model.intercept_.tobytes()
    assert released.classes_.tolist() == model.classes_.tolist()
    assert released.privacy_ == model.privacy_
    assert list(released.feature_names_in_) == list(model.feature_names_in_)
    save_model(released, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@settings(max_examples=50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_every_float_survives(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    model = Fitted(d=len(values), lattice=False)
    model.coef_ = np.array([values])
    path = tmp_path_factory.getbasetemp() / "floats.json"
    save_model(model, path)
    assert load_model(path).coef_.tobytes() == model.coef_.tobytes()


def test_record_written_with_integers_reads_back(tmp_path: Path) -> None:
    model = Fitted()
    model.privacy_ = record(epsilon=1, R=2, charges=())
    save_model(model, tmp_path / "m")
    assert load_model(tmp_path / "m").privacy_ == model.privacy_


def test_white_space_and_order_do_not_matter(tmp_path: Path) -> None:
    file = saved(tmp_path / "m")
    file["content"] = dict(reversed(file["content"].items()))
    (tmp_path / "m").write_text(json.dumps(file, indent=7).replace("\n", "\r\n"))
    load_model(tmp_path / "m")


def test_predictions(tmp_path: Path) -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    for rows in (1, 4):
        model = Fitted(rows)
        save_model(model, tmp_path / "m")
        released = load_model(tmp_path / "m")
        raw = X @ model.coef_.T + model.intercept_
        proba = released.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-15)
        np.testing.assert_allclose(released.decision_function(X), raw[:, 0] if rows == 1 else raw)
        assert (released.classes_[proba.argmax(axis=1)] == released.predict(X)).all()
        np.testing.assert_allclose(released.predict_proba(sparse.csr_array(X)), proba)
        if rows == 1:
            np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-raw[:, 0])))
    with np.errstate(all="raise"):
        assert np.isfinite(released.predict_proba(X * 1e5)).all()


def test_released_model_cannot_be_changed(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    released = load_model(tmp_path / "m")
    with pytest.raises(dataclasses.FrozenInstanceError):
        released.coef_ = np.zeros((1, 3))  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        released.coef_[0, 0] = 0
    assert not hasattr(released, "fit")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    saved(tmp_path / "m")
    released = load_model(tmp_path / "m")
    X = np.ones((2, 3))
    expected = released.predict(X)
    assert (released.predict(pandas.DataFrame(X, columns=["x0", "x1", "x2"])) == expected).all()
    for bad in (
        pandas.DataFrame(X, columns=["x0", "x2", "x1"]),
        pandas.DataFrame(X, columns=["x0", "x1", "y"]),
        np.ones((2, 4)),
        np.ones(3),
        np.array([[1, 2, np.nan]]),
        sparse.csr_array([[1, 2, np.inf]]),
    ):
        with pytest.raises(InvalidParameterError, match="X must be"):
            released.predict(bad)


def replaced(path: str, value: Any) -> Any:
    """An attack: set one entry of the content, with a sum that fits."""

    def attack(file: dict[str, Any]) -> bytes:
        target: Any = file["content"]
        *way, last = path.split(".")
        for key in way:
            target = target[int(key) if isinstance(target, list) else key]
        target[int(last) if isinstance(target, list) else last] = value
        return signed(file)

    return attack


def nested(depth: int) -> bytes:
    return (
        b'{"schema":"privlr-model","version":1,"sha256":"","content":'
        + b"[" * depth
        + b"]" * depth
        + b"}"
    )


def test_the_day_is_that_of_the_fit(tmp_path: Path) -> None:
    save_model(Fitted(), tmp_path / "a")
    save_model(load_model(tmp_path / "a"), tmp_path / "b")
    assert load_model(tmp_path / "b").released_on == datetime.date(2026, 1, 31)


def test_a_missing_folder_is_named_as_given(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "z.json"
    with pytest.raises(FileNotFoundError) as caught:
        save_model(Fitted(), path)
    assert caught.value.filename == str(path)


ATTACKS = {
    "empty": lambda file: b"",
    "binary": lambda file: bytes(range(256)),
    "pickle": lambda file: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "truncated": lambda file: json.dumps(file).encode()[:-40],
    "two files": lambda file: json.dumps(file).encode() * 2,
    "not utf-8": lambda file: json.dumps(file).encode().replace(b"yes", b"\xff\xfe"),
    "tampered": lambda file: json.dumps(file).replace("replace_one", "replace_two").encode(),
    "no sum": lambda file: json.dumps({k: v for k, v in file.items() if k != "sha256"}).encode(),
    "other schema": lambda file: json.dumps({**file, "schema": "pickle"}).encode(),
    "later version": lambda file: json.dumps({**file, "version": 2}).encode(),
    "version true": lambda file: json.dumps({**file, "version": True}).encode(),
    "extra key": lambda file: json.dumps({**file, "run": "rm"}).encode(),
    "a list": lambda file: b"[1,2,3]",
    "deep nesting": lambda file: nested(200_000),
    "huge": lambda file: b" " * (_json_file.MAX_BYTES + 1),
    "extra content": replaced("run", "rm"),
    "extra in record": replaced("privacy.run", "rm"),
    "nan": replaced("coef.0.0", float("nan")),
    "float coefficient": replaced("coef.0.0", 0.5),
    "text coefficient": replaced("coef.0.0", "0x1.8p+1"),
    "wide coefficient": replaced("coef.0.0", 2**63),
    "missing coefficient": replaced("coef.0", [1, 2]),
    "no coefficients": replaced("coef", []),
    "two rows": replaced("coef", [[1, 2, 3], [1, 2, 3]]),
    "no intercept": replaced("intercept", []),
    "one class": replaced("classes", ["yes"]),
    "same class": replaced("classes", ["yes", "yes"]),
    "mixed classes": replaced("classes", ["yes", 1]),
    "nested class": replaced("classes", ["yes", ["no"]]),
    "other classes": replaced("classes", ["a", "b", "c"]),
    "few names": replaced("feature_names", ["x0"]),
    "same names": replaced("feature_names", ["x0", "x1", "x1"]),
    "long name": replaced("feature_names", ["x0", "x1", "x" * 1000]),
    "negative size": replaced("n_features", -3),
    "huge size": replaced("n_features", 10**12),
    "bad date": replaced("released_on", "yesterday"),
    "record of nothing": replaced("privacy", None),
    "text epsilon": replaced("privacy.epsilon", "1"),
    "step of zero": replaced("privacy.lattice.step", 0.0),
    "step of three": replaced("privacy.lattice.step", 3.0),
    "step overflows": replaced("privacy.lattice.step", 2.0**1023),
    "slow fraction": replaced("privacy.charges.0.epsilon", "1e999999999"),
    "fraction by zero": replaced("privacy.charges.0.epsilon", "1/0"),
    "seeded but private": replaced("privacy.random_source", "seeded"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(_json_file, "MAX_BYTES", 2**20)
    path = tmp_path / "m.json"
    path.write_bytes(ATTACKS[name](saved(path)))
    with pytest.raises(ModelFileError, match="m.json"):
        load_model(path)


def test_the_attacks_differ_from_a_good_file_only_where_they_say(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(signed(saved(path)))
    load_model(path)


@settings(max_examples=100)
@given(st.data())
def test_no_flipped_byte_goes_unseen(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.json"
    save_model(Fitted(), path)
    before, good = load_model(path), bytearray(path.read_bytes())
    good[data.draw(st.integers(0, len(good) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(good)
    try:
        after = load_model(path)
    except ModelFileError:
        return
    # Only white space can have changed.
    assert isinstance(after, ReleasedModel)
    assert after.privacy_ == before.privacy_
    assert after.coef_.tobytes() == before.coef_.tobytes()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"coef_": np.full((1, 3), np.nan)}, "not finite"),
        ({"coef_": np.full((1, 3), STEP / 2)}, "off its lattice"),
        ({"classes_": np.array([0, 1, 2])}, "other classes"),
        ({"privacy_": record(epsilon=float("inf"))}, "valid"),
    ],
)
def test_what_cannot_be_read_is_not_written(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    model = Fitted()
    vars(model).update(changes)
    with pytest.raises(ModelFileError, match=reason):
        save_model(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_missing_file_is_an_ordinary_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent")
