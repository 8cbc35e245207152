"""The weighted sum of a GPU as far as it is seen without one: when it is used, how a graph holds it, layouts.

What it computes is tested where there is a GPU, in tests/deep/test_devices.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from deniable.deep.clipping import kernels
from deniable.deep.clipping.contributions import Stack

LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "as made": lambda each: each,
    "transposed": lambda each: each.transpose(1, 2).contiguous().transpose(1, 2),
    "turned": lambda each: each.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1),
    "units last": lambda each: each.movedim(0, 3).contiguous().movedim(3, 0),
    "in part": lambda each: torch.cat([each, each], 2)[:, :, : each.shape[2]],
    "expanded": lambda each: each[:, :1].expand(each.shape),
}


def on_a_gpu(units: int, *shape: int, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor, Tensor]:
    """Values, factors and who is alive, on a device that need not be there; under a fake mode."""
    options = {"device": "cuda"}
    alive = torch.empty(units, dtype=torch.bool, **options)
    return torch.empty(units, *shape, dtype=dtype, **options), torch.empty(units, **options), alive


def total(values: Tensor, factors: Tensor, alive: Tensor) -> Tensor:
    return Stack(values).total(factors, alive)


def nodes(values: Tensor, factors: Tensor, alive: Tensor) -> list[str]:
    graph = make_fx(total)(values, factors, alive).graph
    return [str(node.target).split(".")[1] for node in graph.nodes if node.op == "call_function"]


def test_it_is_for_large_narrow_gradients_on_a_gpu_with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    large = 512, 513
    with FakeTensorMode():
        monkeypatch.setattr(kernels, "has_triton", lambda: False)
        assert not kernels.suits(on_a_gpu(2, *large)[0])
        monkeypatch.setattr(kernels, "has_triton", lambda: True)
        assert all(kernels.suits(on_a_gpu(2, *large, dtype=each)[0]) for each in kernels.TYPES)
        assert not kernels.suits(on_a_gpu(2, *large, dtype=torch.float64)[0])
        assert not kernels.suits(on_a_gpu(2, 512, 511)[0])
        assert not kernels.suits(on_a_gpu(0, *large)[0])
        assert not kernels.suits(torch.zeros(2, *large))


def test_a_graph_holds_one_node_and_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "has_triton", lambda: True)
    with FakeTensorMode():
        given = on_a_gpu(4, 512, 600)
        assert nodes(*given) == ["permute", "view", "weighted_sum", "view", "permute"]
        made = total(*given)
        assert (made.shape, made.stride(), made.dtype) == ((512, 600), (600, 1), torch.float32)


def test_without_triton_the_sum_is_written_in_tensor_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "has_triton", lambda: False)
    with FakeTensorMode():
        found = nodes(*on_a_gpu(4, 512, 600))
        assert "weighted_sum" not in found
        assert {"where", "mul", "sum"} <= set(found)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_number_finds_its_place(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sum of matrices in the place of the kernel: flattened in the order of memory, and back."""
    seen = []

    def reference(values: Tensor, factors: Tensor, alive: Tensor) -> Tensor:
        seen.append(values)
        return (values * (factors * alive).view(-1, 1)).sum(0)

    monkeypatch.setattr(kernels, "_weighted_sum", reference)
    values = LAYOUTS[layout](torch.randn(3, 4, 5, 6))
    factors, alive = torch.rand(3), torch.tensor([True, False, True])
    made = kernels.weighted_sum(values, factors, alive)
    assert made.is_contiguous()
    torch.testing.assert_close(made, torch.einsum("u,u...->...", factors * alive, values))
    copied = seen[0].untyped_storage().data_ptr() != values.untyped_storage().data_ptr()
    assert copied == (layout in ("in part", "expanded"))
