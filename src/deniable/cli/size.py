"""`deniable size`: how many people, how much privacy, how much error; any one from the other two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from deniable.cli import options
from deniable.cli.printing import Json, print_json, say
from deniable.errors import InvalidArgument


def size(
    what: Annotated[str, typer.Argument(help="mean, sum, count, or share (who say yes).", show_default=False)],
    n: Annotated[int | None, typer.Option("--n", help="How many people.", show_default=False)] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε of the answer.", show_default=False)] = None,
    error: Annotated[float | None, typer.Option(help="The error, rarely exceeded.", show_default=False)] = None,
    confidence: Annotated[float, typer.Option(help="How rarely: 0.95 is one time in twenty.")] = 0.95,
    bounds: Annotated[str | None, typer.Option(help="LOW:HIGH, for mean and sum.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """How many people does this error need? Leave out one of --n, --epsilon and --error, and it is found.

    Example: deniable size mean --bounds 0:1 --epsilon 0.5 --error 0.01

    Example: deniable size share --epsilon 0.5 --error 0.01
    """
    from deniable import mechanisms
    from deniable.units import Relation

    asked: dict[str, Any] = {"n": n, "epsilon": epsilon, "error": error, "confidence": confidence}
    if what == "share":
        both = mechanisms.central_and_local(**asked)
        _print(str(both), {"central": _plain(both.central), "local": _plain(both.local)}, json=json)
        return
    kinds: dict[str, Callable[..., mechanisms.Mechanism]] = {
        "mean": mechanisms.mean,
        "sum": mechanisms.sum_of,
        "count": mechanisms.count,
    }
    if what not in kinds:
        raise InvalidArgument("what", what, "mean, sum, count or share")
    settings: dict[str, Any] = {"relation": Relation.REPLACE} if what == "mean" else {}
    if what != "count":
        if bounds is None:
            raise InvalidArgument("--bounds", bounds, f"given for a {what}", "For example --bounds 0:100.")
        settings["bounds"] = options.bounds([f"values={bounds}"])["values"]
    found = mechanisms.size(kinds[what], **asked, **settings)
    _print(str(found), _plain(found), json=json)


def _plain(found: object) -> dict[str, object]:
    return {name: getattr(found, name) for name in ("n", "epsilon", "error", "confidence")}


def _print(text: str, plain: dict[str, object], *, json: bool) -> None:
    if json:
        print_json(plain)
    else:
        say(text)
