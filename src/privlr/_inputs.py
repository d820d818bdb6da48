"""What every estimator does with the rows, labels, weights and seeds that it is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from privlr._numeric import check_finite, numeric, refuse_masked
from privlr.design import well_formed
from privlr.exceptions import InvalidParameterError, PrivacyWarning
from privlr.mechanisms import RandomSource

__all__ = [
    "check_labels",
    "checked_rows",
    "checked_weights",
    "declared_classes",
    "encode_labels",
    "label_array",
    "random_generator",
    "random_source",
    "unchanged_if_refused",
    "validated",
]

Parameters = ParamSpec("Parameters")
Model = TypeVar("Model")
Result = TypeVar("Result")


def unchanged_if_refused(
    fit: Callable[Concatenate[Model, Parameters], Result],
) -> Callable[Concatenate[Model, Parameters], Result]:
    """Leave an estimator as it was if its fit raises an error, or Ctrl-C ends it early.

    Otherwise such a refit would leave the new number of columns beside the old coefficients.

    Parameters
    ----------
    fit : callable
        A method.

    Returns
    -------
    callable
        The method, all or nothing.
    """

    @wraps(fit)
    def fitted(
        model: Model, /, *arguments: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        before = dict(vars(model))
        try:
            return fit(model, *arguments, **options)
        except BaseException as error:
            # What Ctrl-C ended may be kept, with a record of its own.
            kept = vars(model).get("privacy_") is not before.get("privacy_")
            if isinstance(error, Exception) or not kept:
                vars(model).clear()
                vars(model).update(before)
            raise

    return fitted


def check_labels(y: NDArray[Any]) -> None:
    """Refuse labels that are no classes.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.

    Raises
    ------
    InvalidParameterError
        Labels of several types, or what scikit-learn takes for something else than classes.
    """
    try:
        with _refusing("y", "of classes", y):
            check_classification_targets(y)
    except TypeError:  # from sorting them
        raise InvalidParameterError("y", "of labels of one type", "a mixture") from None


def declared_classes(classes: Any, y: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return the sorted classes that a caller declared, or those in y if they are public.

    Parameters
    ----------
    classes : sequence, or "public"
        The constructor's parameter, as given.
    y : ndarray of shape (n,) or None, default=None
        Needed for "public" only.

    Returns
    -------
    ndarray of shape (n_classes,)
        Sorted, each class once.

    Raises
    ------
    InvalidParameterError
        Fewer than two classes, repeated ones, numbers beside text, or none declared.
    """
    accepted = "the two or more possible labels, or 'public' if the labels in y are no secret"
    if isinstance(classes, str) and classes == "public":
        found = np.unique(np.asarray(y))
        if len(found) < 2:
            raise InvalidParameterError("y", "of at least two classes (not one class)", found)
        return found
    if classes is None or isinstance(classes, str):
        raise InvalidParameterError("classes", accepted, classes)
    try:
        given = np.asarray(classes)
        found = np.unique(given)
    except (TypeError, ValueError):
        raise InvalidParameterError("classes", accepted, classes) from None
    if given.dtype.kind == "U" and not all(isinstance(label, str) for label in classes):
        raise InvalidParameterError("classes", "of labels of one type", classes)
    if given.ndim != 1 or len(found) < 2 or len(found) != len(given):
        raise InvalidParameterError("classes", accepted, classes)
    return found


