"""Model cards: what a released model says about itself, for people and for programs.

A card repeats the public record of a release. It is made from the record and the shape of the
model alone, so it can hold neither noise nor rows.
"""

from __future__ import annotations

import datetime
import html
import math
from dataclasses import dataclass
from typing import Any

import msgspec

from privlr.exceptions import InvalidParameterError

__all__ = ["ModelCard", "model_card", "plain_text"]

#: Above this a guarantee excludes next to nothing.
LARGE_EPSILON = 10.0
#: What is in a file; the class that was fitted is told where there is but one.
_KINDS = {"ReleasedModel": "PrivateLogisticRegression", "ReleasedStack": "Stack of private models"}
#: Most names that a card for people lists, and most letters of each.
_LISTED, _LETTERS = 30, 40

_RELATIONS = {
    "replace_one": "one row is replaced by another",
    "add_remove": "one row is added or removed",
    "replace_part": "one party's row of a sample is replaced by another",
}
#: Fields of a record in the order in which a reader wants them.
_LABELS = {
    "epsilon": "Epsilon",
    "delta": "Delta",
    "private": "Guarantee holds",
    "neighboring_relation": "Neighbouring relation",
    "n_samples": "Rows",
    "max_sample_weight": "Largest weight of a row",
    "R": "Norm bound of a row",
    "loss": "Loss",
    "pipeline": "Pipeline",
    "mechanism": "Mechanism",
    "features": "Features in training",
    "labels": "Labels",
    "scores": "Scores of later samples",
    "rounds": "Releases of each party",
    "mu": "Gaussian privacy (mu)",
    "sigma": "Noise (sigma)",
    "data_norm": "Norm bound of a row in each party",
    "calibration": "Calibration",
    "beta": "Noise rate (beta)",
    "kappa": "Ridge, sum form (kappa)",
    "certificate": "Certificate (gradient norm)",
    "lattice": "Lattice",
    "random_source": "Random source",
    "public": "Declared public",
    "charges": "Charges",
    "notes": "Notes",
}


@dataclass(frozen=True, eq=False)
class ModelCard:
    """The card of one released model; `str` gives Markdown, a notebook shows HTML.

    Attributes
    ----------
    kind : str
        Class of the model, or "Stack of private models" if it was read from a file.
    record : PrivacyRecord, StackRecord or VerticalRecord
        The record of the release.
    classes : tuple
        Class labels.
    n_features : int
        Number of columns.
    feature_names : tuple of str or None
        Names of the columns, where they have any.
    data_norm : float or None
        Bound on the norm of a row; None for parties, whose record has one for each.
    released_on : datetime.date or None
        Day of the fit (UTC); None if the model does not know it.
    """

    kind: str
    record: Any
    classes: tuple[Any, ...]
    n_features: int
    feature_names: tuple[str, ...] | None = None
    data_norm: float | None = None
    released_on: datetime.date | None = None

    @property
    def guarantee(self) -> str:
        """The guarantee in words, or that there is none."""
        if not self.record.private:
            return "None: this run is NOT private (see the notes)."
        epsilon, delta = float(self.record.epsilon), float(self.record.delta)
        what = f"{epsilon:g}-differential privacy"
        if delta:
            what = f"({epsilon:g}, {delta:g})-differential privacy"
        relation, *where = self.record.neighboring_relation.split(", ")
        change = ", ".join([_RELATIONS[relation], *where])
        text = (
            f"{what}: if {change}, no set of possible "
            f"outputs becomes more than {_factor(epsilon)} times as likely"
        )
        if delta:
            scope = getattr(self.record, "scope", "")  # of a vertical fit
            return f"{text}, plus {delta:g}. {scope}".rstrip()
        # Rounded up: it is a bound.
        share = math.ceil(1e4 / (1 + math.exp(-epsilon))) / 100
        often = f"at most {share:g} % of the time" if share < 99.9 else "possibly nearly always"
        return (
            f"{text}. Whoever sees the model and knows all other rows, and has to guess which "
            f"of two equally likely rows was used, is right {often}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must not overlook."""
        found = []
        if not self.record.private:
            found.append("This model is not private.")
        if (self.record.epsilon or 0) > LARGE_EPSILON:
            found.append(
                f"Epsilon is above {LARGE_EPSILON:g}: the guarantee alone excludes next to nothing."
            )
        return tuple(found)

    def facts(self) -> dict[str, Any]:
        """Return all that the card says, as plain values.

        Returns
        -------
        dict
            Keys are field names; values are what JSON knows: numbers, text, lists and dicts.
        """
        record = msgspec.to_builtins(self.record, enc_hook=str)
        return {
            "kind": self.kind,
            "guarantee": self.guarantee,
            "unit": "one row",
            "warnings": list(self.warnings),
            "released_on": None if self.released_on is None else self.released_on.isoformat(),
            "n_features": self.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "data_norm": self.data_norm,
            "classes": list(self.classes),
            "privacy": record,
        }

    def json(self) -> str:
        """Return the card as JSON.

        Returns
        -------
        str
            One object, with the keys of `facts`.
        """
        return msgspec.json.encode(self.facts()).decode()

    def _rows(self) -> list[tuple[str, str]]:
        facts = self.facts()
        shown = [
            ("Unit of privacy", facts["unit"]),
            ("Released on", facts["released_on"] or "not recorded"),
            ("Classes", _listed(self.classes)),
            ("Columns", str(self.n_features)),
            ("Names of columns", _listed(self.feature_names or ())),
        ]
        record = facts["privacy"]
        record.setdefault("R", self.data_norm)  # the record of a stack has none
        record.pop("n_classes", None)  # the classes themselves are shown
        ordered = [*_LABELS, *(name for name in record if name not in _LABELS)]
        shown += [
            (_LABELS.get(name, name), plain_text(record[name]))
            for name in ordered
            if name in record
        ]
        return [(label, text) for label, text in shown if text]

    def __str__(self) -> str:
        lines = [f"# {_markdown(self.kind)}", ""]
        for warning in self.warnings:
            lines += [f"> **Warning.** {warning}", ""]
        lines += [f"**Guarantee.** {self.guarantee}", "", "| | |", "| --- | --- |"]
        lines += [f"| {_markdown(label)} | {_markdown(text)} |" for label, text in self._rows()]
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        warned = "".join(
            f'<p style="color:#a40000"><strong>Warning.</strong> {html.escape(warning)}</p>'
            for warning in self.warnings
        )
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(label)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for label, text in self._rows()
        )
        return (
            f"<section><h3>{html.escape(self.kind)}</h3>{warned}"
            f"<p><strong>Guarantee.</strong> {html.escape(self.guarantee)}</p>"
            f"<table>{rows}</table></section>"
        )


