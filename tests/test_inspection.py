"""The commands that look at a model or at the installation, and the faults they must see."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from privlr import PrivateLogisticRegression, mechanisms
from privlr.audit import check_record
from privlr.cli import app
from privlr.exceptions import InvalidParameterError
from privlr.mechanisms import plan
from privlr.model_file import save_model
from privlr.privacy import Lattice
from privlr.stacking import (
    FeatureStackingClassifier,
    TransferSourceClassifier,
    TransferStackingClassifier,
    save_stack,
)
from privlr.vertical import VerticalLogisticRegression


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) / 3
    fitted = PrivateLogisticRegression(1.0, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
    save_model(fitted, tmp_path / "m.json")
    return tmp_path / "m.json"


def test_card(model, tmp_path):
    assert "Guarantee" in run("card", model).stdout
    facts = json.loads(run("card", model, "--json").stdout)
    assert facts["privacy"]["epsilon"] == 1
    for ending, start in (("md", "# PrivateL"), ("html", "<section>"), ("json", "{")):
        run("card", model, "--out", tmp_path / f"card.{ending}")
        assert (tmp_path / f"card.{ending}").read_text().startswith(start)
    assert ".md" in run("card", model, "--out", tmp_path / "card.doc", code=2).stderr
    run("card", tmp_path / "absent.json", code=2)


def test_audit_of_a_good_model(model):
    facts = json.loads(run("audit", model, "--json").stdout)
    assert all(check["passed"] for check in facts["checks"])
    assert "yes" in run("audit", model).stdout


@pytest.mark.parametrize("loss", ["logistic", "capped"])
@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_planned_records_pass(loss, relation, epsilon):
    planned = plan(
        epsilon, n_samples=500, width=7, data_norm=2.0, loss=loss, neighboring_relation=relation
    )
    assert all(c.passed for c in check_record(planned.record, n_coefficients=7))


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (lambda r: {"beta": 1.001 * r.beta}, "the exact cost is within epsilon"),
        (lambda r: {"epsilon": 0.99 * r.epsilon}, "the exact cost is within epsilon"),
        (lambda r: {"R": 1.01 * r.R}, "the exact cost is within epsilon"),
        (lambda r: {"certificate": 2 * r.certificate}, "the lattice noise covers the certificate"),
        (
            lambda r: {"lattice": Lattice(r.lattice.step, r.lattice.scale // 2, r.lattice.epsilon)},
            "the lattice noise covers the certificate",
        ),
        (
            lambda r: {"random_source": "seeded", "private": False, "notes": ("seeded",)},
            "the record claims a guarantee",
        ),
    ],
)
def test_planted_faults_in_a_record_are_seen(change, failed):
    record = plan(1.0, n_samples=500, width=7).record
    checks = check_record(replace(record, **change(record)), n_coefficients=7)
    assert failed in [check.name for check in checks if not check.passed]


def test_doctor():
    facts = json.loads(run("doctor", "--seconds", 0, "--json").stdout)
    assert facts["instruction_set"] in ("baseline", "x86-64-v3", "x86-64-v4")
    assert facts["numpy"] == np.__version__
    assert facts["entropy"] and facts["blas"] and facts["privlr"]
    assert len(facts["checks"]) == 4 and all(check["passed"] for check in facts["checks"])
    assert "Self-audit" in run("doctor", "--seconds", 0).stdout


def test_planted_bug_halved_noise_makes_doctor_fail(monkeypatch):
    sphere = mechanisms.noise.sphere

    def halved(*arguments):
        vector, radius = sphere(*arguments)
        return vector / 2, radius

    monkeypatch.setattr(mechanisms.noise, "sphere", halved)
    facts = json.loads(run("doctor", "--seconds", 0.5, "--json", code=1).stdout)
    assert [check["passed"] for check in facts["checks"]].count(False) == 1


def test_planted_bug_repeated_noise_makes_doctor_fail(monkeypatch):
    sphere, lattice = mechanisms.noise.sphere, mechanisms.noise.discrete_laplace
    fixed = bytes(32)
    monkeypatch.setattr(mechanisms.noise, "sphere", lambda d, rate, key: sphere(d, rate, fixed))
    monkeypatch.setattr(
        mechanisms.noise, "discrete_laplace", lambda n, scale, key: lattice(n, scale, fixed)
    )
    facts = json.loads(run("doctor", "--seconds", 0, "--json", code=1).stdout)
    failed = [check["name"] for check in facts["checks"] if not check["passed"]]
    assert "no two fits share their noise" in failed


def test_stacks_have_cards_and_are_audited(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4)) / 4
    stack = FeatureStackingClassifier(1.0, n_groups=2, classes=[0, 1], data_norm=1.0)
    save_stack(stack.fit(X, (X[:, 0] > 0).astype(int)), tmp_path / "s.json")
    assert json.loads(run("card", tmp_path / "s.json", "--json").stdout)["privacy"]["epsilon"] == 1
    assert "Guarantee" in str(stack.card())
    checks = json.loads(run("audit", tmp_path / "s.json", "--json").stdout)["checks"]
    assert all(check["passed"] for check in checks)
    assert {check["name"].split(":")[0] for check in checks} == {
        "model 0",
        "model 1",
        "upper level",
    }


@pytest.mark.parametrize("pipeline", ["privlr", "published"])
def test_source_and_target_have_cards_and_are_audited(tmp_path, pipeline):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4)) / 4
    y = (X[:, 0] > 0).astype(int)
    options = {"pipeline": pipeline, "classes": [0, 1]}
    if pipeline == "published":
        options["l2_reg_strength"] = 0.1
    source = TransferSourceClassifier(1.0, n_groups=2, **options).fit(X, y)
    target = TransferStackingClassifier(1.0, source=source, **options).fit(X, y)
    for name, stack, levels in (("source", source, 2), ("target", target, 3)):
        save_stack(stack, tmp_path / name)
        facts = json.loads(run("card", tmp_path / name, "--json").stdout)
        assert facts["privacy"]["epsilon"] == stack.privacy_.epsilon
        checks = json.loads(run("audit", tmp_path / name, "--json").stdout)["checks"]
        assert all(check["passed"] for check in checks)
        assert len({check["name"].split(":")[0] for check in checks}) == levels


def test_what_cannot_be_audited_or_saved_is_refused_by_name(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 2))
    vertical = VerticalLogisticRegression([[0], [1]], max_iter=2, tol=0.0).fit(X, X[:, 0] > 0)
    stack = FeatureStackingClassifier(1.0, n_groups=2, classes=[False, True]).fit(X, X[:, 0] > 0)
    for model in (vertical, stack):
        with pytest.raises(InvalidParameterError, match="record must be the PrivacyRecord of one"):
            check_record(model.privacy_, n_coefficients=2)
        with pytest.raises(InvalidParameterError, match="model must be one fitted or loaded"):
            save_model(model, tmp_path / "m.json")
    with pytest.raises(InvalidParameterError, match="stack must be fitted"):
        save_stack(vertical, tmp_path / "m.json")
    assert not (tmp_path / "m.json").exists()
    part = tmp_path / "part.json"  # what a site of a federation keeps
    part.write_text(json.dumps({"run": "first", "coef": [1.0], "record": {}}))
    for command in ("card", "audit"):
        assert "not a file of `privlr fit`" in run(command, part, code=2).stderr
