"""Run a plan: prove the model, charge, draw batches, clip, add noise, step. Nothing but the plan is executed.

    trainer = dn.deep.Trainer(model, optimizer, loss, plan, ledger="run.ledger")
    for batch in trainer.batches(dataset):
        trainer.step(batch)

`loss(output, y)` gives one loss per example. A step is: units drawn by the plan's sampling; every unit's gradient
clipped (`deniable.deep.clipping`); the sum over microbatches; noise; division by the expected batch;
`optimizer.step()`. An empty batch is a step like any other, of noise alone.

*Before the charge* everything is checked that can refuse: model, loss and form of the data by a proof on made-up
values (`deniable.deep.clipping`), the optimizer, the ledger, the place of checkpoints. *After it* no row decides
anything: a unit that cannot be read, has a form for which the model is not proved, makes a kernel fail or has no
finite gradient contributes zero. `trainer.private` counts them. *Before each step* the model is proved again if
anything about it changed, `model.train()` for example. If that refuses, no row was looked at and the step is not taken:
the batch can be given again once the model is as it was. The plan was charged whole, so nothing more is charged.

Refused: a batch from elsewhere, a batch used twice or left out, a step beyond the plan, a step after `close`, other
data under a fixed order, a model whose parameters changed, a generator that is not secure beside a ledger, a ledger
about other units.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from deniable import _checks, _files, noise
from deniable._checks import Number
from deniable._progress import bar
from deniable._signatures import public
from deniable.deep import checkpoint, optimizers
from deniable.deep.after_step import AfterStep
from deniable.deep.charging import charge, check_charge
from deniable.deep.clipping import SelfCheck
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import row_count
from deniable.deep.clipping.sharding import is_sharded
from deniable.deep.data import Collate, Indices, People, Rows, forms_of, moved
from deniable.deep.distributed import workers_of
from deniable.deep.fingerprints import Fingerprint, differ, fingerprint
from deniable.deep.loading import Loader, Loading, StepDraw, parts_here
from deniable.deep.measures import SeriesPoint
from deniable.deep.measuring import Measuring
from deniable.deep.monitoring import Evaluate, Logger, Monitor
from deniable.deep.noising import noising
from deniable.deep.padding import Padding
from deniable.deep.plan import Plan
from deniable.deep.progress import Observation, Observer, PrivateStatistics, Progress
from deniable.deep.randomness import Generator, SecureGenerator
from deniable.deep.sums import Accumulator
from deniable.errors import DataError, DeniableError, InvalidArgument, LedgerError, NotSupported
from deniable.ledger import Charge, Ledger
from deniable.units import Relation

Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, eq=False)
class Batch:
    """The units of one step, drawn by the trainer's sampler. Who is in it is private."""

    step: int
    units: Indices = field(repr=False)
    places: Indices = field(repr=False)
    """The rows of the units that this rank works on."""


