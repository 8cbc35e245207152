"""Recurrent layers: nn.LSTM, nn.GRU, nn.RNN and their cells.

Their kernels return several tensors and hide the products with their weights. Here are the same layers in calls that
the tape sees. Met step by step the recurrent weight would have one use per token. So all steps are done first, without
gradients (recurrence.py), and one call stands for all products of states and weight: its result is known already
(`product`), its gradient is what the steps back in time give.

Of a packed sequence (packing.py) each row ends at its own length: a layer reads all tokens, those after the end of a
row blank, and its outputs there are blanked too; a reversed layer reads each row from its own last token on. Gradients
of blank tokens are zero, and so is what they add to the gradient of a weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import handle_torch_function

from deniable.deep.clipping.recurrence import Recurrence, Steps, before, recurrence
from deniable.deep.clipping.rules.packing import at_the_end, blanked, pack, pad, turned, unpacked


class Watching(Protocol):
    """The tape, as far as this file is concerned."""

    def entered(self) -> AbstractContextManager[Any]:
        """Calls in here are seen."""

    def aside(self) -> AbstractContextManager[None]:
        """Parameters in here are constants."""

    def own(self, *tensors: Tensor) -> None:
        """These were made of the arguments of the call, unseen."""


def product(states: Tensor, weight: Tensor, bias: Tensor | None, known: Tensor) -> Tensor:
    """states · weightᵀ + bias, which is known."""
    return known


State: TypeAlias = tuple[Tensor, ...]
"""The output of a cell, and for an LSTM its memory."""


# cells


def _lstm(inputs: Tensor, product: Tensor, state: State) -> State:
    enter, forget, new, out = (inputs + product).chunk(4, -1)
    memory = torch.sigmoid(forget) * state[1] + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(memory), memory


def _gru(inputs: Tensor, product: Tensor, state: State) -> State:
    reset, update, new = inputs.chunk(3, -1)
    old_reset, old_update, old_new = product.chunk(3, -1)
    fresh = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
    return (fresh + torch.sigmoid(update + old_update) * (state[0] - fresh),)


def _tanh(inputs: Tensor, product: Tensor, state: State) -> State:
    return (torch.tanh(inputs + product),)


def _relu(inputs: Tensor, product: Tensor, state: State) -> State:
    return (torch.relu(inputs + product),)


Cell: TypeAlias = Callable[[Tensor, Tensor, State], State]
"""(what the input gives, what the last output gives, state) → state."""
_CELLS: dict[str, Cell] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _tanh, "rnn_relu": _relu}


# layers


class _Layer:
    """One layer in one direction: its weights, by what they are for."""

    def __init__(self, cell: str, weights: Sequence[Tensor], *, biased: bool, reverse: bool) -> None:
        self.cell, self.reverse = cell, reverse
        self.to_input, self.to_state = weights[:2]
        self.bias: Tensor | None = weights[2] if biased else None
        self.state_bias: Tensor | None = weights[3] if biased else None
        rest = weights[4 if biased else 2 :]
        self.projection = rest[0] if rest else None

    def run(self, watch: Watching, x: Tensor, start: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """All outputs, [tokens, rows, width], and the last state, or that at the end of each row."""
        with watch.entered():
            inputs = F.linear(x, self.to_input, self.bias)
        kind = inputs.dtype
        with watch.aside():
            weight = self.to_state.to(kind)
            bias, projection = (None if each is None else each.to(kind) for each in (self.state_bias, self.projection))
            state = start[0].to(kind)
            memory = start[1].to(kind) if len(start) > 1 else state.new_empty(0)
            with torch.no_grad():
                steps = Steps(*recurrence(self.cell, inputs, weight, bias, projection, state, memory, self.reverse))
                states = before(steps.output, state, reverse=self.reverse)
                if lengths is not None:
                    states = blanked(states, lengths)
        watch.own(states, *steps)
        with watch.entered():
            products = _stated(states, self.to_state, self.state_bias, steps.products)
            projected = None
            if self.projection is not None:
                projected = _stated(steps.unprojected, self.projection, None, steps.output.clone())
        with watch.aside():
            whole = lengths is not None
            output, last = Recurrence.apply(
                self.cell, inputs, products, projected, state, memory, steps, weight, projection, self.reverse, whole
            )  # type: ignore[no-untyped-call]
            if lengths is not None:
                memories = last if len(start) > 1 else output
                output, ends = blanked(output, lengths), (at_the_end(output, lengths), at_the_end(memories, lengths))
            else:
                ends = (output[0 if self.reverse else -1], last)
        watch.own(output)
        return output, ends[: len(start)]

    def run_plainly(self, x: Tensor, start: State, lengths: Tensor | None = None) -> tuple[Tensor, State]:
        """The same in ordinary operations, token by token."""
        inputs, made, state = F.linear(x, self.to_input, self.bias).unbind(0), [], start
        passed = []
        for given in reversed(inputs) if self.reverse else inputs:
            state = _CELLS[self.cell](given, F.linear(state[0], self.to_state, self.state_bias), state)
            if self.projection is not None:
                state = (F.linear(state[0], self.projection), *state[1:])
            made.append(state[0])
            passed.append(state)
        if lengths is not None:
            ends = tuple(at_the_end(torch.stack(part), lengths) for part in zip(*passed, strict=True))
            return blanked(torch.stack(made), lengths), ends
        return torch.stack(made[::-1] if self.reverse else made), state


def _stated(states: Tensor, weight: Tensor, bias: Tensor | None, known: Tensor) -> Tensor:
    made: Tensor = handle_torch_function(product, (states,), states, weight, bias, known)
    return made


def _layers(cell: str) -> Callable[..., Any]:
    def run(watch: Watching | None, x: Tensor, hx: Any, parameters: Any, has_biases: Any, *options: Any) -> Any:
        if not isinstance(has_biases, bool):  # (data, batch sizes, hx, parameters, …)
            values, lengths = unpacked(x, hx)
            made, ends = _stack(cell, watch, values, parameters, has_biases, *options, lengths=lengths)
            return (made.reshape(x.shape[0], made.shape[2]), *ends)
        turns = len(options) > 4 and bool(options[4])  # batch_first
        values = x.transpose(0, 1) if turns else x.view_as(x)
        made, ends = _stack(cell, watch, values, hx, parameters, has_biases, *options[:4])
        return (made.transpose(0, 1) if turns else made, *ends)

    return run


def _stack(
    cell: str,
    watch: Watching | None,
    values: Tensor,
    hx: Any,
    parameters: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    *,
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:
    """All layers, over [tokens, rows, width]."""
    starts: State = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
    directions = 2 if bidirectional else 1
    many = len(parameters) // (num_layers * directions)
    last = []
    if lengths is not None:
        values = blanked(values, lengths)
    for at in range(0, num_layers * directions, directions):
        made = []
        for side in range(directions):
            own = parameters[(at + side) * many : (at + side + 1) * many]
            start = tuple(part[at + side] for part in starts)
            turns = side == 1 and lengths is not None
            layer = _Layer(cell, own, biased=has_biases, reverse=side == 1 and not turns)
            given = turned(values, lengths) if turns and lengths is not None else values
            if watch is None:
                out, state = layer.run_plainly(given, start, lengths)
            else:
                watch.own(given)
                out, state = layer.run(watch, given, start, lengths)
            made.append(turned(out, lengths) if turns and lengths is not None else out)
            last.append(state)
        values = torch.cat(made, -1) if bidirectional else made[0]
        if dropout and train and at < (num_layers - 1) * directions:
            if watch is not None:
                watch.own(values)
            with nullcontext() if watch is None else watch.entered():
                values = F.dropout(values, dropout)
    return values, tuple(torch.stack([state[part] for state in last]) for part in range(len(starts)))


def _one_step(cell: str) -> Callable[..., Any]:
    def run(
        watch: Watching | None,
        x: Tensor,
        hx: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        state: State = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        with nullcontext() if watch is None else watch.entered():
            made = _CELLS[cell](F.linear(x, w_ih, b_ih), F.linear(state[0], w_hh, b_hh), state)
        return made if len(made) > 1 else made[0]

    return run


RECURRENT: dict[Any, Callable[..., Any]] = {
    torch.lstm: _layers("lstm"),
    torch.gru: _layers("gru"),
    torch.rnn_tanh: _layers("rnn_tanh"),
    torch.rnn_relu: _layers("rnn_relu"),
    torch.lstm_cell: _one_step("lstm"),
    torch.gru_cell: _one_step("gru"),
    torch.rnn_tanh_cell: _one_step("rnn_tanh"),
    torch.rnn_relu_cell: _one_step("rnn_relu"),
    torch._VF._pack_padded_sequence: pack,
    torch._VF._pad_packed_sequence: pad,
}
"""Recurrent functions in operations that a tape sees. The first argument is the tape; without one plain operations."""
