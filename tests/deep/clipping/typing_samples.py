"""Tries the table of typing rules on torch's own samples (OpInfo): a differential test.

Some axis of some arguments of an operation is declared to hold rows, and the operation is typed. Then it runs again on
other rows: one replaced, all in another order, one fewer, one more. What was proved to belong to a row must be the same
wherever that row is, and what was proved to be shared must not have changed at all. The gradients of the arguments are
tried in the same way.

Rows are declared in two ways. `FIXED`: the operation is typed on as many rows as the sample has, so operations whose
numbers mention that size are tried too. `TWO_SIZES`: it is recorded with MANY rows and typed with FEW, as models are.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_flatten, tree_unflatten

from deniable.deep.clipping.labels import Fault, Kind, Label, Place, geometry_of, step_of
from deniable.deep.clipping.proving import Looks
from deniable.deep.clipping.typing import FEW, MANY, Facts, RowTyping
from deniable.deep.clipping.typing_rules import Operation, Ordered, base_name
from deniable.errors import NotSupported

FIXED, TWO_SIZES = "fixed", "two sizes"
KINDS = (torch.float64, torch.int64, torch.complex128, torch.bool)
LARGEST = 4000
"""Samples with larger tensors are left out."""
LEFT_OUT = {
    *("linalg.lu_solve", "svd_lowrank", "pca_lowrank", "_segment_reduce", "segment_reduce", "nn.functional.ctc_loss"),
    "lu_unpack",
}
"""Operations without a rule of which a sample takes seconds, or which crash on factors that fit no pivots."""
UNCHECKED = {"native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}
"""Operations that write past the end of memory where sizes do not fit; they are tried on the sizes of their samples."""
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


@dataclass
class Outcome:
    """How many results were proved and how many were not, which proofs were wrong, and which rules proved something."""

    proved: int = 0
    refused: int = 0
    operations: int = 0
    violations: list[str] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Outcome) -> Outcome:
        self.proved += other.proved
        self.refused += other.refused
        self.operations += other.operations
        self.violations += other.violations
        self.rules += other.rules
        return self


def operations() -> list[Any]:
    """The operations of torch's table."""
    return [each for each in op_db if each.name not in LEFT_OUT]


def seed(number: int) -> None:
    """`torch.manual_seed` without the generators of devices, which take a millisecond."""
    torch.default_generator.manual_seed(number)


# samples, and where rows may lie in them


def sample_pairs(op: Any, kind: torch.dtype, most: int) -> Iterator[tuple[Any, Any]]:
    """Pairs of samples of one form, with different numbers."""
    pair = []
    for number in (1, 2):
        seed(number)
        random.seed(number)
        try:
            # Past `op.sample_inputs`, which reads the source of every frame of the stack for each sample.
            pair.append(list(itertools.islice(op.sample_inputs_func(op, "cpu", kind, False), most)))
        except ERRORS:
            return
    yield from zip(*pair, strict=False)


Choice = dict[int, Place]


