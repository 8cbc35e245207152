"""Sums of clipped gradients over the units of a batch, microbatch by microbatch.

A batch larger than what fits is run in several passes; nobody is left out, since cutting a Poisson batch to a largest
size would be another sampling than the one accounted for. How many passes there are depends on the data and can be seen
in the running time, which is outside the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from deniable._checks import count
from deniable.deep.clipping import ClippingEngine, SelfCheck
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import Loss
from deniable.deep.clipping.sharding import is_sharded, local
from deniable.deep.data import Chunk, Indices, Rows, chunks, moved
from deniable.deep.distributed import Alone
from deniable.deep.noises import GridNoise
from deniable.deep.plan import Plan
from deniable.errors import DeniableError, NotSupported

LARGEST = 1024
"""Rows in one pass when nobody says otherwise; memory is the limit, and more rarely helps speed."""


_Part: TypeAlias = tuple[dict[str, Tensor], Tensor, Tensor]
"""Sums, norms of units and losses of rows of one pass."""


class Accumulator:
    """The clipped sums of one model under one plan."""

    def __init__(
        self, workers: Alone, loss: Loss, plan: Plan, *, microbatch: int | None, clipping: dict[str, Any]
    ) -> None:
        model, self._workers = workers.model, workers
        self._clip = float(plan.clip)
        self._whole = isinstance(plan.noise, GridNoise)
        bits = plan.noise.bits if isinstance(plan.noise, GridNoise) else None
        self._engine = ClippingEngine(
            model,
            loss,
            norm=plan.noise.norm,
            rows_per_unit=plan.rows_per_unit,
            bits=bits,
            clipping=plan.clipping,
            **clipping,
        )
        self.parameters: dict[str, nn.Parameter] = self._engine.parameters
        if self._whole and self.device.type != "cpu":
            raise NotSupported("GridNoise draws exact integers on the CPU; move the model there, or use GaussianNoise.")
        # A graph wants one shape: a microbatch that most Poisson batches fit into, the rest of it masked.
        self._fixed = bool(self._engine.compile)
        usual = math.ceil((float(plan.batch) + 2 * math.sqrt(plan.batch)) / workers.number / 8) * 8
        most = max(1, LARGEST // plan.rows_per_unit)
        self._units = count("microbatch", microbatch) if microbatch is not None else min(usual, most)
        self._rows_per_unit = plan.rows_per_unit
        self._proved: Form | None = None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(iter(self.parameters.values())).device

    def check(self, form: Form) -> SelfCheck:
        """The proof and the check for one form of input: raises `NotSupported` when the model cannot be trained
        soundly. Only made-up values are used."""
        while True:
            try:
                found = self._engine.check(form, clip=self._clip, rows=self._units * self._rows_per_unit)
            except torch.OutOfMemoryError:
                if self._units == 1 or not self._fixed:
                    raise
            else:
                self._proved = form
                return found
            self._units //= 2
            torch.cuda.empty_cache()

    def prove(self) -> None:
        """Prove the model again for the form that was checked, where anything about it changed since. No row is read,
        so whether this refuses depends on the model alone."""
        if self._proved is not None:
            self._engine.prove(self._proved)

    def over(self, rows: Rows, places: Indices) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Sums by parameter name, norms by unit, losses by row (0 for a place without a row). A unit that contributes
        nothing, because it cannot be read or its form is not proved, has norm inf."""
        kind = torch.int64 if self._whole else torch.float32
        sums: dict[str, Tensor] = {}
        norms, losses = [torch.empty(0, device=self.device)], [torch.empty(0, device=self.device)]
        counted = 0
        for added, lengths, costs in self._passes(rows, places):
            for name, each in added.items():
                sums[name] = sums[name].add_(each) if name in sums else each.to(kind)
            norms.append(lengths)
            losses.append(costs)
            counted += len(lengths)
        norms.append(torch.full((len(places) - counted,), torch.inf, device=self.device))
        if not sums:
            sums = {
                name: torch.zeros(local(p).shape, dtype=kind, device=p.device) for name, p in self.parameters.items()
            }
        return sums, torch.cat(norms), torch.cat(losses)

    def _passes(self, rows: Rows, places: Indices) -> Iterator[_Part]:
        """The result of every pass, without what only filled its shape."""
        if is_sharded(self._workers.model):
            yield from self._collective_passes(rows, places)
            return
        start = 0
        while start < len(places):
            part = places[start : start + self._units]
            made: list[_Part] = []
            form, fits = None, True
            try:
                for form, chunk, lines in self._chunks(rows, part, self.device):
                    if self._supports(form):
                        made.append(self._pass(form, chunk, lines))
            except torch.OutOfMemoryError:
                if self._units > 1:
                    fits = False
                elif rows.in_memory or form == self._proved:
                    raise
                # Else it is a unit of a form that nobody else has: too large to be worked on, it contributes nothing.
            if not fits:  # after the error is gone, and with it what its frames held
                self._units //= 2
                torch.cuda.empty_cache()
                continue
            yield from made
            start += len(part)

    def _collective_passes(self, rows: Rows, places: Indices) -> Iterator[_Part]:
        """A model spread over ranks runs on all of them or on none. All ranks prove the forms that any of them has, in
        one order, and those with fewer passes than others take passes of nobody."""
        read = [
            each
            for start in range(0, len(places), self._units)
            for each in self._chunks(rows, places[start : start + self._units], torch.device("cpu"))
        ]
        forms = [form.on(self.device) for form, _, _ in read]
        proved = {form for form in self._workers.union(forms) if self._supports(form)}
        parts = [part for form, part in zip(forms, read, strict=True) if form in proved]
        missing = self._workers.most(len(parts)) - len(parts)
        for form, part, lines in parts:
            batch = moved(part.batch, self.device)
            yield self._pass(form, Chunk(batch, part.mask.to(self.device), part.units), lines)
        for _ in range(missing):
            some = self._proved or next(iter(sorted(proved, key=repr)))
            batch = some.made_up(self._rows_per_unit)
            nobody = torch.zeros(self._rows_per_unit, dtype=torch.bool, device=self.device)
            sums, norms, losses = self._pass(some, Chunk(batch, nobody, 0), [])
            yield sums, norms, losses

    def _chunks(self, rows: Rows, places: Indices, device: torch.device) -> Iterator[tuple[Form, Chunk, list[int]]]:
        """Some units, a chunk for each form that they have."""
        return chunks(rows, places, units=self._units if self._fixed else None, device=device)

    def _pass(self, form: Form, part: Chunk, lines: list[int]) -> _Part:
        found = self._engine(part.batch, clip=self._clip, mask=part.mask)
        units, many = len(lines), len(lines) * self._rows_per_unit
        # A graph overwrites its last answer, so that one is copied.
        sums = {name: each.clone() for name, each in found.sums.items()} if self._fixed else found.sums
        return sums, found.norms[:units], found.losses[:many]

    def _supports(self, form: Form) -> bool:
        """Whether the model is proved for a form. That a form which was proved no longer is, is no matter of the
        data."""
        try:
            self._engine.prove(form)
        except (DeniableError, MemoryError, torch.OutOfMemoryError):
            if form == self._proved:
                raise
            if self._proved is not None:
                self._engine.prove(self._proved)
            return False
        return True
