"""Sources of random bits. No other module of deniable touches entropy.

`SecureSource` is the keystream of AES-256 in counter mode, keyed by the operating system and rekeyed after every
`REKEY_BYTES`. Within one key the stream is 2**20 distinct blocks, so telling it from true randomness by the absence of
a repeated block succeeds with probability below 2**40 / 2**129; everything beyond that would be a break of AES.

- After a fork the child drops its key and every unread word before it can be used, so it never repeats its parent.
- Threads may share a source; a word is handed out once.
- Copies and pickles of a secure source start from a fresh key: state is never duplicated.
- A snapshot of a whole virtual machine duplicates memory below our sight. Restart the process after restoring one.

`InsecureSource(seed)` repeats itself by design, for tests; its `secure` is False, and a ledger refuses it.
`RecordingSource` wraps a source and remembers every word, so that a run can be counted and replayed.

>>> tape = RecordingSource(InsecureSource(7))
>>> bool((tape.words(3) == tape.replay().words(3)).all()), tape.count
(True, 3)
>>> InsecureSource(7)
InsecureSource(seed=7, insecure: for tests only)
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from deniable.errors import InvalidArgument

Words: TypeAlias = NDArray[np.uint64]

REKEY_BYTES = 1 << 24
"""How many bytes one key encrypts before the operating system is asked for the next key."""

_BLANK = memoryview(bytes(1 << 17))  # what is encrypted: the keystream is the cipher of zeros
_READ_AHEAD = 256  # words kept for callers who want one at a time


@runtime_checkable
class Source(Protocol):
    """Independent uniform 64-bit words."""

    @property
    def secure(self) -> bool:
        """Whether the words are unpredictable; a ledger accepts no other source."""

    def words(self, count: int) -> Words:
        """The next `count` words, in an array of the caller's own."""

    def word(self) -> int:
        """The next word."""


class _Keystream:
    """AES-256-CTR over zeros. `_next_key` of a subclass returns a key (32 bytes) and a first counter (16 bytes)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._cipher: Any = None
        self._left = 0
        self._buffer: list[int] = []

    def _next_key(self) -> bytes:
        raise TypeError(f"{type(self).__name__} does not say where keys come from")

    def _check_owner(self) -> None:
        """Called with the lock held, before every read."""

    def words(self, count: int) -> Words:
        with self._lock:
            self._check_owner()
            return self._generate(count)

    def word(self) -> int:
        with self._lock:
            self._check_owner()
            if not self._buffer:
                self._buffer = self._generate(_READ_AHEAD).tolist()
            return self._buffer.pop()

    def _generate(self, count: int) -> Words:
        size = 8 * count
        room = np.empty(size + 16, dtype=np.uint8)  # the cipher asks for one spare block
        view = room.data
        done = 0
        while done < size:
            if self._left == 0:
                key = self._next_key()
                self._cipher = Cipher(algorithms.AES256(key[:32]), modes.CTR(key[32:])).encryptor()
                self._left = REKEY_BYTES
            step = min(size - done, self._left, len(_BLANK))
            self._cipher.update_into(_BLANK[:step], view[done:])
            self._left -= step
            done += step
        return room[:size].view(np.uint64)


class SecureSource(_Keystream):
    """Unpredictable words, safe across forks and threads. Needs no arguments; `secure()` is the shared one."""

    secure = True

    def __init__(self) -> None:
        super().__init__()
        _LIVE.add(self)

    def _reset(self) -> None:
        super()._reset()
        self._owner = os.getpid()

    def _check_owner(self) -> None:
        # The fork hook has already run where Python forks; this catches a fork made by foreign code.
        if self._owner != os.getpid():
            self._reset()

    def _next_key(self) -> bytes:
        return os.urandom(48)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held the old one
        self._reset()

    def __reduce__(self) -> tuple[Any, ...]:
        return SecureSource, ()

    def __repr__(self) -> str:
        return "SecureSource()"


_LIVE: weakref.WeakSet[SecureSource] = weakref.WeakSet()


def _forget_in_child() -> None:
    for source in list(_LIVE):
        source._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class InsecureSource(_Keystream):
    """Words that a seed repeats on every machine. For tests only: whoever knows the seed can remove the noise.

    Args:
        seed: a whole number.
    """

    secure = False

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InvalidArgument("seed", seed, "a whole number")
        self.seed = seed
        self._keys = 0
        super().__init__()

    def _next_key(self) -> bytes:
        self._keys += 1
        return hashlib.sha384(f"deniable insecure {self.seed} {self._keys}".encode()).digest()

    def __reduce__(self) -> tuple[Any, ...]:
        return InsecureSource, (self.seed,)

    def __repr__(self) -> str:
        return f"InsecureSource(seed={self.seed}, insecure: for tests only)"


class RecordingSource:
    """Passes on the words of another source and records them. Not secure: the record is a copy of the noise.

    Args:
        inner: the source whose words are recorded.
    """

    secure = False

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._blocks: list[Words] = []
        self.count = 0

    def words(self, count: int) -> Words:
        block = self._inner.words(count)
        self._blocks.append(block.copy())
        self.count += count
        return block

    def word(self) -> int:
        word = self._inner.word()
        self._blocks.append(np.array([word], dtype=np.uint64))
        self.count += 1
        return word

    @property
    def record(self) -> Words:
        """Every word handed out so far, in order."""
        return np.concatenate([np.empty(0, dtype=np.uint64), *self._blocks])

    def replay(self) -> ReplaySource:
        """A source that gives the same words again, then stops."""
        return ReplaySource(self.record)

    def __repr__(self) -> str:
        return f"RecordingSource({self._inner!r}, {self.count} words, insecure: for tests only)"


class ReplaySource:
    """Returns recorded words in order. Asking for more is an error, never silent fresh randomness.

    Args:
        words: the words, as `RecordingSource.record` returns them.
    """

    secure = False

    def __init__(self, words: Words) -> None:
        self._words = np.asarray(words, dtype=np.uint64)
        self.count = 0

    def words(self, count: int) -> Words:
        start, stop = self.count, self.count + count
        if stop > len(self._words):
            raise InvalidArgument(
                "count", count, f"at most the {len(self._words) - start} words left to replay",
                "Replay the same calls in the same order.",
            )  # fmt: skip
        self.count = stop
        return self._words[start:stop].copy()

    def word(self) -> int:
        return int(self.words(1)[0])

    def __repr__(self) -> str:
        return f"ReplaySource({len(self._words) - self.count} words left, insecure: for tests only)"


_SHARED = SecureSource()


def secure() -> SecureSource:
    """The process's secure source, which every sampler uses unless it is given another."""
    return _SHARED


# Numbers that protect nobody: for rows drawn from what is already released, and for fixed starting points. They stand
# here so that one room answers for all randomness.

UnprotectedNumbers: TypeAlias = np.random.Generator
"""A generator of NumPy."""


def fresh_numbers() -> UnprotectedNumbers:
    """Other numbers every time."""
    return np.random.default_rng(secure().words(4).tolist())


def fixed_numbers(seed: int) -> UnprotectedNumbers:
    """The same numbers every time."""
    return np.random.default_rng(seed)
