"""Rules for selecting, placing and repeating: index, gather, scatter, cat, repeat, pad, and the gradients of views.

Rows may be looked up in shared tables (an index of private numbers into a parameter), and within each row. Across
rows nothing may be picked, with one exception: a constant that walks through the rows in their order, as
`x[arange(rows), i]` does. That is decided by its values, in both runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deniable.deep.clipping.labels import LOOSE, Place
from deniable.deep.clipping.typing_rules import (
    VARIES,
    Looking,
    Mixing,
    Operation,
    Ordered,
    Places,
    axes_of,
    broadcast,
    joined,
    refuse_along,
    rule,
    varies,
)

_PICKS = "it picks rows of the batch, or puts them in another order"


# constants that walk through rows


def walk(op: Operation, index: Ordered, size: int, place: Place) -> Place:
    """Where the units lie in a constant index into an axis of `size` places, on which rows lie at `place`."""
    inner = place.inner or size // op.units
    now = _decoded(index.now, inner, op.units, size)
    before = _decoded(index.before, inner, op.units_before, size // op.units * op.units_before)
    found = _place_of_units(now[0], op.units)
    if found is None or _place_of_units(before[0], op.units_before) != found:
        raise Mixing(_PICKS)
    for one, two in zip(now[1:], before[1:], strict=True):
        mine, other = _of_first(one, found, op.units), _of_first(two, found, op.units_before)
        if mine is None or other is None or not torch.equal(mine, other):
            raise Mixing(_PICKS)
    return found


def _decoded(index: Tensor, inner: int, units: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """(unit, round, place within the unit) of every entry."""
    index = torch.where(index < 0, index + size, index)
    return index // inner % units, index // (inner * units), index % inner


def _place_of_units(whose: Tensor, units: int) -> Place | None:
    """The place at which units lie in order, given the unit of every entry."""
    for axis, size in enumerate(whose.shape):
        if size % units:
            continue
        line = whose.movedim(axis, 0).reshape(size, -1)[:, 0]
        changes = (line != line[0]).nonzero()
        inner = int(changes[0]) if len(changes) else size
        if not inner or size % (inner * units):
            continue
        expected = torch.arange(size) // inner % units
        shape = [size if each == axis else 1 for each in range(whose.dim())]
        if bool((whose == expected.to(whose.device).view(shape)).all()):
            return Place(axis, inner)
    return None


def _of_first(values: Tensor, place: Place, units: int) -> Tensor | None:
    """What every unit has; None where they differ."""
    size = values.shape[place.axis]
    split = torch.unflatten(values, place.axis, (size // (units * place.inner), units, place.inner))
    first = split.narrow(place.axis + 1, 0, 1)
    return first if bool((split == first).all()) else None


# index and index_put


class _Indexed:
    """How `x[indices]` arranges its axes: which axes of x are indexed, and where the others and the index's own go."""

    def __init__(self, op: Operation, values: Tensor, indices: list[Any]) -> None:
        self.tensors: list[Tensor] = []
        self.index_of: dict[int, Tensor] = {}
        axis = 0
        for each in indices:
            if each is None:
                axis += 1
                continue
            flags = each.dtype in (torch.bool, torch.uint8)
            if flags:
                op.shared(each)
            width = each.dim() if flags else 1
            self.tensors.append(each)
            self.index_of |= dict.fromkeys(range(axis, axis + width), each)
            axis += width
        self.flags = any(each.dtype in (torch.bool, torch.uint8) for each in self.tensors)
        self.depth = max((1 if each.dtype == torch.bool else each.dim()) for each in self.tensors)
        self.others = [axis for axis in range(values.dim()) if axis not in self.index_of]
        own = sorted(self.index_of)
        together = own[-1] - own[0] + 1 == len(own)
        self.first = sum(axis < own[0] for axis in self.others) if together else 0

    def kept(self, axis: int) -> int:
        """Where an axis that is not indexed lies in the result."""
        at = self.others.index(axis)
        return at if at < self.first else at + self.depth

    def place(self, op: Operation, values: Tensor) -> Place | None:
        """Where the rows of the result lie."""
        place = op.place(values)
        walked: Place | None = None
        plain = self.tensors
        if place is not None:
            if place.axis not in self.index_of:
                op.shared(*self.tensors)
                return Place(self.kept(place.axis), place.inner)
            index = self.index_of[place.axis]
            ordered = op.ordered(index)
            if ordered is None or self.flags:
                raise Mixing(_PICKS)
            found = walk(op, ordered, values.shape[place.axis], place)
            walked = Place(found.axis + self.depth - index.dim(), found.inner)
            plain = [each for each in self.tensors if each is not index]
        if self.flags:
            op.shared(*plain)
            return None
        picked = joined(walked, broadcast(op, plain, self.depth))
        if picked is not None and any(
            op.place(each) is None and varies(each, picked.axis - self.depth + each.dim()) for each in plain
        ):
            raise Mixing(VARIES)
        return None if picked is None else Place(picked.axis + self.first, picked.inner)


