"""Every kind of layer, as peers list them in their own tests: clipped sums are those of single examples.

The kinds: convolutions in one to three dimensions, linear layers, embeddings and bags, the normalizations, attention,
recurrent layers, and a learned token at the end of every sequence. Each is tried behind a trained layer, so that
gradients also pass through it, with examples first or second, in all three ways of clipping.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from tests.deep.clipping.reference import check_one_by_one, cross_entropy

ROWS = 4


class Behind(nn.Module):
    """A layer behind another one: [rows, …] → four numbers per row."""

    def __init__(self, first: nn.Module, layer: nn.Module, *, second: bool = False) -> None:
        super().__init__()
        self.first, self.layer, self.second = first, layer, second
        for each in layer.parameters():
            if each.dim() == 1:
                nn.init.normal_(each)  # scales of one and shifts of zero would hide something
        self.head = nn.LazyLinear(4)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(x)
        made: Any = self.layer(inner.transpose(0, 1) if self.second else inner)
        made = made[0] if isinstance(made, tuple) else made
        made = made.transpose(0, 1) if self.second else made
        return self.head(torch.tanh(made).flatten(1))


class SelfAttention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.attention(x, x, x)[0]
        return made


class CrossAttention(nn.Module):
    """Keys and values of their own widths, and a token of zeros among them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, kdim=3, vdim=5, add_zero_attn=True, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.attention(x, x[:, :, :3], x[:, :, :5])[0]
        return made


