"""Run a plan: charge it, draw its batches, clip, add noise, step. Nothing but the plan is executed.

    trainer = dn.deep.Trainer(model, optimizer, loss, plan, ledger="run.ledger")
    for batch in trainer.batches(dataset):
        trainer.step(batch)

`loss(output, y)` gives one loss per example. A step is: units drawn by the plan's sampling; every unit's gradient
clipped (`deniable.deep.clipping`); the sum over microbatches; noise; division by the expected batch;
`optimizer.step()`. An empty batch is a step like any other, of noise alone.

Refused: a batch from elsewhere, a batch used twice or left out, a step beyond the plan, a model whose parameters
changed, a generator that is not secure beside a ledger, a ledger about other units.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from deniable import noise
from deniable.deep import checkpoint
from deniable.deep.charging import charge
from deniable.deep.data import Chunk, Collate, Indices, People, Rows, chunk
from deniable.deep.noising import noising
from deniable.deep.plan import Plan
from deniable.deep.progress import Observation, Observer, PrivateStatistics, Progress
from deniable.deep.randomness import Generator, SecureGenerator
from deniable.deep.sums import Accumulator
from deniable.errors import DataError, DeniableError, InvalidArgument, NotSupported
from deniable.ledger import Ledger
from deniable.units import Relation

Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, eq=False)
class Batch:
    """The units of one step, drawn by the trainer's sampler. Who is in it is private."""

    step: int
    units: Indices = field(repr=False)


