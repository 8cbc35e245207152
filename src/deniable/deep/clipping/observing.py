"""Find out, once, what each call with a parameter is: which axis holds the rows, and which calls only transform
parameters.

The model runs on two rows and on three. Tensors of both runs are compared call by call: the axis whose length goes
from 2k to 3k holds the rows, k places for each; a tensor that keeps its shape is the same for every row. A result
made of parameters and of such shared tensors alone is a transformed parameter; anything else that a parameter takes
part in is a use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from deniable.deep.clipping.asking import refuse_leaves
from deniable.deep.clipping.calls import Axes, Call, Place
from deniable.deep.clipping.passes import chosen, output, row_count
from deniable.deep.clipping.rules import rule_for
from deniable.deep.clipping.tape import Step, Watch, differentiable, strayed
from deniable.errors import NotSupported

FEW, MORE = 2, 3
_UNCLEAR = Place(-1, 0)


def observe(
    model: nn.Module, parameters: Mapping[str, Tensor], tensors: Mapping[str, Tensor], inputs: Any
) -> list[Step]:
    """The script for the tape. `tensors` are all the model's tensors, `parameters` the trainable ones among them."""
    rows = row_count(inputs)
    devices = sorted({each.device.index for each in tensors.values() if each.is_cuda})
    with torch.no_grad(), torch.random.fork_rng(devices):
        few, more = (chosen(inputs, torch.arange(size) % rows) for size in (FEW, MORE))
        first = _Shapes(parameters)
        with first:
            output(model, tensors, few)
        second = _Axes(parameters, first.shapes, more)
        with second:
            output(model, tensors, more)
    second.finish()
    return second.script


class _Shapes(Watch):
    """The first run: the shapes of everything, call by call."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__(parameters)
        self.shapes: list[list[torch.Size]] = []

    def passed(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        made = function(*args, **kwargs)
        refuse_leaves(_tensors((args, kwargs, made)))
        self.shapes.append([each.shape for each in _tensors(made)])
        return made

    def met(self, call: Call) -> Any:
        return self.passed(call.function, call.args, call.kwargs)


class _Axes(Watch):
    """The second run: compares with the first and writes the script."""

    def __init__(self, parameters: Mapping[str, Tensor], shapes: Sequence[list[torch.Size]], inputs: Any) -> None:
        super().__init__(parameters)
        self._shapes: Iterator[list[torch.Size]] = iter(shapes)
        self._places: dict[int, tuple[Tensor, Place | None]] = {
            id(each): (each, Place(0, 1)) for each in _tensors(inputs)
        }
        self.script: list[Step] = []

    def passed(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        made = function(*args, **kwargs)
        tensors = _tensors(made)
        before = next(self._shapes, None)
        if before is None or len(before) != len(tensors):
            raise strayed()
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        for shape, tensor in zip(before, tensors, strict=True):
            self._places[id(tensor)] = (tensor, self._found(shape, tensor, given))
        return made

    def kept(self, values: Tensor) -> Tensor:
        copy = super().kept(values)
        self._places[id(copy)] = (copy, self._place(values))
        return copy

    def met(self, call: Call) -> Any:
        made = self.passed(call.function, call.args, call.kwargs)
        if not differentiable(made):
            return made
        tensors = _tensors(made)
        places = [self._place(each) for each in tensors]
        if all(each is None for each in (*places, *map(self._place, call.others()))):
            self.remember(call, made)
            self.script.append(None)
            return made
        saved = tuple(self._place(each) for each in rule_for(call.function)(call).sources)
        if len(tensors) != 1 or places[0] is None or _UNCLEAR in (places[0], *saved):
            raise NotSupported(
                f"{call.name} with a parameter has no axis of its result that belongs to the examples, one by one; "
                "use mode='vmap', or rewrite the operation so that each example has its own result"
            )
        self.script.append(Axes(saved, places[0]))
        return made

    def finish(self) -> None:
        """After the run: both runs made the same calls."""
        if next(self._shapes, None) is not None:
            raise strayed()

    def _place(self, tensor: Tensor) -> Place | None:
        found = self._places.get(id(tensor))
        return None if found is None else found[1]

    def _found(self, before: torch.Size, made: Tensor, given: Sequence[Tensor]) -> Place | None:
        """The rows of a result: on the axis that grew; how they lie there follows from the arguments."""
        axis = _grown(before, made.shape)
        if axis is None or axis == _UNCLEAR.axis:
            return axis if axis is None else _UNCLEAR
        size = made.shape[axis]
        for each in given:
            place = self._place(each)
            if place is None or place == _UNCLEAR:
                continue
            if each.shape[place.axis] == size:
                return Place(axis, place.inner)
            if each.numel() == made.numel():
                # A change of shape keeps the order of the elements: rows lie as far apart as before.
                apart, below = place.inner * prod(each.shape[place.axis + 1 :]), prod(made.shape[axis + 1 :])
                if apart % below == 0 and size % (apart // below * MORE) == 0:
                    return Place(axis, apart // below)
        return Place(axis, size // MORE)


def _grown(few: torch.Size, more: torch.Size) -> int | None:
    """The one axis that grew with the rows; None if none did."""
    if len(few) != len(more):
        return _UNCLEAR.axis
    grown = [axis for axis, (one, two) in enumerate(zip(few, more, strict=True)) if one != two]
    if not grown:
        return None
    right = len(grown) == 1 and few[grown[0]] * MORE == more[grown[0]] * FEW
    return grown[0] if right else _UNCLEAR.axis


def _tensors(made: Any) -> list[Tensor]:
    return [each for each in tree_leaves(made) if isinstance(each, Tensor)]
