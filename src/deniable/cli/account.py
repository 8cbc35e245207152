"""`deniable account`, `calibrate` and `size`: what steps cost, how much noise a promise needs, how many people."""

from __future__ import annotations

from collections.abc import Callable
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable._checks import exact, warn_of_delta
from deniable._forms import Plain
from deniable.cli import options
from deniable.cli.options import text_at
from deniable.cli.printing import Force, Json, print_json, print_table, say
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.events import Event
    from deniable.units import Relation


Rate = Annotated[float | None, typer.Option(help="The probability that one example is in a batch.")]
Steps = Annotated[int | None, typer.Option(help="How many noisy steps are taken.")]
Batch = Annotated[float | None, typer.Option(help="The expected batch size, with --size, instead of --rate.")]
Size = Annotated[int | None, typer.Option(help="How many examples there are.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data, instead of --steps.")]
Replace = Annotated[bool, typer.Option("--replace", help="One example exchanged, instead of added or removed.")]
Delta = Annotated[float, typer.Option(help="The δ at which ε is stated.", show_default=False)]


def training_event(
    noise_multiplier: float,
    *,
    rate: float | None,
    steps: int | None,
    batch: float | None,
    size: int | None,
    epochs: float | None,
    replace: bool,
) -> Event:
    """The event of a training run; epochs are rounded up to whole steps."""
    from deniable.events import dpsgd

    return dpsgd(
        noise_multiplier=noise_multiplier,
        rate=rate,
        batch=batch,
        size=size,
        steps=steps,
        epochs=epochs,
        relation=neighbour_relation(replace),
    )


def step_event(noise_multiplier: float, *, rate: float | None, replace: bool) -> Event:
    """The event of one training step."""
    from deniable.events import Repeated, dpsgd

    event = dpsgd(
        noise_multiplier=noise_multiplier,
        rate=1 if rate is None else rate,
        steps=1,
        relation=neighbour_relation(replace),
    )
    return event.event if isinstance(event, Repeated) else event


def neighbour_relation(replace: bool) -> Relation:
    """The relation that `--replace` names."""
    from deniable.units import Relation

    return Relation.REPLACE if replace else Relation.ADD_REMOVE


COUNTS = (1, 10, 100, 1000, 10_000)
MOST_EPSILON = 1000


