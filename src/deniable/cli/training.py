"""The options that describe private training, shared by `account` and `calibrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from deniable.events import Event
    from deniable.units import Relation

Rate = Annotated[float | None, typer.Option(help="The probability that one example is in a batch.")]
Steps = Annotated[int | None, typer.Option(help="How many noisy steps are taken.")]
Batch = Annotated[float | None, typer.Option(help="The expected batch size, with --examples, instead of --rate.")]
Examples = Annotated[int | None, typer.Option(help="How many examples there are.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data, instead of --steps.")]
Replace = Annotated[bool, typer.Option("--replace", help="One example exchanged, instead of added or removed.")]
Delta = Annotated[float, typer.Option(help="The δ at which ε is stated.", show_default=False)]


def training(
    noise_multiplier: float,
    *,
    rate: float | None,
    steps: int | None,
    batch: float | None,
    examples: int | None,
    epochs: float | None,
    replace: bool,
) -> Event:
    """The event of a training run; epochs are rounded up to whole steps."""
    from deniable.events import dpsgd

    return dpsgd(
        noise_multiplier=noise_multiplier,
        rate=rate,
        batch=batch,
        examples=examples,
        steps=steps,
        epochs=epochs,
        relation=relation_of(replace),
    )


def step(noise_multiplier: float, *, rate: float | None, replace: bool) -> Event:
    """One step of it."""
    from deniable.events import Repeated, dpsgd

    found = dpsgd(
        noise_multiplier=noise_multiplier, rate=1 if rate is None else rate, steps=1, relation=relation_of(replace)
    )
    return found.event if isinstance(found, Repeated) else found


def relation_of(replace: bool) -> Relation:
    """The relation that `--replace` names."""
    from deniable.units import Relation

    return Relation.REPLACE if replace else Relation.ADD_REMOVE
