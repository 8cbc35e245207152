"""Tensors that a forward pass takes from outside: constants in attributes, and what was kept from an earlier pass.

A proof takes a tensor from outside to be public, and to stay as it is. To hold later passes to that, every tensor that
a pass makes gets a mark of this pass, which also says whether it was made of the batch. A tensor without the mark of
the running pass comes from outside. It must be the one that the proof saw; one that an earlier pass made of its batch
is refused: what it keeps of other rows would enter this step's gradients, and no clip bounds that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from deniable.deep.clipping.user_code import location
from deniable.errors import NotSupported

LARGEST = 2**20
"""Numbers of a constant whose values are kept, so that an equal one may take its place."""


class Mark:
    """On a tensor: a pass made it, `private` if of its batch; `real` if that pass ran on rows of the data."""

    __slots__ = ("private", "real")

    def __init__(self, *, private: bool, real: bool) -> None:
        self.private, self.real = private, real


class Constant(NamedTuple):
    """A tensor from outside as the proof saw it."""

    tensor: Tensor
    version: int
    values: Tensor | None

    @classmethod
    def of(cls, tensor: Tensor) -> Constant:
        values = tensor.detach().clone() if tensor.numel() <= LARGEST else None
        return cls(tensor, tensor._version, values)

    def stays(self, tensor: Tensor) -> bool:
        """Whether a tensor is this one, unchanged, or holds the same numbers."""
        if tensor is self.tensor and tensor._version == self.version:
            return True
        same = self.values is not None and tensor.shape == self.values.shape and tensor.dtype == self.values.dtype
        return same and self.values is not None and torch.equal(tensor, self.values)


class Pass:
    """One forward pass, which marks what it makes."""

    def __init__(self, public: Mapping[str, Tensor], batch: Any, *, real: bool) -> None:
        self._constant, self.private = Mark(private=False, real=real), Mark(private=True, real=real)
        for each in public.values():
            each._made_by = self._constant  # type: ignore[attr-defined]
        for each in tree_leaves(batch):
            if isinstance(each, Tensor):
                each._made_by = self.private  # type: ignore[attr-defined]

    def outside(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Tensor], Mark]:
        """The tensors among the arguments that this pass did not make, and the mark for what is made of them all."""
        mark, others = self._constant, []
        for each in _tensors(args, kwargs):
            own = getattr(each, "_made_by", None)
            if own is self._constant:
                continue
            if own is not self.private:
                if own is not None and own.private and own.real:
                    raise Kept
                others.append(each)
                if own is not None:  # a constant, or left from made-up rows
                    continue
            mark = self.private
        return others, mark

    def is_public(self, tensor: Tensor) -> bool:
        """Whether this pass made a tensor, and not of its batch."""
        return getattr(tensor, "_made_by", None) is self._constant

    @staticmethod
    def inherit(given: Sequence[Any], new: Sequence[Any]) -> None:
        """Give tensors the marks of those in whose place they stand."""
        for one, other in zip(given, new, strict=True):
            mark = getattr(one, "_made_by", None)
            if mark is not None and isinstance(other, Tensor):
                other._made_by = mark  # type: ignore[attr-defined]

    @staticmethod
    def sign(made: Any, mark: Mark, others: Sequence[Tensor] = ()) -> None:
        """Mark what a call made; where it returned one of the others, that one stays from outside."""
        if isinstance(made, Tensor):
            if not others or not any(made is each for each in others):
                made._made_by = mark  # type: ignore[attr-defined]
        elif isinstance(made, list | tuple | dict):
            for each in tree_leaves(made):
                if isinstance(each, Tensor):
                    Pass.sign(each, mark, others)


class Kept(NotSupported):
    """A pass uses what an earlier one made of its batch."""

    def __init__(self) -> None:
        super().__init__(
            f"the model uses a tensor that an earlier step made of its batch{location()}, so what one batch leaves"
            " behind changes the gradients of other examples; keep no activations in attributes"
        )


def _tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    for each in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, list | tuple):
            for one in each:
                if isinstance(one, Tensor):
                    yield one
