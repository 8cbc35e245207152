"""Online tree aggregation: the nodes of a binary tree over the steps carry noise; a prefix sum adds a few of them.

A node of height h covers 2^h steps and is measured, with unit noise, when the last of them is over. C has one row per
node, in that order; a step lies in at most ⌊log₂ T⌋ + 1 nodes. Honaker's estimate from below mixes a node's own
measurement with the sum of its children's estimates, by inverse variance: v_0 = 1, 1/v_h = 1 + 1/(2·v_{h−1}), so that
v_h = 1/(2 − 2^(−h)) (Honaker 2015; Kairouz et al. 2021, appendix B). A prefix sum is the sum of the estimates of at
most ⌊log₂ T⌋ + 1 nodes, which is all that the stream keeps.

>>> Tree(8).matrix()[:4, :4]
array([[1., 0., 0., 0.],
       [0., 1., 0., 0.],
       [1., 1., 0., 0.],
       [0., 0., 1., 0.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deniable import _checks
from deniable.errors import DataError, NotSupported
from deniable.strategies.base import Strategy
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream
from deniable.strategies.workloads import PREFIX, Workload

LARGEST = 4096
"""Steps up to which the error of other workloads than prefix sums is computed."""


class Tree(Strategy):
    """A binary tree over the steps of a run.

    Args:
        steps: the steps of the run.
    """

    def __init__(self, steps: int) -> None:
        self.steps = _checks.count("steps", steps)

    @property
    def bands(self) -> int:
        return self.steps

    @property
    def memory(self) -> int:
        return self.steps.bit_length()

    @property
    def positive(self) -> bool:
        return True

    @property
    def rows(self) -> int:
        return sum(self.steps >> height for height in range(self.steps.bit_length()))

    def lengths(self) -> Array:
        every = np.arange(self.steps)
        nodes = np.zeros(self.steps)
        for height in range(self.steps.bit_length()):
            nodes += self._complete(every, height)
        return np.asarray(np.sqrt(nodes))

    def gram(self, left: Any, right: Any) -> Array:
        """The number of nodes that two steps share."""
        i, j = np.asarray(left)[:, None], np.asarray(right)[None, :]
        shared = np.zeros((i.size, j.size))
        for height in range(self.steps.bit_length()):
            shared += (i >> height == j >> height) & self._complete(i, height)
        return shared

    def columns(self, indices: Any) -> Array:
        picks, rows = np.asarray(indices), []
        for t in range(1, self.steps + 1):
            for height in range(_count_ending(t)):
                rows.append((picks >= t - (1 << height)) & (picks < t))
        return np.array(rows, dtype=float)

    def stream(self) -> Stream:
        return TreeStream(self.steps)

    def variances(self, workload: Workload = PREFIX) -> Array:
        if workload == PREFIX:
            every, totals = np.arange(1, self.steps + 1), np.zeros(self.steps)
            for height in range(self.steps.bit_length()):
                totals += (every >> height & 1) * variance(height)
            return totals
        if self.steps > LARGEST:
            raise NotSupported(f"errors of a tree of more than {LARGEST} steps are computed for prefix sums only")
        from scipy.linalg import toeplitz

        noise, stream, start = np.zeros((self.steps, self.rows)), self.stream(), 0
        for t in range(self.steps):
            fresh = np.eye(stream.draws(), self.rows, start)
            start += len(fresh)
            noise[t] = stream.next(list(fresh))
        map_ = toeplitz(workload.coefficients(self.steps), np.zeros(self.steps))
        return np.asarray(((map_ @ noise) ** 2).sum(axis=1))

    def growth(self) -> float:
        """An upper bound. The noise of a step is the difference of two prefix sums, each of at most `memory` nodes with
        at most unit variance, and a step lies in at most `memory` nodes."""
        return 2.0 * self.memory

    def plain(self) -> dict[str, Any]:
        return {"kind": "Tree", "steps": self.steps}

    @classmethod
    def _from_plain(cls, plain: dict[str, Any]) -> Strategy:
        return cls(plain["steps"])

    def _complete(self, indices: Any, height: int) -> Any:
        """Whether the node of a height above a step ends within the run."""
        return ((indices >> height) + 1) << height <= self.steps

    def __repr__(self) -> str:
        return f"Tree(steps={self.steps})"


def variance(height: int) -> float:
    """v_h: the variance of Honaker's estimate of a node."""
    return 1.0 / (2.0 - 2.0**-height)


def _count_ending(step: int) -> int:
    """How many nodes end with a step (steps count from 1): one more than its factors of two."""
    return (step & -step).bit_length()


class TreeStream(Stream):
    """Estimates of the nodes whose sum is the current prefix, the largest first. Lost nodes are None."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self._nodes: list[Any] = []

    def draws(self) -> int:
        return _count_ending(self.step + 1)

    def _next(self, fresh: Sequence[Any]) -> Any:
        estimate, old_sum = fresh[0] + 0.0, None
        for height in range(1, len(fresh)):
            sibling = self._nodes.pop()
            if sibling is None:  # the left half of this node was lost: the right half stands for it
                continue
            old_sum = sibling if old_sum is None else old_sum + sibling
            own = variance(height)  # the weight of a measurement of variance 1 is the variance of the mix
            estimate = own * fresh[height] + (1 - own) * (sibling + estimate)
        self._nodes.append(estimate)
        # ν_t − ν_{t−1}: the new node minus the nodes that it replaces.
        return estimate + 0.0 if old_sum is None else estimate - old_sum

    def _memory(self) -> list[Any]:
        return list(self._nodes)

    def _restore(self, memory: list[Any]) -> None:
        if len(memory) != self.step.bit_count():
            raise DataError("the state of the noise does not have one vector per node of the prefix")
        self._nodes = memory

    def _forget(self, step: int) -> None:
        if step != self.step:
            self._nodes = [None] * step.bit_count()
