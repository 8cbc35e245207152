"""Which line of the user's code is running: for messages."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

import torch
from torch import nn

LONGEST = 80
_OWN = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)


def location() -> str:
    """' at model.py:12 (h = h - h.mean(0)), in layer.norm (Center)': the innermost line outside torch and this package,
    and the innermost module that is running. Empty where there is neither."""
    frame: FrameType | None = sys._getframe(1)
    line, module, model = "", None, None
    while frame is not None:
        code = frame.f_code
        if code.co_name == "body" and code.co_filename.startswith(_OWN):  # what lies outside calls the engine
            break
        if not line and not code.co_filename.startswith((_OWN, _TORCH, "<")):
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
            line = f" at {Path(code.co_filename).name}:{frame.f_lineno}" + (f" ({text})" if text else "")
        running = frame.f_locals.get("self") if code.co_name != "__torch_function__" else None
        if isinstance(running, nn.Module):
            module = module if module is not None else running
            model = running
        frame = frame.f_back
    if module is None or model is None:
        return line
    name = next((name for name, each in model.named_modules() if each is module), "")
    return f"{line}, in {name} ({type(module).__name__})" if name else f"{line}, in {type(module).__name__}"
