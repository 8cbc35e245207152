"""Random models out of some hundred operations on [rows, tokens, width], some of which let rows meet.

`verdict` asks the engine; `truth` finds out by brute force whether one row changes the loss of another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.checks import Still
from deniable.errors import NotSupported

WIDTH, CLASSES = 6, 3
Operation = Callable[["Layer", Tensor], Tensor]


class Layer(nn.Module):
    """One operation, with some parameters that it may use."""

    def __init__(self, name: str, function: Operation) -> None:
        super().__init__()
        self.name, self.function = name, function
        self.linear, self.wide = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.table, self.places = nn.Embedding(WIDTH, WIDTH), nn.Parameter(torch.randn(64, WIDTH))
        self.token, self.gate = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.zeros(()))
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.wrong_attention = nn.MultiheadAttention(WIDTH, 2)
        self.kept: Tensor | None = None

    def forward(self, h: Tensor) -> Tensor:
        return self.function(self, h)


def _rows_in_order(h: Tensor) -> Tensor:
    return torch.arange(len(h))


def _loop_over_tokens(layer: Layer, h: Tensor) -> Tensor:
    state, out = torch.zeros_like(h[:, 0]), []
    for step in h.unbind(1):
        state = torch.tanh(layer.linear(step) + state)
        out.append(state)
    return torch.stack(out, 1)


def _siamese(layer: Layer, h: Tensor) -> Tensor:
    one, two = torch.tanh(layer.linear(torch.cat([h, h.flip(1)], 0))).chunk(2, 0)
    return h + layer.gate * (one - two) + one


def _kept(layer: Layer, h: Tensor) -> Tensor:
    before, layer.kept = layer.kept, h.detach()
    return h if before is None else h + before.mean()


def _attended(h: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = h @ h.transpose(1, 2)
    return (scores if mask is None else scores.masked_fill(~mask, -1e4)).softmax(-1) @ h


ISOLATED: dict[str, Operation] = {
    "relu": lambda m, h: h.relu(),
    "tanh": lambda m, h: h.tanh(),
    "gelu": lambda m, h: F.gelu(h),
    "linear": lambda m, h: m.linear(h),
    "softmax of width": lambda m, h: h.softmax(-1) + h,
    "softmax of tokens": lambda m, h: h.softmax(1) + h,
    "layer norm": lambda m, h: F.layer_norm(h, (WIDTH,)),
    "rms norm": lambda m, h: F.rms_norm(h, (WIDTH,)),
    "cumsum": lambda m, h: h.cumsum(1),
    "cumprod": lambda m, h: h.tanh().cumprod(1) + h,
    "sort tokens": lambda m, h: h.sort(1).values,
    "sort width": lambda m, h: h.sort(-1, descending=True)[0],
    "flip tokens": lambda m, h: h.flip(1),
    "roll tokens": lambda m, h: h.roll(1, 1) + h,
    "center tokens": lambda m, h: h - h.mean(1, keepdim=True),
    "norm of an example": lambda m, h: h / (1 + h.norm(dim=(1, 2), keepdim=True)),
    "normalize": lambda m, h: F.normalize(h, dim=-1),
    "attention by hand": lambda m, h: _attended(h),
    "causal attention": lambda m, h: _attended(h, torch.ones(h.shape[1], h.shape[1], dtype=torch.bool).tril()),
    "tokens first": lambda m, h: m.linear(h.transpose(0, 1)).transpose(0, 1),
    "folded": lambda m, h: m.linear(h.flatten(0, 1)).view(h.shape),
    "folded, tokens first": lambda m, h: (
        m.linear(h.transpose(0, 1).reshape(-1, WIDTH)).view(h.shape[1], h.shape[0], WIDTH).transpose(0, 1)
    ),
    "convolution": lambda m, h: m.convolution(h.transpose(1, 2)).transpose(1, 2),
    "group norm": lambda m, h: F.group_norm(h.transpose(1, 2), 2).transpose(1, 2),
    "instance norm": lambda m, h: F.instance_norm(h.transpose(1, 2)).transpose(1, 2),
    "dropout": lambda m, h: F.dropout(h, 0.3, m.training),
    "stochastic depth": lambda m, h: h * (torch.rand(len(h), 1, 1) > 0.2) if m.training else h,
    "noise": lambda m, h: h + torch.randn_like(h) if m.training else h,
    "largest token": lambda m, h: h + h.amax(1, keepdim=True),
    "largest token by index": lambda m, h: h + h[_rows_in_order(h), h[:, :, 0].argmax(1)].unsqueeze(1),
    "two best tokens": lambda m, h: h + h.gather(1, h.topk(2, 1).indices).mean(1, keepdim=True),
    "tokens by a list": lambda m, h: h[:, list(range(h.shape[1] - 1, -1, -1))],
    "width by a list": lambda m, h: h[..., [1, 0, 3, 2, 5, 4]],
    "width at random": lambda m, h: h[..., torch.randperm(WIDTH)] if m.training else h,
    "longer and cut": lambda m, h: torch.cat([h, h.flip(1)], 1)[:, : h.shape[1]],
    "halves exchanged": lambda m, h: torch.cat(h.chunk(2, -1)[::-1], -1),
    "windows": lambda m, h: F.pad(h, (0, 0, 1, 1)).unfold(1, 3, 1).mean(-1),
    "einsum": lambda m, h: torch.einsum("btd,de->bte", h, m.linear.weight),
    "einsum within": lambda m, h: torch.einsum("bts,bsd->btd", torch.einsum("btd,bsd->bts", h, h).softmax(-1), h),
    "pool": lambda m, h: F.avg_pool1d(h.transpose(1, 2), 3, 1, 1).transpose(1, 2),
    "pad and cut": lambda m, h: F.pad(h, (1, 1))[..., 1:-1],
    "masked": lambda m, h: h.masked_fill(h < 0, 0.5),
    "where": lambda m, h: torch.where(h > 0, h, -0.1 * h),
    "clamp": lambda m, h: h.clamp(-1, 1),
    "logsumexp": lambda m, h: h + h.logsumexp(1, keepdim=True),
    "variance": lambda m, h: h / (1 + h.var(1, keepdim=True)),
    "scatter": lambda m, h: h.scatter_add(1, h.argsort(1), h),
    "repeated": lambda m, h: h.repeat_interleave(2, 1)[:, ::2],
    "token in front": lambda m, h: torch.cat([m.token.expand(len(h), -1, -1), h], 1)[:, 1:] + m.token,
    "token repeated": lambda m, h: h + m.token.repeat(len(h), 1, 1),
    "stacked views": lambda m, h: torch.stack([h, h.flip(1), h.flip(2)]).mean(0),
    "bmm": lambda m, h: torch.bmm(h, m.linear.weight.expand(len(h), -1, -1)),
    "sdpa": lambda m, h: F.scaled_dot_product_attention(h.unsqueeze(1), h.unsqueeze(1), h.unsqueeze(1)).squeeze(1),
    "multihead": lambda m, h: m.attention(h, h, h, need_weights=False)[0],
    "fft": lambda m, h: torch.fft.irfft(torch.fft.rfft(h, dim=1), n=h.shape[1], dim=1),
    "distances": lambda m, h: h + torch.cdist(h, h + 1).mean(-1, keepdim=True),
    "one hot": lambda m, h: F.one_hot(h.argmax(-1), WIDTH).to(h.dtype) @ m.linear.weight + h,
    "looked up": lambda m, h: h + m.table(h.argmax(-1)),
    "loop over tokens": _loop_over_tokens,
    "place": lambda m, h: h + torch.arange(h.shape[1]).unsqueeze(1) / 10,
    "learned place": lambda m, h: h + m.places[: h.shape[1]],
    "place by index": lambda m, h: h + F.embedding(torch.arange(h.shape[1]).expand(len(h), -1), m.places),
    "unbound": lambda m, h: torch.stack(h.unbind(1), 1),
    "glu": lambda m, h: F.glu(m.wide(h), -1),
    "siamese": _siamese,
    "in place": lambda m, h: h.clone().mul_(2).add_(1),
    "written": lambda m, h: torch.zeros_like(h).copy_(h) + h,
    "part written": lambda m, h: h.index_copy(2, torch.tensor([0]), h[..., 1:2]),
    "flipped there and back": lambda m, h: m.linear(h.flip(0)).flip(0),
}
MIXING: dict[str, Operation] = {
    "center": lambda m, h: h - h.mean(0),
    "center a little": lambda m, h: h - 0.01 * h.mean(0, keepdim=True),
    "center behind a gate": lambda m, h: h - m.gate * h.mean(0),
    "softmax of rows": lambda m, h: h.softmax(0) + h,
    "sort rows": lambda m, h: h.sort(0).values,
    "flip rows": lambda m, h: h.flip(0) + h,
    "roll rows": lambda m, h: h + h.roll(1, 0),
    "cumsum of rows": lambda m, h: h.cumsum(0),
    "norm of all": lambda m, h: h / (1 + h.norm()),
    "batch norm": lambda m, h: F.batch_norm(h.transpose(1, 2), None, None, training=True).transpose(1, 2),
    "rows at random": lambda m, h: 0.5 * h + 0.5 * h[torch.randperm(len(h))] if m.training else h + h[:1],
    "first row": lambda m, h: h + h[0],
    "largest row": lambda m, h: h - h.amax(0),
    "best row": lambda m, h: h + h[h[:, 0, 0].argmax()],
    "softmax, folded": lambda m, h: h.flatten(0, 1).softmax(0).view(h.shape) + h,
    "turned round": lambda m, h: torch.cat([h[1:], h[:1]]) + h,
    "attention over rows": lambda m, h: _attended(h.transpose(0, 1)).transpose(0, 1),
    "multihead over rows": lambda m, h: m.wrong_attention(h, h, h, need_weights=False)[0],
    "place in the batch": lambda m, h: h * torch.arange(1, len(h) + 1).view(-1, 1, 1),
    "number of rows": lambda m, h: h / len(h),
    "number of rows in a tensor": lambda m, h: h * torch.full((), 1.0 / len(h)),
    "counted rows": lambda m, h: h / torch.ones(len(h)).sum(),
    "scrambled": lambda m, h: h.transpose(0, 1).reshape(h.shape) + h,
    "scrambled view": lambda m, h: h.reshape(h.shape[1], h.shape[0], WIDTH).transpose(0, 1) + h,
    "rows sorted by data": lambda m, h: m.linear(h[h[:, 0, 0].argsort()]) + h,
    "python branch": lambda m, h: h if float(h.detach().sum()) > 0 else -h,
    "python number": lambda m, h: h * float(h.detach().mean()),
    "python list": lambda m, h: h + torch.tensor(h.detach().mean((1, 2)).tolist()).sum(),
    "state": _kept,
    "layer norm of all": lambda m, h: F.layer_norm(h, h.shape),
    "variance of rows": lambda m, h: h / (1 + h.var(0)),
    "pairs": lambda m, h: h + torch.einsum("btd,ctd->bc", h, h).mean(1).view(-1, 1, 1),
    "product of rows": lambda m, h: h + torch.einsum("btd,cte->de", h, h)[0],
    "learned place in the batch": lambda m, h: h + m.places[: len(h)].unsqueeze(1),
    "long batches": lambda m, h: h if len(h) < 4 else h - h.mean(0),
    "group norm of rows": lambda m, h: F.group_norm(h.transpose(0, 1), 1).transpose(0, 1),
    "convolution over rows": lambda m, h: m.convolution(h.permute(1, 2, 0)).permute(2, 0, 1) + h,
    "scatter over rows": lambda m, h: h.scatter_add(0, h.argsort(0), h),
    "masked selection": lambda m, h: h + h[h > 0].sum(),
    "hidden mean": lambda m, h: h + (h - h.detach()) + h.detach().mean(0) * 0.1,
}


class Model(nn.Module):
    """Some layers between an input layer and a head."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self.first = nn.Linear(4, WIDTH)
        self.layers = nn.ModuleList(Layer(name, {**ISOLATED, **MIXING}[name]) for name in names)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for layer in self.layers:
            h = layer(h)
        scores: Tensor = self.head(h.mean(1))
        return scores

    def forget(self) -> None:
        for layer in self.layers:
            layer.kept = None


