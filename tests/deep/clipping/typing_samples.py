"""Tries the table of typing rules on torch's own samples (OpInfo): a differential test.

Some axis of some arguments is declared to hold rows, the operation is typed, one row is replaced, the operation runs
again with the same seed. What was proved to belong to other rows, or to all of them, may not have changed. The
gradients of its arguments are tried in the same way.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from deniable.deep.clipping.labels import Fault, Kind, Label, Place, geometry_of, step_of
from deniable.deep.clipping.typing import RowTyping
from deniable.errors import NotSupported

SLOW = {"linalg.lu_solve", "svd_lowrank", "pca_lowrank", "_segment_reduce", "segment_reduce", "nn.functional.ctc_loss"}
TYPES = (torch.float32, torch.int64, torch.complex64, torch.bool)


@dataclass
class Outcome:
    """How many results were proved, and which of those were wrong."""

    proved: int = 0
    refused: int = 0
    operations: int = 0
    violations: list[str] | None = None

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.proved + other.proved,
            self.refused + other.refused,
            self.operations + other.operations,
            (self.violations or []) + (other.violations or []),
        )


def samples(op: Any, most: int) -> Iterator[tuple[Any, Any]]:
    """Pairs of samples of one form, with different numbers."""
    kind = next((each for each in TYPES if each in op.supported_dtypes("cpu")), None)
    if kind is None:
        return
    pair = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            pair.append(list(itertools.islice(op.sample_inputs("cpu", kind), most)))
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return
    yield from zip(*pair, strict=False)


Choice = dict[int, Place]


def choices(tensors: list[Tensor], most: int) -> list[tuple[int, Choice]]:
    """(units, which tensors have rows and where)."""
    found: list[tuple[int, Choice]] = []

    def add(units: int, choice: Choice) -> None:
        if units > 1 and choice and (units, choice) not in found:
            found.append((units, choice))

    for at, each in enumerate(tensors):
        for axis, size in enumerate(each.shape):
            if size < 2:
                continue
            ways = [(size, 1)] + ([(size // 2, 2), (2, size // 2)] if size % 2 == 0 and size > 2 else [])
            for units, inner in ways:
                place = Place(axis, inner)
                add(units, {at: place})
                behind, both = {at: place}, {at: place}
                for other, tensor in enumerate(tensors):
                    right = axis - each.dim() + tensor.dim()
                    if 0 <= right < tensor.dim() and tensor.shape[right] == size:
                        behind[other] = Place(right, inner)
                    if axis < tensor.dim() and tensor.shape[axis] == size:
                        both[other] = place
                add(units, behind)
                add(units, both)
                everywhere = {
                    other: Place(list(tensor.shape).index(size), inner)
                    for other, tensor in enumerate(tensors)
                    if size in tensor.shape
                }
                add(units, {**everywhere, at: place})
    found.sort(key=lambda each: -len(each[1]))
    chooser = random.Random(0)
    head, tail = found[: most // 2], found[most // 2 :]
    chooser.shuffle(tail)
    return head + tail[: most - len(head)]


def in_rows(tensor: Tensor, place: Place, units: int) -> Tensor:
    """[rest, units]: a tensor's numbers by unit."""
    split = torch.unflatten(tensor, place.axis, (tensor.shape[place.axis] // (units * place.inner), units, place.inner))
    return split.movedim(place.axis + 1, -1)


def replaced(one: Tensor, two: Tensor, place: Place, units: int, unit: int) -> Tensor:
    """`one` with a unit of `two`."""
    made = one.clone(memory_format=torch.contiguous_format)
    in_rows(made, place, units)[..., unit] = in_rows(two, place, units)[..., unit]
    return made


def spot_of(typing: RowTyping, tensor: Tensor) -> Any:
    with torch._C.DisableTorchFunction():
        return typing._spot(tensor, None, None)


def differs(one: Tensor, two: Tensor) -> bool:
    if one.shape != two.shape:
        return True
    if one.is_floating_point() or one.is_complex():
        return not torch.allclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)
    return not torch.equal(one, two)


def wrong(before: Tensor, after: Tensor, spot: Place | None, units: int, unit: int) -> bool:
    """Whether more changed than the replaced unit."""
    if before.numel() == 0:
        return False
    if spot is None:
        return differs(before, after)
    if before.shape != after.shape:
        return True
    others = [each for each in range(units) if each != unit]
    return differs(in_rows(before, spot, units)[..., others], in_rows(after, spot, units)[..., others])


class Trial:
    """One sample of one operation, with rows declared somewhere."""

    def __init__(self, function: Any, one: Any, two: Any, units: int, choice: Choice, *, backward: bool) -> None:
        self.function, self.units, self.choice, self.backward = function, units, choice, backward
        leaves, self.form = tree_flatten((one.input, one.args, one.kwargs))
        others = tree_flatten((two.input, two.args, two.kwargs))[0]
        self.tensors = [each for each in leaves if isinstance(each, Tensor)]
        self.others = [each for each in others if isinstance(each, Tensor)]
        self.leaves = leaves

    def run(self, unit: int | None) -> list[tuple[Tensor, Any]]:
        """Results, and gradients of the arguments, with what was proved about them."""
        torch.manual_seed(0)
        given: list[Tensor] = []
        typing = RowTyping(self.units, rules=True)
        for at, each in enumerate(self.tensors):
            place = self.choice.get(at)
            if place is not None and unit is not None:
                made = replaced(each, self.others[at], place, self.units, unit)
            else:
                made = each.detach().clone()
            label = Label(Kind.PUBLIC)
            if place is not None:
                step = step_of(geometry_of(made), place, item=made.element_size(), units=self.units)
                if step is None:
                    made = made.contiguous()
                    step = step_of(geometry_of(made), place, item=made.element_size(), units=self.units)
                label = Label(Kind.PRIVATE, step)
            typing.label(made, label)
            given.append(made)
        if self.backward:
            given = [each.requires_grad_() if each.is_floating_point() or each.is_complex() else each for each in given]
        place_in = iter(given)
        flat = [next(place_in) if isinstance(each, Tensor) else each for each in self.leaves]
        value, args, kwargs = tree_unflatten(flat, self.form)
        with typing:
            made = self.function(value, *args, **kwargs)
            results = [each for each in tree_flatten(made)[0] if isinstance(each, Tensor)]
            if not self.backward:
                return [(each.detach(), spot_of(typing, each)) for each in results]
            return self._gradients(typing, results, given, unit)

    def _gradients(
        self, typing: RowTyping, results: list[Tensor], given: list[Tensor], unit: int | None
    ) -> list[tuple[Tensor, Any]]:
        outs, seeds = [], []
        for each in results:
            spot = spot_of(typing, each)
            if not each.requires_grad or isinstance(spot, Fault) or spot is None:
                continue
            random = torch.Generator().manual_seed(3)
            seed = torch.randn(each.shape, generator=random, dtype=each.real.dtype).to(each.dtype)
            if unit is not None:
                other = torch.randn(each.shape, generator=random, dtype=each.real.dtype).to(each.dtype)
                seed = replaced(seed, other, spot, self.units, unit)
            step = step_of(geometry_of(seed), spot, item=seed.element_size(), units=self.units)
            typing.label(seed, Label(Kind.PRIVATE, step) if step else Label(Kind.PRIVATE, fault=Fault("", "", "")))
            outs.append(each)
            seeds.append(seed)
        wanted = [each for each in given if each.requires_grad]
        if not outs or not wanted:
            return []
        found = torch.autograd.grad(outs, wanted, seeds, allow_unused=True)
        return [(each.detach(), spot_of(typing, each)) for each in found if each is not None and not each.is_sparse]


ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    NotImplementedError,
    AttributeError,
    NotSupported,
    AssertionError,
)


