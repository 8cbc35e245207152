"""Errors as RFC 9457 bodies, and back: the client raises the class that the service caught."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deniable import errors
from deniable.errors import (
    AccessDenied,
    ApprovalNeeded,
    BudgetExceeded,
    DataError,
    DeniableError,
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerUnsure,
    NotThere,
    QueryError,
    ServiceBusy,
)
from deniable.guarantees import Guarantee

TYPE = "urn:deniable:error:"
"""What the type of a problem begins with, before the name of the class."""

UNWRITTEN = "the ledger could not be read or written, and nothing was charged; ask whoever keeps the service"
UNSURE = "the ledger was lost while a charge was written: it may stand, and nothing is released"
"""What is told of a failure of the ledger's database, whatever it says."""

_STATUS: tuple[tuple[type[DeniableError], int], ...] = (
    # The first that fits.
    (BudgetExceeded, 402),
    (ApprovalNeeded, 409),
    (LedgerDamaged, 503),
    (LedgerError, 409),
    (LedgerUnsure, 503),
    (AccessDenied, 403),
    (NotThere, 404),
    (ServiceBusy, 429),
    (DataError, 409),
    (DeniableError, 422),
)
_SIDES = ("requested", "remaining", "largest")


def status_of(error: DeniableError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def to_problem(error: DeniableError, *, hidden: Sequence[str] = ()) -> dict[str, Any]:
    """An error as a body. Texts that are hidden, such as where the ledger lies, are left out of it."""
    detail = _own_words(error)
    for place in hidden:
        detail = detail.replace(place, "…")
    problem: dict[str, Any] = {
        "type": f"{TYPE}{type(error).__name__}",
        "title": (type(error).__doc__ or type(error).__name__).splitlines()[0],
        "status": status_of(error),
        "detail": detail,
    }
    if isinstance(error, BudgetExceeded):
        sides = {name: getattr(error, name) for name in _SIDES}
        problem |= {name: None if side is None else side.to_dict() for name, side in sides.items()}
    elif isinstance(error, InvalidArgument):
        problem |= {"name": error.name, "expected": str(error.expected), "remedy": str(error.remedy)}
    elif isinstance(error, QueryError):
        problem |= {"line": error.line, "column": error.column}
    elif isinstance(error, ServiceBusy):
        problem["seconds"] = error.seconds
    return problem


def _own_words(error: DeniableError) -> str:
    """What an error says, without the words of a database's driver or of the system: they name hosts and users."""
    cause = error.__cause__ or error.__context__
    if not isinstance(error, LedgerError | LedgerUnsure) or cause is None or isinstance(cause, DeniableError):
        return str(error)
    return UNSURE if isinstance(error, LedgerUnsure) else UNWRITTEN


def from_problem(problem: Any) -> DeniableError:
    """The error that a body tells of."""
    plain = problem if isinstance(problem, dict) else {}
    kind = getattr(errors, str(plain.get("type", "")).removeprefix(TYPE), None)
    detail = str(plain.get("detail", "the service refused without a reason"))
    if not (isinstance(kind, type) and issubclass(kind, DeniableError)):
        return DeniableError(detail)
    if issubclass(kind, BudgetExceeded):
        sides = {name: Guarantee.from_dict(plain[name]) if plain.get(name) else None for name in _SIDES}
        return kind(detail, **sides)
    if issubclass(kind, InvalidArgument):
        refused = kind(str(plain.get("name")), "…", str(plain.get("expected")), str(plain.get("remedy", "")))
        refused.args = (detail,)  # in the service's words, which name the value that came
        return refused
    if issubclass(kind, QueryError):
        error = kind(detail)
        error.line, error.column = plain.get("line"), plain.get("column")
        return error
    if issubclass(kind, ServiceBusy):
        return kind(detail, seconds=float(plain.get("seconds") or 1))
    try:
        return kind(detail)
    except TypeError:  # a class with arguments of its own
        return DeniableError(detail)
