"""Models whose parameters are spread over ranks by FSDP2 (`torch.distributed.fsdp.fully_shard`).

FSDP2 puts a module's whole parameters in place before it runs, forward and backward, and takes them away again. So
every rank sees whole parameters while it works on its own examples, and a unit's norm over all parameters is known
where the unit is. Only the finished sum of a parameter is spread: it is added up over the ranks and cut to each rank's
part at once (a reduce-scatter), so no rank ever holds all sums.

Two things need care. FSDP2's own work in its hooks is no part of the model's course, so the tape looks away while
they run. And parameters are gone again after the backward pass: the few rules that need their values ask for them.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from deniable.errors import NotSupported

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


def is_sharded(model: nn.Module) -> bool:
    """Whether `fully_shard` was applied to the model; that needs the import of this torch module."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(model, fsdp.FSDPModule)


def local(parameter: Tensor) -> Tensor:
    """This rank's part of a parameter; all of it where it is not spread."""
    part: Tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return part


class _Work(threading.local):
    """How many of FSDP2's hooks are running in this thread."""

    depth = 0


_work = _Work()


def looking_away() -> bool:
    """Whether what happens now is FSDP2's work and not the model's."""
    return _work.depth > 0


class Sharding:
    """The FSDP2 side of one model: its parameters when they are whole, and sums when they are spread."""

    def __init__(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        self._owners: dict[str, int] = {}
        """Which of the model's sharded modules puts a parameter in place. Modules are not held: the model may go."""
        self._spread: dict[str, Any] = dict(model.named_parameters(remove_duplicate=False))
        self._trained = [name for name, each in self._spread.items() if each.requires_grad]
        self._check()
        for part in self._parts():
            _watch(part)  # type: ignore[arg-type]
        self._whole = self._gathered(model)

    @classmethod
    def of(cls, model: nn.Module) -> Sharding:
        """The one of a model: hooks are placed once."""
        if model not in _known:
            _known[model] = cls(model)
        return _known[model]

    def _parts(self) -> list[FSDPModule]:
        model = self._model()
        return [] if model is None else [each for each in model.modules() if is_sharded(each)]  # type: ignore[misc]

    def _check(self) -> None:
        from torch.distributed.tensor import DTensor, Shard

        for name, each in self._spread.items():
            if not isinstance(each, DTensor):
                raise NotSupported(f"{name} is not sharded; call fully_shard(model) on the whole model, last of all")
            if each.device_mesh.ndim != 1 or not isinstance(each.placements[0], Shard):
                raise NotSupported(
                    f"{name} lies on a mesh of {each.device_mesh.ndim} axes as {each.placements}; private training"
                    " shards over one axis (fully_shard with a one-dimensional mesh)"
                )

    def _gathered(self, model: nn.Module) -> dict[str, Tensor]:
        """Every parameter as FSDP2 will put it in place: the same object each time, without memory in between."""
        found: dict[str, Tensor] = {}
        for number, part in enumerate(self._parts()):
            part.unshard()
            for name, each in model.named_parameters(remove_duplicate=False):
                if each is not self._spread[name]:
                    found[name], self._owners[name] = each, number
            part.reshard()
        if any(each.dtype != self._spread[name].dtype for name, each in found.items()):
            raise NotSupported("a mixed-precision policy of FSDP2; leave it out and use autocast=torch.bfloat16")
        return found

    def rest(self) -> None:
        """Take whole parameters away, wherever a pass left them."""
        with _looking_away():
            for part in self._parts():
                part.reshard()

    def require(self, *, gradients: bool) -> None:
        """Let the trainable parameters require gradients, or not; FSDP2 hands that on to whole ones."""
        with _looking_away():
            for name in self._trained:
                self._spread[name].requires_grad_(gradients)

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name; a parameter holds numbers only while its module runs."""
        model = self._model()
        buffers = {} if model is None else dict(model.named_buffers(remove_duplicate=False))
        return {**self._whole, **buffers}

    @contextmanager
    def present(self, names: Iterable[str]) -> Iterator[None]:
        """Some parameters whole, for a rule that needs their values when FSDP2 has taken them away."""
        away = {self._owners[name] for name in names if not self._whole[name].untyped_storage().size()}
        owners = [part for number, part in enumerate(self._parts()) if number in away]
        for each in owners:
            each.unshard()
        try:
            yield
        finally:
            for each in owners:
                each.reshard()

    def spread(self, name: str, total: Tensor) -> Tensor:
        """The sum over all ranks of a parameter's local sums, this rank's part of it."""
        from torch.distributed.tensor import DTensor, Partial

        like = self._spread[name]
        partial = DTensor.from_local(total.contiguous(), like.device_mesh, [Partial("sum")], run_check=False)
        local: Tensor = partial.redistribute(placements=like.placements).to_local()
        return local

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return int(next(iter(self._spread.values())).device_mesh.size())

    @property
    def group(self) -> Any:
        """The ranks' process group."""
        return next(iter(self._spread.values())).device_mesh.get_group()

    def length(self, values: Tensor, *, order: int) -> Tensor:
        """The norm of numbers of which every rank holds some."""
        powers = values.abs().pow(order).sum()
        torch.distributed.all_reduce(powers, group=self.group)
        return powers.pow(1 / order)

    @contextmanager
    def plainly(self) -> Iterator[dict[str, Tensor]]:
        """The sharded parameters, for a plain backward pass of FSDP2; their gradients are taken away afterwards."""
        for part in self._parts():  # what FSDP2 keeps about trainable parameters is written when they are put in place
            part.unshard()
            part.reshard()
        for each in self._spread.values():
            each.grad = None
        try:
            yield self._spread
        finally:
            self.rest()
            for each in self._spread.values():
                each.grad = None

    def whole(self, name: str, part: Tensor) -> Tensor:
        """A parameter-shaped tensor from every rank's part."""
        full: Tensor = self.distributed(name, part).full_tensor()
        return full

    def distributed(self, name: str, part: Tensor) -> Any:
        """Every rank's part as one distributed tensor, laid out like the parameter."""
        from torch.distributed.tensor import DTensor

        like = self._spread[name]
        return DTensor.from_local(
            part, like.device_mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride()
        )


_known: weakref.WeakKeyDictionary[nn.Module, Sharding] = weakref.WeakKeyDictionary()


def _watch(part: nn.Module) -> None:
    """Look away from what runs between the first and the last of a module's hooks, before and after it."""
    part.register_forward_pre_hook(lambda *_: _enter(), prepend=True)
    part.register_forward_pre_hook(lambda *_: _leave())
    part.register_forward_hook(lambda *_: _enter(), prepend=True)
    part.register_forward_hook(lambda *_: _leave())


@contextmanager
def _looking_away() -> Iterator[None]:
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    _work.depth += 1


def _leave() -> None:
    _work.depth -= 1


@contextmanager
def one_pass(model: nn.Module) -> Iterator[None]:
    """A pass through a sharded model, in which no parameter requires a gradient. It leaves no whole parameter behind,
    for an optimizer's step would not reach it."""
    sharding = Sharding.of(model)
    sharding.require(gradients=False)
    try:
        yield
    finally:
        _work.depth = 0
        sharding.require(gradients=True)
        sharding.rest()
