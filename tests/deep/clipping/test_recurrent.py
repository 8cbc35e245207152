"""Recurrent layers: their clipped sums are those of single examples, in every mode, and no row meets another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import deniable as dn
from deniable.deep.clipping import ClippingEngine
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.recurrence import recurrence, recurrence_backward
from deniable.deep.clipping.typing import RowTyping
from tests.deep.clipping.reference import assert_agrees, check_one_by_one, cross_entropy, one_by_one, unit_norms

ROWS, TOKENS, WIDTH = 5, 6, 3

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")


def sequences() -> tuple[Tensor, Tensor]:
    return torch.randn(ROWS, TOKENS, WIDTH), torch.randint(0, 4, (ROWS,))


class Reader(nn.Module):
    """A recurrent layer whose outputs and last states all count."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(WIDTH, layer.input_size), layer
        size = layer.proj_size or layer.hidden_size
        self.head = nn.Linear(size * (2 if layer.bidirectional else 1), 4)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(x)
        first = self.layer.batch_first
        made, last = self.layer(inner if first else inner.transpose(0, 1))
        made = made.mean(1 if first else 0)
        for each in last if isinstance(last, tuple) else (last,):
            made = made + each.sum((0, 2)).unsqueeze(1)
        return self.head(torch.tanh(made))


# Every kind with every option at least once.
LAYERS: dict[str, Any] = {
    "LSTM": lambda: nn.LSTM(4, 5, batch_first=True),
    "LSTM, tokens first, no bias": lambda: nn.LSTM(4, 5, bias=False),
    "LSTM, two layers, both directions": lambda: nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True),
    "LSTM, projected": lambda: nn.LSTM(4, 5, batch_first=True, proj_size=2),
    "LSTM, projected, two layers, both directions, no bias": lambda: nn.LSTM(
        4, 5, 2, bias=False, bidirectional=True, proj_size=2
    ),
    "GRU": lambda: nn.GRU(4, 5, batch_first=True),
    "GRU, two layers, both directions, no bias": lambda: nn.GRU(4, 5, 2, bias=False, bidirectional=True),
    "RNN": lambda: nn.RNN(4, 5, batch_first=True),
    "RNN, relu, two layers, both directions": lambda: nn.RNN(4, 5, 2, nonlinearity="relu", bidirectional=True),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_layers(kind: str) -> None:
    check_one_by_one(Reader(LAYERS[kind]()), sequences())


def test_dropout_between_layers_draws_for_each_row() -> None:
    model = Reader(nn.LSTM(4, 50, 2, batch_first=True, dropout=0.5))
    x, y = torch.randn(1, TOKENS, WIDTH).expand(ROWS, -1, -1), torch.zeros(ROWS, dtype=torch.long)
    for mode in ("fast", "two_pass", "vmap"):
        engine = ClippingEngine(model, cross_entropy, mode=mode)
        assert len(engine((x, y), clip=1.0).norms.unique()) == ROWS
        assert engine.way((x, y)) == mode


