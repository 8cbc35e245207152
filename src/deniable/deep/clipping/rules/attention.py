"""Attention with parameters inside: nn.MultiheadAttention as it is, and products with a learned bias.

F.multi_head_attention_forward is written in Python and calls F.linear with the module's packed weights. Under a
torch-function mode it hands itself over whole, before any of that is seen. Here is the same function without that first
test, so that its inner calls meet the tape one by one. The fused inference path is never taken under a mode.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def opened(function: Any) -> Callable[..., Any]:
    """The function's own code, with the test for overrides answered no."""
    inside = {**function.__globals__, "has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, inside, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


attention = opened(F.multi_head_attention_forward)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """F.scaled_dot_product_attention in its parts. A learned bias is then added in a call of its own, and dropout,
    which could not be drawn again for the bias's gradient, is another."""
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return F.dropout(F.softmax(scores, -1), dropout_p) @ value
