"""Table look-ups: F.embedding, and F.embedding_bag with one bag per row.

A look-up is a matrix product with unit vectors, so its norm compares indices and never builds a table per unit.
Options that tie rows of different people together are refused: `max_norm` rewrites the table by what the batch looked
up, and `scale_grad_by_freq` divides by counts over the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch
from deniable.deep.clipping.contributions import Contribution, Factors, OneHot
from deniable.deep.clipping.origins import Origin
from deniable.deep.clipping.rules.anything import anything
from deniable.errors import NotSupported


def embedding(call: Call) -> Sketch:
    """F.embedding(index, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)."""
    index, weight = call.argument(0, "input"), call.argument(1, "weight")
    padding = call.argument(2, "padding_idx")
    judge_embedding(call)
    origin = call.origin(weight)
    if origin is None or index.is_floating_point():
        return anything(call)
    shape = tuple(weight.shape)
    blank = None if padding is None else padding % shape[0]

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        rows = saved[0].flatten(1)
        outs = gradient.flatten(1, -2)
        return [(origin, Factors(OneHot(rows, shape[0]), _without(outs, rows, blank), shape))]

    return Sketch((index,), (index,), contribute)


def bag(call: Call) -> Sketch:
    """F.embedding_bag(index, weight, …): a bag's gradient goes to each of its entries, weighted as they were."""
    index, weight = call.argument(0, "input"), call.argument(1, "weight")
    mode, each_weight = call.argument(6, "mode", "mean"), call.argument(8, "per_sample_weights")
    judge_bag(call)
    origin, shape, padding = call.origin(weight), tuple(weight.shape), call.argument(10, "padding_idx")
    if origin is None:
        return anything(call)
    blank = None if padding is None else padding % shape[0]

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        bags = saved[0]
        outs = gradient.unsqueeze(2).expand(-1, -1, bags.shape[2], -1)
        if len(saved) > 1:
            outs = outs * saved[1].unsqueeze(3)
        if mode == "mean":
            used = torch.ones_like(bags) if blank is None else (bags != blank)
            outs = outs / used.sum(2, keepdim=True).clamp(min=1).unsqueeze(3)
        rows = bags.flatten(1)
        return [(origin, Factors(OneHot(rows, shape[0]), _without(outs.flatten(1, 2), rows, blank), shape))]

    kept = (index,) if each_weight is None else (index, each_weight)
    return Sketch(kept, kept, contribute)


def judge_embedding(call: Call) -> None:
    """Refuse options that tie rows together."""
    refuse_shared_tables(
        renormalizes=call.argument(3, "max_norm") is not None, counts=call.argument(5, "scale_grad_by_freq", False)
    )


def judge_bag(call: Call) -> None:
    """Refuse bags that do not lie row by row."""
    refuse_shared_tables(
        renormalizes=call.argument(3, "max_norm") is not None, counts=call.argument(5, "scale_grad_by_freq", False)
    )
    offsets, mode = call.argument(2, "offsets"), call.argument(6, "mode", "mean")
    if call.argument(0, "input").dim() != 2 or offsets is not None or mode not in ("mean", "sum"):
        raise NotSupported(
            "embedding_bag is clipped with one bag per row, an index of two dimensions, and mode='mean' or 'sum'; "
            "pad the bags to one length with padding_idx"
        )


def _without(outs: Tensor, rows: Tensor, blank: int | None) -> Tensor:
    """The padding entry takes no gradient."""
    return outs if blank is None else torch.where((rows == blank).unsqueeze(2), 0, outs)


def refuse_shared_tables(*, renormalizes: bool, counts: bool) -> None:
    """Refuse what ties the look-ups of different people together."""
    if renormalizes:
        raise NotSupported(
            "an embedding with max_norm rewrites its table by what the batch looked up, which mixes examples; "
            "drop max_norm and normalize the looked-up vectors in the forward pass"
        )
    if counts:
        raise NotSupported(
            "an embedding with scale_grad_by_freq divides by counts over the whole batch, which mixes examples; drop it"
        )
