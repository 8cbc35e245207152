"""Parity with vmap for every rule, without noise."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from tests.deep.clipping.reference import assert_agrees, check_against_vmap, cross_entropy, gradients, unit_norms

ROWS = 5


def labels(classes: int = 4) -> Tensor:
    return torch.randint(0, classes, (ROWS,))


def tokens(length: int = 6, vocabulary: int = 11) -> Tensor:
    return torch.randint(0, vocabulary, (ROWS, length))


class Mean(nn.Module):
    """Everything but rows and channels, averaged."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        return x.movedim(self.channels, -1).flatten(1, -2).mean(1)


CONVOLUTIONS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Conv2d(4, 6, 3),
    "padded": lambda: nn.Conv2d(4, 6, 3, padding=1),
    "strided": lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1),
    "dilated": lambda: nn.Conv2d(4, 6, 3, dilation=2, padding=2),
    "grouped": lambda: nn.Conv2d(4, 6, 3, groups=2, padding=1),
    "depthwise": lambda: nn.Conv2d(4, 8, 3, groups=4),
    "uneven": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(0, 1), bias=False),
    "same": lambda: nn.Conv2d(4, 6, 3, padding="same", dilation=2),
    "reflect": lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
    "circular": lambda: nn.Conv2d(4, 6, 3, padding=2, padding_mode="circular"),
    "pointwise": lambda: nn.Conv2d(4, 6, 1, stride=2),
    "whole": lambda: nn.Conv2d(4, 60, 7),
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_in_two_dimensions(kind: str) -> None:
    layer = CONVOLUTIONS[kind]()
    model = nn.Sequential(nn.Conv2d(2, 4, 1), layer, nn.Tanh(), Mean(1), nn.Linear(layer.out_channels, 4))
    check_against_vmap(model, (torch.randn(ROWS, 2, 7, 7), labels()))


def test_patches_of_a_few_units_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["deniable.deep.clipping.rules.convolution"], "PATCHES", 2 * 25 * 36)
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Tanh(), Mean(1), nn.Linear(6, 4))
    check_against_vmap(model, (torch.randn(ROWS, 4, 7, 7), labels()))


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 3}, {"groups": 2}])
def test_convolutions_in_one_dimension(options: dict[str, int]) -> None:
    model = nn.Sequential(nn.Conv1d(4, 6, 3, **options), nn.ReLU(), Mean(1), nn.Linear(6, 4))
    check_against_vmap(model, (torch.randn(ROWS, 4, 12), labels()))


@pytest.mark.parametrize("width", [3, 40])
def test_linear_layers_with_and_without_a_sequence(width: int) -> None:
    """Width 3 takes the finished gradient, width 40 the factors."""
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True), nn.Linear(width, 4, bias=False))
    check_against_vmap(model, (torch.randn(ROWS, width), labels()))
    check_against_vmap(nn.Sequential(*model, Mean(-1)), (torch.randn(ROWS, 7, width), labels()))


def test_long_sequences_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deniable.deep.clipping.norms.BLOCK", 16)
    model = nn.Sequential(nn.Linear(100, 150), Mean(-1), nn.Linear(150, 4))
    check_against_vmap(model, (torch.randn(2, 50, 100), torch.tensor([0, 3])))


def test_embeddings() -> None:
    check_against_vmap(
        nn.Sequential(nn.Embedding(11, 5, padding_idx=0), nn.Flatten(), nn.Linear(30, 4)), (tokens(), labels())
    )
    check_against_vmap(nn.Sequential(nn.Embedding(11, 300), nn.Flatten(), nn.Linear(1800, 4)), (tokens(), labels()))


class Bag(nn.Module):
    def __init__(self, mode: str, padding: int | None, weighted: bool) -> None:
        super().__init__()
        self.mode, self.padding, self.weighted = mode, padding, weighted
        self.table, self.head = nn.Parameter(torch.randn(11, 5)), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        weights = x / 10 + 0.5 if self.weighted else None
        return self.head(
            F.embedding_bag(x, self.table, mode=self.mode, padding_idx=self.padding, per_sample_weights=weights)
        )


