"""`deniable explain` and `deniable report`: what a promise means, in words and on a page."""

from __future__ import annotations

from enum import StrEnum
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable.cli.printing import Force, Json, print_json, say
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.auditing import AuditReport
    from deniable.explaining import Writer
    from deniable.explaining.report import Report
    from deniable.explaining.subjects import Explainable
    from deniable.ledger import LedgerRecord

SUBJECT = "a ledger (a file, its export, or postgresql://…), or a JSON file with an event or an audit report"
SUBJECT_HELP = SUBJECT[0].upper() + SUBJECT[1:] + "."


class Language(StrEnum):
    """The languages that have texts."""

    en = "en"
    de = "de"
    fr = "fr"


class Audience(StrEnum):
    """Who the words are for."""

    participant = "participant"
    analyst = "analyst"
    regulator = "regulator"


def explain(
    file: Annotated[str | None, typer.Argument(help=SUBJECT_HELP, show_default=False)] = None,
    epsilon: Annotated[float | None, typer.Option(help="Explain a promise of this ε.", show_default=False)] = None,
    delta: Annotated[float, typer.Option(help="With --epsilon: its δ.")] = 0.0,
    mu: Annotated[float | None, typer.Option(help="Explain a Gaussian promise of this μ.", show_default=False)] = None,
    unit: Annotated[str, typer.Option(help="With --epsilon or --mu: the column that says who a row is about.")] = "row",
    prior: Annotated[
        float | None, typer.Option(help="What an attacker believed before, between 0 and 1.", show_default=False)
    ] = None,
    reader: Annotated[Audience, typer.Option(help="Who the words are for.")] = Audience.participant,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="An SVG file to draw: the odds as a hundred people, or what an audit found.", show_default=False
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """What a promise means for one person, in words.

    Example: deniable explain --epsilon 0.5 --unit patient_id --prior 0.1
    """
    if [file, epsilon, mu].count(None) != 2:
        raise InvalidArgument("FILE", file, "given, or --epsilon, or --mu: one of them")
    from deniable._files import check_target, write_text
    from deniable.explaining import explain as explain_subject

    inputs = [] if file is None else [file]
    if picture is not None:
        check_target(picture, overwrite=force, inputs=inputs)
    what = _promise(epsilon, delta, mu, unit) if file is None else _read_subject(file)
    explanation = explain_subject(what, prior=prior, reader=_writer(reader))
    if picture is not None:
        from deniable.explaining.audits import Audit, audit_tradeoff
        from deniable.explaining.odds import icon_array
        from deniable.explaining.svg import render

        figure = (
            audit_tradeoff(what) if isinstance(what, Audit) else icon_array(explanation.odds, labels=explanation.labels)
        )
        write_text(picture, render(figure), overwrite=force, inputs=inputs)
    if json:
        print_json(explanation.to_dict())
    else:
        say(explanation)


def report(
    file: Annotated[str, typer.Argument(help=SUBJECT_HELP, show_default=False)],
    out: Annotated[
        Path, typer.Option(help="The page to write; the registry's entry goes beside it, as NAME.registry.json.")
    ] = Path("report.html"),
    curator: Annotated[str, typer.Option(help="Who is responsible for the data.")] = "not stated",
    use: Annotated[str, typer.Option(help="What the releases are for.")] = "not stated",
    audit: Annotated[
        list[Path] | None, typer.Option(help="An audit report's JSON file to include.", show_default=False)
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page; says who is protected, if left out.")] = "",
    language: Annotated[Language, typer.Option(help="Of the page.")] = Language.en,
    show_queries: Annotated[
        bool, typer.Option("--show-queries", help="Show queries as they were typed, with their names and values.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """One self-contained page: who is protected, what was charged for what, what it means; and a registry entry.

    Example: deniable report hospital.ledger --out report.html
    """
    if not out.name:
        raise InvalidArgument("--out", str(out), "the name of a file", "For example --out report.html.")
    from deniable.explaining.languages import texts_in

    report_page = _report(
        file,
        audits=audit or [],
        curator=curator,
        use=use,
        title=title,
        texts=texts_in(language.value),
        show_queries=show_queries,
    )
    page, entry = report_page.write(out, overwrite=force, inputs=[file, *(audit or [])])
    if json:
        print_json({"page": str(page), "registry": str(entry)})
    else:
        say(f"wrote {page} and {entry}")


def _promise(epsilon: float | None, delta: float, mu: float | None, unit: str) -> Explainable:
    from deniable.guarantees import GDP, ApproxDP, PureDP

    if mu is not None:
        return GDP(mu, unit=unit)
    return ApproxDP(epsilon or 0, delta, unit=unit) if delta else PureDP(epsilon or 0, unit=unit)


def _writer(reader: Audience) -> Writer:
    from deniable.explaining import Analyst, Participant, Regulator

    writers: dict[Audience, Writer] = {
        Audience.participant: Participant(),
        Audience.analyst: Analyst(),
        Audience.regulator: Regulator(),
    }
    return writers[reader]


def _read_subject(file: str) -> Explainable:
    """The subject in a file: a ledger, an event or an audit."""
    record = _record(file)
    if record is None:
        return _parse_file(Path(file))
    with record:
        return record.describe()


def _report(file: str, *, audits: list[Path], **options: Any) -> Report:
    from deniable.explaining.report import Entry, Report

    attacks = [_audit(each) for each in audits]
    record = _record(file)
    if record is None:
        return Report.about(_parse_file(Path(file)), audits=attacks, **options)
    with record:
        entries = [Entry(c.time, c.who, c.purpose, c.event) for c in record.charges()]
        return Report.about(record.describe(), entries=entries, audits=attacks, **options)


def _record(file: str) -> LedgerRecord | None:
    """The ledger at an address or in a file, or its export, which is verified; None for a file that holds neither."""
    from deniable.cli.ledger import record_at
    from deniable.ledger.exports import is_export
    from deniable.ledger.stores.locations import file_at, is_server

    if is_server(file):
        return record_at(file)
    file_at(file)  # refuses a mistyped address before anything says what was typed
    return record_at(file) if _begins_as_sqlite(file) or is_export(file) else None


def _parse_file(file: Path) -> Explainable:
    from deniable.events import Event

    text = _text(file)
    try:
        value = loads(text)
    except ValueError:
        value = None  # the event says what it expects
    return _audit(file) if isinstance(value, dict) and "verdict" in value else Event.from_json(text)


def _audit(file: Path) -> AuditReport:
    from deniable.auditing import AuditReport

    return AuditReport.from_json(_text(file))


def _text(file: Path) -> str:
    """The text of a file, with question marks for bytes that are not UTF-8.

    The file may be a table, given by mistake. No record of it may decide what the message says.
    """
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as failure:
        raise InvalidArgument("FILE", str(file), SUBJECT, _reason(failure)) from None


def _begins_as_sqlite(file: str) -> bool:
    from deniable._files import peek

    try:
        return peek(file, 6) == b"SQLite"
    except (OSError, ValueError) as failure:
        raise InvalidArgument("FILE", file, SUBJECT, _reason(failure)) from None


def _reason(failure: OSError | ValueError) -> str:
    """Why a file cannot be read, without its name: a mistyped address would show its password."""
    return f"{failure.strerror}." if isinstance(failure, OSError) else "No file has such a name."
