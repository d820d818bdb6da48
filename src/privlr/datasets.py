"""The real data sets of the examples and benchmarks.

Each loader reads its file from the directory that the environment variable PRIVLR_DATA
names. Where that file is absent, a loader whose public original scikit-learn can fetch
fetches it (once; scikit-learn keeps a copy); the others say what is missing.

Scalings use only what is public: the range of a pixel, the number of one-hot groups,
or the row itself. None looks at other rows.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import datasets as sklearn_datasets

__all__ = [
    "Dataset",
    "load_a9a",
    "load_diabetes130",
    "load_digits",
    "load_gisette_like",
    "load_mnist_0_8",
    "load_news20",
]

ENVIRONMENT = "PRIVLR_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and labels, split into a training and a test part.

    Attributes
    ----------
    X_train, X_test : ndarray or csr_array of shape (n_samples, n_features)
        Rows, float64 or float32.
    y_train, y_test : ndarray of shape (n_samples,)
        Integer labels.
    data_norm : float
        A public bound on the norm of every row, known without looking at the rows.
    feature_names : tuple of str or None
        Names of the columns, where they have any.
    groups_train, groups_test : ndarray of shape (n_samples,) or None
        The site each row comes from, where rows come from several.
    """

    X_train: Any
    y_train: NDArray[np.int64]
    X_test: Any
    y_test: NDArray[np.int64]
    data_norm: float
    feature_names: tuple[str, ...] | None = None
    groups_train: NDArray[np.int64] | None = None
    groups_test: NDArray[np.int64] | None = None


def load_digits() -> Dataset:
    """Handwritten digits, even (0) against odd (1), from the set that ships with scikit-learn.

    Returns
    -------
    Dataset
        1,297 training and 500 test rows of 64 pixels, each row scaled to norm 1.
    """
    X, y = sklearn_datasets.load_digits(return_X_y=True)
    _require_shape("digits", X, (1797, 64))
    X, y = _unit_rows(X), (y % 2).astype(np.int64)
    return Dataset(X[:-500], y[:-500], X[-500:], y[-500:], data_norm=1.0)