def account(
    delta: Delta,
    file: Annotated[
        Path | None,
        typer.Option("--from", help="A JSON file: an event, or a run recorded by another library.", show_default=False),
    ] = None,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="With --from: the batches were cut from shuffled epochs, not sampled.")
    ] = False,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="The noise's standard deviation over the clipping norm.", show_default=False)
    ] = None,
    rate: Rate = None,
    steps: Steps = None,
    batch: Batch = None,
    size: Size = None,
    epochs: Epochs = None,
    replace: Replace = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="ε against the number of steps, under every theorem.")
    ] = False,
    epsilon: Annotated[
        float | None, typer.Option(help="With --compare: the ε of one pure step.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="With --compare: draw the curves to this file.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """What private steps cost: ε at a δ, with a proven bracket.

    Example: deniable account --noise-multiplier 1.1 --batch 256 --size 60000 --epochs 60 --delta 1e-6

    Example: deniable account --compare --epsilon 0.1 --delta 1e-6
    """
    if compare:
        _compare(
            delta, epsilon=epsilon, noise_multiplier=noise_multiplier, rate=rate, replace=replace, plot=plot,
            force=force, json=json,
        )  # fmt: skip
        return
    for name, value in (("--epsilon", epsilon), ("--plot", plot)):
        if value is not None:
            raise InvalidArgument(name, value, "left out without --compare")
    if (file is None) == (noise_multiplier is None):
        raise InvalidArgument("--noise-multiplier", noise_multiplier, "given, or --from FILE instead, not both")
    if shuffled and file is None:
        raise InvalidArgument("--shuffled", shuffled, "left out without --from")
    if noise_multiplier is not None:
        event = training_event(
            noise_multiplier, rate=rate, steps=steps, batch=batch, size=size, epochs=epochs, replace=replace
        )
    elif file is not None:
        event = _read_event(file, shuffled=shuffled)
    from deniable.accounting.accountant import account as account_event

    profile = account_event(event)
    bracket = profile.epsilon_bracket(delta)
    warn_of_delta(exact(delta), size=size)
    if json:
        print_json(
            {
                "event": event.to_dict(),
                "delta": delta,
                "epsilon": bracket.upper,
                "epsilon_lower": bracket.lower,
                "method": profile.method,
                "relation": event.relation.value,
            }
        )
        return
    say(profile.cost(delta))
    say(f"event    {event!r}")
    say(f"bracket  {bracket.lower!r} ≤ ε ≤ {bracket.upper!r}")
    say(f"method   {profile.method}")


def _read_event(file: Path, *, shuffled: bool) -> Event:
    """The run in a file: an event's JSON, or the history that an Opacus accountant saved."""
    from deniable.accounting import from_opacus
    from deniable.events import Event

    expected = "a JSON file with an event, or with an Opacus history [[noise multiplier, rate, steps], ...]"
    text = text_at("--from", file, expected)
    try:
        record = loads(text)
    except ValueError:
        raise InvalidArgument("--from", str(file), expected) from None
    if isinstance(record, list) or (isinstance(record, dict) and "history" in record):
        return from_opacus(record, poisson=not shuffled)
    if shuffled:
        raise InvalidArgument("--shuffled", shuffled, "left out for an event, which says how it was sampled")
    return Event.from_json(text)


def _compare(
    delta: float,
    *,
    epsilon: float | None,
    noise_multiplier: float | None,
    rate: float | None,
    replace: bool,
    plot: Path | None,
    force: bool,
    json: bool,
) -> None:
    """Print ε against the number of steps, under every theorem."""
    from deniable.guarantees import PureDP
    from deniable.textbook.compare import compare_theorems

    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidArgument(
            "--epsilon", epsilon, "given with --compare, or --noise-multiplier instead", "Try --epsilon 0.1."
        )
    if plot is not None:
        from deniable.explaining import plots

        plots.check_target(plot, overwrite=force)
    one = PureDP(epsilon) if epsilon is not None else step_event(noise_multiplier or 0.0, rate=rate, replace=replace)
    comparison = compare_theorems(one, counts=COUNTS, delta=delta)
    if plot is not None:
        from deniable.explaining.curves import comparison_figure

        many = compare_theorems(one, counts=range(1, 1502, 50), delta=delta)
        plots.save(comparison_figure(many), plot, overwrite=force)
    if json:
        lines = [
            {"theorem": each.theorem, "epsilon": each.epsilons, "estimate": each.estimate} for each in comparison.lines
        ]
        print_json({"step": comparison.step, "delta": delta, "counts": comparison.counts, "theorems": lines})
        return
    say(f"ε of k steps {comparison.step} at δ = {delta}, rounded up")
    header, *rows = comparison.rows()
    print_table(header, rows, right=range(1, len(header)))


def calibrate(
    epsilon: Annotated[float, typer.Option(help="The ε to stay below.", show_default=False)],
    delta: Delta,
    rate: Rate = None,
    steps: Steps = None,
    batch: Batch = None,
    size: Size = None,
    epochs: Epochs = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """The smallest noise multiplier with which private training keeps a promise.

    Example: deniable calibrate --epsilon 1 --delta 1e-5 --rate 0.01 --steps 10000
    """
    from deniable.calibration import calibrate as solve
    from deniable.guarantees import ApproxDP

    if not delta > 0:
        raise InvalidArgument("--delta", delta, "above 0: Gaussian noise keeps no promise with δ = 0")
    if not epsilon <= MOST_EPSILON:
        raise InvalidArgument("--epsilon", epsilon, f"at most {MOST_EPSILON:,}, beyond which nothing is promised")
    target = ApproxDP(epsilon, delta, relation=neighbour_relation(replace))
    warn_of_delta(target, size=size)
    calibration = solve(
        lambda sigma: training_event(
            sigma, rate=rate, steps=steps, batch=batch, size=size, epochs=epochs, replace=replace
        ),
        target,
    )
    if json:
        print_json(
            {
                "noise_multiplier": float(calibration.value),
                "epsilon": calibration.profile.epsilon(delta),
                "delta": delta,
                "event": calibration.event.to_dict(),
            }
        )
        return
    say(f"noise multiplier  {float(calibration.value)!r}")
    say(f"event             {calibration.event!r}")
    say(f"cost              {calibration.profile.cost(delta)}")


def size(
    what: Annotated[str, typer.Argument(help="mean, sum, count, or share (who say yes).", show_default=False)],
    size: Annotated[int | None, typer.Option("--size", help="How many people.", show_default=False)] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε of the answer.", show_default=False)] = None,
    error: Annotated[float | None, typer.Option(help="The error, rarely exceeded.", show_default=False)] = None,
    confidence: Annotated[float, typer.Option(help="How rarely: 0.95 is one time in twenty.")] = 0.95,
    bounds: Annotated[str | None, typer.Option(help="LOW:HIGH, for mean and sum.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """How many people does this error need? Leave out one of --size, --epsilon and --error, and it is found.

    Example: deniable size mean --bounds 0:1 --epsilon 0.5 --error 0.01

    Example: deniable size share --epsilon 0.5 --error 0.01
    """
    from deniable import mechanisms
    from deniable.units import Relation

    request: dict[str, Any] = {"size": size, "epsilon": epsilon, "error": error, "confidence": confidence}
    if what == "share":
        both = mechanisms.central_and_local(**request)
        _print_size(both, json=json)
        return
    kinds: dict[str, Callable[..., mechanisms.Mechanism]] = {
        "mean": mechanisms.mean,
        "sum": mechanisms.sum_of,
        "count": mechanisms.count,
    }
    if what not in kinds:
        raise InvalidArgument("what", what, "mean, sum, count or share")
    settings: dict[str, Any] = {"relation": Relation.REPLACE} if what == "mean" else {}
    if what != "count":
        if bounds is None:
            raise InvalidArgument("--bounds", bounds, f"given for a {what}", "For example --bounds 0:100.")
        settings["bounds"] = options.bounds([f"values={bounds}"])["values"]
    plan = mechanisms.size(kinds[what], **request, **settings)
    _print_size(plan, json=json)


def _print_size(plan: Plain, *, json: bool) -> None:
    if json:
        print_json(plan.to_dict())
    else:
        say(plan)
