"""Two neighbours, one call each, and everything that can be seen of it.

The law: whichever single unit is added, removed or changed, everything observable except the noisy values is the same.
An `EntryPoint` is one public way to private data, with the hostile units to try on it. `observe` calls it in an empty
`World` with all randomness pinned and writes down what can be seen; two `Observation`s are equal, or `difference` says
in which lines they are not.

A file of this folder registers its entry points in a list `ENTRY_POINTS`:

    def call(world, unit):
        rows = [1.0, 2.0, 3.0] if unit is None else [1.0, 2.0] if unit is REMOVED else [1.0, 2.0, 3.0, unit]
        return mechanisms.sum_of(bounds=(0, 9), epsilon=1)(rows)

    ENTRY_POINTS = [
        EntryPoint(
            "mechanisms.sum_of, list",
            covers=("deniable.mechanisms.Sum.__call__",),
            hostile={"removed": REMOVED, **hostile.NUMBERS, **hostile.WRONG_TYPES},
            call=call,
        )
    ]

`call(world, None)` is D and must succeed. `call(world, REMOVED)` is D without one of its own units. Anything else is a
hostile unit in a form that `call` understands: a value, a row, a list of rows. The neighbour is made under the relation
of the entry: a unit is added under ADD_REMOVE, and takes another one's place under REPLACE.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import hashlib
import io
import itertools
import logging
import os
import pprint
import random
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from deniable.guarantees import ApproxDP, Guarantee
from deniable.ledger import Ledger
from deniable.noise import InsecureSource, source
from deniable.units import Unit
from tests.laws.neighbours.shapes import Shape, chain_of, shape_of, words

REMOVED = object()
"""Asks `call` for D without one of its own units; the label is "removed"."""

EVERYTHING = "everything at once"
"""The label of a neighbour with all hostile rows together, where a call is slow. If it breaks the law, the soak says
which row does."""

BUDGET = ApproxDP(1000, 1e-2)
"""A budget that no entry point exhausts."""


@dataclass(frozen=True, eq=False)
class EntryPoint:
    """One public way to private data.

    Args:
        name: unique and readable: "Session.sql, DuckDB, CSV file".
        covers: the dotted public names that it exercises, and commands: "deniable.Session.sql", "deniable query".
        hostile: the hostile units by label.
        call: `call(world, unit)` builds the data, calls the entry point and returns what is released.
        shape: what of the release may not depend on a unit. Another than `shape_of` where keys or lengths are noise.
        mix: makes a random hostile unit, of several rows and values at once, for the soak. None: one of `hostile`.
        sample: how many of `hostile` the ordinary run tries, where a call is slow (`ordinary_labels`); the soak: all.
        needs: fixtures of pytest that `call` finds under `world.fixtures`: "postgres", "spark".
    """

    name: str
    covers: tuple[str, ...]
    hostile: Mapping[str, Any]
    call: Callable[[World, Any], Any]
    shape: Callable[[Any], Shape] = shape_of
    mix: Callable[[random.Random], Any] | None = None
    sample: int | None = None
    needs: tuple[str, ...] = ()


def ordinary_labels(entries: Iterable[EntryPoint]) -> dict[str, list[str]]:
    """Which hostile units the ordinary run tries on each entry point.

    Entry points with the same units deal them out like one deck of cards, so that together they try every unit before
    one is tried twice. Each also loses one of its own, and gets everything at once where it has such a neighbour.
    """
    decks: dict[frozenset[str], Iterator[str]] = {}
    chosen: dict[str, list[str]] = {}
    for entry in entries:
        every = list(entry.hostile)
        if entry.sample is None or entry.sample >= len(every):
            chosen[entry.name] = every
            continue
        shuffled = random.Random(len(every)).sample(every, len(every))
        deck = decks.setdefault(frozenset(every), itertools.cycle(shuffled))
        mine = set(itertools.islice(deck, entry.sample)) | ({"removed", EVERYTHING} & entry.hostile.keys())
        chosen[entry.name] = [label for label in every if label in mine]
    return chosen


@dataclass
class World:
    """Where one call happens: an empty folder that is the current directory, a seed, and what the entry point needs."""

    folder: Path
    seed: int = 0
    fixtures: Mapping[str, Any] = field(default_factory=dict)
    ledgers: list[Ledger] = field(default_factory=list)
    inputs: set[Path] = field(default_factory=set)
    """Files that hold the data; their content is not observed."""

    @property
    def source(self) -> InsecureSource:
        """A source of noise that repeats itself, for entry points that take one."""
        return InsecureSource(self.seed)

    def ledger(
        self, *, unit: Unit | str = "patient_id", budget: Guarantee = BUDGET, path: str = "study.ledger", **terms: Any
    ) -> Ledger:
        """A new ledger, whose charges are observed. A relative path is in the folder; an address may name a server."""
        return self.watch(Ledger.create(path, unit=unit, budget=budget, **terms))

    def watch(self, ledger: Ledger) -> Ledger:
        """Observe the charges of a ledger outside the folder, too."""
        self.ledgers.append(ledger)
        return ledger

    def input(self, name: str) -> Path:
        """The relative path of a file that will hold data, for entry points that write it themselves."""
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.inputs.add(path)
        return path

    def write(self, name: str, content: str | bytes) -> Path:
        """A file that holds data, by its relative path."""
        path = self.input(name)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8", newline="")
        return path

    def command(self, *arguments: str) -> Command:
        """Run `deniable ARGUMENTS` in this process, as the console script does."""
        from deniable.cli import main

        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out), mock.patch.object(sys, "argv", ["deniable", *arguments]):
            try:
                main()
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0
        return Command(code, words(out.getvalue()))


@dataclass(frozen=True)
class Command:
    """What a command did: its exit code, and the words it printed (numbers are noise). What it wrote to standard error
    is observed as it is."""

    code: int
    words: str

    def __shape__(self) -> Shape:
        return "exit code", self.code, self.words


@dataclass(frozen=True)
class Observation:
    """Everything that can be seen of one call, but for the noisy values."""

    outcome: str
    """"returned", or the types and messages of the exception and of all that it came from."""
    shape: Shape
    warnings: tuple[tuple[str, str], ...]
    logs: tuple[tuple[str, str, str], ...]
    stdout: str
    stderr: str
    charges: tuple[tuple[Any, ...], ...]
    files: tuple[str, ...]
    contents: tuple[tuple[str, str], ...]
    """The words of text files that the call wrote; numbers are noise."""

    @property
    def succeeded(self) -> bool:
        return self.outcome == "returned"


def observe(
    entry: EntryPoint, unit: Any = None, *, seed: int = 0, fixtures: Mapping[str, Any] | None = None
) -> Observation:
    """Call an entry point in an empty world, with all randomness pinned to the seed, and write down what is seen."""
    with _world(seed, fixtures or {}) as world, _pinned(seed), _streams() as streams, _logs() as logs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # when a file is closed is up to the garbage collector
            try:
                result = entry.call(world, unit)
                outcome, shape = "returned", entry.shape(result)
                del result
            except Exception as error:  # noqa: BLE001  every exception is an observation
                outcome, shape = "\n".join(f"{kind}: {text}" for kind, text in chain_of(error)), None
        files = _files(world.folder)
        contents = _contents(world, files)
        charges = _charges(world)
        stdout, stderr = streams()
    return Observation(
        outcome=outcome,
        shape=shape,
        warnings=tuple((one.category.__name__, str(one.message)) for one in caught),
        logs=tuple((one.name, one.levelname, one.getMessage()) for one in logs),
        stdout=stdout,
        stderr=stderr,
        charges=charges,
        files=files,
        contents=contents,
    )


def difference(first: Observation, second: Observation) -> str:
    """Where two observations differ, as a diff of their lines; empty when they are equal."""
    lines: list[str] = []
    for one in fields(Observation):
        before, after = getattr(first, one.name), getattr(second, one.name)
        if before != after:
            diff = difflib.unified_diff(_lines(before), _lines(after), "without the unit", "with it", lineterm="", n=1)
            lines += [f"{one.name}:", *(f"    {line}" for line in diff)]
    return "\n".join(lines)


def _lines(value: object) -> list[str]:
    text = value if isinstance(value, str) else pprint.pformat(value, width=110)
    return text.splitlines()


# the world


@cache
def _home() -> Path:
    """A folder of this process; every world has the same path, so messages that name it are the same."""
    path = Path(tempfile.mkdtemp(prefix="neighbours-")).resolve()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


@contextlib.contextmanager
def _world(seed: int, fixtures: Mapping[str, Any]) -> Iterator[World]:
    folder = _home() / "world"
    folder.mkdir(exist_ok=True)
    _empty(folder)
    before = Path.cwd()
    os.chdir(folder)
    world = World(folder, seed, fixtures)
    try:
        yield world
    finally:
        for ledger in world.ledgers:
            ledger.close()
        os.chdir(before)
        _empty(folder)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _files(folder: Path) -> tuple[str, ...]:
    """The names of all files; the side files of a database come and go with its connections."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return tuple(sorted(name for name in names if not name.endswith(("-wal", "-shm", "-journal"))))