class Started(nn.Module):
    """A learned first state, and a decoder that begins where the encoder ends."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 1, 5))
        self.encoder, self.decoder = nn.GRU(WIDTH, 5, batch_first=True), nn.LSTM(WIDTH, 5, batch_first=True)
        self.head = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.encoder(x, self.start.expand(-1, len(x), -1).contiguous())
        return self.head(self.decoder(x, (last, last.tanh()))[0].amax(1))


def test_states_that_are_given() -> None:
    check_one_by_one(Started(), sequences())


class Stepper(nn.Module):
    """A cell, token by token."""

    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell, self.head = cell, nn.Linear(cell.hidden_size, 4)

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        if isinstance(self.cell, nn.LSTMCell):
            state = (x.new_zeros(len(x), self.cell.hidden_size), x.new_zeros(len(x), self.cell.hidden_size))
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return self.head(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize(
    "cell",
    [
        lambda: nn.LSTMCell(WIDTH, 5),
        lambda: nn.GRUCell(WIDTH, 5, bias=False),
        lambda: nn.RNNCell(WIDTH, 5),
        lambda: nn.RNNCell(WIDTH, 40, nonlinearity="relu"),
    ],
)
def test_cells(cell: Any) -> None:
    """The wide one keeps factors; its uses, one per token, are joined."""
    check_one_by_one(Stepper(cell()), sequences())


def test_other_lengths_frozen_layers_and_units_of_several_rows() -> None:
    model = Reader(nn.LSTM(4, 5, batch_first=True))
    model.layer.weight_hh_l0.requires_grad_(False)
    engine = ClippingEngine(model, cross_entropy)
    for tokens in (2, 9):
        batch = torch.randn(ROWS, tokens, WIDTH), torch.randint(0, 4, (ROWS,))
        stacks = one_by_one(model, cross_entropy, batch)
        clip = float(unit_norms(stacks).median())
        assert_agrees(engine(batch, clip=clip), stacks, clip)
        assert engine.way(batch) == "fast"
    batch = torch.randn(6, TOKENS, WIDTH), torch.randint(0, 4, (6,))
    stacks = one_by_one(model, cross_entropy, batch)
    found = ClippingEngine(model, cross_entropy, rows_per_unit=2)(batch, clip=0.3)
    assert_agrees(found, stacks, 0.3, size=2)


def test_compiled_and_narrow() -> None:
    model, batch = Reader(nn.RNN(4, 5, batch_first=True)), sequences()
    stacks = one_by_one(model, cross_entropy, batch)
    assert_agrees(ClippingEngine(model, cross_entropy, compile=True, mode="fast")(batch, clip=0.1), stacks, 0.1)
    narrow = ClippingEngine(model, cross_entropy, autocast=torch.bfloat16, mode="fast")(batch, clip=0.1)
    torch.testing.assert_close(narrow.norms.double(), unit_norms(stacks), rtol=0.05, atol=1e-3)


def test_rows_in_the_place_of_tokens_are_refused() -> None:
    """`batch_first` forgotten: the layer would go from row to row."""

    class Forgetful(nn.Module):
        def __init__(self, layer: nn.RNNBase) -> None:
            super().__init__()
            self.layer, self.head = layer, nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x)[0].mean(1))

    for layer in (nn.LSTM(WIDTH, 5), nn.GRU(WIDTH, 5), nn.RNN(WIDTH, 5)):
        with pytest.raises(dn.errors.NotSupported, match="one example changes"):
            ClippingEngine(Forgetful(layer), cross_entropy).check(sequences())


class Stateful(nn.Module):
    """Goes on with the state of the batch before, once it is told to."""

    def __init__(self, *, uses: bool) -> None:
        super().__init__()
        self.uses = uses
        self.state: Tensor | None = None
        self.layer, self.head = nn.GRU(WIDTH, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        start = torch.zeros(1, len(x), 5)
        if self.uses and self.state is not None:
            start = self.state  # the calls are the same, whether it is used or not
        made, last = self.layer(x, start)
        self.state = last.detach()
        return self.head(made.mean(1))


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap", "auto"])
def test_a_state_that_is_kept_from_batch_to_batch_is_refused(mode: str) -> None:
    with pytest.raises(dn.errors.NotSupported):
        ClippingEngine(Stateful(uses=True), cross_entropy, mode=mode).check(sequences())
    model = Stateful(uses=False)
    engine = ClippingEngine(model, cross_entropy, mode=mode)
    engine.check(sequences())
    engine(sequences(), clip=1.0)
    model.uses = True
    with pytest.raises(dn.errors.NotSupported):
        engine(sequences(), clip=1.0)


class Packing(nn.Module):
    """Lengths are read off the tokens, which are private. All outputs and the last states count."""

    def __init__(self, layer: nn.RNNBase, *, sorts: bool = False) -> None:
        super().__init__()
        self.sorts, self.table, self.layer = sorts, nn.Embedding(7, 4, 0), layer
        size = layer.proj_size or layer.hidden_size
        self.head = nn.Linear(size * (2 if layer.bidirectional else 1), 4)

    def forward(self, x: Tensor) -> Tensor:
        lengths, first = (x != 0).sum(1).clamp(min=1), self.layer.batch_first
        inner = self.table(x) if first else self.table(x).transpose(0, 1)
        packed = pack_padded_sequence(inner, lengths.cpu(), first, self.sorts)
        made, last = self.layer(packed)
        made, lengths = pad_packed_sequence(made, first, padding_value=0.5, total_length=x.shape[1] + 1)
        made = torch.tanh(made).sum(1 if first else 0) / lengths.unsqueeze(1).to(made.device)
        for at, each in enumerate(last if isinstance(last, tuple) else (last,)):
            made = made + (at + 1) * each.sum((0, 2)).unsqueeze(1)
        return self.head(torch.tanh(made))


def sentences() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 7, (ROWS, TOKENS))
    for row, length in enumerate((3, 6, 1, 4, 2)):
        tokens[row, length:] = 0
    return tokens, torch.randint(0, 4, (ROWS,))


@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_give_each_example_what_torch_gives_it_alone(name: str) -> None:
    check_one_by_one(Packing(LAYERS[name]()), sentences(), modes=("fast",))


@pytest.mark.parametrize("mode", ["two_pass", "vmap"])
def test_packed_sequences_in_the_other_modes(mode: str) -> None:
    check_one_by_one(Packing(nn.LSTM(4, 5, bidirectional=True)), sentences(), modes=(mode,))


def test_packed_sequences_in_parts_by_person_and_as_a_graph() -> None:
    tokens, y = sentences()
    batch, model = (tokens[:4], y[:4]), Packing(nn.LSTM(4, 5, bidirectional=True))
    whole = ClippingEngine(model, cross_entropy)(batch, clip=1.0)
    for options in ({"microbatch": 3}, {"compile": "graph"}):
        found = ClippingEngine(model, cross_entropy, **options)(batch, clip=1.0)
        torch.testing.assert_close(found.sums, whole.sums, rtol=1e-4, atol=1e-6)
    people = ClippingEngine(model, cross_entropy, rows_per_unit=2)(batch, clip=1e3)
    alone = ClippingEngine(model, cross_entropy)(batch, clip=1e3)
    torch.testing.assert_close(people.sums, alone.sums, rtol=1e-3, atol=1e-5)


def test_rows_of_a_packed_sequence_need_not_be_sorted() -> None:
    """Alone each row is sorted; torch would refuse the batch."""
    check_one_by_one(Packing(nn.LSTM(4, 5, 2, bidirectional=True), sorts=True), sentences(), modes=("fast", "two_pass"))


def test_packed_sequences_are_proved_once_for_all_numbers_of_rows() -> None:
    engine = ClippingEngine(Packing(nn.GRU(4, 5, batch_first=True)), cross_entropy, mode="fast")
    tokens, y = sentences()
    engine.check((tokens, y))
    plan = engine._plan(Form.of((tokens, y)))
    for rows in (1, 4, 5):
        engine((tokens[:rows], y[:rows]), clip=1.0)
    assert plan.script.verified >= {1, 4, 5}


@pytest.mark.parametrize("mode", ["fast", "vmap"])
def test_lengths_that_torch_refuses_are_brought_into_range(mode: str) -> None:
    class Lengths(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.LSTM(1, 5, batch_first=True), nn.Linear(5, 4)

        def forward(self, given: tuple[Tensor, Tensor]) -> Tensor:
            packed = pack_padded_sequence(given[0], given[1], True, enforce_sorted=False)
            return self.head(self.layer(packed)[1][0][0])

    class Given(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            return self.inner((x, lengths))

    model, x, y = Given(Lengths()), torch.randn(4, TOKENS, 1), torch.zeros(4, dtype=torch.long)
    x[3, 2:] = torch.nan  # after the end of the row
    engine = ClippingEngine(model, cross_entropy, mode=mode)
    one = engine(((x, torch.tensor([-3, 0, 99, 2])), y), clip=1.0)
    two = engine(((x, torch.tensor([1, 1, TOKENS, 2])), y), clip=1.0)
    assert one.norms.isfinite().all()
    torch.testing.assert_close(one.sums, two.sums)


def test_a_loss_on_packed_tokens_is_refused() -> None:
    """There padding would count."""

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer, self.head = nn.Embedding(7, 4, 0), nn.LSTM(4, 5), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            lengths = (x != 0).sum(1)
            packed = pack_padded_sequence(self.table(x).transpose(0, 1), lengths.cpu(), enforce_sorted=False)
            return self.head(self.layer(packed)[0].data).view(-1, len(x), 4).logsumexp(0)

    with pytest.raises(dn.errors.NotSupported):
        ClippingEngine(Tokens(), cross_entropy).check(sentences())


def test_a_packed_sequence_from_elsewhere_is_refused() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.LSTM(3, 5), nn.Linear(5, 4)

        def forward(self, x: Tensor) -> Tensor:
            sizes = torch.full((x.shape[1],), len(x))
            packed = PackedSequence(x.transpose(0, 1).flatten(0, 1), sizes)
            return self.head(self.layer(packed)[1][0][0])

    with pytest.raises(dn.errors.NotSupported, match=r"pack_padded_sequence inside the model|how many rows"):
        ClippingEngine(Own(), cross_entropy, mode="fast").check(sequences())


# the operations themselves


def _arguments(cell: str, *, projected: bool, reverse: bool) -> tuple[Any, ...]:
    gates = {"lstm": 4, "gru": 3}.get(cell, 1)
    size, out = 5, 2 if projected else 5
    projection = torch.randn(out, size) if projected else None
    memory = torch.randn(ROWS, size) if cell == "lstm" else torch.empty(0)
    return (
        cell, torch.randn(TOKENS, ROWS, gates * size), torch.randn(gates * size, out), torch.randn(gates * size),
        projection, torch.randn(ROWS, out), memory, reverse,
    )  # fmt: skip


KINDS = [("lstm", False), ("lstm", True), ("gru", False), ("rnn_tanh", False), ("rnn_relu", False)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("cell", "projected"), KINDS)
def test_no_row_of_the_operations_meets_another(cell: str, projected: bool, reverse: bool) -> None:
    """The rule of the proof says so: every row of every result depends on that row of every argument alone."""
    given = _arguments(cell, projected=projected, reverse=reverse)
    steps = recurrence(*given)
    back = (*steps[:4], given[5], given[6], given[2], given[4])
    gradient = torch.randn_like(steps[0])
    last = torch.randn(ROWS, 5) if cell == "lstm" else torch.empty(0)
    found = recurrence_backward(cell, *back, gradient, last, reverse)

    def replaced(values: Any) -> Any:
        if not isinstance(values, Tensor) or not values.numel() or any(values is one for one in (given[2:5])):
            return values
        other = values.clone()
        other.narrow(values.dim() - 2, 2, 1).add_(torch.randn(values.shape[-1]))
        return other

    again = recurrence(*(replaced(each) for each in given))
    found_again = recurrence_backward(
        cell, *(replaced(each) for each in back), replaced(gradient), replaced(last), reverse
    )
    kept = [at for at in range(ROWS) if at != 2]
    for one, two in zip((*steps, *found), (*again, *found_again), strict=True):
        if one.numel():
            axis = one.dim() - 2
            others = [each.index_select(axis, torch.tensor(kept)) for each in (one, two)]
            torch.testing.assert_close(*others, rtol=1e-5, atol=1e-6)
            assert not torch.equal(one, two)


@pytest.mark.parametrize("axis", [0, 2])
def test_the_rule_refuses_rows_on_another_axis(axis: int) -> None:
    """As many tokens as rows, so that shapes tell nothing."""
    typing = RowTyping(3, rules=True)
    batch = torch.randn(3, 3, 3) if axis == 0 else torch.randn(3, 3, 3).permute(1, 2, 0)
    typing.private(batch if axis == 0 else batch.permute(2, 0, 1))
    with typing:
        made = recurrence("rnn_tanh", batch, torch.randn(3, 3), None, None, torch.zeros(3, 3), torch.empty(0), False)
    with pytest.raises(dn.errors.NotSupported, match=r"deniable\.recurrence"):
        typing.place(made[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("cell", "projected"), KINDS)
def test_the_gradient_is_that_of_autograd(cell: str, projected: bool, reverse: bool) -> None:
    """Against the same steps in ordinary operations, for the inputs, the products, the state and the memory."""
    from deniable.deep.clipping.rules.recurrent import _CELLS

    given = _arguments(cell, projected=projected, reverse=reverse)
    _, inputs, weight, bias, projection, state, memory, _ = given
    inputs, state, memory = (each.requires_grad_() for each in (inputs, state, memory))
    shifts = torch.zeros(TOKENS, ROWS, weight.shape[0], requires_grad=True)
    now: Any = (state, memory) if cell == "lstm" else (state,)
    made: list[Any] = [None] * TOKENS
    for at in range(TOKENS - 1, -1, -1) if reverse else range(TOKENS):
        now = _CELLS[cell](inputs[at], F.linear(now[0], weight, bias) + shifts[at], now)
        if projection is not None:
            now = (F.linear(now[0], projection), *now[1:])
        made[at] = now[0]
    output = torch.stack(made)
    gradient, last = torch.randn_like(output), torch.randn_like(memory)
    total = (output * gradient).sum() + ((now[1] * last).sum() if cell == "lstm" else 0)
    wanted = torch.autograd.grad(total, (inputs, shifts, state, memory), allow_unused=True)
    with torch.no_grad():
        steps = recurrence(*given)
        found = recurrence_backward(cell, *steps[:4], state, memory, weight, projection, gradient, last, reverse)
    torch.testing.assert_close(steps[0], output.detach())
    products = found[1] if found[1].numel() else found[0]
    for one, two in zip((found[0], products, found[3], found[4]), wanted, strict=True):
        if two is not None:
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
