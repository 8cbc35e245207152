"""Rounding never lets a share exceed the clip."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.contributions import Factors, OneHot, Stack
from deniable.deep.clipping.margins import bounds, clip_factors
from deniable.deep.clipping.norms import ALIGNED, RUN, absolutes, filled, settle, squares
from deniable.deep.clipping.precision import product


def share(part: Factors | Stack, clip: float) -> tuple[Tensor, Tensor]:
    """What one unit adds to the sum, exactly as summed, and its factor."""
    settled = settle([part])
    factor = clip_factors(bounds([settled]), clip=torch.tensor(clip))
    return settled.total(factor.factors, factor.alive).double(), factor.factors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("cancel", [0.0, 0.9, 0.999])
def test_rows_that_cancel_stay_within_the_clip(dtype: torch.dtype, cancel: float) -> None:
    """Pairs of rows that nearly cancel: the gradient is far smaller than its parts, and rounding far larger than it.

    The share is the product of rounded rows. Computed from the norm alone, without a margin, it exceeds the clip here.
    """
    exceeded = False
    for seed in range(20):
        torch.manual_seed(seed)
        half = torch.randn(1, 6, 64)
        left = torch.cat([half, -cancel * half], 1).to(dtype)
        right = torch.randn(1, 6, 64).repeat(1, 2, 1).to(dtype)
        part = Factors(left, right, (64, 64))
        assert settle([part]).spread is not None
        clip = 0.37 * float((left.double().mT @ right.double()).norm()) + 1e-3
        found, factor = share(part, clip)
        assert found.norm() <= clip
        naive = clip / max(float(settle([part]).square.sqrt()), clip)
        bare = product((left * naive).to(dtype).flatten(0, 1).t(), right.flatten(0, 1)).double()
        exceeded |= bool(bare.norm() > clip)
        assert factor <= naive
    assert exceeded, "the margin would be superfluous"


def test_a_factor_that_rounds_up_stays_within_the_clip() -> None:
    """All entries are alike, so all round the same way: in bf16 up to 2⁻⁸ of the norm, for one clip in two upwards."""
    part = Factors(torch.ones(1, 1, 300, dtype=torch.bfloat16), torch.ones(1, 1, 300, dtype=torch.bfloat16), (300, 300))
    clips = torch.linspace(1.0, 2.0, 50).tolist()
    assert all(share(part, clip)[0].norm() <= clip for clip in clips)
    assert any((torch.tensor(clip / 300).bfloat16().double() * 300) > clip for clip in clips)


def test_the_margin_is_small_where_nothing_cancels() -> None:
    """One row: the norm is a product of two norms, and the factor loses less than the rounding of its type."""
    for dtype, room in ((torch.float32, 5e-4), (torch.bfloat16, 1e-2)):
        part = Factors(torch.randn(5, 1, 300).to(dtype), torch.randn(5, 1, 300).to(dtype), (300, 300))
        norms = torch.stack([each.double().norm() for each in part.stack()])
        factors = clip_factors(bounds([settle([part])]), clip=torch.tensor(1.0)).factors
        assert (factors * norms >= 1 - room).all()


def test_sums_are_not_rounded_to_the_operands() -> None:
    """A sum of 300 ones in bf16 would be 256 in bf16; a change of one unit would vanish or count twice."""
    part = Factors(torch.ones(300, 1, 1, dtype=torch.bfloat16), torch.ones(300, 1, 1, dtype=torch.bfloat16), (1, 1))
    assert part.total(torch.ones(300), torch.ones(300, dtype=torch.bool)).item() == 300


class Apart(nn.Module):
    """One weight on two halves of the input: what a unit's gradient is made of may cancel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[:, :1]) - self.layer(x[:, 1:])


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
def test_uses_that_cancel_stay_within_the_clip(mode: str) -> None:
    """The gradient of the last unit is 10⁹ − 10⁹ = 0. Were each use summed over units first, the others would drown."""
    few = torch.tensor([[0.25, 0.0]]).repeat(16, 1)
    more = torch.cat([few, torch.tensor([[1e9, 1e9]])])
    engine = ClippingEngine(Apart(), lambda made, y: made.squeeze(1), mode=mode)
    sums = [engine((x, x), clip=1.0).sums["layer.weight"].item() for x in (few, more)]
    assert sums == [4.0, 4.0]


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_tiny_inputs_under_huge_gradients_stay_within_the_clip(mode: str, rows: int, swapped: bool) -> None:
    """The squares of the tiny side are below what a float holds; the gradient itself is not."""
    wide, narrow = torch.full((1, rows, 4096), 2e-23), torch.full((1, rows, 64), 1e18)
    given, pulled = (narrow, wide) if swapped else (wide, narrow)
    layer = nn.Linear(given.shape[2], pulled.shape[2], bias=False)
    engine = ClippingEngine(layer, lambda made, y: (made * y).sum((1, 2)), mode=mode)
    found = engine((given, pulled), clip=1e-3).sums["weight"].double().norm()
    assert 0 < found <= 1e-3