def choices(tensors: list[Tensor], most: int) -> list[tuple[int, Choice]]:
    """(units, which tensors have rows and where)."""
    several: list[tuple[int, Choice]] = []

    def add(units: int, choice: Choice) -> None:
        if units > 1 and choice and (units, choice) not in several:
            several.append((units, choice))

    for at, each in enumerate(tensors):
        for axis, size in enumerate(each.shape):
            if size < 2:
                continue
            ways = [(size, 1)] + ([(size // 2, 2), (2, size // 2)] if size % 2 == 0 and size > 2 else [])
            ways += [(2, size // 4)] if size % 4 == 0 else []  # rows that come round twice
            for units, inner in ways:
                place = Place(axis, inner)
                add(units, {at: place})
                last, first = {at: place}, {at: place}
                for other, tensor in enumerate(tensors):
                    right = axis - each.dim() + tensor.dim()
                    if 0 <= right < tensor.dim() and tensor.shape[right] == size:
                        last[other] = Place(right, inner)
                    if axis < tensor.dim() and tensor.shape[axis] == size:
                        first[other] = place
                add(units, last)
                add(units, first)
                everywhere = {
                    other: Place(list(tensor.shape).index(size), inner)
                    for other, tensor in enumerate(tensors)
                    if size in tensor.shape
                }
                add(units, {**everywhere, at: place})
    several.sort(key=lambda each: -len(each[1]))
    chooser = random.Random(0)
    head, tail = several[: most // 2], several[most // 2 :]
    chooser.shuffle(tail)
    return head + tail[: most - len(head)]


def by_unit(tensor: Tensor, place: Place, units: int) -> Tensor:
    """[rest, units]: a tensor's numbers by unit. Where units may lie in any way, they lie one after another."""
    inner = place.inner or 1
    split = torch.unflatten(tensor, place.axis, (tensor.shape[place.axis] // (units * inner), units, inner))
    return split.movedim(place.axis + 1, -1)


def taken(one: Tensor, two: Tensor, place: Place, units: int, rows: Iterable[int]) -> Tensor:
    """A tensor of these rows: the first `units` numbers stand for the rows of `one`, the others for those of `two`."""
    pool = torch.cat([by_unit(one, place, units), by_unit(two, place, units)], -1)
    wanted = pool[..., [row % (2 * units) for row in rows]].movedim(-1, place.axis + 1)
    return wanted.flatten(place.axis, place.axis + 2).contiguous()


# comparing


def differs(one: Tensor, two: Tensor) -> bool:
    """Whether two tensors differ by more than rounding."""
    if one.shape != two.shape:
        return True
    if one.dtype in (torch.float64, torch.complex128):
        return not torch.allclose(one, two, rtol=1e-6, atol=1e-8, equal_nan=True)
    if one.is_floating_point() or one.is_complex():
        return not torch.allclose(one, two, rtol=1e-3, atol=1e-4, equal_nan=True)
    return not torch.equal(one, two)


def wrong(before: Tensor, rows: list[int], after: Tensor, other_rows: list[int], spot: Place | None) -> bool:
    """Whether a result changed where it was proved not to."""
    if before.numel() == 0 or after.numel() == 0:
        return False
    if spot is None:
        return differs(before, after)
    try:
        one, two = by_unit(before, spot, len(rows)), by_unit(after, spot, len(other_rows))
    except (RuntimeError, IndexError):
        return True
    common = [(at, other_rows.index(row)) for at, row in enumerate(rows) if row in other_rows]
    return differs(one[..., [at for at, _ in common]], two[..., [at for _, at in common]])


# trials


class Logging(RowTyping):
    """Counts by which rules something was proved about rows."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(units, **options)
        self.rules: Counter[str] = Counter()

    def _judged(
        self, name: str, facts: Facts, operation: Operation, numbers: Mapping[str, Any], kind: Kind
    ) -> list[Label]:
        labels = super()._judged(name, facts, operation, numbers, kind)
        has_rows = any(isinstance(spot, Place) for spot in operation.spots.values())
        if has_rows and any(each.step and each.fault is None for each in labels):
            self.rules[base_name(facts.name)] += 1
        return labels

    def spot(self, tensor: Tensor) -> Any:
        """Where rows lie in a tensor. A recording run asks too, as both runs must ask the same."""
        if self.typed and self._before is None:
            with torch._C.DisableTorchFunction():
                return self._spot(tensor, None, None)
        try:
            return self.place(tensor)
        except NotSupported:
            return Fault("", "", "")


Results = list[tuple[Tensor, Any]]


class Trial:
    """One sample of one operation, with rows declared somewhere."""

    def __init__(self, op: Any, one: Any, two: Any, units: int, choice: Choice, *, way: str, backward: bool) -> None:
        self.op, self.units, self.choice, self.way, self.backward = op, units, choice, way, backward
        self.leaves, self.form = tree_flatten((one.input, one.args, one.kwargs))
        self.tensors = [each for each in self.leaves if isinstance(each, Tensor)]
        self.others = [e for e in tree_flatten((two.input, two.args, two.kwargs))[0] if isinstance(e, Tensor)]
        self.rows = list(range(units if way == FIXED else FEW))
        self.rules: Counter[str] = Counter()
        self.draws = 0
        self.places: list[Any] = []
        """Of the results: where their rows were proved to lie."""

    def prove(self) -> Results:
        """Results, or gradients of the arguments, with what was proved about them."""
        if self.backward:
            self.places = [spot for _, spot in self._typed(backward=False)]
        return self._typed(backward=self.backward)

    def _typed(self, *, backward: bool) -> Results:
        before = None
        if self.way == TWO_SIZES:
            before = Logging(MANY)
            self._run(before, list(range(MANY)), backward=backward)
        typing = Logging(len(self.rows), before=before, rules=before is None)
        results = self._run(typing, self.rows, backward=backward)
        typing.finish()
        self.rules += typing.rules
        self.draws += typing.draws
        return results

    def again(self, rows: list[int]) -> Results:
        """The same on other rows. It is typed too, so that decompositions are those of the first run."""
        return self._run(Logging(len(rows), rules=True), rows, backward=self.backward)

    def _run(self, typing: Logging, rows: list[int], *, backward: bool) -> Results:
        seed(0)
        given: list[Tensor] = []
        for at, (one, two) in enumerate(zip(self.tensors, self.others, strict=True)):
            place, label = self.choice.get(at), Label(Kind.PUBLIC)
            if place is None:
                tensor = one.detach().clone()
            else:
                tensor = taken(one.detach(), two.detach(), place, self.units, rows)
                step = step_of(geometry_of(tensor), place, item=tensor.element_size(), units=len(rows))
                label = Label(Kind.PRIVATE, step) if step else Label(Kind.PRIVATE, fault=Fault("", "", ""))
            if backward and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
            typing.label(tensor, label)
            given.append(tensor)
        tensors = iter(given)
        flat = [next(tensors) if isinstance(each, Tensor) else each for each in self.leaves]
        value, args, kwargs = tree_unflatten(flat, self.form)
        with typing, Looks(typing):
            made = self.op.op(value, *args, **kwargs)
            results = [each for each in tree_flatten(made)[0] if isinstance(each, Tensor)]
            if backward:
                results = self._gradients(typing, rows, results, given)
            return [(each.detach(), typing.spot(each)) for each in results if each.layout == torch.strided]

    def _gradients(self, typing: Logging, rows: list[int], results: list[Tensor], given: list[Tensor]) -> list[Tensor]:
        outputs, seeds = [], []
        for each, spot in zip(results, self.places, strict=True):
            if not each.requires_grad or not isinstance(spot, Place) or not spot.inner:
                continue
            shape = list(each.shape)
            shape[spot.axis] = shape[spot.axis] // len(rows) * 2 * self.units
            generator = torch.Generator().manual_seed(3)
            pool = torch.randn(shape, generator=generator, dtype=each.dtype)
            half = by_unit(pool, spot, 2 * self.units)
            wanted = half[..., [row % (2 * self.units) for row in rows]].movedim(-1, spot.axis + 1)
            start = wanted.flatten(spot.axis, spot.axis + 2).contiguous()
            step = step_of(geometry_of(start), spot, item=start.element_size(), units=len(rows))
            typing.label(start, Label(Kind.PRIVATE, step) if step else Label(Kind.PRIVATE, fault=Fault("", "", "")))
            outputs.append(each)
            seeds.append(start)
        wanted_of = [each for each in given if each.requires_grad]
        if not outputs or not wanted_of:
            return []
        gradients = torch.autograd.grad(outputs, wanted_of, seeds, allow_unused=True)
        return [each for each in gradients if each is not None]

    def other_rows(self, most: int) -> Iterator[list[int]]:
        """Other rows to run on: one replaced, all turned round, one fewer, one more."""
        many = len(self.rows)
        for row in self.rows[::-1][:most]:
            other = row + self.units  # with the other numbers; a draw belongs to a place, so no row may come twice
            while other in self.rows:
                other += 2 * self.units
            yield [other if each == row else each for each in self.rows]
        if self.draws:
            return  # another order and another number of rows draw other numbers
        yield [*self.rows[1:], self.rows[0]]
        if self.way == TWO_SIZES:
            yield self.rows[1:]
            yield [many, *self.rows]


def try_sample(trial: Trial, name: str, most_rows: int) -> Outcome:
    """One trial: proved, and run on other rows."""
    total = Outcome()
    try:
        before = trial.prove()
    except ERRORS:
        total.refused += 1
        return total
    good = [at for at, (_, spot) in enumerate(before) if not isinstance(spot, Fault | Ordered)]
    total.refused += len(before) - len(good)
    total.proved += len(good)
    total.rules += trial.rules
    if not good:
        return total
    for rows in trial.other_rows(most_rows):
        try:
            after = trial.again(rows)
        except ERRORS as error:
            if len(rows) == len(trial.rows):
                total.violations.append(f"{name}, {rows} for {trial.rows}: {type(error).__name__} {error}")
                break
            continue  # numbers of this call mention the number of rows
        for at in good:
            spot = before[at][1]
            if at >= len(after) or wrong(before[at][0], trial.rows, after[at][0], rows, spot):
                total.violations.append(f"{name}, {rows} for {trial.rows}: result {at} said to lie at {spot}")
                return total
    return total


def try_operation(
    op: Any,
    *,
    most_samples: int,
    most_choices: int,
    most_rows: int,
    backward: bool,
    ways: tuple[str, ...] = (FIXED, TWO_SIZES),
    kinds: int = 1,
    to_first_violation: bool = False,
) -> Outcome:
    """All trials of one operation, in the first of the kinds of numbers that it takes."""
    total = Outcome(operations=1)
    ways = (FIXED,) if op.name in UNCHECKED else ways
    allowed = op.supported_backward_dtypes("cpu") if backward else op.supported_dtypes("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in [each for each in KINDS if each in allowed][:kinds]:
            for number, (one, two) in enumerate(sample_pairs(op, kind, most_samples)):
                leaves, form = tree_flatten((one.input, one.args, one.kwargs))
                others, other_form = tree_flatten((two.input, two.args, two.kwargs))
                tensors = [each for each in leaves if isinstance(each, Tensor)]
                if form != other_form or any(e.layout != torch.strided or e.numel() > LARGEST for e in tensors):
                    continue
                if [each.shape for each in tensors] != [each.shape for each in others if isinstance(each, Tensor)]:
                    continue
                for (units, choice), way in itertools.product(choices(tensors, most_choices), ways):
                    trial = Trial(op, one, two, units, choice, way=way, backward=backward)
                    name = f"{op.name} {op.variant_test_name} {kind} sample {number} rows {choice} {way}"
                    total += try_sample(trial, name, most_rows)
                    if total.violations and to_first_violation:
                        return total
    return total


# formulas that autograd uses, called by themselves


@dataclass(frozen=True)
class Direct:
    """An operation of the dispatcher as torch's table of operations would have it, with a sample of its own. A number
    in the place of a tensor is a shape."""

    name: str
    arguments: tuple[Any, ...]
    variant_test_name: str = "direct"

    @property
    def op(self) -> Any:
        """The operation itself."""
        return getattr(torch.ops.aten, self.name)

    def sample_inputs_func(self, op: Any, device: str, kind: torch.dtype, requires_grad: bool) -> Iterator[Any]:
        """One sample. Sizes in parentheses are tensors of that shape; what a function returns is taken as it is."""
        values = [
            torch.randn(each, dtype=kind) if isinstance(each, tuple) else each() if callable(each) else each
            for each in self.arguments
        ]
        yield SampleInput(values[0], args=tuple(values[1:]))

    def supported_dtypes(self, device: str) -> set[torch.dtype]:
        return {torch.float64}

    supported_backward_dtypes = supported_dtypes


def whole(high: int, shape: tuple[int, ...]) -> Any:
    """Whole numbers below `high`."""
    return lambda: torch.randint(0, high, shape)


def positive(*shape: int) -> Any:
    return lambda: torch.rand(shape, dtype=torch.float64) + 0.5


CUBE, IMAGE, ALL = (3, 4, 5), (3, 4, 6, 6), [True, True, True]
DIRECT = [
    Direct("_softmax_backward_data", (CUBE, CUBE, 1, torch.float64)),
    Direct("_log_softmax_backward_data", (CUBE, CUBE, 0, torch.float64)),
    Direct("native_layer_norm_backward", (CUBE, CUBE, [5], (3, 4, 1), positive(3, 4, 1), (5,), (5,), ALL)),
    Direct("native_layer_norm_backward", (CUBE, CUBE, [4, 5], (3, 1, 1), positive(3, 1, 1), (4, 5), (4, 5), ALL)),
    Direct("native_group_norm_backward", (CUBE, CUBE, (3, 2), positive(3, 2), (4,), 3, 4, 5, 2, ALL)),
    Direct(
        "native_batch_norm_backward",
        (CUBE, CUBE, (4,), (4,), positive(4), (4,), positive(4), True, 1e-5, ALL),
    ),
    Direct(
        "native_batch_norm_backward",
        (CUBE, CUBE, None, None, None, (4,), positive(4), True, 1e-5, [True, False, False]),
    ),
    Direct(
        "native_batch_norm_backward",
        (CUBE, CUBE, (4,), (4,), positive(4), (4,), positive(4), False, 1e-5, ALL),
    ),
    Direct(
        "convolution_backward",
        ((3, 2, 6, 6), IMAGE, (2, 4, 3, 3), [2], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, ALL),
    ),
    Direct(
        "max_pool2d_with_indices_backward",
        ((3, 4, 3, 3), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, whole(36, (3, 4, 3, 3))),
    ),
    Direct("avg_pool2d_backward", (IMAGE, IMAGE, [3, 3], [1, 1], [1, 1], False, True, None)),
    Direct("_adaptive_avg_pool2d_backward", (IMAGE, IMAGE)),
    Direct("upsample_bilinear2d_backward", (IMAGE, [6, 6], [3, 4, 6, 6], False)),
    Direct("upsample_nearest1d_backward", (CUBE, [5], [3, 4, 5])),
    Direct("reflection_pad1d_backward", ((3, 4, 7), CUBE, [1, 1])),
    Direct("embedding_dense_backward", (CUBE, whole(6, (3, 4)), 6, -1, False)),
    Direct("unfold_backward", ((3, 3, 5, 2), [3, 4, 5], 1, 2, 1)),
    Direct("unfold_backward", ((2, 4, 5, 2), [3, 4, 5], 0, 2, 1)),
    Direct("slice_backward", (CUBE, [3, 4, 10], 2, 0, 10, 2)),
    Direct("slice_backward", (CUBE, [6, 4, 5], 0, 0, 6, 2)),
    Direct("slice_backward", (CUBE, [6, 4, 5], 0, 3, 6, 1)),
    Direct("slice_backward", (CUBE, [4, 4, 5], 0, 1, 4, 1)),
    Direct("select_backward", ((4, 5), [3, 4, 5], 0, 1)),
    Direct("select_backward", ((3, 5), [3, 4, 5], 1, 1)),
    Direct("diagonal_backward", ((5, 3), [3, 4, 5], 0, 0, 1)),
    Direct("diagonal_backward", ((3, 4), [3, 4, 5], 0, 1, 2)),
    Direct("nll_loss_backward", ((3,), (3, 4), whole(4, (3,)), (4,), 0, -100, ())),
    Direct("nll_loss2d_backward", ((3, 6, 6), IMAGE, whole(4, (3, 6, 6)), (4,), 0, -100, ())),
    Direct("mse_loss_backward", (CUBE, CUBE, CUBE, 0)),
    Direct("mse_loss_backward", ((), CUBE, CUBE, 1)),
    Direct("glu_backward", ((3, 2, 5), CUBE, 1)),
    Direct("native_dropout_backward", (CUBE, lambda: torch.rand(CUBE) > 0.5, 2.0)),
    Direct("threshold_backward", (CUBE, CUBE, 0)),
    Direct("gelu_backward", (CUBE, CUBE)),
    Direct("col2im", ((3, 36, 16), [6, 6], [3, 3], [1, 1], [0, 0], [1, 1])),
    Direct("_fft_c2c", (lambda: torch.randn(CUBE, dtype=torch.complex128), [0], 0, True)),
    Direct("_fft_c2r", (lambda: torch.randn(CUBE, dtype=torch.complex128), [1], 0, 4)),
    Direct("mv", ((4, 4), (4,))),
    Direct("topk", (CUBE, 3, 0)),
    Direct("repeat", (CUBE, [2, 1, 1])),
    Direct("repeat", (CUBE, [2, 3, 1, 1])),
    Direct("linalg_lu_solve", ((3, 4, 4), lambda: torch.randint(1, 5, (3, 4)).int(), (3, 4, 2))),
    Direct("linalg_lu_solve", ((4, 4, 4), lambda: torch.randint(1, 5, (4, 4)).int(), (4, 4, 2))),
    Direct("_linalg_solve_ex", ((4, 4, 4), (4, 4, 2))),
    Direct("_linalg_solve_ex", ((4, 4, 4), (4, 4))),
    Direct("_linalg_solve_ex", ((4, 4), (4, 4, 2))),
    Direct("as_strided", (CUBE, [3, 4], [20, 1], 5)),
    Direct("as_strided", ((8, 4, 5), [2, 4], [40, 1], 40)),
    Direct("as_strided", (CUBE, [2, 4, 5], [20, 5, 1], 20)),
    Direct("max_pool2d_with_indices", (IMAGE, [3, 3], [1, 1], [1, 1])),
    Direct("upsample_bilinear2d", (IMAGE, [6, 6], True)),
    Direct("im2col", ((3, 4, 6, 6), [3, 3], [1, 1], [1, 1], [1, 1])),
    Direct("slice_scatter", (CUBE, (3, 4, 5), 0, 0, 3, 1)),
    Direct("slice_scatter", ((6, 4, 5), CUBE, 0, 0, 6, 2)),
]  # fmt: skip
"""Formulas of gradients, and operations of which torch's samples do not tell right from wrong. Kernels do not check all
of their sizes, so these are tried on the sizes given here alone."""


def try_direct(names: Iterable[str] | None = None, *, to_first_violation: bool = False) -> Outcome:
    """All trials of these operations."""
    total = Outcome()
    for each in DIRECT:
        if names is None or each.name in names:
            total += try_operation(
                each, most_samples=1, most_choices=100, most_rows=5, backward=False, ways=(FIXED,),
                to_first_violation=to_first_violation,
            )  # fmt: skip
    return total
