"""Run a plan: charge it, draw its batches, clip, add noise, step. Nothing but the plan is executed.

    trainer = dn.deep.Trainer(model, optimizer, loss, plan, ledger="run.ledger")
    for batch in trainer.batches(dataset):
        trainer.step(batch)

`loss(output, y)` gives one loss per example. A step is: units drawn by the plan's sampling; every unit's gradient
clipped (`deniable.deep.clipping`); the sum over microbatches; noise; division by the expected batch;
`optimizer.step()`. An empty batch is a step like any other, of noise alone.

Refused: a batch from elsewhere, a batch used twice or left out, a step beyond the plan, a step after `close`, other
data under a fixed order, a model whose parameters changed, a generator that is not secure beside a ledger, a ledger
about other units.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from deniable import noise
from deniable.deep import checkpoint, optimizers
from deniable.deep.charging import charge
from deniable.deep.data import Chunk, Collate, Indices, People, Rows, chunk
from deniable.deep.distributed import workers_of
from deniable.deep.fingerprints import Fingerprint, differ, fingerprint
from deniable.deep.noising import noising
from deniable.deep.plan import Plan
from deniable.deep.progress import Observation, Observer, PrivateStatistics, Progress
from deniable.deep.randomness import Generator, SecureGenerator
from deniable.deep.sums import Accumulator
from deniable.errors import DataError, DeniableError, InvalidArgument, LedgerError
from deniable.ledger import Charge, Ledger
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
            self._workers.everywhere(lambda: self._sums.check(*sample, clip=float(plan.clip)))
            self._checked = True
        word = noise.secure().word
        self.run = self._workers.once(lambda: run if run is not None else f"training {word():016x}")
        self._pay(ledger, who, resumed=False)

    def _pay(self, ledger: Ledger | str | os.PathLike[str] | None, who: str | None, *, resumed: bool) -> None:
        """Charge the plan, before any step: once, on the first rank; the others wait for it."""
        secure = self._generator.secure
        self._workers.agree("ledger", ledger is None)
        self._charge: Charge | None = self._workers.once(
            lambda: charge(self.plan, ledger, run=self.run, who=who, secure=secure, resumed=resumed)
        )

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
        self._workers = workers_of(model, plan)
        optimizers.check(optimizer, self._workers.model)
        self.model, self.optimizer, self.plan = self._workers.model, optimizer, plan
        self._generator = self._workers.generator(generator if generator is not None else SecureGenerator())
        self._sums = self._workers.everywhere(
            lambda: Accumulator(self._workers, loss, plan, microbatch=microbatch, clipping=clipping)
        )
        self._workers.agree("plan", (repr(plan), list(self._sums.parameters), len(observers)))
        self._noising = noising(plan.noise, plan)
        self._observers = tuple(observers)
        self._shape = self._fingerprint()
        self._step = 0
        # Drawn before anything can be saved: a run that is resumed must never draw another.
        self._order: Indices | None = self._workers.once(self._drawn_order) if plan.sampling.ordered else None
        self._journal: checkpoint.Journal | None = None
        self._closed = False
        self._issued: Batch | None = None
        self._data: tuple[Rows, People] | None = None
        self._known: Fingerprint | None = None
        self._checked = False
        self.private = PrivateStatistics(torch.empty(0), torch.empty(0), 0, float(plan.clip))

    # running

    def batches(
        self, dataset: Any, *, people: ArrayLike | None = None, collate: Collate | None = None
    ) -> Iterator[Batch]:
        """The remaining batches of the plan. Every one must be given to `step` before the next is drawn."""
        self._refuse_closed()
        self._refuse_left_out()
        self._data = self._opened(dataset, people, collate)
        return self._drawn(len(self._data[1]))

    def _drawn(self, size: int) -> Iterator[Batch]:
        """A batch of the units 0 … size−1 for every step that remains."""
        while self._step < self.plan.steps:
            self._refuse_closed()
            self._refuse_left_out()
            units = self._workers.drawn(lambda: self._draw(size))
            self._issued = Batch(self._step + 1, units)
            yield self._issued
        self._workers.look()

    def _drawn_order(self) -> Indices:
        """An order of all units. Samplings that use one are for relations under which their number is public."""
        return noise.permutation(self.plan.examples, source=self._generator.source(0, purpose="order"))

    def _draw(self, size: int) -> Indices:
        """The units of the next step."""
        source = self._generator.source(self._step, purpose="sampling")
        return self.plan.sampling.draw(self.plan.schedule, step=self._step, size=size, order=self._order, source=source)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise DeniableError(
                "this trainer is closed: another process may have gone on with its run. Save before you close, and go"
                " on with Trainer.resume."
            )

    def _refuse_left_out(self) -> None:
        if self._issued is not None:
            raise DeniableError(
                f"the batch of step {self._issued.step} was not given to trainer.step. Every batch is one step of the"
                " plan, an empty one too: leaving some out would depend on the data."
            )

    def step(self, batch: Batch) -> Progress:
        """Take the step of a batch that `batches` gave."""
        self._refuse_closed()
        if self._data is None or batch is None or batch is not self._issued:
            raise DeniableError(
                "this batch does not come from trainer.batches, or was used before. The guarantee holds for batches"
                " that the plan's sampler drew, each used once: for batch in trainer.batches(data): trainer.step(batch)"
            )
        if self._fingerprint() != self._shape:
            raise DeniableError(
                "the model's modules or trainable parameters changed since the trainer was made; make a new one."
            )
        # From here on the step counts as taken, whatever happens.
        self._issued = None
        self._step = batch.step
        rows, people = self._data
        with self._workers.telling():
            if self._journal is not None:
                self._journal.begin(batch.step, last=self.plan.steps)
            source = self._generator.source(batch.step - 1, purpose="rows")
            places = people.rows(self._workers.part(batch.units), source)
            sums, norms, losses = self._sums.over(rows, places)
            clean = _copies(sums) if self._observers else {}
        noisy = self._workers.noisy(
            sums, lambda given: self._noising.add(given, step=batch.step - 1, generator=self._generator)
        )
        for each in noisy.values():
            each.div_(float(self.plan.batch))
        released = _copies(self._workers.released(noisy)) if self._observers else {}
        self._update(noisy)
        self.private = PrivateStatistics(norms, losses, int((places >= 0).sum()), float(self.plan.clip))
        if self._observers:
            seen = Observation(batch.step, released, self._workers.seen(clean), batch.units.tolist())
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
        overwrite: bool = False,
    ) -> Trainer:
        """Take all remaining steps; save to `checkpoint` every so many of them and at the end.

        A file at `checkpoint` that is not of this run is refused before the first step, unless `overwrite` is given.
        """
        if checkpoint is not None:
            self.save(checkpoint, overwrite=overwrite)
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

    def __repr__(self) -> str:
        return f"Trainer({self.progress})"

    # stopping and going on

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a checkpoint; from now on a journal beside it counts the steps that begin.

        An earlier checkpoint of the same run is replaced; any other file only with `overwrite`.
        """
        self._refuse_closed()
        state = self._workers.state(self.optimizer)
        # With the memory of correlated noise one could take noise off; a finished run has no more use for it.
        state["noise"] = self._workers.gathered(self._noising.state()) if self._step < self.plan.steps else {}
        self._workers.once(lambda: self._write(Path(path).absolute(), state, overwrite=overwrite))

    def _write(self, where: Path, state: dict[str, Any], *, overwrite: bool) -> None:
        checkpoint.check_place(where, run=self.run, overwrite=overwrite)
        if self._journal is None:
            journal = checkpoint.Journal(where, run=self.run, create=True)
            try:
                journal.mark(self._step)  # refused where another process began more steps of this run
            except LedgerError:
                journal.close()
                raise
            self._journal = journal
        state |= {
            "plan": self.plan.to_json(),
            "run": self.run,
            "step": self._step,
            "order": None if self._order is None else torch.from_numpy(np.array(self._order)),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "charge": None if self._charge is None else [self._charge.seq, self._charge.hash],
        }
        checkpoint.written(where, state, overwrite=overwrite)
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
        with ExitStack() as refused:
            refused.callback(trainer._let_go)  # whoever may not go on must not keep others from it
            begun = max(found["step"], trainer._workers.once(lambda: trainer._taken_up(where)))
            if begun and plan.sampling.ordered and found["order"] is None:
                raise DataError(
                    f"the checkpoint at {where} does not hold the order of the units, and {begun} steps have begun."
                    " Another order would let a unit take part more often than was paid for. Start a new run and pay"
                    " for it."
                )
            trainer._pay(ledger, who, resumed=True)
            trainer._workers.load(found, optimizer)
            trainer._noising.load(trainer._workers.own(found["noise"]))
            refused.pop_all()
        if found["order"] is not None:
            trainer._order = found["order"].numpy()
        torch.set_rng_state(found["torch"])
        if found["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(found["cuda"])
        trainer._step = begun
        return trainer

    def _taken_up(self, where: Path) -> int:
        """Take over the journal of a checkpoint; how many steps have begun."""
        self._journal = checkpoint.Journal(where, run=self.run, create=False)
        return self._journal.begun

    def close(self) -> None:
        """Let another process go on with this run from its checkpoint. This trainer takes no more steps."""
        self._closed = True
        if self._journal is not None:
            self._journal.mark(self._step)
        self._let_go()

    def _let_go(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    # inside

    def _opened(self, dataset: Any, ids: ArrayLike | None, collate: Collate | None) -> tuple[Rows, People]:
        """The data, checked against what the plan says is public."""
        rows, people = self._workers.everywhere(lambda: self._read(dataset, ids, collate))
        self._refuse_other_data(rows, people)
        if self.plan.relation is not Relation.ADD_REMOVE:
            units = self._workers.total(len(people))
            if units != self.plan.examples:
                raise DataError(
                    f"under {self.plan.relation.name} the number of units is public and fixed by the plan:"
                    f" examples={self.plan.examples}, the data have {units}."
                )
        # Every rank comes here, with units or without: whether another has some may be private.
        self._workers.everywhere(lambda: self._check(rows, people))
        return rows, people

    def _read(self, dataset: Any, ids: ArrayLike | None, collate: Collate | None) -> tuple[Rows, People]:
        rows = Rows(dataset, collate=collate)
        if (self.plan.unit.column is None) != (ids is None):
            raise InvalidArgument(
                "people", None if ids is None else "...", "given exactly when the plan's unit names who a row is about",
                f"The plan protects {self.plan.unit.one}.",
            )  # fmt: skip
        return rows, People(len(rows), ids=ids, rows_per_unit=self.plan.rows_per_unit)

    def _refuse_other_data(self, rows: Rows, people: People) -> None:
        """Where units go by their places: the same ones on every rank, and under one order for the whole run."""
        if not (self._workers.shared or self.plan.sampling.ordered):
            return
        found = self._workers.everywhere(lambda: fingerprint(rows, people))
        self._workers.same(found)
        if self.plan.sampling.ordered and self._known is not None and differ([self._known, found]):
            raise DataError(
                f"these are not the rows that this run began with, in their order. {self.plan.sampling!r} is about"
                " places: shuffled data would let a unit take part more often than was paid for. Give the same data;"
                " the trainer shuffles them, once."
            )
        self._known = found

    def _check(self, rows: Rows, people: People) -> None:
        """The self-check on the first rows of the data, once."""
        if len(people) and not self._checked:
            few = people.rows(np.arange(min(8, len(people))), noise.secure())
            found: Chunk = chunk(rows, few, units=None, device=self._sums.device)
            self._sums.check(*found.batch, clip=float(self.plan.clip), mask=found.mask)
            self._checked = True

    def _update(self, released: dict[str, Tensor]) -> None:
        """Noisy sums over the expected batch, to the optimizer; no other gradient survives."""
        self.optimizer.zero_grad(set_to_none=True)
        for name, parameter in self._sums.parameters.items():
            parameter.grad = self._workers.gradient(name, parameter, released[name])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _fingerprint(self) -> tuple[Any, ...]:
        """The modules and the trainable parameters, by identity."""
        modules = tuple((name, id(module)) for name, module in self.model.named_modules())
        return modules, tuple((n, id(p), p.requires_grad) for n, p in self.model.named_parameters())


def _copies(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.clone() for name, each in sums.items()}