@pytest.mark.parametrize(
    ("mode", "padding", "weighted"), [("sum", None, True), ("mean", None, False), ("mean", 3, False)]
)
def test_embedding_bags(mode: str, padding: int | None, weighted: bool) -> None:
    """vmap has no rule for embedding_bag: one example at a time."""
    model, (x, y) = Bag(mode, padding, weighted), (tokens(), labels())
    rows = []
    for at in range(ROWS):
        loss = cross_entropy(model(x[at : at + 1]), y[at : at + 1]).sum()
        rows.append(torch.autograd.grad(loss, list(model.parameters())))
    names = [name for name, _ in model.named_parameters()]
    stacks = {name: torch.stack(parts) for name, parts in zip(names, zip(*rows, strict=True), strict=True)}
    clip = float(unit_norms(stacks).median())
    assert_agrees(ClippingEngine(model, cross_entropy, mode="fast")((x, y), clip=clip), stacks, clip)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LayerNorm(8),
        lambda: nn.LayerNorm((6, 8)),
        lambda: nn.LayerNorm(8, bias=False),
        lambda: nn.RMSNorm(8),
        lambda: nn.RMSNorm((6, 8), eps=1e-3),
        lambda: nn.GroupNorm(2, 6),
        lambda: nn.InstanceNorm1d(6, affine=True),
    ],
)
def test_normalizations(layer: Callable[[], nn.Module]) -> None:
    made = layer()
    for each in made.parameters():
        nn.init.normal_(each)
    model = nn.Sequential(nn.Embedding(11, 8), made, nn.Flatten(), nn.Linear(48, 4))
    check_against_vmap(model, (tokens(), labels()))


def test_group_norm_without_space() -> None:
    check_against_vmap(
        nn.Sequential(nn.Linear(5, 6), nn.GroupNorm(3, 6), nn.Linear(6, 4)), (torch.randn(ROWS, 5), labels())
    )


class Attention(nn.Module):
    def __init__(self, batch_first: bool, cross: bool, **options: bool) -> None:
        super().__init__()
        self.batch_first, self.cross = batch_first, cross
        self.table, self.head = nn.Embedding(11, 8), nn.Linear(8, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first, **options)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        h = h if self.batch_first else h.transpose(0, 1)
        asks = h.flip(1 if self.batch_first else 0) * 0.5 if self.cross else h
        made = self.attention(asks, h, h, need_weights=False)[0]
        return self.head(made.mean(1 if self.batch_first else 0))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("cross", "options"), [(False, {}), (True, {}), (False, {"add_bias_kv": True}), (True, {"bias": False})]
)
def test_multihead_attention_as_it_is(batch_first: bool, cross: bool, options: dict[str, bool]) -> None:
    check_against_vmap(Attention(batch_first, cross, **options), (tokens(), labels()))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("training", [True, False])
def test_transformer_encoder_layer_and_its_fused_path(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoder(layer, 2), Mean(-1), nn.Linear(8, 4))
    check_against_vmap(model.train(training), (tokens(), labels()))


class Adapter(nn.Module):
    """A frozen layer with a low-rank addition, as LoRA does it."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 2.0 * self.up(self.down(x))


def test_low_rank_adapters_leave_the_base_alone() -> None:
    model = nn.Sequential(Adapter(nn.Linear(30, 20), 2), nn.Tanh(), Adapter(nn.Linear(20, 4), 2))
    batch = (torch.randn(ROWS, 30), labels())
    check_against_vmap(model, batch)
    sums = ClippingEngine(model, cross_entropy)(batch, clip=1.0).sums
    assert set(sums) == {"0.down.weight", "0.up.weight", "2.down.weight", "2.up.weight"}


class Merged(nn.Module):
    """An adapter merged before it is used: the parameters meet each other before they meet the data."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.randn(4, 7), requires_grad=False)
        self.a, self.b = nn.Parameter(torch.randn(2, 7)), nn.Parameter(torch.randn(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.base + self.b @ self.a)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_parameters_that_are_transformed_before_use() -> None:
    batch = (torch.randn(ROWS, 7), labels())
    check_against_vmap(Merged(), batch)
    check_against_vmap(nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(7, 4))), batch)


class Bare(nn.Module):
    """Parameters outside any layer, used in many ways."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.again = nn.Parameter(torch.randn(1, 8))
        self.places = nn.Parameter(torch.randn(9, 8))
        self.scale, self.shift = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(()))
        self.table, self.mix = nn.Parameter(torch.randn(11, 8)), nn.Parameter(torch.randn(8, 3, 4))
        self.slope, self.product = nn.Parameter(torch.rand(8)), nn.Parameter(torch.randn(8, 8))
        self.pair = nn.Bilinear(8, 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table[x] + self.places[: x.shape[1]]
        h = torch.cat([self.start.expand(len(x), -1, -1), h, self.again.repeat(len(x), 2, 1)], dim=1)
        h = torch.addcmul(self.shift, h, self.scale)
        h += self.scale.square()
        h = F.prelu(h.transpose(1, 2), self.slope).transpose(1, 2) @ self.product
        h = h + self.pair(h[:, :1], h[:, 1:2])
        return torch.einsum("btd,dke->be", h, self.mix)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_bare_parameters() -> None:
    check_against_vmap(Bare(), (tokens(), labels()))


class Tied(nn.Module):
    """One table to look up and to predict with; one layer used three times; a bias shared by two layers."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary)
        self.head.weight = self.table.weight
        self.inner, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.other.bias = self.inner.bias

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        h = self.other(self.inner(torch.tanh(self.inner(h))).relu() + self.inner(h))
        return self.head(h).transpose(1, 2)


