"""No example moves the clipped sum by more than the clip: models in which examples meet are refused, wherever that
happens and however late it begins; models in which they do not are clipped exactly. 10 s.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from deniable.errors import NotSupported
from tests.deep.clipping.reference import cross_entropy


class Apply(nn.Module):
    """A layer made of a function of the layer itself and its input; it counts its calls."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], **attributes: Any) -> None:
        super().__init__()
        self.function, self.calls = function, 0
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.function(self, x)


def between(function: Callable[[Any, Tensor], Tensor], **attributes: Any) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), Apply(function, **attributes), nn.Dropout(0.1), nn.Linear(8, 4))


def data(rows: int = 6) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 5, generator=random), torch.randint(0, 4, (rows,), generator=random)


def distance(one: dict[str, Tensor], two: dict[str, Tensor]) -> float:
    return float(torch.cat([(one[name] - two[name]).flatten() for name in one]).norm())


def alone(model: nn.Module, loss: Any, batch: Any, *, clip: float) -> dict[str, Tensor]:
    """The definition: every example by itself, by plain autograd."""
    parameters = dict(model.named_parameters())
    sums = {name: torch.zeros_like(each) for name, each in parameters.items()}
    for row in range(len(batch[1])):
        losses = loss(model(batch[0][row : row + 1]), batch[1][row : row + 1])
        gradients = torch.autograd.grad(losses.sum(), list(parameters.values()), materialize_grads=True)
        norm = float(torch.cat([each.flatten() for each in gradients]).norm())
        factor = min(1.0, clip / max(norm, 1e-9))
        for name, each in zip(parameters, gradients, strict=True):
            sums[name] += factor * each
    return sums


# forms of input


class Tokens(nn.Module):
    """Flattens rows and tokens, as GPT-2 does."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner, self.outer = nn.Embedding(20, 6), nn.Linear(6, 6), nn.Linear(6, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.table(tokens)
        return self.outer(torch.tanh(self.inner(h.view(-1, h.shape[-1])))).view(*h.shape[:2], -1)


def per_token(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output.transpose(1, 2), y, reduction="none", ignore_index=0).sum(1)


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
def test_every_length_is_proved_by_itself(mode: str) -> None:
    torch.manual_seed(0)
    model = Tokens()
    engine = ClippingEngine(model, per_token, mode=mode)
    engine.check((torch.ones(4, 8, dtype=torch.long),) * 2)
    for length in (8, 16, 3, 8):
        x = torch.randint(1, 20, (7, length))
        y = x.clone()
        y[::2] = 0
        sums = engine((x, y), clip=1.0).sums
        assert distance(sums, alone(model, per_token, (x, y), clip=1.0)) < 2e-3
        assert distance(sums, engine((x[1:], y[1:]), clip=1.0).sums) <= 1


# examples that meet


MEETINGS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "mean": lambda self, x: x - x.mean(0),
    "mean, while training": lambda self, x: x - x.mean(0) if self.training else x,
    "statistics and noise": lambda self, x: (x - x.mean(0)) / (x.std(0) + 1) + 0.01 * torch.randn_like(x),
    "batch norm": lambda self, x: F.batch_norm(x, None, None, training=True),
    "mixup": lambda self, x: 0.5 * x + 0.5 * x[torch.randperm(len(x))],
    "sorted by length": lambda self, x: x[torch.argsort(x.sum(1))],
    "batch attention behind a gate": lambda self, x: x + self.gate * ((x @ x.t()).softmax(1) @ x),
    "the row before": lambda self, x: x + torch.cat([x[:1], x[:-1]]),
    "the first row": lambda self, x: x + x[0],
    "the largest": lambda self, x: x / x.abs().max(),
    "by the number of rows": lambda self, x: x / len(x),
    "by one over the number of rows": lambda self, x: x * torch.tensor(1.0 / len(x)),
    "if there are many": lambda self, x: x * 2 if len(x) > 4 else x,
    "by the place": lambda self, x: x * torch.arange(len(x)).unsqueeze(1),
    "a table by the place": lambda self, x: x + self.table[: len(x)],
    "a weight by the place": lambda self, x: x * torch.linspace(0, 1, len(x)).unsqueeze(1),
    "one feature over rows": lambda self, x: x + x.t().cumsum(1).t(),
    "a layer over rows": lambda self, x: x + F.layer_norm(x.t().contiguous(), (len(x),)).t(),
    "written from another row": lambda self, x: x.clone().index_copy_(0, torch.tensor([0]), x[1:2]),
    "in a hook of the gradient": lambda self, x: _with_hook(x),
    "in an autograd.Function": lambda self, x: Centring.apply(x),
}
LOOKS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "item": lambda self, x: x * x.sum().item(),
    "tolist": lambda self, x: x + torch.tensor(x.tolist()),
    "numpy": lambda self, x: x + torch.from_numpy(x.detach().numpy()),
    "a branch": lambda self, x: x * 2 if x.sum() > 0 else x,
    "nonzero": lambda self, x: x + len((x > 0).nonzero()),
    "unique": lambda self, x: x + len(x.round().unique()),
    "a mask that selects": lambda self, x: x + x[x > 0].sum(),
}
KEPT: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "a mean of means": lambda self, x: x - _moved_mean(self, x),
    "the last batch": lambda self, x: x + _swap(self, "last", x.detach()).mean(0),
    "in NumPy's memory": lambda self, x: x + _add_up(self, x),
    "in a buffer": lambda self, x: x - self.running.mul_(0.9).add_(0.1 * x.detach().mean(0)),
}


class Centring(torch.autograd.Function):
    """Isolated forward, mixing backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] - gradients[0].mean(0)


