"""Stack files: exact there and back; whatever is hostile or contradicts itself is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from test_model_file import replaced, signed

from privlr import _json_file
from privlr.exceptions import InvalidParameterError, ModelFileError
from privlr.model_file import load_model
from privlr.privacy import Ledger
from privlr.stacking import (
    FeatureStackingClassifier,
    SampleStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
    load_stack,
    save_stack,
)

NAMES = [f"x{j}" for j in range(6)]


def rows(classes: int = 2, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).standard_normal((n, 6)) / 3
    cuts = [0.0] if classes == 2 else [-0.3, 0.3]
    return X, np.digitize(X.sum(axis=1), cuts)


def fitted(kind: Any = FeatureStackingClassifier, classes: int = 2, **options: Any) -> Any:
    groups = {} if kind is SampleStackingClassifier else {"n_groups": 2}
    stack = kind(1.0, classes=range(classes), **{**groups, **options}).fit(*rows(classes))
    stack.feature_names_in_ = np.array(NAMES, dtype=object)
    return stack


VARIANTS = {
    "stack": {},
    "three classes": {"classes": 3},
    "published": {"pipeline": "published"},
    "sum": {"combiner": "sum"},
    "vote of three": {"combiner": "vote", "classes": 3},
    "one model": {"combiner": 1},
    "shared": {"levels": "shared"},
    "no intercept": {"fit_intercept": False},
    "importance": {"importance": [5, 4, 3, 2, 1, 0]},
    "rows": {"kind": SampleStackingClassifier},
    "source": {"kind": TransferSourceClassifier},
    "published source": {"kind": TransferSourceClassifier, "pipeline": "published"},
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("variant", VARIANTS)
def test_bit_for_bit(tmp_path: Path, variant: str) -> None:
    options = VARIANTS[variant]
    stack = fitted(**options)
    X, _ = rows(options.get("classes", 2))
    save_stack(stack, tmp_path / "a")
    released = load_stack(tmp_path / "a")
    assert released.privacy_ == stack.privacy_
    for model, other in zip(released.low_level_, stack.low_level_, strict=True):
        assert model.coef_.tobytes() == other.coef_.tobytes()
        assert model.columns.tolist() == other.columns.tolist()
        assert (model.share, model.data_norm) == (other.share, other.data_norm)
        assert model.privacy_ == other.privacy_
    for method in ("decision_function", "predict_proba", "predict"):
        expected = getattr(stack, method)(X)
        np.testing.assert_array_equal(getattr(released, method)(X), expected)
    np.testing.assert_allclose(
        released.predict_proba(sparse.coo_array(X)), stack.predict_proba(X), rtol=1e-12
    )
    assert released.released_on == stack.released_on_
    save_stack(released, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_loaded_stack_cannot_be_changed_and_checks_rows(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    save_stack(fitted(), tmp_path / "m")
    released = load_stack(tmp_path / "m")
    with pytest.raises(ValueError, match="read-only"):
        released.low_level_[0].coef_[0, 0] = 0
    X, _ = rows()
    released.predict(pandas.DataFrame(X, columns=NAMES))
    for bad in (pandas.DataFrame(X, columns=NAMES[::-1]), X[:, :5], X[0], X * np.nan):
        with pytest.raises(InvalidParameterError, match="X must be"):
            released.predict(bad)


def test_neither_kind_of_file_is_taken_for_the_other(tmp_path: Path) -> None:
    save_stack(fitted(), tmp_path / "m")
    with pytest.raises(ModelFileError, match="the schema is 'privlr-stack'"):
        load_model(tmp_path / "m")
    with pytest.raises(InvalidParameterError, match="stack must be fitted"):
        save_stack(FeatureStackingClassifier(1.0), tmp_path / "n")


def seeded(file: dict[str, Any]) -> dict[str, Any]:
    file["content"]["models"][0]["privacy"].update(random_source="seeded", private=False)
    return file


ATTACKS = {
    "empty": lambda file: b"",
    "pickle": lambda file: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "truncated": lambda file: json.dumps(file).encode()[:-40],
    "tampered": lambda file: json.dumps(file).replace("replace_one", "replace_two").encode(),
    "other schema": lambda file: json.dumps({**file, "schema": "privlr-model"}).encode(),
    "later version": lambda file: json.dumps({**file, "version": 2}).encode(),
    "huge": lambda file: b" " * (_json_file.MAX_BYTES + 1),
    "extra content": replaced("run", "rm"),
    "extra in a model": replaced("models.0.run", "rm"),
    "extra in record": replaced("privacy.run", "rm"),
    "no models": replaced("models", []),
    "no columns": replaced("models.0.columns", []),
    "column of another": replaced("models.0.columns", [0, 1, 99]),
    "column twice": replaced("models.0.columns", [0, 0, 1]),
    "negative column": replaced("models.0.columns", [-1, 0, 1]),
    "few columns": replaced("models.0.columns", [0, 1]),
    "share of two": replaced("models.0.share", 2.0),
    "share of zero": replaced("models.0.share", 0.0),
    "bound of nothing": replaced("models.0.data_norm", 0.0),
    "bound of another": replaced("models.0.data_norm", 0.25),
    "whole bound too small": replaced("data_norm", 0.25),
    "infinite bound": replaced("data_norm", 1e300),
    "denied intercept": replaced("models.0.intercept", [7]),
    "text coefficient": replaced("models.0.coef.0.0", "0x1.8p+1"),
    "float coefficient": replaced("models.0.coef.0.0", 0.5),
    "two outputs": replaced("models.0.coef", [[1, 2, 3], [1, 2, 3]]),
    "no upper level": replaced("high_level", None),
    "wide upper level": replaced("high_level.coef", [[1, 2, 3]]),
    "unknown combiner": replaced("combiner", "mean"),
    "combiner of none": replaced("combiner", 9),
    "combiner below": replaced("combiner", "vote"),
    "other classes": replaced("classes", [0, 1, 2]),
    "same class": replaced("classes", [0, 0]),
    "same names": replaced("feature_names", ["x0"] * 6),
    "few features": replaced("n_features", 2),
    "step of three": replaced("models.0.privacy.lattice.step", 3.0),
    "unknown pipeline": replaced("privacy.pipeline", "paper"),
    "budget below its parts": replaced("privacy.epsilon", 1e-3),
    "negative budget": replaced("privacy.epsilon", -1.0),
    "negative part": replaced("models.0.privacy.epsilon", -1.0),
    "budget with a delta": replaced("privacy.delta", 0.5),
    "no charges": replaced("privacy.charges", []),
    "other relation": replaced("privacy.neighboring_relation", "none"),
    "slow fraction": replaced("privacy.charges.0.epsilon", "1e999999999"),
    "seeded but private": replaced("privacy.random_source", "seeded"),
    "private of seeded parts": lambda file: replaced("privacy.private", True)(
        json.loads(replaced("models.0.privacy.notes", ["seeded"])(seeded(file)))
    ),
    "private without a reason": replaced("privacy.private", False),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("stack") / "m.json"
    save_stack(fitted(), path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: dict[str, Any], name: str
) -> None:
    monkeypatch.setattr(_json_file, "MAX_BYTES", 2**20)
    path = tmp_path / "m.json"
    path.write_bytes(ATTACKS[name](json.loads(json.dumps(good))))
    with pytest.raises(ModelFileError, match="m.json"):
        load_stack(path)
    path.write_bytes(signed(good))
    load_stack(path)


def test_planted_bug_a_budget_below_the_sum_of_its_levels(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_stack(fitted(levels="shared"), path)
    good = json.loads(path.read_text())
    upper = good["content"]["high_level"]["privacy"]["epsilon"]
    assert 0.05 < upper < 0.2
    changes = {
        "sum of its levels": [("high_level.privacy.epsilon", 2 * upper)],
        "sum of its models": [("models.0.privacy.epsilon", 0.9)],
        "budget below the sum of its levels": [("privacy.charges.1.epsilon", "1/2")],
    }
    for reason, change in changes.items():
        file = json.loads(json.dumps(good))
        for where, value in change:
            file = json.loads(replaced(where, value)(file))
        path.write_bytes(signed(file))
        with pytest.raises(ModelFileError, match=reason):
            load_stack(path)


@pytest.mark.parametrize("exponent", [0, 40, 100, 200, 900])
def test_a_source_of_enormous_coefficients_gains_nothing(
    tmp_path: Path, good: dict[str, Any], exponent: int
) -> None:
    """The lattice grows with them and hides what rounding adds; beyond that they are refused."""
    path, ledger = tmp_path / "m.json", Ledger()
    content = json.loads(json.dumps(good))
    for model in content["content"]["models"]:
        model["privacy"]["lattice"]["step"] = 2.0**exponent
        model["coef"] = [[1 << 40] * len(model["columns"])]
    path.write_bytes(signed(content))
    source = load_stack(path)
    target = TransferStackingClassifier(1.0, source=source, classes=[0, 1], ledger=ledger)
    if exponent >= 200:
        with pytest.raises(InvalidParameterError, match="source"):
            target.fit(*rows())
        assert ledger.spent == 0
        return
    target.fit(*rows())
    assert target.privacy_.private
    for model in target.low_level_:
        record = model.privacy_
        step = record.lattice.step
        assert (
            step * record.lattice.scale * record.lattice.epsilon > record.certificate / record.kappa
        )
        assert np.isfinite(model.coef_).all()