class LastToken(nn.Module):
    """A learned token behind every sequence, [tokens, rows, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.bias.repeat(1, x.shape[1], 1)])


def image(*sizes: int) -> Tensor:
    return torch.randn(ROWS, *sizes)


def numbers(*sizes: int) -> Tensor:
    return torch.randint(0, 9, (ROWS, *sizes))


def conv1() -> nn.Module:
    return nn.Conv1d(2, 4, 1)


def conv2() -> nn.Module:
    return nn.Conv2d(2, 4, 1)


def conv3() -> nn.Module:
    return nn.Conv3d(2, 4, 1)


def wide() -> nn.Module:
    return nn.Linear(3, 8)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], nn.Module], Callable[[], Tensor], bool]] = {
    "Conv1d": (conv1, lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), lambda: image(2, 9), False),
    "Conv1d, same": (conv1, lambda: nn.Conv1d(4, 6, 3, padding="same", dilation=2), lambda: image(2, 9), False),
    "Conv2d": (conv2, lambda: nn.Conv2d(4, 6, 3, padding=1), lambda: image(2, 5, 5), False),
    "Conv2d, grouped": (conv2, lambda: nn.Conv2d(4, 6, (2, 3), groups=2, bias=False), lambda: image(2, 5, 5), False),
    "Conv2d, circular": (
        conv2, lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), lambda: image(2, 5, 5), False,
    ),
    "ConvTranspose2d": (conv2, lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), lambda: image(2, 4, 4), False),
    "Conv3d": (conv3, lambda: nn.Conv3d(4, 6, 2, stride=2, padding=1), lambda: image(2, 4, 4, 4), False),
    "Conv3d, grouped, dilated": (
        conv3, lambda: nn.Conv3d(4, 6, (1, 2, 2), groups=2, dilation=2, bias=False), lambda: image(2, 4, 4, 4), False,
    ),
    "Conv3d, same": (conv3, lambda: nn.Conv3d(4, 3, (3, 1, 3), padding="same"), lambda: image(2, 3, 4, 3), False),
    "Linear": (wide, lambda: nn.Linear(8, 6), lambda: image(3), False),
    "Linear, sequences": (wide, lambda: nn.Linear(8, 6, bias=False), lambda: image(5, 3), False),
    "Linear, two axes between": (wide, lambda: nn.Linear(8, 6), lambda: image(2, 5, 3), False),
    "Linear, examples second": (wide, lambda: nn.Linear(8, 6), lambda: image(5, 3), True),
    "Bilinear": (wide, lambda: _Pair(nn.Bilinear(8, 8, 3)), lambda: image(3), False),
    "Embedding": (nn.Identity, lambda: nn.Embedding(9, 8), lambda: numbers(5), False),
    "Embedding, padded": (nn.Identity, lambda: nn.Embedding(9, 8, padding_idx=2), lambda: numbers(2, 3), False),
    "Embedding, examples second": (nn.Identity, lambda: nn.Embedding(9, 8), lambda: numbers(5), True),
    "Embedding, sparse": (nn.Identity, lambda: nn.Embedding(9, 8, sparse=True), lambda: numbers(5), False),
    "EmbeddingBag, mean": (nn.Identity, lambda: nn.EmbeddingBag(9, 8), lambda: numbers(5), False),
    "EmbeddingBag, sum": (nn.Identity, lambda: nn.EmbeddingBag(9, 8, mode="sum"), lambda: numbers(5), False),
    "EmbeddingBag, padded, sparse": (
        nn.Identity, lambda: nn.EmbeddingBag(9, 8, sparse=True, padding_idx=2), lambda: numbers(5), False,
    ),
    "LayerNorm": (wide, lambda: nn.LayerNorm(8), lambda: image(5, 3), False),
    "LayerNorm, two axes": (wide, lambda: nn.LayerNorm((5, 8)), lambda: image(5, 3), False),
    "RMSNorm": (wide, lambda: nn.RMSNorm((5, 8), eps=1e-3), lambda: image(5, 3), False),
    "GroupNorm": (conv2, lambda: nn.GroupNorm(2, 4), lambda: image(2, 3, 3), False),
    "GroupNorm, one group": (conv1, lambda: nn.GroupNorm(1, 4), lambda: image(2, 5), False),
    "InstanceNorm1d": (conv1, lambda: nn.InstanceNorm1d(4, affine=True), lambda: image(2, 5), False),
    "InstanceNorm2d": (conv2, lambda: nn.InstanceNorm2d(4, affine=True), lambda: image(2, 3, 3), False),
    "InstanceNorm3d": (conv3, lambda: nn.InstanceNorm3d(4, affine=True), lambda: image(2, 2, 2, 3), False),
    "MultiheadAttention": (wide, lambda: SelfAttention(batch_first=True), lambda: image(5, 3), False),
    "MultiheadAttention, examples second": (wide, SelfAttention, lambda: image(5, 3), True),
    "MultiheadAttention, biases": (
        wide, lambda: SelfAttention(batch_first=True, add_bias_kv=True, add_zero_attn=True), lambda: image(5, 3), False,
    ),
    "MultiheadAttention, other keys": (wide, CrossAttention, lambda: image(5, 3), False),
    "LSTM": (wide, lambda: nn.LSTM(8, 3, batch_first=True, bidirectional=True), lambda: image(5, 3), False),
    "GRU": (wide, lambda: nn.GRU(8, 3, num_layers=2), lambda: image(5, 3), True),
    "RNN": (wide, lambda: nn.RNN(8, 3, batch_first=True), lambda: image(5, 3), False),
    "a learned last token": (wide, lambda: LastToken(8), lambda: image(5, 3), True),
    "PReLU": (conv1, lambda: nn.PReLU(4), lambda: image(2, 5), False),
}  # fmt: skip


class _Pair(nn.Module):
    def __init__(self, layer: nn.Bilinear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layer(x, x.flip(1))
        return made


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("kind", CASES)
def test_sums_are_those_of_single_examples(kind: str) -> None:
    first, layer, inputs, second = CASES[kind]
    model, batch = Behind(first(), layer(), second=second), (inputs(), torch.randint(0, 4, (ROWS,)))
    model(batch[0])  # gives the last layer its shape
    check_one_by_one(model, batch)


class Offsets(nn.Module):
    """Bags by offsets: all of one length, one bag per example."""

    def __init__(self) -> None:
        super().__init__()
        self.bags, self.head = nn.EmbeddingBag(9, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.bags(x.flatten(), torch.arange(0, x.numel(), x.shape[1]))))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_bags_by_offsets_take_the_way_of_vmap() -> None:
    check_one_by_one(Offsets(), (numbers(5), torch.randint(0, 4, (ROWS,))), modes=("auto", "vmap"), way="vmap")


@pytest.mark.parametrize("kind", ["LSTM", "Conv2d", "MultiheadAttention, examples second"])
def test_no_example_at_all(kind: str) -> None:
    """Sums of nobody are zeros."""
    first, layer, inputs, second = CASES[kind]
    model = Behind(first(), layer(), second=second)
    model(inputs())
    found = ClippingEngine(model, cross_entropy)((inputs()[:0], torch.zeros(0, dtype=torch.long)), clip=1.0)
    assert all(not each.any() for each in found.sums.values())
    assert {name: each.shape for name, each in model.named_parameters()} == {k: v.shape for k, v in found.sums.items()}
