"""Running a mechanism in one world or the other, alone or on many workers, without trusting it.

A crash is an output. With a seed, every round draws from generators seeded by its number, so that a seeded audit is
the same on one core and on fifty.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from deniable.auditing.neighbours import Pair
from deniable.auditing.outputs import Output, crashed, read_output
from deniable.auditing.recording import seeded

GROUP = 32
"""Rounds that one worker gets at a time, at most."""


class Caught:
    """Whatever a mechanism raises: `with Caught() as caught: …`, then `caught.error`."""

    error: Exception | None = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if isinstance(error, Exception):
            self.error = error
        return isinstance(error, Exception)


@dataclass(frozen=True)
class Round:
    """What one run gave, and how long it took."""

    output: Output
    seconds: float


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

    def run(self, number: int, second: bool) -> Round:
        """One run; `number` is the round, `second` whether it runs on D′."""
        data = self.pair.second if second else self.pair.first
        if self.trial.fragile:
            data = copy.deepcopy(data)
        start = time.perf_counter()
        with Caught() as caught, seeded(self.seed, number, self.mechanism):
            start = time.perf_counter()
            value = self.mechanism(data)
        seconds = time.perf_counter() - start
        return Round(crashed(caught.error) if caught.error is not None else read_output(value), seconds)

    def group(self, rounds: Sequence[tuple[int, bool]]) -> list[Round]:
        """Several runs, one after the other."""
        return [self.run(number, second) for number, second in rounds]


def play(worlds: Worlds, rounds: Sequence[tuple[int, bool]], *, n_jobs: int | None) -> list[Round]:
    """Run rounds, in groups on joblib's workers when asked for more than one."""
    # A group is worth the trip to a worker: a tenth of a second or more. Rounds are numbered, so groups change nothing.
    size = max(1, min(GROUP, round(0.1 / max(worlds.trial.seconds, 1e-9))))
    groups = [rounds[start : start + size] for start in range(0, len(rounds), size)]
    if n_jobs == 1 or len(groups) == 1:
        return worlds.group(rounds)
    try:
        from joblib import Parallel, delayed
    except ModuleNotFoundError:
        warnings.warn(
            "joblib is not installed, so the audit runs on one core; run: pip install 'deniable[audit]'",
            RuntimeWarning,
            stacklevel=3,
        )
        return worlds.group(rounds)
    done = Parallel(n_jobs=n_jobs)(delayed(worlds.group)(group) for group in groups)
    return [found for group in done for found in group]


def try_out(mechanism: Callable[[Any], Any], data: Any) -> Trial:
    """One run, to see how long it takes and whether it leaves its input other than it was.

    An input that cannot be copied or read is given as it is, and taken to be safe.
    """
    with Caught() as unreadable:
        private = copy.deepcopy(data)
        before = read_output(private).atom
    start = time.perf_counter()
    with Caught():
        mechanism(data if unreadable.error is not None else private)
    seconds = time.perf_counter() - start
    return Trial(unreadable.error is None and read_output(private).atom != before, seconds)
