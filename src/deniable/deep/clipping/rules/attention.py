"""nn.MultiheadAttention as it is.

F.multi_head_attention_forward is written in Python and calls F.linear with the module's packed weights. Under a
torch-function mode it hands itself over whole, before any of that is seen. Here is the same function without that first
test, so that its inner calls meet the tape one by one. The fused inference path is never taken under a mode.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch.nn.functional as F


def opened(function: Any) -> Callable[..., Any]:
    """The function's own code, with the test for overrides answered no."""
    inside = {**function.__globals__, "has_torch_function": lambda _: False}
    copy = FunctionType(function.__code__, inside, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


attention = opened(F.multi_head_attention_forward)
