"""One backward pass: keep every use's inputs, ask for every use's output gradient, do the rest at the end."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from deniable.deep.clipping.calls import Use
from deniable.deep.clipping.contributions import Contribution
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import backward, inside
from deniable.deep.clipping.steps import Clipped, Question, Recipe, answer, recorded


def clip_fast(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from one forward and one backward pass."""
    kept: list[tuple[Use, GradientEdge, tuple[Tensor, ...]]] = []

    def mark(use: Use, made: Tensor, saved: tuple[Tensor, ...]) -> Tensor:
        if not torch.is_grad_enabled():
            return made
        if not made.requires_grad:
            made = made + torch.zeros((), dtype=made.dtype, device=made.device, requires_grad=True)
        kept.append((use, get_gradient_edge(made), saved))
        return made

    def body() -> tuple[Tensor, list[Tensor | None]]:
        losses = recorded(recipe, question, mark)
        edges = [edge for _, edge, _ in kept]
        if not edges or not losses.requires_grad:
            return losses, [None] * len(edges)
        return losses, list(backward(losses, edges, recipe.seeds(losses, question.mask)))

    with torch.enable_grad():
        losses, gradients = inside(recipe.model, question.tensors, body)
    parts: dict[str, list[Contribution]] = {}
    while kept:
        use, _, saved = kept.pop()
        gradient = gradients.pop()
        if gradient is not None:
            with recipe.present(use):
                contributions = use.contributions(saved, gradient)
            for name, part in contributions:
                parts.setdefault(name, []).append(part)
    settled = {}
    for name in list(parts):
        settled[name] = settle(parts.pop(name), norm=recipe.norm, room=2)
    return answer(recipe, question, settled, losses)
