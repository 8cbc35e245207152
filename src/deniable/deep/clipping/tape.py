"""The tape: sees every operation that a trainable parameter takes part in, and keeps what its gradient needs.

While model and loss run, a torch-function mode looks at each call. Calls without a parameter pass. A call that only
transforms parameters is remembered (origins.py). A call in which a parameter meets the data is a *use*: its rule says
which tensors to save, and how these and the output's gradient make a contribution per unit. Parameters themselves never
require gradients, so the backward pass computes output gradients and nothing else. Because uses are found by parameter
and not by module, tied and reused weights, functional calls and parameters outside any layer are no special cases.

Which axis of a tensor holds the rows is not guessed: it was proved (proving.py), and the tape follows that script. It
also compares: every call that returns a tensor must be the one of the script, with the same numbers, and return the
same shape but for the number of units. What differs was not proved, and is not used (`Strayed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from deniable.deep.clipping.asking import ASKING, asks
from deniable.deep.clipping.calls import Axes, Call, Use
from deniable.deep.clipping.growth import Growth, number_at
from deniable.deep.clipping.indices import within_range
from deniable.deep.clipping.origins import Derived, Leaf, Origin, leaves
from deniable.deep.clipping.outside import Constant, Pass
from deniable.deep.clipping.rules import JUDGED, OPENED, OPENED_WITH_PARAMETERS, RECURRENT, rule_for
from deniable.deep.clipping.rules.packing import instead
from deniable.deep.clipping.sharding import looking_away
from deniable.errors import NotSupported

_ABOUT_SHAPES = frozenset(
    (Tensor.dim, Tensor.size, Tensor.numel, Tensor.stride, Tensor.is_floating_point,
     *(getattr(Tensor, name).__get__ for name in ("shape", "ndim", "dtype", "device", "is_cuda", "layout")))
)  # fmt: skip
"""Questions about a tensor that its numbers do not enter: there is nothing to follow. Models ask them all the time."""

Step: TypeAlias = Axes | None
"""One entry of the script per call with a parameter: the axes of a use, None where parameters are only transformed."""


class Watch(TorchFunctionMode):
    """What the tape and the prover share: which tensors come from parameters, and what becomes of a call."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._origins: dict[int, tuple[Tensor, Origin]] = {}
        for name, tensor in parameters.items():
            self._origins[id(tensor)] = (tensor, Leaf(name, tensor))

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in _ABOUT_SHAPES or looking_away():
            return function(*args, **kwargs)
        if function in ASKING and asks(function, args, self.origin):
            return args[0]
        if function in OPENED:
            with self:
                return OPENED[function](*args, **kwargs)
        change = instead(function, args)
        if change is not None:
            return self.passed(function, args, kwargs, run=change)
        if function in RECURRENT:
            return self.passed(function, args, kwargs, run=partial(RECURRENT[function], self))
        if not self._touches(args, kwargs):
            return self.passed(function, args, kwargs)
        if function in OPENED_WITH_PARAMETERS:
            with self:
                return OPENED_WITH_PARAMETERS[function](*args, **kwargs)
        call = Call(function, tuple(args), kwargs, self.origin)
        if function in JUDGED:
            JUDGED[function](call)
        if not _changes_in_place(call.name):
            return self.met(call)
        if self.origin(args[0]) is not None or call.name == "__setitem__":
            raise NotSupported(
                f"the forward pass writes with {call.name}, in place, to or from a parameter; use torch.cat, "
                "torch.where or an operation that returns a new tensor"
            )
        before = self.passed(Tensor.clone, (args[0],), {})
        call = Call(getattr(Tensor, call.name.rstrip("_")), (before, *args[1:]), kwargs, self.origin)
        return self.passed(Tensor.copy_, (args[0], self.met(call)), {})

    def entered(self) -> Self:
        """While a call is looked into: its own calls are seen in here."""
        return self

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While a call is looked into: parameters in here are constants."""
        yield

    def own(self, *tensors: Tensor) -> None:
        """While a call is looked into: these were made of its arguments, unseen."""

    def passed(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """A call without a parameter, or one that is looked into: `run` is what is done in its place."""
        return (run or function)(*args, **kwargs)

    def met(self, call: Call) -> Any:
        """A call with a parameter, or with something made of parameters alone."""
        return call.run()

    def origin(self, value: object) -> Origin | None:
        """Where a tensor comes from, if from parameters alone."""
        found = self._origins.get(id(value))
        return None if found is None else found[1]

    def remember(self, call: Call, made: Any) -> None:
        """A call that transformed parameters: what it made is known by its origin from now on."""
        args, kwargs = call.described()
        for part, tensor in enumerate(tree_leaves(made)):
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self._origins[id(tensor)] = (tensor, Derived(call.function, args, kwargs, part))

    def _touches(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a parameter, or something made of parameters alone, is among the arguments."""
        for each in (*args, *kwargs.values()):
            if id(each) in self._origins:
                return True
            if isinstance(each, list | tuple) and any(id(one) in self._origins for one in each):
                return True
        return False


