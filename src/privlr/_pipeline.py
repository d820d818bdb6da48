"""Transformers that learn from the private rows before a private estimator sees them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from privlr.exceptions import PrivacyWarning

__all__ = ["learned_steps", "preprocessing_notes"]


def learned_steps(step: Any, name: str = "") -> Iterator[str]:
    """Yield the transformers within a step that are fitted to rows.

    Parameters
    ----------
    step : transformer, pipeline, union or column transformer
        Those that scikit-learn's tag ``requires_fit`` frees learn nothing.
    name : str, default=""
        What leads to it.

    Yields
    ------
    str
        Name and class of each.
    """
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return
    for attribute in ("steps", "transformer_list", "transformers"):
        if hasattr(step, attribute):
            for inner, transformer, *_ in getattr(step, attribute):
                yield from learned_steps(transformer, inner)
            yield from learned_steps(getattr(step, "remainder", None), "remainder")
            return
    try:
        learns = get_tags(step).requires_fit
    except (AttributeError, TypeError):  # of no scikit-learn
        learns = True
    if learns:
        yield f"{name} ({type(step).__name__})"


def preprocessing_notes() -> tuple[str, ...]:
    """Warn, within a fit, of what a pipeline around it has learned from the same rows.

    An estimator is not told which pipeline it stands in, so the calls that lead here are
    looked at, as the warnings module does to find the line to blame. A pipeline in another
    process or thread is not seen.

    Returns
    -------
    tuple of str
        What the record has to say.
    """
    learned: list[str] = []
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name.startswith("fit"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, Pipeline):
                for name, step in owner.steps[:-1]:
                    learned += learned_steps(step, name)
        frame = frame.f_back
    if not learned:
        return ()
    note = f"not covered: steps of the pipeline fitted to the same rows: {', '.join(learned)}"
    warnings.warn(
        f"{note}; scale by public constants instead, as privlr.preprocessing does",
        PrivacyWarning,
        stacklevel=3,
    )
    return (note,)
