"""Where a training run's randomness comes from, and how noise is made of it on the device where it is needed.

| generator | bits | secure |
|---|---|---|
| `SecureGenerator()` | CPU: AES-256-CTR (`deniable.noise`); GPU: ChaCha20 under a key drawn anew for every step | yes |
| `SeededGenerator(seed)` | the same code under keys that a seed repeats | no: for tests |
| `PhiloxGenerator(seed)` | torch's own generator | no: its state can be recovered from its output |

A ledger refuses a generator that is not secure. No key is ever written down: a resumed run draws fresh keys, so noise
is never repeated. Only a seeded run, which is addressed by its step, repeats itself, and then exactly.

On a CPU noise is made in double precision, piece by piece in its cache, and added there: fresh memory would cost as
much as the logarithms, and a sum and its noise are rounded once, together.

>>> SeededGenerator(3).noise("normal", 5, scale=2.0, step=0, device="cpu").shape
torch.Size([5])
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from deniable import noise
from deniable.deep.randomness import chacha, laws
from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, Source
from deniable.noise.source import Words

PIECE = 1 << 15
"""Columns of words turned into noise at a time on the CPU: they stay in its cache."""

OnDevice: TypeAlias = Callable[[Tensor], Tensor]
OnCpu: TypeAlias = Callable[[Words, float, Tensor], tuple[Tensor, ...]]

_LAWS: dict[str, tuple[OnDevice, OnCpu, int]] = {
    "normal": (laws.normal, laws.normal_pair, 2),
    "laplace": (laws.laplace, laws.laplace_one, 1),
}
"""By name: on a device, on a CPU, and how many numbers a column of words gives."""


@runtime_checkable
class Generator(Protocol):
    """Randomness for the steps of one run."""

    @property
    def secure(self) -> bool:
        """Whether nobody can predict it; a ledger accepts no other."""

    def source(self, step: int, *, purpose: str) -> Source:
        """Words for the sampler."""

    def noise(self, law: str, size: int, *, scale: float, step: int, device: torch.device | str) -> Tensor:
        """`size` independent numbers of a scale from "normal" or "laplace", on the device."""

    def add(self, law: str, sums: Sequence[Tensor], *, scale: float, step: int) -> None:
        """Add a number of its own to every number of the sums, in place."""


class SecureGenerator:
    """Unpredictable, fresh for every step and every process."""

    secure = True

    def source(self, step: int, *, purpose: str) -> Source:
        return noise.secure()

    def noise(self, law: str, size: int, *, scale: float, step: int, device: torch.device | str) -> Tensor:
        out = torch.empty(size, device=device)
        source = self.source(step, purpose="noise")
        for part, row in _along([out], self._rows(law, size, scale, source, out.device)):
            part.copy_(row)
        return out

    def add(self, law: str, sums: Sequence[Tensor], *, scale: float, step: int) -> None:
        source = self.source(step, purpose="noise")
        for device in sorted({each.device for each in sums}, key=str):
            here = [each for each in sums if each.device == device]
            flat = [each.reshape(-1) for each in here]
            pairs = _along(flat, self._rows(law, sum(each.numel() for each in flat), scale, source, device))
            if device.type == "cpu":
                for part, row in pairs:
                    if row.dtype == part.dtype:
                        part.add_(row)
                    else:
                        part.copy_(row.add_(part))
            elif whole := list(pairs):  # in few launches
                torch._foreach_add_([part for part, _ in whole], [row for _, row in whole])
            for each, added in zip(here, flat, strict=True):
                if added.data_ptr() != each.data_ptr():  # its numbers do not lie in order: a copy was made
                    each.copy_(added.view_as(each))

    def _rows(self, law: str, size: int, scale: float, source: Source, device: torch.device) -> Iterator[Tensor]:
        """`size` numbers in succession: on a CPU in rows, each of which the next overwrites, elsewhere in one."""
        if device.type == "cpu":
            yield from on_cpu(law, size, scale=scale, source=source)
        elif device.type == "cuda":
            yield on_device(law, size, scale=scale, source=source, device=device)
        else:  # a device without double precision
            yield torch.cat([row.float() for row in on_cpu(law, size, scale=scale, source=source)]).to(device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class SeededGenerator(SecureGenerator):
    """The same for the same seed and step. For tests only: whoever knows the seed can remove the noise."""

    secure = False

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise InvalidArgument("seed", seed, "a whole number")
        self.seed = seed

    def source(self, step: int, *, purpose: str) -> Source:
        name = f"deniable training {self.seed} {purpose} {step}"
        return InsecureSource(int.from_bytes(hashlib.sha256(name.encode()).digest()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed}, insecure: for tests only)"


class PhiloxGenerator(SeededGenerator):
    """Noise from torch's generator: fast and insecure. For comparisons; a ledger refuses it."""

    def _rows(self, law: str, size: int, scale: float, source: Source, device: torch.device) -> Iterator[Tensor]:
        _law(law)
        bits = torch.Generator(device).manual_seed(source.word() >> 1)
        row = torch.empty(max(1, min(size, 2 * PIECE) if device.type == "cpu" else size), device=device)
        for start in range(0, size, len(row)):
            if law == "normal":
                row.normal_(0, scale, generator=bits)
            else:
                signs = torch.empty_like(row).uniform_(-1, 1, generator=bits)
                row.exponential_(generator=bits).mul_(scale).copysign_(signs)
            yield row[: size - start]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed}, insecure: Philox can be predicted)"


