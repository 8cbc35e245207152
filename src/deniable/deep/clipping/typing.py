"""Row typing: a proof, for one form of input, that no unit's loss or gradient depends on another unit.

*What is proved.* One step (model, loss, backward pass up to the hooks) runs on made-up values under a dispatch mode
that labels every storage (labels.py): constant, random, public or private, and for each how its bytes belong to
units. Operations carry labels by rules (typing_rules.py). A tensor that may hold one unit's numbers in the place of
another's has a *fault*, with the operation and the line of code that made it. A fault counts where it could reach a
gradient: in the losses, in what a use of a parameter saves, in the gradient that a hook receives, in memory that
outlives the step. Python values taken from private tensors (`item`, `tolist`, NumPy, shapes that depend on data) are
refused at once.

*Fail closed.* What no rule labels has a fault: an operation without a rule, a rule that cannot decide, a result that no
rule mentions. The order is: look at memory in another way (no rule needed); constants (their values decide); a rule;
torch's tag `pointwise`; torch's decomposition into operations that have rules.

*Two sizes.* The step is recorded with MANY units and typed with FEW. Both must make the same operations, with the same
numbers, look into memory in the same way (`alike`, `same_view`) and use the same constants. So nothing depends on how
many units there are, nor on the place of one among them: a constant that differs from unit to unit (`arange(rows)`) may
pick rows in their order and nothing else.

*Relative to what.* The proof stands on the table of rules, on torch's tag and decompositions, and on kernels doing what
their schema says. tests/deep/clipping/test_typing_rules.py tries the table on torch's own samples of every operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from deniable.deep.clipping import typing_indexing, typing_layers  # they enter their rules
from deniable.deep.clipping.labels import (
    LOOSE,
    Fault,
    Geometry,
    Kind,
    Label,
    Place,
    alike,
    compact,
    geometry_of,
    grown_axis,
    place_of,
    same_view,
    step_of,
    storage_of,
)
from deniable.deep.clipping.sharding import looking_away
from deniable.deep.clipping.typing_layouts import Key, Layouts, fresh, key_of, layouts_of, product_layout
from deniable.deep.clipping.typing_records import (
    FEW,
    MANY,
    Course,
    Facts,
    Record,
    Snapshot,
    draws_nothing,
    facts_of,
    fault_here,
    looking,
    mixing,
    numbers_of,
    same_for_all,
    snapshot_of,
    tensors_in,
)
from deniable.deep.clipping.typing_rules import (
    OVERWRITES,
    SHAPE_ONLY,
    Looking,
    Mixing,
    Operation,
    Ordered,
    Spot,
)
from deniable.deep.clipping.user_code import location
from deniable.errors import NotSupported

__all__ = ["FEW", "MANY", "Course", "RowTyping", "facts_of", "fault_here", "mixing", "typing_indexing", "typing_layers"]

_ELSEWHERE = ("c10d", "_c10d_functional", "fsdp", "profiler")
"""Operations of torch's own machinery."""