class Size(NamedTuple):
    """A length that grows with the units: so many places for each."""

    per_unit: int


@dataclass(frozen=True)
class Pattern:
    """A call of the script that returns tensors, or writes to one: the function, the shapes of its results, its
    numbers, texts and slices in the two runs of the proof, by their place among the arguments or by name, the tensors
    that it takes from outside the pass (None for one that the pass made where the tape does not see it, in an
    autograd.Function), and the constants among its tensors (None for the others, False for a constant of which nothing
    is known at another number of units)."""

    function: Any
    shapes: tuple[tuple[int | Size, ...], ...]
    numbers: tuple[tuple[int | str, tuple[Any, Any]], ...]
    outside: tuple[Constant | None, ...] = ()
    constants: tuple[Growth | Literal[False] | None, ...] = ()


SIZES = 64
"""Numbers of units that a script is kept ready for."""


@dataclass(frozen=True, eq=False)
class Script:
    """What was proved about one form of input: the steps of calls with parameters, and all calls in their order."""

    steps: Sequence[Step] = ()
    patterns: Sequence[Pattern] = ()
    verified: set[int] = field(default_factory=set)
    """Numbers of units for which constants were compared."""
    _sized: dict[int, list[tuple[Any, Any, Any, Any]]] = field(default_factory=dict)

    def sized(self, units: int) -> list[tuple[Any, Any, Any, Any]]:
        """(function, shape or shapes, numbers, tensors from outside) of each call, for a number of units."""
        found = self._sized.get(units)
        if found is None:
            found = []
            for each in self.patterns:
                shapes = [
                    tuple(size.per_unit * units if isinstance(size, Size) else size for size in shape)
                    for shape in each.shapes
                ]
                numbers = [(place, number_at(*pair, units)) for place, pair in each.numbers]
                found.append((each.function, shapes[0] if len(shapes) == 1 else shapes, numbers, each.outside))
            while len(self._sized) >= SIZES:
                del self._sized[next(iter(self._sized))]
            self._sized[units] = found
        return found


Mark: TypeAlias = Callable[[Use, Tensor, tuple[Tensor, ...]], Tensor]
"""Told of a use, its output and its saved tensors; returns the output that the model goes on with."""