def _with_hook(x: Tensor) -> Tensor:
    made = x * 1
    if made.requires_grad:
        made.register_hook(lambda gradient: gradient - gradient.mean(0))  # type: ignore[no-untyped-call]
    return made


def _add_up(self: Any, x: Tensor) -> Tensor:
    return torch.from_numpy(self.array).add_(x.detach().mean(0))


def _moved_mean(self: Any, x: Tensor) -> Any:
    return _swap(self, "mean", 0.9 * self.mean + 0.1 * x.detach().mean(0))


def _swap(self: Any, name: str, value: Any) -> Any:
    before = getattr(self, name)
    setattr(self, name, value)
    return before


def attributes() -> dict[str, Any]:
    return {
        "gate": nn.Parameter(torch.zeros(())), "table": nn.Parameter(torch.zeros(99, 8)), "mean": torch.zeros(8),
        "last": torch.zeros(1, 8), "array": np.zeros(8, dtype=np.float32),
    }  # fmt: skip


@pytest.mark.parametrize("name", [*MEETINGS, *LOOKS, *KEPT])
def test_examples_that_meet_are_refused(name: str) -> None:
    model = between({**MEETINGS, **LOOKS, **KEPT}[name], **attributes())
    if name == "in a buffer":
        model[1].register_buffer("running", torch.zeros(8))
    with pytest.raises(NotSupported) as refusal:
        ClippingEngine(model, cross_entropy, mode="fast").check(data())
    words = "depends on the data" if name in LOOKS else "step" if name in KEPT else "rows|gradients of the others"
    assert refusal.match(words)
    if name not in ("in an autograd.Function", "in a hook of the gradient", "if there are many"):
        assert refusal.match(r"test_isolation\.py:\d+")  # the line
    with torch.no_grad():
        assert all(not each.any() for each in model.buffers())


@pytest.mark.parametrize(
    "loss",
    [
        lambda output, y: cross_entropy(output, y) / len(y),
        lambda output, y: cross_entropy(output, y) - cross_entropy(output, y).mean(),
        lambda output, y: F.cross_entropy(output, y, reduction="none", weight=torch.bincount(y, minlength=4).float()),
        lambda output, y: cross_entropy(output.flip(0), y),
    ],
)
def test_losses_that_meet_are_refused(loss: Any) -> None:
    with pytest.raises(NotSupported):
        ClippingEngine(between(lambda _, x: x), loss).check(data())


