"""The table of rules: where the rows of an operation's results lie, given where those of its arguments lie.

A rule is a function from an `Operation` to a place per result (one place stands for all of them). It raises `Mixing`
where one unit's numbers would reach another's. It may answer a place only if every number of the result that lies at
a unit's place depends on that unit's numbers and on what all units share, and on nothing else.
tests/deep/clipping/test_typing_rules.py tries that on torch's samples of every operation.

Rules are found by the name of the operation, without the overload and without the underscore of the form in place.
This file holds what rules are made of and the general ones; layers are in typing_layers.py, selections in
typing_indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from deniable.deep.clipping.labels import LOOSE, Fault, Place


class Mixing(Exception):
    """Why a result belongs to no single unit; `fault` where that was so before."""

    def __init__(self, reason: str, fault: Fault | None = None) -> None:
        super().__init__(reason)
        self.fault = fault


class Looking(Exception):
    """The shape of a result depends on private values."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """A constant that differs from unit to unit, or with their number: its values now and in the other run."""

    now: Tensor
    before: Tensor
    reason: str


Spot: TypeAlias = Place | Fault | Ordered | None
"""What is known of an argument: a place, None where all units share it, or why neither can be said."""
Places: TypeAlias = Place | list[Place | Fault | None] | None
VARIES = "a shared tensor differs from row to row, so the place in the batch counts"


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of an operation: its arguments by name, what is known of the tensors among them, and its results."""

    name: str
    arguments: Mapping[str, Any]
    spots: Mapping[int, Spot]
    results: Sequence[Tensor]
    units: int
    before: Mapping[str, Any] | None = None
    """The arguments of the other run that are no tensors."""
    units_before: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, *names: str, default: Any = None) -> Any:
        """The first of some arguments that the overload has and that is not None."""
        return next((self.arguments[name] for name in names if self.arguments.get(name) is not None), default)

    def place(self, tensor: Any) -> Place | None:
        """Where the rows of an argument lie. A constant that differs from row to row has no place."""
        if not isinstance(tensor, Tensor):
            return None
        spot = self.spots[id(tensor)]
        if isinstance(spot, Fault):
            raise Mixing(spot.reason, spot)
        if isinstance(spot, Ordered):
            raise Mixing(spot.reason)
        return spot

    def ordered(self, tensor: Any) -> Ordered | None:
        """A constant that differs from row to row."""
        spot = self.spots.get(id(tensor))
        return spot if isinstance(spot, Ordered) else None

    def shared(self, *tensors: Any) -> None:
        """Refuse rows in what must be the same for all."""
        for each in tensors:
            if self.place(each) is not None:
                raise Mixing("rows of the batch stand where something shared is expected")

    def same_numbers(self, *names: str) -> None:
        """Refuse numbers that differ from run to run."""
        if self.before is not None and any(self.before.get(name) != self.arguments.get(name) for name in names):
            raise Mixing("a number depends on how many rows there are")

    @property
    def tensors(self) -> list[Tensor]:
        """All tensor arguments, those in lists included."""
        found: list[Tensor] = []
        for each in self.arguments.values():
            if isinstance(each, Tensor):
                found.append(each)
            elif isinstance(each, list | tuple):
                found.extend(one for one in each if isinstance(one, Tensor))
        return found


Rule: TypeAlias = Callable[[Operation], Places]
RULES: dict[str, Rule] = {}
SIZES: dict[str, frozenset[str]] = {}
"""By operation, the numbers that may depend on how many rows there are. Their rules decide what that means."""
_SHAPE_ONLY = (
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones new_full new_empty"
    " new_empty_strided empty_strided _efficientzerotensor"
)
SHAPE_ONLY = frozenset(_SHAPE_ONLY.split())
"""Operations that look at the shape of their arguments and not at their numbers."""
_OVERWRITES = "copy_ fill_ zero_ bernoulli_ normal_ uniform_ random_ exponential_ geometric_ cauchy_ log_normal_"
OVERWRITES = frozenset(_OVERWRITES.split())
"""Operations in place that leave nothing of what was there."""
_VIEWS = "_unsafe_view _reshape_alias as_strided_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_"
VIEWS = frozenset(_VIEWS.split())
"""Operations that only look at memory in another way, though torch does not say so."""


