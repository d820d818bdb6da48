"""Loaders: shapes, public scalings, and what is said where data is missing."""

from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets as sklearn_datasets

from privlr import datasets


def check(data: datasets.Dataset, train: tuple[int, int], test: tuple[int, int]) -> None:
    assert data.X_train.shape == train
    assert data.X_test.shape == test
    assert data.y_train.shape == train[:1]
    assert data.y_test.shape == test[:1]
    assert len(np.unique(data.y_train)) == 2
    for X in (data.X_train, data.X_test):
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        norms = np.sqrt(squares.sum(axis=1))
        assert norms.max() <= data.data_norm * (1 + 1e-6)
        assert norms.max() > data.data_norm * 0.5
    if data.feature_names is not None:
        assert len(data.feature_names) == train[1]


def test_digits_need_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVLR_DATA", raising=False)
    check(datasets.load_digits(), (1297, 64), (500, 64))


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("mnist_0_8", (11774, 784), (1954, 784)),
        ("a9a", (32561, 123), (16281, 123)),
        ("news20", (4321, 13051), (2876, 13051)),
        ("gisette_like", (6000, 5000), (1000, 5000)),
        ("diabetes130", (55976, 49), (13994, 49)),
    ],
)
def test_local_files(name: str, train: tuple[int, int], test: tuple[int, int]) -> None:
    check(getattr(datasets, f"load_{name}")(), train, test)


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
def test_diabetes_sites_and_labels() -> None:
    data = datasets.load_diabetes130("readmit30")
    assert data.X_train.shape[1] == 50
    assert data.groups_train is not None
    assert np.unique(data.groups_train).tolist() == list(range(17))


@pytest.mark.parametrize("name", ["gisette_like", "diabetes130"])
def test_missing_file_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVLR_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"{name}.*PRIVLR_DATA"):
        getattr(datasets, f"load_{name}")()


@pytest.mark.parametrize(
    ("name", "fetcher"),
    [
        ("mnist_0_8", "fetch_openml"),
        ("a9a", "fetch_openml"),
        ("news20", "fetch_20newsgroups_vectorized"),
    ],
)
def test_failing_network_is_explained(
    name: str, fetcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise URLError("no route to host")

    monkeypatch.delenv("PRIVLR_DATA", raising=False)
    monkeypatch.setattr(sklearn_datasets, fetcher, fail)
    with pytest.raises(OSError, match=r"no route to host.*PRIVLR_DATA"):
        getattr(datasets, f"load_{name}")()


def test_other_shape_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVLR_DATA", str(tmp_path))
    part = {"X_train": np.ones((3, 784)), "y_train": [0, 8, 8]}
    np.savez(tmp_path / "mnist_0_8.npz", **part, X_test=part["X_train"], y_test=part["y_train"])
    with pytest.raises(ValueError, match="shape"):
        datasets.load_mnist_0_8()
