"""The name that `deniable.textbook` had before; it opens that room when it is asked."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("deniable.textbook"), name)
