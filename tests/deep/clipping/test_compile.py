"""One small compiled step: the whole of it in one graph, parts included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from tests.deep.clipping.reference import assert_agrees, cross_entropy, gradients, unit_norms


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_step_in_parts() -> None:
    model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 2))
    data = torch.randn(5, 3), torch.randint(0, 2, (5,))
    stacks = gradients(model, cross_entropy, data)
    clip = float(unit_norms(stacks).median())
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile=True, microbatch=3)
    assert_agrees(engine(data, clip=clip), stacks, clip)
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    assert_agrees(engine(data, clip=2 * clip), gradients(model, cross_entropy, data), 2 * clip)
    model[0].weight.data = model[0].weight.data.sin()  # elsewhere in memory
    assert_agrees(engine(data, clip=clip), gradients(model, cross_entropy, data), clip)
    assert len(engine._compiled) == 1


@pytest.mark.filterwarnings("ignore")
def test_equal_sums_do_not_share_memory() -> None:
    """Noise is added in place: of two sums in one place, each would hold the noise of both."""

    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 2), nn.Linear(3, 2)
            self.idle, self.unused = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.one(x) + self.two(x)
            return made

    data = torch.randn(5, 3), torch.randint(0, 2, (5,))
    for compile in (False, True):
        sums = ClippingEngine(Parallel(), cross_entropy, compile=compile)(data, clip=1.0).sums
        assert len({each.data_ptr() for each in sums.values()}) == len(sums) == 6


@pytest.mark.filterwarnings("ignore")
def test_a_batch_that_lies_otherwise_in_memory_is_read_as_it_lies() -> None:
    model = nn.Linear(3, 2)
    x, y = torch.randn(5, 3), torch.randint(0, 2, (5,))
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile=True)
    for rows in (x, x.t().contiguous().t()):
        assert_agrees(engine((rows, y), clip=0.5), gradients(model, cross_entropy, (x, y)), 0.5)
