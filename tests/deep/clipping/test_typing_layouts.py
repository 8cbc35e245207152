"""Arithmetic that a proof leaves out, and labels that it does not work out again, change nothing about the proof."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine, proving
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.labels import Geometry
from deniable.deep.clipping.typing_layouts import key_of, layouts_of
from deniable.errors import NotSupported


class Block(nn.Module):
    def __init__(self, mixes: bool = False) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mixes = mixes

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        h = x + F.gelu(self.out(seen))
        return h - h.mean(0) if self.mixes else h


class Network(nn.Module):
    """A table handed to every row, layers of one kind, and a head."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.place, self.layers = nn.Parameter(torch.randn(5, 8)), nn.Sequential(*layers)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x + self.place.expand(len(x), 5, 8)).mean(1))


class Applied(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def loss(made: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(made, y, reduction="none")


def prove(*layers: nn.Module) -> None:
    """Row typing alone, without the numbers that would find a mistake too."""
    engine = ClippingEngine(Network(*layers), loss)
    proving.prove(engine.recipe, engine.tensors(), Form.of(BATCH))


BATCH = torch.rand(4, 5, 8), torch.zeros(4, dtype=torch.long)


def scripts(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The script without and with all arithmetic."""
    engine, made = ClippingEngine(model, loss), []
    real = proving._script
    for computes in (False, True):
        monkeypatch.setattr(proving, "_script", lambda *given, computes, _c=computes: real(*given, computes=_c))
        script = proving.prove(engine.recipe, engine.tensors(), Form.of(BATCH))
        made.append([script.steps, [(each.function, each.shapes, each.numbers) for each in script.patterns]])
    return made


def test_the_script_is_the_same_with_and_without_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = scripts(Network(*(Block() for _ in range(3))), monkeypatch)
    assert one == two


def test_layers_that_come_again_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ClippingEngine(Network(*(Block() for _ in range(6))), loss)
    seen: list[str] = []
    real = torch.ops.aten.native_layer_norm.default
    whole = type(real).__call__

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(str(self))
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(type(real), "__call__", counted)
    proving.prove(engine.recipe, engine.tensors(), Form.of(BATCH))
    assert seen.count("aten.native_layer_norm.default") == 2  # once for each number of units


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_layer_that_mixes_is_found_among_layers_of_its_kind(at: int) -> None:
    with pytest.raises(NotSupported, match=r"h\.mean\(0\)"):
        prove(*(Block(mixes=at == each) for each in range(4)))


def one_constant(x: Tensor) -> Tensor:
    return x + torch.zeros(len(x))[:, None, None]


def the_place_in_the_batch(x: Tensor) -> Tensor:
    return x + torch.arange(len(x)).float()[:, None, None]


def tokens_of_each_row(x: Tensor) -> Tensor:
    """[rows · tokens, width] and back."""
    flat = x.detach().reshape(-1, 8)
    return x + (flat + flat).view(x.shape)


def rows_of_each_token(x: Tensor) -> Tensor:
    """[tokens · rows, width], read as the former."""
    flat = x.detach().transpose(0, 1).reshape(-1, 8)
    return x + (flat + flat).view(x.shape)


def two_tokens(x: Tensor) -> Tensor:
    return x + (x.detach()[:, :2] * 2).sum(1, keepdim=True)


def tokens_by_the_number_of_rows(x: Tensor) -> Tensor:
    return x + (x.detach()[:, : len(x) - 1] * 2).sum(1, keepdim=True)


@pytest.mark.parametrize(
    ("harmless", "mixing"),
    [
        (one_constant, the_place_in_the_batch),
        (tokens_of_each_row, rows_of_each_token),
        (two_tokens, tokens_by_the_number_of_rows),
    ],
)
def test_the_same_operation_is_judged_again_where_what_it_rests_on_differs(
    harmless: Callable[[Tensor], Tensor], mixing: Callable[[Tensor], Tensor]
) -> None:
    """The typed run makes the same operation on tensors of one shape and type: constants, labels or the other run
    differ."""
    prove(Applied(harmless), Applied(harmless))
    with pytest.raises(NotSupported):
        prove(Applied(harmless), Applied(mixing))


def test_a_kernel_that_refuses_what_lies_in_fresh_memory_is_computed() -> None:
    """x xᵀ + 1 is positive definite, which fresh memory is not."""

    def factor(x: Tensor) -> Tensor:
        y = x
        for _ in range(2):
            y = y + torch.linalg.cholesky(x @ x.transpose(1, 2) + torch.eye(5)).sum(2, keepdim=True)
        return y

    engine = ClippingEngine(Network(Applied(factor)), loss, mode="fast")
    assert engine.way(BATCH) == "fast"
    reference = copy.deepcopy(engine.recipe.model)
    sums = engine(BATCH, clip=1e6).sums
    loss(reference(BATCH[0]), BATCH[1]).sum().backward()
    assert torch.allclose(sums["head.weight"], reference.head.weight.grad, rtol=1e-3, atol=1e-5)


def test_numbers_of_another_type_are_another_operation() -> None:
    x, double = torch.ones(2, dtype=torch.long), torch.ones(2, dtype=torch.double)
    geometry = [Geometry((2,), (1,), 0)]
    keys = {
        key_of(torch.ops.aten.mul.Scalar, [tensor], geometry, {"other": number})
        for tensor in (x, double)
        for number in (1, 1.0, True)
    }
    assert len(keys) == 6
    assert key_of(torch.ops.aten.mul.Scalar, [x], geometry, {"other": {}}) is None
    one, two = (key_of(torch.ops.aten.clamp.Tensor, [x], geometry, {left_out: None}) for left_out in ("min", "max"))
    assert one != two
    assert layouts_of(x) is None
    assert layouts_of((double, x)) is None
    assert layouts_of((double, None)) is not None
