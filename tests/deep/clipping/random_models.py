"""Random models out of more than a hundred operations on [rows, tokens, width], some of which let rows meet.

An operation is applied as it is, or in a setting: in a residual branch, to memory laid out in another way, to some
tokens only, to tokens in the place of rows. In that last setting whatever works along tokens mixes rows, so every
operation is tried on both sides. `verdict` asks the engine, `proof` the row typing alone; `mixes` finds out by brute
force whether one row changes the loss of another, and `worst_change` by how many clips one row moves the sum.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.checks import Still
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.proving import prove
from deniable.errors import NotSupported

WIDTH, CLASSES = 6, 3
LENGTHS = (7, 4, 10)
FAILURES = (RuntimeError, ValueError, IndexError)
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
        self.image, self.bag = nn.Conv2d(1, 1, 3, padding=1), nn.EmbeddingBag(WIDTH, WIDTH, mode="sum")
        self.kept: Tensor | None = None
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros(()))

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


class _Meeting(torch.autograd.Function):
    """Isolated forward; its gradient is not."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        return h.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient - gradient.mean(0)


def _hooked(h: Tensor) -> Tensor:
    made = h * 1.0
    if made.requires_grad:
        made.register_hook(lambda gradient: gradient + gradient.sum(0))  # type: ignore[no-untyped-call]
    return made