TEXTS = {".csv", ".json", ".jsonl", ".md", ".toml", ".txt"}
"""Files of these kinds are read; pages and pictures are drawn from noisy numbers."""


def _contents(world: World, files: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    written = [name for name in files if Path(name).suffix in TEXTS and Path(name) not in world.inputs]
    return tuple((name, words((world.folder / name).read_text("utf-8", "replace"))) for name in written)


def _charges(world: World) -> tuple[tuple[Any, ...], ...]:
    """Every row of every ledger: where, what, why and for whom."""
    places = {ledger.place for ledger in world.ledgers}
    found = [(Path(ledger.place).name, ledger) for ledger in world.ledgers]
    for path in sorted(world.folder.rglob("*")):
        watched = any(Path(place).exists() and path.samefile(place) for place in places)
        if not watched and path.is_file() and path.read_bytes().startswith(b"SQLite format 3"):
            found.append((str(path.relative_to(world.folder)), world.watch(Ledger.open(path))))
    return tuple(
        (name, charge.purpose, charge.who, charge.key, charge.event.to_json())
        for name, ledger in found
        for charge in ledger.charges()
    )


# what is seen beside the result


@contextlib.contextmanager
def _streams() -> Iterator[Callable[[], tuple[str, str]]]:
    """Standard output and error, of Python and of libraries that write to the descriptors themselves."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        below = [stack.enter_context(_descriptor(number)) for number in (1, 2)]
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        yield lambda: (out.getvalue() + below[0](), err.getvalue() + below[1]())


@contextlib.contextmanager
def _descriptor(number: int) -> Iterator[Callable[[], str]]:
    with tempfile.TemporaryFile() as target:
        saved = os.dup(number)
        os.dup2(target.fileno(), number)

        def content() -> str:
            target.seek(0)
            return target.read().decode("utf-8", "replace")

        try:
            yield content
        finally:
            os.dup2(saved, number)
            os.close(saved)


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or record.name.partition(".")[0] == "deniable":
            self.records.append(record)


@contextlib.contextmanager
def _logs() -> Iterator[list[logging.LogRecord]]:
    """Log records: all of deniable's, and warnings of everybody else."""
    handler, root, own = _Records(), logging.getLogger(), logging.getLogger("deniable")
    level = own.level
    root.addHandler(handler)
    own.setLevel(logging.DEBUG)
    try:
        yield handler.records
    finally:
        own.setLevel(level)
        root.removeHandler(handler)


@contextlib.contextmanager
def _pinned(seed: int) -> Iterator[None]:
    """Pin every source of randomness: the operating system's, and the seeds of random, NumPy and torch.

    Secure sources keep saying that they are secure, so a ledger accepts them; their keys come from the seed. Before
    and after, every live source forgets its key, so nothing pinned is used outside.
    """
    state, numpy_state = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch else None
    entropy = _Entropy(seed)
    _forget_keys()
    try:
        with mock.patch("os.urandom", entropy), mock.patch("random._urandom", entropy):
            random.seed(seed)
            np.random.seed(seed % 2**32)
            if torch:
                torch.manual_seed(seed)
            yield
    finally:
        _forget_keys()
        random.setstate(state)
        np.random.set_state(numpy_state)
        if torch:
            torch.set_rng_state(torch_state)


class _Entropy:
    """Bytes in place of the operating system's, from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed, self._count, self._lock = seed, 0, threading.Lock()

    def __call__(self, size: int) -> bytes:
        with self._lock:
            self._count += 1
            return hashlib.shake_256(f"pinned {self._seed} {self._count}".encode()).digest(size)


def _forget_keys() -> None:
    for live in list(source._LIVE):
        with live._lock:
            live._reset()
