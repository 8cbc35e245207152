"""One backward pass: every use's inputs are kept until its output gradient comes by; then they become its part.

Each output that a parameter had a part in gets a hook that sees its gradient. With the gradient of its last use a
parameter is settled, there and then: its pairs of inputs and output gradients are let go, or kept for the sum where
they are smaller than a gradient per unit. Earlier uses wait, for the cross terms.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from deniable.deep.clipping.calls import Use
from deniable.deep.clipping.contributions import Contribution
from deniable.deep.clipping.norms import Settled, settle
from deniable.deep.clipping.passes import backward, inside
from deniable.deep.clipping.steps import Clipped, Question, Recipe, answer, recorded, watched

ROOM = 2
"""Finished gradients may take this many times the memory of the pair: they spare the product for the sum."""


class _Settling:
    """What the hooks hand over, by parameter: contributions that wait for others, and what is settled."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._uses: Counter[str] = Counter()
        self._waiting: dict[str, list[Contribution]] = {}
        self._saved: dict[Use, tuple[Tensor, ...]] = {}
        self._settled: dict[str, Settled] = {}

    def announce(self, use: Use, saved: tuple[Tensor, ...]) -> None:
        """In the forward pass: a use, and what its gradient will need."""
        self._uses.update(use.parameters)
        self._saved[use] = saved

    def receive(self, use: Use, gradient: Tensor | None) -> None:
        """In the backward pass: the gradient of the use's output; None where nothing came back."""
        saved = self._saved.pop(use)
        if gradient is not None:
            with self._recipe.present(use):
                for name, part in use.contributions(saved, gradient):
                    self._waiting.setdefault(name, []).append(part)
        self._uses.subtract(use.parameters)
        for name in sorted(use.parameters):
            if not self._uses[name] and name in self._waiting:
                self._settle(name)

    def finish(self) -> dict[str, Settled]:
        """After the backward pass: every parameter that has a gradient."""
        for name in list(self._waiting):  # where a use had no part in the loss
            self._settle(name)
        return self._settled

    def _settle(self, name: str) -> None:
        parts = self._waiting.pop(name)
        self._settled[name] = settle(parts, norm=self._recipe.norm, room=ROOM, place=self._recipe.shelf.place(name))


def clip_fast(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from one forward and one backward pass."""
    settling = _Settling(recipe)
    anchor = torch.zeros((), device=question.mask.device, requires_grad=True)
    mark = watched(anchor, settling.announce, settling.receive)

    def body() -> Tensor:
        losses = recorded(recipe, question, mark)
        if losses.requires_grad:
            backward(losses, [anchor], recipe.seeds(losses, question.mask))
        return losses

    with torch.enable_grad():
        losses = inside(recipe.model, question.tensors, body).detach()
    return answer(recipe, question, settling.finish(), losses)