def on_cpu(law: str, size: int, *, scale: float, source: Source) -> Iterator[Tensor]:
    """Noise from a source's words: rows of doubles in memory that is used again for the next."""
    _, transform, each = _law(law)
    room = torch.empty(laws.ROWS * min(PIECE, size + 1), dtype=torch.float64)
    while size > 0:
        columns = min(PIECE, -(-size // each))
        columns += columns % 2  # whole 64-bit words
        for row in transform(
            source.words(laws.WORDS * columns // 2), scale, room[: laws.ROWS * columns].view(laws.ROWS, -1)
        ):
            yield row[:size]
            size = max(0, size - columns)


def on_device(law: str, size: int, *, scale: float, source: Source, device: torch.device) -> Tensor:
    """Noise from ChaCha20 on the device, under a key drawn for this call alone."""
    transform, _, each = _law(law)
    key = torch.from_numpy(source.words(4).view(np.int32)).to(device, non_blocking=True)
    per_block = chacha.WORDS // laws.WORDS * each
    count = -(-size // per_block)
    make = _compiled() if device.type == "cuda" else chacha_noise
    return make(key, transform, count, scale)[:size]


def chacha_noise(key: Tensor, transform: Callable[[Tensor], Tensor], count: int, scale: float) -> Tensor:
    """All the noise of `count` blocks: five groups of three words, one word in sixteen unused."""
    words = chacha.blocks(key, torch.zeros(3, dtype=torch.int32, device=key.device), count=count)
    groups = [torch.stack(words[j : j + laws.WORDS]) for j in range(0, chacha.WORDS - 1, laws.WORDS)]
    return torch.cat([(transform(group) * scale).float() for group in groups])


@lru_cache(maxsize=1)
def _compiled() -> Callable[[Tensor, Callable[[Tensor], Tensor], int, float], Tensor]:
    """One kernel for every size: compiled, the thousand integer operations of a block stay in registers."""
    return torch.compile(chacha_noise, dynamic=True)


def _along(sums: Iterable[Tensor], rows: Iterator[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Flat sums and rows of noise, cut into pairs of one length."""
    row = torch.empty(0)
    for left in sums:
        while left.numel():
            if not row.numel():
                row = next(rows)
            many = min(left.numel(), row.numel())
            yield left[:many], row[:many]
            left, row = left[many:], row[many:]


def _law(law: str) -> tuple[OnDevice, OnCpu, int]:
    if law not in _LAWS:
        raise InvalidArgument("law", law, f"one of {', '.join(_LAWS)}")
    return _LAWS[law]
