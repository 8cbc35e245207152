"""What an engine does: hold tables, tell their columns, run bounded SQL. Engines never define meaning.

**Ctrl-C.** Ctrl-C while an engine computes: it is stopped at once, and waited for.

Python delivers a signal to the main thread between two of its own steps, so a long call into an engine would hold it
back. The call goes to another thread, the main thread waits for it, and Ctrl-C tells the engine to stop.

**Asked again.** `RecentTotals` keeps exact totals in memory, so that a session that asks again about the same rows,
limits and columns computes nothing but noise. Why that is as private as before:

1. Exact totals are a function of the rows and of the hash key, which chooses among each unit's own rows (`choice`). The
   key is drawn when a session is opened, from the secure source, and looks at no row. For every fixed key, a unit moves
   the totals by what `measures.move` says. So for every fixed key each answer has its promise, and all of them together
   the composed one, also if questions are chosen after earlier answers. The key has the same law on both of two
   neighbours, so the promise holds for the mixture over keys: it even holds for a reader who knows the key.
2. Every answer is charged, and every answer has fresh noise, whether or not its totals were kept.
3. The rows are the same: totals are kept only where the engine's tables cannot change (`DuckDB`), and files are checked
   before every charge. Nobody's row decides what is kept, found or dropped: all three follow from the questions, the
   limits and the number of declared keys. Totals of keys that are found in the data are never kept.
4. Nobody can tell by a clock what other analysts asked: each has a key of their own, and keys are part of the search.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.query.bounding import Bounded, gather
from deniable.query.grids import Values
from deniable.query.measures import Totals, joined
from deniable.query.schema import Table


@dataclass(frozen=True)
class StoredTable:
    """A table of a database; each kind of database has a class of its own."""

    home: Any
    """The database: an open connection or session, or how to connect to it."""
    table: str


@dataclass(frozen=True)
class EngineLimits:
    """What an engine of our own may use: public numbers, fixed when it is opened."""

    memory: str | None = None
    """As "2GB" or "500MB"; four fifths of the machine's, if not given."""
    threads: int | None = None
    seconds: float | None = None
    """For one statement. Past it, the charge stands and nothing is released (`stopped`)."""

    @classmethod
    def of(cls, *, memory: str | None, threads: int | None, seconds: Number | None) -> EngineLimits:
        """The limits that a caller states, checked."""
        if memory is not None and not (isinstance(memory, str) and re.fullmatch(_MEMORY, memory)):
            raise InvalidArgument("memory", memory, 'a size such as "2GB" or "500MB"')
        if threads is not None:
            _checks.count("threads", threads)
        limit = None if seconds is None else float(_checks.positive("seconds", seconds))
        if limit is not None and limit > _LONGEST:
            raise InvalidArgument("seconds", seconds, f"at most {_LONGEST:,}")
        return cls(memory, threads, limit)

    @property
    def config(self) -> dict[str, str]:
        """As DuckDB's configuration."""
        stated = {"memory_limit": self.memory, "threads": self.threads}
        return {name: str(value) for name, value in stated.items() if value is not None}


_MEMORY = r"[1-9][0-9]{0,8} ?(?:KB|MB|GB|TB|KiB|MiB|GiB|TiB)"
_LONGEST = 10**6


