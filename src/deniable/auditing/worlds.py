"""Running a mechanism in one world or the other, alone or on many workers, and seeing all that an observer sees.

A run shows its output or its exception with the text, warnings, what it printed, and the files it wrote. A crash is an
output, and so is a run that took longer than its time-out. With a seed, every round draws from generators seeded by its
number, so that a seeded audit is the same on one core and on fifty; without one, a worker's generators are reseeded by
the operating system for every round.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from deniable.auditing.generators import generators, refreshed, seeded
from deniable.auditing.neighbours import Pair
from deniable.auditing.outputs import Node, Output, crashed, read_output

GROUP = 32
"""Rounds that one worker gets at a time, at most."""

_LARGEST_FILE = 1 << 20


class Caught:
    """Whatever a mechanism raises: `with Caught() as caught: …`, then `caught.error`."""

    error: Exception | None = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return isinstance(error, Exception)


class OutOfTime(BaseException):
    """The audit's own time is up. No `Exception`, so that no mechanism catches it."""


class RunTimedOut(BaseException):
    """One run took longer than its time-out."""


@dataclass(frozen=True)
class Limits:
    """How long one run may take, and when the audit ends (by `time.monotonic`)."""

    timeout: float | None = None
    until: float | None = None

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Interrupt what runs inside when its time is up. Only a process's main thread can be interrupted."""
        left = None if self.until is None else self.until - time.monotonic()
        if left is not None and left <= 0:
            raise OutOfTime
        seconds = min((each for each in (self.timeout, left) if each is not None), default=None)
        if seconds is None or threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(number: int, frame: Any) -> None:
            raise OutOfTime if seconds == left else RunTimedOut

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


