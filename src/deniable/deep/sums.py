"""Sums of clipped gradients over the units of a batch, microbatch by microbatch.

A batch larger than what fits is run in several passes; nobody is left out, since cutting a Poisson batch to a largest
size would be another sampling than the one accounted for. How many passes there are depends on the data and can be seen
in the running time, which is outside the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deniable._checks import count
from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.sharding import is_sharded, local
from deniable.deep.data import Indices, Rows, chunk
from deniable.deep.distributed import Alone
from deniable.deep.integers import IntegerSums, Loss
from deniable.deep.noises import GridNoise
from deniable.deep.plan import Plan
from deniable.errors import NotSupported

LARGEST = 1024
"""Rows in one pass when nobody says otherwise; memory is the limit, and more rarely helps speed."""


class Accumulator:
    """The clipped sums of one model under one plan."""

    def __init__(
        self, workers: Alone, loss: Loss, plan: Plan, *, microbatch: int | None, clipping: dict[str, Any]
    ) -> None:
        model, self._workers = workers.model, workers
        self._clip = float(plan.clip)
        self._engine = ClippingEngine(model, loss, norm=plan.noise.norm, rows_per_unit=plan.rows_per_unit, **clipping)
        self.parameters: dict[str, nn.Parameter] = self._engine.parameters
        self._integers: IntegerSums | None = None
        if isinstance(plan.noise, GridNoise):
            self._integers = IntegerSums(model, loss, bits=plan.noise.bits, rows_per_unit=plan.rows_per_unit)
            if self.device.type != "cpu":
                raise NotSupported(
                    "GridNoise draws exact integers on the CPU; move the model there, or use GaussianNoise."
                )
        # Compiled code wants one shape: a microbatch that most Poisson batches fit into, the rest of it masked.
        self._fixed = bool(clipping.get("compile", False))
        usual = math.ceil((float(plan.batch) + 2 * math.sqrt(plan.batch)) / workers.number / 8) * 8
        most = max(1, LARGEST // plan.rows_per_unit)
        self._units = count("microbatch", microbatch) if microbatch is not None else min(usual, most)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(iter(self.parameters.values())).device

    def check(self, x: Any, y: Any, *, clip: float, mask: Tensor | None = None) -> None:
        """The clipping engine's self-check: raises `NotSupported` when this model cannot be trained soundly."""
        self._engine.check((x, y), clip=clip, mask=mask)

    def over(self, rows: Rows, places: Indices) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Sums by parameter name, norms by unit, losses by row (0 for a place without a row)."""
        whole = torch.int64 if self._integers else torch.float32
        sums: dict[str, Tensor] = {}
        norms, losses = [torch.empty(0, device=self.device)], [torch.empty(0, device=self.device)]
        for added, lengths, costs in self._passes(rows, places):
            for name, each in added.items():
                # A compiled step overwrites its last answer, so that one is copied.
                sums[name] = sums[name].add_(each) if name in sums else each.to(whole, copy=self._fixed)
            norms.append(lengths)
            losses.append(costs)
        if not sums:
            sums = {
                name: torch.zeros(local(p).shape, dtype=whole, device=p.device) for name, p in self.parameters.items()
            }
        return sums, torch.cat(norms), torch.cat(losses)

    def _passes(self, rows: Rows, places: Indices) -> Iterator[tuple[dict[str, Tensor], Tensor, Tensor]]:
        """The result of every pass, without what only filled its shape."""
        wanted = math.ceil(len(places) / self._units)
        empty = self._workers.most(wanted) - wanted
        start = 0
        while start < len(places):
            part = places[start : start + self._units]
            made = None
            try:
                found = chunk(rows, part, units=self._units if self._fixed else None, device=self.device)
                made = self._pass(found.batch, found.mask)
            except torch.OutOfMemoryError:
                if self._units == 1 or is_sharded(self._workers.model):
                    raise
            if made is None:  # after the error is gone, and with it what its frames held
                self._units //= 2
                torch.cuda.empty_cache()
                continue
            sums, norms, losses = made
            yield sums, norms[: len(part)], losses[: part.size]
            start += len(part)
        for _ in range(empty):  # a model spread over ranks runs on all of them or on none
            nobody = np.full((1, places.shape[1]), -1, dtype=np.int64)
            found = chunk(rows, nobody, units=None, device=self.device)
            sums, norms, losses = self._pass(found.batch, found.mask)
            yield sums, norms[:0], losses[:0]

    def _pass(self, batch: tuple[Any, Any], mask: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        if self._integers is not None:
            return self._integers(batch, clip=self._clip, mask=mask)
        found = self._engine(batch, clip=self._clip, mask=mask)
        return found.sums, found.norms, found.losses
