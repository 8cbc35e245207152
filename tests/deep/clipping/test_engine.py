"""What an engine is asked for: modes, masks, parts, people, norms, types, odd batches."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import deniable as dn
from deniable.deep.clipping import ClippingEngine
from tests.deep.clipping.reference import assert_agrees, cross_entropy, distance, gradients, unit_norms

MODES = ("fast", "two_pass", "vmap")


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 6, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 40), nn.Tanh(), nn.Linear(40, 4)
    )


def batch(rows: int = 12) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 2, 8), torch.randint(0, 4, (rows,))


def middle(stacks: dict[str, Tensor], **options: int) -> float:
    return float(unit_norms(stacks, **options).median())


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_agrees_with_vmap(mode: str) -> None:
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    found = ClippingEngine(model, cross_entropy, mode=mode)(data, clip=middle(stacks))
    assert_agrees(found, stacks, middle(stacks))
    torch.testing.assert_close(found.losses, cross_entropy(model(data[0]), data[1]))


@pytest.mark.parametrize("mode", MODES)
def test_data_that_require_a_gradient_change_nothing(mode: str) -> None:
    model, (x, y) = network(), batch()
    stacks = gradients(model, cross_entropy, (x, y))
    found = ClippingEngine(model, cross_entropy, mode=mode)((x.requires_grad_(), y), clip=middle(stacks))
    assert_agrees(found, stacks, middle(stacks))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [4, 5, 12, 40])
def test_parts_add_up_to_the_whole(mode: str, size: int) -> None:
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    found = ClippingEngine(model, cross_entropy, mode=mode, microbatch=size)(data, clip=middle(stacks))
    assert_agrees(found, stacks, middle(stacks))
    assert found.losses.shape == (12,)


@pytest.mark.parametrize("mode", MODES)
def test_a_masked_row_is_no_row(mode: str) -> None:
    model, (x, y) = network(), batch()
    mask = torch.arange(12) % 3 != 0
    engine = ClippingEngine(model, cross_entropy, mode=mode)
    whole, part = engine((x, y), clip=0.7, mask=mask), engine((x[mask], y[mask]), clip=0.7)
    assert distance(whole.sums, part.sums) < 1e-5
    assert not whole.norms[~mask].any()
    assert not whole.losses[~mask].any()
    assert not whole.factors[~mask].any()


@pytest.mark.parametrize("mode", MODES)
def test_no_row_gives_zeros(mode: str) -> None:
    model, (x, y) = network(), batch()
    engine = ClippingEngine(model, cross_entropy, mode=mode)
    for found in (engine((x, y), clip=1.0, mask=torch.zeros(12, dtype=torch.bool)), engine((x[:0], y[:0]), clip=1.0)):
        assert all(not each.any() for each in found.sums.values())
        assert found.sums["0.weight"].shape == (6, 2, 3)


@pytest.mark.parametrize("mode", MODES)
def test_one_row(mode: str) -> None:
    model, data = network(), batch(1)
    stacks = gradients(model, cross_entropy, data)
    assert_agrees(ClippingEngine(model, cross_entropy, mode=mode)(data, clip=0.1), stacks, 0.1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("microbatch", [None, 6])
def test_a_person_with_several_rows_is_clipped_once(mode: str, microbatch: int | None) -> None:
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    clip = middle(stacks, size=3)
    engine = ClippingEngine(model, cross_entropy, mode=mode, rows_per_unit=3, microbatch=microbatch)
    assert_agrees(engine(data, clip=clip), stacks, clip, size=3)


def test_a_person_with_rows_to_spare() -> None:
    model, (x, y) = network(), batch(6)
    mask = torch.tensor([True, True, False, True, False, False])
    found = ClippingEngine(model, cross_entropy, rows_per_unit=3)((x, y), clip=0.5, mask=mask)
    stacks = {
        name: each * mask.view(-1, *[1] * (each.dim() - 1))
        for name, each in gradients(model, cross_entropy, (x, y)).items()
    }
    assert_agrees(found, stacks, 0.5, size=3)


@pytest.mark.parametrize("mode", MODES)
def test_the_one_norm(mode: str) -> None:
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    clip = middle(stacks, order=1)
    assert_agrees(ClippingEngine(model, cross_entropy, mode=mode, norm="l1")(data, clip=clip), stacks, clip, order=1)


@pytest.mark.parametrize("mode", MODES)
def test_frozen_parameters_are_left_out(mode: str) -> None:
    model, data = network(), batch()
    model[0].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    stacks = gradients(model, cross_entropy, data)
    found = ClippingEngine(model, cross_entropy, mode=mode)(data, clip=middle(stacks))
    assert "0.weight" not in found.sums
    assert_agrees(found, stacks, middle(stacks))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_an_example_without_a_finite_gradient_contributes_nothing(mode: str, poison: float) -> None:
    """1e30 is finite, but its squares are not."""
    model, (x, y) = nn.Sequential(nn.Linear(36, 40), nn.Linear(40, 4)), (torch.randn(6, 36), torch.arange(6) % 4)
    bad = x.clone()
    bad[2] *= poison
    y[2] = model(bad)[2].nan_to_num().argmin()
    keep = torch.arange(6) != 2
    engine = ClippingEngine(model, cross_entropy, mode=mode)
    found, clean = engine((bad, y), clip=0.7), engine((x[keep], y[keep]), clip=0.7)
    assert found.factors[2] == 0
    assert found.norms[2] == torch.inf
    assert torch.isfinite(found.norms[keep]).all()
    assert distance(found.sums, clean.sums) < 1e-5


@pytest.mark.parametrize("mode", MODES)
def test_bf16_under_autocast(mode: str) -> None:
    """The gradients are those of bf16 arithmetic, 8 bits; their norms and sums are of fp32."""
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    found = ClippingEngine(model, cross_entropy, mode=mode, autocast=torch.bfloat16)(data, clip=middle(stacks))
    torch.testing.assert_close(found.norms.double(), unit_norms(stacks), rtol=0.05, atol=0)
    assert all(each.dtype == torch.float32 for each in found.sums.values())
    plain = ClippingEngine(model, cross_entropy)(data, clip=middle(stacks))
    assert distance(found.sums, plain.sums) < 0.05 * float(plain.norms.clamp(max=middle(stacks)).sum())


def test_both_passes_see_the_same_numbers() -> None:
    """In bf16 a finished gradient and a product of factors round differently: sums must come from what was measured."""
    model = nn.Sequential(
        nn.Embedding(9, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 70), nn.Flatten(), nn.Linear(560, 3)
    )
    data = torch.randint(0, 9, (5, 8)), torch.randint(0, 3, (5,))
    fast, twice = (
        ClippingEngine(model, cross_entropy, mode=mode, autocast=torch.bfloat16, microbatch=5)(data, clip=0.3)
        for mode in ("fast", "two_pass")
    )
    assert distance(fast.sums, twice.sums) == 0
    assert torch.equal(fast.factors, twice.factors)


@pytest.mark.parametrize(
    ("settings", "sizes"), [({}, [4, 4]), ({"rows_per_unit": 2}, [4, 4]), ({"microbatch": 7}, [7])]
)
def test_two_passes_over_half_of_the_batch_at_a_time(settings: dict[str, int], sizes: list[int]) -> None:
    """Whole units, an odd one filled up; another size where one is asked for."""
    rows = 7 if settings.get("rows_per_unit", 1) == 1 else 6
    model, (x, y) = network(), batch(rows)
    whole = ClippingEngine(model, cross_entropy, mode="fast", **settings)((x, y), clip=0.5)
    engine, seen = ClippingEngine(model, cross_entropy, mode="two_pass", **settings), list[int]()
    watch = model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    engine.way((x, y))  # is proved on a few rows first
    seen.clear()
    found = engine((x, y), clip=0.5)
    watch.remove()
    assert seen == sizes
    assert distance(found.sums, whole.sums) < 1e-5
    torch.testing.assert_close(found.factors, whole.factors)


def test_fp16_with_a_static_loss_scale() -> None:
    model, data = network(), batch()
    stacks = gradients(model, cross_entropy, data)
    options = {"mode": "fast", "autocast": torch.float16}
    found = ClippingEngine(model, cross_entropy, loss_scale=256.0, **options)(data, clip=middle(stacks))
    torch.testing.assert_close(found.norms.double(), unit_norms(stacks), rtol=0.01, atol=0)
    # A scale that overflows fp16 masks everybody and is not noticed by anybody else: no step is skipped.
    spoilt = ClippingEngine(model, cross_entropy, loss_scale=2.0**40, **options)(data, clip=1.0)
    assert not spoilt.factors.any()
    assert all(not each.any() for each in spoilt.sums.values())


def test_models_in_bf16_and_in_fp64() -> None:
    model, (x, y) = network().double(), batch()
    stacks = gradients(model, cross_entropy, (x.double(), y))
    found = ClippingEngine(model, cross_entropy)((x.double(), y), clip=middle(stacks))
    assert_agrees(found, stacks, middle(stacks), rounding=1e-9)
    narrow = ClippingEngine(network().bfloat16(), cross_entropy)((x.bfloat16(), y), clip=0.5)
    assert all(each.dtype == torch.float32 for each in narrow.sums.values())


def test_inputs_by_name_and_several_at_once() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(5, 4)

        def forward(self, one: Tensor, two: Tensor) -> dict[str, Tensor]:
            return {"logits": self.a(one) * self.b(two)}

    model, one, two, y = Two(), torch.randn(6, 3), torch.randn(6, 5), torch.randint(0, 4, (6,))
    for mode in MODES:
        engine = ClippingEngine(model, lambda made, y: cross_entropy(made["logits"], y), mode=mode)
        by_name, by_place = engine(({"one": one, "two": two}, y), clip=0.4), engine(((one, two), y), clip=0.4)
        assert distance(by_name.sums, by_place.sums) == 0
        assert by_name.norms.min() > 0


def test_dropout_draws_for_each_row() -> None:
    model = nn.Sequential(nn.Linear(5, 200), nn.Dropout(0.5), nn.Linear(200, 4))
    x, y = torch.randn(1, 5).expand(8, 5), torch.zeros(8, dtype=torch.long)
    for mode in MODES:
        norms = ClippingEngine(model, cross_entropy, mode=mode)((x, y), clip=1.0).norms
        assert len(norms.unique()) == 8


class Saved(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.first, self.reentrant = nn.Linear(5, 30), reentrant
        self.inner, self.head = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30)), nn.Linear(30, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant))


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
def test_activation_checkpointing(mode: str) -> None:
    model, data = Saved(reentrant=False), (torch.randn(6, 5), torch.randint(0, 4, (6,)))
    plain = nn.Sequential(model.first, model.inner, model.head)
    stacks = gradients(plain, cross_entropy, data)
    found = ClippingEngine(model, cross_entropy, mode=mode)(data, clip=middle(stacks))
    renamed = dict(zip(found.sums, stacks.values(), strict=True))
    assert_agrees(found, renamed, middle(stacks))


def test_the_model_is_left_as_it_was() -> None:
    model, data = network(), batch()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    ClippingEngine(model, cross_entropy, mode="two_pass")(data, clip=1.0)
    assert all(torch.equal(each, model.state_dict()[name]) for name, each in before.items())
    assert all(each.grad is None and each.requires_grad for each in model.parameters())
    assert model.training


def test_train_and_eval_are_observed_apart() -> None:
    class Switch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) + self.b(x) if self.training else self.a(x)

    engine, data = ClippingEngine(model := Switch(), cross_entropy), (torch.randn(6, 5), torch.randint(0, 4, (6,)))
    assert engine(data, clip=1.0).sums["b.weight"].any()
    model.eval()
    assert not engine(data, clip=1.0).sums["b.weight"].any()


def test_a_clip_as_a_tensor() -> None:
    engine, data = ClippingEngine(network(), cross_entropy), batch()
    assert distance(engine(data, clip=0.3).sums, engine(data, clip=torch.tensor(0.3)).sums) == 0


def test_what_cannot_be_meant() -> None:
    model, data = network(), batch()
    for options in (
        {"mode": "ghost"},
        {"norm": "l3"},
        {"rows_per_unit": 0},
        {"loss_scale": 0.0},
        {"microbatch": 5, "rows_per_unit": 2},
    ):
        with pytest.raises(dn.errors.InvalidArgument):
            ClippingEngine(model, cross_entropy, **options)
    engine = ClippingEngine(model, cross_entropy)
    for clip in (0.0, 1e-15):
        with pytest.raises(dn.errors.InvalidArgument, match="clip"):
            engine(data, clip=clip)
        with pytest.raises(dn.errors.InvalidArgument, match="clip"):
            dn.deep.Plan(size=100, batch=10, steps=5, clip=clip, noise_multiplier=1)
    with pytest.raises(dn.errors.InvalidArgument, match="one entry per example"):
        engine((data[0], data[1][:5]), clip=1.0)
    with pytest.raises(dn.errors.InvalidArgument, match="booleans"):
        engine(data, clip=1.0, mask=torch.ones(12))
    with pytest.raises(dn.errors.InvalidArgument, match="one loss per example"):
        ClippingEngine(model, F.cross_entropy)(data, clip=1.0)
    with pytest.raises(dn.errors.InvalidArgument, match="requires gradients"):
        ClippingEngine(network().requires_grad_(False), cross_entropy)
