"""What may be asked, as JSON, and how a plan is told.

A number is a JSON number or a text ("0.1", "1/3"), and is read as a decimal. Unknown fields are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from deniable._checks import Number, read_fraction
from deniable.errors import InvalidArgument, MissingExtra, QueryError
from deniable.guarantees import Guarantee
from deniable.query import AtMost, Session
from deniable.query.planning import QueryPlan
from deniable.query.schema import Table
from deniable.query.scope import relation
from deniable.query.staging import Plan
from deniable.service.settings import ServiceSettings

try:
    import msgspec
except ModuleNotFoundError as error:
    raise MissingExtra("msgspec", "serve") from error

Numeral = int | float | str
LARGEST = 10**300
"""The largest number that may be stated."""
Scalar = str | int | float | bool | None


class UnitLimits(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How much of one unit counts."""

    groups: int | None = None
    rows: int | None = None
    total: int | None = None


class PlanRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A question: the arguments of `Session.plan`."""

    sql: str
    epsilon: Numeral | None = None
    cost: dict[str, Any] | None = None
    error: Numeral | dict[str, Numeral] | None = None
    group_size: int | None = None
    bounds: str | dict[str, str | list[Numeral]] | None = None
    keys: dict[str, list[Scalar] | dict[str, Numeral]] | None = None
    per_unit: str | UnitLimits | None = None
    weights: dict[str, Numeral] | None = None
    confidence: Numeral | None = None
    cover: Numeral | None = None
    leave_out: bool = False
    diagnose: Numeral | None = None
    delta: Numeral | None = None
    noise: str | None = None
    project: str | None = None
    """The project whose envelope pays as well."""
    fresh: bool = False
    """Ask anew, for the whole price, also where a stored answer could be read."""

    @property
    def text(self) -> str:
        """The request in one spelling."""
        return json.dumps(msgspec.to_builtins(self), sort_keys=True)

    @property
    def question(self) -> str:
        """The SHA-256 of what is asked, whoever asks and however fresh."""
        plain = {**msgspec.to_builtins(self), "fresh": False, "project": None}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def decode(body: bytes | str, kind: Any = PlanRequest) -> Any:
    """A body as a value of a kind; InvalidArgument says what does not fit."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as failure:
        why, _, place = str(failure).partition(" - at `$.")
        name = place.removesuffix("`").partition(".")[0].partition("[")[0]  # a field of ours: others have no place
        raise InvalidArgument(name or "body", "…", f"JSON that fits ({why})") from None


def check_size(request: PlanRequest, settings: ServiceSettings) -> None:
    """Refuse what is too long to be planned."""
    if len(request.sql) > settings.most_sql:
        raise InvalidArgument("sql", "…", f"of at most {settings.most_sql:,} characters")
    keys = sum(len(listed) for listed in (request.keys or {}).values())
    if keys > settings.most_keys:
        raise InvalidArgument("keys", "…", f"at most {settings.most_keys:,} in all")


def make_plan(session: Session, request: PlanRequest, settings: ServiceSettings) -> Plan:
    """The plan of a request. Reads no rows."""
    check_size(request, settings)
    bounds = request.bounds
    plan = session.plan(
        request.sql,
        epsilon=read_number("epsilon", request.epsilon),
        cost=None if request.cost is None else Guarantee.from_dict(request.cost),
        error=_numbers("error", request.error),
        group_size=request.group_size,
        bounds=bounds if not isinstance(bounds, dict) else {name: _ends(name, ends) for name, ends in bounds.items()},
        keys=request.keys,
        per_unit=_limits(request.per_unit),
        weights=_numbers("weights", request.weights),
        confidence=0.95 if request.confidence is None else read_number("confidence", request.confidence),
        cover=read_number("cover", request.cover),
        leave_out=request.leave_out,
        diagnose=read_number("diagnose", request.diagnose),
        delta=read_number("delta", request.delta),
        noise=request.noise,
    )
    if len(plan.question.aggregates) > settings.most_aggregates:
        raise QueryError(f"a query may have at most {settings.most_aggregates} aggregates here")
    return plan


def tables_of(plan: Plan, tables: Iterable[Table]) -> list[str]:
    """The tables that running a plan may read: those that its statements name, however the question spells them."""
    texts = [text for statement in plan.statements for text in statement.statements]
    return [table.name for table in tables if any(relation(table) in text for text in texts)]


def _limits(given: str | UnitLimits | None) -> AtMost | str | None:
    if not isinstance(given, UnitLimits):
        return given
    stated = {name: getattr(given, name) for name in ("groups", "rows", "total")}
    return AtMost(**{name: value for name, value in stated.items() if value is not None})


def read_number(name: str, given: Numeral | None) -> Any:
    """A number as it is stated, or as its text says; one that is beyond every float is refused."""
    try:
        number: Any = read_fraction(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidArgument(name, str(given)[:80], "a number, as 0.1 or 1/3") from None
    if number is not None and abs(number) > LARGEST:
        raise InvalidArgument(name, "…", "a number of at most 1e300")
    return number


def _numbers(name: str, given: Any) -> Any:
    if isinstance(given, dict):
        return {key: read_number(f"{name}.{key}", value) for key, value in given.items()}
    return read_number(name, given)


def _ends(name: str, given: str | list[Numeral]) -> str | list[Number]:
    return given if isinstance(given, str) else [read_number(f"bounds.{name}", end) for end in given]


def summary(plan: Plan) -> dict[str, Any]:
    """A plan as the client shows it. Everything in it is public."""
    answer = plan if isinstance(plan, QueryPlan) else plan.answer
    return {
        **plan.to_dict(),
        "plan": plan.digest,
        "sizes": {name: [error(rows) for rows in (None, 100, 1000, 10_000)] for name, error in _sizes(plan)},
        "text": str(plan),
        "explanation": plan.explain(),
        "why": plan.why(),
        "remaining": answer.context.ledger.remaining(who=answer.context.who).to_dict(),
    }


def _sizes(plan: Plan) -> list[tuple[str, Any]]:
    return list(plan.error.items())
