"""Large arrays in pieces. Under a second."""

from __future__ import annotations

import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, blocks, discrete_laplace
from deniable.noise.shapes import PIECE, fill


def test_pieces_cover_the_array_once() -> None:
    asked: list[int] = []

    def many(n: int) -> np.ndarray:
        start = sum(asked)
        asked.append(n)
        return np.arange(start, start + n)

    found = fill((2, PIECE + 3), lambda: 0, many)
    assert isinstance(found, np.ndarray)
    assert (found.reshape(-1) == np.arange(2 * PIECE + 6)).all()
    assert max(asked) <= PIECE


def test_a_late_python_integer_widens_the_whole() -> None:
    pieces = iter([np.ones(PIECE, dtype=np.int64), np.array([10**30], dtype=object)])
    found = fill(PIECE + 1, lambda: 0, lambda n: next(pieces))
    assert isinstance(found, np.ndarray)
    assert found.dtype == object
    assert found[-1] == 10**30
    assert found[0] == 1


def test_blocks_hold_what_was_asked_for() -> None:
    tape = RecordingSource(InsecureSource(1))
    sizes = [part.size for part in blocks(lambda n: discrete_laplace(2, n, source=tape), 2500, block=1000)]
    assert sizes == [1000, 1000, 500]
    assert tape.count == 2500
    assert list(blocks(np.zeros, 0)) == []
    with pytest.raises(InvalidArgument, match="block must be"):
        next(blocks(np.zeros, 5, block=0))
