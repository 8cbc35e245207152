"""Proves a model for one form of input, and writes the script that the tape follows.

A whole step (model, loss, backward pass down to the hooks at which the engine takes over) runs on made-up values: it is
recorded with MANY units and typed with FEW against that record (typing.py). A call without private arguments is taken
to transform parameters, unless its result has as many places along an axis as there are rows: then it hands a parameter
to every unit (`expand`). If that guess does not fit both runs, a survey, forward only, finds those calls, and both runs
are made again.

The script holds, for every use of a parameter, the axes on which units lie in what is saved and in the output; they are
read off the labels. And it holds every call that returns tensors, so that the tape notices when a later step takes
another course.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from deniable.deep.clipping.asking import refuse_foreign, refuse_leaves
from deniable.deep.clipping.calls import Axes, Call
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.growth import Growth, growth_of
from deniable.deep.clipping.labels import LOOSE, Kind, Place
from deniable.deep.clipping.outside import Constant, Pass
from deniable.deep.clipping.passes import backward, called, inside, row_losses
from deniable.deep.clipping.rules import RECURRENT, rule_for
from deniable.deep.clipping.steps import Recipe
from deniable.deep.clipping.tape import Pattern, Script, Size, Step, Watch, differentiable, results_of, tensors_of
from deniable.deep.clipping.typing import FEW, MANY, Course, RowTyping, fault_here, mixing
from deniable.deep.clipping.typing_records import tensors_in
from deniable.deep.clipping.typing_rules import SHAPE_ONLY
from deniable.errors import NotSupported
from deniable.noise import secure

SEEDS = 6
"""Runs whose course is compared where Python looks at random numbers."""


def prove(recipe: Recipe, tensors: Mapping[str, Tensor], form: Form) -> Script:
    """The script of a model on inputs of a form. Raises NotSupported, with the operation and the line, where one unit
    could change the gradient of another."""
    if recipe.sharding is None:  # a step that changes a buffer is refused, and leaves it as it was
        buffers = {name for name, _ in recipe.model.named_buffers(remove_duplicate=False)}
        copies: dict[int, Tensor] = {}
        tensors = {
            name: copies.setdefault(id(each), each.clone()) if name in buffers else each
            for name, each in tensors.items()
        }
    runs = _Runs(recipe, tensors, *(form.made_up(units * recipe.rows_per_unit) for units in (FEW, MANY)))
    with _same_draws(tensors) as restart, _no_collection():
        # Ranks of FSDP2 prove together, so there nothing may depend on what lies in fresh memory.
        if recipe.sharding is None:
            try:
                return _script(runs, restart, computes=False)
            except NotSupported:
                raise
            except Exception:  # noqa: BLE001  of any kind: a kernel refuses what lies in fresh memory
                pass
        return _script(runs, restart, computes=True)


@dataclass(frozen=True, eq=False)
class _Runs:
    """What the runs of a proof share."""

    recipe: Recipe
    tensors: Mapping[str, Tensor]
    few: Any
    many: Any


def _script(runs: _Runs, restart: _Restart, *, computes: bool) -> Script:
    """The script. Without `computes` the arithmetic on private numbers, which no proof looks at, is left out where an
    operation comes again (typing_layouts.py)."""
    try:
        return _typed(runs, restart, set(), guesses=True, computes=computes)
    except Exception:  # noqa: BLE001  of any kind: a wrong guess, or a table that the first run of a form makes
        spread = _survey(runs, restart)
    return _typed(runs, restart, spread, guesses=False, computes=computes)


def _typed(runs: _Runs, restart: _Restart, spread: set[int], *, guesses: bool, computes: bool) -> Script:
    """The script from a recorded and a typed run. The calls in `spread`, by their place in the log, hand a parameter to
    every unit. With `guesses` the recorded run fills them in."""
    recipe, tensors = runs.recipe, runs.tensors
    restart()
    record = RowTyping(MANY, computes=computes)
    first = _Scribe(recipe, tensors, runs.many, record, spread, guess=MANY * recipe.rows_per_unit if guesses else None)
    _run(recipe, tensors, runs.many, first, record, MANY)
    restart()
    typing = RowTyping(FEW, before=record, computes=computes)
    second = _Scribe(recipe, tensors, runs.few, typing, spread)
    _run(recipe, tensors, runs.few, second, typing, FEW)
    typing.finish()
    script = second.script(first)
    same = {at for at in spread if first.calls[at].shapes == second.calls[at].shapes}
    if same or _growing(first, second):
        raise Course
    if typing.looked_at_draws or restart.used_python:
        _refuse_random_course(recipe, tensors, runs.few, spread, restart)
    return script


@dataclass(slots=True)
class _Logged:
    """A call that returned tensors."""

    function: Any
    shapes: list[tuple[int, ...]]
    numbers: dict[int | str, Any]
    outside: list[Tensor | None]
    """Tensors that the pass did not make; None for one that it made where no call is seen."""
    constants: list[Tensor | None]
    """Copies of the constants among the tensors that it was given; None for the others. Empty where all are."""


class _Log(Watch):
    """Writes down every call that returns tensors."""

    def __init__(self, recipe: Recipe, tensors: Mapping[str, Tensor], batch: Any) -> None:
        super().__init__({name: tensors[name] for name in recipe.names})
        self.calls: list[_Logged] = []
        self._marks = None if recipe.sharding is not None else Pass(tensors, batch, real=False)

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor without a mark of this pass was there before it."""
        return True

    def constants(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor | None]:
        """Copies of the constants that a call is given beside other tensors."""
        return []

    def judge(self, function: Any, given: list[Tensor], outside: list[Tensor], results: list[Tensor]) -> None:
        """Told of a call that was made: refuses what no proof can follow. `outside` are the arguments from outside."""

    def own(self, *tensors: Tensor) -> None:
        if self._marks is not None:
            self._marks.sign(tensors, self._marks.private)

    def passed(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        others: list[Tensor] = []
        outside: list[Tensor | None] = []
        if self._marks is not None:
            others, sign = self._marks.outside(args, kwargs)
            outside = [each if self.is_outside(each) else None for each in others]
        constants = self.constants(args, kwargs)
        made = (run or function)(*args, **kwargs)
        if self._marks is not None:
            self._marks.sign(made, sign, others)
            if made is None and args and isinstance(args[0], Tensor):  # x[...] = y
                self._marks.sign(args[0], sign, others)
        self.judge(
            function,
            tensors_in((*args, *kwargs.values()) if kwargs else args),
            [each for each in outside if each is not None],
            tensors_of(made),
        )
        shapes = [tuple(each.shape) for each in results_of(args, made)]
        if shapes:
            numbers: dict[int | str, Any] = {place: each for place, each in enumerate(args) if _is_number(each)}
            numbers |= {name: each for name, each in kwargs.items() if _is_number(each)}
            self.calls.append(_Logged(function, shapes, numbers, outside, constants))
        return made


class _Survey(_Log):
    """A run before the typed ones. It follows the batch from call to call, and notes which calls only transform
    parameters: all those without private arguments that `spread` does not name."""

    def __init__(self, recipe: Recipe, tensors: Mapping[str, Tensor], batch: Any, spread: Collection[int]) -> None:
        super().__init__(recipe, tensors, batch)
        self._private = {id(each): each for each in tensors_of(batch)}
        self._spread = spread
        self.transformed: list[int] = []
        """Calls, by their place in the log, that are taken to transform parameters."""

    def judge(self, function: Any, given: list[Tensor], outside: list[Tensor], results: list[Tensor]) -> None:
        refuse_leaves([*given, *results])
        of_shapes = getattr(function, "__name__", "") in SHAPE_ONLY
        if not of_shapes and any(id(each) in self._private for each in given):
            self._private.update((id(each), each) for each in results)

    def met(self, call: Call) -> Any:
        made = self.passed(call.function, call.args, call.kwargs)
        at = len(self.calls) - 1
        if (
            differentiable(made)
            and at not in self._spread
            and not any(id(e) in self._private for e in tensors_of(made))
        ):
            self.remember(call, made)
            self.transformed.append(at)
        return made


def _survey(runs: _Runs, restart: _Restart) -> set[int]:
    """The calls, by their place in the log, that hand a parameter to every unit: without private arguments, and with
    results that grow with the number of units."""
    spread: set[int] = set()
    while True:
        logs = []
        for batch, units in ((runs.few, FEW), (runs.many, MANY)):
            restart()
            survey = _Survey(runs.recipe, runs.tensors, batch, spread)
            _run(runs.recipe, runs.tensors, batch, survey, None, units)
            logs.append(survey)
        new = _growing(*logs)
        if not new:
            return spread
        # What is made of one of them is no parameter any more, so only the first is certain.
        spread.add(min(new))


def _growing(one: _Survey | _Scribe, two: _Survey | _Scribe) -> set[int]:
    """Calls that were taken to transform parameters, and have results of different shapes in two runs."""
    if one.transformed != two.transformed:
        raise Course
    return {at for at in one.transformed if one.calls[at].shapes != two.calls[at].shapes}


_Saved: TypeAlias = tuple[Place | None, torch.Size]


class _Scribe(_Log):
    """A run under typing: tells uses of parameters from transformations, and writes the script."""

    def __init__(
        self,
        recipe: Recipe,
        tensors: Mapping[str, Tensor],
        batch: Any,
        typing: RowTyping,
        spread: set[int],
        *,
        guess: int | None = None,
    ) -> None:
        """With `guess` calls whose results have an axis of that length are added to `spread`."""
        super().__init__(recipe, tensors, batch)
        self.anchor = torch.zeros((), device=next(iter(tensors.values())).device, requires_grad=True)
        self._typing, self._spread, self._guess = typing, spread, guess
        self._steps: list[Step] = []
        self.transformed: list[int] = []
        """Calls, by their place in the log, that transform parameters."""
        self._inside = 0

    def judge(self, function: Any, given: list[Tensor], outside: list[Tensor], results: list[Tensor]) -> None:
        if function not in RECURRENT:  # the calls that those are made of are seen
            refuse_foreign(given, outside, results)

    def is_outside(self, tensor: Tensor) -> bool:
        return self._typing.is_outside(tensor)

    def constants(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor | None]:
        given = tensors_of((args, dict(kwargs)))
        kinds = [self._typing.kind(each) for each in given]
        if Kind.CONSTANT not in kinds or set(kinds) == {Kind.CONSTANT}:
            return []
        with self._typing.paused(), torch._C.DisableTorchFunction():
            return [
                each.detach().clone() if kind is Kind.CONSTANT else None
                for each, kind in zip(given, kinds, strict=True)
            ]

    def seen(self) -> bool:
        """Whether a call with a parameter is running."""
        return self._inside > 0

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def met(self, call: Call) -> Any:
        self._inside += 1
        draws = self._typing.draws
        try:
            made = self.passed(call.function, call.args, call.kwargs)
        finally:
            self._inside -= 1
        at = len(self.calls) - 1
        tensors, others = tensors_of(made), call.others()
        if not differentiable(made):
            return made
        if draws != self._typing.draws:
            raise NotSupported(
                f"{call.name} draws at random in a call with a parameter, and could not be done again for its gradient;"
                " draw in a call of its own, or use mode='vmap'"
            )
        if not any(self._typing.kind(each) is Kind.PRIVATE for each in (*tensors, *others)):
            if self._guess is not None and any(self._guess in each.shape for each in tensors):
                self._spread.add(at)
            if at not in self._spread:
                self.remember(call, made)
                self._steps.append(None)
                self.transformed.append(at)
                return made
        return self._use(call, tensors)

    def _use(self, call: Call, made: list[Tensor]) -> Tensor:
        if len(made) != 1:
            raise NotSupported(f"{call.name} with a parameter returns several tensors; use mode='vmap'")
        with self._typing.paused():
            sources = rule_for(call.function)(call).sources
        output = self._typing.place(made[0])
        saved = [(self._typing.place(each), each.shape) for each in sources]
        at = len(self._steps)
        self._steps.append(None if output is None else _axes(saved, output, made[0]))
        marked = made[0]
        if not torch.is_grad_enabled():
            return marked
        if not marked.requires_grad:
            with self._typing.paused():
                marked = marked + self.anchor.to(marked.dtype)
            self._typing.mirror(made[0], marked)
            if self._marks is not None:
                self._marks.sign(marked, self._marks.private)
        marked.register_hook(lambda gradient: self._received(at, saved, output, gradient))  # type: ignore[no-untyped-call]
        return marked

    def _received(self, at: int, saved: list[_Saved], output: Place | None, gradient: Tensor) -> None:
        """The gradient of a use's output: its units must lie where those of the output do."""
        place = self._typing.place(gradient)
        if output is None:  # the recording run
            return
        if place is None and self._typing.kind(gradient) is not Kind.CONSTANT:
            raise mixing(fault_here("the gradient of all rows together comes back to each of them", "backward"))
        if place is not None and (place.axis != output.axis or output.inner not in (LOOSE, place.inner)):
            raise mixing(fault_here("the gradient of a row comes back to another one", "backward"))
        if output.inner == LOOSE and place is not None:
            self._steps[at] = _axes(saved, place, gradient)

    def script(self, record: _Scribe) -> Script:
        """The script, from this run and the recorded one."""
        if len(self.calls) != len(record.calls) or len(self._steps) != len(record._steps):
            raise Course
        return Script(self._steps, [_pattern(one, two) for one, two in zip(record.calls, self.calls, strict=True)])


def _axes(saved: list[_Saved], output: Place, made: Tensor) -> Axes:
    """The axes of a use; where units may lie in any way they lie as in the output."""
    size = made.shape[output.axis]
    if output.inner == LOOSE:
        output = Place(output.axis, size // FEW)
    places: list[Place | None] = []
    for place, shape in saved:
        if place is not None and place.inner == LOOSE:
            long = shape[place.axis]
            place = Place(place.axis, output.inner if long == size else long // FEW)
        places.append(place)
    return Axes(tuple(places), output)


def _pattern(many: _Logged, few: _Logged) -> Pattern:
    if many.function != few.function or len(many.shapes) != len(few.shapes):
        raise Course
    shapes = []
    for one, two in zip(many.shapes, few.shapes, strict=True):
        if len(one) != len(two):
            raise Course
        sizes: list[int | Size] = list(two)
        for axis, (long, short) in enumerate(zip(one, two, strict=True)):
            if long != short:
                if long * FEW != short * MANY:
                    raise NotSupported(
                        f"{getattr(few.function, '__name__', few.function)} returns {two} for {FEW} rows and {one} for"
                        f" {MANY}, so examples meet there; give every example a result of its own, or use mode='vmap'"
                    )
                sizes[axis] = Size(short // FEW)
        shapes.append(tuple(sizes))
    if few.numbers.keys() != many.numbers.keys():
        raise Course
    numbers = tuple((place, (each, many.numbers[place])) for place, each in few.numbers.items())
    if [each is None for each in many.outside] != [each is None for each in few.outside]:
        raise Course
    outside = tuple(None if each is None else Constant.of(each) for each in few.outside)
    if [each is None for each in many.constants] != [each is None for each in few.constants]:
        raise Course
    constants: list[Growth | Literal[False] | None] = []
    for small, large in zip(few.constants, many.constants, strict=True):
        growth = None if small is None or large is None else growth_of(small, large)
        constants.append(growth if growth is not None or small is None else False)
    return Pattern(few.function, tuple(shapes), numbers, outside, tuple(constants))


def _is_number(value: Any) -> bool:
    """Whether an argument is compared from step to step."""
    if isinstance(value, list | tuple):
        return all(_is_number(each) for each in value)
    return isinstance(value, int | float | str | slice) or value is None or value is Ellipsis


class Looks(TorchFunctionMode):
    """Python that takes numbers out of tensors past the dispatcher."""

    NAMES = frozenset(
        ("numpy", "tolist", "__array__", "data_ptr", "__dlpack__", "untyped_storage", "storage", "_typed_storage",
         "__reduce_ex__", "__cuda_array_interface__", "const_data_ptr", "share_memory_")
    )  # fmt: skip

    SIZED_BY = frozenset(("tensor_split", "_pack_padded_sequence"))
    """Operations that read the numbers of their second argument for the shapes of their results."""

    def __init__(self, typing: RowTyping) -> None:
        super().__init__()
        self._typing = typing

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in self.NAMES and args and isinstance(args[0], Tensor):
            self._typing.look(args[0], f"Tensor.{name}")
        if name in self.SIZED_BY and len(args) > 1 and isinstance(args[1], Tensor):
            self._typing.look(args[1], f"torch.{name}")
        return function(*args, **(kwargs or {}))


def _run(
    recipe: Recipe, tensors: Mapping[str, Tensor], batch: Any, watch: _Log, typing: RowTyping | None, units: int
) -> None:
    """One step on a made-up batch."""
    rows = units * recipe.rows_per_unit
    device = next(iter(tensors.values())).device
    inputs, targets = batch

    def body() -> None:
        if typing is None or not isinstance(watch, _Scribe):
            with recipe.precision(device), watch:
                row_losses(recipe.loss, called(recipe.model, inputs), targets, rows)
            return
        looks = Looks(typing)
        with typing:
            with looks, recipe.precision(device), typing.watching_uses(watch.seen), watch:
                losses = row_losses(recipe.loss, called(recipe.model, inputs), targets, rows)
            place = typing.place(losses)
            if place not in (None, Place(0, recipe.rows_per_unit)) or (place is None and typing.typed):
                raise mixing(fault_here("the loss of an example is not its own", "loss"))
            with typing.paused():
                seeds = recipe.seeds(losses, torch.ones(rows, dtype=torch.bool, device=device))
            typing.private(seeds)
            if losses.requires_grad:
                with ExitStack() as stack:
                    if recipe.sharding is not None:
                        stack.enter_context(typing.skimming())
                    # A mode that is on when a backward pass is asked for is off while it runs. One that its first hook
                    # switches on stays on until the pass ends (on a CPU; a device's threads forget it at once).
                    losses.register_hook(lambda _: looks.__enter__() and None)  # type: ignore[no-untyped-call]
                    backward(losses, [watch.anchor], seeds)

    with torch.enable_grad():
        if typing is not None:
            trained = {id(tensors[name]) for name in recipe.names}
            gathered = recipe.sharding is not None
            typing.public([e for e in tensors.values() if id(e) in trained], trained=True, gathered=gathered)
            typing.public([e for e in tensors.values() if id(e) not in trained], gathered=gathered)
            for each in tensors_of(batch):
                typing.private(each)
        inside(recipe.model, tensors, body)


@dataclass
class _Restart:
    """Puts every generator back to where it was."""

    devices: list[int]
    torch_state: Tensor
    cuda_states: list[Tensor]
    python: Any
    numpy: Any
    used_python: bool = field(default=False)

    def __call__(self, seed: int | None = None) -> None:
        self.used_python |= random.getstate() != self.python or not _same_state(np.random.get_state(), self.numpy)
        if seed is not None:
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)
            return
        torch.set_rng_state(self.torch_state)
        for device, state in zip(self.devices, self.cuda_states, strict=True):
            torch.cuda.set_rng_state(state, device)
        random.setstate(self.python)
        np.random.set_state(self.numpy)


def _same_state(one: Any, two: Any) -> bool:
    return bool(np.array_equal(one[1], two[1])) and one[2:] == two[2:]


@contextmanager
def _same_draws(tensors: Mapping[str, Tensor]) -> Iterator[_Restart]:
    """Runs that draw the same numbers, and leave all generators as they were."""
    devices = sorted({each.device.index for each in tensors.values() if each.is_cuda})
    with torch.random.fork_rng(devices):
        states = [torch.cuda.get_rng_state(device) for device in devices]
        restart = _Restart(devices, torch.get_rng_state(), states, random.getstate(), np.random.get_state())
        try:
            yield restart
        finally:
            random.setstate(restart.python)
            np.random.set_state(restart.numpy)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's search for cycles: a proof makes many small objects, and keeps them until it ends."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_random_course(
    recipe: Recipe, tensors: Mapping[str, Tensor], batch: Any, spread: Collection[int], restart: _Restart
) -> None:
    """Where Python looked at random numbers: the course may not depend on them."""
    courses = set()
    for _ in range(SEEDS):
        restart(secure().word() % 2**31)
        other = _Survey(recipe, tensors, batch, spread)
        _run(recipe, tensors, batch, other, None, FEW)
        courses.add(tuple((str(each.function), *each.shapes) for each in other.calls))
    if len(courses) > 1:
        raise NotSupported(
            "the course of the forward pass is drawn at random (as LayerDrop does), so no script holds for every step;"
            " switch that off, for example layerdrop=0, or use a mask per example (stochastic depth)"
        )
