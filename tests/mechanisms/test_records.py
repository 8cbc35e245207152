"""Reading data: one record at a time, whatever the container, and never with an exception about a value. About 1
second."""

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
from hypothesis import given
from hypothesis import strategies as st

from deniable import mechanisms as dm
from deniable.errors import DataError, InvalidArgument
from deniable.mechanisms import grids, records
from deniable.mechanisms.base import round_up_text
from deniable.mechanisms.moments import moments
from deniable.noise import InsecureSource
from deniable.units import REPLACE

ODD: list[Any] = [
    1,
    2.5,
    None,
    math.nan,
    math.inf,
    True,
    "3",
    10**400,
    -(10**400),
    Decimal("0.5"),
    Fraction(1, 3),
    [],
    np.float32(4),
    np.True_,
]


@given(st.lists(st.sampled_from(range(len(ODD))), max_size=12), st.sampled_from(range(len(ODD))))
def test_how_a_record_is_read_does_not_depend_on_the_others(others: list[int], one: int) -> None:
    """A column parsed as a whole would let one record change all: this is the rule that the sensitivity rests on."""
    column = [ODD[i] for i in others] + [ODD[one]]
    alone = records.read_numbers([ODD[one]])[0]
    together = records.read_numbers(column)[-1]
    assert alone == together or (math.isnan(alone) and math.isnan(together))
    assert records.read_keys(column)[-1] == records.read_keys([ODD[one]])[0]
    assert records.read_flags(column)[-1] == records.read_flags([ODD[one]])[0]


def test_numbers_of_every_kind() -> None:
    found = records.read_numbers(ODD)
    assert found[:2].tolist() == [1, 2.5]
    assert np.isnan(found[[2, 3, 11]]).all()
    assert found[6] == 3
    assert found[[4, 7]].tolist() == [math.inf, math.inf]
    assert found[8] == -math.inf
    assert found[[5, 9, 12, 13]].tolist() == [1, 0.5, 4, 1]
    assert found[10] == pytest.approx(1 / 3)


@pytest.mark.parametrize("odd", ["seven", 3 + 4j, None, b"x", [], 10**400], ids=str)
def test_one_record_decides_no_dtype(odd: Any) -> None:
    """NumPy gives all values one type: text, complex numbers, objects. The other numbers are read as before."""
    try:
        column = np.array([1.5, 2.0, odd])
    except ValueError:
        column = np.array([1.5, 2.0, None])
        column[2] = odd
    assert records.read_numbers(column)[:2].tolist() == [1.5, 2.0]
    assert records.read_flags(np.array([True, False, odd], dtype=column.dtype))[:2].tolist() == [True, False]
    assert records.read_table(np.array([[1.5, 2.0], [2.5, 3.0]], dtype=column.dtype), columns=2)[0].tolist() == [
        1.5,
        2.0,
    ]


def test_dates_are_no_numbers() -> None:
    assert np.isnan(records.read_numbers(np.array(["2020", "NaT"], dtype="datetime64[ns]"))).all()
    assert np.isnan(records.read_numbers(pd.to_datetime(pd.Series(["2020-01-01", None])))).all()


def test_a_far_date_leaves_the_other_keys_as_they_are() -> None:
    """Python holds no year 290000, so the whole column cannot be listed."""
    seconds = [1_577_836_800, 10**13]
    for column in (pa.array(seconds, type=pa.timestamp("s")), pl.Series(seconds).cast(pl.Datetime("us"))):
        found = records.read_keys(column)
        assert len(found) == 2
        assert found[0] == records.read_keys(column[:1])[0]


CONTAINERS: list[Any] = [
    np.array([1.5, 2.0, np.nan]),
    np.ma.masked_array([1.5, 2.0, 9.0], mask=[False, False, True]),
    pd.Series([1.5, 2.0, None]),
    pd.array([1.5, 2.0, None], dtype="Float64"),
    pl.Series([1.5, 2.0, None]),
    pa.array([1.5, 2.0, None]),
    (1.5, 2.0, None),
    iter([1.5, 2.0, None]),
]


