"""What every public arrow and theorem does around its formula: it takes its own kind of promise, and refuses in words.

A theorem about ρ-zCDP reads `rho`, and a truncated promise has a `rho` too, which means less. So an arrow looks at the
type of what it is given, as its signature states it: read as another kind, a promise would come out too strong.

>>> from deniable.conversions import zcdp_to_approx
>>> from deniable.guarantees import TCDP
>>> zcdp_to_approx(TCDP(1, 2), delta=1e-5)
Traceback (most recent call last):
...
deniable.errors.InvalidArgument: guarantee must be a ZCDP; got guarantee=TCDP(rho=1, omega=2).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from deniable import guarantees
from deniable._checks import member
from deniable._signatures import check_call
from deniable.errors import DeniableError, InvalidArgument
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Profile, PureDP

P = ParamSpec("P")
R = TypeVar("R")
KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Profile, PureDP)
}


def promises(function: Callable[..., Any]) -> tuple[type, ...]:
    """The kinds of promises that a function takes first."""
    first = next(iter(inspect.signature(function).parameters.values()))
    return tuple(KINDS[word] for word in re.findall(r"\w+", str(first.annotation)) if word in KINDS)


def arrow(function: Callable[P, R]) -> Callable[P, R]:
    """A public arrow: refuses promises of other kinds, and numbers that its formula cannot be computed with."""
    first = next(iter(inspect.signature(function).parameters.values()))
    known = promises(function)
    alone = not re.search(r"Sequence|Iterable|Event|Guarantee", str(first.annotation))

    def check(given: object) -> None:
        for each in given if isinstance(given, list | tuple) and not alone else [given]:
            if alone or isinstance(each, guarantees.Guarantee | Profile):
                member(first.name, each, known)

    @functools.wraps(function)
    def convert(*args: Any, **kwargs: Any) -> R:
        given = args[0] if args else kwargs.get(first.name)
        if known and not alone and not isinstance(given, guarantees.Guarantee) and isinstance(given, Iterable):
            given = list(given)  # it may be read only once
            args, kwargs = ((given, *args[1:]), kwargs) if args else (args, {**kwargs, first.name: given})
        if known and (args or first.name in kwargs):
            check(given)
        try:
            return function(*args, **kwargs)
        except DeniableError:
            raise
        except TypeError:
            check_call(function, args, kwargs)
            raise
        except (ArithmeticError, ValueError):
            raise InvalidArgument(
                first.name, given, "of numbers that this conversion can compute with, within 1e-300 and 1e300"
            ) from None

    return convert