class RowTyping(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Labels what happens while it is entered. Alone it records; with `before`, a record, it types.

    `rules=True` types without a record to compare with (the tests of the table). Without `computes` the arithmetic of
    operations that come again is left out.
    """

    def __init__(
        self, units: int, *, before: RowTyping | None = None, rules: bool = False, computes: bool = True
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.units = units
        self.looked_at_draws = False
        """Whether a Python value was taken from a random tensor."""
        self.draws = 0
        """Operations so far that draw at random."""
        self._before = before
        self.typed = rules or before is not None
        self._records: list[Record] = []
        self._asked: list[tuple[Geometry, Snapshot | None]] = []
        self._labels: dict[int, Label] = {}
        self._kept: dict[int, Any] = {}
        """Storages, so that no address comes again."""
        self._lasting: set[int] = set()
        """Storages that outlive the step."""
        self._trained: set[int] = set()
        self._gathered: set[int] = set()
        self._seen: Callable[[], bool] | None = None
        self._paused = 0
        self._skims = False
        self._computes = computes
        self._layouts: dict[Key, Layouts] = {}
        self._results: dict[tuple[Key, Key, tuple[Label, ...]], list[Label]] = {}
        """Labels of results, by the key of an operation in both runs and the labels of its arguments."""

    # what a step begins with

    def public(self, tensors: Sequence[Tensor], *, trained: bool = False, gathered: bool = False) -> None:
        """Parameters and buffers: all units share them, and a step may not change them. Those that FSDP2 gathers for
        each module are written by it, from public numbers."""
        for each in tensors:
            key = self._set(each, Label(Kind.PUBLIC))
            self._lasting.add(key)
            if trained:
                self._trained.add(key)
            if gathered:
                self._gathered.add(key)

    def private(self, tensor: Tensor) -> None:
        """A tensor of the batch: units one after another along its first axis."""
        if tensor.numel() == 0:
            self._set(tensor, Label(Kind.PRIVATE))
            return
        step = self._step(tensor, Place(0, tensor.shape[0] // self.units))
        if step is None:
            raise AssertionError("a batch lies in order, unit by unit")
        self._set(tensor, Label(Kind.PRIVATE, step))

    def label(self, tensor: Tensor, label: Label) -> None:
        """A label given by hand."""
        self._set(tensor, label)

    @contextmanager
    def watching_uses(self, seen: Callable[[], bool]) -> Iterator[None]:
        """In here a trained parameter may be used only while `seen()` is true: elsewhere its gradient would be lost."""
        self._seen = seen
        try:
            yield
        finally:
            self._seen = None

    @contextmanager
    def skimming(self) -> Iterator[None]:
        """In here what is not private is not compared: FSDP2 gathers parameters in its own time."""
        self._skims = True
        try:
            yield
        finally:
            self._skims = False

    # questions

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The engine's own work, which is not typed."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def mirror(self, source: Tensor, copy: Tensor) -> None:
        """A tensor that the engine puts in the place of another, of the same shape and the same content."""
        with torch._C.DisableTorchFunction():
            label = self._known(source)
            if label.step and label.fault is None:
                place = place_of(geometry_of(source), item=source.element_size(), step=label.step, units=self.units)
                step = None if place is None else self._step(copy, place)
                fault = None if step else fault_here("the rows of the result do not lie in order", "copy")
                label = Label(label.kind, step, fault)
            elif label.step is None and label.fault is None and 0 in source.stride():
                label = Label(label.kind, LOOSE)  # the copy has memory where the source repeats itself
            self._set(copy, label)

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor was there before the step."""
        with torch._C.DisableTorchFunction():
            return storage_of(tensor)[0] in self._lasting or storage_of(tensor)[0] not in self._labels

    def kind(self, tensor: Tensor) -> Kind:
        """What the numbers of a tensor come from."""
        with torch._C.DisableTorchFunction():
            return self._known(tensor).kind

    def place(self, tensor: Tensor) -> Place | None:
        """Where the units lie in a tensor, None where all share it. A fault raises NotSupported.

        A recording run answers None; both runs must ask the same questions.
        """
        with torch._C.DisableTorchFunction(), self.paused():
            constant = not self.typed and self._known(tensor).kind is Kind.CONSTANT
            self._asked.append((geometry_of(tensor), snapshot_of(tensor) if constant else None))
            if not self.typed:
                return None
            before, snapshot = None, None
            if self._before is not None:
                if len(self._asked) > len(self._before._asked):
                    raise Course
                before, snapshot = self._before._asked[len(self._asked) - 1]
            spot = self._spot(tensor, before, snapshot)
        if isinstance(spot, Ordered):
            spot = fault_here(spot.reason, "a constant")
        if isinstance(spot, Fault):
            raise mixing(spot)
        return spot

    def look(self, tensor: Tensor, name: str) -> None:
        """Python takes the numbers of a tensor past the dispatcher (`numpy`, `tolist`, `data_ptr`)."""
        with torch._C.DisableTorchFunction():
            if not self._paused and self._known(tensor).kind is Kind.PRIVATE:
                raise looking(name)

    def finish(self) -> None:
        """After a typed run: the recorded one made no more operations."""
        if self._before is not None and len(self._records) != len(self._before._records):
            raise Course

    # operations

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            if looking_away() or func.namespace in _ELSEWHERE:
                return self._elsewhere(func, args, kwargs)
            if func is torch.ops.aten.lift_fresh.default:
                self._lift(args[0])
            facts = facts_of(func)
            tensors = tensors_in((*args, *kwargs.values()))
            kind = max((self._known(each).kind for each in tensors), default=Kind.CONSTANT)
            if self._skims and kind is not Kind.PRIVATE:
                return self._skimmed(func, args, kwargs, kind)
            parts = self._parts(func, facts, kind)
            if parts is not None:
                with self:
                    made = parts(*args, **kwargs)
                if made is not NotImplemented:
                    return made
            self._refuse_hidden(func, facts, tensors)
            if facts.looks and kind is Kind.PRIVATE:
                raise looking(str(func))
            if facts.name in SHAPE_ONLY:
                kind = Kind.CONSTANT
            if facts.draws and not draws_nothing(facts, args, kwargs):
                self.draws += 1
                kind = max(kind, Kind.RANDOM)
            return self._labelled(func, facts, args, kwargs, tensors, kind)

    @staticmethod
    def _parts(func: OpOverload, facts: Facts, kind: Kind) -> Callable[..., Any] | None:
        """An operation as others: where it is nothing but those, or where it has no rule and private rows come in."""
        if facts.composite:
            return func.decompose
        if facts.name in SHAPE_ONLY:
            return None
        if kind is Kind.PRIVATE and not facts.views:
            return facts.decomposition
        return None

    def _labelled(
        self,
        func: OpOverload,
        facts: Facts,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        tensors: list[Tensor],
        kind: Kind,
    ) -> Any:
        """Run an operation and label what it made."""
        if facts.views:
            return self._viewed(func, facts, args, kwargs, kind)
        bound = {**facts.defaults, **dict(zip(facts.arguments, args, strict=False)), **kwargs}
        targets = tensors_in([bound[name] for name in facts.writes]) if facts.writes else []
        numbers = numbers_of(facts, bound)
        record = Record(func, numbers, [geometry_of(each) for each in tensors])
        if facts.repeats and kind is Kind.PRIVATE and not (facts.draws and not draws_nothing(facts, args, kwargs)):
            record.key = key_of(func, tensors, record.geometries, numbers)
        before = self._same_operation(record)
        self._records.append(record)
        again = self._comes_again(record, before, tensors)
        known_labels = None if again is None else self._results.get(again)
        if known_labels is not None:
            made = self._compute(func, facts, record, args, kwargs)
            for each, label in zip(tensors_in((made,)), known_labels, strict=True):
                self._set(each, label)
            return made
        # Arguments are judged before the operation runs: it may write over them.
        spots: list[Spot] = []
        if kind is not Kind.CONSTANT:
            self._note_constants(record, tensors, targets)
            if self.typed:
                spots = [
                    self._spot(
                        each,
                        None if before is None else before.geometries[at],
                        None if before is None else before.constants.get(at),
                    )
                    for at, each in enumerate(tensors)
                ]
        made = self._compute(func, facts, record, args, kwargs)
        if facts.name.startswith(("empty", "new_empty")):
            made.zero_()  # what lies there is nobody's; the same in both runs
        results = tensors_in((made,))
        if facts.looks and not isinstance(made, Tensor):
            self._compare_value(func, kind, record, before, made)
        labels = [Label(kind)] * len(results)
        if self.typed and kind is not Kind.CONSTANT:
            known = dict(zip(map(id, tensors), spots, strict=True))
            numbers_before = None if before is None else before.numbers
            operation = Operation(facts.name, bound, known, results, self.units, numbers_before, MANY)
            labels = self._judged(facts.title, facts, operation, numbers, kind)
        given = {storage_of(each)[0] for each in tensors}
        for each, label in zip(results, labels, strict=True):
            if storage_of(each)[0] not in given:
                self._set(each, label)
            else:
                again = None
        if again is not None and all(each.fault is None for each in labels):
            self._results[again] = labels
        for target in targets:
            own = next((spot for each, spot in zip(tensors, spots, strict=False) if each is target), None)
            self._write(facts.title, facts, target, own, self._of_target(target, results, labels), record, before)
        return made

    def _viewed(
        self, func: OpOverload, facts: Facts, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: Kind
    ) -> Any:
        """An operation that looks at memory in another way. The label is there already; where the rows lie is asked
        when they are used."""
        record = Record(func, {}, [])
        self._same_operation(record)
        self._records.append(record)
        made = func(*args, **kwargs)
        for each in tensors_in((made,)):
            if storage_of(each)[0] not in self._labels:
                copied = kind is Kind.PRIVATE and each.numel() > 0
                fault = fault_here("it copies memory, and no rule says how", facts.title) if copied else None
                self._set(each, Label(kind, fault=fault))
        return made

    def _comes_again(
        self, record: Record, before: Record | None, tensors: list[Tensor]
    ) -> tuple[Key, Key, tuple[Label, ...]] | None:
        """What the labels of an operation's results follow from, values aside; None where values of constants, or a
        fault, count."""
        if not self.typed or record.key is None or before is None or before.key is None:
            return None
        labels = tuple([self._known(each) for each in tensors])
        if any(each.kind is Kind.CONSTANT or each.fault is not None for each in labels):
            return None
        return record.key, before.key, labels

    def _compute(
        self, func: OpOverload, facts: Facts, record: Record, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """The results of an operation, or fresh memory in their place."""
        if self._computes or record.key is None or any(each.device.type != "cpu" for each in tensors_in(args)):
            return func(*args, **kwargs)
        layouts = self._layouts.get(record.key)
        if layouts is None:
            layouts = None if kwargs else product_layout(facts.name, func, args)
            made = func(*args, **kwargs) if layouts is None else fresh(layouts)
            layouts = layouts or layouts_of(made)
            given = {storage_of(each)[0] for each in tensors_in((*args, *kwargs.values()))}
            if layouts is not None and not any(storage_of(each)[0] in given for each in tensors_in((made,))):
                self._layouts[record.key] = layouts
            return made
        return fresh(layouts)

    def _judged(
        self, name: str, facts: Facts, operation: Operation, numbers: Mapping[str, Any], kind: Kind
    ) -> list[Label]:
        """The labels of an operation's results."""
        many = len(operation.results)
        spots = operation.spots.values()
        before = operation.before
        differ = set() if before is None else {each for each in numbers if numbers[each] != before.get(each)}
        if differ - facts.sizes:
            return [Label(kind, fault=fault_here("a number depends on how many rows there are", name))] * many
        if all(each is None for each in spots) and (not differ or facts.draws):
            return [Label(kind, LOOSE if facts.draws else None)] * many
        if facts.rule is None:
            old = next((each for each in spots if isinstance(each, Fault)), None)
            why = "no rule says what this operation does with the rows of a batch"
            return [Label(kind, fault=old or fault_here(why, name))] * many
        try:
            places = facts.rule(operation)
        except Looking:
            raise looking(name) from None
        except Mixing as error:
            return [Label(kind, fault=error.fault or fault_here(str(error), name))] * many
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
            why = f"the rule of this operation could not decide ({type(error).__name__}: {error})"
            return [Label(kind, fault=fault_here(why, name))] * many
        found: list[Any] = list(places) if isinstance(places, list) else [places] * many
        found += [Fault("no rule speaks of this result", name, "")] * (many - len(found))
        return [
            self._label_of(result, place, kind, name) for result, place in zip(operation.results, found, strict=False)
        ]

    def _label_of(self, result: Tensor, place: Place | Fault | None, kind: Kind, name: str) -> Label:
        """The label of a result's storage, from the place of its rows."""
        if isinstance(place, Fault):
            return Label(kind, fault=fault_here(place.reason, name))
        if place is None or result.numel() == 0:
            return Label(kind)
        if place.inner == LOOSE:
            if kind is Kind.PRIVATE:
                return Label(kind, fault=fault_here("it is not known whose these numbers are", name))
            return Label(kind, LOOSE)
        step = self._step(result, place)
        if step is None:
            return Label(kind, fault=fault_here("the rows of the result do not lie in order", name))
        return Label(kind, step)

    # writing

    @staticmethod
    def _of_target(target: Tensor, results: list[Tensor], labels: list[Label]) -> Label | None:
        """The label of the result that is the written argument itself."""
        key, place = storage_of(target)[0], geometry_of(target)
        for each, label in zip(results, labels, strict=True):
            if storage_of(each)[0] == key and geometry_of(each) == place:
                return label
        return None

    def _write(
        self,
        name: str,
        facts: Facts,
        target: Tensor,
        own: Spot,
        new: Label | None,
        record: Record,
        before: Record | None,
    ) -> None:
        """Label a storage that was there before, and was written to."""
        key, storage = storage_of(target)
        old = self._labels[key]
        if key in self._gathered and new is not None and new.kind is not Kind.PRIVATE:
            return
        if key in self._lasting:
            raise NotSupported(
                f"the forward pass changes a buffer, a parameter or another tensor that outlives the step ({name}"
                f"{location()}), and no clip bounds what that keeps of the data; freeze it (module.eval()), or use a"
                " layer without running statistics"
            )
        if new is None:
            new = Label(Kind.PRIVATE, fault=fault_here("it writes into an argument, and no rule says what", name))
        kind = max(old.kind, new.kind)
        covers = target.numel() * target.element_size() == storage.nbytes()
        if not self.typed or new.fault is not None or kind is Kind.CONSTANT:
            self._labels[key] = Label(kind, fault=new.fault)
        elif covers:
            self._labels[key] = new if facts.name in OVERWRITES else Label(kind, new.step, new.fault)
        elif old.fault is not None:
            self._labels[key] = Label(kind, fault=old.fault)
        else:
            step = old.step
            if old.kind is Kind.CONSTANT:
                step = self._constant_memory(record, before, new.step)
            fits = step == new.step or (step == LOOSE and new.step is not None) or (bool(step) and new.step is None)
            if step == LOOSE and not isinstance(own, Place):
                fits = False
            fault = (
                None if fits else fault_here("it writes rows into a tensor that has its rows elsewhere, or none", name)
            )
            self._labels[key] = Label(kind, new.step if step == LOOSE else step, fault)

    @staticmethod
    def _constant_memory(record: Record, before: Record | None, step: int | None) -> int | None:
        """The step of constant memory that a part with this step was written into; −1 where its values fit no step."""
        now = record.memory
        if before is None or before.memory is None or now is None:
            return step
        if now.shape == before.memory.shape:
            return None if torch.equal(now, before.memory) else -1
        if step and now.numel() % (step * FEW) == 0 and before.memory.numel() % (step * MANY) == 0:
            mine, other = now.view(-1, FEW, step), before.memory.view(-1, MANY, step)
            if mine.shape[0] == other.shape[0] and bool((mine == mine[:, :1]).all()):
                return step if bool((other == mine[:, :1]).all()) else -1
            return -1
        alone = now[:1]
        return LOOSE if bool((now == alone).all()) and bool((before.memory == alone).all()) else -1

    # arguments

    def _spot(self, tensor: Tensor, before: Geometry | None, snapshot: Snapshot | None) -> Spot:
        """Where the units lie in an argument."""
        label = self._known(tensor)
        if label.fault is not None:
            return label.fault
        now = geometry_of(tensor)
        if tensor.numel() == 0:
            if before is None or 0 in before.shape:
                return None
            return fault_here("it takes some rows of the batch, and none where there are few", "a view")
        if label.kind is Kind.CONSTANT:
            return None if before is None or snapshot is None else self._constant(tensor, snapshot)
        if not label.step:
            if before is None:
                return None
            try:
                if label.step is None and not same_view(before, now):
                    raise ValueError
                axis = grown_axis(before.shape, now.shape, few=self.units, many=MANY)
            except ValueError:
                return fault_here(
                    "it takes a part of a shared tensor that depends on how many rows there are", "a view"
                )
            return None if axis is None else Place(axis, LOOSE)
        item = tensor.element_size()
        place = place_of(now, item=item, step=label.step, units=self.units)
        if place is None:
            return fault_here("it takes some rows of the batch, or puts them in another order", "a view")
        if before is not None and not alike(before, now, item=item, step=label.step, units=(MANY, self.units)):
            return fault_here("it takes a part of each row that depends on how many rows there are", "a view")
        return place if before is None else self._grown(before, now, place)

    def _grown(self, before: Geometry, now: Geometry, place: Place) -> Spot:
        """A place, if its axis grew with the units and no other did."""
        try:
            axis = grown_axis(before.shape, now.shape, few=self.units, many=MANY)
        except ValueError:
            axis = None
        if axis == place.axis:
            return place
        return fault_here("its size does not grow with the rows of the batch, or grows twice", "a view")

    def _constant(self, tensor: Tensor, old: Snapshot) -> Spot:
        """A constant, compared with what it was in the other run."""
        shape, values = tuple(tensor.shape), compact(tensor)
        ordered = Ordered(
            tensor, old.values.expand(old.shape), "a constant differs from row to row, or depends on how many there are"
        )
        if shape == old.shape:
            return None if torch.equal(values, old.values) else ordered
        try:
            axis = grown_axis(old.shape, shape, few=self.units, many=MANY)
        except ValueError:
            return ordered
        if axis is None or values.dim() != old.values.dim():
            return ordered
        for inner in dict.fromkeys((LOOSE, shape[axis] // self.units, 1)):
            if same_for_all(values, old.values, axis, inner, self.units):
                return Place(axis, inner)
        return ordered

    def _note_constants(self, record: Record, tensors: list[Tensor], targets: list[Tensor]) -> None:
        """Constants that meet something else, and constant memory that is written to, as they are now."""
        if not self.typed:
            for at, each in enumerate(tensors):
                if self._known(each).kind is Kind.CONSTANT:
                    record.constants[at] = snapshot_of(each)
        if len(targets) == 1 and self._known(targets[0]).kind is Kind.CONSTANT:
            whole = torch.empty(0, dtype=torch.uint8, device=targets[0].device)
            record.memory = whole.set_(targets[0].untyped_storage()).clone()

    # comparing

    def _same_operation(self, record: Record) -> Record | None:
        """The record of the same operation, with tensors in the same arguments."""
        if self._before is None:
            return None
        records, at = self._before._records, len(self._records)
        if at >= len(records):
            raise Course
        before = records[at]
        if before.operation is not record.operation or before.numbers.keys() != record.numbers.keys():
            raise Course
        if len(before.geometries) != len(record.geometries):
            raise Course
        return before

    def _compare_value(self, func: OpOverload, kind: Kind, record: Record, before: Record | None, made: object) -> None:
        record.value = made
        self.looked_at_draws |= kind is Kind.RANDOM
        if before is not None and before.value != made:
            raise NotSupported(
                f"a Python value taken from a tensor depends on how many rows there are ({func}{location()}), so every"
                " example changes what happens to the others; leave the size of the batch out of model and loss"
            )

    def _refuse_hidden(self, func: OpOverload, facts: Facts, tensors: Sequence[Tensor]) -> None:
        if self._seen is None or facts.views or self._seen() or not torch.is_grad_enabled():
            return
        if any(storage_of(each)[0] in self._trained for each in tensors):
            raise NotSupported(
                f"a trained parameter is used where the tape cannot see it ({func}{location()}), so its gradient"
                " would be"
                " lost; an autograd.Function or an extension does that: use mode='vmap', or torch functions in its"
                " place"
            )

    def _elsewhere(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Work of FSDP2 and of collectives, on parameters."""
        for each in tensors_in((*args, *kwargs.values())):
            if not looking_away() and self._known(each).kind is Kind.PRIVATE:
                raise NotSupported(f"the forward pass hands private rows to {func}{location()}, which mixes them")
        made = func(*args, **kwargs)
        for each in tensors_in((made,)):
            if storage_of(each)[0] not in self._labels:
                self._set(each, Label(Kind.PUBLIC))
        return made

    def _skimmed(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: Kind) -> Any:
        made = func(*args, **kwargs)
        for each in tensors_in((made,)):
            if storage_of(each)[0] not in self._labels:
                self._set(each, Label(kind))
        return made

    # labels

    def _lift(self, tensor: Tensor) -> None:
        """A tensor made of Python's or NumPy's numbers, which are constants. NumPy's memory outlives the step."""
        key, storage = storage_of(tensor)
        if key not in self._labels:
            self._set(tensor, Label(Kind.CONSTANT))
            if not storage.resizable():
                self._lasting.add(key)

    def _known(self, tensor: Tensor) -> Label:
        """The label of a tensor's storage. A tensor from outside is public, and outlives the step."""
        key = storage_of(tensor)[0]
        label = self._labels.get(key)
        if label is not None:
            return label
        earlier = None if self._before is None else self._before._labels.get(key)
        if earlier is not None and earlier.kind is Kind.PRIVATE:
            raise NotSupported(
                f"the model keeps a tensor of one step for the next{location()}, so what one batch leaves behind"
                " changes"
                " the gradients of other examples; keep no activations in attributes"
            )
        self._lasting.add(key)
        return self._labels[self._set(tensor, Label(Kind.PUBLIC))]

    def _set(self, tensor: Tensor, label: Label) -> int:
        key, storage = storage_of(tensor)
        self._labels[key] = label
        self._kept[key] = storage
        return key

    def _step(self, tensor: Tensor, place: Place) -> int | None:
        return step_of(geometry_of(tensor), place, item=tensor.element_size(), units=self.units)
