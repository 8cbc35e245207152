"""Indices out of range, where a kernel cannot be asked twice: their units contribute nothing, others stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from deniable.deep.clipping import ClippingEngine, indices
from deniable.deep.clipping.indices import InRange


class Positions(nn.Module):
    """Tables that are looked up by public indices: made in the pass, in a buffer, in an attribute."""

    def __init__(self, index: str) -> None:
        super().__init__()
        self.words, self.places, self.head = nn.Embedding(7, 4), nn.Embedding(5, 4), nn.Linear(4, 3)
        self.register_buffer("kept", torch.arange(5), persistent=False)
        self.attribute, self.index = torch.arange(5), index

    def forward(self, tokens: Tensor) -> Tensor:
        made = {"made": torch.arange(tokens.shape[1], device=tokens.device), "buffer": self.kept}
        index = {**made, "attribute": self.attribute}[self.index]
        by_place = self.places(index.unsqueeze(0)).to(tokens.device)  # as GPT-2 does: parameters alone, then moved
        return self.head((self.words(tokens) + by_place + self.places.weight[index]).mean(1))


class Lookups(nn.Module):
    """Every way to look something up."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.other, self.head = nn.Embedding(7, 4), nn.Parameter(torch.randn(5, 4)), nn.Linear(4, 3)

    def forward(self, tokens: Tensor, place: Tensor) -> Tensor:
        h = torch.tanh(self.table(tokens)) + self.other[tokens % 5]
        last = h[torch.arange(len(h), device=h.device), place]
        also = h.gather(1, place.view(-1, 1, 1).expand(-1, 1, 4)).squeeze(1)
        return self.head(last + 2 * also)


def loss(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output, y, reduction="none") + F.nll_loss(F.log_softmax(output, 1), y, reduction="none")


def batch() -> tuple[Any, Tensor]:
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 7, (6, 5), generator=random)
    return (tokens, torch.randint(0, 5, (6,), generator=random)), torch.randint(0, 3, (6,), generator=random)


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
@pytest.mark.parametrize("far", [77, -5, 2**62])
@pytest.mark.parametrize("where", ["token", "place", "label"])
@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * torch.cuda.is_available())
def test_units_out_of_range_contribute_nothing(
    device: str, mode: str, far: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device == "cpu":
        monkeypatch.setattr(indices, "is_needed", lambda device, sharded: True)
    torch.manual_seed(0)
    engine = ClippingEngine(Lookups().to(device), loss, mode=mode)
    monkeypatch.setattr(engine, "_apart", None)  # nothing fails, so no unit is worked on by itself
    (tokens, place), y = tree_map(lambda each: each.to(device), batch())
    plain = engine(((tokens[1:], place[1:]), y[1:]), clip=0.5)
    if where == "place" and far == -5:
        far = -6  # −5 is the first of five
    {"token": tokens[0], "place": place[:1], "label": y[:1]}[where][0] = far
    clipped = engine(((tokens, place), y), clip=0.5)
    assert clipped.norms[0] == torch.inf
    assert clipped.factors[0] == 0
    torch.testing.assert_close(clipped.norms[1:], plain.norms)
    for name, each in plain.sums.items():
        torch.testing.assert_close(clipped.sums[name], each, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
@pytest.mark.parametrize("index", ["made", "buffer", "attribute"])
def test_public_indices_are_followed_as_elsewhere(mode: str, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Positions(index)
    (tokens, _), y = batch()
    plain = ClippingEngine(model, loss, mode=mode)((tokens, y), clip=0.5)
    monkeypatch.setattr(indices, "is_needed", lambda device, sharded: True)
    engine = ClippingEngine(model, loss, mode=mode)
    monkeypatch.setattr(engine, "_apart", None)
    for _ in range(2):
        clipped = engine((tokens, y), clip=0.5)
        torch.testing.assert_close(clipped.norms, plain.norms)
        for name, each in plain.sums.items():
            torch.testing.assert_close(clipped.sums[name], each, atol=1e-6, rtol=1e-5)


class WrittenThroughViews(nn.Module):
    """Private indices in a tensor that was made of nothing private."""

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.table, self.write = nn.Embedding(5, 3), write

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.zeros(tokens.shape, dtype=torch.long)
        self.write(places, tokens)
        return self.table(places).mean(1)


@pytest.mark.parametrize(
    "write",
    [
        lambda places, tokens: places.copy_(tokens),
        lambda places, tokens: places.view(-1).copy_(tokens.reshape(-1)),
        lambda places, tokens: places[:, :].add_(tokens),
        lambda places, tokens: places.detach().copy_(tokens),
        lambda places, tokens: places.data.copy_(tokens),
        lambda places, tokens: [one.copy_(two) for one, two in zip(places.unbind(1), tokens.unbind(1), strict=True)],
    ],
)
def test_an_index_that_is_written_through_a_view_is_moved_into_range(
    write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indices, "is_needed", lambda device, sharded: True)
    engine = ClippingEngine(WrittenThroughViews(write), lambda output, y: F.cross_entropy(output, y, reduction="none"))
    tokens, y = torch.tensor([[0, 1], [2, 3], [4, 0]]), torch.tensor([0, 1, 2])
    plain = engine((tokens, y), clip=0.5)
    monkeypatch.setattr(engine, "_apart", None)  # where a lookup that fails would go; on a GPU it ends the process
    tokens[0, 0] = 99
    torch.testing.assert_close(engine((tokens, y), clip=0.5).norms[1:], plain.norms[1:])


def test_what_is_in_range_stays_as_it_is() -> None:
    (tokens, place), y = batch()
    model = Lookups()
    y[0] = -100  # to be ignored
    plain = loss(model(tokens, place), y)
    with InRange():
        assert torch.equal(loss(model(tokens, place), y), plain)
        assert torch.equal(tokens[0], tokens.select(0, 0))
        assert torch.equal(tokens[tokens > 3], tokens.masked_select(tokens > 3))
        assert torch.equal(tokens[:, place[0]], tokens.select(1, int(place[0])))