class Trainer:
    """One private training run of one model."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        plan: Plan,
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        run: str | None = None,
        who: str | None = None,
        sample: tuple[Any, Any] | None = None,
        microbatch: int | None = None,
        generator: Generator | None = None,
        observers: Sequence[Observer] = (),
        **clipping: Any,
    ) -> None:
        """Check the model, then charge the plan to the ledger under the key `run` (drawn at random when left out).

        `sample`, a small batch (x, y) that is not private, lets the self-check run before the charge; otherwise it
        runs on the first rows of the data. `microbatch` is how many units go through the model at once; on a GPU it
        is halved when memory runs out. `clipping` goes to the clipping engine: `mode`, `compile`, `autocast`,
        `loss_scale`.
        """
        self._set_up(model, optimizer, loss, plan, microbatch, generator, observers, clipping)
        if sample is not None:
            self._sums.check(*sample, clip=float(plan.clip))
            self._checked = True
        word = noise.secure().word
        self.run = run if run is not None else f"training {word():016x}"
        self._charge = charge(plan, ledger, run=self.run, who=who, secure=self._generator.secure, resumed=False)

    def _set_up(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        plan: Plan,
        microbatch: int | None,
        generator: Generator | None,
        observers: Sequence[Observer],
        clipping: dict[str, Any],
    ) -> None:
        """Everything but the charge."""
        if not isinstance(plan, Plan):
            raise InvalidArgument("plan", plan, "a dn.deep.Plan", "It states what will be executed and charged.")
        _check_optimizer(optimizer, model)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._generator: Generator = generator if generator is not None else SecureGenerator()
        self._sums = Accumulator(model, loss, plan, microbatch=microbatch, clipping=clipping)
        self._noising = noising(plan.noise, plan)
        self._observers = tuple(observers)
        self._shape = self._fingerprint()
        self._step = 0
        self._order: Indices | None = None
        self._journal: checkpoint.Journal | None = None
        self._issued: Batch | None = None
        self._data: tuple[Rows, People] | None = None
        self._checked = False
        self.private = PrivateStatistics(torch.empty(0), torch.empty(0), 0, float(plan.clip))

    # running

    def batches(
        self, dataset: Any, *, people: ArrayLike | None = None, collate: Collate | None = None
    ) -> Iterator[Batch]:
        """The remaining batches of the plan. Every one must be given to `step` before the next is drawn."""
        self._refuse_left_out()
        self._data = self._opened(dataset, people, collate)
        return self._drawn(len(self._data[1]))

    def _drawn(self, size: int) -> Iterator[Batch]:
        """A batch of the units 0 … size−1 for every step that remains."""
        while self._step < self.plan.steps:
            self._refuse_left_out()
            if self.plan.sampling.ordered and self._order is None:
                self._order = noise.permutation(size, source=self._generator.source(0, purpose="order"))
            source = self._generator.source(self._step, purpose="sampling")
            units = self.plan.sampling.draw(
                self.plan.schedule, step=self._step, size=size, order=self._order, source=source
            )
            self._issued = Batch(self._step + 1, units)
            yield self._issued

    def _refuse_left_out(self) -> None:
        if self._issued is not None:
            raise DeniableError(
                f"the batch of step {self._issued.step} was not given to trainer.step. Every batch is one step of the"
                " plan, an empty one too: leaving some out would depend on the data."
            )

    def step(self, batch: Batch) -> Progress:
        """Take the step of a batch that `batches` gave."""
        if self._data is None or batch is None or batch is not self._issued:
            raise DeniableError(
                "this batch does not come from trainer.batches, or was used before. The guarantee holds for batches"
                " that the plan's sampler drew, each used once: for batch in trainer.batches(data): trainer.step(batch)"
            )
        if self._fingerprint() != self._shape:
            raise DeniableError(
                "the model's modules or trainable parameters changed since the trainer was made; make a new one."
            )
        if self._journal is not None:
            self._journal.begin(batch.step, last=self.plan.steps)
        # From here on the step counts as taken, whatever happens.
        self._issued = None
        self._step = batch.step
        rows, people = self._data
        places = people.rows(batch.units, self._generator.source(batch.step - 1, purpose="rows"))
        sums, norms, losses = self._sums.over(rows, places)
        noisy = self._noising.add(sums, step=batch.step - 1, generator=self._generator)
        self._update(noisy)
        self.private = PrivateStatistics(norms, losses, int((places >= 0).sum()), float(self.plan.clip))
        if self._observers:
            divided = {name: each / float(self.plan.batch) for name, each in noisy.items()}
            seen = Observation(batch.step, divided, sums, batch.units.tolist())
            for observe in self._observers:
                observe(seen)
        return self.progress

    def fit(
        self,
        dataset: Any,
        *,
        people: ArrayLike | None = None,
        collate: Collate | None = None,
        on_step: Callable[[Progress], None] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100,
    ) -> Trainer:
        """Take all remaining steps; save to `checkpoint` every so many of them and at the end."""
        if checkpoint is not None:
            self.save(checkpoint)
        for batch in self.batches(dataset, people=people, collate=collate):
            progress = self.step(batch)
            if on_step is not None:
                on_step(progress)
            if checkpoint is not None and (progress.step % every == 0 or progress.step == progress.steps):
                self.save(checkpoint)
        return self

    @property
    def progress(self) -> Progress:
        """Step t of T, and what the whole plan costs."""
        return Progress(self._step, self.plan, charged=self._charge is not None)

    # stopping and going on

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint; from now on a journal beside it counts the steps that begin."""
        where = Path(path).absolute()
        if self._journal is None:
            self._journal = checkpoint.Journal(where, run=self.run, create=True)
        state = {
            "plan": self.plan.to_json(),
            "run": self.run,
            "step": self._step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "order": None if self._order is None else torch.from_numpy(np.array(self._order)),
            "noise": self._noising.state(),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "charge": None if self._charge is None else [self._charge.seq, self._charge.hash],
        }
        checkpoint.written(where, state)
        self._journal.mark(self._step)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        who: str | None = None,
        microbatch: int | None = None,
        generator: Generator | None = None,
        observers: Sequence[Observer] = (),
        **clipping: Any,
    ) -> Trainer:
        """Go on with the run of a checkpoint, into the given model and optimizer. The same run does not pay twice."""
        where = Path(path).absolute()
        found = checkpoint.read(where)
        if found["charge"] is not None and ledger is None:
            raise InvalidArgument("ledger", None, "the ledger that this run was charged to")
        trainer = cls.__new__(cls)
        plan = Plan.from_json(found["plan"])
        trainer._set_up(model, optimizer, loss, plan, microbatch, generator, observers, clipping)
        trainer.run = found["run"]
        trainer._journal = checkpoint.Journal(where, run=trainer.run, create=False)
        secure = trainer._generator.secure
        trainer._charge = charge(plan, ledger, run=trainer.run, who=who, secure=secure, resumed=True)
        model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
        trainer._noising.load(found["noise"])
        trainer._order = None if found["order"] is None else found["order"].numpy()
        torch.set_rng_state(found["torch"])
        if found["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(found["cuda"])
        trainer._step = max(found["step"], trainer._journal.begun)
        return trainer

    def close(self) -> None:
        """Let another process go on with this run from its checkpoint."""
        if self._journal is not None:
            self._journal.mark(self._step)
            self._journal.close()
            self._journal = None

    # inside

    def _opened(self, dataset: Any, ids: ArrayLike | None, collate: Collate | None) -> tuple[Rows, People]:
        """The data, checked against what the plan says is public."""
        rows = Rows(dataset, collate=collate)
        if (self.plan.unit.column is None) != (ids is None):
            raise InvalidArgument(
                "people", None if ids is None else "...", "given exactly when the plan's unit names who a row is about",
                f"The plan protects {self.plan.unit.one}.",
            )  # fmt: skip
        people = People(len(rows), ids=ids, rows_per_unit=self.plan.rows_per_unit)
        if self.plan.relation is not Relation.ADD_REMOVE and len(people) != self.plan.examples:
            raise DataError(
                f"under {self.plan.relation.name} the number of units is public and fixed by the plan:"
                f" examples={self.plan.examples}, the data have {len(people)}."
            )
        if not self._checked and len(people):
            few = people.rows(np.arange(min(8, len(people))), noise.secure())
            found: Chunk = chunk(rows, few, units=None, device=self._sums.device)
            self._sums.check(*found.batch, clip=float(self.plan.clip), mask=found.mask)
            self._checked = True
        return rows, people

    def _update(self, noisy: dict[str, Tensor]) -> None:
        """Noisy sums over the expected batch, to the optimizer; no other gradient survives."""
        self.optimizer.zero_grad(set_to_none=True)
        for name, parameter in self._sums.parameters.items():
            parameter.grad = (noisy[name] / float(self.plan.batch)).to(parameter.device, parameter.dtype)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _fingerprint(self) -> tuple[Any, ...]:
        """The modules and the trainable parameters, by identity."""
        modules = tuple((name, id(module)) for name, module in self.model.named_modules())
        return modules, tuple((n, id(p), p.requires_grad) for n, p in self.model.named_parameters())


def _check_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Refuse an optimizer that evaluates the loss by itself, as L-BFGS does, or that holds other parameters."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise NotSupported(f"{type(optimizer).__name__} evaluates the loss several times a step; use SGD, Adam, ...")
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    left = [name for name, each in model.named_parameters() if each.requires_grad and id(each) not in held]
    if left:
        raise InvalidArgument(
            "optimizer", type(optimizer).__name__, f"given every trainable parameter; {left[0]} is missing",
            "Freeze what should not change: parameter.requires_grad_(False).",
        )  # fmt: skip
    if held - {id(each) for each in model.parameters()}:
        raise InvalidArgument("optimizer", type(optimizer).__name__, "given parameters of this model only")
