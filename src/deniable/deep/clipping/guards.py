"""What a proof rests on besides the form of the batch: if any of it changes, the proof is made again.

Compared at every step, in Python, so it is kept to what can be read quickly: for every module its identity, its type,
whether it trains, its hooks and a forward method of its own; for every parameter its identity and whether it is
trained; for every buffer its identity and its version, which counts the writes; and the flags of torch that choose
kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

_OWN_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
)


_ATTENTION: tuple[Callable[[], bool], ...] = (
    torch.backends.cuda.flash_sdp_enabled,
    torch.backends.cuda.mem_efficient_sdp_enabled,
    torch.backends.cuda.math_sdp_enabled,
    torch.backends.cuda.cudnn_sdp_enabled,
)


_PLAIN = frozenset((int, float, bool, str))
_OF_EVERY_MODULE = frozenset(nn.Module().__dict__)
"""What torch itself keeps in a module: the state of the guard has all of it that counts."""
MOST = 256
"""States that are remembered; the oldest goes first, and has another number when it comes again."""


class Guard:
    """Reads the state of a model that proofs depend on; the same number as long as nothing changed."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._numbers: dict[tuple[Any, ...], tuple[int, Any]] = {}
        """Of each state its number, and the objects whose identities are in it: they must live as long as it does."""
        self._state: list[Any] | None = None
        self._number = -1
        self._count = itertools.count()
        self._cells = _cells(model)

    def __call__(self) -> int:
        """The number of the present state."""
        state = _state(self._cells)
        if state == self._state:
            return self._number
        self._cells = _cells(self._model)  # the tree may be another
        state = _state(self._cells)
        flat = tuple(value for part in state for value in part)
        known = self._numbers.get(flat)
        if known is None:
            known = self._numbers[flat] = next(self._count), _objects(self._cells)
            while len(self._numbers) > MOST:
                del self._numbers[next(iter(self._numbers))]
        self._state, self._number = state, known[0]
        return self._number


def plain_attributes(model: nn.Module) -> tuple[Any, ...]:
    """What a graph keeps of a model and Python would read anew: numbers, flags and texts in the attributes of its
    modules, and tensors there that are no buffers, by identity and version."""
    return tuple(
        (name, value) if type(value) in _PLAIN else (name, id(value), value._version)
        for cell in _cells(model)
        for name, value in cell.items()
        if name not in _OF_EVERY_MODULE and (type(value) in _PLAIN or isinstance(value, torch.Tensor))
    )


def _cells(model: nn.Module) -> list[dict[str, Any]]:
    """The attributes of all modules, in the order of the tree."""
    cells: list[dict[str, Any]] = []
    waiting = [model]
    while waiting:
        each = waiting.pop()
        cells.append(each.__dict__)
        waiting += [part for part in each._modules.values() if part is not None]
    return cells


def _objects(cells: list[dict[str, Any]]) -> list[Any]:
    """Everything whose identity is compared."""
    groups = ("_modules", "_parameters", "_buffers", *_OWN_HOOKS)
    own = [value for cell in cells for name in groups for value in cell[name].values()]
    return [
        *own,
        *(cell.get("forward") for cell in cells),
        *(list(getattr(hooks, name, {}).values()) for name in _HOOKS),
    ]


def _state(cells: list[dict[str, Any]]) -> list[Any]:
    """Everything that counts, in lists: they are made and compared in a hundred microseconds for 200 modules."""
    parameters = [each for cell in cells for each in cell["_parameters"].values() if each is not None]
    buffers = [each for cell in cells for each in cell["_buffers"].values() if each is not None]
    return [
        [cell["training"] for cell in cells],
        [id(part) for cell in cells for part in cell["_modules"].values()],
        [id(cell.get("forward")) for cell in cells],
        [
            id(hook)
            for cell in cells
            if cell["_forward_hooks"]
            or cell["_forward_pre_hooks"]
            or cell["_backward_hooks"]
            or cell["_backward_pre_hooks"]
            for name in _OWN_HOOKS
            for hook in cell[name].values()
        ],
        [id(each) for each in parameters],
        [each.requires_grad for each in parameters],
        [id(each) for each in buffers],
        [each._version for each in buffers],
        list(_flags()),
    ]


def _flags() -> tuple[Any, ...]:
    kinds = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
    return (
        *((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        *(enabled() for enabled in _ATTENTION),
        torch.backends.cudnn.enabled,
        torch.backends.mkldnn.enabled,
        *(tuple(map(id, getattr(hooks, name, {}).values())) for name in _HOOKS),
    )
