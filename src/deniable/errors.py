"""Every way deniable says no, in one tree.

    DeniableError
    ├── InvalidArgument        a value that cannot be meant: says name, what came, what fits
    ├── WrongArguments         a call with names that do not exist, or without ones that it needs; says what was meant
    ├── UnitMismatch           two promises about different people, or under different relations
    ├── NoConversion           an arrow between guarantees that does not exist, and why
    ├── NotSupported           something deniable does not do, refused by name
    ├── MissingExtra           an optional dependency that is not installed, with its pip line
    ├── DataError              a table that cannot be read or lacks what was asked for
    ├── FileError              a file that cannot be written where it was asked for, and why
    │   └── FileExists         writing never replaces a file unless told
    ├── QueryError             SQL that was refused, with its position
    ├── LedgerError            the ledger refused, and this call charged nothing
    │   ├── LedgerMissing      opening never creates
    │   ├── LedgerExists       creating never overwrites
    │   ├── LedgerDamaged      the record does not verify
    │   ├── AlreadyPaid        a key that has paid for an answer pays for no second one
    │   └── BudgetExceeded     requested, remaining, and the largest request that fits
    ├── AccessDenied           a service does not know who asks, or does not let them
    ├── NotThere               a service has no such thing, or it is somebody else's
    ├── ApprovalNeeded         a run that waits until a second person approves it
    ├── ServiceBusy            a service has too much to do, or is out of reach; says when to come back
    └── LedgerUnsure           a charge was being written, and nobody knows whether it stands

What is said and not raised is a `PrivacyWarning`.

A message is one sentence that says what was expected, what came, and what to do. No message holds a private
value: it may name arguments, columns and declared bounds, never a row, a key found in the data or an exact count.

>>> print(InvalidArgument("epsilon", -1, "a positive number", "Try epsilon=0.5."))
epsilon must be a positive number; got epsilon=-1. Try epsilon=0.5.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from numbers import Number
from typing import Any

from deniable._escapes import printable, redacted
from deniable._remedies import Option, Remedy


class DeniableError(Exception):
    """The root of everything deniable raises on purpose. Its text is safe to print, and holds no password."""

    def __str__(self) -> str:
        return printable(redacted(super().__str__()), lines=True)

    @property
    def options(self) -> tuple[Option, ...]:
        """The arguments and actions that the message names as remedies."""
        texts = [*self.args, *vars(self).values()]
        return tuple(option for text in texts if isinstance(text, Remedy) for option in text.options)

    def worded(self, word: Callable[[Option], str]) -> str:
        """The message in the words of a front end, which writes each option its own way."""
        message = str(self)
        for option in sorted(self.options, key=lambda each: -len(str(each))):
            message = message.replace(printable(redacted(str(option))), word(option))
        return message


class InvalidArgument(DeniableError, ValueError):
    """An argument that cannot be meant.

    >>> print(InvalidArgument("table", object(), "a path or a data frame"))
    table must be a path or a data frame; got table=<object object>.
    """

    def __init__(self, name: str, value: object, expected: str, remedy: str = "") -> None:
        self.name, self.value, self.expected, self.remedy = name, value, expected, remedy
        came = _show(value)
        if len(came) > 80:
            came = came[:77] + "..."
        super().__init__(f"{name} must be {expected}; got {name}={came}." + (f" {remedy}" if remedy else ""))

    def worded(self, word: Callable[[Option], str]) -> str:
        message = super().worded(word)
        return message.replace(f"; got {self.name}=None.", "; it is missing.") if self.value is None else message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value, self.expected, self.remedy)


def _show(value: object) -> str:
    """A value as a person would type it: numbers without the names of their types, objects without their addresses."""
    if isinstance(value, tuple) and len(value) > 1:
        return f"({', '.join(map(_show, value))})"
    return str(value) if isinstance(value, Number) else redacted(re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


class WrongArguments(DeniableError, TypeError):
    """A call whose arguments do not fit its signature."""


class UnitMismatch(DeniableError, ValueError):
    """Promises about different units, or under different relations, were combined or compared."""


class NoConversion(DeniableError, ValueError):
    """There is no such arrow between guarantees; the message says why."""


class NotSupported(DeniableError):
    """A thing deniable does not do, refused by name."""


class MissingExtra(DeniableError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"this needs {package}, which is not installed; run: pip install 'deniable[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.package, self.extra)


class DataError(DeniableError):
    """A table that cannot be read, or that lacks what was asked for."""


class FileError(DeniableError):
    """A file that cannot be written at its place; nothing was written. `path` says where."""

    def __init__(self, path: str | os.PathLike[str], sentence: str) -> None:
        self.path, self.sentence = path, sentence
        super().__init__(sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.sentence)


class FileExists(FileError):
    """There is already something at that path. Writing never replaces it unless told."""

    def __init__(self, path: str | os.PathLike[str], shown: str) -> None:
        self.shown = shown
        remedy = Option("overwrite", True)
        sentence = f"{shown} exists already; nothing was written. Choose another name, or give {remedy}."
        super().__init__(path, Remedy(sentence, remedy))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.shown)


class QueryError(DeniableError):
    """SQL that was refused; `line` and `column` (from 1) say where, when the place is known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        self.message, self.line, self.column = message, line, column
        location = f" (line {line}, column {column})" if line is not None and column is not None else ""
        super().__init__(message + location)


class PrivacyWarning(UserWarning):
    """A promise is weaker than it looks: records are used that nobody pays for, or δ is large for so many units."""


class LedgerError(DeniableError):
    """The ledger could not do what was asked, and this call charged nothing."""


class LedgerUnsure(DeniableError):
    """The connection or the file was lost while a charge was written, and nobody can be asked: it may stand.

    It is no `LedgerError`, which says that nothing was charged. Nothing may be released; a key that the charge had must
    be kept, for the same call with the same key finds out later and pays at most once.
    """


class AccessDenied(DeniableError):
    """A service does not know who asks, or this account may not do that."""


class NotThere(DeniableError):
    """A service has no such thing, or it is somebody else's: nobody can tell which."""


class ApprovalNeeded(DeniableError):
    """The run waits for the approval of a second person. Nothing was charged; the same key asks again later."""


class ServiceBusy(DeniableError):
    """A service has too much to do, or is out of reach. The same call with the same key may be repeated."""

    def __init__(self, message: str, *, seconds: float = 1) -> None:
        self.message, self.seconds = message, seconds
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _service_busy, (self.message, self.seconds)


def _service_busy(message: str, seconds: float) -> ServiceBusy:
    """The exception that crossed from another process."""
    return ServiceBusy(message, seconds=seconds)


class LedgerMissing(LedgerError):
    """There is no ledger at that path. Opening never creates."""


class LedgerExists(LedgerError):
    """There is already something at that path. Creating never overwrites."""


class LedgerDamaged(LedgerError):
    """The record does not verify: it was cut, edited, or is not a ledger."""


class AlreadyPaid(LedgerError):
    """The key has paid for an answer before. A charge is never answered twice; a lost answer is paid anew."""


class BudgetExceeded(LedgerError):
    """The request does not fit. `requested`, `remaining` and `largest` are guarantees of one kind."""

    def __init__(self, message: str, *, requested: object, remaining: object, largest: object) -> None:
        self.message, self.requested, self.remaining, self.largest = message, requested, remaining, largest
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return _budget_exceeded, (self.message, self.requested, self.remaining, self.largest)


def _budget_exceeded(message: str, requested: object, remaining: object, largest: object) -> BudgetExceeded:
    """The exception that crossed from another process."""
    return BudgetExceeded(message, requested=requested, remaining=remaining, largest=largest)
