"""Correlated noise: strategies, the participation they are for, and the factors that are best for it.

>>> from deniable import strategies
>>> tree, root = strategies.Tree(1000), strategies.Toeplitz.square_root(1000)
>>> run = strategies.once(1000)
>>> f"{tree.rmse(run):.2f} {root.rmse(run):.2f}"
'5.36 3.10'
"""

from deniable.strategies.banded import Banded, Dense
from deniable.strategies.base import Strategy
from deniable.strategies.buffered import Buffered
from deniable.strategies.optima import (
    lower_bound,
    optimal_banded,
    optimal_buffered,
    optimal_dense,
    optimal_toeplitz,
    proven_gap,
)
from deniable.strategies.sensitivity import Participation, Sensitivity, once, ordered, separated
from deniable.strategies.store import stored
from deniable.strategies.streams import Stream
from deniable.strategies.toeplitz import Toeplitz
from deniable.strategies.tree import Tree
from deniable.strategies.workloads import EACH, PREFIX, Workload

__all__ = [
    "EACH",
    "PREFIX",
    "Banded",
    "Buffered",
    "Dense",
    "Participation",
    "Sensitivity",
    "Strategy",
    "Stream",
    "Toeplitz",
    "Tree",
    "Workload",
    "lower_bound",
    "once",
    "optimal_banded",
    "optimal_buffered",
    "optimal_dense",
    "optimal_toeplitz",
    "ordered",
    "proven_gap",
    "separated",
    "stored",
]