def loss(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output, y, reduction="none")


def drawn(source: random.Random) -> Model:
    """A model of two to five operations; in every second one a row meets another."""
    names = source.choices(list(ISOLATED), k=source.randint(1, 4))
    if source.random() < 0.5:
        names.insert(source.randrange(len(names) + 1), source.choice(list(MIXING)))
    torch.manual_seed(source.getrandbits(31))
    return Model(names)


def batch(rows: int, tokens: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, tokens, 4, generator=generator) * scale
    return x, torch.randint(0, CLASSES, (rows,), generator=generator)


def shaken(model: Model) -> Model:
    """Other weights, so that gates are open."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=generator))
    return model


def verdict(model: Model, mode: str = "auto") -> tuple[ClippingEngine | None, str]:
    """The engine if it accepts the model in both modes of training, and what it says else."""
    model.forget()
    engine = ClippingEngine(model, loss, mode=mode)
    try:
        for training in (False, True):
            model.train(training)
            engine.check(batch(5, 7, 0))
    except NotSupported as refusal:
        return None, str(refusal)
    return engine, engine.way(batch(5, 7, 0))


def truth(model: Model) -> bool:
    """Whether rows meet: in some batch one row changes the loss of another, or the number of rows does."""
    shaken(model)
    for training in (False, True):
        model.train(training)
        for tokens in (7, 4):
            for seed in range(3):
                model.forget()
                x, y = batch(6, tokens, seed)
                other, labels = x.clone(), y.clone()
                other[2], labels[2] = batch(1, tokens, seed + 50, 20.0)[0][0], (y[2] + 1) % CLASSES
                cases = [(x, y), (other, labels), (x[:5], y[:5]), (x[[5, 1, 2, 3, 4, 0]], y[[5, 1, 2, 3, 4, 0]])]
                found = []
                for each in cases:
                    with Still():
                        found.append(loss(model(each[0]), each[1]).detach())
                kept = [0, 1, 3, 4, 5]
                torch.manual_seed(0)
                one = loss(model(x), y).detach()
                torch.manual_seed(0)
                two = loss(model(other), labels).detach()
                same = (
                    torch.allclose(found[0][kept], found[1][kept], atol=1e-5, rtol=1e-4)
                    and torch.allclose(found[0][:5], found[2], atol=1e-4, rtol=1e-3)
                    and torch.allclose(found[0][[5, 1, 2, 3, 4, 0]], found[3], atol=1e-4, rtol=1e-3)
                    and torch.allclose(one[kept], two[kept], atol=1e-5, rtol=1e-4)
                )
                if not same:
                    return True
    return False


def worst_change(engine: ClippingEngine, model: Model, *, batches: int, clip: float = 0.5) -> float:
    """By how many clips one row, taken away, moves the clipped sum; over random batches of three lengths, in both
    modes, with numbers of all sizes. Draws are constants, so that both sums draw the same."""
    shaken(model)
    worst = 0.0
    for number in range(batches):
        model.train(number % 2 == 0)
        tokens, rows = (7, 4, 10)[number % 3], (6, 3, 9, 2)[number % 4]
        x, y = batch(rows, tokens, number, (1.0, 10.0, 0.1)[number % 3 - 1])
        away = number % rows
        kept = [row for row in range(rows) if row != away]
        sums: list[dict[str, Any]] = []
        for given in ((x, y), (x[kept], y[kept])):
            model.forget()
            with Still():
                sums.append(engine(given, clip=clip).sums)
        apart = torch.cat([(sums[0][name] - sums[1][name]).flatten() for name in sums[0]])
        worst = max(worst, float(apart.double().norm()) / clip)
    return worst
