"""The model under vmap: its sums are those of single examples, also where vmap alone would be wrong or refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import deniable as dn
from deniable.deep.clipping import ClippingEngine
from tests.deep.clipping.reference import assert_agrees, check_one_by_one, cross_entropy, one_by_one

ROWS, TOKENS = 5, 6


def tokens() -> Tensor:
    """Padded with 0, to different lengths."""
    made = torch.randint(1, 11, (ROWS, TOKENS))
    made[0, 1:], made[1, 4:], made[3, 3:] = 0, 0, 0
    return made


def labels() -> Tensor:
    return torch.randint(0, 4, (ROWS,))


class Table(nn.Module):
    def __init__(self, padding: int, **options: Any) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(11, 5, padding, **options), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table(x)).mean(1))


@pytest.mark.parametrize("padding", [0, 3, -1])
def test_the_padding_entry_takes_no_gradient(padding: int) -> None:
    """vmap's own rule would blank a row of the first unit's table only."""
    model = Table(padding)
    check_one_by_one(model, (tokens(), labels()))
    found = ClippingEngine(model, cross_entropy, mode="vmap")((tokens(), labels()), clip=1.0)
    assert not found.sums["table.weight"][padding].any()


class Attentive(nn.Module):
    def __init__(self, *, batch_first: bool, causal: bool, weights: bool) -> None:
        super().__init__()
        self.batch_first, self.causal, self.weights = batch_first, causal, weights
        self.table, self.head = nn.Embedding(11, 8, 0), nn.Linear(8, 4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.table(x) if self.batch_first else self.table(x).transpose(0, 1)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        made = self.attention(
            inner, inner, inner, key_padding_mask=x == 0, attn_mask=future, need_weights=self.weights
        )[0]
        return self.head(made.mean(1 if self.batch_first else 0))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(
    ("batch_first", "causal", "weights"), [(True, False, False), (False, True, False), (True, True, True)]
)
def test_attention_masks(batch_first: bool, causal: bool, weights: bool) -> None:
    model = Attentive(batch_first=batch_first, causal=causal, weights=weights)
    check_one_by_one(model, (tokens(), labels()), modes=("vmap",))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.table, self.encoder, self.head = nn.Embedding(11, 8, 0), nn.TransformerEncoder(layer, 1), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.table(x), src_key_padding_mask=x == 0)[:, 0])


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_with_padding_and_its_fused_path(training: bool) -> None:
    check_one_by_one(Encoder().train(training), (tokens(), labels()), modes=("vmap",))


class Biased(nn.Module):
    """A mask per example, as numbers or as truth values, and a learned bias."""

    def __init__(self, *, learned: bool, truth: bool) -> None:
        super().__init__()
        self.table, self.qkv, self.head = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 4)
        self.bias = nn.Parameter(torch.randn(TOKENS, TOKENS)) if learned else None
        self.truth = truth

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.table(x)).chunk(3, -1)
        mask = (x != 0).unsqueeze(1).expand(-1, x.shape[1], -1)
        if not self.truth:
            mask = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        if self.bias is not None:
            mask = mask + self.bias
        return self.head(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).mean(1))


@pytest.mark.parametrize(("learned", "truth"), [(False, True), (False, False), (True, False)])
def test_masks_of_attention_products(learned: bool, truth: bool) -> None:
    check_one_by_one(Biased(learned=learned, truth=truth), (tokens(), labels()), modes=("vmap",))


class Saved(nn.Module):
    def __init__(self, *, reentrant: bool, first: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.reentrant, self.first = reentrant, first
        self.a, self.b, self.c = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 4)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self._part(lambda x: self.a(x).tanh(), x) if self.first else self.a(x)
        return self.c(self._part(lambda inner: self.dropout(self.b(inner).tanh()), inner))

    def _part(self, function: Callable[..., Any], x: Tensor) -> Any:
        return checkpoint(function, x, use_reentrant=self.reentrant) if self.training else function(x)


@pytest.mark.parametrize(("reentrant", "first"), [(False, False), (False, True), (True, False), (True, True)])
def test_activation_checkpointing(reentrant: bool, first: bool) -> None:
    """Parts that cannot be run again are kept; the reference runs without checkpointing."""
    model, batch = Saved(reentrant=reentrant, first=first), (torch.randn(ROWS, 3), labels())
    stacks = one_by_one(model.eval(), cross_entropy, batch)
    for mode in ("fast", "two_pass", "vmap"):
        engine = ClippingEngine(model.train(), cross_entropy, mode=mode)
        assert_agrees(engine(batch, clip=0.5), stacks, 0.5)
        engine.check(batch)


class SavedLayer(nn.Module):
    """The part that is run again would call the recurrent kernel, of which the tape saw the parts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.head = nn.Linear(3, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(lambda inner: self.layer(inner)[0].mean(1), self.first(x), use_reentrant=False))


def test_checkpointing_that_the_tape_cannot_follow() -> None:
    batch = torch.randn(ROWS, 6, 3), labels()
    for mode in ("fast", "two_pass"):
        with pytest.raises(dn.errors.NotSupported, match="leave recurrent layers"):
            ClippingEngine(SavedLayer(), cross_entropy, mode=mode).check(batch)
    check_one_by_one(SavedLayer(), batch, modes=("auto",), way="vmap")


