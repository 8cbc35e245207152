"""Noise has the law that it is named for, on both paths; secure is secure, and the rest says that it is not.

Distances between distribution functions are judged by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart,
P[sup |Fₙ − F| > t] ≤ 2 exp(−2nt²); every test alarms falsely at most once in 10⁷.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deniable import noise
from deniable.deep.randomness import Generator, PhiloxGenerator, SecureGenerator, SeededGenerator, laws
from deniable.deep.randomness.generators import on_cpu, on_device
from deniable.errors import InvalidArgument

ALARM = 1e-7
SIZE = 100_001
LAWS = {"normal": stats.norm.cdf, "laplace": stats.laplace.cdf}


def draw(path: str, law: str, size: int = SIZE, scale: float = 1.0) -> np.ndarray:
    if path == "chacha":
        return on_device(law, size, scale=scale, source=noise.secure(), device=torch.device("cpu")).numpy()
    return on_cpu(law, size, scale=scale, source=noise.secure()).numpy()


@pytest.mark.parametrize("path", ["aes", "chacha"])
@pytest.mark.parametrize("law", LAWS)
def test_noise_has_its_law(path: str, law: str) -> None:
    found = np.sort(draw(path, law, scale=2.5) / 2.5)
    at = LAWS[law](found)
    ranks = np.arange(1, SIZE + 1) / SIZE
    distance = max(np.abs(ranks - at).max(), np.abs(ranks - 1 / SIZE - at).max())
    assert distance < math.sqrt(math.log(2 / ALARM) / (2 * SIZE))


@pytest.mark.parametrize("path", ["aes", "chacha"])
def test_normal_tails_and_variance(path: str) -> None:
    found = draw(path, "normal").astype(np.float64)
    far = int((np.abs(found) > 3).sum())
    assert stats.binomtest(far, SIZE, 2 * stats.norm.sf(3)).pvalue > ALARM
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], SIZE)
    assert low < (found**2).sum() < high


@pytest.mark.parametrize("path", ["aes", "chacha"])
def test_neighbouring_numbers_are_uncorrelated(path: str) -> None:
    """Sums of products of independent normals at several distances; N(0, n) to within the stated alarm."""
    found = draw(path, "normal").astype(np.float64)
    apart = [1, 2, 5, SIZE // 10, SIZE // 5, SIZE // 2]
    limit = stats.norm.isf(ALARM / (2 * len(apart))) * 1.01
    for lag in apart:
        products = found[lag:] * found[:-lag]
        assert abs(products.sum()) / math.sqrt(products.size) < limit


def test_corners_of_the_transform() -> None:
    """The smallest uniform number gives the largest noise; the largest gives next to none; nothing is infinite."""
    ends = torch.tensor([0, -(2**31), 2**31 - 1, -1], dtype=torch.int32)
    lows = torch.tensor([-(2**31), -(2**31), 2**31 - 1, 2**31 - 1], dtype=torch.int32)
    found = laws.exponential(ends, lows)
    assert torch.isfinite(found).all()
    assert float(found[0]) == pytest.approx(64 * math.log(2))
    assert float(found[1]) == float(found[0])
    assert 0 <= float(found[2]) < 1e-15
    assert math.sqrt(2 * float(found.max())) < 9.42


def test_uniform_bits_become_the_right_exponential() -> None:
    high, low = torch.tensor([2**30], dtype=torch.int32), torch.tensor([-(2**31)], dtype=torch.int32)
    assert float(laws.exponential(high, low)) == pytest.approx(math.log(2), abs=1e-15)


@pytest.mark.parametrize("size", [0, 1, 2, 9, 10, 11, 16384, 16385])
def test_any_size(size: int) -> None:
    for law in LAWS:
        for path in ("aes", "chacha"):
            found = draw(path, law, size)
            assert found.shape == (size,)
            assert np.unique(found).size >= size * 0.99


def test_a_seed_repeats_itself_and_steps_differ() -> None:
    one, two = SeededGenerator(3), SeededGenerator(3)
    first = one.noise("normal", 50, scale=1, step=4, device="cpu")
    assert torch.equal(first, two.noise("normal", 50, scale=1, step=4, device="cpu"))
    assert not torch.equal(first, one.noise("normal", 50, scale=1, step=5, device="cpu"))
    assert not torch.equal(first, SeededGenerator(4).noise("normal", 50, scale=1, step=4, device="cpu"))
    assert one.source(4, purpose="sampling").word() != one.source(4, purpose="noise").word()


def test_secure_noise_never_repeats() -> None:
    generator = SecureGenerator()
    first = generator.noise("normal", 50, scale=1, step=4, device="cpu")
    assert not torch.equal(first, generator.noise("normal", 50, scale=1, step=4, device="cpu"))


def test_who_is_secure() -> None:
    kinds = {SecureGenerator(): True, SeededGenerator(1): False, PhiloxGenerator(1): False}
    for generator, secure in kinds.items():
        assert isinstance(generator, Generator)
        assert generator.secure is secure
        assert ("insecure" in repr(generator)) is not secure


def test_philox_has_the_law_too() -> None:
    for law, cdf in LAWS.items():
        found = PhiloxGenerator(2).noise(law, 50_000, scale=3, step=0, device="cpu").numpy() / 3
        assert stats.kstest(found, cdf).statistic < math.sqrt(math.log(2 / ALARM) / (2 * 50_000))


def test_unknown_laws_and_seeds_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="law must be"):
        SecureGenerator().noise("cauchy", 3, scale=1, step=0, device="cpu")
    with pytest.raises(InvalidArgument, match="seed must be"):
        SeededGenerator(True)
