"""The card says what the record says, and nothing that was private."""

import datetime
import json
import pickle
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from privlr import PrivateLogisticRegression
from privlr.card import model_card
from privlr.exceptions import InvalidParameterError, PrivacyWarning
from privlr.model_file import load_model, save_model
from privlr.stacking import FeatureStackingClassifier, load_stack, save_stack
from privlr.vertical import VerticalLogisticRegression


def fitted(epsilon=1.0, names=None, classes=("no", "yes"), **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) / 4
    y = np.where(X[:, 0] > 0, classes[1], classes[0])
    rows = X if names is None else pd.DataFrame(X, columns=list(names))
    model = PrivateLogisticRegression(epsilon, classes=list(classes), **options)
    return model.fit(rows, y), X


def test_a_card_states_the_guarantee_in_three_forms():
    model, _ = fitted()
    card = model.card()
    facts = json.loads(card.json())
    assert facts["privacy"]["epsilon"] == 1
    assert facts["privacy"]["certificate"] == model.privacy_.certificate
    assert facts["privacy"]["random_source"] == "system"
    assert facts["privacy"]["n_samples"] == 300
    assert facts["released_on"] == datetime.datetime.now(datetime.UTC).date().isoformat()
    assert facts["warnings"] == []
    for text in (str(card), card._repr_html_()):
        assert "1-differential privacy" in text
        assert "one row is replaced by another" in text
        assert "more than 2.72 times" in text
        assert "at most 73.11 % of the time" in text  # e/(1 + e)
        assert "number of rows; number and names of columns" in text
        assert "Warning" not in text


@pytest.mark.parametrize(("epsilon", "warned"), [(10.0, False), (10.5, True)])
def test_a_large_epsilon_is_warned_of(epsilon, warned):
    card = fitted(epsilon)[0].card()
    assert ("Epsilon is above 10" in str(card)) is warned
    assert ("Epsilon is above 10" in card._repr_html_()) is warned
    assert bool(json.loads(card.json())["warnings"]) is warned


@pytest.mark.parametrize(
    ("epsilon", "factor", "often"),
    [(0.1, "1.11", "52.5 %"), (8.0, "2,981", "nearly always"), (1000.0, "e^1000", "nearly always")],
)
def test_numbers_are_rounded_against_the_reader(epsilon, factor, often):
    text = str(fitted(epsilon)[0].card())
    assert f"more than {factor} times" in text
    assert often in text


def test_a_seeded_model_claims_nothing():
    with pytest.warns(PrivacyWarning):
        card = fitted(random_state=0)[0].card()
    assert "**Warning.** This model is not private." in str(card)
    assert "-differential privacy" not in str(card)
    assert json.loads(card.json())["privacy"]["private"] is False


def test_a_card_holds_no_coefficient_and_no_row():
    model, X = fitted()
    forms = [str(model.card()), model.card()._repr_html_(), model.card().json()]
    forms.append(pickle.dumps(model.card()).decode("latin-1"))
    for value in [*model.coef_.ravel(), *model.intercept_, *X.ravel()[:100]]:
        shown = {repr(float(value)), f"{value:.6g}", float(value).hex()}
        assert not any(text in form for text in shown for form in forms)
        assert value.tobytes().decode("latin-1") not in forms[-1]


def test_names_cannot_write_html_or_leave_their_cell():
    evil = "<script>alert(1)</script>|`x`\n# [a](b)"
    model, _ = fitted(names=["a", evil, "c"], classes=("<b>no</b>", "yes"))
    page = model.card()._repr_html_()

    class Tags(HTMLParser):
        seen = set()

        def handle_starttag(self, tag, attrs):
            self.seen.add(tag)

    Tags().feed(page)
    assert Tags.seen == {"section", "h3", "p", "strong", "table", "tr", "th", "td"}
    for line in str(model.card()).splitlines():
        assert "<b>" not in line
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 3


def test_a_model_read_from_a_file_has_the_same_card(tmp_path):
    model, _ = fitted()
    save_model(model, tmp_path / "m.json")
    again = model_card(load_model(tmp_path / "m.json"))
    assert again.facts() == model.card().facts()
    assert str(again).startswith("# PrivateLogisticRegression\n")


def test_a_card_lists_the_columns_in_one_bounded_line():
    model, _ = fitted(names=["age", "dose", "weight, kg"])
    for text in (str(model.card()), model.card()._repr_html_()):
        assert "age; dose; weight, kg" in text
    many = tuple(f"{j} " + 250 * "x" for j in range(1000))
    shown = str(replace(model.card(), feature_names=many, classes=many))
    assert shown.count("; and 970 more") == 2
    assert "29 xx" in shown and "30 xx" not in shown
    assert max(map(len, shown.splitlines())) < 1500
    assert "Names of columns" not in str(fitted()[0].card())


def test_the_card_of_a_stack_tells_the_bound_on_a_row(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    stack = FeatureStackingClassifier(1.0, n_groups=2, data_norm=2.5, classes=[False, True])
    stack.fit(X, X[:, 0] > 0)
    save_stack(stack, tmp_path / "m.json")
    again = load_stack(tmp_path / "m.json").card()
    assert str(again).startswith("# Stack of private models\n")
    for card in (stack.card(), again):
        assert "| Norm bound of a row | 2.5 |" in str(card)
        assert json.loads(card.json())["data_norm"] == 2.5
    assert str(fitted(data_norm=2.5)[0].card()).count("| Norm bound of a row | 2.5 |") == 1


PARTIES = {"epsilon": 4.0, "delta": 1e-5, "data_norm": 2.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"release": "shares"}, "Labels: disclosed to every party"),
        ({"label_epsilon": 1.0, "classes": [0, 1]}, "randomised once, at epsilon=1"),
        ({"neighboring_relation": "replace_part"}, "if one party's row of a sample is replaced"),
        ({"release": "statistics", "targets": "residuals"}, ", in the parties without labels"),
    ],
)
def test_a_vertical_fit_has_a_card_that_says_what_is_not_covered(options, said):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = VerticalLogisticRegression([[0, 1], [2, 3]], **PARTIES, **options)
    card = model.fit(X, (X[:, 0] > 0).astype(int)).card()
    epsilon = 4 + options.get("label_epsilon", 0)
    for text in (str(card), card._repr_html_(), card.json()):
        assert f"({epsilon:g}, 1e-05)-differential privacy" in text
        assert said in text.replace("&#x27;", "'")
        assert "Scores of later samples: " in text
    assert json.loads(card.json())["privacy"]["mechanism"] == options.get("release", "shares")


@pytest.mark.parametrize("options", [{}, {**PARTIES, "mechanism": "published"}])
def test_a_vertical_fit_without_a_guarantee_claims_none(options):
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = VerticalLogisticRegression([[0], [1]], max_iter=2, tol=0.0, **options)
    card = model.fit(X, X[:, 0] > 0).card()
    for text in (str(card), card._repr_html_(), card.json()):
        assert "None: this run is NOT private" in text
        assert "-differential privacy" not in text


def test_what_is_no_private_model_has_no_card():
    with pytest.raises(InvalidParameterError, match="model must be a fitted private model"):
        model_card(object())
