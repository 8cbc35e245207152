"""The plan of a private training: everything public about it, frozen, with the event that it will be charged for.

A plan is made before any data are seen. Its noise is given, or calibrated to a target; its event is what the trainer
executes, step by step, and nothing else is executed.

*How many there are.* `size` is declared by you. Under ADD_REMOVE the true number is private, so it is never read:
`size` fixes the sampling rate and the divisor `batch`, and the promise holds for data of any size. Under REPLACE
and ZERO_OUT the number is public, and data of another size are refused.

*The divisor.* A noisy sum is divided by the expected batch `batch`, fixed in advance, never by the size of the batch
that was drawn, which is private.

>>> plan = Plan(size=60_000, batch=256, epochs=15, clip=1.0, target=ApproxDP(3, 1e-5))
>>> plan
Plan(size=60000, batch=256, steps=3516, clip=1, noise_multiplier=0.728225335, target=ApproxDP(epsilon=3, ...))
>>> plan.event
Gaussian(scale=0.728225335).sampled(rate=8/1875) * 3516
>>> Plan.from_json(plan.to_json()) == plan
True
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

from deniable import _checks
from deniable._checks import Number, read_fraction, shown
from deniable._forms import Plain, plain_number
from deniable._notebook import Shown
from deniable._signatures import public
from deniable.calibration import Risk, calibrate, margin
from deniable.deep import clips
from deniable.deep.clips import AdaptiveClipping, Clipping, FlatClipping
from deniable.deep.correlated import noise_of
from deniable.deep.measures import LossSeries, gradient_multiplier
from deniable.deep.noises import GaussianNoise, StepNoise
from deniable.deep.sampling import Sampling, Schedule
from deniable.deep.step_factors import Stage, check_stages, merge_stages
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Guarantee, Profile, read_promise
from deniable.noise.discrete import LEAK
from deniable.numerics.exact import short_above
from deniable.strategies import Strategy
from deniable.units import RECORD, AnyRelation, Relation, Unit, one_relation, one_unit

FORMAT = 1
"""The version of the JSON form."""


class StepNumbers(NamedTuple):
    """What one step does."""

    batch: Fraction
    clip: Fraction
    noise_multiplier: Fraction
    """Of everything that the step releases."""
    gradient_multiplier: Fraction
    """Of the gradients: larger, where something is released beside them."""


@dataclass(frozen=True, init=False, repr=False)
class Plan(Shown, Plain):
    """What a training does. `batch` is the expected number of units in a batch, and the divisor of every step."""

    size: int
    batch: Fraction
    steps: int
    clip: Fraction
    noise_multiplier: Fraction
    target: Guarantee | Risk | None
    sampling: Sampling
    noise: StepNoise
    relation: Relation
    unit: Unit
    rows_per_unit: int
    clipping: Clipping
    augmentations: int
    stages: tuple[Stage, ...]
    series: LossSeries | None

    @public
    def __init__(
        self,
        *,
        size: int,
        batch: Number,
        epochs: Number | None = None,
        steps: int | None = None,
        clip: Number,
        target: Guarantee | Risk | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        noise_multiplier: Number | None = None,
        sampling: Sampling | None = None,
        noise: StepNoise | Strategy | None = None,
        relation: AnyRelation | None = None,
        unit: Unit | str | None = None,
        rows_per_unit: int = 1,
        clipping: Clipping | None = None,
        augmentations: int = 1,
        stages: Sequence[Stage] = (),
        series: LossSeries | None = None,
    ) -> None:
        """Give `epochs` (rounded up to whole steps) or `steps`, and `target` or `noise_multiplier` (or both, to check).
        `epsilon` and `delta` are the short form of `target`.

        `unit="user_id"` protects a person with all their rows: `size` and `batch` count people, a person's gradient
        is the sum of at most `rows_per_unit` of their rows' gradients, and that sum is clipped.

        `clipping` is the rule that brings a unit's gradient to a norm of at most `clip`: one norm over all parameters,
        unless `AutomaticClipping()`, `PerLayerClipping()` or `PerGroupClipping(…)` is given. The event is the same.

        `augmentations` is how often every row is read and run in one step; the mean of the gradients is what counts
        for the row, and is clipped (De et al. 2022). The event is the same.

        `stages` change clip, noise multiplier and batch from step to step, by public factors: a list of
        `dn.deep.Stage`, or `dn.deep.stages(…)` of functions. The event is that of all steps; a target calibrates the
        noise multiplier that they multiply. Without `steps` and `epochs`, their steps are those of the plan.

        `series=LossSeries(bound=…)` releases the mean loss of every step, for a share of the noise.
        """
        relation = None if relation is None else Relation.of(relation)
        people, wanted = _checks.count("size", size), _checks.positive("batch", batch)
        check_stages(stages)
        if epochs is None and steps is None and stages:
            steps = sum(stage.steps for stage in stages)
        if (epochs is None) == (steps is None):
            raise InvalidArgument("steps", steps, "given, or epochs instead, and not both", "For example epochs=15.")
        taken = (
            math.ceil(_checks.positive("epochs", epochs) * people / wanted)
            if epochs is not None
            else _checks.count("steps", steps)
        )
        kind = noise_of(noise)
        _checks.member("noise", kind, StepNoise, remedy="For example dn.deep.GaussianNoise().")
        scheme = sampling or kind.sampling
        _checks.member("sampling", scheme, Sampling, remedy="For example dn.deep.Poisson().")
        if epsilon is not None or delta is not None:
            own = relation or scheme.relations[0]
            target = read_promise("target", target, epsilon=epsilon, delta=delta, relation=own)
        promised = target if isinstance(target, Guarantee) else None
        under = relation or (promised.relation if promised else scheme.relations[0])
        schedule = Schedule(people, wanted, taken)
        scheme.check(schedule, under)
        runs = merge_stages(stages, taken)
        _check_stages(runs, kind, scheme, schedule, under, clips.checked(clip))
        if promised is not None:
            one_relation(under, promised.relation, doing="plan")
        about = _unit(unit, promised)
        rows = _checks.count("rows_per_unit", rows_per_unit)
        if rows > 1 and about.column is None:
            raise InvalidArgument(
                "rows_per_unit", rows_per_unit, "1 unless unit names who a row is about", 'For example unit="user_id".'
            )
        _checks.warn_of_delta(target, size=people)
        way = FlatClipping() if clipping is None else clipping
        _checks.member("clipping", way, Clipping, remedy="For example dn.deep.AutomaticClipping().")
        if series is not None:
            _checks.member("series", series, LossSeries, remedy="For example dn.deep.LossSeries(bound=3).")
        measured = _shares(way, series, kind, runs)

        def event(ratio: Fraction) -> Event:
            return _event(ratio, kind, under, scheme, schedule, runs, measures=len(measured))

        ratio = _ratio(target, noise_multiplier, event)
        event(ratio)  # refuses what does not belong together, before anything runs
        values = {
            "size": people, "batch": wanted, "steps": taken, "clip": clips.checked(clip),
            "noise_multiplier": ratio, "target": target, "sampling": scheme, "noise": kind, "relation": under,
            "unit": about, "rows_per_unit": rows, "clipping": way,
            "augmentations": _checks.count("augmentations", augmentations), "stages": runs, "series": series,
        }  # fmt: skip
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def schedule(self) -> Schedule:
        """Examples, batch and steps."""
        return Schedule(self.size, self.batch, self.steps)

    @cached_property
    def event(self) -> Event:
        """What the whole run does to the data."""
        return _event(
            self.noise_multiplier, self.noise, self.relation, self.sampling, self.schedule, self.stages,
            measures=len(self.shares),
        )  # fmt: skip

    @property
    def shares(self) -> dict[str, Fraction]:
        """What is released beside the gradients in every step, and its share of the squared noise multiplier."""
        return _shares(self.clipping, self.series, self.noise, self.stages)

    def at(self, step: int) -> StepNumbers:
        """The numbers of a step (from 0)."""
        place = bisect_right(self._ends, step)
        stage = self.stages[place] if self.stages else _PLAIN
        multiplier = self.noise_multiplier * stage.noise
        left = gradient_multiplier(multiplier, self.shares)
        return StepNumbers(self.batch * stage.batch, self.clip * stage.clip, multiplier, left)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(stage.steps for stage in self.stages))

    @cached_property
    def profile(self) -> Profile:
        """What it costs."""
        from deniable.accounting import account

        return account(self.event)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The target, which is met; without one, ε at the largest power of ten δ below a tenth of 1/size."""
        if isinstance(self.target, Guarantee):
            return self.target.about(self.unit)
        delta = Fraction(1, 10 ** len(str(10 * self.size - 1)))
        epsilon = Fraction(self.profile.epsilon(delta))
        return ApproxDP(epsilon, delta, relation=self.relation, unit=self.unit)

    def describe(self) -> Description:
        """The promise and the public facts of the run."""
        facts = (
            ("steps", f"{self.steps}, expected batch {shown(self.batch)} of {self.size}, {self.sampling!r}"),
            (
                "clip",
                f"{shown(self.clip)} ({self.noise.norm.upper()}), per {self.unit.noun}"
                + ("" if self.clipping == FlatClipping() else f", {self.clipping!r}"),
            ),
            *([("stages", _describe_stages(self.stages))] if self.stages else []),
            *([("augmentations", f"{self.augmentations} of each row, averaged")] if self.augmentations > 1 else []),
            (
                "noise",
                f"{self.noise!r}, {float(self.noise_multiplier):.6g} × clip, sums divided by {shown(self.batch)}",
            ),
            *([("series", f"{self.series!r}, released in every step")] if self.series else []),
            ("event", repr(self.event)),
        )
        return Description("private training", self.guarantee, facts, self.profile)

    def __str__(self) -> str:
        return str(self.describe())

    def __repr__(self) -> str:
        plain: dict[str, Any] = {
            "target": None,
            "sampling": self.noise.sampling,
            "noise": GaussianNoise(),
            "unit": RECORD,
            "rows_per_unit": 1,
            "clipping": FlatClipping(),
            "augmentations": 1,
            "stages": (),
            "series": None,
        }
        plain["relation"] = self.target.relation if isinstance(self.target, Guarantee) else self.sampling.relations[0]
        told = [
            f"{f.name}={shown(value) if isinstance(value, Fraction) else repr(value)}"
            for f in fields(self)
            if (value := getattr(self, f.name)) != plain.get(f.name, ...)
        ]
        return f"Plan({', '.join(told)})"

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the plan, exact, with the event beside the numbers that make it."""
        if isinstance(self.target, Risk):
            raise InvalidArgument("target", self.target, "a guarantee, to be written down", "Keep noise_multiplier.")
        return {
            "deniable_plan": FORMAT,
            "size": self.size,
            "steps": self.steps,
            **{name: plain_number(getattr(self, name)) for name in ("batch", "clip", "noise_multiplier")},
            "sampling": _plain(self.sampling) if fields(self.sampling) else type(self.sampling).__name__,
            "noise": _plain(self.noise),
            "relation": self.relation.value,
            "unit": None if self.unit == RECORD else self.unit.plain,
            "rows_per_unit": self.rows_per_unit,
            **({} if self.clipping == FlatClipping() else {"clipping": self.clipping.to_dict()}),
            **({} if self.augmentations == 1 else {"augmentations": self.augmentations}),
            **({} if not self.stages else {"stages": [stage.to_dict() for stage in self.stages]}),
            **({} if self.series is None else {"series": self.series.to_dict()}),
            "event": self.event.to_dict(),
            "target": None if self.target is None else Claimed(self.target).to_dict(),
        }

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that `to_json` wrote; refused if its event or its target do not follow from its numbers."""
        try:
            found = json.loads(text, parse_float=read_fraction)
            if found.pop("deniable_plan") != FORMAT:
                raise InvalidArgument("text", "…", f"a plan's JSON of version {FORMAT}")
            if "examples" in found:  # what `size` was called once
                found["size"] = found.pop("examples")
            event, target = Event.from_dict(found.pop("event")), found.pop("target")
            claim = None if target is None else Event.from_dict(target)
            kind, rule = found.pop("noise"), found.pop("clipping", {"kind": "FlatClipping"})
            numbers: dict[str, Any] = {n: _fraction(found.pop(n)) for n in ("batch", "clip", "noise_multiplier")}
            plan = Plan(
                sampling=_sampling(found.pop("sampling")),
                noise=StepNoise.registry[kind.pop("kind")](**kind),
                relation=Relation(found.pop("relation")),
                unit=Unit.from_plain(about) if (about := found.pop("unit")) else None,
                target=claim.guarantee if isinstance(claim, Claimed) else None,
                clipping=_clipping(rule),
                stages=[Stage(**_fractions(each)) for each in found.pop("stages", [])],
                series=LossSeries(**_fractions(told)) if (told := found.pop("series", None)) else None,
                **numbers,
                **found,
            )
        except InvalidArgument:
            raise
        except (TypeError, KeyError, AttributeError, ValueError):
            raise InvalidArgument("text", "…", "a plan's JSON, as plan.to_json() writes it") from None
        if plan.event != event:
            raise InvalidArgument("text", "…", "a plan whose event follows from its numbers", "It was edited.")
        return plan


