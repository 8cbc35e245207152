"""`deniable audit`: attack a mechanism named by its module, or a file of scores from two worlds."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable.cli.options import text_at
from deniable.cli.printing import Force, Json, print_json, say
from deniable.errors import DataError, InvalidArgument

if TYPE_CHECKING:
    from deniable.auditing.claims import Claimable

REFUTED = 4
"""The exit code of a refuted claim."""

MOST = 500
"""The largest ε or μ that is worth an attack."""

FAILURES = (
    ImportError, AttributeError, SyntaxError, NameError, TypeError, ValueError,
    ArithmeticError, LookupError, OSError, RuntimeError,
)  # fmt: skip
"""What a module of the user may raise while it is imported."""


def audit(
    target: Annotated[
        str, typer.Argument(help="MODULE:FUNCTION, or a CSV file with columns world and score.", show_default=False)
    ],
    neighbours: Annotated[
        str | None, typer.Option(help="MODULE:NAME of a pair (d, d_prime) or of a Search.", show_default=False)
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The claimed ε.", show_default=False)] = None,
    delta: Annotated[float, typer.Option(help="The claimed δ.")] = 0.0,
    mu: Annotated[float | None, typer.Option(help="The claimed μ, for Gaussian privacy.", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Option("--from", help="The claim as an event's JSON, in a file.", show_default=False)
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Claimed for a record replaced by another.")] = False,
    confidence: Annotated[
        float, typer.Option(help="A true claim is refuted at most this rarely: 0.95 is once in twenty audits.")
    ] = 0.95,
    runs: Annotated[int, typer.Option(help="Runs, at most.")] = 20_000,
    seconds: Annotated[float | None, typer.Option(help="Seconds, at most.", show_default=False)] = None,
    jobs: Annotated[int, typer.Option(help="Workers, through joblib.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Repeat an audit.", min=0, show_default=False)] = None,
    timing: Annotated[bool, typer.Option("--timing", help="Judge running times too.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves to this file.", show_default=False)] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Attack a claim: a lower bound on ε next to what is claimed. Exits with 4 when the claim is refuted.

    Example: deniable audit counts:noisy_count --neighbours counts:pair --epsilon 1

    Example: deniable audit scores.csv --epsilon 0.21 --delta 1e-5
    """
    from deniable import auditing

    inputs = [path for path in (file, target if target.endswith(".csv") else None) if path is not None]
    if plot is not None:
        from deniable.explaining import plots

        plots.check_target(plot, overwrite=force, inputs=inputs)
    claim = _claim(epsilon, delta, mu, file, replace=replace)
    if target.endswith(".csv"):
        without, inside = _scores(Path(target))
        report = auditing.audit_scores(
            without, inside, claim=_require_claim(claim), confidence=confidence, seed=0 if seed is None else seed
        )
    else:
        mechanism = _import_name("target", target)
        if neighbours is None:
            raise InvalidArgument("--neighbours", neighbours, "given with a mechanism", "Name a pair: MODULE:NAME.")
        report = auditing.audit(
            mechanism,
            neighbours=_import_name("--neighbours", neighbours),
            claim=claim,
            confidence=confidence,
            runs=runs,
            seconds=seconds,
            n_jobs=jobs,
            seed=seed,
            timing=timing,
            progress=sys.stderr.isatty(),
        )
    if plot is not None:
        from deniable.explaining.audits import audit_figure

        plots.save(audit_figure(report.curve, verdict=report.verdict), plot, overwrite=force, inputs=inputs)
    if json:
        print_json(report.to_dict())
    else:
        say(report)
    if report.refuted:
        raise typer.Exit(REFUTED)


def _claim(
    epsilon: float | None, delta: float, mu: float | None, file: Path | None, *, replace: bool
) -> Claimable | None:
    """The claim of the options; None leaves it to the mechanism's own event."""
    from deniable.events import Event
    from deniable.guarantees import GDP, ApproxDP, PureDP
    from deniable.units import Relation

    if sum(value is not None for value in (epsilon, mu, file)) > 1:
        raise InvalidArgument("--epsilon", epsilon, "given alone: --epsilon, --mu or --from")
    relation = Relation.REPLACE if replace else Relation.ADD_REMOVE
    for name, value in (("--epsilon", epsilon), ("--mu", mu)):
        if value is not None and value > MOST:
            raise InvalidArgument(name, value, f"at most {MOST}, beyond which nothing is claimed")
    if epsilon is not None:
        return ApproxDP(epsilon, delta, relation=relation) if delta else PureDP(epsilon, relation=relation)
    if mu is not None:
        return GDP(mu, relation=relation)
    if file is not None:
        return Event.from_json(text_at("--from", file, "a readable JSON file"))
    return None


def _require_claim(claim: Claimable | None) -> Claimable:
    if claim is None:
        raise InvalidArgument("--epsilon", None, "given with scores", "Say what is claimed: --epsilon, --mu or --from.")
    return claim


def _import_name(name: str, path: str) -> Any:
    """What MODULE:NAME names; modules of the current folder are found."""
    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise InvalidArgument(name, path, "of the form MODULE:NAME", "For example counts:noisy_count.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        target: Any = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
    except FAILURES as failure:
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        raise InvalidArgument(name, path, "something that can be imported", reason) from None
    finally:
        sys.path.pop(0)
    return target


def _scores(path: Path) -> tuple[list[float], list[float]]:
    """Scores of world 0 (D) and world 1 (D′)."""
    worlds: dict[str, list[float]] = {"0": [], "1": []}
    try:
        with path.open(encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                worlds[row["world"].strip()].append(float(row["score"]))
    except OSError as failure:
        raise DataError(f"{path} cannot be read: {failure}") from None
    except (KeyError, ValueError, TypeError, AttributeError, csv.Error):
        raise DataError(f"{path} must have the columns world (0 or 1) and score (a number) in every row") from None
    return worlds["0"], worlds["1"]