class Trainer:
    """One private training run of one model."""

    @public
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
        mode: str = "auto",
        compile: bool | str = "auto",
        autocast: torch.dtype | None = None,
        loss_scale: float = 1.0,
        scheduler: LRScheduler | None = None,
        ema: Number | None = None,
    ) -> None:
        """Prepare a run. The model is proved and checked, and then the plan is charged, under the key `run` (drawn at
        random when left out): here if `sample` is given, else when `batches` or `fit` is first given the data.

        Args:
            model: Any model; wrapped in `DistributedDataParallel`, or under `fully_shard`, it trains on all ranks.
            optimizer: A torch optimizer over the model's trainable parameters.
            loss: `loss(output, y)` gives one loss per example.
            plan: What is executed, and charged.
            ledger: Where the plan is charged; None charges nothing.
            run: The key of the charge.
            who: The analyst who is charged.
            sample: A batch (x, y) of public rows, or of rows made up. Shapes and types are read off it, and the range
                of integers; proof and check use made-up numbers.
            microbatch: Units that go through the model at once; on a GPU halved when memory runs out.
            generator: Where noise comes from.
            observers: Called after every step with what an auditor may see.
            mode: How gradients are clipped: "auto", "fast", "two_pass" or "vmap".
            compile: "auto" replays the step as one graph on a GPU, once a shape has come often; "graph" does so at once
                and anywhere; True also compiles the graph, which takes a minute or two; False runs eagerly.
            autocast: The type of mixed precision, torch.bfloat16 or torch.float16.
            loss_scale: What losses are multiplied by before the backward pass, for torch.float16.
            scheduler: A learning-rate scheduler of the optimizer; the trainer calls its `step` after every step.
            ema: The decay of an average of the weights, as 0.999; `with trainer.averaged():` the model holds it.
        """
        options = {"mode": mode, "compile": compile, "autocast": autocast, "loss_scale": loss_scale}
        self._set_up(model, optimizer, loss, plan, microbatch, generator, observers, options, scheduler, ema)
        word = noise.secure().word
        self.run = self._workers.once(lambda: run if run is not None else f"training {word():016x}")
        self._ledger, self._who, self._resumed = ledger, who, False
        self._workers.agree("ledger", ledger is None)
        secure = self._generator.secure
        self._workers.once(lambda: check_charge(plan, ledger, run=self.run, who=who, secure=secure, new=True))
        if sample is not None:
            row_count(sample)
            form = Form.of(moved(sample, self._sums.device), sample=True)
            self._check([(form,)])
            self._pay()

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
        scheduler: LRScheduler | None,
        ema: Number | None,
    ) -> None:
        """Everything but the charge."""
        if not isinstance(plan, Plan):
            raise InvalidArgument("plan", plan, "a dn.deep.Plan", "It states what will be executed and charged.")
        if not callable(loss):
            raise InvalidArgument("loss", type(loss).__name__, "a function of the output and the targets")
        if not isinstance(observers, Sequence) or not all(map(callable, observers)):
            raise InvalidArgument("observers", type(observers).__name__, "a list of functions")
        if generator is not None and not isinstance(generator, Generator):
            raise InvalidArgument("generator", type(generator).__name__, "a generator, as dn.deep.SecureGenerator()")
        self._process = os.getpid()
        self._step_lock = threading.Lock()
        self._workers = workers_of(model, plan)
        if plan.shares and self._workers.number > 1:
            raise NotSupported(
                "adaptive clipping and a series of losses run in one process; leave them out of the plan, or train on"
                " one device"
            )
        optimizers.check(optimizer, self._workers.model)
        self.model, self.optimizer, self._plan = self._workers.model, optimizer, plan
        self._generator = self._workers.generator(generator if generator is not None else SecureGenerator())
        self._sums = self._workers.everywhere(
            lambda: Accumulator(self._workers, loss, plan, microbatch=microbatch, clipping=clipping)
        )
        self._after = AfterStep(
            self._sums.parameters, optimizer, scheduler=scheduler, ema=ema, sharded=is_sharded(self.model)
        )
        self._workers.agree("plan", (repr(plan), list(self._sums.parameters), len(observers)))
        self._noising = noising(plan.noise, plan)
        self._observers = tuple(observers)
        self._shape = optimizers.identities(self.optimizer, self.model)
        self._step = 0
        # Drawn before anything can be saved: a run that is resumed must never draw another.
        self._order: Indices | None = self._workers.once(self._drawn_order) if plan.sampling.ordered else None
        self._journal: checkpoint.Journal | None = None
        self._place: Path | None = None
        self._closed = False
        self._issued: Batch | None = None
        self._data: tuple[Rows, People] | None = None
        self._loader: Loader | None = None
        self._measuring = Measuring(plan)
        self.evaluations: list[tuple[int, dict[str, float]]] = []
        """What `evaluate` returned, and after which step."""
        self._known: Fingerprint | None = None
        self._charge: Charge | None = None
        self._paid = False
        self.checked: SelfCheck | None = None
        """What was checked before the charge; it names trainable parameters that have no gradient."""
        self.private = PrivateStatistics(torch.empty(0), torch.empty(0), 0, float(plan.clip))

    def _pay(self) -> None:
        """Charge the plan, before any step: once, on the first rank; the others wait for it."""
        if self._paid:
            return
        secure, ledger, who, resumed = self._generator.secure, self._ledger, self._who, self._resumed
        self._charge = self._workers.once(
            lambda: charge(self.plan, ledger, run=self.run, who=who, secure=secure, resumed=resumed)
        )
        self._paid = True

    def _check(self, families: list[tuple[Form, ...]]) -> None:
        """Prove and check the model, before the charge, for one of the families of forms that its inputs may have."""
        refusals = []
        for forms in families:
            try:
                self.checked = self._workers.everywhere(lambda: self._sums.check(forms))  # noqa: B023  called at once
            except NotSupported as refusal:
                refusals.append(refusal)
            else:
                return
        if refusals:
            raise refusals[0]

    @property
    def plan(self) -> Plan:
        """The plan of this run; it cannot be replaced."""
        return self._plan

    # running

    def batches(
        self,
        dataset: Any,
        *,
        people: ArrayLike | None = None,
        collate: Collate | None = None,
        label: str | None = None,
        padding: Padding | None = None,
        num_workers: int = 0,
        prefetch_factor: int = 2,
        pin_memory: bool | None = None,
    ) -> Iterator[Batch]:
        """The remaining batches of the plan. Every one must be given to `step` before the next is drawn.

        Args:
            dataset: Tensors or arrays (x, y), in a tuple or by name, or a map-style dataset of (x, y) or of mappings.
            people: Whose each row is, where the plan protects people. Rows without an id (None, NaN) take part in
                nothing.
            collate: Turns the items of *one unit* into a batch (x, y); each unit is collated by itself.
            label: Of mappings, the column that the loss compares with: "labels", "label" or "y" if it is left out. The
                model is called with the others by name.
            padding: The lengths that rows of different lengths are padded to.
            num_workers: Processes that read the rows of coming steps; 0 reads in this one. Columns in memory are
                always read here.
            prefetch_factor: Microbatches that each of them reads ahead.
            pin_memory: Whether they are put where a GPU fetches them from; where the model is on one, if left out.
        """
        self._refuse_closed()
        self._refuse_left_out()
        self._refuse_changed()
        loading = Loading(num_workers, prefetch_factor, pin_memory)
        self._data = self._opened(people, lambda: Rows(dataset, collate=collate, label=label, padding=padding))
        self._end_workers()
        self._loader = self._ahead(*self._data, loading)
        self._pay()
        return self._drawn(self._data[1])

    def _drawn(self, people: People) -> Iterator[Batch]:
        """The batch of every step that remains."""
        while self._step < self.plan.steps:
            self._refuse_closed()
            self._refuse_left_out()
            draw = self._draw_step(people, self._step) if self._loader is None else self._loader.next()
            if draw is None or draw.step != self._step:
                raise DeniableError("trainer.batches was called again; go on with the batches that it gave last.")
            self._issued = Batch(draw.step + 1, draw.units, draw.places)
            yield self._issued
        self._end_workers()
        self._workers.look()

    def _ahead(self, rows: Rows, people: People, loading: Loading) -> Loader | None:
        """What reads ahead, if asked for: on every rank the same."""
        size = self._sums.units
        if self._workers.shared:  # they draw together
            self._workers.agree("num_workers", (loading, size) if loading.num_workers else loading.num_workers)
        if not loading.num_workers or rows.in_memory or self._step >= self.plan.steps:
            return None
        draws = (self._draw_step(people, step) for step in range(self._step, self.plan.steps))
        on_gpu = self._sums.device.type == "cuda"
        seed = self._generator.source(self._step, purpose="workers").word()
        return Loader(
            rows, draws, size=size, loading=loading, seed=seed % 2**62, locked=self._locked_files,
            pin=on_gpu if loading.pin_memory is None else loading.pin_memory and torch.cuda.is_available(),
        )  # fmt: skip

    def _locked_files(self) -> list[int]:
        return [] if self._journal is None else [self._journal.file]

    def _end_workers(self) -> None:
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def _draw_step(self, people: People, step: int) -> StepDraw:
        """The units of a step (from 0), and their rows."""
        units = self._workers.drawn(lambda: self._draw(len(people), step))
        places = people.rows(self._workers.part(units), self._generator.source(step, purpose="rows"))
        ranks = self._workers.number if self._workers.shared else 1
        return StepDraw(step, units, places, most=-(-len(units) // ranks))

    def _drawn_order(self) -> Indices:
        """An order of all units. Samplings that use one are for relations under which their number is public."""
        return self.plan.sampling.begin(self.plan.schedule, self._generator.source(0, purpose="order"))

    def _draw(self, size: int, step: int) -> Indices:
        """Which of `size` units are in the batch of a step."""
        source = self._generator.source(step, purpose="sampling")
        schedule = replace(self.plan.schedule, batch=self.plan.at(step).batch)
        return self.plan.sampling.draw(schedule, step=step, size=size, order=self._order, source=source)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies are refused: each could take all steps of a plan that was charged once."""
        raise DeniableError(
            "a trainer cannot be copied or sent elsewhere: its charge pays for one run. Make it in the process that"
            " trains; trainer.save and Trainer.resume move a run."
        )

    def _refuse_closed(self) -> None:
        if os.getpid() != self._process:
            raise DeniableError(
                "this process was forked from the one that made the trainer, and a charge pays for one run. Make the"
                " trainer in the process that trains; trainer.save and Trainer.resume move a run."
            )
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

    def _refuse_changed(self) -> None:
        if optimizers.identities(self.optimizer, self.model) != self._shape:
            raise DeniableError(
                "the model's modules, its trainable parameters or those of the optimizer changed since the trainer was"
                " made; make a new one."
            )

    def step(self, batch: Batch) -> Progress:
        """Take the step of a batch that `batches` gave."""
        rows = self._begin(batch)
        with self._workers.telling():
            if self._journal is not None:
                self._journal.begin(batch.step, last=self.plan.steps)
            parts = (
                parts_here(rows, batch.places, size=self._sums.units) if self._loader is None else self._loader.parts()
            )
            numbers = self.plan.at(batch.step - 1)
            clip = self._measuring.clip(batch.step - 1)
            sums, norms, losses = self._sums.over(parts, len(batch.places), clip=float(clip))
            clean = _copies(sums) if self._observers else {}
        noisy = self._workers.noisy(
            sums,
            lambda given: self._noising.add(given, step=batch.step - 1, generator=self._generator, clip=clip),
        )
        for each in noisy.values():
            each.div_(float(numbers.batch))
        released = _copies(self._workers.released(noisy)) if self._observers else {}
        self._update(noisy)
        self._after.take(batch.step)
        seen_rows = int((batch.places >= 0).sum()) // self.plan.augmentations
        self.private = PrivateStatistics(norms, losses, seen_rows, float(clip))
        self._measuring.take(batch.step - 1, norms, losses, self._generator)
        if self._observers:
            seen = Observation(batch.step, released, self._workers.seen(clean), batch.units.tolist())
            for observe in self._observers:
                observe(seen)
        return self.progress

    def averaged(self) -> AbstractContextManager[None]:
        """In here the model holds the average of its weights, if the trainer was made with `ema`."""
        return self._after.averaged()

    @property
    def clip(self) -> float:
        """What the next step clips to: the plan's, or what adaptive clipping has come to. Public."""
        return float(self._measuring.clip(min(self._step, self.plan.steps - 1)))

    @property
    def series(self) -> list[SeriesPoint]:
        """The losses that the plan released with noise, where it has a series: public, and paid for."""
        return self._measuring.series

    def _begin(self, batch: Batch) -> Rows:
        """Count a step as taken, whatever happens from now on, and give the rows; for one caller of several threads."""
        with self._step_lock:
            self._refuse_closed()
            if self._data is None or batch is None or batch is not self._issued:
                raise DeniableError(
                    "this batch does not come from trainer.batches, or was used before. The guarantee holds for batches"
                    " that the plan's sampler drew, each used once:"
                    " for batch in trainer.batches(data): trainer.step(batch)"
                )
            self._refuse_changed()
            with self._workers.telling():
                self._sums.prove()
            self._issued = None
            self._step = batch.step
            return self._data[0]

    def fit(
        self,
        dataset: Any,
        *,
        people: ArrayLike | None = None,
        collate: Collate | None = None,
        label: str | None = None,
        padding: Padding | None = None,
        num_workers: int = 0,
        prefetch_factor: int = 2,
        pin_memory: bool | None = None,
        on_step: Callable[[Progress], None] | None = None,
        evaluate: Evaluate | None = None,
        evaluate_every: int = 100,
        loggers: Sequence[Logger] = (),
        stop: Callable[[Trainer], bool] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 100,
        overwrite: bool = False,
        progress: bool = True,
    ) -> Trainer:
        """Take all remaining steps; save to `checkpoint` every so many of them and at the end. `batches` says what the
        data may be and how they are read.

        A file at `checkpoint` that is not of this run is refused before the first step, unless `overwrite` is given.
        `progress` shows the steps on a terminal or in a notebook. An interruption says which step was taken last.

        `evaluate(model)` gives numbers by name, from public data, every `evaluate_every` steps and at the end.
        `loggers` are told the public numbers of every step. `stop(trainer)` ends the run early when it is true; the
        cost is the same.
        """
        often = _checks.count("every", every)
        monitor = Monitor(self, evaluate=evaluate, evaluate_every=evaluate_every, loggers=loggers, stop=stop)
        if on_step is not None and not callable(on_step):
            raise InvalidArgument("on_step", type(on_step).__name__, "a function of the progress")
        with ExitStack() as refused:
            if checkpoint is not None:  # what can refuse to be written does so before the charge
                refused.callback(self._leave_place, kept=self._place)
                self._workers.once(lambda: self._take_place(Path(checkpoint).absolute(), overwrite=overwrite) and None)
            drawn = self.batches(
                dataset, people=people, collate=collate, label=label, padding=padding, num_workers=num_workers,
                prefetch_factor=prefetch_factor, pin_memory=pin_memory,
            )  # fmt: skip
            refused.pop_all()
        if checkpoint is not None:
            self.save(checkpoint, overwrite=overwrite)
        try:
            with bar() if progress else nullcontext() as update:
                for batch in drawn:
                    clip = self.clip
                    state = self.step(batch)
                    ends = monitor.take(clip)
                    if update is not None:
                        update("train", state.step, state.steps)
                    if on_step is not None:
                        on_step(state)
                    if checkpoint is not None and (state.step % often == 0 or state.step == state.steps or ends):
                        self.save(checkpoint)
                    if ends:
                        break
        except KeyboardInterrupt as interruption:
            interruption.add_note(f"{self.progress}. trainer.fit goes on from there.")
            raise
        return self

    @property
    def progress(self) -> Progress:
        """Step t of T, and what the whole plan costs."""
        return Progress(self._step, self.plan, self.run, self._charge, self._generator.secure)

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

    def _take_place(self, where: Path, *, overwrite: bool) -> checkpoint.Journal:
        """The journal beside a checkpoint. A run has one of both: a copy would let steps be taken twice."""
        checkpoint.check_place(where, run=self.run, overwrite=overwrite)
        if self._place is not None and where != self._place:
            raise DeniableError(
                f"this run is saved at {_files.show_path(self._place)}, where its journal counts the steps that have"
                " begun. A"
                " second checkpoint elsewhere could be resumed to take them again; save to the same place."
            )
        if self._journal is None:
            journal = checkpoint.Journal(where, run=self.run, create=True, order=checkpoint.digest_of(self._order))
            try:
                journal.mark(self._step)  # refused where another process began more steps of this run
            except LedgerError:
                journal.close()
                raise
            self._journal, self._place = journal, where
        return self._journal

    def _leave_place(self, *, kept: Path | None) -> None:
        """After a refusal: leave no journal behind that was not there before."""
        if kept is None and self._journal is not None:
            self._journal.discard()
            self._journal = self._place = None

    def _write(self, where: Path, state: dict[str, Any], *, overwrite: bool) -> None:
        journal = self._take_place(where, overwrite=overwrite)
        state |= {
            "plan": self.plan.to_json(),
            "run": self.run,
            "step": self._step,
            "order": None if self._order is None else torch.from_numpy(np.array(self._order)),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "charge": None if self._charge is None else [self._charge.seq, self._charge.hash],
            "measures": self._measuring.state(),
            "after_step": self._after.state(),
        }
        checkpoint.written(where, state, overwrite=overwrite)
        journal.mark(self._step)

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
        mode: str = "auto",
        compile: bool | str = "auto",
        autocast: torch.dtype | None = None,
        loss_scale: float = 1.0,
        scheduler: LRScheduler | None = None,
        ema: Number | None = None,
    ) -> Trainer:
        """Go on with the run of a checkpoint, into the given model and optimizer. The same run does not pay twice."""
        where = Path(path).absolute()
        found = checkpoint.read(where)
        if found["charge"] is not None and ledger is None:
            raise InvalidArgument("ledger", None, "the ledger that this run was charged to")
        trainer = cls.__new__(cls)
        plan = Plan.from_json(found["plan"])
        options = {"mode": mode, "compile": compile, "autocast": autocast, "loss_scale": loss_scale}
        trainer._set_up(model, optimizer, loss, plan, microbatch, generator, observers, options, scheduler, ema)
        trainer.run = found["run"]
        with ExitStack() as refused:
            refused.callback(trainer._let_go)  # whoever may not go on must not keep others from it
            begun = max(found["step"], trainer._workers.once(lambda: trainer._taken_up(where, found["order"])))
            if begun > plan.steps:
                raise DataError(f"the checkpoint at {where} is at step {begun}, and its plan has {plan.steps}")
            if begun and plan.sampling.ordered and found["order"] is None:
                raise DataError(
                    f"the checkpoint at {where} does not hold the order of the units, and {begun} steps have begun."
                    " Another order would let a unit take part more often than was paid for. Start a new run and pay"
                    " for it."
                )
            trainer._ledger, trainer._who, trainer._resumed = ledger, who, True
            trainer._workers.agree("ledger", ledger is None)
            secure = trainer._generator.secure
            trainer._workers.once(
                lambda: check_charge(plan, ledger, run=trainer.run, who=who, secure=secure, new=False)
            )
            if found["charge"] is not None:
                trainer._pay()
            try:
                trainer._workers.load(found, optimizer)
            except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
                raise DataError(
                    f"the checkpoint at {where} is of another model or another optimizer ({error}). Make both as they"
                    " were when the run began."
                ) from error
            trainer._noising.load(trainer._workers.own(found["noise"]))
            trainer._measuring.load(found.get("measures", trainer._measuring.state()))
            nothing = {"scheduler": None, "average": None}
            trainer._after.load(found.get("after_step", nothing), lost=begun - found["step"])
            refused.pop_all()
        if found["order"] is not None:
            trainer._order = found["order"].numpy()
        torch.set_rng_state(found["torch"])
        if found["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(found["cuda"])
        trainer._step = begun
        return trainer

    def _taken_up(self, where: Path, order: Tensor | None) -> int:
        """Take over the journal of a checkpoint that holds an order; how many steps have begun."""
        journal = checkpoint.Journal(where, run=self.run, create=False, order=checkpoint.digest_of(order))
        if order is None:  # the one that was drawn now counts, if no step has begun
            journal.order = checkpoint.digest_of(self._order)
        self._journal, self._place = journal, where
        return journal.begun

    def close(self) -> None:
        """Let another process go on with this run from its checkpoint. This trainer takes no more steps."""
        self._closed = True
        self._end_workers()
        if self._journal is not None:
            self._journal.mark(self._step)
        self._let_go()

    def _let_go(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    # inside

    def _opened(self, ids: ArrayLike | None, opened: Callable[[], Rows]) -> tuple[Rows, People]:
        """The data, checked against what the plan says is public."""
        rows, people = self._workers.everywhere(lambda: self._read(ids, opened))
        self._refuse_other_data(rows, people)
        if self.plan.relation is not Relation.ADD_REMOVE:
            units = self._workers.total(len(people))
            if units != self.plan.size:
                raise DataError(
                    f"under {self.plan.relation.name} the number of units is public and fixed by the plan:"
                    f" size={self.plan.size}, the data have {units}."
                )
        if self.checked is None:
            # Every rank comes here, with units or without: whether another has some may be private.
            self._check(self._workers.everywhere(lambda: self._forms(rows, people)))
        return rows, people

    def _forms(self, rows: Rows, people: People) -> list[tuple[Form, ...]]:
        """The forms that a proof is tried for, where there was no sample: that of tensors, which is public, or those of
        some rows."""
        form = rows.form(self._sums.device)
        return [(form,)] if form is not None else forms_of(rows, people, noise.secure(), self._sums.device)

    def _read(self, ids: ArrayLike | None, opened: Callable[[], Rows]) -> tuple[Rows, People]:
        rows = opened()
        if (self.plan.unit.column is None) != (ids is None):
            raise InvalidArgument(
                "people", None if ids is None else "...", "given exactly when the plan's unit names who a row is about",
                f"The plan protects {self.plan.unit.one}.",
            )  # fmt: skip
        plan = self.plan
        return rows, People(len(rows), ids=ids, rows_per_unit=plan.rows_per_unit, augmentations=plan.augmentations)

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

    def _update(self, released: dict[str, Tensor]) -> None:
        """Noisy sums over the expected batch, to the optimizer; no other gradient survives."""
        self.optimizer.zero_grad(set_to_none=True)
        try:
            for name, parameter in self._sums.parameters.items():
                parameter.grad = self._workers.gradient(name, parameter, released[name])
            self.optimizer.step()
        finally:
            self.optimizer.zero_grad(set_to_none=True)


def _copies(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: each.clone() for name, each in sums.items()}