def _fraction(number: object) -> Fraction:
    """A number of the JSON form: a number, or the text of a fraction."""
    return Fraction(number) if isinstance(number, int | Fraction) else read_fraction(number)


def _fractions(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: each if name == "steps" else _fraction(each) for name, each in numbers.items()}


def _plain(part: StepNoise | Sampling) -> dict[str, Any]:
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    plain = {name: value.plain() if isinstance(value, Strategy) else value for name, value in values.items()}
    return {"kind": type(part).__name__, **plain}


def _clipping(found: Any) -> Clipping:
    """A rule of clipping by its name and numbers."""
    kind = Clipping.registry[found.pop("kind")]
    if "weights" in found:
        found = {"weights": {name: _fraction(each) for name, each in found["weights"].items()}}
    else:
        found = {name: _fraction(each) for name, each in found.items()}
    return kind(**found)


def _sampling(found: Any) -> Sampling:
    """A sampling by its name, or by its name and numbers."""
    if isinstance(found, str):
        return Sampling.registry[found]()
    return Sampling.registry[found.pop("kind")](**found)


def _unit(unit: Unit | str | None, promised: Guarantee | None) -> Unit:
    """Who is protected: as the plan says, as the target says, or one record."""
    named = RECORD if unit is None else Unit.of(unit)
    return named if promised is None else one_unit(named, promised.unit, doing="plan")


