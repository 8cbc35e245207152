"""Memory that is kept from step to step holds nothing that a later step could change, and changes no result."""

from __future__ import annotations

import torch
from torch import nn

from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.contributions import Factors
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.shelves import Shelf
from tests.deep.clipping.reference import cross_entropy


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Conv1d(4, 5, 2), nn.Flatten(), nn.Linear(35, 3))


def batch(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(rows, 4, 6), torch.randint(0, 3, (rows,))


def test_steps_of_changing_size_agree_with_fresh_engines_and_keep_their_answers() -> None:
    net = model()
    engine = ClippingEngine(net, cross_entropy, mode="fast")
    answers = [(rows, engine(batch(rows, rows), clip=0.5)) for rows in (7, 3, 11, 5)]
    for rows, found in answers:
        fresh = ClippingEngine(net, cross_entropy, mode="fast")(batch(rows, rows), clip=0.5)
        assert torch.equal(found.norms, fresh.norms)
        for name, each in fresh.sums.items():
            assert torch.equal(found.sums[name], each)


def test_finished_gradients_lie_where_the_last_ones_lay() -> None:
    shelf = Shelf()
    left, right = torch.randn(4, 9, 3), torch.randn(4, 9, 5)
    first, second = (
        settle([Factors(left[:units], right[:units], (3, 5))], place=shelf.place("weight")).kept[0].stack()
        for units in (4, 2)
    )
    assert first.data_ptr() == second.data_ptr()
    torch.testing.assert_close(second, torch.einsum("utp,utd->upd", left[:2], right[:2]))
    assert shelf.place("bias")((4, 3, 5), right).data_ptr() != first.data_ptr()  # type: ignore[union-attr]


def test_other_types_get_other_memory_and_traced_tensors_none() -> None:
    place = Shelf().place("weight")
    wide = place((2, 2), torch.zeros(1, dtype=torch.float64))
    assert wide is not None
    assert wide.dtype == torch.float64
    narrow = place((2, 2), torch.zeros(1))
    assert narrow is not None
    assert narrow.dtype == torch.float32
    assert place((2, 2), torch.zeros(1, device="meta")) is None
    assert place((2, 2), nn.Parameter(torch.zeros(1))) is None