def try_operation(op: Any, *, most_samples: int, most_choices: int, most_rows: int, backward: bool) -> Outcome:
    """All trials of one operation."""
    total = Outcome(operations=1, violations=[])
    assert total.violations is not None
    function = op.op
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (one, two) in enumerate(samples(op, most_samples)):
            leaves, form = tree_flatten((one.input, one.args, one.kwargs))
            others, other_form = tree_flatten((two.input, two.args, two.kwargs))
            tensors = [each for each in leaves if isinstance(each, Tensor)]
            if form != other_form or any(each.layout != torch.strided or each.numel() > 4000 for each in tensors):
                continue
            if [each.shape for each in tensors] != [each.shape for each in others if isinstance(each, Tensor)]:
                continue
            for units, choice in choices(tensors, most_choices):
                trial = Trial(function, one, two, units, choice, backward=backward)
                try:
                    before = trial.run(None)
                except ERRORS:
                    total.refused += 1
                    continue
                good = [at for at, (_, spot) in enumerate(before) if not isinstance(spot, Fault)]
                total.refused += len(before) - len(good)
                if not good:
                    continue
                total.proved += len(good)
                for unit in range(units - 1, max(-1, units - 1 - most_rows), -1):
                    try:
                        after = trial.run(unit)
                    except ERRORS as error:
                        total.violations.append(f"{op.name} sample {number} {choice}: {type(error).__name__} {error}")
                        break
                    bad = [
                        at
                        for at in good
                        if at >= len(after) or wrong(before[at][0], after[at][0], before[at][1], units, unit)
                    ]
                    if bad:
                        total.violations.append(
                            f"{op.name} sample {number} units {units} rows {choice} unit {unit}: result {bad[0]}"
                            f" said to lie at {before[bad[0]][1]}"
                        )
                        break
    return total


def operations() -> list[Any]:
    return [each for each in op_db if each.name not in SLOW]