def rule(names: str, *, sizes: str = "") -> Callable[[Rule], Rule]:
    """Enter a rule under the names of operations."""

    def entered(function: Rule) -> Rule:
        for name in names.split():
            RULES[name] = function
            if sizes:
                SIZES[name] = frozenset(sizes.split())
        return function

    return entered


def base_name(name: str) -> str:
    """The name under which a rule is found."""
    return name[:-1] if name not in RULES and name.endswith("_") and not name.endswith("__") else name


# what rules are made of


def joined(one: Place | None, two: Place | None) -> Place | None:
    """The place of a tensor that is made of both, element by element."""
    if one is None or two is None:
        return one or two
    if one.axis != two.axis or (one.inner != two.inner and LOOSE not in (one.inner, two.inner)):
        raise Mixing("rows of the batch meet other rows: they lie on different axes or in another order")
    return Place(one.axis, one.inner or two.inner)


def varies(tensor: Tensor, axis: int) -> bool:
    """Whether a shared tensor may differ along an axis."""
    return 0 <= axis < tensor.dim() and tensor.shape[axis] > 1 and tensor.stride(axis) != 0


def broadcast(op: Operation, tensors: Iterable[Any], dims: int) -> Place | None:
    """The place in a result of `dims` dimensions that broadcasts its arguments."""
    given = [each for each in tensors if isinstance(each, Tensor)]
    found: Place | None = None
    for each in given:
        place = op.place(each)
        if place is not None:
            found = joined(found, Place(place.axis + dims - each.dim(), place.inner))
    if found is not None and any(
        op.place(each) is None and varies(each, found.axis - dims + each.dim()) for each in given
    ):
        raise Mixing(VARIES)
    return found


