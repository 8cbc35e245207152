"""Packed sequences by a public rule: nobody is sorted, everybody is as long as the padded sequence, and lengths mask.

torch packs the rows of a batch by sorting them by their lengths and dropping the padding, so the memory of one row
depends on the lengths of the others. Here `pack_padded_sequence` keeps rows in their order and all tokens: to Python it
is a packed sequence whose rows are all as long as the padded one, which is public. The lengths go along unseen, on the
tensor of batch sizes. Recurrent layers (recurrent.py) end each row at its own length, and `pad_packed_sequence` blanks
what comes after it. Each row gets what torch gives to it alone.

Two things differ. `pad_packed_sequence` returns as many tokens as were packed (torch: as the longest row has, which is
data); and whoever works on `packed.data` meets padding there, so a loss on it is refused by the check of numbers.
Lengths below 1 or beyond the sequence, for which torch fails, count as 1 and as the whole sequence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence
from torch.overrides import TorchFunctionMode

from deniable.errors import NotSupported

_DEEPEST = 10
"""Frames between torch's packing and the function modes that see its calls."""


def pack(watch: Any, values: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """All tokens of all rows, [tokens · rows, …], and as many rows for each token."""
    if batch_first:
        values = values.transpose(0, 1)
    tokens, rows = values.shape[:2]
    sizes = torch.full((tokens,), rows)
    sizes._lengths = _possible(lengths.to(values.device), tokens)  # type: ignore[attr-defined]
    sizes._rows = rows  # type: ignore[attr-defined]
    return values.reshape(tokens * rows, *values.shape[2:]), sizes


def pad(
    watch: Any, data: Tensor, sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    """The padded sequence, blank after the length of each row, and the lengths."""
    values, lengths = unpacked(data, sizes)
    inside = _flags(values, lengths)
    values = torch.where(inside, values, torch.full((), padding_value, dtype=values.dtype, device=values.device))
    missing = total_length - values.shape[0]
    if missing > 0:
        values = torch.cat([values, values.new_full((missing, *values.shape[1:]), padding_value)])
    return values.transpose(0, 1) if batch_first else values, lengths


def unpacked(data: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """[tokens, rows, …], and the lengths of rows."""
    lengths = getattr(sizes, "_lengths", None)
    if lengths is None:
        raise NotSupported(
            "a packed sequence that pack_padded_sequence did not make in this pass is ordered by its lengths, which are"
            " data; pack with torch.nn.utils.rnn.pack_padded_sequence inside the model"
        )
    return data.view(sizes.shape[0], sizes._rows, *data.shape[1:]), lengths  # type: ignore[attr-defined]


def blanked(values: Tensor, lengths: Tensor) -> Tensor:
    """Zeros after the length of each row."""
    return torch.where(_flags(values, lengths), values, torch.zeros((), dtype=values.dtype, device=values.device))


def turned(values: Tensor, lengths: Tensor) -> Tensor:
    """Each row back to front, up to its length; what comes after it stays."""
    token = _tokens(values)
    index = torch.where(token < lengths, lengths - 1 - token, token)
    return torch.gather(values, 0, index.unsqueeze(2).expand(values.shape))


def at_the_end(values: Tensor, lengths: Tensor) -> Tensor:
    """What each row has at its last token, [rows, …]."""
    index = (lengths - 1).unsqueeze(0).unsqueeze(2).expand(1, *values.shape[1:])
    return torch.gather(values, 0, index).squeeze(0)


def instead(function: Any, args: Sequence[Any]) -> Callable[..., Any] | None:
    """What is done in the place of a call that torch makes around packed sequences; None for all others."""
    if function is torch.sort:
        frame = _packing()
        return None if frame is None else partial(_unsorted, frame.f_locals["input"].device)
    if function in _SELECTING:
        return _first if len(args) > 2 and hasattr(args[2], "_in_order") else None
    if function is torch.empty_like:  # where torch inverts the order
        return _inverse if args and hasattr(args[0], "_in_order") else None
    if function == Tensor.__getitem__ and hasattr(args[0], "_rows"):
        return _rows
    return None


_SELECTING = (Tensor.index_select, torch.index_select)


def _first(value: Tensor, *_: Any, **__: Any) -> Tensor:
    return value


def _inverse(order: Tensor, **_: Any) -> Tensor:
    return _marked(order.clone())


def _marked(order: Tensor) -> Tensor:
    """An order that is the one of the rows."""
    order._in_order = True  # type: ignore[attr-defined]
    return order


def _rows(sizes: Any, _: Any) -> Any:
    """How many rows there are at a token: a number of Python, for torch makes first states of that size."""
    return sizes._rows


class PossibleLengths(TorchFunctionMode):
    """For plain passes on made-up numbers: lengths that torch would refuse are brought into range."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is not torch._VF._pack_padded_sequence:
            return function(*args, **(kwargs or {}))
        values, lengths, batch_first = args
        lengths = _possible(lengths, values.shape[1 if batch_first else 0])
        if bool((lengths[1:] > lengths[:-1]).any()):
            raise NotSupported(
                "pack_padded_sequence expects rows that are sorted by their lengths, and the rows of a person, or of a"
                " batch in mode='vmap', are in any order; pack with enforce_sorted=False"
            )
        return function(values, lengths.cpu(), batch_first)


def _possible(lengths: Tensor, tokens: int) -> Tensor:
    return lengths.to(torch.int64).clamp(1, tokens)


def _tokens(values: Tensor) -> Tensor:
    return torch.arange(values.shape[0], device=values.device).unsqueeze(1)


def _flags(values: Tensor, lengths: Tensor) -> Tensor:
    """[tokens, rows, 1, …]: whether a token is before the length of its row."""
    inside = _tokens(values) < lengths
    return inside.view(*inside.shape, *[1] * (values.dim() - 2))


def _unsorted(device: torch.device, lengths: Tensor, *, descending: bool) -> tuple[Tensor, Tensor]:
    return lengths, _marked(torch.arange(lengths.shape[0], device=device))


def _packing() -> FrameType | None:
    """The frame of the packing that makes the present call."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code is pack_padded_sequence.__code__:
            return frame
        frame = frame.f_back
    return None
