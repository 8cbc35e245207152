"""Integer rows: norms, exact sums, and rules that look at one record at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from deniable.learning.table import ONE, IntegerTable, unit_of


def rows(seed: int, n: int, d: int, scale: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) * scale


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 12), st.sampled_from([1e-6, 1.0, 1e9]), st.booleans())
def test_rows_never_exceed_the_norm(seed: int, n: int, d: int, scale: float, bias: bool) -> None:
    table = IntegerTable.place(rows(seed, n, d, scale), norm=1.5, intercept=0.7 if bias else 0.0)
    whole = table.rows if isinstance(table.rows, np.ndarray) else table.rows.toarray()
    assert (whole == np.rint(whole)).all()
    for row, length in zip(whole.astype(int).tolist(), table.lengths.tolist(), strict=True):
        square = sum(x * x for x in row)  # Python integers
        assert square <= length * length <= ONE * ONE


def test_a_short_row_keeps_its_value() -> None:
    given_rows = rows(1, 50, 3, 0.1)
    table = IntegerTable.place(given_rows, norm=2.0)
    assert np.abs(table.points() - given_rows / 2).max() < 2 / ONE


def test_sparse_and_dense_agree() -> None:
    dense = rows(2, 40, 9, 1.0) * (rows(3, 40, 9, 1.0) > 1.2)
    one = IntegerTable.place(dense, norm=1.0, intercept=1.0)
    two = IntegerTable.place(sparse.csr_matrix(dense), norm=1.0, intercept=1.0)
    assert not isinstance(one.rows, np.ndarray)
    assert (one.rows.toarray() == two.rows.toarray()).all()
    full = IntegerTable.place(dense + 1e-3, norm=1.0)
    assert isinstance(full.rows, np.ndarray)


def test_a_row_is_placed_alike_wherever_it_stands() -> None:
    """Sensitivity proofs need it: removing a record may not change what another contributes."""
    data = rows(4, 301, 17, 0.4)
    for drop in (0, 1, 150, 300):
        kept = np.delete(np.arange(301), drop)
        assert (IntegerTable.place(data[kept], norm=1.0).rows == IntegerTable.place(data, norm=1.0).rows[kept]).all()
        theta = rows(5, 17, 1, 3.0)[:, 0]
        margins = IntegerTable.place(data, norm=1.0).margins(theta)
        assert (IntegerTable.place(data[kept], norm=1.0).margins(theta) == margins[kept]).all()


def test_margins_are_exact() -> None:
    table = IntegerTable.place(rows(6, 20, 5, 1.0), norm=1.0)
    theta = rows(7, 5, 3, 10.0)
    found = table.margins(theta)
    size = np.sqrt((theta**2).sum(axis=0).max())
    step = 2.0 ** (np.frexp(max(size, 1.0))[1] - 36)
    whole = np.rint(theta / step).astype(int)
    exact = [[sum(int(a) * int(b) for a, b in zip(r, c, strict=True)) for c in whole.T] for r in table.rows.astype(int)]
    assert (found / (step / ONE) == np.array(exact, dtype=np.float64)).all()
    assert np.abs(found - table.points() @ theta).max() < 1e-8


@pytest.mark.parametrize("outputs", [1, 4])
def test_clipped_gradients_stay_within_the_bound(outputs: int) -> None:
    table = IntegerTable.place(rows(8, 200, 6, 2.0), norm=1.0)
    residuals = rows(9, 200, outputs, 5.0)
    residuals[0] = np.nan
    residuals[1] = np.inf
    unit, bound = unit_of(0.3)
    whole = table.clipped(residuals[:, 0] if outputs == 1 else residuals, unit=unit, bound=bound).reshape(200, -1)
    for row, residual in zip(table.rows.astype(int).tolist(), whole.tolist(), strict=True):
        assert sum(x * x for x in row) * sum(r * r for r in residual) <= bound * bound
    assert (whole[0] == 0).all()
    total = table.sums(whole)
    exact = [
        [sum(int(x) * int(r) for x, r in zip(col, res, strict=True)) for res in whole.T.tolist()]
        for col in table.rows.T.astype(int).tolist()
    ]
    assert total.tolist() == exact


def test_clipping_keeps_what_is_short() -> None:
    table = IntegerTable.place(rows(10, 100, 4, 0.3), norm=1.0)
    residuals = rows(11, 100, 1, 0.1)[:, 0]
    unit, bound = unit_of(1.0)
    assert np.abs(table.clipped(residuals, unit=unit, bound=bound) / unit - residuals).max() <= 1 / unit
    assert bound / (unit * ONE) <= 1.0


def test_no_rows_is_a_table_too() -> None:
    table = IntegerTable.place(np.zeros((0, 3)), norm=1.0)
    assert table.count == 0
    assert table.sums(np.zeros(0, dtype=np.int64)).tolist() == [0, 0, 0]
