"""Two backward passes over one forward pass: little more than plain training's memory, at four thirds of its products.

Each output that a parameter had a part in gets a hook that sees its gradient. The first backward takes norms and lets
go of each pair at once; the second sees the same gradients again and adds up the clipped sums. The factor is applied
to the gradients of the second pass rather than to its losses: scaled losses would be rounded differently on their way
down, and the norms of the first pass would no longer be the norms of what is summed.

The first backward keeps every activation for the second. In a convolutional network its first layers, whose gradients
come last, are the largest; so the engine takes half of a batch at a time unless it is told otherwise.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from deniable.deep.clipping.calls import Use
from deniable.deep.clipping.contributions import Contribution, Stack
from deniable.deep.clipping.margins import Factor, GroupFactors, bounds
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import backward, inside
from deniable.deep.clipping.steps import Clipped, Question, Recipe, completed, recorded, watched


class _Collector:
    """What the hooks hand over: norms in the first pass, sums in the second, when `factor` is known."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._norm = recipe, recipe.norm
        self._uses: Counter[str] = Counter()
        self._saved: dict[Use, tuple[Tensor, ...]] = {}
        self._shared: dict[str, list[Contribution]] = {}
        self._measured: dict[str, Tensor] = {}
        self._finished: dict[str, bool] = {}
        self.factors: GroupFactors | None = None
        self.sums: dict[str, Tensor] = {}

    def announce(self, use: Use, saved: tuple[Tensor, ...]) -> None:
        """In the forward pass: a parameter with several uses has cross terms and must wait for all of them."""
        self._uses.update(use.parameters)
        self._saved[use] = saved

    def receive(self, use: Use, gradient: Tensor) -> None:
        saved = self._saved[use] if self.factors is None else self._saved.pop(use)  # the second pass lets go
        with self._recipe.present(use):
            contributions = use.contributions(saved, gradient)
        parts: dict[str, list[Contribution]] = {}
        for name, part in contributions:  # one call may use a parameter twice, as scale and as shift
            parts.setdefault(name, []).append(part)
        for name, found in parts.items():
            if self._uses[name] > 1 and (self.factors is None or self._finished[name]):
                self._shared.setdefault(name, []).extend(found)
            elif self.factors is None:
                self._settle(name, found)
            else:
                self._add(name, found, self.factors.of(name))

    def _settle(self, name: str, parts: list[Contribution]) -> None:
        """Take the norm, and remember from which form: the sum must be taken from the same, or they could disagree."""
        measured = []
        for run in [[piece] for piece in parts[0].pieces()] if len(parts) == 1 else [parts]:
            settled = settle(run, norm=self._norm)
            self._finished[name] = isinstance(settled.kept[0], Stack)
            measured.append(bounds([settled]))
            del settled  # with the gradients of this run
        self._measured[name] = torch.cat(measured, dim=1)

    def _add(self, name: str, parts: list[Contribution], factor: Factor) -> None:
        """Add to the sum, from the form that the norm was taken from.

        Finished gradients of several uses may cancel, and their norm knows nothing of what they were: only their sum
        over the uses may be summed over units. Pairs have a margin for that (`Settled.spread`).
        """
        done = self._finished[name]
        for part in settle(parts, norm=self._norm).kept if done and len(parts) > 1 else parts:
            added = self._total(part, factor) if done else part.total(factor.factors, factor.alive)
            self.sums[name] = added if name not in self.sums else self.sums[name] + added

    @staticmethod
    def _total(part: Contribution, factor: Factor) -> Tensor:
        """The sum from finished gradients, a run of units at a time."""
        first, *rest = part.pieces()
        stack = Stack(first.stack())
        done = stack.values.shape[0]
        total = stack.total(factor.factors[:done], factor.alive[:done])
        for piece in rest:
            stack = Stack(piece.stack())
            units = slice(done, done + stack.values.shape[0])
            total, done = total + stack.total(factor.factors[units], factor.alive[units]), units.stop
        return total

    def measured(self) -> list[Tensor | None]:
        """After the first pass: [3, units] for every group, or None where no parameter of it has a gradient."""
        while self._shared:
            self._settle(*self._shared.popitem())
        found = [
            [self._measured[name] for name in group.names if name in self._measured] for group in self._recipe.groups
        ]
        return [torch.stack(each).sum(0) if each else None for each in found]

    def finish(self, factors: GroupFactors) -> None:
        """After the second pass: the sums of parameters that waited for all of their uses."""
        while self._shared:
            name, parts = self._shared.popitem()
            self._add(name, parts, factors.of(name))


def clip_two_pass(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from one forward and two backward passes."""
    collector = _Collector(recipe)
    device = question.mask.device
    anchor = torch.zeros((), device=device, requires_grad=True)
    mark = watched(anchor, collector.announce, collector.receive)
    rows = question.mask.shape[0]

    def body() -> tuple[Tensor, GroupFactors]:
        losses = recorded(recipe, question, mark)
        seeds = recipe.seeds(losses, question.mask)
        if losses.requires_grad:
            backward(losses, [anchor], seeds, retain_graph=True)
        collector.factors = factors = recipe.factors(collector.measured(), question)
        if losses.requires_grad:
            # Dead units start from zero. The seeds also differ by name, lest a compiler merge the two passes.
            alive = factors.alive.repeat_interleave(recipe.rows_per_unit, output_size=rows)
            backward(losses, [anchor], torch.where(alive, seeds, 0))
            collector.finish(factors)
        return losses, factors

    with torch.enable_grad():
        losses, factors = inside(recipe.model, question.tensors, body)
    return completed(recipe, question, collector.sums.get, factors.norms, factors.factors, losses)