class _Files:
    """Files that a run opens for writing, from the interpreter's own audit events."""

    def __init__(self) -> None:
        self._paths: dict[str, None] | None = None
        self._hooked = False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._paths is None or event not in ("open", "sqlite3.connect", "os.mkdir", "os.rename"):
            return
        path = args[1] if event == "os.rename" else args[0]
        if event == "open" and not (
            set(str(args[1] or "")) & set("wax+") or (args[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        ):
            return
        if isinstance(path, str | bytes | os.PathLike):
            self._paths[os.fsdecode(path)] = None

    @contextlib.contextmanager
    def watch(self) -> Iterator[dict[str, None]]:
        """The paths written to inside, in their order."""
        if not self._hooked:
            sys.addaudithook(self._hear)
            self._hooked = True
        outer, self._paths = self._paths, {}
        try:
            yield self._paths
        finally:
            self._paths = outer


_FILES = _Files()


def _contents(paths: dict[str, None]) -> list[Any]:
    """What was left in files."""
    found: list[Any] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            found.append((name, "folder"))
        elif path.is_file():
            data = path.read_bytes()[:_LARGEST_FILE]
            try:
                found.append((name, data.decode()))
            except UnicodeDecodeError:
                found.append((name, data))
    return found


@dataclass(frozen=True)
class Round:
    """What one run gave, and how long it took."""

    output: Output
    seconds: float


def observe(run: Callable[[], Any], limits: Limits = Limits()) -> Round:  # noqa: B008  (frozen)
    """Run something once, and see all that an observer sees."""
    printed, value = io.StringIO(), None
    start = time.perf_counter()
    seconds, timed_out = 0.0, False
    with (
        Caught() as caught,
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        _FILES.watch() as paths,
    ):
        warnings.simplefilter("always")
        try:
            with limits.around():
                start = time.perf_counter()
                value = run()
        except RunTimedOut:
            timed_out = True
        finally:
            seconds = time.perf_counter() - start
    beside: dict[str, Any] = {
        "warnings": [(each.category.__name__, str(each.message)) for each in warned or ()],
        "printed": printed.getvalue(),
        "files": _contents(paths) if paths else [],
    }
    if timed_out:
        return Round(read_output(Node("timed out", ()), **beside), seconds)
    if caught.error is not None:
        return Round(crashed(caught.error, **beside), seconds)
    return Round(read_output(value, **beside), seconds)


@dataclass(frozen=True)
class Trial:
    """What one run showed before the audit."""

    fragile: bool
    """Whether the mechanism changes its input, so that every run needs a copy."""

    seconds: float
    """How long it took."""


@dataclass(frozen=True)
class Worlds:
    """A mechanism and its two inputs."""

    mechanism: Callable[[Any], Any]
    pair: Pair = field(repr=False)
    trial: Trial
    seed: int | None = None
    limits: Limits = field(default_factory=Limits)

    def run(self, second: bool, randomness: AbstractContextManager[None]) -> Round:
        """One run; `second` says whether on D′, `randomness` where it comes from."""
        data = self.pair.second if second else self.pair.first
        if self.trial.fragile:
            data = copy.deepcopy(data)
        with randomness:
            return observe(lambda: self.mechanism(data), self.limits)

    def run_group(self, rounds: Sequence[tuple[int, bool]], *, apart: bool) -> list[Round]:
        """Several numbered runs, one after the other; fewer when time is up.

        `apart`: this is a worker, where the mechanism's generators are copies.
        """
        held = generators(self.mechanism) if apart or self.seed is not None else []
        found: list[Round] = []
        for number, second in rounds:
            try:
                found.append(self.run(second, self._randomness(number, held, apart)))
            except OutOfTime:
                break
        return found

    def _randomness(self, number: int, held: list[Any], apart: bool) -> AbstractContextManager[None]:
        if self.seed is not None:
            return seeded(self.seed, number, self.mechanism, held=held)
        return refreshed(held) if apart else nullcontext()


def run_rounds(worlds: Worlds, rounds: Sequence[tuple[int, bool]], *, n_jobs: int | None) -> list[Round]:
    """Run rounds, in groups on joblib's workers when asked for more than one; raises `OutOfTime` when time is up."""
    # A group is worth the trip to a worker: a tenth of a second or more. Rounds are numbered, so groups change nothing.
    size = max(1, min(GROUP, round(0.1 / max(worlds.trial.seconds, 1e-9))))
    groups = [rounds[start : start + size] for start in range(0, len(rounds), size)]
    parallel = None if n_jobs == 1 or len(groups) == 1 else _joblib()
    if parallel is None:
        found = worlds.run_group(rounds, apart=False)
    else:
        Parallel, delayed = parallel
        done = Parallel(n_jobs=n_jobs)(delayed(worlds.run_group)(group, apart=True) for group in groups)
        found = [each for group in done for each in group]
    if len(found) < len(rounds):
        raise OutOfTime
    return found


def _joblib() -> tuple[Any, Any] | None:
    try:
        from joblib import Parallel, delayed
    except ModuleNotFoundError:
        warnings.warn(
            "joblib is not installed, so the audit runs on one core; run: pip install 'deniable[audit]'",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return Parallel, delayed


def try_out(mechanism: Callable[[Any], Any], data: Any, limits: Limits = Limits()) -> Trial:  # noqa: B008  (frozen)
    """One run, to see how long it takes and whether it leaves its input other than it was.

    An input that cannot be copied or read is given as it is, and taken to be safe.
    """
    with Caught() as unreadable:
        private = copy.deepcopy(data)
        before = _fingerprint(private)
    given = data if unreadable.error is not None else private
    start = time.perf_counter()
    observe(lambda: mechanism(given), limits)
    seconds = time.perf_counter() - start
    return Trial(unreadable.error is None and _fingerprint(private) != before, seconds)


def _fingerprint(data: Any) -> Any:
    """A key of an input: its pickle, which is fast for a million rows, or else what an observer would see of it."""
    with Caught() as unpicklable:
        found: Any = hashlib.blake2b(pickle.dumps(data, protocol=5)).digest()
    return found if unpicklable.error is None else read_output(data).atom