class Engine(Protocol):
    """Runs bounded SQL over the tables it was given."""

    @property
    def alike(self) -> bool:
        """Whether rows are chosen as all engines can (`choice.portable_rows`), or by functions of this one alone."""
        ...

    def add(self, name: str, data: Any, *, public: bool = False, unit: str | None = None) -> Table:
        """Make data known as a table; DataError says what is wrong with them. `unit` is the column that says whose a
        row is. A CSV file is read, checked and copied here. A public table is copied, so that what a plan was told
        about it stays true."""
        ...

    def written(self, bounded: Bounded) -> str:
        """The bounded SQL as this engine reads it; NotSupported says what it has no equal for."""
        ...

    def bind(self, bounded: Bounded) -> None:
        """Let the engine read every statement that `run` would execute, find its tables, columns and types, and plan
        it. Reads no row of a private table. DataError or NotSupported says what would fail; a statement is bound once.
        """
        ...

    def check(self, statements: Iterable[Bounded]) -> None:
        """Refuse to go on, right before a charge, if these statements would no longer run: a file or table is not the
        one that was added, or is gone, or a right is lost. Binds them anew."""
        ...

    def run(self, bounded: Bounded, *, groups: int | None, key: tuple[int, int]) -> Totals:
        """The exact totals under this hash key: of all declared groups, 0 where there are no rows; or, when `groups` is
        None, of those that are found."""
        ...

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query over public tables."""
        ...

    def close(self) -> None:
        """Let go of data and temporary files."""
        ...


def stopped(engine: str) -> DataError:
    """What is said of an engine that fails after the charge. It is the same sentence whatever the reason: the engine's
    message, or the kind of its error, could tell something of a row."""
    return DataError(
        f"{engine} stopped before it answered; the charge stands and nothing is released: check its connection, its "
        "files, its memory and its disk, and ask again"
    )


def totals(bounded: Bounded, found: dict[str, NDArray[Any]], *, groups: int | None) -> Totals:
    """An engine's answer to bounded SQL as arrays over all groups, or over those found (see `bounding`)."""
    if "part" in found:
        return gather(bounded, found, groups=groups)
    numbers = found["g"].astype(np.int64)

    def filled(column: str) -> NDArray[np.int64]:
        exact = found[column].astype(np.int64, casting="safe")
        if groups is None:
            return exact
        whole = np.zeros(groups, dtype=np.int64)
        whole[numbers] = exact
        return whole

    counts, sums = {}, {}
    for i, values in enumerate(bounded.values, start=1):
        if isinstance(values, Values):  # all of them, or there would be parts
            counts[values] = filled(f"m{i}")
            sums[values] = joined(filled(f"h{i}"), filled(f"l{i}"))
    units = filled("p") if "p" in found else np.zeros(0, dtype=np.int64)
    keys = {int(name[1:]): found[name] for name in found if name[0] == "k" and name[1:].isdigit()}
    return Totals(filled("n"), counts, sums, units, groups=numbers if groups is None else None, keys=keys)


MOST_KEPT = 1 << 22
"""Numbers that are kept of earlier totals, in all: 32 MB."""


MOST_LOOKS = 1 << 12
"""Looks at the rows whose outcome is kept."""


class RecentTotals:
    """Exact totals that were computed lately, for statements that need no more than those had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[Any, ...], tuple[Bounded, Totals]] = {}
        """By what was asked; the latest is the last."""
        self._beyond: dict[tuple[Any, ...], bool] = {}

    def find(self, bounded: Bounded, *, key: tuple[int, int]) -> Totals | None:
        """The totals of an earlier statement over the same rows that read all that this one reads."""
        with self._lock:
            for known, (earlier, found) in reversed(self._kept.items()):
                if known[0] == key and earlier.covers(bounded):
                    self._kept[known] = self._kept.pop(known)
                    return found
        return None

    def keep(self, bounded: Bounded, found: Totals, *, groups: int | None, key: tuple[int, int]) -> None:
        """Keep totals, and drop those that were not asked for the longest time where there is no room for both."""
        if groups is None or groups * bounded.width > MOST_KEPT:
            return
        found.freeze()
        with self._lock:
            self._kept[key, bounded.text, groups * bounded.width] = bounded, found
            while sum(size for _, _, size in self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]

    def beyond(self, bounded: Bounded, *, key: tuple[int, int]) -> bool | None:
        """Whether some unit was not surely within its limits when the same rows were looked at; None if they were
        not."""
        return self._beyond.get((key, bounded.rows))

    def note_beyond(self, bounded: Bounded, beyond: bool, *, key: tuple[int, int]) -> None:
        """Keep what a look at the rows has found."""
        with self._lock:
            if bounded.rows and len(self._beyond) < MOST_LOOKS:
                self._beyond[key, bounded.rows] = beyond


T = TypeVar("T")


def interruptible(work: Callable[[], T], *, stop: Callable[[], None]) -> T:
    """What `work` returns or raises. On Ctrl-C `stop` is called, `work` is waited for, and KeyboardInterrupt raised."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        found = pool.submit(work)
        try:
            return found.result()
        except KeyboardInterrupt:
            stop()
            wait([found])
            raise
