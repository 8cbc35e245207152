"""What an engine does: hold tables, tell their columns, run bounded SQL. Engines never define meaning."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.query.bounding import Bounded
from deniable.query.measures import Totals
from deniable.query.schema import Table


class Engine(Protocol):
    """Runs bounded SQL over the tables it was given."""

    def add(self, name: str, data: Any) -> Table:
        """Make data known as a table; DataError says what is wrong with them. Reads no rows."""
        ...

    def run(self, bounded: Bounded, *, groups: int, key: tuple[int, int]) -> Totals:
        """The exact totals of all groups, 0 where there are no rows, under this hash key."""
        ...

    def close(self) -> None:
        """Let go of data and temporary files."""
        ...


def totals(bounded: Bounded, found: dict[str, NDArray[Any]], *, groups: int) -> Totals:
    """An engine's rows as arrays over all groups: g, n, and m, h, l for each of the values (see `bounding`)."""
    numbers = found["g"].astype(np.int64)

    def filled(column: str) -> NDArray[np.int64]:
        whole = np.zeros(groups, dtype=np.int64)
        whole[numbers] = found[column].astype(np.int64, casting="safe")
        return whole

    counts, sums = {}, {}
    for i, values in enumerate(bounded.values, start=1):
        counts[values] = filled(f"m{i}")
        sums[values] = joined(filled(f"h{i}"), filled(f"l{i}"))
    return Totals(filled("n"), counts, sums)


def joined(high: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[Any]:
    """high·2³² + low, exactly: int64 where that fits, else Python integers.

    >>> joined(np.array([-1, 1 << 40]), np.array([5, 0])).tolist()
    [-4294967291, 4722366482869645213696]
    """
    small = not high.size or (int(high.max()) < 1 << 29 and int(high.min()) >= -(1 << 29))
    if small:
        return np.asarray((high << 32) + low)
    return np.asarray(high.astype(object) * (1 << 32) + low.astype(object), dtype=object)