def axes_of(dim: Any, dims: int) -> set[int]:
    """Axes counted from the first; all of them for None and for an empty list."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return set(range(dims))
    return {each % max(1, dims) for each in (dim if isinstance(dim, list | tuple) else [dim])}


def refuse_along(place: Place | None, axes: Iterable[int]) -> None:
    """Rows may not lie on these axes."""
    if place is not None and place.axis in set(axes):
        raise Mixing("it works along the axis that holds the rows of the batch")


def only_first(place: Place | None) -> Place | None:
    """Rows may lie on the first axis alone."""
    if place is not None and place.axis != 0:
        raise Mixing("it takes the rows of a batch on its first axis alone")
    return place


SUMMED = Fault("it sums over the batch, as the gradient of a shared tensor does", "", "")


def asked_for(op: Operation, places: list[Place | Fault | None], mask: Sequence[bool]) -> Places:
    """The places of the results that `output_mask` asks for; the others are no tensors."""
    wanted = [place for place, flag in zip(places, mask, strict=False) if flag]
    if len(wanted) != len(op.results):
        raise Mixing("the rule for this operation expects other results")
    return wanted


# element by element


@rule(
    "_to_copy copy clone fill zero bernoulli normal poisson binomial native_dropout native_dropout_backward masked_fill"
    " where _fused_dropout log_normal exponential geometric cauchy uniform random conj_physical _conj_physical"
)
def pointwise(op: Operation) -> Places:
    """Every element of a result depends on the elements at the same place."""
    return broadcast(op, op.tensors, op.results[0].dim() if op.results else 0)


@rule("rand randn randint rand_like randn_like randint_like", sizes="size")
def drawn(op: Operation) -> Places:
    """Independent draws, whatever the arguments hold."""
    return Place(0, LOOSE)


@rule("multinomial")
def multinomial(op: Operation) -> Places:
    """Draws from the rows of a matrix."""
    place = op.place(op["self"])
    refuse_along(place, {op["self"].dim() - 1})
    return place


# reductions, and what works along an axis


@rule(
    "sum mean amax amin var std var_mean std_mean logsumexp prod any all argmax argmin max min median nanmedian mode"
    " kthvalue norm linalg_vector_norm nansum count_nonzero aminmax"
)
def reduced(op: Operation) -> Places:
    """The numbers along some axes become one."""
    if "other" in op.arguments:
        return pointwise(op)
    values: Tensor = op.get("self", "input")
    place = op.place(values)
    axes = axes_of(op.get("dim"), values.dim())
    refuse_along(place, axes)
    if place is None or op.get("keepdim", default=False):
        return place
    return Place(place.axis - sum(axis < place.axis for axis in axes), place.inner)


@rule(
    "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax cumsum cumprod logcumsumexp"
    " cummax cummin sort argsort topk flip roll"
)
def along(op: Operation) -> Places:
    """Numbers along some axes meet; the result has the same axes."""
    values: Tensor = op.get("self", "input", "grad_output")
    place = broadcast(op, op.tensors, values.dim())
    refuse_along(place, axes_of(op["dims"] if "dims" in op.arguments else op.get("dim", default=-1), values.dim()))
    return place


@rule("glu glu_backward")
def halved(op: Operation) -> Places:
    """The two halves of an axis meet."""
    place: Place | None = None
    for each in op.tensors:
        place = joined(place, op.place(each))
        refuse_along(place, axes_of(op["dim"], each.dim()))
    if place is not None and any(op.place(each) is None and varies(each, place.axis) for each in op.tensors):
        raise Mixing(VARIES)
    return place


@rule("renorm")
def renormed(op: Operation) -> Places:
    """Every slice along `dim` is scaled by its own norm, over all other axes."""
    place, dims = op.place(op["self"]), op["self"].dim()
    refuse_along(place, set(range(dims)) - {op["dim"] % dims})
    return place


@rule("_fft_r2c _fft_c2c _fft_c2r")
def transformed(op: Operation) -> Places:
    """A Fourier transform along some axes."""
    place = op.place(op["self"])
    refuse_along(place, axes_of(op["dim"], op["self"].dim()))
    return place


# products


def multiplied(op: Operation, left: Tensor, right: Tensor, addend: Any = None) -> Places:
    """[…, n, k] times […, k, m], plus something that is broadcast; the axes before them one by one."""
    one, two, dims = op.place(left), op.place(right), left.dim()
    if (one is not None and one.axis == dims - 1) or (two is not None and two.axis == dims - 2):
        raise Mixing("a product sums over the rows of the batch")
    found = joined(one, two)
    if found is not None and found.axis < dims - 2:
        for each, place in ((left, one), (right, two)):
            if place is None and varies(each, found.axis):
                raise Mixing(VARIES)
    if not isinstance(addend, Tensor):
        return found
    place = op.place(addend)
    if place is not None:
        shape = left.shape[:-1] + right.shape[-1:]
        found = joined(found, Place(place.axis + dims - addend.dim(), place.inner))
        if found is not None and joined(one, two) is None and shape[found.axis] > 1:
            raise Mixing(VARIES)
    elif found is not None and varies(addend, found.axis - dims + addend.dim()):
        raise Mixing(VARIES)
    return found


@rule("mm bmm")
def product(op: Operation) -> Places:
    """A matrix times a matrix, or stacks of them."""
    return multiplied(op, op["self"], op["mat2"])


@rule("addmm")
def product_and_sum(op: Operation) -> Places:
    """A product of matrices and an addend."""
    return multiplied(op, op["mat1"], op["mat2"], op["self"])


@rule("baddbmm")
def products_and_sum(op: Operation) -> Places:
    """Products of stacks of matrices and an addend."""
    return multiplied(op, op["batch1"], op["batch2"], op["self"])


@rule("mv")
def product_with_vector(op: Operation) -> Places:
    """[n, k] times [k]."""
    op.shared(op["vec"])
    place = op.place(op["self"])
    refuse_along(place, {1})
    return place


@rule("_trilinear")
def trilinear(op: Operation) -> Places:
    """A product of three tensors, each with new axes, summed over some axes."""
    found: Place | None = None
    spread: list[tuple[Tensor, list[int], Place | None]] = []
    for number in (1, 2, 3):
        values, new = op[f"i{number}"], set(op[f"expand{number}"])
        axes = [axis for axis in range(values.dim() + len(new)) if axis not in new]
        place = op.place(values)
        place = None if place is None else Place(axes[place.axis], place.inner)
        found = joined(found, place)
        spread.append((values, axes, place))
    refuse_along(found, op["sumdim"])
    if found is None:
        return None
    for values, axes, place in spread:
        if place is None and found.axis in axes and varies(values, axes.index(found.axis)):
            raise Mixing(VARIES)
    return Place(found.axis - sum(axis < found.axis for axis in op["sumdim"]), found.inner)
