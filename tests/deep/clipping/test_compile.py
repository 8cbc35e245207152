"""One small step as one graph, compiled or as it is, parts included; and graphs that are made by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping import engine as engines
from deniable.errors import InvalidArgument
from tests.deep.clipping.reference import assert_agrees, cross_entropy, gradients, unit_norms

both_graphs = pytest.mark.parametrize("compile", [True, "graph"])


@pytest.mark.filterwarnings("ignore")
@both_graphs
def test_a_compiled_step_in_parts(compile: bool | str) -> None:
    model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 2))
    data = torch.randn(5, 3), torch.randint(0, 2, (5,))
    stacks = gradients(model, cross_entropy, data)
    clip = float(unit_norms(stacks).median())
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile=compile, microbatch=3)
    passed_by = counters["inductor"]["fxgraph_cache_bypass"]
    assert_agrees(engine(data, clip=clip), stacks, clip)
    assert counters["inductor"]["fxgraph_cache_bypass"] == passed_by  # the next process finds what this one compiled
    with torch.no_grad():
        model[0].weight.mul_(1.5)
    assert_agrees(engine(data, clip=2 * clip), gradients(model, cross_entropy, data), 2 * clip)
    model[0].weight.data = model[0].weight.data.sin()  # elsewhere in memory
    assert_agrees(engine(data, clip=clip), gradients(model, cross_entropy, data), clip)
    assert len(engine._graphs) == 1


@pytest.mark.filterwarnings("ignore")
def test_equal_sums_do_not_share_memory() -> None:
    """Noise is added in place: of two sums in one place, each would hold the noise of both."""

    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 2), nn.Linear(3, 2)
            self.idle, self.unused = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.one(x) + self.two(x)
            return made

    data = torch.randn(5, 3), torch.randint(0, 2, (5,))
    for compile in (False, True, "graph"):
        sums = ClippingEngine(Parallel(), cross_entropy, compile=compile)(data, clip=1.0).sums
        assert len({each.data_ptr() for each in sums.values()}) == len(sums) == 6


@pytest.mark.filterwarnings("ignore")
@both_graphs
def test_a_batch_that_lies_otherwise_in_memory_is_read_as_it_lies(compile: bool | str) -> None:
    model = nn.Linear(3, 2)
    x, y = torch.randn(5, 3), torch.randint(0, 2, (5,))
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile=compile)
    for rows in (x, x.t().contiguous().t()):
        assert_agrees(engine((rows, y), clip=0.5), gradients(model, cross_entropy, (x, y)), 0.5)


# graphs that are made by themselves


def automatic(model: nn.Module) -> ClippingEngine:
    """An engine as it is on a GPU."""
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile="auto")
    assert engine.compile is False  # on a CPU
    engine.compile = "auto"
    return engine


def batch(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 3), torch.randint(0, 2, (rows,))


def test_a_shape_that_comes_often_becomes_a_graph() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    engine = automatic(model)
    for number in range(engines.PASSES_BEFORE_GRAPH + 3):
        data = batch(5)
        assert_agrees(engine(data, clip=0.3), gradients(model, cross_entropy, data), 0.3)
        assert len(engine._graphs) == (number >= engines.PASSES_BEFORE_GRAPH)
        engine(batch(30 + number), clip=0.3)  # shapes that come once or twice do not
    model.eval()  # another state: proved again, and traced again when it has come often
    assert_agrees(engine(data, clip=0.3), gradients(model, cross_entropy, data), 0.3)
    assert len(engine._graphs) == 1


@pytest.mark.parametrize("kept", ["a number", "a tensor"])
def test_a_graph_holds_only_while_python_would_read_the_same(kept: str) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.scale = nn.Linear(3, 2), 1.0 if kept == "a number" else torch.ones(())

        def forward(self, x: Tensor) -> Tensor:
            made: Tensor = self.inner(x) * self.scale
            return made

    model = Scaled()
    engine = automatic(model)
    for _ in range(engines.PASSES_BEFORE_GRAPH + 2):
        data = batch(5)
        assert_agrees(engine(data, clip=0.3), gradients(model, cross_entropy, data), 0.3)
    assert all(engine._graphs.values())
    assert engine._graphs
    if kept == "a number":
        model.scale = 3.0
    else:
        model.scale.mul_(3)
    assert_agrees(engine(data, clip=0.3), gradients(model, cross_entropy, data), 0.3)


@pytest.mark.parametrize("fault", ["no trace", "other numbers", "too many"])
def test_without_a_graph_the_pass_stays_eager(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(3, 2)
    engine, traced = automatic(model), engines.traced
    used = []

    def make(*arguments: Any, **settings: Any) -> Any:
        if fault == "no trace":
            raise RuntimeError("this operation cannot be traced")
        graph = traced(*arguments, **settings)

        def run(tensors: Any, changing: Any) -> Any:
            used.append(changing)
            sums, norms, *rest = graph(tensors, changing)
            return sums, norms * 2, *rest

        return run

    monkeypatch.setattr(engines, "traced", make)
    if fault == "too many":
        monkeypatch.setattr(engines, "MOST_GRAPHS", 0)
    for _ in range(engines.PASSES_BEFORE_GRAPH + 3):
        data = batch(5)
        assert_agrees(engine(data, clip=0.3), gradients(model, cross_entropy, data), 0.3)
    assert not any(engine._graphs.values())
    assert len(used) == (fault == "other numbers")  # once, on made-up rows


def test_what_compile_may_be() -> None:
    with pytest.raises(InvalidArgument, match="compile must be True, False, 'graph' or 'auto'"):
        ClippingEngine(nn.Linear(3, 2), cross_entropy, compile="fast")
