"""The table of bad input, line by line, for every estimator: a clear error, or the answer that was asked for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.errors import DataError, InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.learning import (
    BinEncoder,
    CategoryEncoder,
    GeometricMedian,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    Mean,
    RangeScaler,
    Ridge,
)
from deniable.ledger import Ledger

N = 200
X = np.random.default_rng(6).normal(size=(N, 3))
Y = (X[:, 0] > 0).astype(int)
KINDS = [LogisticRegression, LinearSVC, LinearRegression, Ridge, Mean, GeometricMedian]
SUPERVISED = KINDS[:4]
CLASSIFIERS = KINDS[:2]


def make(kind: type, **changes: Any) -> Any:
    known: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5, "data_norm": 3.0}
    if kind in CLASSIFIERS:
        known["classes"] = [0, 1]
    if kind in (LinearRegression, Ridge):
        known["label_bounds"] = (-1, 2)
    return kind(**(known | changes))


def numbers(model: Any) -> np.ndarray:
    return np.ravel(model.location_ if hasattr(model, "location_") else model.coef_)


every = pytest.mark.parametrize("kind", KINDS)


@every
def test_nan_in_a_row(kind: type) -> None:
    rows = X.copy()
    rows[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        make(kind).fit(rows, Y)


@every
def test_infinity_in_a_row(kind: type) -> None:
    rows = X.copy()
    rows[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        make(kind).fit(rows, Y)


@pytest.mark.parametrize("kind", SUPERVISED)
def test_nan_in_a_label(kind: type) -> None:
    with pytest.raises((ValueError, DataError), match="NaN"):
        make(kind).fit(X, np.where(np.arange(N) == 5, np.nan, Y))


@every
def test_a_row_beyond_the_norm_is_clipped(kind: type) -> None:
    rows = X.copy()
    rows[0] *= 1e12
    assert np.isfinite(numbers(make(kind).fit(rows, Y))).all()


@every
def test_a_row_beyond_the_norm_is_refused_when_asked_beforehand(kind: type) -> None:
    rows = X.copy()
    rows[0] *= 1e12
    with pytest.raises(DataError, match=r"longer than data_norm=3; .* beyond='clip'"):
        make(kind, beyond="refuse").fit(rows, Y)


@every
def test_constant_columns(kind: type) -> None:
    assert np.isfinite(numbers(make(kind).fit(np.ones((N, 3)), Y))).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_class_in_the_data(kind: type) -> None:
    model = make(kind, epsilon=20.0).fit(X, np.ones(N, dtype=int))
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, np.ones(N)) > 0.9


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_one_declared_class(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="two or more different labels"):
        make(kind, classes=[1]).fit(X, np.ones(N, dtype=int))


@every
def test_one_record(kind: type) -> None:
    assert np.isfinite(numbers(make(kind).fit(X[:1], Y[:1]))).all()
    assert np.isfinite(numbers(make(kind, relation="replace").fit(X[:1], Y[:1]))).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_undeclared_labels(kind: type) -> None:
    with pytest.raises(DataError, match="not in `classes`"):
        make(kind).fit(X, Y + 40)


@every
def test_epsilon_infinity_is_the_fit_without_privacy(kind: type) -> None:
    model = make(kind, epsilon=math.inf).fit(X, Y)
    assert model.event_ is None
    assert (numbers(model) == numbers(make(kind, epsilon=math.inf).fit(X, Y))).all()
    if kind is Mean:
        assert numbers(model) == pytest.approx(clipped().mean(axis=0), abs=1e-3)
    if kind is GeometricMedian:
        unit = (numbers(model) - clipped()) / np.linalg.norm(numbers(model) - clipped(), axis=1)[:, None]
        assert np.linalg.norm(unit.sum(axis=0)) < 0.1


def clipped() -> np.ndarray:
    return X / np.maximum(1, np.linalg.norm(X, axis=1) / 3)[:, None]


@every
def test_epsilon_infinity_is_refused_by_a_ledger(kind: type, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "people.ledger", unit="row", budget=ApproxDP(4, 1e-4)) as ledger:
        with pytest.raises(InvalidArgument, match="finite where a ledger"):
            make(kind, epsilon=math.inf, ledger=ledger).fit(X, Y)
        assert list(ledger.charges()) == []


@every
def test_wrong_shapes(kind: type) -> None:
    with pytest.raises(ValueError, match="Reshape your data"):
        make(kind).fit(X[0], Y[:3])
    with pytest.raises(ValueError, match="0 sample"):
        make(kind).fit(X[:0], Y[:0])
    with pytest.raises(InvalidArgument, match="as long as X") as caught:
        make(kind).fit(X, Y, sample_weight=np.ones(N - 1))
    assert str(N) not in str(caught.value)


@pytest.mark.parametrize("kind", SUPERVISED)
def test_labels_of_another_length(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="as long as X") as caught:
        make(kind).fit(X, Y[:-1])
    assert str(N) not in str(caught.value)
    assert str(N - 1) not in str(caught.value)


@every
def test_another_number_of_columns_when_predicting(kind: type) -> None:
    model = make(kind).fit(X, Y)
    if hasattr(model, "predict"):
        with pytest.raises(ValueError, match="2 features"):
            model.predict(X[:, :2])


@every
def test_zero_out_is_not_offered(kind: type) -> None:
    with pytest.raises(InvalidArgument, match="relation"):
        make(kind, relation="zero_out").fit(X, Y)


ENCODERS = [RangeScaler(bounds=(0, 1)), BinEncoder(edges=[[0.5]]), CategoryEncoder(categories=[["a"]])]


@pytest.mark.parametrize("model", [*(make(kind) for kind in KINDS), *ENCODERS], ids=lambda model: type(model).__name__)
def test_a_column_in_place_of_a_table_is_not_quoted(model: Any) -> None:
    """scikit-learn's own message prints the array."""
    with pytest.raises(InvalidArgument, match="Reshape your data") as caught:
        model.fit(np.array([0.123456, 0.25]), [0, 1])
    assert "0.123456" not in str(caught.value)