def _attended(h: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = h @ h.transpose(1, 2)
    return (scores if mask is None else scores.masked_fill(~mask, -1e4)).softmax(-1) @ h


def _written(h: Tensor, rows: Tensor) -> Tensor:
    made = h.clone()
    made[rows] = h
    return made + h


def _rotated(h: Tensor) -> Tensor:
    angle = torch.arange(h.shape[1]).unsqueeze(1) / 10
    half = torch.cat([-h[..., WIDTH // 2 :], h[..., : WIDTH // 2]], -1)
    return h * angle.cos() + half * angle.sin()


def _experts(layer: Layer, h: Tensor) -> Tensor:
    weight, at = layer.linear(h).softmax(-1).topk(2, -1)
    chosen: Tensor = torch.zeros_like(h).scatter(-1, at, weight)
    return torch.einsum("bte,ed->btd", chosen, layer.table.weight) + h


def _written_by_token(layer: Layer, h: Tensor) -> Tensor:
    out = torch.zeros_like(h)
    for token in range(h.shape[1]):
        out[:, token] = layer.linear(h[:, token])
    return out


def _row_by_row(layer: Layer, h: Tensor) -> Tensor:
    return torch.stack([layer.linear(each) - each.mean() for each in h])


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
    "silu": lambda m, h: F.silu(h),
    "soft plus": lambda m, h: F.softplus(h),
    "powers": lambda m, h: (h.abs() + 0.1).pow(1.5) - h.square(),
    "interpolated": lambda m, h: torch.lerp(h, h.flip(1), 0.3),
    "products added": lambda m, h: torch.addcmul(h, h.sin(), h.cos(), value=0.5),
    "rotated": lambda m, h: _rotated(h),
    "image": lambda m, h: m.image(h.unsqueeze(1)).squeeze(1),
    "patches": lambda m, h: F.fold(F.unfold(h.unsqueeze(1), 3, padding=1), h.shape[1:], 3, padding=1).squeeze(1),
    "resized": lambda m, h: F.interpolate(h.transpose(1, 2), scale_factor=2.0)[..., ::2].transpose(1, 2),
    "adaptive pool": lambda m, h: h + F.adaptive_avg_pool1d(h.transpose(1, 2), 1).transpose(1, 2),
    "largest so far": lambda m, h: h.cummax(1).values + h,
    "median token": lambda m, h: h - h.median(1, keepdim=True).values,
    "lower quarter": lambda m, h: h - h.kthvalue(2, 1, keepdim=True).values,
    "experts": _experts,
    "bags": lambda m, h: m.bag(h.argsort(-1).flatten(0, 1)).view(h.shape) + h,
    "triangle": lambda m, h: (h @ h.transpose(1, 2)).tril() @ h / 10,
    "inverse": lambda m, h: (
        torch.linalg.inv(h.transpose(1, 2) @ h + 5 * torch.eye(WIDTH)).diagonal(0, 1, 2).unsqueeze(1) + h
    ),
    "solved": lambda m, h: torch.linalg.solve(
        h.transpose(1, 2) @ h + 5 * torch.eye(WIDTH), h.transpose(1, 2)
    ).transpose(1, 2),
    "cosine": lambda m, h: h * F.cosine_similarity(h, h.flip(1), dim=-1).unsqueeze(-1),
    "along an axis": lambda m, h: h.take_along_dim(h.argsort(1), 1),
    "mask by length": lambda m, h: h.masked_fill(
        torch.arange(h.shape[1]).view(1, -1, 1) > h.argmax(1)[:, :1, None], 0.0
    ),
    "checkpointed": lambda m, h: checkpoint(lambda g: m.linear(g).tanh(), h, use_reentrant=False),
    "complex": lambda m, h: torch.view_as_real(
        torch.view_as_complex(h.reshape(*h.shape[:2], 3, 2).contiguous()) * 1j
    ).flatten(2),
    "turned axes": lambda m, h: h.permute(2, 0, 1).softmax(0).permute(1, 2, 0) + h,
    "strided": lambda m, h: h.as_strided(h.shape, h.stride()) * 2 if h.is_contiguous() else h * 2,
    "token dropout": lambda m, h: F.dropout1d(h, 0.3, m.training),
    "alpha dropout": lambda m, h: F.alpha_dropout(h, 0.3, m.training),
    "random slopes": lambda m, h: F.rrelu(h, 0.1, 0.3, m.training),
    "noisy softmax": lambda m, h: F.gumbel_softmax(h, dim=-1) + h if m.training else h.softmax(-1) + h,
    "written token by token": _written_by_token,
    "row by row": _row_by_row,
    "outer product": lambda m, h: torch.einsum("bti,btj->btij", h, h).mean(-1),
    "bilinear": lambda m, h: F.bilinear(h, h, m.linear.weight.unsqueeze(0).expand(WIDTH, -1, -1)),
    "tiled": lambda m, h: h.tile(1, 2, 1)[:, : h.shape[1]],
    "differences": lambda m, h: h.diff(dim=1, prepend=h[:, :1]),
    "weighted": lambda m, h: h * m.linear.weight.norm() + m.linear.weight[0],
    "no gradient": lambda m, h: h + m.linear(h.detach()),
    "batched matrix": lambda m, h: torch.baddbmm(h, h @ h.transpose(1, 2), h, alpha=0.1),
    "reversed halves": lambda m, h: torch.cat([h[:, h.shape[1] // 2 :], h[:, : h.shape[1] // 2]], 1),
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
    "only when long": lambda m, h: h if h.shape[1] < 9 else h - h.mean(0),
    "only in training": lambda m, h: h - h.mean(0) if m.training else h,
    "only outside training": lambda m, h: h if m.training else h - h.mean(0),
    "rows from the third": lambda m, h: h + torch.cat([h[3:], h[:3]]),
    "rows exchanged in halves": lambda m, h: h + torch.cat(h.chunk(2)[::-1]),
    "every second row": lambda m, h: torch.cat([h[::2], h[1::2]]) + h,
    "last row": lambda m, h: h + h[-1:],
    "pairs of rows": lambda m, h: h + h.index_select(0, torch.arange(len(h)).flip(0)),
    "median row": lambda m, h: h - h.median(0).values,
    "quantile of rows": lambda m, h: h - h.quantile(0.5, 0),
    "rows with the largest number": lambda m, h: h + (h == h.amax(0)).to(h.dtype),
    "gradient of all": lambda m, h: _Meeting.apply(h),
    "as many copies as rows": lambda m, h: h.unsqueeze(1).expand(-1, len(h), -1, -1).sum(1) / 5,
    "hooked": lambda m, h: _hooked(h),
    "bags over rows": lambda m, h: h + m.bag(h.argmax(-1).flatten(), torch.arange(len(h))).unsqueeze(1),
    "buffer": lambda m, h: h + m.seen.mul_(0.9).add_(0.1 * h.detach().mean()),
    "a drawn row": lambda m, h: h + h[torch.randint(len(h), ())] if m.training else h + h[1:2],
    "scaled by rows": lambda m, h: F.interpolate(h.permute(1, 2, 0), scale_factor=2.0, mode="linear")[..., ::2].permute(
        2, 0, 1
    ),
    "an index for few rows": lambda m, h: h + h[_rows_in_order(h).clamp(max=4)],
    "a number for few rows": lambda m, h: h * float(max(1, len(h) - 5)),
    "a constant for few rows": lambda m, h: h * torch.full((), float(max(1, len(h) - 5))),
    "a list for few rows": lambda m, h: h + h[[min(row, 4) for row in range(len(h))]],
    "written for few rows": lambda m, h: _written(h, _rows_in_order(h).clamp(max=4)),
    "groups of rows": lambda m, h: h + m.places[_rows_in_order(h) // 6].unsqueeze(1),
    "hidden mean": lambda m, h: h + (h - h.detach()) + h.detach().mean(0) * 0.1,
}


LATE = [name for name in MIXING if "few rows" in name or name == "groups of rows"]
"""They look harmless at the sizes of the proof. With more rows the tape notices, and takes every unit by itself."""


def _other_memory(layer: Layer, h: Tensor) -> Tensor:
    return layer(h.permute(1, 2, 0).contiguous().permute(2, 0, 1))


def _some_tokens(layer: Layer, h: Tensor) -> Tensor:
    return torch.cat([layer(h[:, :-1]), h[:, -1:]], 1)


def _every_second_token(layer: Layer, h: Tensor) -> Tensor:
    made = h.clone()
    made[:, ::2] = layer(h[:, ::2])
    return made


SETTINGS: dict[str, Callable[[Layer, Tensor], Tensor]] = {
    "plain": lambda layer, h: layer(h),
    "residual": lambda layer, h: h + layer(h),
    "gated": lambda layer, h: h + layer.gate * layer(h),
    "laid out otherwise": _other_memory,
    "some tokens": _some_tokens,
    "every second token": _every_second_token,
    "detached": lambda layer, h: h + layer(h.detach()),
    "with a copy": lambda layer, h: layer(torch.cat([h, h.tanh()], 0))[: len(h)],
    "tokens as rows": lambda layer, h: layer(h.transpose(0, 1)).transpose(0, 1),
    "tokens as rows, copied": lambda layer, h: layer(h.transpose(0, 1).contiguous()).transpose(0, 1),
}


class Model(nn.Module):
    """Some layers between an input layer and a head."""

    def __init__(self, plan: list[tuple[str, str]]) -> None:
        super().__init__()
        self.plan = plan
        self.first = nn.Linear(4, WIDTH)
        self.layers = nn.ModuleList(Layer(name, {**ISOLATED, **MIXING}[name]) for name, _ in plan)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        for layer, (_, setting) in zip(self.layers, self.plan, strict=True):
            h = SETTINGS[setting](layer, h)
        scores: Tensor = self.head(h.mean(1))
        return scores

    def forget(self) -> None:
        """Drop what layers keep from step to step."""
        for layer in self.layers:
            layer.kept = None
            if float(layer.seen):
                layer.seen.zero_()

    def __str__(self) -> str:
        return "; ".join(name if setting == "plain" else f"{name} ({setting})" for name, setting in self.plan)


def loss(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output, y, reduction="none")


def drawn(source: random.Random) -> Model:
    """A model of one to five operations; in every second one some operation is meant to let rows meet."""
    names = source.choices(list(ISOLATED), k=source.randint(1, 4))
    if source.random() < 0.4:
        names.insert(source.randrange(len(names) + 1), source.choice(list(MIXING)))
    settings = [source.choice([*["plain"] * 4, *list(SETTINGS)[1:-2]]) for _ in names]
    if source.random() < 0.2:
        settings[source.randrange(len(settings))] = source.choice(list(SETTINGS)[-2:])
    torch.default_generator.manual_seed(source.getrandbits(31))
    return Model(list(zip(names, settings, strict=True)))


def batch(rows: int, tokens: int, seed: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Made-up inputs and labels."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, tokens, 4, generator=generator) * scale
    return x, torch.randint(0, CLASSES, (rows,), generator=generator)


def shake(model: Model) -> None:
    """Other weights, so that gates are open."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=generator))


# what the engine says


def proof(model: Model) -> str:
    """Why row typing alone does not prove the model, in both modes and three lengths; empty if it does."""
    engine = ClippingEngine(model, loss)
    for training, tokens in itertools.product((False, True), LENGTHS):
        model.train(training)
        model.forget()
        try:
            prove(engine.recipe, engine.tensors(), Form.of(batch(5, tokens, 0)))
        except (NotSupported, *FAILURES) as refusal:
            return f"{type(refusal).__name__}: {refusal}"
    return ""


def verdict(engine: ClippingEngine, model: Model) -> str:
    """The ways in which the engine clips the model in both modes and three lengths: "fast", "vmap" or both. Raises
    NotSupported where it refuses."""
    ways = set()
    for training, tokens in itertools.product((False, True), LENGTHS):
        model.train(training)
        model.forget()
        ways.add(engine.way(batch(5, tokens, 0)))
    return "/".join(sorted(ways))


# what is so


def _near(one: Tensor, two: Tensor) -> bool:
    return torch.allclose(one, two, atol=1e-4, rtol=1e-3, equal_nan=True)


def _losses(model: Model, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The losses, and their gradient by the input: what comes back to a row belongs to it too."""
    model.forget()
    x = x.clone().requires_grad_()
    made = loss(model(x), y)
    gradient = torch.autograd.grad(made.sum(), x, allow_unused=True)[0]
    return made.detach(), torch.zeros_like(x) if gradient is None else gradient


def mixes(model: Model, batches: int) -> bool:
    """Whether rows meet: in some batch a row that is replaced, removed or put elsewhere changes what another one has,
    or a row fails for want of others."""
    try:
        return _mixes(model, batches)
    except FAILURES:
        return True


def _mixes(model: Model, batches: int) -> bool:
    others = [0, 1, 3, 4, 5]
    order = [5, 1, 2, 0, 3, 4]
    for number in range(batches):
        model.train(number % 2 == 0)
        tokens = LENGTHS[number % 3]
        x, y = batch(6, tokens, number)
        other, labels = x.clone(), y.clone()
        other[2], labels[2] = batch(1, tokens, number + 50, 20.0)[0][0], (y[2] + 1) % CLASSES
        torch.default_generator.manual_seed(0)
        one = _losses(model, x, y)
        torch.default_generator.manual_seed(0)
        two = _losses(model, other, labels)
        if not all(_near(before[others], after[others]) for before, after in zip(one, two, strict=True)):
            return True
        with Still():
            whole, fewer = _losses(model, x, y), _losses(model, x[others], y[others])
            turned = _losses(model, x[order], y[order])
        for before, without, elsewhere in zip(whole, fewer, turned, strict=True):
            if not _near(before[others], without) or not _near(before[order], elsewhere):
                return True
    return False


def worst_change(engine: ClippingEngine, model: Model, *, batches: int, clip: float = 0.5) -> float:
    """By how many clips one row, taken away, moves the clipped sum.

    Rows are taken away one after another, so that every batch but the first is the neighbour of two. Lengths, modes and
    the sizes of numbers alternate. Draws are constants, so that all sums draw the same.
    """
    worst, number, draws = 0.0, 0, random.Random(0)
    while batches > 0:
        model.train(number % 2 == 0)
        x, y = batch(9, LENGTHS[number % 3], number, (1.0, 10.0, 0.1)[number // 2 % 3])
        number += 1
        before: Tensor | None = None
        while len(x) and batches > 0:
            model.forget()
            with Still():
                sums = engine((x, y), clip=clip).sums
            now = torch.cat([each.flatten() for each in sums.values()]).double()
            if before is not None:
                batches -= 1
                apart = float((before - now).norm()) / clip
                worst = apart if not apart <= worst else worst
            before = now
            away = draws.randrange(len(x))
            x, y = torch.cat([x[:away], x[away + 1 :]]), torch.cat([y[:away], y[away + 1 :]])
    return worst


@dataclass
class Case:
    """A model, what row typing and the engine say about it, and what is so."""

    model: str
    way: str
    """"fast", "vmap", or "fast/vmap" where modes differ; empty where the engine refuses."""
    reason: str
    """Of the engine's refusal."""
    unproved: str
    """Why row typing alone refuses."""
    mixes: bool
    """Whether a row was seen to change what another one has; asked where the model is refused, or proved."""
    meant: bool
    """Whether an operation is there that is meant to let rows meet."""
    worst: float
    """By how many clips a row moves the sum; 0 where the engine refuses."""

    @property
    def accepted_mixer(self) -> bool:
        """Whether one example moves the sum by more than the clip."""
        return bool(self.way) and not self.worst <= 1.001

    @property
    def proved_mixer(self) -> bool:
        """Whether row typing alone would have been wrong, about what can be seen at the sizes of the proof."""
        return not self.unproved and self.mixes and not any(name in self.model for name in LATE)

    @property
    def false_refusal(self) -> bool:
        """Whether a model is refused in which no row was seen to meet another, and no operation lets them."""
        return not self.way and not self.mixes and not self.meant


def judge(model: Model, *, batches: int) -> Case:
    """Ask, and find out."""
    engine = ClippingEngine(model, loss)
    way = reason = ""
    worst = 0.0
    try:
        way = verdict(engine, model)
    except NotSupported as refusal:
        reason = str(refusal)
    shake(model)
    if way:
        try:
            worst = worst_change(engine, model, batches=batches)
        except NotSupported as refusal:
            way, reason = "", str(refusal)
    unproved = "" if way == "fast" else proof(model)
    meets = mixes(model, min(batches, 12)) if not way or not unproved else False
    meant = any(name in MIXING for name, _ in model.plan)
    return Case(str(model), way, reason, unproved, meets, meant, worst)