def test_factors_of_zero_and_tiny_gradients() -> None:
    squares = torch.tensor([0.0, 1e-30, torch.inf, torch.nan])
    found = clip_factors(bounds([settle([Stack(squares.sqrt().unsqueeze(1))])]), clip=torch.tensor(1.0))
    assert found.factors.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert found.alive.tolist() == [True, True, False, False]


def test_a_look_up_needs_no_table_per_unit() -> None:
    """A vocabulary of a million: the norm compares indices."""
    index, rows = torch.tensor([[7, 7, 999_999]]), torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]]])
    assert settle([Factors(OneHot(index, 1_000_000), rows, (1_000_000, 2))]).square.item() == 13.0


def test_the_cheaper_form_is_chosen() -> None:
    """p·d ≤ r(p + d): the finished gradient is kept, else the pair."""
    few, many = torch.randn(2, 3, 10), torch.randn(2, 6, 10)
    assert isinstance(settle([Factors(many, many, (10, 10))]).kept[0], Stack)
    assert isinstance(settle([Factors(few, few, (10, 10))]).kept[0], Factors)
    both = settle([Factors(few, few, (10, 10)), Factors(few, few, (10, 10))])
    assert isinstance(both.kept[0], Stack)
    torch.testing.assert_close(both.square, 4 * settle([Factors(few, few, (10, 10))]).square)


def test_more_room_keeps_more_finished_gradients() -> None:
    """p·d ≤ 2·r(p + d) for the fast mode; never for look-ups, whose unit vectors take no memory."""
    few = torch.randn(2, 3, 10)
    assert isinstance(settle([Factors(few, few, (10, 10))], room=2).kept[0], Stack)
    table = Factors(OneHot(torch.tensor([[1, 2, 3], [4, 5, 6]]), 10), few, (10, 10))
    assert isinstance(settle([table], room=2).kept[0], Factors)


@pytest.mark.parametrize("size", [1, RUN - 1, RUN, RUN + 1, 3 * RUN + 7])
def test_sums_in_runs_leave_nothing_out(size: int) -> None:
    values = torch.randn(3, size)
    torch.testing.assert_close(squares(values).double(), values.double().square().sum(1), rtol=1e-5, atol=0)
    torch.testing.assert_close(absolutes(values).double(), values.double().abs().sum(1), rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_of_zeros_add_nothing(device: str, dtype: torch.dtype) -> None:
    """On a GPU rows are filled up before inner products are taken."""
    torch.manual_seed(0)
    left, right = (torch.randn(3, 37, 256, device=device).to(dtype) for _ in range(2))
    assert filled(left).shape[1] == 40
    assert filled(left).shape[1] % ALIGNED == 0
    plain, more = (
        settle([Factors(one, two, (256, 256))]) for one, two in ((left, right), (filled(left), filled(right)))
    )
    assert plain.spread is not None
    assert more.spread is not None
    torch.testing.assert_close(more.square, plain.square)
    torch.testing.assert_close(more.spread, plain.spread)
    exact = (left.double().mT @ right.double()).square().sum((1, 2))
    torch.testing.assert_close(plain.square.double(), exact, rtol=1e-2, atol=0)  # tf32, where it is allowed


def test_linear_layers_have_norms_of_their_own_gradients() -> None:
    """The doctest's claim on random rows: factors and finished gradients have one norm."""
    part = Factors(torch.randn(4, 3, 9), torch.randn(4, 3, 8), (9, 8))
    torch.testing.assert_close(settle([part]).square, part.stack().flatten(1).square().sum(1))
    assert nn.Linear(8, 9).weight.shape == part.shape
