"""What a notebook shows of an object: HTML from `explaining.views`; and what its `plot` draws.

The one way up the house. A notebook asks the object that it holds, of whatever room; the words and pictures live in
`explaining`, which no room below may import. So the view is opened by name, when a notebook asks, and never otherwise.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """An object with a view for notebooks; `print` shows the same in plain text."""

    def _repr_html_(self) -> str | None:
        view: str | None = import_module("deniable.explaining.views").html(self)
        return view


def draw_numbers(release: object, name: str, axes: Any) -> Any:
    """Draw the released numbers of one name with their intervals, on these axes or on new ones; gives the axes."""
    return import_module("deniable.explaining.plots").draw_numbers(release, name, axes)