def load_mnist_0_8() -> Dataset:
    """MNIST digits 0 and 8, from ``mnist_0_8.npz`` or OpenML.

    Returns
    -------
    Dataset
        11,774 training and 1,954 test rows of 784 pixels, each row scaled to norm 1;
        labels 0 and 8.
    """
    path = _local("mnist_0_8.npz")
    if path is not None:
        with np.load(path) as file:
            parts = [file[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    else:
        images, digits = _fetched(
            lambda: sklearn_datasets.fetch_openml(
                "mnist_784", version=1, return_X_y=True, as_frame=False
            )
        )
        digits = digits.astype(np.int64)
        kept = np.isin(digits, (0, 8))
        train = kept & (np.arange(len(digits)) < 60_000)
        test = kept & ~train
        parts = [images[train], digits[train], images[test], digits[test]]
    X_train, y_train, X_test, y_test = parts
    _require_shape("MNIST 0/8", X_train, (11774, 784))
    _require_shape("MNIST 0/8", X_test, (1954, 784))
    return Dataset(
        _unit_rows(X_train), _labels(y_train), _unit_rows(X_test), _labels(y_test), data_norm=1.0
    )


def load_a9a() -> Dataset:
    """UCI Adult in LIBSVM's binary coding, from ``a9a.xz`` and ``a9a.t.xz`` or OpenML.

    Returns
    -------
    Dataset
        32,561 training and 16,281 test rows (CSR) of 123 binary features; labels -1 and 1.
        A row has at most 14 ones, one for each attribute of the census form.
    """
    paths = _local("a9a.xz"), _local("a9a.t.xz")
    if paths[0] is not None and paths[1] is not None:
        (X_train, y_train), (X_test, y_test) = (
            sklearn_datasets.load_svmlight_file(
                BytesIO(lzma.decompress(path.read_bytes())), n_features=123
            )
            for path in paths
            if path is not None
        )
    else:
        X, y = _fetched(
            lambda: sklearn_datasets.fetch_openml("a9a", version=1, return_X_y=True, as_frame=False)
        )
        X, y = sparse.csr_array(X), y.astype(np.float64)
        X_train, y_train, X_test, y_test = X[:32561], y[:32561], X[32561:], y[32561:]
    _require_shape("a9a", X_train, (32561, 123))
    _require_shape("a9a", X_test, (16281, 123))
    return Dataset(
        sparse.csr_array(X_train),
        _labels(y_train),
        sparse.csr_array(X_test),
        _labels(y_test),
        data_norm=float(np.sqrt(14)),
    )


def load_news20() -> Dataset:
    """20 Newsgroups, sci.* (+1) against talk.* (-1), repeated documents left out.

    Returns
    -------
    Dataset
        Rows (CSR) of norm 1. From ``news20_sci_talk_tfidf.npz``: 4,321 training and 2,876
        test rows of 13,051 tf-idf weights. From scikit-learn's copy: normalised counts of
        130,107 words, repeats kept.
    """
    path = _local("news20_sci_talk_tfidf.npz")
    if path is not None:
        with np.load(path) as file:
            X = sparse.csr_array(
                (
                    file["data"].astype(np.float64),
                    file["indices"].astype(np.int32),
                    file["indptr"].astype(np.int32),
                ),
                shape=tuple(file["shape"]),
            )
            y, names = _labels(file["y"]), tuple(file["vocab"].tolist())
            train = file["is_train"] & ~file["is_dup"]
            test = ~file["is_train"] & ~file["is_dup"]
        _require_shape("20 Newsgroups", X, (7205, 13051))
        return Dataset(_unit_rows(X[train]), y[train], _unit_rows(X[test]), y[test], 1.0, names)
    parts: list[Any] = []
    for subset in ("train", "test"):
        bunch = _fetched(partial(sklearn_datasets.fetch_20newsgroups_vectorized, subset=subset))
        fields = np.array([name.split(".")[0] for name in bunch.target_names])[bunch.target]
        kept = np.isin(fields, ("sci", "talk"))
        parts += [_unit_rows(sparse.csr_array(bunch.data)[kept])]
        parts += [np.where(fields[kept] == "sci", 1, -1)]
    X_train, y_train, X_test, y_test = parts
    return Dataset(X_train, y_train, X_test, y_test, 1.0)


def load_gisette_like() -> Dataset:
    """A set made like GISETTE: MNIST 4 against 9, pixels, products of pixels, and probes.

    Returns
    -------
    Dataset
        6,000 training and 1,000 test rows of 5,000 features (float32), each row scaled to
        norm 1; labels -1 and 1. Only from ``gisette_like_mnist4v9.npz``.
    """
    with np.load(_required("gisette_like_mnist4v9.npz")) as file:
        X_train, X_test = file["XT_train"].T, file["XT_valid"].T
        y_train, y_test = _labels(file["y_train"]), _labels(file["y_valid"])
    _require_shape("gisette-like", X_train, (6000, 5000))
    _require_shape("gisette-like", X_test, (1000, 5000))
    return Dataset(
        _unit_rows(X_train, np.float32), y_train, _unit_rows(X_test, np.float32), y_test, 1.0
    )


def load_diabetes130(label: str = "longstay") -> Dataset:
    """Hospital stays of diabetic patients (UCI Diabetes 130-US hospitals), with their sites.

    Parameters
    ----------
    label : {"longstay", "readmit_any", "readmit30"}, default="longstay"
        What to predict: a stay of five days or more (the feature ``time_in_hospital`` is
        then left out), a readmission, or one within 30 days.

    Returns
    -------
    Dataset
        69,970 rows (float32) of 49 or 50 features, of which every fifth is a test row; each
        feature divided by its public upper end and clipped to [0, 1]; labels 0 and 1; the site,
        0 for the main one and 1 to 16 for the branches. Only from ``diabetes130_17sites.npz``.
    """
    with np.load(_required("diabetes130_17sites.npz")) as file:
        X, y, site = file["X"], _labels(file[f"y_{label}"]), file["site"].astype(np.int64)
        names = tuple(file["feature_names"].tolist())
    _require_shape("diabetes130", X, (69970, 50))
    X = np.clip(X / np.array([_DIABETES_RANGE.get(name, 1) for name in names], np.float32), 0, 1)
    if label == "longstay":
        kept = [i for i, name in enumerate(names) if name != "time_in_hospital"]
        X, names = X[:, kept], tuple(names[i] for i in kept)
    test = np.arange(len(X)) % 5 == 4
    return Dataset(
        X[~test],
        y[~test],
        X[test],
        y[test],
        data_norm=float(np.sqrt(len(names))),
        feature_names=names,
        groups_train=site[~test],
        groups_test=site[test],
    )


#: Upper ends of the features that are not 0/1: a round number that the meaning of the
#: feature suggests, larger values being clipped.
_DIABETES_RANGE = {
    "age_mid": 100,
    "time_in_hospital": 14,
    "num_lab_procedures": 100,
    "num_procedures": 6,
    "num_medications": 50,
    "number_outpatient": 5,
    "number_emergency": 5,
    "number_inpatient": 5,
    "number_diagnoses": 16,
}


def _local(name: str) -> Path | None:
    directory = os.environ.get(ENVIRONMENT)
    path = Path(directory, name) if directory else None
    return path if path is not None and path.is_file() else None


def _required(name: str) -> Path:
    path = _local(name)
    if path is None:
        raise FileNotFoundError(
            f"{name} is not in the directory that the environment variable {ENVIRONMENT} names "
            f"({os.environ.get(ENVIRONMENT) or 'it is not set'}), and has no public original"
        )
    return path


def _fetched(fetch: Callable[[], Any]) -> Any:
    try:
        return fetch()
    except OSError as error:  # what urllib raises for a network that fails
        raise OSError(
            f"the data set could not be fetched ({error}); give the environment variable "
            f"{ENVIRONMENT} a directory that holds it"
        ) from error


def _require_shape(name: str, X: Any, shape: tuple[int, int]) -> None:
    if X.shape != shape:
        raise ValueError(f"the {name} data has shape {X.shape} instead of {shape}")


def _labels(y: Any) -> NDArray[np.int64]:
    return np.asarray(y).astype(np.int64)


def _unit_rows(X: Any, dtype: Any = np.float64) -> Any:
    """Scale each row, from nothing but itself, to norm 1; an empty row stays zero."""
    if sparse.issparse(X):
        norms = np.sqrt(X.multiply(X).sum(axis=1))
        return sparse.csr_array(X.multiply((1 / np.where(norms > 0, norms, 1))[:, None]))
    X = np.ascontiguousarray(X, dtype=dtype)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    X /= np.where(norms > 0, norms, 1)
    return X
