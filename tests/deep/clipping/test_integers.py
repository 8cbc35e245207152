"""Clipped gradients as integers: exact, short enough, and what one gets by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from deniable.deep.clipping import ClippingEngine
from tests.deep.models import cross_entropy, network, table


def by_hand(model: nn.Module, x: torch.Tensor, y: torch.Tensor, *, clip: float, bits: int) -> dict[str, torch.Tensor]:
    """One backward pass per example, in double precision, cut towards 0."""
    sums = {name: torch.zeros(p.shape, dtype=torch.int64) for name, p in model.named_parameters()}
    for row in range(len(x)):
        model.zero_grad()
        cross_entropy(model(x[row : row + 1]), y[row : row + 1]).sum().backward()
        gradients = {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}
        norm = math.sqrt(sum(float(g.square().sum()) for g in gradients.values()))
        for name, gradient in gradients.items():
            sums[name] += torch.trunc(gradient * 2.0**bits * (1 - 2.0**-40) / max(norm, clip)).long()
    return sums


@pytest.mark.parametrize("clip", [0.1, 1.0, 100.0])
def test_sums_are_those_by_hand(clip: float) -> None:
    x, y = table(30)
    sums, norms, losses, _ = ClippingEngine(network(), cross_entropy, bits=10)((x, y), clip=clip)
    expected = by_hand(network(), x, y, clip=clip, bits=10)
    for name, each in sums.items():
        assert each.dtype == torch.int64
        # The gradients of both ways differ in their last float bits, which may fall on either side of a cut.
        assert int((each - expected[name]).abs().max()) <= 3
    torch.testing.assert_close(losses, cross_entropy(network()(x), y).detach())
    assert norms.shape == (30,)


@pytest.mark.parametrize("bits", [4, 20, 30])
def test_no_unit_is_longer_than_the_sensitivity(bits: int) -> None:
    x, y = table(50)
    many = ClippingEngine(network(), cross_entropy, bits=bits)
    for row in range(50):
        sums = many((x[row : row + 1] * 30, y[row : row + 1]), clip=0.01).sums
        length = sum(int(n) ** 2 for each in sums.values() for n in each.reshape(-1).tolist())
        assert 0 < length <= 4**bits


def test_the_order_of_rows_does_not_matter() -> None:
    x, y = table(64)
    many = ClippingEngine(network(), cross_entropy, bits=20)
    one = many((x, y), clip=0.5).sums
    halves = [many((x[s], y[s]), clip=0.5).sums for s in (slice(32, 64), slice(32))]
    for name, each in one.items():
        assert int((each - halves[0][name] - halves[1][name]).abs().max()) <= 2


def test_masked_and_broken_rows_are_nothing() -> None:
    x, y = table(6)
    broken = x.clone()
    broken[1], broken[2] = math.nan, math.inf
    mask = torch.tensor([True, True, True, False, True, True])
    many = ClippingEngine(network(), cross_entropy, bits=20)
    sums, norms, losses, _ = many((broken, y), clip=0.5, mask=mask)
    kept = many((x[[0, 4, 5]], y[[0, 4, 5]]), clip=0.5).sums
    for name, each in sums.items():
        assert int((each - kept[name]).abs().max()) <= 2
    assert norms[1] == norms[2] == math.inf
    assert losses[3] == 0
