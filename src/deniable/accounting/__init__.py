"""From events to certified privacy curves.

`account(event)` folds an event into canonical steps (`fold`), takes the dominating pair of each (`pairs`), and lets the
best engine answer: a closed form, the contour integral, or the grid. Every answer is a bracket with two proven ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deniable.accounting.accountant import account as account
    from deniable.accounting.imports import from_dp_accounting as from_dp_accounting
    from deniable.accounting.imports import from_opacus as from_opacus
    from deniable.accounting.imports import known_faults as known_faults

__all__ = ["account", "from_dp_accounting", "from_opacus", "known_faults"]

_HOMES = {"account": "accountant", "from_dp_accounting": "imports", "from_opacus": "imports", "known_faults": "imports"}


def __getattr__(name: str) -> Any:
    """Load an engine when it is first asked for: importing this room loads no SciPy."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"deniable.accounting.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'deniable.accounting' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
