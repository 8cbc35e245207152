"""ChaCha20 against RFC 8439 and against OpenSSL."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from deniable.deep.randomness import chacha
from deniable.errors import InvalidArgument


def words(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype="<i4").copy())


def stream(key: bytes, nonce: bytes, *, first: int, count: int) -> bytes:
    """The keystream, block after block."""
    found = chacha.blocks(words(key), words(nonce), count=count, first=first)
    return torch.stack(found, dim=1).numpy().astype("<i4").tobytes()


# RFC 8439: section 2.3.2, then appendix A.1, vectors 1 to 5: key, nonce, counter, keystream.
VECTORS = [
    (
        bytes(range(32)).hex(), "000000090000004a00000000", 1,
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        "00" * 32, "00" * 12, 0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        "00" * 32, "00" * 12, 1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        "00" * 31 + "01", "00" * 12, 1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        "00ff" + "00" * 30, "00" * 12, 2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        "00" * 32, "00" * 11 + "02", 0,
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "nonce", "counter", "expected"), VECTORS)
def test_vectors_of_the_rfc(key: str, nonce: str, counter: int, expected: str) -> None:
    assert stream(bytes.fromhex(key), bytes.fromhex(nonce), first=counter, count=1).hex() == expected


def test_many_blocks_agree_with_openssl() -> None:
    random = np.random.default_rng(5)
    for first in (0, 7, 2**31 - 40):
        key, nonce = random.bytes(32), random.bytes(12)
        whole = first.to_bytes(4, "little") + nonce
        cipher = Cipher(algorithms.ChaCha20(key, whole), mode=None).encryptor()
        assert stream(key, nonce, first=first, count=40) == cipher.update(bytes(64 * 40))


def test_the_counter_never_wraps() -> None:
    zero = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(InvalidArgument, match="blocks under one key"):
        chacha.blocks(zero, zero[:3], count=2, first=chacha.LARGEST - 1)
