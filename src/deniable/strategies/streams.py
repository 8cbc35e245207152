"""Correlated noise, step by step, in memory that does not grow with the run.

A stream turns fresh normal vectors z_1, z_2, … into the rows of N·z. It works on NumPy arrays and on torch tensors of
any shape, because it only adds and scales them. A checkpoint must keep its state. Whoever reads the state can subtract
noise from sums that were already released, so it is as secret as the data until the run is over.

**Lost steps.** After a crash some steps may have been released whose noise is gone. `skip` continues after them with an
empty memory. The run then follows the strategy C′ that equals C, except that the entries linking steps before the gap
to steps after it are 0. Where C ≥ 0 this lowers every entry of CᵀC; where columns of a pattern are orthogonal it
shortens them. Either way no sensitivity rises, and the event still covers the run. Other strategies refuse.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from deniable.errors import DataError, InvalidArgument


class Stream(ABC):
    """The noise of one run, in order. `step` is the number of steps taken."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.step = 0

    def draws(self) -> int:
        """How many fresh normal vectors the next step needs."""
        return 1

    def next(self, fresh: Sequence[Any]) -> Any:
        """The noise of the next step. It must not be changed before the next call.

        Args:
            fresh: `draws()` vectors of independent standard normal numbers. They may be overwritten.
        """
        if self.step >= self.steps:
            raise InvalidArgument("step", self.step + 1, f"one of the {self.steps} steps of the strategy")
        if len(fresh) != self.draws():
            raise InvalidArgument("fresh", len(fresh), f"{self.draws()} vectors")
        noise = self._next(fresh)
        self.step += 1
        return noise

    def skip(self, step: int) -> None:
        """Continue after `step` steps with an empty memory; see the module."""
        if not self.step <= step <= self.steps:
            raise InvalidArgument("step", step, f"between {self.step} and {self.steps}")
        self._forget(step)
        self.step = step

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the step and the vectors of the memory."""
        return {"step": self.step, "memory": self._memory()}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state` returned."""
        try:
            step, memory = int(state["step"]), list(state["memory"])
        except (TypeError, KeyError, ValueError):
            raise DataError("the state of the noise is not one that a stream of this kind wrote") from None
        if not 0 <= step <= self.steps:
            raise DataError(f"the state of the noise is at step {step} of {self.steps}")
        self.step = step
        self._restore(memory)

    @abstractmethod
    def _next(self, fresh: Sequence[Any]) -> Any: ...

    @abstractmethod
    def _memory(self) -> list[Any]: ...

    @abstractmethod
    def _restore(self, memory: list[Any]) -> None: ...

    @abstractmethod
    def _forget(self, step: int) -> None: ...


def add(total: Any, weight: float, past: Any) -> None:
    """total += weight·past, in place; torch does it without a temporary."""
    add_in_place = getattr(total, "add_", None)
    if add_in_place is not None:
        add_in_place(past, alpha=weight)
    else:
        total += weight * past
