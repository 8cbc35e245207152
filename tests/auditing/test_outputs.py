"""One canonical encoding: outputs that an observer can tell apart differ, others do not. About a second."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import OrderedDict, namedtuple
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
from scipy import sparse

from deniable.auditing.outputs import decode, read_output
from deniable.auditing.worlds import observe

Point = namedtuple("Point", "x y")
FRAME = pd.DataFrame({"k": ["a", "b"], "v": [1.5, 2.5]})


class Answer:
    def __init__(self, value: float) -> None:
        self.value = value


DIFFERENT: dict[str, list[Any]] = {
    "numbers": [1, 1.0, True, 1 + 0j, np.float32(1), np.int8(1), Fraction(1), Decimal(1), Decimal("1.0"), "1", b"1"],
    "zeros and oddities": [0.0, -0.0, math.nan, math.inf, -math.inf, None, "", b"", [], (), {}],
    "large integers": [2**53, 2**53 + 1, 2**60, 2**60 + 1, 10**400, 10**400 + 1, -(10**5000), -(10**5000) - 1],
    "order of keys": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, OrderedDict(a=1, b=2), [("a", 1), ("b", 2)]],
    "sequences": [[1, 2], (1, 2), Point(1, 2), [2, 1], [[1], 2], [1, [2]], {1, 2}, frozenset({1, 2}), range(1, 3)],
    "arrays": [
        np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([1, 2], dtype=np.int32), [1, 2],
        np.array([True]), np.array(["a"]), np.array(["a"], dtype=object), np.array([2**60]), np.array([2**60 + 1]),
        np.array(["2020-01-01"], dtype="M8[D]"), np.array(["2020-01-01"], dtype="M8[s]"), np.zeros((0, 2)),
        np.zeros((2, 0)),
    ],
    "dates": [
        datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.time(1),
        datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), pd.Timestamp("2020-01-01"), "2020-01-01",
    ],
    "frames": [
        FRAME, FRAME.iloc[::-1], FRAME.set_index("k"), FRAME[["v", "k"]], FRAME.rename(columns={"v": "w"}),
        FRAME.astype({"v": np.float32}), FRAME.astype({"k": "category"}), FRAME.set_axis(["x", "y"], axis=0),
        FRAME.set_axis([0, 1], axis=0), FRAME["v"], FRAME["v"].rename("w"), pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        pa.table({"k": ["a", "b"], "v": [1.5, 2.5]}), pa.table({"v": [1.5, 2.5], "k": ["a", "b"]}), FRAME.columns,
    ],
    "sparse": [sparse.csr_array(np.eye(2)), sparse.csc_array(np.eye(2)), np.eye(2), sparse.csr_array(np.zeros((2, 2)))],
    "objects": [Answer(1.0), Answer(2.0), {"value": 1.0}],
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_can_be_told_apart_is_encoded_differently(name: str) -> None:
    values = DIFFERENT[name]
    for one, other in itertools.combinations(values, 2):
        assert read_output(one).atom != read_output(other).atom, (one, other)
    for value in values:
        read = read_output(value)
        assert read_output(decode(read.encoding)).encoding == read.encoding


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="needs torch; run: pip install 'deniable[deep]'")
    dense = torch.tensor([1.0, 0.0])
    values = [
        dense,
        dense.to(torch.bfloat16),
        dense.to(torch.float16),
        dense.to_sparse(),
        dense.double(),
        dense.numpy(),
    ]
    values += [dense.int(), dense[None], dense.clone().requires_grad_()]
    for one, other in itertools.combinations(values, 2):
        assert read_output(one).atom != read_output(other).atom, (one, other)
    assert read_output(torch.tensor([1.0], dtype=torch.bfloat16)).numbers.tolist() == [1.0]


SAME: list[tuple[Any, Any]] = [
    (1.5, np.float64(1.5)),
    (3, np.int64(3)),
    ({1, 2, 3}, {3, 2, 1}),
    (np.array([math.nan]), np.array([-math.nan])),
    (math.nan, -math.nan),
    (FRAME, FRAME.copy()),
    (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
    (Answer(1.0), Answer(1.0)),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=[str(place) for place in range(len(SAME))])
def test_what_looks_the_same_is_encoded_the_same(one: Any, other: Any) -> None:
    assert read_output(one).atom == read_output(other).atom


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner))


def exactly(one: Any, other: Any) -> bool:
    """Equal, with types, signs of zero and the order of keys."""
    return repr(one) == repr(other)


@given(VALUES)
def test_an_encoding_is_read_back(value: Any) -> None:
    assert exactly(decode(read_output(value).encoding), value)


@given(VALUES, VALUES)
def test_encodings_are_equal_exactly_for_equal_values(one: Any, other: Any) -> None:
    assert (read_output(one).encoding == read_output(other).encoding) == exactly(one, other)


def test_loops_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert "loop" in read_output(loop).structure


def test_everything_beside_the_value_is_seen(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import warnings

    def warned() -> int:
        warnings.warn("seventeen", UserWarning, stacklevel=1)
        return 1

    def printed() -> int:
        print("seventeen")
        return 1

    def wrote() -> int:
        (tmp_path / "out.txt").write_text("seventeen")
        return 1

    def raised() -> int:
        raise KeyError("seventeen")

    plain = observe(lambda: 1).output
    for run in (warned, printed, wrote, raised):
        output = observe(run).output
        assert output.atom != plain.atom
        assert any("seventeen" in str(label) for label in output.labels), run
    assert capsys.readouterr().out == ""
