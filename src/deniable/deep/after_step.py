"""What follows a step of the optimizer: the learning-rate schedule, and an average of the weights. Both are functions
of what was released, so they cost nothing; both are in the checkpoint.

The average of a parameter moves by (1 − d) of the way to it in every step, with d the lesser of the stated decay and
(1 + t)/(10 + t) after t steps, so that it forgets where the run began.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deniable import _checks
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument, NotSupported


class AfterStep:
    """The schedule and the average of one run; either may be missing."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        optimizer: torch.optim.Optimizer,
        *,
        scheduler: Any,
        ema: Number | None,
        sharded: bool,
    ) -> None:
        if scheduler is not None:
            _check_scheduler(scheduler, optimizer)
        self._parameters, self._scheduler = parameters, scheduler
        self._decay = None if ema is None else float(_checks.inner_probability("ema", ema, remedy="For example 0.999."))
        if self._decay is not None and sharded:
            raise NotSupported("an average of the weights is kept by ranks that hold all of them; leave out ema=")
        self._average: dict[str, Tensor] = {}
        if self._decay is not None:
            self._average = {name: each.detach().clone() for name, each in parameters.items()}

    @property
    def average(self) -> dict[str, Tensor] | None:
        """The averages by name; None where none are kept."""
        return None if self._decay is None else self._average

    def take(self, step: int) -> None:
        """Follow step number `step` (from 1)."""
        if self._scheduler is not None:
            self._scheduler.step()
        if self._decay is not None:
            weight = 1 - min(self._decay, (1 + step) / (10 + step))
            for name, each in self._parameters.items():
                self._average[name].lerp_(each.detach(), weight)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """In here the parameters hold their averages, where some are kept."""
        if self._decay is None:
            yield
            return
        own = {name: each.detach().clone() for name, each in self._parameters.items()}
        try:
            self._write(self._average)
            yield
        finally:
            self._write(own)

    def _write(self, values: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, each in self._parameters.items():
                each.copy_(values[name])

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        return {"scheduler": scheduler, "average": self.average}

    def load(self, state: Mapping[str, Any], *, lost: int) -> None:
        """Go on from a state that `state` gave, behind steps that were lost: the schedule goes by the step."""
        for name, own in (("scheduler", self._scheduler), ("average", self.average)):
            if (own is None) != (state[name] is None):
                wanted = {"scheduler": "scheduler=", "average": "ema="}[name]
                raise InvalidArgument(wanted[:-1], own is not None, "given exactly when the run began with it")
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that no step of the optimizer came between
                for _ in range(lost):
                    self._scheduler.step()
        if self._decay is not None:
            found = state["average"]
            if found.keys() != self._average.keys() or any(
                found[name].shape != each.shape for name, each in self._average.items()
            ):
                raise DataError("the checkpoint holds the averages of another model")
            for name, each in self._average.items():
                each.copy_(found[name])


def _check_scheduler(scheduler: Any, optimizer: torch.optim.Optimizer) -> None:
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise NotSupported(
            "ReduceLROnPlateau is told a metric in every step; call its step by yourself, with a metric of public data"
            " or with what trainer.series holds"
        )
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise InvalidArgument(
            "scheduler", type(scheduler).__name__, "a scheduler of torch.optim.lr_scheduler",
            "For example CosineAnnealingLR(optimizer, plan.steps).",
        )  # fmt: skip
    if scheduler.optimizer is not optimizer:
        raise InvalidArgument("scheduler", type(scheduler).__name__, "one of the optimizer that is given")
    written = io.BytesIO()
    try:
        torch.save(scheduler.state_dict(), written)
        torch.load(io.BytesIO(written.getvalue()), weights_only=True)
    except Exception as error:  # of any kind: pickling refuses in many ways
        raise NotSupported(
            f"the state of {type(scheduler).__name__} holds more than numbers, so a checkpoint of it could not be read;"
            " give functions to LambdaLR, not objects, or call its step by yourself"
        ) from error