def test_dropout_in_a_part_that_is_run_again() -> None:
    """The same mask must come twice: with all weights at one, the gradient tells."""
    model = Saved(reentrant=False, first=False, dropout=0.5)
    batch = torch.randn(ROWS, 3), labels()
    for mode in ("fast", "two_pass", "vmap"):
        torch.manual_seed(3)
        found = ClippingEngine(model, cross_entropy, mode=mode)(batch, clip=1e3)
        # The bias of the last layer has the gradient softmax − target, whose norm is what the losses say.
        hit = torch.exp(-found.losses)
        total = found.sums["c.bias"]
        assert bool(torch.isfinite(total).all())
        torch.testing.assert_close(
            total.sum(), torch.zeros(()), rtol=0, atol=1e-4, msg="softmax − target adds up to 0 for every row"
        )
        assert bool((found.norms.square() >= (1 - hit).square() * 0.99).all())


# what `auto` hands to vmap


class Spectral(nn.Module):
    """A filter in frequencies: complex numbers inside, real parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.filter, self.head = nn.Linear(8, 8), nn.Parameter(torch.randn(5, 2)), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.fft.rfft(self.a(x)) * torch.view_as_complex(self.filter)
        return self.head(torch.fft.irfft(seen, n=8))


class Turning(nn.Module):
    """Complex products of complex weights, kept as real numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(8, 6, 2)), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x.to(torch.cfloat) @ torch.view_as_complex(self.weight)).abs())


class Experts(nn.Module):
    """The weights of each row's two experts, by index."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts, self.head = nn.Linear(8, 3), nn.Parameter(torch.randn(3, 8, 5)), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        shares, which = self.router(x).softmax(-1).topk(2, -1)
        made = torch.einsum("nd,nkde->nke", x, self.experts[which])
        return self.head(torch.tanh(made * shares.unsqueeze(-1)).sum(1))


class Siamese(nn.Module):
    """Both halves of an example in one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.a(torch.cat([x[:, :4], x[:, 4:]])).tanh().chunk(2)
        return self.head(one * two)


class ThereAndBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.a(x.flip(0)).tanh().flip(0))


class RowByRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.head = nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.head(self.a(row).tanh()) for row in x])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("model", [Spectral, Turning, Experts, Siamese, ThereAndBack, RowByRow])
def test_auto_finds_a_way_that_is_right(model: Callable[[], nn.Module]) -> None:
    made, batch = model(), (torch.randn(ROWS, 8), labels())
    stacks = one_by_one(made, cross_entropy, batch)
    for mode in ("auto", "vmap"):
        engine = ClippingEngine(made, cross_entropy, mode=mode)
        engine.check(batch)
        assert_agrees(engine(batch, clip=0.5), stacks, 0.5)


class Moe(nn.Module):
    """Experts that take the rows which chose them: how many depends on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(8, 2), nn.ModuleList(nn.Linear(8, 4) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        best = self.router(x).argmax(1)
        out = x.new_zeros(len(x), 4)
        for at, expert in enumerate(self.experts):
            rows = (best == at).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]))
        return out


class Centred(nn.Module):
    """Examples meet: under vmap each would be its own mean, which is another model."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.a(x)
        return inner - inner.mean(0)


@pytest.mark.parametrize("mode", ["auto", "vmap"])
@pytest.mark.parametrize(("model", "words"), [(Moe, "nonzero"), (Centred, "one example changes")])
def test_refused_in_every_way(mode: str, model: Callable[[], nn.Module], words: str) -> None:
    with pytest.raises(dn.errors.NotSupported, match=words if mode == "auto" else "vmap|one example"):
        ClippingEngine(model(), cross_entropy, mode=mode).check((torch.randn(ROWS, 8), labels()))


def test_a_complex_parameter_is_refused_with_what_to_write() -> None:
    model = nn.Sequential(nn.Linear(8, 4))
    model.phase = nn.Parameter(torch.randn(4, dtype=torch.cfloat))
    with pytest.raises(dn.errors.NotSupported, match=r"phase is complex.*view_as_complex"):
        ClippingEngine(model, cross_entropy)


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_tables_that_the_batch_shares_are_refused(option: dict[str, Any]) -> None:
    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(11, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.embedding(x, self.table, **option).sum(1)

    for mode, words in (("auto", "changes|mixes"), ("vmap", next(iter(option)))):
        with pytest.raises(dn.errors.NotSupported, match=words):
            ClippingEngine(Looking(), cross_entropy, mode=mode).check((tokens(), labels()))


# nothing is left behind


class Remembering(nn.Module):
    """Keeps what it saw, and uses it once it is told to."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.a, self.head, self.kind = nn.Linear(8, 6), nn.Linear(6, 4), kind
        self.uses = False
        self.kept: list[Tensor] = []
        self.scale = torch.ones(6)  # no buffer

    def forward(self, x: Tensor) -> Tensor:
        inner = self.a(x.flip(0)).tanh().flip(0)
        if self.kind == "keeps":
            if self.uses and self.kept:
                inner = inner + self.kept[-1]
            self.kept.append(inner.detach())
        elif self.kind == "writes":
            if self.uses:
                self.scale.mul_(0.5)
            inner = inner * self.scale
        elif self.kind == "constants":
            inner = inner * self.scale * torch.tensor([1.0, 2, 3, 4, 5, 6]) * torch.from_numpy(np.ones(6, "f4"))
        return self.head(inner)


@pytest.mark.parametrize("kind", ["keeps", "writes"])
def test_what_an_earlier_step_left_behind_is_never_used(kind: str) -> None:
    """torch itself gives a new vmap what escaped from an old one, row by row."""
    model, batch = Remembering(kind), (torch.randn(ROWS, 8), labels())
    engine = ClippingEngine(model, cross_entropy, mode="vmap")
    engine.check(batch)
    engine(batch, clip=1.0)
    model.uses = True
    with pytest.raises(dn.errors.NotSupported):
        engine(batch, clip=1.0)


def test_constants_from_outside_may_be_used() -> None:
    model, batch = Remembering("constants"), (torch.randn(ROWS, 8), labels())
    check_one_by_one(model, batch, modes=("vmap",))