def per_token(made: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(made, y, reduction="none")


@pytest.mark.parametrize(("width", "vocabulary"), [(4, 11), (60, 70)])
def test_tied_and_reused_weights_with_their_cross_terms(width: int, vocabulary: int) -> None:
    """The small model finishes gradients, the large one stays with factors: look-up, product and their cross terms."""
    model = Tied(width, vocabulary)
    x = tokens(vocabulary=vocabulary)
    check_against_vmap(model, (x, x.roll(1, 1)), loss=per_token, modes=("fast", "two_pass", "vmap"))


def test_a_parameter_used_twice_in_one_call_has_its_cross_term() -> None:
    """Scale and shift of a normalization are one parameter: norms of the two parts alone would be too small."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            return F.layer_norm(x, (6,), self.both, self.both)

    check_against_vmap(Both(), (torch.randn(5, 6), torch.randint(0, 6, (5,))))


class Positions(nn.Module):
    def __init__(self, expanded: bool) -> None:
        super().__init__()
        self.expanded = expanded
        self.table, self.places, self.head = nn.Embedding(11, 8), nn.Embedding(9, 8), nn.Linear(8, 11)

    def forward(self, x: Tensor) -> Tensor:
        ids = torch.arange(x.shape[1])
        ids = ids.expand(len(x), -1) if self.expanded else ids
        return self.head((self.table(x) + self.places(ids)).relu()).flatten(0, 1)


@pytest.mark.parametrize("expanded", [True, False])
def test_position_ids_expanded_or_shared_and_losses_per_token(expanded: bool) -> None:
    x = tokens()
    check_against_vmap(Positions(expanded), (x, x.flip(1)), loss=lambda made, y: per_token(made, y.flatten()))


def test_rows_on_another_axis_or_folded_into_one() -> None:
    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(5, 6), nn.Linear(6, 4), nn.LayerNorm(6)

        def forward(self, x: Tensor) -> Tensor:
            rows, length, _ = x.shape
            h = self.a(x.reshape(rows * length, -1)).view(rows, length, -1)  # rows outside
            h = self.norm(h.transpose(0, 1).reshape(length * rows, -1))  # rows inside
            return self.b(h.view(length, rows, -1).transpose(0, 2).contiguous().permute(1, 2, 0)).mean(1)

    check_against_vmap(Folded(), (torch.randn(ROWS, ROWS, 5), labels()))


def test_addmm_as_in_older_transformers() -> None:
    class Conv1D(nn.Module):
        def __init__(self, into: int, out: int) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(into, out)), nn.Parameter(torch.randn(out))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)

    model = nn.Sequential(nn.Embedding(11, 40), Conv1D(40, 50), nn.Tanh(), Conv1D(50, 4), Mean(-1))
    check_against_vmap(model, (tokens(), labels()))


def test_a_parameter_without_a_gradient_has_a_sum_of_zeros() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.lost = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            self.lost(x)
            return self.used(x)

    model, batch = Idle(), (torch.randn(ROWS, 3), labels())
    for mode in ("fast", "two_pass", "vmap"):
        sums = ClippingEngine(model, cross_entropy, mode=mode)(batch, clip=1.0).sums
        assert sums["unused.weight"].shape == (4, 3)
        assert not sums["unused.weight"].any()
        assert not sums["lost.bias"].any()
        assert sums["used.weight"].any()


def test_the_reference_can_fail() -> None:
    """A reference that drops a cross term is told apart: the tied weight's norm is not that of two separate weights."""
    model, x = Tied(4, 11), tokens()
    stacks = gradients(model, per_token, (x, x))
    apart = {**stacks, "again": stacks["table.weight"]}
    found = ClippingEngine(model, per_token)((x, x), clip=1.0)
    assert (unit_norms(apart) - found.norms).abs().min() > 1e-3
