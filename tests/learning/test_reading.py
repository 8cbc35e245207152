"""Every value has a meaning: tables, labels, weights and categories are read by rules that no record can break."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from deniable.errors import InvalidArgument
from deniable.learning import (
    BinEncoder,
    CategoryEncoder,
    GeometricMedian,
    LinearRegression,
    LogisticRegression,
    Mean,
    RangeScaler,
    disclose_data_problems,
)
from deniable.learning.declared import Declared
from deniable.learning.reading import numbers, read_columns, read_labels, read_rows, read_weights
from deniable.learning.table import exact_sum
from tests.laws.neighbours import hostile


def objects(values: Any) -> np.ndarray:
    return np.fromiter(values, dtype=object)


def test_every_hostile_value_is_a_number_or_none() -> None:
    """One value at a time, and all together: what one is does not depend on the others."""
    values = list(hostile.ANY.values())
    alone = [float(numbers(objects([value]))[0]) for value in values]
    assert np.array_equal(numbers(objects(values)), np.array(alone), equal_nan=True)
    assert not np.isinf(alone).any()


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0), (-0.0, 0.0), (True, 1.0), (np.bool_(True), 1.0), (np.float32(0.5), 0.5),
        (np.uint64(2**64 - 1), 2.0**64),
        (Decimal("1.5"), 1.5), (Fraction(1, 4), 0.25), (2 + 0j, 2.0), ("1.5", 1.5), (" -2e3 ", -2000.0), (b"7", 7.0),
        ("True", 1.0), ("False", 0.0), (1e308, 1e308), (5e-324, 5e-324),
    ],
)  # fmt: skip
def test_what_is_a_number(value: Any, number: float) -> None:
    assert numbers(objects([value])).tolist() == [number]


def test_types_of_columns_agree_with_their_values() -> None:
    """A typed column means what its values mean one by one."""
    columns: list[Any] = [
        np.array([1, 2], dtype=np.int8), np.array([1.5, np.inf]), np.array([True, False]), np.array(["1", "x"]),
        np.array([b"1", b"x"]), np.array([1 + 0j, 2j]), np.array(["2020-01-01", "NaT"], dtype="M8[ns]"),
        np.array([1, 2], dtype="m8[s]"), np.array(["1", "x"], dtype=np.dtypes.StringDType()),
    ]  # fmt: skip
    for column in columns:
        one_by_one = numbers(objects([column[0], column[1]]))
        assert np.array_equal(numbers(column), one_by_one, equal_nan=True)


def test_frames_lists_and_arrays_are_one_table() -> None:
    plain = np.array([[1.0, 0.0], [2.0, 5.0], [0.0, 1.0]])
    columns = {"a": [1, 2, None], "b": ["x", "5", True]}
    tables = [
        pd.DataFrame(columns),
        pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64"), "b": pd.Series(["x", "5", True], dtype=object)}),
        pl.DataFrame({"a": [1, 2, None], "b": ["x", "5", "True"]}),
        pa.table({"a": [1, 2, None], "b": ["x", "5", "True"]}),
        [[1, "x"], (2, "5"), [None, True]],
        [np.array([1.0, np.nan]), [2, 5, 7, 9], [[], 1]],
        [[1, 0], [2, 5], [None, 1], None, "row", 7, {"a": 1}][:3],
        np.array([[1, "x"], [2, "5"], [None, True]], dtype=object),
        np.ma.masked_array([[1, 7], [2, 5], [7, 1]], mask=[[0, 1], [0, 0], [1, 0]]),
        objects([[1, 0], [2, 5], [None, 1]]),
    ]
    for table in tables:
        assert read_rows(None, table, reset=True, declared=[(0, 1), (0, 1)]).tolist() == plain.tolist()
    coordinates = ([1, np.nan, 2, 5, np.inf, 0.5, 0.5], ([0, 0, 1, 1, 2, 2, 2], [0, 1, 0, 1, 0, 1, 1]))
    found = read_rows(None, sparse.coo_array(coordinates, shape=(3, 2)), reset=True, sparse=True)
    assert found.toarray().tolist() == plain.tolist()


def test_rows_of_lists_that_are_none() -> None:
    rows = [[1, 2], None, "ab", {"a": 1}, [3], [4, 5]]
    assert read_rows(None, rows, reset=True, declared=[(0, 1), (0, 1)]).tolist() == [
        [1, 2], [0, 0], [0, 0], [0, 0], [3, 0], [4, 5],
    ]  # fmt: skip
    assert read_rows(None, [], reset=True, declared=[(0, 1), (0, 1)]).shape == (0, 2)


@pytest.mark.parametrize("rows", [[], [[1.0, 2.0]], [[1.0], [1.0, 2.0]], [None], [1.0, 2.0], ([1.0], [2.0])])
def test_lists_are_refused_alike_where_nothing_says_their_columns(rows: Any) -> None:
    """Each row says its own length; a tie between two lengths was decided by one record."""
    for table in (rows, objects(rows)):
        for model in (LogisticRegression(epsilon=1, data_norm=1, classes=[0, 1]), RangeScaler(bounds=(0, 1))):
            with pytest.raises(InvalidArgument) as refusal:
                model.fit(table, [0] * len(rows))
            assert "got X='a list of rows'" in str(refusal.value)


def test_what_is_no_table_is_refused_by_its_kind() -> None:
    for wrong in (
        None,
        7,
        "ab",
        {"a": [1]},
        {1, 2},
        np.zeros(3),
        np.zeros((2, 2, 2)),
        np.zeros((2, 0)),
        [],
        [1, 2],
        np.array(1),
    ):
        with pytest.raises(InvalidArgument, match="X must be"):
            read_columns(wrong)
    for frame in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame([[1, 2]], columns=["a", 1])):
        with pytest.raises(InvalidArgument, match="X must be"):
            RangeScaler(bounds=(0, 1)).fit(frame)


def test_labels_and_weights_beside_a_table() -> None:
    for wrong in (None, "ab", 7, np.zeros((3, 2)), np.zeros(2), [1, 2], {"a": 1}, pd.DataFrame({"a": [1], "b": [2]})):
        with pytest.raises(InvalidArgument, match="y must be") as caught:
            read_labels(wrong, 3)
        assert "3" not in str(caught.value)
    assert read_labels(pd.array([1, None, 3], dtype="Int64"), 3).tolist()[::2] == [1, 3]
    weights = read_weights([0.5, "0.25", 7, -1, None, math.nan, math.inf, [1], 1j], 9)
    assert weights is not None
    assert weights.tolist() == [0.5, 0.25, 1, 0, 0, 0, 0, 0, 0]
    assert read_weights(0.5, 2) is not None
    assert read_weights(None, 2) is None


def test_declared_values_match_by_meaning() -> None:
    known = Declared("categories", ["a", "2", "True"])
    values = ["a", 2, 2.0, "2", "02", True, 1, "1", 1.0, b"a", np.str_("a"), np.int8(2), "A", None, math.nan, [2], "b"]
    assert known.codes(objects(values)).tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 1, -1, -1, -1, -1, -1]
    for column, codes in (
        (np.array([2, 1, 3]), [1, 2, -1]), (np.array([2.0, np.nan, 1.0]), [1, -1, 2]), (np.array(["2", "a"]), [1, 0]),
        (np.array([True, False]), [2, -1]), (np.array(["2020"], dtype="M8[Y]"), [-1]), (np.array([2 + 0j]), [1]),
    ):  # fmt: skip
        assert known.codes(column).tolist() == codes
    long = Declared("categories", [2**53, 2**53 + 1])
    assert long.codes(objects([2**53 + 1, str(2**53), 2**53 + 2])).tolist() == [1, 0, -1]
    spelled = Declared("categories", ["7", "007"])
    assert spelled.codes(objects(["007", "7", 7, "07"])).tolist() == [1, 0, 0, -1]
    values = list(hostile.ANY.values())
    alone = [int(known.codes(objects([value]))[0]) for value in values]
    assert known.codes(objects(values)).tolist() == alone


def test_one_word_changes_no_other_label() -> None:
    """A word among numbers makes text of them; the same classes are found."""
    known = Declared("classes", [0, 1, 1.5])
    mixed = np.array([0, 1, 1.5, "secret"])
    assert mixed.dtype.kind == "U"
    assert known.codes(mixed).tolist() == [0, 1, 2, -1]


def test_encoders_take_everything() -> None:
    values = objects(hostile.ANY.values())[:, None]
    for encoder in (RangeScaler(bounds=(0, 1)), BinEncoder(edges=[[0, 1]]), CategoryEncoder(categories=[["a", 1]])):
        found = encoder.fit_transform(values)
        assert np.isfinite(found).all()
        one_by_one = [encoder.transform(values[i : i + 1])[0].tolist() for i in range(len(values))]
        assert found.tolist() == one_by_one
        assert encoder.transform(values[:0]).shape == (0, found.shape[1])
    assert RangeScaler(bounds=(2, 4)).fit_transform(objects([np.nan, np.inf, 9, "3"])[:, None]).ravel().tolist() == [
        0,
        0,
        1,
        0,
    ]


def test_encoders_say_what_they_need() -> None:
    wrong = [
        *(
            RangeScaler(bounds=bounds)
            for bounds in (5, (-1e308, 1e308), (0, 1e-300), (0, 10**400), [("a", "b")], (0, None))
        ),
        *(BinEncoder(edges=edges) for edges in (5, "a", [["a"]], [[[1]]], [5], [[10**400]], [[np.nan]], {"a": [1]})),
        *(
            CategoryEncoder(categories=lists)
            for lists in (5, "a", [5], ["ab"], [[None]], [[[1]]], [[np.nan]], [["a", "a"]])
        ),
    ]
    for encoder in wrong:
        with pytest.raises(InvalidArgument):
            encoder.fit(np.ones((1, 1)))


def test_a_missing_coordinate_of_a_point_counts_as_the_center() -> None:
    rows = np.array([[1000.0, 50.0]] * 50)
    holed = rows.copy()
    holed[3] = np.nan
    for kind in (Mean, GeometricMedian):
        found = []
        for table in (holed, rows):
            from deniable.noise import InsecureSource

            model = kind(epsilon=5, delta=1e-6, data_norm=5, center=[1000, 50], size=50, source=InsecureSource(1))
            found.append(model.fit(table).location_)
        assert (found[0] == found[1]).all()


def test_scores_take_everything() -> None:
    rows = np.random.default_rng(1).normal(size=(200, 1))
    model = LogisticRegression(epsilon=20, delta=1e-6, data_norm=2, classes=[0, 1]).fit(rows, rows[:, 0] > 0)
    labels = objects([1 if x > 0 else 0 for x in rows[:, 0]])
    whole = model.score(rows, labels)
    assert whole == np.mean(model.predict(rows) == labels)
    labels[:20] = objects(list(hostile.ANY.values())[:20])
    assert 0 <= model.score(rows, labels) <= whole
    assert model.score(rows[:0], labels[:0]) == 0
    line = LinearRegression(epsilon=50, delta=1e-6, data_norm=3, label_bounds=(-3, 3)).fit(rows, rows[:, 0])
    from sklearn.metrics import r2_score

    weights = np.linspace(0, 1, 200)
    expected = r2_score(rows[:, 0], line.predict(rows), sample_weight=weights)
    assert line.score(rows, rows[:, 0], sample_weight=weights) == pytest.approx(expected)
    labels = rows[:, 0].astype(object)
    for value in hostile.ANY.values():
        labels[0] = value
        assert math.isfinite(line.score(rows, labels))
    assert line.score(rows[:0], labels[:0]) == 0


def test_the_holder_is_told_what_a_fit_does_not_tell() -> None:
    rows = objects([1.0, None, 9.0, "x", 0.5]).reshape(-1, 1)
    model = LogisticRegression(epsilon=1, data_norm=2.0, classes=["a", "b"])
    found = disclose_data_problems(model, rows, ["a", "b", "c", None, "a"], sample_weight=[1, 2, 0.5, -1, None])
    assert (found.rows, found.values_not_numbers, found.rows_shortened) == (5, 2, 1)
    assert (found.labels_not_counted, found.labels_moved, found.weights_changed) == (2, 0, 3)
    assert str(found).startswith("PRIVATE")
    assert repr(found).startswith("PRIVATE")
    line = LinearRegression(epsilon=1, data_norm=2.0, label_bounds=(0, 1))
    found = disclose_data_problems(line, sparse.csr_array([[1.0], [3.0]]), [5, np.nan])
    assert (found.rows_shortened, found.labels_not_counted, found.labels_moved) == (1, 1, 1)
    assert disclose_data_problems(Mean(data_norm=1, center=[10]), np.array([[10.5], [12.0]])).rows_shortened == 1
    assert disclose_data_problems(CategoryEncoder(categories=[["a"]]), np.array([["a"], ["b"]])).values_not_numbers == 1
    assert "PRIVATE" in (disclose_data_problems.__doc__ or "").upper()


def test_sums_of_any_number_of_blocks_do_not_wrap() -> None:
    """Nobody knows how many records there are. 2¹² blocks of 2⁵³ would wrap around; the cut moves nothing apart."""
    blocks = [np.array([2**53 - 1, -(2**53) + 1, 5])] * 2**12
    assert exact_sum(iter(blocks)).tolist() == [2**62, -(2**62), 5 * 2**12]
    assert exact_sum(iter(blocks[:3])).tolist() == [3 * (2**53 - 1), -3 * (2**53 - 1), 15]
    many = [np.array([2**50, -3])] * 2**11
    assert exact_sum(iter(many)).tolist() == [2**61, -3 * 2**11]