@pytest.mark.parametrize("column", CONTAINERS, ids=lambda c: type(c).__name__)
def test_containers(column: Any) -> None:
    found = records.read_numbers(column)
    assert found[:2].tolist() == [1.5, 2.0]
    assert math.isnan(found[2])


def test_tables_from_frames() -> None:
    frame = pd.DataFrame({"x": [0, 1, 1], "y": ["u", "v", None]})
    m = dm.contingency(attributes={"x": [0, 1], "y": ["u", "v"]}, epsilon=50)
    assert m(frame).tolist() == [[1, 0], [0, 1]]
    assert m(pl.from_pandas(frame)).tolist() == [[1, 0], [0, 1]]
    assert m(pa.Table.from_pandas(frame)).tolist() == [[1, 0], [0, 1]]
    assert m({"x": [0], "y": ["u"], "more": [1, 2, 3]}).tolist() == [[1, 0], [0, 0]]
    short = frame[["x"]]
    for bad in ({"x": [0]}, {"x": [0, 1], "y": ["u"]}, [1, 2], "text", short, pl.from_pandas(short),
                pa.Table.from_pandas(short)):  # fmt: skip
        with pytest.raises(DataError):
            m(bad)


def test_rows() -> None:
    assert records.read_table([[1, 2], (3, None), "ab", [1], 5, None], columns=2)[0].tolist() == [1, 2]
    found = records.read_table([[1, 2], (3, None), "ab", [1], 5, None], columns=2)
    assert np.isnan(found[2:]).all()
    assert math.isnan(found[1, 1])
    assert records.read_table(pd.DataFrame({"a": [1], "b": [2.5]}), columns=2).tolist() == [[1, 2.5]]
    with pytest.raises(DataError, match="2 numbers"):
        records.read_table(np.zeros((3, 4)), columns=2)


def test_keys_are_python_values() -> None:
    assert records.read_keys(np.array(["a", "b"])) == ["a", "b"]
    assert [type(k) for k in records.read_keys([np.int64(3), np.str_("x")])] == [int, str]
    assert records.read_keys([pd.NA, pd.NaT, np.datetime64("NaT")]) == [None, None, None]


@pytest.mark.parametrize("bad", [[], ["a", "a"], ["a", None], [math.nan], "abc", [1, True], [[1], [2]], 5, None])
def test_public_keys_are_different(bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="keys"):
        dm.histogram(keys=bad, epsilon=1)


@given(
    st.floats(allow_nan=False, allow_infinity=False, width=64),
    st.sampled_from([Fraction(1, 1024), Fraction(1), Fraction(8)]),
)
def test_vectors_and_numbers_round_alike(value: float, step: Fraction) -> None:
    """Half up, exactly: the fast way for arrays agrees with exact fractions."""
    exact = math.floor(Fraction(value) / step + Fraction(1, 2))
    assert grids.round_to_step(value, step) == exact
    assert grids.round_vector(np.array([value]), step, size=1) == [exact]


@pytest.mark.parametrize(
    "value", [0.49999999999999994, 0.5, -0.5, -0.5000000000000001, 2.0**52 + 1, 4503599627370497.5, -1e-20]
)
def test_halves(value: float) -> None:
    exact = math.floor(Fraction(value) + Fraction(1, 2))
    assert grids.round_vector(np.array([value]), Fraction(1), size=1) == [exact]


@given(st.floats(-1e9, 1e9), st.floats(0, 10), st.sampled_from([Fraction(1, 2**20), Fraction(1, 4), Fraction(1)]))
def test_rounding_moves_a_distance_by_less_than_a_step(x: float, distance: float, step: Fraction) -> None:
    y = x + distance
    apart = abs(Fraction(x) - Fraction(y)) / step
    assert abs(grids.round_to_step(x, step) - grids.round_to_step(y, step)) < apart + 1
    assert abs(grids.round_to_step(x, step) - grids.round_to_step(y, step)) <= math.ceil(apart)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_powers_are_below_and_close(value: Fraction) -> None:
    power = grids.power_below(value)
    assert power <= value < 2 * power


