"""Random trees of modules: whatever is put together, every mode gives vmap's norms and sums."""

from __future__ import annotations

import hypothesis
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.deep.clipping.reference import check_against_vmap

ROWS, LENGTH, WIDTH = 4, 5, 6


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Twice(Residual):
    """The same weights on two ways."""

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.tanh(self.inner(x))) - self.inner(0.5 * x)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(1, LENGTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.scale * x) * (x + self.shift)


class Channels(nn.Module):
    """A convolution over the sequence."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2)).transpose(1, 2)


class TimeFirst(Residual):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.transpose(0, 1).flatten(0, 1)).unflatten(0, (LENGTH, -1)).transpose(0, 1)


LEAVES = st.sampled_from(
    [
        lambda: nn.Linear(WIDTH, WIDTH),
        lambda: nn.Linear(WIDTH, WIDTH, bias=False),
        lambda: nn.Sequential(nn.Linear(WIDTH, 30), nn.GELU(), nn.Linear(30, WIDTH)),
        lambda: nn.LayerNorm(WIDTH),
        lambda: nn.RMSNorm(WIDTH),
        lambda: Gate(),
        lambda: nn.PReLU(),
        lambda: nn.Tanh(),
        lambda: Channels(nn.Conv1d(WIDTH, WIDTH, 3, padding=1)),
        lambda: Channels(nn.Conv1d(WIDTH, WIDTH, 3, padding=2, dilation=2, groups=3)),
        lambda: Channels(nn.GroupNorm(2, WIDTH)),
        lambda: TimeFirst(nn.Linear(WIDTH, WIDTH)),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([Residual, Twice]), inner).map(lambda pair: lambda: pair[0](pair[1]())),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: lambda: nn.Sequential(*(part() for part in parts))),
    ),
    max_leaves=5,
)


@hypothesis.settings(max_examples=25)
@hypothesis.given(tree=TREES, seed=st.integers(0, 2**16))
def test_random_trees(tree: object, seed: int) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(9, WIDTH), tree(), nn.Flatten(), nn.Linear(LENGTH * WIDTH, 3))  # type: ignore[operator]
    batch = torch.randint(0, 9, (ROWS, LENGTH)), torch.randint(0, 3, (ROWS,))
    check_against_vmap(model, batch)