def model_card(model: Any) -> ModelCard:
    """Make the card of a fitted estimator or of a model read from a file.

    Parameters
    ----------
    model : fitted estimator or ReleasedModel
        Whatever has ``classes_``, ``n_features_in_`` and ``privacy_``.

    Returns
    -------
    ModelCard
        Made of public facts only.

    Raises
    ------
    InvalidParameterError
        The model is not fitted, or not a private one.
    """
    try:
        classes, n_features, record = model.classes_, model.n_features_in_, model.privacy_
    except AttributeError:
        raise InvalidParameterError("model", "a fitted private model", type(model)) from None
    names = getattr(model, "feature_names_in_", None)
    return ModelCard(
        kind=_KINDS.get(type(model).__name__, type(model).__name__),
        record=record,
        classes=tuple(classes.tolist()),
        n_features=int(n_features),
        feature_names=None if names is None else tuple(names.tolist()),
        data_norm=getattr(model, "data_norm_", getattr(record, "R", None)),
        released_on=getattr(model, "released_on_", getattr(model, "released_on", None)),
    )


def _listed(names: tuple[Any, ...]) -> str:
    """Return names in one line of bounded length."""
    texts = [str(name) for name in names[:_LISTED]]
    shown = [text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…" for text in texts]
    more = len(names) - len(shown)
    return "; ".join([*shown, f"and {more} more"] if more > 0 else shown)


def _factor(epsilon: float) -> str:
    """Return exp(epsilon) as text, rounded up."""
    factor = math.exp(min(epsilon, 700.0))
    if factor < 100:
        return f"{math.ceil(100 * factor) / 100:g}"
    return f"{math.ceil(factor):,}" if factor < 1e9 else f"e^{epsilon:g}"


def plain_text(value: Any) -> str:
    """Return a field of a record as one line.

    Parameters
    ----------
    value : object
        What `msgspec.to_builtins` made of the field.

    Returns
    -------
    str
        For a reader; a charge as its label and epsilon, True and False as yes and NO.
    """
    if isinstance(value, dict):
        if "label" in value:  # a charge
            parts = [f"{value['label']}: epsilon {_number(value['epsilon'])}"]
            if value.get("delta", "0") != "0":
                parts.append(f"delta {_number(value['delta'])}")
            return ", ".join([*parts, *filter(None, [value.get("note")])])
        known = {name: entry for name, entry in value.items() if entry is not None}
        return ", ".join(f"{name} {plain_text(entry)}" for name, entry in known.items())
    if isinstance(value, list | tuple):
        return "; ".join(plain_text(entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(ratio: str) -> str:
    top, _, bottom = ratio.partition("/")
    return f"{int(top) / int(bottom or 1):.6g}"


def _markdown(text: str) -> str:
    """Return text that cannot leave its table cell, nor be read as HTML or a link."""
    text = html.escape(text, quote=False)
    for mark in "\\`*_[]|":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