# examples that do not


class Halves(nn.Module):
    """Two views of each example through one branch, behind a gate that begins at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.gate, self.head = nn.Linear(5, 5), nn.Parameter(torch.zeros(5)), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        one, two = torch.tanh(self.branch(torch.cat([x, x.flip(1)]))).chunk(2)
        return self.head(x + self.gate * (one - two))


class Stacked(Halves):
    def forward(self, x: Tensor) -> Tensor:
        both = torch.tanh(self.branch(torch.stack([x, x.flip(1)], 1)))
        return self.head(x + self.gate * (both[:, 0] - both[:, 1]))


@pytest.mark.parametrize("kind", [Halves, Stacked])
def test_two_views_of_an_example(kind: type[Halves]) -> None:
    torch.manual_seed(0)
    model, batch = kind(), data()
    engine = ClippingEngine(model, cross_entropy)
    engine.check(batch)
    with torch.no_grad():
        model.gate.fill_(1)
    assert distance(engine(batch, clip=0.3).sums, alone(model, cross_entropy, batch, clip=0.3)) < 1e-3


def test_stochastic_depth_is_never_refused() -> None:
    model = between(lambda self, x: x * (torch.rand(len(x), 1) >= 0.3) / 0.7)
    for seed in range(20):
        torch.manual_seed(seed)
        ClippingEngine(model, cross_entropy, mode="fast").check(data())


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
def test_parameters_in_the_loss_are_clipped(mode: str) -> None:
    torch.manual_seed(0)
    model, batch = nn.ModuleDict({"body": nn.Linear(5, 6), "head": nn.Linear(6, 4)}), data()
    model.forward = lambda x: torch.tanh(model["body"](x))

    def loss(h: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model["head"](h), y) + 0.1 * model["body"].weight.square().sum()

    engine = ClippingEngine(model, loss, mode=mode)
    assert engine.check(batch).unused == ()
    assert distance(engine(batch, clip=1e3).sums, alone(model, loss, batch, clip=1e3)) < 1e-3


def test_a_loss_with_parameters_of_its_own_is_refused_by_name() -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, output: Tensor, y: Tensor) -> Tensor:
            return cross_entropy(output * self.scale, y)

    with pytest.raises(NotSupported, match=r"parameters of its own \(scale\)"):
        ClippingEngine(nn.Linear(5, 4), Weighted())
    ClippingEngine(nn.Linear(5, 4), Weighted().requires_grad_(False)).check(data())


def test_rows_of_one_unit_may_meet() -> None:
    torch.manual_seed(0)

    def centred(self: Any, x: Tensor) -> Tensor:
        pairs = x.view(-1, 2, 8)
        return (pairs - pairs.mean(1, keepdim=True)).view(-1, 8)

    model = nn.Sequential(nn.Linear(5, 8), Apply(centred), nn.Linear(8, 4))
    ClippingEngine(model, cross_entropy, rows_per_unit=2, mode="fast").check(data())
    ClippingEngine(model, cross_entropy, rows_per_unit=4, mode="fast").check(data())
    for rows in (1, 3):
        with pytest.raises(NotSupported):
            ClippingEngine(model, cross_entropy, rows_per_unit=rows, mode="fast").check(data())


@torch.library.custom_op("deniable_tests::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return x * 2


double.register_autograd(lambda ctx, gradient: gradient * 2)


def test_an_operation_without_a_rule_is_refused_by_name() -> None:
    with pytest.raises(NotSupported, match=r"deniable_tests\.double"):
        ClippingEngine(between(lambda _, x: double(x)), cross_entropy, mode="fast").check(data())


# later


def centred(module: Any, inputs: Any, output: Tensor) -> Tensor:
    return output - output.mean(0)


CHANGES: dict[str, Callable[[nn.Module], Any]] = {
    "a hook": lambda model: model[0].register_forward_hook(centred),
    "a hook before": lambda model: model[0].register_forward_pre_hook(lambda _, x: (x[0] - x[0].mean(0),)),
    "a hook of every module": lambda model: nn.modules.module.register_module_forward_hook(centred),
    "another forward": lambda model: setattr(model[0], "forward", lambda x: (x @ model[0].weight.t()).softmax(0)),
    "another module": lambda model: model.__setitem__(1, Apply(MEETINGS["mean"])),
    "an attribute": lambda model: setattr(model[1], "function", MEETINGS["mean"]),
    "training": lambda model: model.train(),
}


@pytest.mark.parametrize(("name", "compile"), [*((name, False) for name in CHANGES), ("training", True)])
def test_what_changes_later_is_proved_again(name: str, compile: bool) -> None:
    model = between(lambda self, x: x - x.mean(0) if self.training else x * 1).eval()
    engine = ClippingEngine(model, cross_entropy, mode="fast", compile=compile)
    batch = data()
    engine(batch, clip=1.0)
    change = CHANGES[name](model)
    try:
        with pytest.raises(NotSupported):
            engine(batch, clip=1.0)
    finally:
        if hasattr(change, "remove"):
            change.remove()


def test_a_buffer_that_was_written_to_is_proved_again() -> None:
    model = between(lambda self, x: x * self.scale)
    model[1].register_buffer("scale", torch.ones(8))
    engine = ClippingEngine(model, cross_entropy)
    engine(data(), clip=1.0)
    plans = len(engine._plans)
    engine(data(8), clip=1.0)
    assert len(engine._plans) == plans
    model[1].scale.fill_(2)
    engine(data(), clip=1.0)
    assert len(engine._plans) == plans + 1


def test_a_course_that_begins_to_mix_is_refused() -> None:
    model = between(lambda self, x: x - x.mean(0) if self.calls > 60 else x * 1)
    engine = ClippingEngine(model, cross_entropy, mode="fast")
    with pytest.raises(NotSupported, match="gradients of the others"):
        repeat(engine)


def repeat(engine: ClippingEngine) -> None:
    for _ in range(80):
        engine(data(), clip=1.0)


def test_what_was_kept_for_long_is_refused() -> None:
    """A queue that is used when it is full: the proof of the later course finds tensors that real batches left."""

    def remember(self: Any, x: Tensor) -> Tensor:
        self.queue.append(x.detach().mean(0))
        return x + self.queue[0] if self.calls > 60 else x * 1

    model = between(remember, queue=collections.deque([torch.zeros(8)] * 9, maxlen=9))
    engine = ClippingEngine(model, cross_entropy, mode="fast")
    with pytest.raises(NotSupported, match="an earlier step made of its batch"):
        repeat(engine)


def test_constants_from_outside_stay() -> None:
    """They may be made anew, as long as they are the same; another one is proved again."""
    for constant in (
        lambda self, x: x * torch.from_numpy(np.arange(8, dtype=np.float32)),
        lambda self, x: x * self.table.to(x.device),
    ):
        model = between(constant, table=torch.arange(8.0))
        engine, batch = ClippingEngine(model, cross_entropy, mode="fast"), data()
        engine.check(batch)
        model.eval()
        one = engine(batch, clip=1e3).sums
        assert distance(one, alone(model, cross_entropy, batch, clip=1e3)) < 1e-2
        model[1].table = torch.ones(8)
        assert distance(engine(batch, clip=1e3).sums, alone(model, cross_entropy, batch, clip=1e3)) < 1e-2


def test_a_table_that_is_made_for_each_length_is_no_state() -> None:
    def turned(self: Any, x: Tensor) -> Tensor:
        if self.table is None or len(self.table) != x.shape[1]:
            self.table = torch.arange(x.shape[1]).float().cos()
        return (x * self.table[:, None]).mean(1)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), Apply(turned, table=None), nn.Linear(8, 4))
    engine = ClippingEngine(model, cross_entropy, mode="fast")
    for length in (3, 7, 3, 7):
        batch = torch.randn(6, length, 5), data()[1]
        assert distance(engine(batch, clip=0.5).sums, alone(model, cross_entropy, batch, clip=0.5)) < 2e-3
