"""Sums of clipped gradients over the units of a batch, microbatch by microbatch.

A batch larger than what fits is run in several passes; nobody is left out, since cutting a Poisson batch to a largest
size would be another sampling than the one accounted for. How many passes there are depends on the data and can be seen
in the running time, which is outside the promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from deniable._checks import count
from deniable.deep.clipping import ClippingEngine, SelfCheck
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import Loss
from deniable.deep.clipping.sharding import is_sharded, local
from deniable.deep.data import moved
from deniable.deep.distributed import Alone
from deniable.deep.loading import Chunk, StoredUnits, UnitsOfOneForm
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
            loss if plan.augmentations == 1 else _Averaged(loss, plan.augmentations),
            norm=plan.noise.norm,
            rows_per_unit=plan.rows_per_unit * plan.augmentations,
            bits=bits,
            clipping=plan.clipping,
            **clipping,
        )
        self.parameters: dict[str, nn.Parameter] = self._engine.parameters
        if self._whole and self.device.type != "cpu":
            raise NotSupported("GridNoise draws exact integers on the CPU; move the model there, or use GaussianNoise.")
        # A graph wants one shape: a microbatch that most Poisson batches fit into, the rest of it masked.
        self._fixed = bool(self._engine.compile)
        batch = max([plan.batch, *(plan.batch * stage.batch for stage in plan.stages)])
        usual = math.ceil((float(batch) + 2 * math.sqrt(batch)) / workers.number / 8) * 8
        self._rows_per_unit = plan.rows_per_unit * plan.augmentations
        most = max(1, LARGEST // self._rows_per_unit)
        self._units = count("microbatch", microbatch) if microbatch is not None else min(usual, most)
        self._proved: tuple[Form, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(iter(self.parameters.values())).device

    @property
    def units(self) -> int:
        """How many units go through the model at once; fewer once memory ran out."""
        return self._units

    def check(self, forms: Sequence[Form]) -> SelfCheck:
        """The proof and the check for the forms that inputs have: raises `NotSupported` when the model cannot be
        trained soundly on one of them. Only made-up values are used."""
        found = [self._check(form) for form in forms]
        self._proved = tuple(forms)
        return found[0]

    def _check(self, form: Form) -> SelfCheck:
        while True:
            try:
                return self._engine.check(form, clip=self._clip, rows=self._units * self._rows_per_unit)
            except torch.OutOfMemoryError:
                if self._units == 1 or not self._fixed:
                    raise
            self._units //= 2
            torch.cuda.empty_cache()

    def prove(self) -> None:
        """Prove the model again for the forms that were checked, where anything about it changed since. No row is read,
        so whether this refuses depends on the model alone."""
        for form in self._proved:
            self._engine.prove(form)

    def over(
        self, parts: Iterable[UnitsOfOneForm], units: int, *, clip: float
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Sums by parameter name, norms by unit, losses by row (0 for a place without a row). Of so many units, one
        that contributes nothing, because it could not be read or its form is not proved, has norm inf."""
        self._clip = clip
        kind = torch.int64 if self._whole else torch.float32
        sums: dict[str, Tensor] = {}
        norms, losses = [torch.empty(0, device=self.device)], [torch.empty(0, device=self.device)]
        counted = 0
        for added, lengths, costs in self._passes(parts):
            for name, each in added.items():
                sums[name] = sums[name].add_(each) if name in sums else each.to(kind)
            norms.append(lengths)
            losses.append(costs)
            counted += len(lengths)
        norms.append(torch.full((units - counted,), torch.inf, device=self.device))
        if not sums:
            sums = {
                name: torch.zeros(local(p).shape, dtype=kind, device=p.device) for name, p in self.parameters.items()
            }
        return sums, torch.cat(norms), torch.cat(losses)

    def _passes(self, parts: Iterable[UnitsOfOneForm]) -> Iterator[_Part]:
        """The result of every pass, without what only filled its shape."""
        if is_sharded(self._workers.model):
            yield from self._collective_passes(parts)
            return
        for part in parts:
            start = 0
            while start < part.units:
                stop = min(start + self._units, part.units)
                form, made, fits = None, None, True
                try:
                    chunk = part.chunk(start, stop, fill=self._fill, device=self.device)
                    form = Form.of(chunk.batch)
                    if self._supports(form):
                        made = self._pass(chunk)
                except torch.OutOfMemoryError:
                    if self._units > 1:
                        fits = False
                    elif isinstance(part, StoredUnits) or form in self._proved:
                        raise
                    # Else a unit has a form that nobody else has: too large to be worked on, it contributes nothing.
                if not fits:  # after the error is gone, and with it what its frames held
                    self._units //= 2
                    torch.cuda.empty_cache()
                    continue
                if made is not None:
                    yield made
                start = stop

    @property
    def _fill(self) -> int | None:
        """Up to how many units a pass is filled: a graph wants one shape."""
        return self._units if self._fixed else None

    def _collective_passes(self, parts: Iterable[UnitsOfOneForm]) -> Iterator[_Part]:
        """A model spread over ranks runs on all of them or on none. All ranks prove the forms that any of them has, in
        one order, and those with fewer passes than others take passes of nobody."""
        home = torch.device("cpu")
        chunks = [
            part.chunk(start, start + self._units, fill=self._fill, device=home)
            for part in parts
            for start in range(0, part.units, self._units)
        ]
        forms = [Form.of(chunk.batch).on(self.device) for chunk in chunks]
        proved = {form for form in self._workers.union(forms) if self._supports(form)}
        own = [chunk for form, chunk in zip(forms, chunks, strict=True) if form in proved]
        missing = self._workers.most(len(own)) - len(own)
        for chunk in own:
            batch = moved(chunk.batch, self.device)
            yield self._pass(Chunk(batch, chunk.mask.to(self.device), chunk.units))
        for _ in range(missing):
            some = next(iter(self._proved or sorted(proved, key=repr)))
            batch = some.made_up(self._rows_per_unit)
            nobody = torch.zeros(self._rows_per_unit, dtype=torch.bool, device=self.device)
            yield self._pass(Chunk(batch, nobody, 0))

    def _pass(self, chunk: Chunk) -> _Part:
        found = self._engine(chunk.batch, clip=self._clip, mask=chunk.mask)
        many = chunk.units * self._rows_per_unit
        # A graph overwrites its last answer, so that one is copied.
        sums = {name: each.clone() for name, each in found.sums.items()} if self._fixed else found.sums
        return sums, found.norms[: chunk.units], found.losses[:many]

    def _supports(self, form: Form) -> bool:
        """Whether the model is proved for a form. That a form which was proved no longer is, is no matter of the
        data."""
        try:
            self._engine.prove(form)
        except (DeniableError, MemoryError, torch.OutOfMemoryError):
            if form in self._proved:
                raise
            self.prove()
            return False
        return True


class _Averaged(nn.Module):
    """Losses divided by how many augmentations of a row there are: a unit's gradient is then the sum of its rows'
    means."""

    def __init__(self, loss: Loss, many: int) -> None:
        super().__init__()
        self.loss, self._many = loss, many

    def forward(self, output: Any, targets: Any) -> Tensor:
        return self.loss(output, targets) / self._many
