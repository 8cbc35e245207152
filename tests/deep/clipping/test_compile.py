"""One small compiled step: the whole of it in one graph, parts included."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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
    assert len(engine._compiled) == 1
