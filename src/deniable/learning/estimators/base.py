"""What every private estimator shares: parameters in, one charge, one plan, one run.

`fit` first settles everything public (promise, bounds, method), then charges the ledger, then reads the records. The
number of records is itself private under ADD_REMOVE: unless `size` declares it, the default method measures it with its
second moment, and for other methods a part of ε buys a noisy count.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable._escapes import redacted
from deniable._progress import tracker
from deniable.descriptions import Description
from deniable.errors import DataError, DeniableError, InvalidArgument, UnitMismatch
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Profile, PureDP
from deniable.learning.choice import MethodChoice, choose
from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.base import Data, Method, MethodPlan, Task
from deniable.learning.optimizers.exact import minimiser
from deniable.learning.optimizers.whitening import expectation
from deniable.learning.privacy import count_event, make_target, noisy_count, profile_of
from deniable.learning.reading import LARGEST, LEAST, read_rows
from deniable.learning.surroundings import warn_of_copies, warn_of_fitted_steps
from deniable.ledger import Ledger
from deniable.noise import Source
from deniable.units import RECORD, Relation, Unit

Array = NDArray[Any]

RESERVE = Fraction(1, 1000)
"""The part of ε left unspent beside a noisy count, so that the curve of both, rounded up, still says ε."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The common parameters and the common fit. Subclasses say which loss, which methods, and what else is public.

    Parameters
    ----------
    epsilon, delta : the promise. delta=0 is pure privacy; epsilon=inf is no privacy.
    data_norm : the longest row that may count, in L2. Longer rows are shortened to it.
    solver : "auto", a name, or a method such as `GradientDescent(steps=200, clip=0.3)`.
    relation : "add_remove" or "replace": what may change between neighbours.
    size : how many records, where that is public; else it is measured with noise under "add_remove".
    beyond : "clip", the only rule for rows that are longer than data_norm.
    ledger : a ledger, or its path, that is charged before the data are read.
    unit : whom a row is about, by the id column of such a ledger: for data with one row per person.
    source : random bits, for tests only.
    progress : print the solver, and show progress on a terminal.
    """

    epsilon: Any = 1.0
    delta: Any = 0.0
    data_norm: Any = None
    solver: Any = "auto"
    relation: Any = "add_remove"
    size: Any = None
    beyond: str = "clip"
    ledger: Any = None
    unit: Any = None
    source: Any = None
    progress: bool = False

    count_share: ClassVar[Fraction] = Fraction(1, 50)
    """The part of ε that buys a noisy count when the number of records is not declared."""

    cautious: ClassVar[bool] = True
    """Whether to plan for fewer records than were counted, so that few are not taken for many."""

    @property
    def profile_(self) -> Profile:
        """The certified privacy curve of this fit."""
        check_is_fitted(self, "event_")
        if self.event_ is None:
            raise InvalidArgument("epsilon", math.inf, "finite for a privacy curve: this fit was not private")
        return profile_of(self.event_, unit=self._unit)

    def describe(self) -> Description:
        """The promise of this fit, and how it was made: for `dn.explain` and reports."""
        profile = self.profile_
        facts = [("event", repr(self.event_))]
        if self.solver_ is not None:
            facts += [("solver", self.solver_.name), ("theorem", self.solver_.method.theorem)]
        if self.noise_number_ is not None:
            facts += [("noise number", f"{self.noise_number_:.2g}: {expectation(self.noise_number_)}")]
        promised = make_target(self.epsilon, self.delta, self._relation()).about(self._unit)
        return Description(type(self).__name__, promised, tuple(facts), profile)

    @property
    def _private(self) -> bool:
        return not (isinstance(self.epsilon, float | np.floating) and math.isinf(self.epsilon) and self.epsilon > 0)

    _copies: ClassVar[int] = 0
    """How often this estimator was cloned; an instance counts its own."""

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()
        self._copies += 1  # type: ignore[misc]
        warn_of_copies(self)
        return copy

    @property
    def _unit(self) -> Unit:
        """Who is protected: the nameless record where nothing was said."""
        return RECORD if self.unit is None else Unit.of(self.unit)

    def _relation(self) -> Relation:
        for known in (Relation.ADD_REMOVE, Relation.REPLACE):
            if self.relation in (known, known.value):
                return known
        raise InvalidArgument("relation", self.relation, "'add_remove' or 'replace'")

    def _bound(self, name: str) -> float:
        """A public bound; it is never computed from the data."""
        value = getattr(self, name)
        if value is None:
            raise InvalidArgument(name, None, _WANTED[name], _CHOOSE[name])
        return magnitude(name, value, remedy=_CHOOSE[name])

    def _methods(self) -> Sequence[Method]:
        """What solver='auto' takes: the first that applies."""
        raise TypeError(f"{type(self).__name__} does not say which solvers it has")

    def _by_name(self) -> Sequence[Method]:
        """What solver= may name besides."""
        return ()

    def _chosen(self) -> Sequence[Method]:
        """The methods in question: all, the named one, or the given one."""
        if isinstance(self.solver, Method):
            return (self.solver,)
        if self.solver == "auto":
            return self._methods()
        known = {method.name: method for method in (*self._methods(), *self._by_name())}
        if self.solver not in known:
            raise InvalidArgument("solver", self.solver, f"'auto', one of {', '.join(known)}, or a Method")
        return (known[self.solver],)

    def _rows(self, X: Any, *, reset: bool, missing: float = 0.0) -> Any:
        """The table, `missing` where a value is no number. What is refused is public: see `reading`."""
        self._check_beyond()
        return read_rows(self, X, reset=reset, sparse=True, missing=missing)

    def _check_beyond(self) -> None:
        if self.beyond == "refuse":
            raise DataError(
                "beyond='refuse' is gone: a refusal would tell that some row is longer than data_norm. Rows are always "
                "shortened to it; a data holder counts those rows with deniable.learning.disclose_data_problems"
            )
        if self.beyond != "clip":
            raise InvalidArgument("beyond", self.beyond, "'clip'")

    def _solve(
        self,
        data: Data,
        loss: LinearLoss | PointLoss,
        *,
        regularization: float = 0.0,
        radius: float | None = None,
        constant: float = 0.0,
    ) -> Array:
        """Choose, charge, count where the method does not, run. Sets event_, solver_, size_ and noise_number_."""
        relation, methods = self._relation(), self._chosen()
        if self.source is not None and not isinstance(self.source, Source):
            raise InvalidArgument("source", self.source, "a source of random bits", "Leave it out but in tests.")
        warn_of_fitted_steps(self)
        if not self._private:
            return self._open(data, loss, regularization)
        target = make_target(self.epsilon, self.delta, relation)
        known = 0 if self.size is None else _checks.count("size", self.size)
        if relation is not Relation.ADD_REMOVE:
            known = data.table.count
            if not known:
                raise InvalidArgument("X", "a table without rows", "one record or more, as relation='replace' counts")
        _checks.warn_of_delta(target, size=known or None)
        counted = target.epsilon * self.count_share
        rest = target if known else _reduced(target, counted + target.epsilon * RESERVE)

        def task(size: int, promise: ApproxDP | PureDP) -> Task:
            return Task(loss, data.table.columns, promise, size, regularization, radius, constant)

        def plan(method: Method) -> MethodPlan:
            """The plan as far as it is public; for a method that needs a count that is still to be bought, of some."""
            if method.counts or known:
                return method.plan(task(known, target))
            if method.limited:
                raise method.refuse("it takes a limited number of records, so their number must be public: size=.")
            return method.plan(task(1000, rest))

        choice = choose(methods, plan) if len(methods) > 1 else MethodChoice(plan(methods[0]), methods[0])
        size: float = known
        if known or choice.method.counts:
            event = choice.plan.event
            self._charge(event)
        else:
            event = count_event(counted) + (choice.plan.event if choice.method.size_free else Claimed(rest))
            self._charge(event)
            size = noisy_count(data.table.count, epsilon=counted, source=self.source)
            # Four noise scales below: a plan for more records than there are would trust the noise.
            planned = task(max(1, int(size) - round(4 / counted) * self.cautious), rest)
            with contextlib.suppress(DeniableError, ArithmeticError):  # a count may not refuse: then as for 1000
                choice = MethodChoice(choice.method.plan(planned), choice.method, choice.refusals)
        if self.progress:
            print(choice)  # noqa: T201 (asked for)
        track = tracker(f"{type(self).__name__}, {choice.name}", progress=bool(self.progress))
        with np.errstate(all="ignore"):
            solution = choice.plan.solve(data, source=self.source, track=track)
        self._record(event, choice, size if solution.size is None else solution.size)
        self.noise_number_, self._spread = solution.noise_number, solution.spread
        return solution.theta

    def _record(self, event: Event | None, choice: MethodChoice | None, size: float) -> None:
        self.event_, self.solver_, self.size_ = event, choice, round(size)

    def _charge(self, event: Event) -> None:
        if self.ledger is None:
            return
        if self.source is not None and not self.source.secure:
            raise InvalidArgument("source", self.source, "left out, or secure, where a ledger is charged")
        if isinstance(self.ledger, str) and "://" in self.ledger and redacted(self.ledger) != self.ledger:
            remedy = "Open it, ledger=Ledger.open(address), or put the password into PGPASSWORD or ~/.pgpass."
            shown = "an address that would be printed and pickled with the model"
            raise InvalidArgument("ledger", shown, "an address without a password, or a Ledger", remedy)
        ledger = Ledger.of(self.ledger)
        if ledger.unit.column != self._unit.column:
            one_row = f"If each has one row here, say unit={ledger.unit.column!r}; if not, add up their rows first."
            raise UnitMismatch(
                f"the ledger protects {ledger.unit.one}, and this fit {self._unit.one}."
                + (f" {one_row}" if ledger.unit.column else " Leave unit out.")
            )
        ledger.charge(event, purpose=f"{type(self).__name__}.fit")
        if isinstance(self.ledger, str | os.PathLike):
            ledger.close()

    def _open(self, data: Data, loss: LinearLoss | PointLoss, regularization: float) -> Array:
        """The fit without privacy."""
        if self.ledger is not None:
            raise InvalidArgument(
                "epsilon", self.epsilon, "finite where a ledger is charged: a fit without privacy has no cost that fits"
            )
        self._record(None, None, data.table.count)
        self.noise_number_, self._spread = None, None
        with np.errstate(all="ignore"):
            return minimiser(data, loss, strength=regularization)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.non_deterministic = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "event_")


def magnitude(name: str, value: Any, *, remedy: str = "") -> float:
    """A positive number whose square, and whose reciprocal's square, are far from the ends of floating point."""
    if not _checks.exact(LEAST) <= _checks.positive(name, value, remedy=remedy) <= _checks.exact(LARGEST):
        raise InvalidArgument(name, value, f"between {LEAST:g} and {LARGEST:g}", "Rescale the columns.")
    return float(value)


def _reduced(target: ApproxDP | PureDP, spent: Fraction) -> ApproxDP | PureDP:
    """What basic composition leaves: (ε − spent, δ)."""
    if isinstance(target, PureDP):
        return PureDP(target.epsilon - spent, relation=target.relation)
    return ApproxDP(target.epsilon - spent, target.delta, relation=target.relation)


_WANTED = {"data_norm": "the longest row that may count"}
_CHOOSE = {
    "data_norm": "Scale each column by its public range (deniable.learning.RangeScaler) and take the square root of "
    "the number of columns, or pay for a private quantile of the row norms. It is never taken from the data.",
}
