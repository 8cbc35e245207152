"""The table of typing rules against torch's own samples of every operation, and mutants that this must kill.

The short form tries every third operation; `make soak` tries all of them, on more samples, axes, rows and kinds of
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine, labels, typing, typing_indexing, typing_layers, typing_rules
from deniable.deep.clipping.labels import Place
from deniable.deep.clipping.typing import RowTyping, facts_of
from deniable.deep.clipping.typing_rules import OVERWRITES, RULES, SHAPE_ONLY, SIZES, Operation, Places, base_name
from deniable.errors import NotSupported
from tests.deep.clipping.typing_samples import DIRECT, Outcome, operations, try_direct, try_operation


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trials(wanted: list[Any] | str, **extent: Any) -> Outcome:
    """The outcome over operations, or over those of some names."""
    if isinstance(wanted, str):
        names = wanted.split()
        wanted = [each for each in operations() if each.name in names]
    total = Outcome()
    for each in wanted:
        total += try_operation(each, **extent)
    return total


@pytest.mark.parametrize("backward", [False, True])
def test_nothing_that_is_proved_is_wrong(backward: bool) -> None:
    outcome = trials(operations()[1 + backward :: 3], most_samples=1, most_choices=3, most_rows=1, backward=backward)
    assert outcome.violations == []
    assert outcome.operations > 200
    assert outcome.proved > (250 if backward else 400)


def test_nothing_that_is_proved_is_wrong_in_direct_calls() -> None:
    outcome = try_direct()
    assert outcome.violations == []
    assert outcome.proved > 120


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("backward", [False, True])
def test_nothing_that_is_proved_is_wrong_on_any_sample(backward: bool, part: int) -> None:
    """Some minutes each."""
    outcome = trials(operations()[part::8], most_samples=40, most_choices=20, most_rows=4, backward=backward, kinds=4)
    assert outcome.violations == []
    assert outcome.proved > 1000


# mutants of rules


@pytest.fixture
def fresh_table() -> Iterator[None]:
    """What is known of operations is cached; a changed table needs it afresh."""
    before = dict(RULES)
    facts_of.cache_clear()
    yield
    RULES.clear()
    RULES.update(before)
    facts_of.cache_clear()


def where_the_first_is(op: Operation) -> Places:
    """The mutant of a rule: results lie where the first argument with rows does, or on their first axis."""
    place = next((spot for spot in op.spots.values() if isinstance(spot, Place)), None)
    if place is None:
        return None
    return [place if place.axis < each.dim() else Place(0, place.inner) if each.dim() else None for each in op.results]


EXTENT: dict[str, Any] = {"most_samples": 30, "most_choices": 20, "most_rows": 2, "to_first_violation": True}
FORWARD = {
    "sum": "sum", "mean": "mean", "amax": "amax", "var": "var", "logsumexp": "logsumexp", "argmax": "argmax",
    "_softmax": "softmax", "cumsum": "cumsum", "sort": "sort", "flip": "flip", "roll": "roll",
    "renorm": "renorm", "mm": "mm", "bmm": "bmm", "addmm": "addmm", "baddbmm": "baddbmm",
    "convolution": "nn.functional.conv2d", "native_layer_norm": "nn.functional.layer_norm",
    "native_group_norm": "nn.functional.group_norm", "native_batch_norm": "nn.functional.batch_norm",
    "_scaled_dot_product_flash_attention_for_cpu": "nn.functional.scaled_dot_product_attention",
    "tril": "tril", "linalg_inv_ex": "linalg.inv",
    "linalg_cholesky_ex": "linalg.cholesky", "nll_loss_forward": "nn.functional.nll_loss",
    "mse_loss": "nn.functional.mse_loss", "index_select": "index_select", "gather": "gather",
    "scatter_add": "scatter_add",
    "index_add": "index_add", "index_copy": "index_copy", "index_fill": "index_fill", "index_put": "index_put",
    "take": "take", "embedding": "nn.functional.embedding", "cat": "cat", "stack": "stack",
    "constant_pad_nd": "nn.functional.pad",
    "grid_sampler_2d": "nn.functional.grid_sample",
    "_cdist_forward": "cdist", "select_scatter": "select_scatter",
    "_trilinear": "nn.functional.bilinear", "multinomial": "multinomial", "linalg_lu_solve": "lu_solve",
    "_linalg_solve_ex": "linalg.solve",
}  # fmt: skip
BACKWARD = {
    "convolution_backward": "nn.functional.conv2d", "native_layer_norm_backward": "nn.functional.layer_norm",
    "native_group_norm_backward": "nn.functional.group_norm", "embedding_dense_backward": "nn.functional.embedding",
    "unfold_backward": "unfold", "index_put": "index_select gather __getitem__",
}  # fmt: skip
EQUIVALENT = {"upsample_bilinear2d_backward", "upsample_nearest1d_backward", "upsample_bilinear2d", "unfold_backward",
              "select_backward", "repeat", "col2im", "as_strided"}  # fmt: skip
"""Operations of `DIRECT` whose mutant says nothing wrong on the sizes there: the geometry of the results refuses it, or
there is no rule."""


def killed(names: str, backward: bool) -> bool:
    """Whether some trial of these operations fails."""
    return any(
        try_operation(each, backward=backward, **EXTENT).violations
        for each in operations()
        if each.name in names.split()
    )


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("name", FORWARD)
def test_a_rule_that_allows_everything_is_noticed(name: str) -> None:
    RULES[name] = where_the_first_is
    assert killed(FORWARD[name], backward=False)


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("name", BACKWARD)
def test_a_rule_of_a_gradient_that_allows_everything_is_noticed(name: str) -> None:
    RULES[name] = where_the_first_is
    assert killed(BACKWARD[name], backward=True)


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("name", sorted({each.name for each in DIRECT} - EQUIVALENT))
def test_a_rule_that_allows_everything_is_noticed_in_direct_calls(name: str) -> None:
    RULES[name] = where_the_first_is
    assert try_direct({name}, to_first_violation=True).violations


# mutants of what rules are made of

CHECKS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "refuse_along": (lambda place, axes: None, (typing_rules, typing_layers, typing_indexing), "softmax cumsum"),
    "varies": (lambda tensor, axis: False, (typing_rules, typing_layers, typing_indexing), "add mul bmm gather cat"),
    "only_first": (lambda place: place, (typing_rules, typing_layers), "nn.functional.conv2d nn.functional.group_norm"),
    "joined": (lambda one, two: one or two, (typing_rules, typing_layers, typing_indexing), "add mm bmm cat stack"),
    "axes_of": (lambda dim, dims: set(), (typing_rules,), "sum softmax"),
}


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_rules_are_made_of_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, modules, names = CHECKS[name]
    for module in modules:
        monkeypatch.setattr(module, name, mutant)
    assert killed(names, backward=False)


def no_offset(geometry: labels.Geometry, **sizes: int) -> Place | None:
    return labels.place_of(geometry._replace(offset=0), **sizes)


def any_axis(geometry: labels.Geometry, *, item: int, step: int, units: int) -> Place | None:
    """Where the axis has the right stride, whatever lies beside it."""
    for axis, stride in enumerate(geometry.stride):
        if stride and step % (stride * item) == 0 and geometry.shape[axis] * stride * item >= step:
            return Place(axis, step // (stride * item))
    return None


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("mutant", [no_offset, any_axis])
def test_the_geometry_of_views_is_needed(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "place_of", mutant)
    assert try_direct({"as_strided"}).violations or killed("select narrow split diagonal transpose", backward=False)


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize("names", ["__getitem__", "meshgrid"])
def test_sizes_that_do_not_grow_with_the_rows_are_noticed(names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowTyping, "_grown", lambda self, before, now, place: place)
    assert killed(names, backward=False)


# the table itself


def test_every_name_of_the_table_is_an_operation_of_torch() -> None:
    known = {each.split("::")[1].split(".")[0] for each in torch._C._dispatch_get_all_op_names()}
    known |= {each.removesuffix("_") for each in known}
    names = {each for each in {*RULES, *SIZES, *OVERWRITES, *SHAPE_ONLY} if "::" not in each}  # not those of deniable
    assert sorted(names - known) == []


# what no rule covers


@pytest.fixture
def without_rule() -> Iterator[Any]:
    """An operation of which torch knows nothing but its kernel."""
    with torch.library._scoped_library("deniable_tests", "FRAGMENT") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: 2 * x, "CompositeExplicitAutograd")
        yield torch.ops.deniable_tests.doubled.default


class Doubling(nn.Module):
    def __init__(self, operation: Any) -> None:
        super().__init__()
        self.first, self.last, self.operation = nn.Linear(4, 6), nn.Linear(6, 3), operation

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.first(x) + self.operation(x.detach()).sum(1, keepdim=True))
        return scores


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(output, y, reduction="none")


def test_an_operation_without_a_rule_is_refused_or_runs_under_vmap(without_rule: Any) -> None:
    batch = torch.randn(6, 4), torch.randint(0, 3, (6,))
    with pytest.raises(NotSupported, match="no rule says what this operation does"):
        ClippingEngine(Doubling(without_rule), cross_entropy, mode="fast").check(batch)
    engine = ClippingEngine(Doubling(without_rule), cross_entropy)
    engine.check(batch)
    assert engine.way(batch) == "vmap"


@pytest.mark.usefixtures("fresh_table")
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda op: op["no such argument"], "could not decide"),
        (lambda op: [], "no rule speaks of this result"),
        (lambda op: Place(0, 2), "do not lie in order"),
    ],
)
def test_a_rule_that_fails_or_says_too_little_proves_nothing(rule: Any, reason: str) -> None:
    RULES["mm"] = RULES["addmm"] = rule
    model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False))
    with pytest.raises(NotSupported, match=reason):
        ClippingEngine(model, cross_entropy, mode="fast").check((torch.randn(6, 4), torch.randint(0, 3, (6,))))


def test_every_operation_of_torch_without_a_rule_has_none_by_accident() -> None:
    """An operation has a rule by its name in the table or by torch's tag, and for no other reason."""
    by_tag = 0
    for each in torch._C._dispatch_get_all_op_names():
        namespace, _, name = each.partition("::")
        if namespace != "aten":
            continue
        packet, _, overload = name.partition(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload or "default")
        facts = facts_of(operation)
        if facts.rule is not None and base_name(facts.name) not in RULES:
            assert facts.rule is typing_rules.pointwise
            assert torch.Tag.pointwise in operation.tags
            by_tag += 1
    assert by_tag > 300
