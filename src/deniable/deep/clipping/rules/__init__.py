"""One rule per kind of operation: how saved inputs and an output gradient make one gradient per unit.

A rule is a function from a `Call` to a `Sketch`. Operations without a rule go to `anything`, which differentiates the
single call once per unit under vmap: slower, and right for whatever a parameter may be part of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch
from deniable.deep.clipping.rules.anything import anything
from deniable.deep.clipping.rules.attention import attend, attention
from deniable.deep.clipping.rules.convolution import convolution
from deniable.deep.clipping.rules.embedding import bag, embedding, judge_bag, judge_embedding
from deniable.deep.clipping.rules.linear import affine, linear, matmul
from deniable.deep.clipping.rules.normalization import group_norm, layer_norm, rms_norm
from deniable.deep.clipping.rules.recurrent import RECURRENT, product
from deniable.deep.clipping.rules.spreading import spread

__all__ = ["JUDGED", "OPENED", "OPENED_WITH_PARAMETERS", "RECURRENT", "RULES", "rule_for"]

RULES: dict[Any, Callable[[Call], Sketch]] = {
    F.linear: linear,
    product: linear,
    torch.matmul: matmul,
    torch.mm: matmul,
    Tensor.matmul: matmul,
    Tensor.mm: matmul,
    torch.addmm: affine,
    torch.conv1d: convolution,
    torch.conv2d: convolution,
    torch.conv3d: convolution,
    F.embedding: embedding,
    F.embedding_bag: bag,
    F.layer_norm: layer_norm,
    F.group_norm: group_norm,
    F.rms_norm: rms_norm,
    Tensor.expand: spread,
    Tensor.expand_as: spread,
    Tensor.repeat: spread,
    torch.broadcast_to: spread,
}


def rule_for(function: Any) -> Callable[[Call], Sketch]:
    """The rule of an operation."""
    return RULES.get(function, anything)


JUDGED: dict[Any, Callable[[Call], None]] = {F.embedding: judge_embedding, F.embedding_bag: judge_bag}
"""Calls with a parameter that may be refused before they run: on made-up values their kernels would fail first."""

OPENED: dict[Any, Callable[..., Any]] = {F.multi_head_attention_forward: attention}
"""Functions that are looked into rather than met whole."""

OPENED_WITH_PARAMETERS: dict[Any, Callable[..., Any]] = {F.scaled_dot_product_attention: attend}
"""The same, where a parameter is among the arguments."""