def _refuse_private_flags(op: Operation, indices: list[Any]) -> None:
    for each in indices:
        if each is not None and each.dtype in (torch.bool, torch.uint8) and op.place(each) is not None:
            raise Looking


@rule("index _unsafe_index")
def index(op: Operation) -> Places:
    """x[indices]."""
    _refuse_private_flags(op, op["indices"])
    return _Indexed(op, op["self"], op["indices"]).place(op, op["self"])


@rule("index_put _index_put_impl _unsafe_index_put")
def index_put(op: Operation) -> Places:
    """x[indices] = values, or += values."""
    target, indices, values = op["self"], op["indices"], op["values"]
    flags = [each for each in indices if each is not None and each.dtype in (torch.bool, torch.uint8)]
    if len(flags) == 1 and len(indices) == 1 and values.numel() == 1:  # one number where a flag is set
        op.shared(values)
        place = joined(op.place(target), op.place(flags[0]))
        for each in (target, flags[0]):
            if place is not None and op.place(each) is None and varies(each, place.axis):
                raise Mixing(VARIES)
        return place
    _refuse_private_flags(op, indices)
    place = op.place(target)
    given = op.place(values)
    if place is None:
        op.shared(values, *(each for each in indices if each is not None))
        return None
    arranged = _Indexed(op, target, indices)
    inside = arranged.place(op, target)
    depth = len(arranged.others) + arranged.depth
    if given is not None:
        inside = joined(inside, Place(given.axis + depth - values.dim(), given.inner))
    elif inside is not None and varies(values, inside.axis - depth + values.dim()):
        raise Mixing(VARIES)
    inner = place.inner or (inside.inner if inside is not None and place.axis not in arranged.index_of else 0)
    return Place(place.axis, inner or target.shape[place.axis] // op.units)


# along one axis


@rule("index_select")
def index_select(op: Operation) -> Places:
    """Some places of one axis."""
    values, wanted = op["self"], op["index"]
    place, dim = op.place(values), op["dim"] % max(1, values.dim())
    if place is None:
        own = op.place(wanted)
        return None if own is None else Place(dim, own.inner)
    if place.axis != dim:
        op.shared(wanted)
        return place
    ordered = op.ordered(wanted)
    if ordered is None:
        raise Mixing(_PICKS)
    return Place(dim, walk(op, ordered, values.shape[dim], place).inner)


@rule("index_add index_copy index_fill index_reduce")
def index_add(op: Operation) -> Places:
    """Something added to, or put in the place of, some places of one axis."""
    values, source = op["self"], op.get("source", "value")
    dim = op["dim"] % max(1, values.dim())
    op.shared(op["index"])
    place = op.place(values)
    if isinstance(source, Tensor) and source.dim():
        place = joined(place, op.place(source))
        for each in (values, source):
            if place is not None and op.place(each) is None and varies(each, place.axis):
                raise Mixing(VARIES)
    else:
        op.shared(source)
    refuse_along(place, {dim})
    return place


@rule("gather")
def gather(op: Operation) -> Places:
    """result[i, j] = values[index[i, j], j], along one axis."""
    values, wanted = op["self"], op["index"]
    dim, place = op["dim"] % max(1, values.dim()), op.place(values)
    ordered = op.ordered(wanted)
    if place is not None and place.axis == dim:
        if ordered is None:
            raise Mixing(_PICKS)
        return walk(op, ordered, values.shape[dim], place)
    own = op.place(wanted)
    if own is not None and own.axis == dim:
        if place is not None:
            raise Mixing(_PICKS)
        return own
    found = joined(place, own)
    if found is not None:
        for each in (values, wanted):
            if op.place(each) is None and varies(each, found.axis):
                raise Mixing(VARIES)
        if values.shape[found.axis] != wanted.shape[found.axis]:
            raise Mixing(_PICKS)
    return found


@rule("scatter scatter_add scatter_reduce")
def scatter(op: Operation) -> Places:
    """target[index[i, j], j] = source[i, j], along one axis."""
    target, wanted, source = op["self"], op["index"], op.get("src", "value")
    given = [each for each in (target, wanted, source) if isinstance(each, Tensor) and each.dim()]
    found: Place | None = None
    for each in given:
        found = joined(found, op.place(each))
    refuse_along(found, {op["dim"] % max(1, target.dim())})
    if found is not None:
        if any(op.place(each) is None and varies(each, found.axis) for each in given):
            raise Mixing(VARIES)
        if len({each.shape[found.axis] for each in given}) > 1:
            raise Mixing(_PICKS)
    if isinstance(source, Tensor) and not source.dim():
        op.shared(source)
    return found


@rule("take")
def take(op: Operation) -> Places:
    """Numbers of a shared tensor, by their place in it."""
    op.shared(op["self"])
    return op.place(op["index"])


@rule("embedding")
def embedding(op: Operation) -> Places:
    """Lines of a shared table."""
    op.shared(op["weight"])
    return op.place(op["indices"])


@rule("_embedding_bag _embedding_bag_forward_only", sizes="")
def embedding_bag(op: Operation) -> Places:
    """Means or sums of the lines of a shared table over bags, which begin at constant offsets."""
    op.shared(op["weight"])
    place = joined(op.place(op["indices"]), op.place(op.get("per_sample_weights")))
    ordered = op.ordered(op["offsets"])
    if place is None or ordered is None or op["indices"].dim() != 1:
        raise Mixing("bags of several rows are told apart by offsets; give one bag per row, an index of two dimensions")
    if op.get("per_sample_weights") is not None and op.place(op["per_sample_weights"]) is None:
        raise Mixing(VARIES)
    widths = []
    for offsets, units in ((ordered.now, op.units), (ordered.before, op.units_before)):
        bags = offsets.numel() - int(bool(op.get("include_last_offset", default=False)))
        size = place.inner * units
        if not bags or size % bags or not torch.equal(offsets[:bags].cpu(), torch.arange(0, size, size // bags)):
            raise Mixing(_PICKS)
        widths.append(size // bags)
    if widths[0] != widths[1] or place.inner % widths[0]:
        raise Mixing(_PICKS)
    return [Place(0, place.inner // widths[0])]


# joining and repeating


@rule("cat")
def cat(op: Operation) -> Places:
    """Tensors behind one another."""
    return _behind_one_another(op, op["tensors"], axes_of(op["dim"], op.results[0].dim()).pop())


def _behind_one_another(op: Operation, tensors: Any, dim: int) -> Place | None:
    given = [each for each in tensors if each.dim() != 1 or each.numel()]
    places = [op.place(each) for each in given]
    found: Place | None = None
    for each in places:
        found = joined(found, each)
    if found is None:
        return None
    if found.axis == dim:
        if any(place is None for place in places) or any(
            each.shape[dim] % (op.units * (found.inner or 1)) for each in given
        ):
            raise Mixing(_PICKS)
    elif any(place is None and varies(each, found.axis) for each, place in zip(given, places, strict=True)):
        raise Mixing(VARIES)
    return found


@rule("stack")
def stack(op: Operation) -> Places:
    """Tensors along a new axis."""
    dim = op["dim"] % op.results[0].dim()
    found: Place | None = None
    for each in op["tensors"]:
        found = joined(found, op.place(each))
    if found is None:
        return None
    if any(op.place(each) is None and varies(each, found.axis) for each in op["tensors"]):
        raise Mixing(VARIES)
    return Place(found.axis + (dim <= found.axis), found.inner)


@rule("repeat", sizes="repeats")
def repeat(op: Operation) -> Places:
    """Copies of a tensor beside one another. What is shared has rows where the number of copies grows with them."""
    values, repeats = op["self"], list(op["repeats"])
    before = repeats if op.before is None else list(op.before["repeats"])
    more = len(repeats) - values.dim()
    grown = [axis for axis, (one, two) in enumerate(zip(before, repeats, strict=True)) if one != two]
    place = op.place(values)
    if place is not None:
        if grown:
            raise Mixing("the number of copies depends on the number of rows")
        return Place(place.axis + more, place.inner)
    if not grown:
        return None
    axis = grown[0]
    if len(grown) > 1 or before[axis] * op.units != repeats[axis] * op.units_before:
        raise Mixing("the number of copies depends on the number of rows")
    size = values.shape[axis - more] if axis >= more else 1
    copies = repeats[axis] // op.units
    return Place(axis, LOOSE if size == 1 else copies * size)


@rule("constant_pad_nd")
def padded(op: Operation) -> Places:
    """Constants before and behind along the last axes."""
    place, pad = op.place(op["self"]), op["pad"]
    refuse_along(place, {op["self"].dim() - 1 - at // 2 for at, width in enumerate(pad) if width})
    return place


# gradients of views


@rule("slice_backward slice_scatter", sizes="input_sizes start end")
def slice_backward(op: Operation) -> Places:
    """A slice put back into zeros, or into a tensor."""
    part = op.get("grad_output", "src")
    dim = op["dim"] % part.dim()
    place = op.place(part)
    if "src" in op.arguments:
        place = joined(place, op.place(op["self"]))
        if place is not None and any(
            op.place(each) is None and varies(each, place.axis) for each in (part, op["self"])
        ):
            raise Mixing(VARIES)
    if place is None or place.axis != dim:
        _same_sizes(op, dim)
        if place is None and op.before is not None and op.before.get("input_sizes") != op.arguments.get("input_sizes"):
            raise Mixing("a number depends on how many rows there are")
        return place
    size, stretch = op.results[0].shape[dim], op.units * place.inner
    start = _start(op["start"], size)
    if op["step"] != 1 or not place.inner or start % stretch or part.shape[dim] % stretch or size % stretch:
        raise Mixing(_PICKS)
    if op.before is not None:
        old = _start(op.before["start"], size // op.units * op.units_before)
        if old * op.units != start * op.units_before:
            raise Mixing("a number depends on how many rows there are")
    return place


def _start(start: int | None, size: int) -> int:
    start = start or 0
    return max(0, start + size) if start < 0 else start


def _same_sizes(op: Operation, dim: int) -> None:
    """Start and end must be those of the other run; the size of another axis may be another."""
    op.same_numbers("start", "end")
    if (
        op.before is not None
        and "input_sizes" in op.arguments
        and op.before["input_sizes"][dim] != op["input_sizes"][dim]
    ):
        raise Mixing("a number depends on how many rows there are")


@rule("select_backward", sizes="input_sizes")
def select_backward(op: Operation) -> Places:
    """One place of an axis put back into zeros."""
    place, dim = op.place(op["grad_output"]), op["dim"] % len(op["input_sizes"])
    if op.before is not None and op.before["input_sizes"][dim] != op["input_sizes"][dim]:
        raise Mixing("a number depends on how many rows there are")
    return None if place is None else Place(place.axis + (dim <= place.axis), place.inner)


@rule("select_scatter")
def select_scatter(op: Operation) -> Places:
    """One place of an axis of a tensor replaced."""
    dim = op["dim"] % op["self"].dim()
    own, given = op.place(op["self"]), op.place(op["src"])
    if given is not None:
        given = Place(given.axis + (dim <= given.axis), given.inner)
    found = joined(own, given)
    refuse_along(found, {dim})
    if found is not None:
        if own is None and varies(op["self"], found.axis):
            raise Mixing(VARIES)
        if given is None and varies(op["src"], found.axis - (dim < found.axis)):
            raise Mixing(VARIES)
    return found


@rule("unfold_backward", sizes="input_sizes")
def unfold_backward(op: Operation) -> Places:
    """Overlapping windows of an axis added up where they came from."""
    place, dim = op.place(op["grad_in"]), op["dim"] % max(1, len(op["input_sizes"]))
    refuse_along(place, {dim, op["grad_in"].dim() - 1})
    if op.before is not None and op.before["input_sizes"][dim] != op["input_sizes"][dim]:
        raise Mixing("a number depends on how many rows there are")
    return place


@rule("diagonal_backward", sizes="input_sizes")
def diagonal_backward(op: Operation) -> Places:
    """A diagonal put back into zeros."""
    place, dims = op.place(op["grad_output"]), len(op["input_sizes"])
    own = {op["dim1"] % dims, op["dim2"] % dims}
    if op.before is not None and any(op.before["input_sizes"][axis] != op["input_sizes"][axis] for axis in own):
        raise Mixing("a number depends on how many rows there are")
    refuse_along(place, {op["grad_output"].dim() - 1})
    if place is None:
        return None
    return Place([axis for axis in range(dims) if axis not in own][place.axis], place.inner)