def encode_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return -1 and +1 for two classes, and class indices for more.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels.
    classes : ndarray of shape (n_classes,)
        Sorted.

    Returns
    -------
    ndarray of shape (n,), float64
        In the order of the rows.

    Raises
    ------
    InvalidParameterError
        y holds a label that is not among the classes.
    """
    try:
        index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        known = classes[index] == y
    except TypeError:
        known = np.zeros(1, dtype=bool)
    if not np.all(known):
        # The label itself is not shown: it is private.
        raise InvalidParameterError("y", f"among the classes {classes.tolist()}", "another label")
    return index.astype(np.float64) if len(classes) > 2 else 2.0 * index - 1.0


def checked_weights(
    sample_weight: ArrayLike | None, n_samples: int, bound: float
) -> NDArray[np.float64] | None:
    """Return weights as an array after checking them against their public bound.

    Parameters
    ----------
    sample_weight : array-like of shape (n,) or None
        Weights as given.
    n_samples : int
        Number of rows.
    bound : float
        Largest weight.

    Returns
    -------
    ndarray of shape (n,), float64, or None
        C-contiguous; None for None.

    Raises
    ------
    InvalidParameterError
        Wrong shape, a weight outside [0, bound] or masked, or none where `bound` is below 1.
    """
    refuse_masked(sample_weight=sample_weight)
    if sample_weight is None:
        if bound < 1:  # a row without a weight weighs 1
            raise InvalidParameterError(
                "sample_weight", f"given where max_sample_weight={bound:g} is below 1", None
            )
        return None
    accepted = f"{n_samples} numbers from 0 to max_sample_weight={bound:g}"
    if isinstance(sample_weight, str):
        raise InvalidParameterError("sample_weight", accepted, sample_weight)
    try:
        weights = np.ascontiguousarray(sample_weight)
        if weights.dtype.kind == "c":
            raise TypeError
        weights = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameterError("sample_weight", accepted, "something else") from None
    if weights.shape != (n_samples,):
        raise InvalidParameterError("sample_weight", accepted, f"shape {weights.shape}")
    if not ((weights >= 0) & (weights <= bound)).all():
        raise InvalidParameterError("sample_weight", accepted, "a weight outside")
    if not weights.any():
        raise InvalidParameterError("sample_weight", f"{accepted}, not all zero", "zeros")
    return weights


@contextmanager
def _refusing(name: str, accepted: str, given: Any) -> Iterator[None]:
    """Have scikit-learn and numpy refuse data by its name, and quote no value of it."""
    try:
        yield
    except InvalidParameterError:
        raise
    except (TypeError, ValueError) as error:
        # The values follow a colon or begin a new line.
        first, *rest = str(error).splitlines() or [""]
        if rest or first.startswith("could not convert"):
            advice = [line for line in rest if line.startswith("Reshape your data")]
            first = ". ".join([first.split(":")[0], *advice])
        if isinstance(error, TypeError):
            raise TypeError(f"{name}: {first}") from None
        shape = getattr(given, "shape", type(given).__name__)
        raise InvalidParameterError(name, f"{accepted} ({first})", shape) from None


def checked_rows(
    model: Any,
    X: Any,
    *,
    reset: bool = False,
    finite: bool = True,
    accept_sparse: Sequence[str] | bool = ("csr",),
) -> Any:
    """Pass rows through scikit-learn's validation.

    Parameters
    ----------
    model : estimator
        Whose columns these are.
    X : array-like, table or sparse matrix of shape (n, d)
        Rows, as given.
    reset : bool, default=False
        Whether to note the columns, as a fit does, or to compare them with those noted.
    finite : bool, default=True
        Whether to refuse NaN and infinities.
    accept_sparse : sequence of str or bool, default=("csr",)
        Sparse formats to return, False for none.

    Returns
    -------
    ndarray or csr_array of shape (n, d)
        float64 or float32; the input where it is that.

    Raises
    ------
    InvalidParameterError
        Not a matrix of numbers, indices out of range, or other columns than in the fit.
    TypeError
        Objects that are no numbers.
    """
    given, X = X, well_formed(numeric(X))
    with _refusing("X", "a numeric matrix", given):
        rows = check_array(
            X,
            accept_sparse=accept_sparse,
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            estimator=model,
            input_name="X",
        )
    try:
        validate_data(model, X, reset=reset, skip_check_array=True)
    except (TypeError, ValueError) as error:  # a TypeError for names of several types
        raise InvalidParameterError("X", f"of the model's columns ({error})", rows.shape) from None
    if finite:
        check_finite(rows)
    return rows


def label_array(y: Any) -> NDArray[Any]:
    """Return labels as a vector without gaps.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels, as given.

    Returns
    -------
    ndarray of shape (n,)
        Finite if they are numbers.

    Raises
    ------
    InvalidParameterError
        Not a vector, masked, missing or complex.
    """
    refuse_masked(y=y)
    with _refusing("y", "a label for each row", y):
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
    if labels.dtype.kind == "c":
        raise InvalidParameterError("y", "of labels; Complex data not supported", labels.dtype.name)
    return labels


def validated(model: Any, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Pass rows and labels through scikit-learn's validation, and note the columns.

    Parameters
    ----------
    model : estimator
        Gets `n_features_in_`, and `feature_names_in_` where the columns have names.
    X : array-like, table or sparse matrix of shape (n, d)
        Rows, as given. They may hold NaN or infinities.
    y : array-like of shape (n,)
        Labels, as given.

    Returns
    -------
    X : ndarray or csr_array of shape (n, d)
        float64 or float32; the input where it is that.
    y : ndarray of shape (n,)
        Finite if they are numbers.

    Raises
    ------
    InvalidParameterError
        As `checked_rows` and `label_array`, or they are not as many.
    TypeError
        Objects that are no numbers.
    """
    # What would come back as it is need not go there: that takes a third of a small fit.
    if (
        type(X) is type(y) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and X.size > 0
        and y.shape == X.shape[:1]
        and y.dtype.kind in "biuf"
        and np.isfinite(y).all()
    ):
        model.n_features_in_ = X.shape[1]
        vars(model).pop("feature_names_in_", None)
        return X, y
    rows, labels = checked_rows(model, X, reset=True, finite=False), label_array(y)
    with _refusing("y", f"of {rows.shape[0]} labels", labels):
        check_consistent_length(rows, labels)
    return rows, labels


def random_generator(random_state: Any) -> np.random.RandomState:
    """Return scikit-learn's generator for a seed.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState
        The constructor's parameter, as given.

    Returns
    -------
    numpy.random.RandomState
        That of `sklearn.utils.check_random_state`.

    Raises
    ------
    InvalidParameterError
        It is something else.
    """
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except (TypeError, ValueError):
        accepted = "None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
        raise InvalidParameterError("random_state", accepted, random_state) from None
    return generator


def random_source(random_state: Any) -> RandomSource:
    """Return the system's generator for None, else a seeded source and a warning.

    Parameters
    ----------
    random_state : None, int or numpy.random.RandomState
        The constructor's parameter, as given.

    Returns
    -------
    RandomSource
        Its `seed` is None for None.

    Raises
    ------
    InvalidParameterError
        It is something else.
    """
    if random_state is None:
        return RandomSource()
    words = random_generator(random_state).randint(0, 2**32, size=4, dtype=np.uint64)
    warnings.warn(
        "random_state is set, so the noise can be repeated and this model is NOT private; "
        "leave it at None except in tests",
        PrivacyWarning,
        stacklevel=4,  # beyond the fit and what wraps it
    )
    return RandomSource(seed=int.from_bytes(words.tobytes(), "little"))
