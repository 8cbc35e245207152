"""ChaCha20 in plain torch integers: random bits made where they are used, on any device.

Bernstein's ChaCha with 20 rounds, 256-bit key, 32-bit block counter and 96-bit nonce, as in RFC 8439, section 2.3. A
word is an int32 whose bit pattern is the unsigned word: addition wraps modulo 2³² and a rotation masks the sign that an
arithmetic shift brings in. Every block is computed by one element of a pointwise kernel, so `torch.compile` makes one
pass of it; the test vectors of the RFC are in the tests.

>>> key, nonce = torch.zeros(8, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
>>> f"{int(blocks(key, nonce, count=2)[0][0]) & 0xFFFFFFFF:08x}"
'ade0b876'
"""

from __future__ import annotations

import torch
from torch import Tensor

from deniable.errors import InvalidArgument

WORDS = 16
"""32-bit words in a block."""

LARGEST = 1 << 31
"""Blocks under one key and nonce: half of what the 32-bit counter has, so that it stays a positive int32."""

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def blocks(key: Tensor, nonce: Tensor, *, count: int, first: int = 0) -> list[Tensor]:
    """The 16 words of blocks `first` … `first + count − 1`: word j of every block in the j-th tensor."""
    if not 0 <= first <= first + count <= LARGEST:
        raise InvalidArgument("count", count, f"at most {LARGEST} blocks under one key and nonce")
    places = torch.arange(first, first + count, dtype=torch.int32, device=key.device)
    start = [torch.full_like(places, word) for word in _CONSTANTS]
    start += [key[j].expand_as(places) for j in range(8)]
    start += [places, *(nonce[j].expand_as(places) for j in range(3))]
    state = list(start)
    for _ in range(10):
        for group in (*_COLUMNS, *_DIAGONALS):
            _quarter(state, *group)
    return [mixed + word for mixed, word in zip(state, start, strict=True)]


def _quarter(state: list[Tensor], a: int, b: int, c: int, d: int) -> None:
    """The quarter round of RFC 8439, section 2.1."""
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = state[x] + state[y]
        state[z] = _rotated(state[z] ^ state[x], bits)


def _rotated(word: Tensor, bits: int) -> Tensor:
    """A word rotated to the left."""
    return (word << bits) | ((word >> (32 - bits)) & ((1 << bits) - 1))
