"""Recurrent layers: nn.LSTM, nn.GRU, nn.RNN and their cells.

A recurrent kernel returns several tensors and hides its products. Here is the same layer in operations that the tape
sees. Met step by step, the recurrent weight would have one use per token. So the states are computed first, without
gradients and by the kernel itself; one product of all of them with the weight is the use,

    Z = states W_hhᵀ + b_hh,

and in the loop each step adds Z_t − Z_t.detach() to its own product, in which the weight is a constant. That is zero,
and its gradient is the gradient of the gates: what the use needs.

Sequences that are packed are refused: their order is that of their lengths, which are data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from deniable.errors import NotSupported


class Watching(Protocol):
    """The tape, as far as this file is concerned."""

    def entered(self) -> AbstractContextManager[Any]:
        """Calls in here are seen."""

    def aside(self) -> AbstractContextManager[None]:
        """Parameters in here are constants."""


class Unwatched:
    """Nobody looks: plain autograd, or vmap."""

    def entered(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


State = tuple[Tensor, ...]
Cell = Callable[[Tensor, Tensor, State], State]
"""(what the input gives, what the last output gives, state) → state, its output first."""


def _lstm(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    enter, forget, new, out = (inputs + recurrent).chunk(4, -1)
    cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def _gru(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    reset, update, new = inputs.chunk(3, -1)
    old_reset, old_update, old_new = recurrent.chunk(3, -1)
    fresh = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
    keep = torch.sigmoid(update + old_update)
    return (fresh + keep * (state[0] - fresh),)


def _tanh(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    return (torch.tanh(inputs + recurrent),)


def _relu(inputs: Tensor, recurrent: Tensor, state: State) -> State:
    return (torch.relu(inputs + recurrent),)


Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def _layer(watch: Watching, kernel: Any, cell: Cell, x: Tensor, start: State, weights: Weights) -> tuple[Tensor, State]:
    """One layer in one direction, over [tokens, rows, width]: all outputs, and the last state."""
    to_input, to_state, bias, state_bias = weights
    with watch.entered():
        inputs = F.linear(x, to_input, bias)
    with watch.aside(), torch.no_grad():
        flat = [each for each in weights if each is not None]
        first = start if len(start) > 1 else start[0]
        given = tuple(each.unsqueeze(0) for each in start) if len(start) > 1 else first.unsqueeze(0)  # type: ignore[union-attr]
        made = kernel(x, given, flat, bias is not None, 1, 0.0, False, False, False)[0]
        states = torch.cat([start[0].unsqueeze(0), made[:-1]])
    with watch.entered():
        watched = F.linear(states, to_state, state_bias)
    out = []
    with watch.aside():
        state = start
        for seen, use, own in zip(inputs.unbind(0), watched.unbind(0), watched.detach().unbind(0), strict=True):
            recurrent = F.linear(state[0], to_state, state_bias) + (use - own)
            state = cell(seen, recurrent, state)
            out.append(state[0])
    return torch.stack(out), state


def _recurrent(kernel: Any, cell: Cell) -> Callable[..., Any]:
    def run(
        watch: Watching,
        x: Tensor,
        hx: Any,
        parameters: Any,
        has_biases: Any,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> Any:
        if not isinstance(parameters, Sequence) or (isinstance(hx, Tensor) and isinstance(has_biases, Sequence)):
            raise NotSupported(
                "a packed sequence is ordered by lengths, which are data, so rows would meet; pad the sequences, and"
                " use a mask or the output at each example's last token"
            )
        several = isinstance(hx, tuple | list)
        starts: State = tuple(hx) if several else (hx,)
        directions = 2 if bidirectional else 1
        each = 4 if has_biases else 2
        if len(parameters) != num_layers * directions * each:
            raise NotSupported("a recurrent layer with proj_size is not clipped; use a linear layer behind it")
        values = x.transpose(0, 1) if batch_first else x
        last: list[State] = []
        for layer in range(num_layers):
            made = []
            for direction in range(directions):
                at = layer * directions + direction
                own = list(parameters[at * each : (at + 1) * each])
                weights: Weights = (own[0], own[1], own[2] if has_biases else None, own[3] if has_biases else None)
                start = tuple(part[at] for part in starts)
                out, state = _layer(watch, kernel, cell, values.flip(0) if direction else values, start, weights)
                made.append(out.flip(0) if direction else out)
                last.append(state)
            values = torch.cat(made, -1) if directions == 2 else made[0]
            if dropout and train and layer < num_layers - 1:
                with watch.entered():
                    values = F.dropout(values, dropout)
        ends = tuple(torch.stack([state[part] for state in last]) for part in range(len(starts)))
        return (values.transpose(0, 1) if batch_first else values, *ends)

    return run


def _step(cell: Cell) -> Callable[..., Any]:
    def run(
        watch: Watching,
        x: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        state: State = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        with watch.entered():
            made = cell(F.linear(x, w_ih, b_ih), F.linear(state[0], w_hh, b_hh), state)
        return made if len(made) > 1 else made[0]

    return run


RECURRENT: dict[Any, Callable[..., Any]] = {
    torch.lstm: _recurrent(torch.lstm, _lstm),
    torch.gru: _recurrent(torch.gru, _gru),
    torch.rnn_tanh: _recurrent(torch.rnn_tanh, _tanh),
    torch.rnn_relu: _recurrent(torch.rnn_relu, _relu),
    torch.lstm_cell: _step(_lstm),
    torch.gru_cell: _step(_gru),
    torch.rnn_tanh_cell: _step(_tanh),
    torch.rnn_relu_cell: _step(_relu),
}
"""Recurrent functions in operations that a tape sees; the first argument is the tape."""
