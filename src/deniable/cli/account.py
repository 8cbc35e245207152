"""`deniable account` and `deniable calibrate`: what steps cost, and how much noise a promise needs."""

from __future__ import annotations

from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deniable.cli.options import text_at
from deniable.cli.printing import Force, Json, print_json, print_table, say
from deniable.cli.training import Batch, Delta, Epochs, Examples, Rate, Replace, Steps, relation_of, step, training
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.events import Event

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
    examples: Examples = None,
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

    Example: deniable account --noise-multiplier 1.1 --batch 256 --examples 60000 --epochs 60 --delta 1e-5

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
        event = training(
            noise_multiplier, rate=rate, steps=steps, batch=batch, examples=examples, epochs=epochs, replace=replace
        )
    elif file is not None:
        event = _recorded(file, shuffled=shuffled)
    from deniable.accounting.accountant import account as accounted

    profile = accounted(event)
    bracket = profile.epsilon_bracket(delta)
    if json:
        print_json(
            {
                "event": event.to_json(),
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


def _recorded(file: Path, *, shuffled: bool) -> Event:
    """The run in a file: an event's JSON, or the history that an Opacus accountant saved."""
    from deniable.accounting import from_opacus
    from deniable.events import Event

    expected = "a JSON file with an event, or with an Opacus history [[noise multiplier, rate, steps], ...]"
    text = text_at("--from", file, expected)
    try:
        found = loads(text)
    except ValueError:
        raise InvalidArgument("--from", str(file), expected) from None
    if isinstance(found, list) or (isinstance(found, dict) and "history" in found):
        return from_opacus(found, poisson=not shuffled)
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
    """ε against the number of steps: the graph of the lecture notes."""
    from deniable.accounting.theorems.compare import compare_theorems
    from deniable.guarantees import PureDP

    if (epsilon is None) == (noise_multiplier is None):
        raise InvalidArgument(
            "--epsilon", epsilon, "given with --compare, or --noise-multiplier instead", "Try --epsilon 0.1."
        )
    if plot is not None:
        from deniable.explaining import plots

        plots.check_place(plot, overwrite=force)
    one = PureDP(epsilon) if epsilon is not None else step(noise_multiplier or 0.0, rate=rate, replace=replace)
    found = compare_theorems(one, counts=COUNTS, delta=delta)
    if plot is not None:
        from deniable.explaining.curves import comparison_figure

        many = compare_theorems(one, counts=range(1, 1502, 50), delta=delta)
        plots.save(comparison_figure(many), plot, overwrite=force)
    if json:
        lines = [{"theorem": each.theorem, "epsilon": each.epsilons, "estimate": each.estimate} for each in found.lines]
        print_json({"step": found.step, "delta": delta, "counts": found.counts, "theorems": lines})
        return
    say(f"ε of k steps {found.step} at δ = {delta}, rounded up")
    header, *rows = found.rows()
    print_table(header, rows, right=range(1, len(header)))


def calibrate(
    epsilon: Annotated[float, typer.Option(help="The ε to stay below.", show_default=False)],
    delta: Delta,
    rate: Rate = None,
    steps: Steps = None,
    batch: Batch = None,
    examples: Examples = None,
    epochs: Epochs = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """The smallest noise multiplier with which private training keeps a promise.

    Example: deniable calibrate --epsilon 1 --delta 1e-5 --rate 0.01 --steps 10000
    """
    from deniable.calibration import calibrate as calibrated
    from deniable.guarantees import ApproxDP

    if not delta > 0:
        raise InvalidArgument("--delta", delta, "above 0: Gaussian noise keeps no promise with δ = 0")
    if not epsilon <= MOST_EPSILON:
        raise InvalidArgument("--epsilon", epsilon, f"at most {MOST_EPSILON:,}, beyond which nothing is promised")
    found = calibrated(
        lambda sigma: training(
            sigma, rate=rate, steps=steps, batch=batch, examples=examples, epochs=epochs, replace=replace
        ),
        ApproxDP(epsilon, delta, relation=relation_of(replace)),
    )
    if json:
        print_json(
            {
                "noise_multiplier": float(found.value),
                "epsilon": found.profile.epsilon(delta),
                "delta": delta,
                "event": found.event.to_json(),
            }
        )
        return
    say(f"noise multiplier  {float(found.value)!r}")
    say(f"event             {found.event!r}")
    say(f"cost              {found.profile.cost(delta)}")