def _ratio(target: Guarantee | Risk | None, given: Number | None, event: Any) -> Fraction:
    """The noise multiplier: calibrated and rounded up to nine digits, or as given, which must then meet the target."""
    if target is None and given is None:
        raise InvalidArgument(
            "noise_multiplier", None, "given, or target instead", "For example target=ApproxDP(3, 1e-5)."
        )
    if target is not None:
        _checks.member("target", target, (Guarantee, Risk), remedy="For example ApproxDP(3, 1e-5).")
    if given is not None:
        ratio = _checks.positive("noise_multiplier", given)
    else:
        value = calibrate(lambda value: event(short_above(value, figures=9)), target).value
        ratio = short_above(value, figures=9)
    if target is not None and margin(event(ratio), target) > 0:
        raise InvalidArgument("noise_multiplier", given, f"enough for {target}", "Leave it out to have it calibrated.")
    return ratio


_PLAIN = Stage(steps=1)


def _describe_stages(stages: tuple[Stage, ...]) -> str:
    """Stages in a line; of many the ends."""
    if len(stages) <= 4:
        return ", ".join(map(repr, stages))
    return f"{stages[0]!r}, … {len(stages) - 2} more …, {stages[-1]!r}"


def _check_stages(
    stages: tuple[Stage, ...],
    noise: StepNoise,
    sampling: Sampling,
    schedule: Schedule,
    relation: Relation,
    clip: Fraction,
) -> None:
    """Refuse stages that the theorems do not cover."""
    if not stages:
        return
    if not noise.stepwise:
        raise InvalidArgument("stages", _describe_stages(stages), f"left out: {noise!r} depends on all steps at once")
    if not sampling.stepwise and any(stage.noise != 1 or stage.batch != 1 for stage in stages):
        raise InvalidArgument(
            "stages",
            _describe_stages(stages),
            f"about the clip alone: a run under {sampling!r} is no composition of its steps",
            "Use Poisson() or WithoutReplacement() for stages of noise and batch.",
        )
    for stage in stages:
        clips.checked(clip * stage.clip)
        sampling.check(Schedule(schedule.size, schedule.batch * stage.batch, stage.steps), relation)