def test_bounds_far_from_zero_get_a_grid_that_floats_can_hold() -> None:
    m = dm.mean(bounds=(1e15, 1e15 + 100), size=3, epsilon=50, relation=REPLACE)
    assert abs(m([1e15 + 50] * 3) - (1e15 + 50)) <= m.error(1 - 1e-9)


@given(st.lists(st.integers(-(2**53), 2**53), max_size=600))
def test_moments_are_exact(values: list[int]) -> None:
    assert moments(np.array(values, dtype=np.int64)) == (sum(values), sum(v * v for v in values))


def test_no_message_shows_a_private_value() -> None:
    secret = "patient-4711"
    for m, data in (
        (dm.laplace(sensitivity=1, epsilon=1), [secret]),
        (dm.laplace(sensitivity=1, epsilon=1, dimension=2), [secret, secret, secret]),
        (dm.laplace(sensitivity=1, epsilon=1, dimension=2), {secret: 1}),
        (dm.exponential(candidates=2, sensitivity=1, epsilon=1), [secret, 1, 2]),
        (dm.count(epsilon=1), secret),
        (dm.mean(bounds=(0, 1), epsilon=1), {secret: 1}),
    ):
        with pytest.raises(DataError) as caught:
            m(data)
        assert secret not in str(caught.value)


def test_releases_of_the_same_words_are_the_same() -> None:
    m = dm.histogram(keys=["a", "b"], epsilon=1)
    assert m(["a"], source=InsecureSource(4)) == m(["a"], source=InsecureSource(4))


@pytest.mark.parametrize(
    ("value", "said"), [(5.991, "6"), (0.12345, "0.124"), (123456.0, "1.24e+05"), (0.0, "0"), (0.1, "0.1")]
)
def test_statements_round_up(value: float, said: str) -> None:
    assert round_up_text(value) == said
    assert float(said) >= value * (1 - 1e-9)


def test_a_number_of_a_list_is_read_by_itself() -> None:
    """In an array one float makes floats of all; a number beside it would move by more than its sensitivity."""
    large = 2**53 + 1
    assert grids.round_vector([large, 3], Fraction(1, 4), size=2)[0] == 4 * large
    assert grids.round_vector([large, 3.5], Fraction(1, 4), size=2) == [4 * large, 14]
    assert grids.read_integers([2**63, -1], size=2) == [2**63, -1]
    with pytest.raises(DataError, match="vector of 2"):
        grids.round_vector([1, 2, 3], Fraction(1), size=2)
    with pytest.raises(DataError, match="vector of 2"):
        grids.read_integers(7, size=2)
    assert grids.read_integers(["1", "two"], size=2) == [1, 0]


COLUMNS: dict[str, Any] = {
    "polars": lambda found: pl.Series(found, dtype=pl.Int64),
    "arrow": lambda found: pa.array(found, type=pa.int64()),
    "arrow, chunked": lambda found: pa.chunked_array([pa.array(found, type=pa.int64())]),
    "pandas": lambda found: pd.Series(found, dtype="Int64"),
    "pandas on arrow": lambda found: pd.Series(found, dtype="int64[pyarrow]"),
    "masked": lambda found: np.ma.array([one or 0 for one in found], mask=[one is None for one in found]),
    "list": list,
}


@pytest.mark.parametrize("container", COLUMNS.values(), ids=COLUMNS.keys())
def test_a_missing_key_leaves_the_others_as_they_are(container: Any) -> None:
    """In NumPy one missing integer makes floats of all: 1 became 1.0, and 2**53 + 1 another key altogether."""
    far = 2**53 + 1
    assert list(map(repr, records.read_keys(container([1, far, None])))) == ["1", str(far), "None"]
    m = dm.histogram(keys=[1, far], epsilon=50)
    assert abs(m(container([far] * 100 + [None]))[far] - 100) < 5
