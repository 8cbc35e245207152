"""What differs by kind of event is in its rule: every event has one, and nothing else in the accountant asks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from deniable import events
from deniable.accounting.rules import Rule, rule_of
from deniable.accounting.rules.table import RULES
from deniable.events import Event
from tests.laws.examples import EXAMPLES

ACCOUNTING = Path(events.__file__).parents[1] / "accounting"
KINDS = {*Event.registry, "Noise", "Correlated", "Around"}


def test_every_event_has_exactly_one_rule() -> None:
    assert set(RULES) == set(Event.registry.values())
    public = {kind for name in events.__all__ if isinstance(kind := getattr(events, name), type)}
    families = {events.Event, events.Noise, events.Correlated}
    assert public - families == set(RULES)


@pytest.mark.parametrize("kind", sorted(RULES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_rule_answers_what_has_no_default(kind: type[Event]) -> None:
    rule = RULES[kind]
    assert all(rule_of(event) is rule for event in EXAMPLES[kind.__name__])
    own = {name for base in type(rule).__mro__ if base not in (Rule, object) for name in vars(base)}
    assert "clamp" in own
    assert "parts" in own or {"laws", "cost"} <= own or "squares" in own
    assert "parts" in own or {"group", "steps"} & own


def kind_tests(tree: ast.AST) -> list[str]:
    """The event classes that `isinstance`, `type(…) is` or a class pattern asks for."""
    asked = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked += _names(node.args[1])
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            asked += [name for other in node.comparators for name in _names(other)]
        elif isinstance(node, ast.MatchClass):
            asked += _names(node.cls)
    return sorted(name for name in asked if name in KINDS)


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)] + [
        part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)
    ]


def test_no_ladder_over_events_is_left_outside_the_rules() -> None:
    ladders = {
        str(path.relative_to(ACCOUNTING)): asked
        for path in sorted(ACCOUNTING.rglob("*.py"))
        if "rules" not in path.parts and (asked := kind_tests(ast.parse(path.read_text())))
    }
    assert ladders == {}


def test_a_ladder_would_be_seen() -> None:
    for ladder in (
        "if isinstance(step, Laplace | Gaussian): ...",
        "x = [s for s in steps if type(s) is Sampled]",
        "match step:\n    case events.Shuffled(size=n): ...",
        "isinstance(step, (events.Claimed, Noise))",
    ):
        assert kind_tests(ast.parse(ladder))
    assert not kind_tests(ast.parse("isinstance(law, LossAtoms) or isinstance(event, Event)"))
