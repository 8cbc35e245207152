"""Noise has the law that it is named for, on both paths; secure is secure, and the rest says that it is not.

Distances between distribution functions are judged by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart,
P[sup |Fₙ − F| > t] ≤ 2 exp(−2nt²); every test alarms falsely at most once in 10⁷.
"""

from __future__ import annotations

import math

import mpmath
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
    rows = on_cpu(law, size, scale=scale, source=noise.secure())
    return np.concatenate([np.empty(0), *(row.numpy().copy() for row in rows)])


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


def test_corners_of_the_transform_on_a_cpu() -> None:
    """Word 0 and its complement are the smallest uniform number, the ends of the range the largest."""
    words = np.array([0, -1, 2**63 - 1, -(2**63), 1 << 32, 0], dtype=np.int64).view(np.uint64)
    cosine, sine = laws.normal_pair(words, 2.0, torch.empty(3, 4, dtype=torch.float64))
    largest = 2 * math.sqrt(2 * 64 * math.log(2))
    assert cosine.tolist()[:2] == pytest.approx([largest, largest * math.cos(math.pi / 2**31)])
    assert sine.tolist()[:2] == pytest.approx([0, largest * math.sin(math.pi / 2**31)])
    assert np.abs(cosine.tolist()[2:]).max() < 1e-7
    assert torch.isfinite(cosine).all()
    (laplace,) = laws.laplace_one(words, 2.0, torch.empty(3, 4, dtype=torch.float64))
    assert laplace.tolist() == pytest.approx([128 * math.log(2)] * 2 + [0, 0])


def test_words_of_a_cpu_become_the_numbers_of_the_formula() -> None:
    """Against 30 digits: u = (w + ½)/2⁶³ for the 63-bit w, an angle of 32 bits, and the sign of the third word."""
    columns = 200
    words = noise.secure().words(3 * columns // 2)
    room = torch.empty(3, columns, dtype=torch.float64)
    cosine, sine = (each.tolist() for each in laws.normal_pair(words, 1.5, room.clone()))
    laplace = laws.laplace_one(words, 1.5, room)[0].tolist()
    signed, angles = words[:columns].view(np.int64).tolist(), words[columns:].view(np.int32).tolist()
    with mpmath.workdps(30):
        for at, (x, angle) in enumerate(zip(signed, angles, strict=True)):
            minus = -mpmath.log((mpmath.mpf(x if x >= 0 else ~x) + 0.5) / 2**63)
            radius, turn = 1.5 * mpmath.sqrt(2 * minus), mpmath.pi * angle / 2**31
            assert abs(cosine[at] - radius * mpmath.cos(turn)) < 1e-14
            assert abs(sine[at] - radius * mpmath.sin(turn)) < 1e-14
            assert abs(laplace[at] - (1 if angle >= 0 else -1) * 1.5 * minus) < 1e-13


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


@pytest.mark.parametrize("kind", [SeededGenerator, PhiloxGenerator])
@pytest.mark.parametrize("law", LAWS)
def test_added_noise_is_the_noise_rounded_once(kind: type[SeededGenerator], law: str) -> None:
    """Sums of many shapes, some not laid out in order, some empty; several rows of noise; every number its own."""
    shapes = [(3,), (0,), (500, 301), (7, 11), (1,)]
    sums = [torch.randn(shape) for shape in shapes]
    sums[3] = sums[3].t()
    generator = kind(5)
    flat = torch.cat([each.reshape(-1) for each in sums])
    rows = generator._rows(law, flat.numel(), 3.0, generator.source(2, purpose="noise"), flat.device)
    drawn = torch.cat([row.clone() for row in rows])
    given = list(sums)
    generator.add(law, sums, scale=3.0, step=2)
    assert all(one is two for one, two in zip(sums, given, strict=True))
    assert torch.equal(torch.cat([each.reshape(-1) for each in sums]), (flat + drawn).float())
    assert torch.equal(generator.noise(law, flat.numel(), scale=3.0, step=2, device="cpu"), drawn.float())
    assert len(torch.unique(drawn)) > 0.99 * len(drawn)


def test_secure_noise_in_double_precision_for_double_sums() -> None:
    sums = torch.zeros(1001, dtype=torch.float64)
    SecureGenerator().add("normal", [sums], scale=1.0, step=0)
    assert (sums != sums.float()).float().mean() > 0.99
