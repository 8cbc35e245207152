"""Recurrent layers as two operations: all steps of one layer in one direction, and the gradient of the same.

A recurrent kernel returns outputs and hides its products. Clipping needs the states that met the recurrent weight and
the gradients of their products. So the steps are done here, and what they made is kept. With autograd a step would be
some twenty nodes; here the derivatives of all gates are taken at once, for all tokens, which leaves one product and a
few multiplications to each step back.

Tensors are [tokens, rows, width], states [rows, width]. A *product* is state · weightᵀ + bias, before anything else is
added. With a projection (LSTM alone) the state is the cell's output times the projection's transpose. A reversed layer
goes from the last token to the first; what belongs to a token always lies at its place.

No row meets another: products are of rows with weights, and all else works element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""The gates of each kind of cell."""


class Steps(NamedTuple):
    """What the steps of a layer made, by token. Tensors that a cell does not need are empty."""

    output: Tensor
    products: Tensor
    gates: Tensor
    memories: Tensor
    unprojected: Tensor


@torch.library.custom_op("deniable::recurrence", mutates_args=())
def recurrence(
    cell: str,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    state: Tensor,
    memory: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All steps of a layer. `inputs` is what the input gives to the gates."""
    steps = _prepared(cell, inputs, weight, projection)
    advance = _ADVANCE[cell]
    turned, narrowed = weight.t(), None if projection is None else projection.t()
    output, products, gates, memories, unprojected = (each.unbind(0) for each in steps)
    given = inputs.unbind(0)
    for at in _order(len(given), reverse):
        if bias is None:
            torch.mm(state, turned, out=products[at])
        else:
            torch.addmm(bias, state, turned, out=products[at])
        made = output[at] if narrowed is None else unprojected[at]
        advance(given[at], products[at], gates[at], state, memory, memories[at], made)
        state, memory = made, memories[at]
        if narrowed is not None:
            state = torch.mm(made, narrowed, out=output[at])
    return steps


@recurrence.register_fake
def _prepared_only(
    cell: str,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    state: Tensor,
    memory: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _prepared(cell, inputs, weight, projection)


def _prepared(cell: str, inputs: Tensor, weight: Tensor, projection: Tensor | None) -> Steps:
    """Memory for all steps."""
    tokens, rows, width = inputs.shape
    size = width // GATES[cell]
    return Steps(
        inputs.new_empty(tokens, rows, weight.shape[1]),
        inputs.new_empty(tokens, rows, width),
        inputs.new_empty(tokens, rows, 0 if GATES[cell] == 1 else width),
        inputs.new_empty(tokens, rows, size if cell == "lstm" else 0),
        inputs.new_empty(tokens, rows, 0 if projection is None else size),
    )


@torch.library.custom_op("deniable::recurrence_backward", mutates_args=())
def recurrence_backward(
    cell: str,
    outputs: Tensor,
    products: Tensor,
    gates: Tensor,
    memories: Tensor,
    state: Tensor,
    memory: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    gradient: Tensor,
    memory_gradient: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of inputs, products, projected outputs, first state and first memory, from those of the outputs
    and of the last memory, or of all memories. An empty gradient of the products says that it is that of the inputs."""
    if cell == "lstm":
        return _lstm_backward(gates, memories, memory, weight, projection, gradient, memory_gradient, reverse=reverse)
    if cell == "gru":
        states = before(outputs, state, reverse=reverse)
        return *_gru_backward(products, gates, states, weight, gradient, reverse=reverse), gradient.new_empty(0)
    slopes = (1 - outputs.square()) if cell == "rnn_tanh" else (outputs > 0).to(outputs.dtype)
    pulled, first = _plain_backward(slopes, weight, gradient, reverse=reverse)
    return pulled, gradient.new_empty(0), gradient.new_empty(0), first, gradient.new_empty(0)


@recurrence_backward.register_fake
def _gradients_only(
    cell: str,
    outputs: Tensor,
    products: Tensor,
    gates: Tensor,
    memories: Tensor,
    state: Tensor,
    memory: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    gradient: Tensor,
    memory_gradient: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        torch.empty_like(products),
        torch.empty_like(products) if cell == "gru" else gradient.new_empty(0),
        gradient.new_empty(0) if projection is None else gradient.new_empty(gradient.shape),
        gradient.new_empty(gradient.shape[1:]),
        torch.empty_like(memory) if cell == "lstm" else gradient.new_empty(0),
    )


# steps forward


def _advance_lstm(
    given: Tensor, product: Tensor, gates: Tensor, state: Tensor, before: Tensor, memory: Tensor, made: Tensor
) -> None:
    width = memory.shape[1]
    torch.add(given, product, out=gates)
    gates[:, : 2 * width].sigmoid_()
    gates[:, 2 * width : 3 * width].tanh_()
    gates[:, 3 * width :].sigmoid_()
    enter, forget, new, out = gates.chunk(4, 1)
    torch.mul(forget, before, out=memory).addcmul_(enter, new)
    torch.tanh(memory, out=made).mul_(out)


def _advance_gru(
    given: Tensor, product: Tensor, gates: Tensor, state: Tensor, before: Tensor, memory: Tensor, made: Tensor
) -> None:
    width = made.shape[1]
    sides = gates[:, : 2 * width]
    torch.add(given[:, : 2 * width], product[:, : 2 * width], out=sides).sigmoid_()
    reset, update, new = gates.chunk(3, 1)
    torch.addcmul(given[:, 2 * width :], reset, product[:, 2 * width :], out=new).tanh_()
    torch.lerp(new, state, update, out=made)


def _advance_tanh(
    given: Tensor, product: Tensor, gates: Tensor, state: Tensor, before: Tensor, memory: Tensor, made: Tensor
) -> None:
    torch.add(given, product, out=made).tanh_()


def _advance_relu(
    given: Tensor, product: Tensor, gates: Tensor, state: Tensor, before: Tensor, memory: Tensor, made: Tensor
) -> None:
    torch.add(given, product, out=made).relu_()


_ADVANCE: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], None]] = {
    "lstm": _advance_lstm,
    "gru": _advance_gru,
    "rnn_tanh": _advance_tanh,
    "rnn_relu": _advance_relu,
}
"""(what the input gives, product, gates, state and memory before, memory, output) → fills in gates, memory, output."""


