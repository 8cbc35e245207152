"""The name that `deniable.textbook.loss` had before; it opens that file when it is asked."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("deniable.textbook.loss"), name)
