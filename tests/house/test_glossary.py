"""Public signatures speak the language of docs/glossary.md: no word that it replaces, and one meaning for each word."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import deniable as dn
from deniable import _signatures
from deniable.errors import WrongArguments
from tests.house.test_entry_points import exports, methods, rooms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ARGUMENTS = {
    row[0]: set(re.findall(r"`(\w+)`", row[2]))
    for row in re.findall(r"^\| `(\w+)` \| (.*?) \| ?(.*?) ?\|$", PAGE, flags=re.MULTILINE)
}

OTHER_MEANINGS: dict[str, str] = {
    # A word of the right-hand column that a signature may use in another sense: a pattern for dotted names, and why.
    "alpha": r"(guarantees|calibration\.Risk|auditing|conversions)\..*|learning\.Ridge",  # a false-positive rate
    "guarantee": r"(conversions|events|descriptions|auditing|mechanisms|guarantees|accounting|textbook)\..*",  # a field
    "n": r"noise\.(permutation|uniform)",  # how many whole numbers there are to draw from
    "group_size": r"(query\.|service\.Remote)Session\..*",  # the smallest group in which an average keeps its error
    "limits": r"query\.(QueryPlan|StagedPlan)",  # a plan's own field
    "people": r"deep\..*",  # who each example is about
}


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room in rooms():
        for name, value in exports(room).items():
            dotted = f"{room.__name__.removeprefix('deniable.')}.{name}"
            if inspect.isclass(value):
                if not issubclass(value, BaseException):
                    yield dotted, value
                    yield from ((f"{dotted}.{method}", getattr(value, method)) for method in methods(value))
            elif inspect.isroutine(value):
                yield dotted, value


def parameters() -> Iterator[tuple[str, inspect.Parameter]]:
    for name, function in callables():
        try:
            signature = inspect.signature(function)
        except ValueError:
            continue
        yield from ((name, parameter) for parameter in signature.parameters.values())


def test_the_page_lists_arguments() -> None:
    assert {"size", "batch", "source", "key", "relation", "budget", "target", "claim", "confidence"} <= set(ARGUMENTS)


def test_no_signature_uses_a_word_that_the_glossary_replaces() -> None:
    replaced = {word for words in ARGUMENTS.values() for word in words}
    wrong = [
        f"{name}({parameter.name}=)"
        for name, parameter in parameters()
        if parameter.name in replaced and not re.fullmatch(OTHER_MEANINGS.get(parameter.name, ""), name)
    ]
    assert not wrong


def test_confidence_has_one_default() -> None:
    defaults = {
        float(p.default) for _, p in parameters() if p.name == "confidence" and p.default not in (p.empty, None)
    }
    assert defaults == {0.95}


def test_every_function_that_takes_a_relation_by_name_reads_it_first() -> None:
    """`relation is REPLACE` is false for the text "replace": a function that compares before it reads halves a
    sensitivity."""
    found, wrong = 0, []
    for path in (ROOT / "src" / "deniable").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or node.name == "of":
                continue
            for argument in (*node.args.args, *node.args.kwonlyargs):
                if argument.annotation is not None and "AnyRelation" in ast.unparse(argument.annotation):
                    found += 1
                    uses = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == argument.arg]
                    body = node.body[1:] if ast.get_docstring(node) else node.body
                    first = ast.unparse(body[0]) if body else ""
                    if f"Relation.of({argument.arg}" not in first and len(uses) > 2:
                        wrong.append(f"{path.name}:{node.lineno} {node.name}")
    assert found > 30
    assert not wrong


def test_every_public_relation_may_be_a_name() -> None:
    """An event takes a relation by name, so a function that passes one on without reading it would too, and state the
    sensitivity of another relation."""
    made_by_others = {"auditing.AuditReport", "guarantees.Profile", "units.change_text"}
    read_by_fit = {name for name, p in parameters() if name.startswith("learning.") and p.name == "relation"}
    strict = {name for name, p in parameters() if p.name == "relation" and "AnyRelation" not in str(p.annotation)}
    assert strict == made_by_others | read_by_fit


def test_relations_are_taken_by_name_everywhere() -> None:
    """The constant and its name make the same thing."""
    schedule = dn.deep.Plan(size=9, batch=3, steps=2, clip=1, noise_multiplier=1).schedule
    makers: dict[str, Callable[[Any], object]] = {
        "Gaussian": lambda r: dn.Gaussian(1, relation=r),
        "Laplace by place": lambda r: dn.Laplace(1, 2, r),
        "PureDP": lambda r: dn.PureDP(1, relation=r),
        "dpsgd": lambda r: dn.dpsgd(noise_multiplier=1, rate=0.1, steps=2, relation=r),
        "count": lambda r: dn.mechanisms.count(epsilon=1, relation=r),
        "sum": lambda r: dn.mechanisms.sum_of(bounds=(0, 5), epsilon=1, relation=r),
        "histogram": lambda r: dn.mechanisms.histogram(keys=["a", "b"], epsilon=1, relation=r),
        "mode": lambda r: dn.mechanisms.mode(epsilon=1, delta=1e-6, relation=r),
        "quantile": lambda r: dn.mechanisms.quantile(q=0.5, bounds=(0, 9), epsilon=1, relation=r),
        "noisy max": lambda r: dn.mechanisms.noisy_max(candidates=3, sensitivity=1, epsilon=1, relation=r),
        "a step's noise": lambda r: dn.deep.GaussianNoise().step(Fraction(1), r),
        "noise of a run": lambda r: dn.deep.LaplaceNoise().event(Fraction(1), r, dn.deep.Poisson(), schedule),
        "stability": lambda r: dn.mechanisms.stability_histogram(epsilon=1, delta=1e-6, relation=r),
    }
    for name, make in makers.items():
        assert make(dn.REPLACE) == make("replace") == make("REPLACE"), name
        assert make(dn.REPLACE) != make(dn.ADD_REMOVE), name
        with pytest.raises(dn.errors.InvalidArgument, match="relation must be"):
            make("swap")


untyped: Any = dn


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: untyped.dpsgd(noise_multiplier=1, batch=1, examples=5, steps=1), "did you mean size"),
        (lambda: untyped.mechanisms.mean(bounds=(0, 1), epsilon=1, n=5, relation=untyped.REPLACE), "did you mean size"),
        (lambda: untyped.mechanisms.laplace(sensitivity=1, target_epsilon=1), "did you mean epsilon"),
        (lambda: untyped.mechanisms.laplace(sensitivty=1, epsilon=1), "did you mean sensitivity"),
        (lambda: untyped.Gaussian(sigma=1), "did you mean scale"),
        (lambda: untyped.Gaussian(1).shuffled(population=3), "did you mean size"),
        (lambda: untyped.AtMost(2, 5), r"AtMost\(groups=..., rows=...\)"),
        (lambda: untyped.calibrate(lambda s: untyped.Gaussian(s), guarantee=untyped.PureDP(1)), "did you mean target"),
        (lambda: untyped.audit(len, neighbours=([], [1]), guarantee=untyped.PureDP(1)), "did you mean claim"),
        (lambda: untyped.Ledger.create("x", unit="row", guarantee=untyped.PureDP(1)), "did you mean budget"),
        (lambda: untyped.dpsgd(), "dpsgd needs noise_multiplier"),
    ],
)
def test_foreign_names_are_answered(call: Callable[[], object], said: str) -> None:
    with pytest.raises(WrongArguments, match=said) as caught:
        call()
    assert isinstance(caught.value, TypeError)


def test_a_type_error_inside_a_function_is_not_taken_for_a_wrong_call() -> None:
    @_signatures.public
    def broken(value: int) -> int:
        return value + "text"  # type: ignore[operator]

    with pytest.raises(TypeError) as caught:
        broken(1)
    assert not isinstance(caught.value, WrongArguments)


def test_suggestions_are_words_of_the_house() -> None:
    known = {parameter.name for _, parameter in parameters()}
    assert {word for words in _signatures.FOREIGN.values() for word in words} <= known


def test_a_promise_has_a_short_form(tmp_path: Path) -> None:
    ledger = dn.Ledger.create(tmp_path / "a.ledger", unit="row", epsilon=1, delta=1e-6)
    assert ledger.budget == dn.ApproxDP(1, 1e-6, unit="row")
    ledger.allot("ana", epsilon=0.5)
    with pytest.raises(dn.errors.InvalidArgument, match=r"Write epsilon=1, or budget=dn.PureDP\(1\)"):
        dn.Ledger.create(tmp_path / "b.ledger", unit="row", budget=1)  # type: ignore[arg-type]
    short = dn.calibrate(lambda s: dn.Gaussian(s), epsilon=1, delta=1e-5)
    assert short.value == dn.calibrate(lambda s: dn.Gaussian(s), dn.ApproxDP(1, 1e-5)).value


def test_a_query_and_its_plan_take_the_same_arguments() -> None:
    plan, sql = (list(inspect.signature(method).parameters.values()) for method in (dn.Session.plan, dn.Session.sql))
    assert plan == sql


LINEAR = (
    "AdditiveClassifier",
    "AdditiveRegressor",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "QuantileRegressor",
    "Ridge",
)


def test_nothing_public_hides_its_arguments() -> None:
    """`**options` hides what a caller may give. Where it stays, what is given goes to somebody else's function."""
    passed_on = {
        "deep.HuggingFaceTrainer": "to transformers.Trainer",
        "deep.HuggingFaceTrainer.create_model_card": "to nobody: what transformers.Trainer takes",
        "deep.HuggingFaceTrainer.training_step": "to transformers.Trainer",
        **{f"learning.{name}.plan_size": "to learning.planning.plan_size" for name in LINEAR},
        "learning.Columns": "columns of a table, by name",
        "learning.Columns.set_params": "columns of a table, by name",
        "learning.cross_val_score": "to sklearn.model_selection.cross_val_score",
        "mechanisms.size": "to the mechanism",
        "strategies.stored": "to the search",
    }
    named = ("assumptions", "fit_params", "kwargs")  # `kwargs`: the constructor of a protocol
    hidden = {name for name, p in parameters() if p.kind is p.VAR_KEYWORD and p.name not in named}
    assert {name for name in hidden if name not in passed_on} == set()