# steps back


def _lstm_backward(
    gates: Tensor,
    memories: Tensor,
    memory: Tensor,
    weight: Tensor,
    projection: Tensor | None,
    gradient: Tensor,
    memory_gradient: Tensor,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    tokens, rows, size = memories.shape
    enter, forget, new, out = gates.chunk(4, 2)
    # By how much each gate, before its sigmoid or tanh, moves the memory; the last one moves the output.
    slopes = gates.new_empty(tokens, rows, 4, size)
    squashed = memories.tanh()
    torch.mul(new, enter, out=slopes[:, :, 0]).mul_(1 - enter)
    torch.mul(before(memories, memory, reverse=reverse), forget, out=slopes[:, :, 1]).mul_(1 - forget)
    torch.mul(enter, 1 - new.square(), out=slopes[:, :, 2])
    torch.mul(squashed, out, out=slopes[:, :, 3]).mul_(1 - out)
    opened = (1 - squashed.square_()).mul_(out)
    pulled = torch.empty_like(slopes)
    flat = pulled.flatten(2)
    projected = gradient.new_empty(gradient.shape if projection is not None else 0)
    # Of the last memory, or of each.
    whole = memory_gradient.dim() == 3
    after, carried = torch.zeros_like(memory) if whole else memory_gradient, None
    for at in _order(tokens, not reverse):
        if whole:
            after = after + memory_gradient[at]
        up = gradient[at] if carried is None else torch.addmm(gradient[at], carried, weight)
        if projection is not None:
            projected[at] = up
            up = torch.mm(up, projection)
        after = torch.addcmul(after, up, opened[at])
        torch.mul(slopes[at, :, :3], after.unsqueeze(1), out=pulled[at, :, :3])
        torch.mul(slopes[at, :, 3], up, out=pulled[at, :, 3])
        after, carried = after * forget[at], flat[at]
    return flat, gradient.new_empty(0), projected, torch.mm(flat[-1 if reverse else 0], weight), after


def _gru_backward(
    products: Tensor, gates: Tensor, states: Tensor, weight: Tensor, gradient: Tensor, *, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tokens, rows, size = states.shape
    reset, update, new = gates.chunk(3, 2)
    slopes = gates.new_empty(tokens, rows, 3, size)
    fresh = (1 - update).mul_(1 - new.square())
    torch.mul(fresh, products[:, :, 2 * size :], out=slopes[:, :, 0]).mul_(reset).mul_(1 - reset)
    torch.mul(states - new, update, out=slopes[:, :, 1]).mul_(1 - update)
    torch.mul(fresh, reset, out=slopes[:, :, 2])
    pulled, whole = torch.empty_like(slopes), torch.empty_like(states)
    flat = pulled.flatten(2)
    carried = torch.zeros_like(whole[0])
    for at in _order(tokens, not reverse):
        up = torch.add(gradient[at], carried, out=whole[at])
        torch.mul(slopes[at], up.unsqueeze(1), out=pulled[at])
        carried = torch.addmm(up * update[at], flat[at], weight)
    given = flat.clone()
    torch.mul(whole, fresh, out=given[:, :, 2 * size :])
    return given, flat, gradient.new_empty(0), carried


def _plain_backward(slopes: Tensor, weight: Tensor, gradient: Tensor, *, reverse: bool) -> tuple[Tensor, Tensor]:
    pulled = torch.empty_like(slopes)
    up: Tensor | None = None
    for at in _order(slopes.shape[0], not reverse):
        up = gradient[at] if up is None else torch.addmm(gradient[at], up, weight)
        up = torch.mul(up, slopes[at], out=pulled[at])
    return pulled, torch.mm(pulled[-1 if reverse else 0], weight)


def before(values: Tensor, first: Tensor, *, reverse: bool) -> Tensor:
    """What was there before each step, in the place of what was there after it."""
    parts = (values[1:], first.unsqueeze(0)) if reverse else (first.unsqueeze(0), values[:-1])
    return torch.cat(parts)


def _order(tokens: int, reverse: bool) -> range:
    return range(tokens - 1, -1, -1) if reverse else range(tokens)


# with autograd around


class Recurrence(torch.autograd.Function):
    """The outputs and the last memory of steps that were done, with the gradients of what they were made from."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: str,
        inputs: Tensor,
        products: Tensor,
        projected: Tensor | None,
        state: Tensor,
        memory: Tensor,
        steps: Steps,
        weight: Tensor,
        projection: Tensor | None,
        reverse: bool,
        whole: bool,
    ) -> tuple[Tensor, Tensor]:
        """Gradients go to the five tensors that come first. The steps hold their numbers. With `whole` the memories of
        all steps are returned."""
        ctx.cell, ctx.reverse = cell, reverse
        ctx.save_for_backward(*steps[:4], state, memory, weight, projection)
        last = memory
        if cell == "lstm":
            last = steps.memories if whole else steps.memories[0 if reverse else -1]
        return steps.output, last.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Of inputs, products, projected outputs, state and memory."""
        inputs, products, projected, state, memory = recurrence_backward(
            ctx.cell, *ctx.saved_tensors, *gradients, ctx.reverse
        )
        given = None if ctx.cell != "lstm" else memory
        both = products if products.numel() else inputs
        return None, inputs, both, projected if projected.numel() else None, state, given, None, None, None, None, None
