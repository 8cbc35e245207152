"""The factors that leave the least error under a participation, one file per family of strategies."""

from deniable.strategies.optima.banded import optimal_banded, proven_gap
from deniable.strategies.optima.dense import lower_bound, optimal_dense
from deniable.strategies.optima.toeplitz import optimal_buffered, optimal_toeplitz

__all__ = ["lower_bound", "optimal_banded", "optimal_buffered", "optimal_dense", "optimal_toeplitz", "proven_gap"]
