"""Models that ask for gradients inside their forward pass. A few seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from deniable.deep.clipping import ClippingEngine
from deniable.errors import NotSupported
from tests.deep.clipping.reference import assert_agrees, cross_entropy, gradients, unit_norms

MODES = ["fast", "two_pass", "vmap", "auto"]


class Model(nn.Module):
    """Two layers, both used twice; `ask` is put before the first of them and between them."""

    def __init__(self, ask: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last, self.ask = nn.Linear(4, 6), nn.Linear(6, 3), ask

    def forward(self, x: Tensor) -> Tensor:
        near = self.last(self.ask(self.first(self.ask(x.clone())).tanh()))
        return near + self.last(self.first(self.ask(x * 2)).sin().detach())


def assigned(x: Tensor) -> Tensor:
    if not x.requires_grad:
        x.requires_grad = True
    return x


ASKING: dict[str, Callable[[Tensor], Tensor]] = {
    "method": lambda x: x.requires_grad_(),
    "keyword": lambda x: x.requires_grad_(requires_grad=True),  # type: ignore[call-arg]
    "fresh": lambda x: x.detach().requires_grad_() + x,
    "assigned": assigned,
}
LEAVES: dict[str, Callable[[Tensor], Tensor]] = {
    "zeros": lambda x: x + torch.zeros(x.shape[-1], requires_grad=True),
    "parameter": lambda x: x * nn.Parameter(torch.ones(x.shape[-1])),
}


def batch() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    return torch.randn(8, 4, generator=random), torch.randint(0, 3, (8,), generator=random)


def expected(model: nn.Module) -> tuple[dict[str, Tensor], float]:
    stacks = gradients(model, cross_entropy, batch())
    return stacks, float(unit_norms(stacks).median())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ASKING)
def test_what_a_model_asks_of_its_data_changes_nothing(how: str, mode: str) -> None:
    stacks, clip = expected(Model((lambda x: x.detach() + x) if how == "fresh" else lambda x: x))
    x, y = batch()
    engine = ClippingEngine(Model(ASKING[how]), cross_entropy, mode=mode)
    assert_agrees(engine((x, y), clip=clip), stacks, clip)
    assert not x.requires_grad
    assert engine.check((x, y), clip=clip).mode == ("fast" if mode == "auto" else mode)
    assert not x.requires_grad


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
def test_a_frozen_part_whose_output_is_asked(mode: str) -> None:
    """As libraries do it for activation checkpointing with adapters. The hook changes nothing, so the first trainable
    layer stays outside."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(5)
            self.frozen = nn.Linear(4, 5).requires_grad_(False)
            self.first, self.block, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            inner = self.first(self.frozen(x)).tanh()
            made = checkpoint(self.block, inner, use_reentrant=False) if self.training else self.block(inner)
            scores: Tensor = self.head(made.tanh())
            return scores

    stacks, clip = expected(Adapted().eval())
    model = Adapted()
    model.frozen.register_forward_hook(lambda module, given, made: made.requires_grad_(True))
    assert_agrees(ClippingEngine(model, cross_entropy, mode=mode)(batch(), clip=clip), stacks, clip)


@pytest.mark.parametrize("how", LEAVES)
def test_a_leaf_that_is_no_parameter_is_refused_or_left_to_vmap(how: str) -> None:
    stacks, clip = expected(Model())
    for mode in ("fast", "two_pass"):
        with pytest.raises(NotSupported, match=r"is no parameter of the model; make it an nn\.Parameter in __init__"):
            ClippingEngine(Model(LEAVES[how]), cross_entropy, mode=mode)(batch(), clip=clip)
    for mode in ("vmap", "auto"):
        engine = ClippingEngine(Model(LEAVES[how]), cross_entropy, mode=mode)
        assert_agrees(engine(batch(), clip=clip), stacks, clip)
        assert engine.check(batch(), clip=clip).mode == "vmap"


class Slope(nn.Module):
    """The derivative of a network by its input."""

    def __init__(self, ways: str) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first, self.last, self.ways = nn.Linear(4, 6), nn.Linear(6, 1), ways

    def height(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).tanh()).sum()

    def forward(self, x: Tensor) -> Tensor:
        if self.ways == "func":
            return torch.func.grad(self.height)(x)[:, :3]
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            if self.ways == "backward":
                self.height(x).backward()
                return x.grad[:, :3]  # type: ignore[index]
            return torch.autograd.grad(self.height(x), x, create_graph=True)[0][:, :3]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ways", ["autograd", "backward"])
def test_a_model_that_takes_gradients_is_refused(mode: str, ways: str) -> None:
    engine = ClippingEngine(Slope(ways), cross_entropy, mode=mode)
    for action in (lambda: engine(batch(), clip=1.0), lambda: engine.check(batch(), clip=1.0)):
        with pytest.raises(NotSupported, match=r"write it with torch.func.grad .* and use mode='vmap'"):
            action()


def test_what_the_refusal_names_works() -> None:
    stacks, clip = expected(Slope("func"))
    engine = ClippingEngine(Slope("func"), cross_entropy, mode="vmap")
    engine.check(batch(), clip=clip)
    assert_agrees(engine(batch(), clip=clip), stacks, clip)


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
def test_a_parameter_is_not_frozen_on_the_way(mode: str) -> None:
    def freeze(module: nn.Module, _: Any) -> None:
        module.first.weight.requires_grad_(False)  # type: ignore[union-attr]

    def assign(module: nn.Module, _: Any) -> None:
        module.first.weight.requires_grad = False  # type: ignore[union-attr]

    for hook in (freeze, assign):
        model = Model()
        model.register_forward_pre_hook(hook)
        with pytest.raises(NotSupported, match="changes whether a parameter requires a gradient"):
            ClippingEngine(model, cross_entropy, mode=mode)(batch(), clip=1.0)


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
def test_a_loss_without_a_gradient_gives_zero_sums(mode: str) -> None:
    found = ClippingEngine(Model(), lambda made, y: made.detach().sum(1), mode=mode)(batch(), clip=1.0)
    assert found.norms.tolist() == [0.0] * 8
    assert all(not each.any() for each in found.sums.values())