def _shares(
    clipping: Clipping, series: LossSeries | None, noise: StepNoise, stages: tuple[Stage, ...]
) -> dict[str, Fraction]:
    """The shares of the noise that go to measures, if they can be released."""
    found = {}
    if isinstance(clipping, AdaptiveClipping):
        found["clip"] = clipping.share
        if any(stage.clip != 1 for stage in stages):
            raise InvalidArgument(
                "stages", _describe_stages(stages), "without a clip, which AdaptiveClipping finds itself"
            )
    if series is not None:
        found["loss"] = series.share
    if found and not noise.beside:
        raise InvalidArgument(
            "series" if series is not None else "clipping", "...", f"left out: under {noise!r} nothing is released"
            " beside the gradients", "Use GaussianNoise() or GridNoise().",
        )  # fmt: skip
    if sum(found.values()) > Fraction(1, 2):
        raise InvalidArgument("share", sum(found.values()), "at most 0.5 in all: the rest is for the gradients")
    return found


def _event(
    ratio: Fraction,
    noise: StepNoise,
    relation: Relation,
    sampling: Sampling,
    schedule: Schedule,
    stages: tuple[Stage, ...],
    *,
    measures: int,
) -> Event:
    """The event of a run: steps of one noise and one batch together, whatever their order."""
    counts: Counter[tuple[Fraction, Fraction]] = Counter()
    for stage in stages:
        counts[stage.noise, stage.batch] += stage.steps
    if not counts.keys() - {(1, 1)}:
        whole = noise.event(ratio, relation, sampling, schedule)
    else:
        parts = [
            noise.event(ratio * factor, relation, sampling, Schedule(schedule.size, schedule.batch * share, steps))
            for (factor, share), steps in counts.items()
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole + part
    if not measures:
        return whole
    return whole + Claimed(ApproxDP(0, LEAK * measures * schedule.steps, relation=relation))
