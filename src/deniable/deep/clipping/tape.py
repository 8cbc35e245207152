"""The tape: sees every operation that a trainable parameter takes part in, and keeps what its gradient needs.

While the model runs forward, a torch-function mode looks at each call. Calls without a parameter pass. A call that
only transforms parameters is remembered (origins.py). A call in which a parameter meets the data is a *use*: its rule
says which tensors to save, and how these and the output's gradient make a contribution per unit. Parameters
themselves never require gradients, so the backward pass computes output gradients and nothing else. Because uses are
found by parameter and not by module, tied and reused weights, functional calls and parameters outside any layer are
no special cases.

Which axis of a tensor holds the rows is not guessed: observing.py finds it out once, and the tape follows that script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from deniable.deep.clipping.asking import ASKING, asks
from deniable.deep.clipping.calls import Axes, Call, Use
from deniable.deep.clipping.origins import Derived, Leaf, Origin, leaves
from deniable.deep.clipping.rules import OPENED, rule_for
from deniable.deep.clipping.sharding import looking_away
from deniable.errors import NotSupported

Step: TypeAlias = Axes | None
"""One entry of the script per call with a parameter: the axes of a use, None where parameters are only transformed."""


class Watch(TorchFunctionMode):
    """What tape and observer share: which tensors come from parameters, and what becomes of a call."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._origins: dict[int, tuple[Tensor, Origin]] = {}
        for name, tensor in parameters.items():
            self._origins[id(tensor)] = (tensor, Leaf(name, tensor))

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if looking_away():
            return function(*args, **kwargs)
        if function in ASKING and asks(function, args, self.origin):
            return args[0]
        if function in OPENED:
            with self:
                return OPENED[function](*args, **kwargs)
        if not self._touches(args, kwargs):
            return self.passed(function, args, kwargs)
        call = Call(function, tuple(args), kwargs, self.origin)
        if not _changes_in_place(call.name):
            return self.met(call)
        if self.origin(args[0]) is not None or call.name == "__setitem__":
            raise NotSupported(
                f"the forward pass writes with {call.name}, in place, to or from a parameter; use torch.cat, "
                "torch.where or an operation that returns a new tensor"
            )
        call = Call(getattr(Tensor, call.name.rstrip("_")), (self.kept(args[0]), *args[1:]), kwargs, self.origin)
        return args[0].copy_(self.met(call))

    def passed(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call without a parameter."""
        return function(*args, **kwargs)

    def kept(self, values: Tensor) -> Tensor:
        """What a tensor holds before it is written over."""
        return values.clone()

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


Mark: TypeAlias = Callable[[Use, Tensor, tuple[Tensor, ...]], Tensor]
"""Told of a use, its output and its saved tensors; returns the output that the model goes on with."""


class Tape(Watch):
    """Follows the script through one forward pass and tells `mark` of every use."""

    def __init__(
        self, parameters: Mapping[str, Tensor], script: Sequence[Step], *, rows: int, units: int, mark: Mark
    ) -> None:
        super().__init__(parameters)
        self._script: Iterator[Step] = iter(script)
        self._rows, self._units, self._mark = rows, units, mark

    def met(self, call: Call) -> Any:
        made = call.run()
        if not differentiable(made):
            return made
        try:
            step = next(self._script)
        except StopIteration:
            raise strayed() from None
        if step is None:
            self.remember(call, made)
            return made
        sketch = rule_for(call.function)(call)
        saved = tuple(each.detach() for each in sketch.saved)
        versions = tuple(each._version for each in saved)
        origins = call.origins()
        parameters = frozenset(name for each in origins for name in leaves(each))
        values = sketch.needs_values or any(isinstance(each, Derived) for each in origins)
        use = Use(call.name, parameters, step, self._rows, self._units, made.dtype, sketch.contribute, versions, values)
        return self._mark(use, made, saved)

    def finish(self) -> None:
        """After the forward pass: the script must be used up."""
        if next(self._script, self) is not self:
            raise strayed()


def differentiable(made: Any) -> bool:
    """Whether a call made anything that could carry a gradient."""
    parts = [made] if isinstance(made, Tensor) else tree_leaves(made)
    return any(isinstance(each, Tensor) and each.is_floating_point() for each in parts)


def strayed() -> NotSupported:
    return NotSupported(
        "the forward pass took another course than the one observed before; its course must not depend on the data"
    )


def _changes_in_place(name: str) -> bool:
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))
