"""The start-up self-check, and what is refused before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from deniable.errors import NotSupported
from tests.deep.clipping.reference import cross_entropy


def data(rows: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 5), torch.randint(0, 4, (rows,))


def around(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), layer, nn.Linear(8, 4))


class Do(nn.Module):
    """A layer made of a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Hidden(torch.autograd.Function):
    """A product that no tape can look into."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, weight = ctx.saved_tensors
        return gradients[0] @ weight.t(), x.t() @ gradients[0]


class HiddenLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        return Hidden.apply(x, self.weight)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.mean().detach()
        return x


@pytest.mark.parametrize("mode", ["auto", "fast", "two_pass", "vmap"])
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_sound_models_pass(mode: str, autocast: torch.dtype | None) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Dropout(0.3), nn.Linear(8, 4))
    found = ClippingEngine(model, cross_entropy, mode=mode, autocast=autocast).check(data())
    assert found.mode == ("fast" if mode == "auto" else mode)
    assert found.unused == ()
    assert model[2].training
    assert "passed" in str(found)


def test_the_check_knows_people_small_batches_and_unused_parameters() -> None:
    model = around(nn.Tanh())
    model.idle = nn.Linear(2, 2)
    model.forward = lambda x: model[2](model[1](model[0](x)))
    engine = ClippingEngine(model, cross_entropy, rows_per_unit=2)
    found = engine.check(data())
    assert found.unused == ("idle.weight", "idle.bias")
    assert ClippingEngine(around(nn.Tanh()), cross_entropy).check(data(1)).units == 4


@pytest.mark.parametrize(
    "mixing",
    [
        lambda x: x - x.mean(0),
        lambda x: x - 0.001 * x.mean(0, keepdim=True),
        lambda x: x / x.norm(),
        lambda x: x.sort(0).values,
        lambda x: x + x.roll(1, 0),
        lambda x: F.softmax(x @ x.t(), dim=1) @ x,
        lambda x: F.batch_norm(x, None, None, training=True),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "fast"])
def test_a_model_that_mixes_examples_fails(mixing: Callable[[Tensor], Tensor], mode: str) -> None:
    with pytest.raises(NotSupported, match=r"one example changes|no axis"):
        ClippingEngine(around(Do(mixing)), cross_entropy, mode=mode).check(data())


def test_a_loss_that_mixes_examples_fails() -> None:
    def centred(made: Tensor, y: Tensor) -> Tensor:
        losses = cross_entropy(made, y)
        return losses - 0.1 * losses.mean()

    with pytest.raises(NotSupported, match="one example changes"):
        ClippingEngine(around(nn.Tanh()), centred).check(data())


def test_a_parameter_that_the_tape_cannot_see_fails() -> None:
    with pytest.raises(NotSupported, match="norms of this model"):
        ClippingEngine(around(HiddenLayer()), cross_entropy, mode="fast").check(data())


def test_a_parameter_whose_rows_are_taken_wrongly_fails() -> None:
    """Rows put into another order inside the model, and back: the tape refuses, and vmap has no order to change."""
    turned = nn.Sequential(nn.Linear(5, 8), Do(lambda x: x.flip(0)), nn.Linear(8, 4), Do(lambda x: x.flip(0)))
    with pytest.raises(NotSupported, match=r"aten\.flip\.default at test_checks.py"):
        ClippingEngine(turned, cross_entropy, mode="fast").check(data())
    assert ClippingEngine(turned, cross_entropy).check(data()).mode == "vmap"


def test_a_buffer_that_learns_fails_and_is_left_alone() -> None:
    model = around(Counting())
    with pytest.raises(NotSupported, match="outlives the step"):
        ClippingEngine(model, cross_entropy).check(data())
    assert model[1].seen == 0


@pytest.mark.parametrize(
    ("layer", "instead"),
    [
        (lambda: nn.BatchNorm1d(8), "GroupNorm"),
        (lambda: nn.SyncBatchNorm(8), "GroupNorm"),
        (lambda: nn.InstanceNorm1d(8, track_running_stats=True), "GroupNorm"),
        (lambda: nn.Embedding(5, 8, max_norm=1.0), "max_norm"),
        (lambda: nn.LazyLinear(8), "made-up data"),
    ],
)
def test_layers_that_mix_are_refused_by_name(layer: Callable[[], nn.Module], instead: str) -> None:
    with pytest.raises(NotSupported, match=instead):
        ClippingEngine(around(layer()), cross_entropy)


def test_batch_norm_that_is_frozen_mixes_nothing() -> None:
    model = around(nn.BatchNorm1d(8).eval())
    assert ClippingEngine(model, cross_entropy).check(data()).mode == "fast"


def test_options_that_mix_are_refused_in_functions() -> None:
    table = nn.Parameter(torch.randn(9, 8))

    class Look(nn.Module):
        def __init__(self, **options: Any) -> None:
            super().__init__()
            self.table, self.options = table, options

        def forward(self, x: Tensor) -> Tensor:
            return F.embedding(x, self.table, **self.options).mean(1)

    batch = torch.randint(0, 9, (6, 3)), torch.randint(0, 4, (6,))
    with pytest.raises(NotSupported, match="counts over the whole batch"):
        ClippingEngine(Look(scale_grad_by_freq=True), cross_entropy, mode="fast")(batch, clip=1.0)


def test_writing_over_a_parameter_or_a_saved_input_is_refused() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start, self.head = nn.Parameter(torch.randn(5)), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = x.clone()
            x[:, 0] = self.start[0]
            return self.head(x)

    with pytest.raises(NotSupported, match="in place"):
        ClippingEngine(Writes(), cross_entropy, mode="fast")(data(), clip=1.0)

    class Overwrites(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.head = nn.Linear(5, 5), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            x = x * 2
            y = self.a(x)
            x.zero_()
            return self.head(y)

    with pytest.raises(NotSupported, match="changed in place"):
        ClippingEngine(Overwrites(), cross_entropy, mode="fast")(data(), clip=1.0)


def test_auto_takes_vmap_where_the_tape_cannot_follow() -> None:
    class Rowless(nn.Module):
        """Rows on two axes at once: no axis of the product belongs to one example, yet the result does."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return torch.einsum("bi,ij,ck->bcj", x, self.weight, torch.ones(len(x), 1)).mean(1)

    engine, batch = ClippingEngine(Rowless(), cross_entropy), data()
    assert engine.way(batch) == "vmap"
    engine.check(batch)