class Tape(Watch):
    """Follows the script through one forward pass and tells `mark` of every use."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        script: Script,
        *,
        units: int,
        mark: Mark,
        marks: Pass | None,
        in_range: bool = False,
    ) -> None:
        super().__init__(parameters)
        self._in_range = in_range
        self._steps = iter(script.steps)
        self._script, self._calls, self._at = script, script.sized(units), 0
        self._units, self._mark, self._marks = units, mark, marks
        self._verifies = units not in script.verified

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function in _ABOUT_SHAPES:
            return function(*args, **(kwargs or {}))
        change = None
        if self._in_range and not looking_away():
            change = within_range(function, args, kwargs or {})
        if change is None:
            return super().__torch_function__(function, types, args, kwargs)
        self._inherit(change.given, change.new)
        made = super().__torch_function__(function, types, change.args, change.kwargs)
        # A public index, such as a position, is in range for everybody or for nobody: the proof has seen it. It is
        # moved into range all the same, for a row may have been written into it through a view.
        public = self._marks is not None and all(map(self._marks.is_public, change.given))
        if public or self.origin(made) is not None:  # of parameters alone, and known by this very tensor
            return made
        marked = change.marked(made)
        self._inherit((made,), (marked,))
        return marked

    def _inherit(self, given: Sequence[Any], new: Sequence[Any]) -> None:
        """What stands in the place of a tensor comes from where that one came from."""
        if self._marks is not None:
            self._marks.inherit(given, new)

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
        if self._verifies:
            self._compare_constants(function, args, kwargs)
        if self._marks is None:
            made = (run or function)(*args, **kwargs)
            self._compare(function, args, kwargs, made, None)
            return made
        others, sign = self._marks.outside(args, kwargs)
        made = (run or function)(*args, **kwargs)
        self._compare(function, args, kwargs, made, others)
        self._marks.sign(made, sign, others)
        if made is None and args and isinstance(args[0], Tensor):  # x[...] = y
            self._marks.sign(args[0], sign, others)
        return made

    def met(self, call: Call) -> Any:
        made = self.passed(call.function, call.args, call.kwargs)
        if not differentiable(made):
            return made
        step = next(self._steps, self)
        if isinstance(step, Tape):
            raise Strayed
        if step is None:
            self.remember(call, made)
            return made
        sketch = rule_for(call.function)(call)
        saved = tuple(each.detach() for each in sketch.saved)
        versions = tuple(each._version for each in saved)
        origins = call.origins()
        parameters = frozenset(name for each in origins for name in leaves(each))
        values = sketch.needs_values or any(isinstance(each, Derived) for each in origins)
        use = Use(call.name, parameters, step, self._units, made.dtype, sketch.contribute, versions, values)
        made = self._mark(use, made, saved)
        if self._marks is not None:
            self._marks.sign(made, self._marks.private)
        return made

    def _compare(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        made: Any,
        others: Sequence[Tensor] | None,
    ) -> None:
        """A call that returns tensors must be the next one of the script."""
        if isinstance(made, Tensor):
            shape: Any = made.shape
        else:
            shapes = [each.shape for each in results_of(args, made)]
            if not shapes:
                return
            shape = shapes[0] if len(shapes) == 1 else shapes
        if self._at >= len(self._calls):
            raise Strayed
        expected = self._calls[self._at]
        self._at += 1
        if expected[0] != function or expected[1] != shape:
            raise Strayed
        for place, number in expected[2]:
            given = kwargs.get(place) if type(place) is str else args[place] if place < len(args) else None
            if given != number and (given == given or number == number):  # NaN is what it was
                raise Strayed
        if others is None or not (others or expected[3]):
            return
        if len(others) != len(expected[3]):
            raise Strayed
        for each, constant in zip(others, expected[3], strict=True):
            if constant is not None and not constant.stays(each):
                raise Strayed

    def _compare_constants(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Before the next call of the script, at a number of units that is new: its constants must be what they grow
        to. A call that is none of the script's is noticed when it is done."""
        if self._at >= len(self._script.patterns):
            return
        pattern = self._script.patterns[self._at]
        if pattern.function != function or not pattern.constants:
            return
        given = tensors_of((args, dict(kwargs)))
        if len(given) != len(pattern.constants):
            raise Strayed
        with torch._C.DisableTorchFunction():
            for each, growth in zip(given, pattern.constants, strict=True):
                if growth is None:
                    continue
                if growth is False or not torch.equal(growth.at(self._units).to(each.device), each.detach()):
                    raise Strayed

    def finish(self) -> None:
        """After the forward pass: the script must be used up."""
        if next(self._steps, self) is not self or self._at < len(self._calls):
            raise Strayed
        if self._verifies:
            self._script.verified.add(self._units)


class Strayed(NotSupported):
    """A forward pass took another course than the one that was proved."""

    def __init__(self) -> None:
        super().__init__(
            "the forward pass took another course than the one that was proved; its course must not depend on the"
            " data, on"
            " the number of rows or on earlier steps"
        )


def results_of(args: Sequence[Any], made: Any) -> list[Tensor]:
    """The tensors that a call returned, or the one that it wrote to where it returned nothing (`x[…] = y`)."""
    if made is None and args and isinstance(args[0], Tensor):
        return [args[0]]
    if isinstance(made, Tensor):
        return [made]
    return [each for each in made if isinstance(each, Tensor)] if isinstance(made, list | tuple) else []


def tensors_of(made: Any) -> list[Tensor]:
    """The tensors among what a call returned."""
    if isinstance(made, Tensor):
        return [made]
    return [] if made is None else [each for each in tree_leaves(made) if isinstance(each, Tensor)]


def differentiable(made: Any) -> bool:
    """Whether a call made anything that could carry a gradient."""
    return any(each.is_floating_point() for each in tensors_of(made))


def _changes_in_place(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
