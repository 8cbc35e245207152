"""One rule per kind of event: everything that the accountant knows of that kind, in one object.

`fold`, the pairs, the engines, the proof mode and the filters never ask what kind an event is. They ask its rule,
`rule_of(event)`. A rule speaks of one step, once; counts belong to `fold`.

| question | method | asked by |
|---|---|---|
| which events is it made of? | `parts` | `fold` |
| which canonical steps is it, for a group of units? | `group`, `steps` | `fold` |
| is it free? which part is Gaussian, a leak, a Rényi promise? | `is_free`, `squares`, `shares` | `fold` |
| what replaces it when its numbers are no ordinary floats? | `clamp` | `fold.within_floats` |
| which dominating pair, and can the step attain it? | `laws`, `attained…`, `described` | `pairs` |
| which transform, in floats and in balls? | `transforms`, `balls` | `contour`, `proof` |
| which closed form, which second bound in sums? | `closed`, `alternative` | `accountant` |
| what does it add to a filter's sums? | `cost` | `filters` |
| the same, sampled or shuffled? | `sampled_…`, `worst_placement`, `replacing`, `report` | `rules.sampling` |

**How to add an event.** Say, `Staircase`, noise of a new shape.

1. Its class goes into `events/`, with its fields and its relation.
2. Its rule goes into the file of its family here, or into a file of its own. Every method that it leaves out has a
   safe default: no group bound but the path of neighbours, no transform (the grid answers), no ball form (no proof
   mode), no closed form. Four methods have none: `group`, `clamp`, `laws` and `cost`. Leave one out, and the event is
   refused with a sentence where it is needed.

       class StaircaseRule(Rule[Staircase]):
           def group(self, event, members, relation):
               yield Staircase(event.epsilon * members, relation), 1

           def clamp(self, event):
               return clamp_size(event.epsilon, event.relation, lambda e: Staircase(e, event.relation))

           def laws(self, step):
               from deniable.accounting.pairs.discrete import randomized_response

               return (randomized_response(float(step.epsilon)),)

           def cost(self, step, orders):
               return pure(step.epsilon, orders)

3. One line in `rules/table.py` registers it: `Staircase: StaircaseRule()`.
4. One test compares its curve with the mechanism itself, by enumeration or quadrature. `tests/laws` and `tests/house`
   then run their laws over it, and ask for an example of the event.

Engines are imported by the methods that need them: a ledger that charges an event loads no SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from deniable.errors import NotSupported
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Guarantee
from deniable.units import Relation

if TYPE_CHECKING:
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.filters.costs import Cost, Orders
    from deniable.accounting.pairs.law import Law
    from deniable.accounting.proof.transforms import BallTransform
    from deniable.guarantees import Curve

Kind = TypeVar("Kind", bound=Event)

Counted = tuple[tuple[Event, int], ...]

HUGE = 10**60
TINY = Fraction(1, HUGE)
"""Between these every parameter is a float to a unit in the last place, and so are its square and its multiples."""


class Part(NamedTuple):
    """An event inside another: how often, for how many units, and whether it moves from ADD_REMOVE to REPLACE."""

    event: Event
    times: int = 1
    members: int = 1
    moved: bool = False


class Shares(NamedTuple):
    """What one canonical step contributes to the four parts of a `fold.Folded`."""

    mu_squared: Fraction = Fraction(0)
    steps: tuple[Event, ...] = ()
    leak: Fraction = Fraction(0)
    renyi: tuple[Guarantee, ...] = ()


class Rule(Generic[Kind]):
    """What is known of one kind of event. Override what applies; the defaults are safe or refuse."""

    # fold

    def parts(self, event: Kind) -> tuple[Part, ...] | None:
        """The events that this one is made of; None for a step."""
        return None

    def steps(self, event: Kind, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
        """The canonical steps for a group of units, each with how often it happens; `moved` to REPLACE or not."""
        # One unit that leaves and one that enters are two units of the add/remove relation.
        return self.group(event, 2 * members if moved else members, Relation.REPLACE if moved else event.relation)

    def group(self, event: Kind, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        """One mechanism for `members` units under a relation, as canonical steps with their counts."""
        raise NotSupported(
            f"there is no privacy analysis of {type(event).__name__}; state a guarantee with Claimed(...)"
        )

    def is_free(self, event: Kind) -> bool:
        """Whether neighbours have the same output law."""
        return False

    def squares(self, event: Kind) -> tuple[Fraction, Fraction] | None:
        """(sensitivity/scale)² and (reach/scale)² of an event that is exactly Gaussian (`fold.gaussian_squares`)."""
        return None

    def shares(self, step: Kind, relation: Relation) -> Shares:
        """Where a canonical step belongs in a `Folded`."""
        squares = self.squares(step)
        return Shares(steps=(step,)) if squares is None else Shares(mu_squared=squares[0])

    def clamp(self, event: Kind) -> Event:
        """An event that costs at least as much and whose every parameter is an ordinary float (`fold`)."""
        raise NotSupported(f"there is no range of floats for {type(event).__name__}")

    # pairs and closed forms

    def described(self, step: Kind) -> bool:
        """Whether the step is the mechanism itself, not a bound on it: a promise, or a path of neighbours."""
        return True

    def laws(self, step: Kind) -> tuple[Law, ...]:
        """The loss of a dominating pair: (removing, adding), or one law when both orders are alike."""
        raise NotSupported(f"there is no dominating pair for {type(step).__name__}")

    def attained(self, step: Kind) -> bool:
        """Whether the step itself can have that pair, in any composition, so that lower ends are about the step."""
        return False

    def attained_alone(self, step: Kind) -> bool:
        """Whether it can have that pair when it happens once and nothing else does."""
        return self.attained(step)

    def variation(self, step: Kind) -> float:
        """At least δ(0) of the pair, its distance in total variation. In sums the distances add up, so this tells at
        once where ε is 0.
        """
        return 1.0

    def closed(self, step: Kind, count: int, of_bound: str) -> Curve | None:
        """A closed form of `count` copies, if there is one."""
        return None

    def alternative(self, step: Kind) -> Event | None:
        """Another step that costs at least as much, and whose sums may be bounded better than sums of the pair."""
        return None

    # contour integrals

    def transforms(self, step: Kind) -> tuple[Transform, Transform] | None:
        """M(z) in both directions; the same object twice where they are alike. None leaves the step to the grid."""
        return None

    def balls(self, step: Kind) -> tuple[BallTransform, BallTransform]:
        """The same two transforms in ball arithmetic."""
        from deniable.accounting.certificate import NotCertified

        raise NotCertified(f"no ball transform for {type(step).__name__}")

    # filters

    def cost(self, step: Kind, orders: Orders) -> Cost:
        """What one step adds to the sums of the filters."""
        raise NotSupported(
            f"no filter knows {type(step).__name__}; charge it as Claimed(guarantee) with a proven guarantee."
        )

    # inside a sampling or a shuffle

    def canonical(self, event: Kind) -> Event:
        """The event in units of its sensitivity, so that equal laws compare equal."""
        return event

    def replacing(self, event: Kind) -> Event | None:
        """An ADD_REMOVE event under REPLACE, when its sensitivity and its reach are both known then."""
        return None

    def proportion(self, event: Kind) -> Fraction | None:
        """sensitivity/reach of added noise under REPLACE; None where a unit's absence is not described."""
        return None

    def worst_placement(self, event: Kind, rate: float) -> Law | None:
        """On a Poisson sample under REPLACE: the worst placement of a unit and its replacement, for losses above 0."""
        return None

    def sampled_transforms(self, event: Kind, rate: Fraction) -> tuple[Transform, Transform] | None:
        """The transforms on a Poisson sample, for a unit that is present or absent."""
        return None

    def sampled_balls(self, event: Kind, rate: Fraction) -> tuple[BallTransform, BallTransform]:
        """The same in ball arithmetic."""
        from deniable.accounting.certificate import NotCertified

        raise NotCertified(f"no ball transform for a sampled {type(event).__name__}")

    def sampled_cost(self, event: Kind, rate: Fraction, orders: Orders) -> Cost | None:
        """The cost on a Poisson sample, for a unit that is present or absent, if it is better than amplification."""
        return None

    def report(self, event: Kind) -> tuple[float, float, float] | None:
        """Of a local report: ε₀, the share of clones, how often the differing person names one of the two values."""
        return None


def rule_of(event: Event) -> Rule[Any]:
    """The rule of an event's kind. A kind without a rule is refused by whichever method is asked."""
    return _table().get(type(event), _UNKNOWN)


@cache
def _table() -> dict[type[Event], Rule[Any]]:
    """The table, imported when the first event comes: its files import `fold` and `filters`, which import this one."""
    from deniable.accounting.rules.table import RULES

    return RULES


_UNKNOWN: Rule[Event] = Rule()


def revealing(relation: Relation) -> Event:
    """Everything is told."""
    return Claimed(ApproxDP(0, 1, relation=relation))


def clamp_size(size: Fraction, relation: Relation, make: Callable[[Fraction], Event]) -> Event:
    """The event of a loss of this size, raised to the smallest float; one that is too large reveals everything."""
    return revealing(relation) if size > HUGE else make(max(size, TINY))
