"""The folder of a publication: written next to its place, moved there when it is whole.

Work goes on in `<out>.partial`, which only its owner can read. It holds `begun.json` with a random id, whose hash is
the ledger's key for the charge, and the digest of the plan. Every file is written under another name, synced, and
renamed.

**Why a resumed run is sound.** The charge pays for one noisy answer to each table.

1. The id is on disk before the charge, so a resumed run finds it and the ledger knows its key: it pays once. Whoever
   deletes the folder loses the id, and pays again.
2. A table whose CSV is there is kept as it is: no second draw of it is made.
3. A table whose CSV is not there is computed, with fresh noise. If an earlier run had drawn noise for it, that draw was
   lost before its file existed, so nobody saw it: what is released is one draw.
4. A lock on the folder keeps a second process out.
5. The id is deleted before the folder is moved to its place. Neither what is published nor the ledger, which has its
   hash, lets anybody resume the release once more and draw anew under a charge that has been used.

This needs the partial folder to be private until it is finished, which its mode asks of the system; whoever can read
it must be trusted with the data. A copy of the folder that is resumed as well is a second release, and is not paid for.

**The note** says who is protected, what was charged, by which theorem, which noise, how to read the intervals.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deniable import _checks, noise
from deniable._escapes import dump_json, escape_markdown, fence, printable
from deniable._files import TEMPORARY, check_target, show_path, sync_folder, write_text
from deniable.errors import DataError, FileError
from deniable.guarantees import PureDP
from deniable.ledger import Charge
from deniable.query.choice import AtMost
from deniable.query.explanation import Words, staged_words, words
from deniable.query.planning import QueryPlan

if TYPE_CHECKING:
    from deniable.query.publication.publication import Publication
    from deniable.query.staging import Plan


BEGUN = "begun.json"
RECORD = "release.json"
NOTE = "METHOD.md"


@dataclass(frozen=True)
class Folder:
    """A folder that is being written. Use `Folder.open`."""

    out: Path
    work: Path
    digest: str
    id: str
    """Empty when everything is written, and the folder only has to be moved."""
    fresh: bool
    _lock: int

    @property
    def key(self) -> str:
        """The ledger's key for the charge. It does not tell the id to those who read the ledger."""
        return f"publish:{hashlib.sha256(self.id.encode()).hexdigest()}"

    @property
    def whole(self) -> bool:
        """Whether everything is written, and `place` is all there is to do."""
        return not self.id

    @classmethod
    def open(cls, out: Path, *, digest: str) -> Folder:
        """Begin, or go on with what was begun by the same plan. Nothing at `out` is ever touched."""
        if os.path.lexists(out):
            raise DataError(f"{show_path(out)} exists already; a release is never overwritten: choose another folder")
        check_target(out)
        work = out.with_name(out.name + ".partial")
        if not os.path.lexists(work):
            return cls._begin(out, work, digest)
        return cls._resume(out, work, digest)

    @classmethod
    def _begin(cls, out: Path, work: Path, digest: str) -> Folder:
        id = _new_id()
        try:
            work.mkdir(mode=0o700)
            write_text(work / BEGUN, json.dumps({"id": id, "plan": digest}))
        except OSError as failure:
            raise DataError(f"{work} could not be written: {failure.strerror}") from None
        return cls(out, work, digest, id, True, _locked(work))

    @classmethod
    def _resume(cls, out: Path, work: Path, digest: str) -> Folder:
        lock = _locked(work)
        try:
            names = {path.name for path in work.iterdir()}
            if all(name.startswith(TEMPORARY) for name in names):
                # Cut short before the id was whole: nothing was charged.
                write_text(work / BEGUN, json.dumps({"id": _new_id(), "plan": digest}))
                names = {BEGUN}
            whole = BEGUN not in names
            found = json.loads((work / (RECORD if whole else BEGUN)).read_text(encoding="utf-8"))
            if found["plan"] != digest:
                raise DataError(
                    f"{work} was begun by another plan; finish it with the file it was begun with, "
                    "or move it away: what it charged stays charged"
                )
            return cls(out, work, digest, "" if whole else str(found["id"]), False, lock)
        except (OSError, ValueError, KeyError, TypeError):
            os.close(lock)
            raise DataError(f"{work} is not the beginning of a release; move it away") from None
        except (DataError, FileError):
            os.close(lock)
            raise

    def has(self, name: str) -> bool:
        """Whether a table is written."""
        return (self.work / f"{name}.csv").exists()

    def keep(self, name: str, *, csv: str, facts: dict[str, Any]) -> None:
        """Write a table. Its CSV comes last: with it, the table is written."""
        with self._charged():
            write_text(self.work / f"{name}.facts", json.dumps(facts), overwrite=True)
            write_text(self.work / f"{name}.csv", csv)

    def facts(self, name: str) -> dict[str, Any]:
        """What was found about a table that is written."""
        path = self.work / f"{name}.facts"
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        record = json.loads((self.work / RECORD).read_text(encoding="utf-8"))
        return dict(record["found"][name])

    def finish(self, *, note: str, record: dict[str, Any], found: dict[str, Any]) -> Path:
        """Write the note and the record, and move the folder to its place."""
        whole = {"plan": self.digest, **record, "found": found}
        with self._charged():
            write_text(self.work / NOTE, note, overwrite=True)
            write_text(self.work / RECORD, dump_json(whole, indent=2) + "\n", overwrite=True)
            for path in [*self.work.glob("*.facts"), *self.work.glob(f"{TEMPORARY}*")]:
                path.unlink()
            (self.work / BEGUN).unlink()
            sync_folder(self.work)
        return self.place()

    def place(self) -> Path:
        """Move the folder, which is whole, to its place."""
        try:
            os.rename(self.work, self.out)
        except OSError:
            raise DataError(f"{self.out} appeared meanwhile; the release is whole in {self.work}") from None
        self.out.chmod(0o755)
        sync_folder(self.out.parent)
        return self.out

    def forget(self) -> None:
        """Take back a beginning that was not charged for."""
        if self.fresh:
            (self.work / BEGUN).unlink()
            self.work.rmdir()

    @contextlib.contextmanager
    def _charged(self) -> Iterator[None]:
        """A disk that fails after the charge is said in one sentence, with what to do."""
        try:
            yield
        except (OSError, FileError) as failure:
            why = failure if isinstance(failure, FileError) else f"{self.work} was not written: {failure.strerror}."
            raise DataError(
                f"{why} The charge stands, and the same command finishes the release without another one"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)


def _new_id() -> str:
    return "".join(f"{word:016x}" for word in noise.secure().words(2).tolist())


def _locked(work: Path) -> int:
    """A lock that the system lets go of when the process ends, however it ends."""
    try:
        held = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as failure:
        raise DataError(f"{work} could not be opened: {failure.strerror}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise DataError(f"{work} is being written by another process; wait for it") from None
    return held


_NOISE = (
    "Noise is added to exact whole numbers and has exactly the discrete Laplace law stated, from a cryptographic "
    "source of randomness. With sensitivity D and scale D/ε it is ε-differentially private (Ghosh, Roughgarden and "
    "Sundararajan 2009)."
)
_BASIC = (
    "The ε of all measurements add up to the ε charged (basic composition; Dwork, McSherry, Nissim and Smith 2006)."
)
_STAGED = (
    "Where bounds or limits were found from the data, they were found with noise, paid for by the stated share, and "
    "the answer's noise was scaled to what was found; its ε was fixed beforehand (adaptive composition; Dwork and "
    "Roth 2014, Theorem B.1)."
)


def method_note(publication: Publication, charge: Charge, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The note, in Markdown. `facts` holds what surveys found, by table."""
    cost, draft = publication.cost, publication.draft
    unit, noun, one = cost.unit, escape_markdown(cost.unit.noun), escape_markdown(cost.unit.one)
    sure = f"{_checks.shown(next(iter(publication.plans.values())).confidence * 100)} %"
    composed = _BASIC if publication.summed or isinstance(cost, PureDP) else (
        f"All measurements together were accounted for as one event by their composed privacy curve "
        f"({publication.method}), at δ = {_checks.shown(cost.delta)}."
    )  # fmt: skip
    staged = any(not isinstance(plan, QueryPlan) and not plan.settled for plan in publication.plans.values())
    lines = [
        f"# {escape_markdown(draft.title)}: how these tables were made",
        "",
        "The numbers are not exact. Noise was added so that nobody can tell from them whether any one "
        f"{noun}'s data were used.",
        "",
        "## Who is protected, and what was promised",
        "",
        f"- Protected: {one}, " + (f"by the column {_code(unit.column)}." if unit.column else "each on its own."),
        f"- Promise for all tables of this release together: **{escape_markdown(cost)}**.",
        "- Whatever anybody concludes from these tables, they would have concluded with nearly the same probability "
        f"(a factor of at most e^ε) had {one} been {cost.relation.verb}.",
        f"- Charged as row {charge.seq} of the ledger at {charge.time}; the row's hash is `{charge.hash}`.",
        "",
        "## Why it holds",
        "",
        f"- {_NOISE}",
        f"- {composed}",
        *([f"- {_STAGED}"] if staged else []),
        "- Averages, intervals and rounding are computed from noisy numbers only.",
        "",
        "## How to read the intervals",
        "",
        f"A number `n` comes with `n_low` and `n_high`. With probability {sure} each, the interval holds the true "
        f"number of the table without the few {noun}s who own more than limits and bounds let count; each table says "
        "how many they are at most. Where it says nothing of them, the interval covers the noise alone. No interval "
        "covers rows that are missing, or what would have come out for other people. Small and negative counts are "
        "left as they are, so that sums stay right on average.",
    ]
    for name, plan in publication.plans.items():
        lines += ["", *_table(publication, name, plan, facts.get(name, {}))]
    return "\n".join(lines) + "\n"


def _table(publication: Publication, name: str, plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    title = next(table.title for table in publication.draft.tables if table.name == name)
    said: Words = words(plan) if isinstance(plan, QueryPlan) else staged_words(plan)
    return [
        f"## {escape_markdown(title)}" if title != name else f"## {_code(name)}",
        "",
        f"File {_code(f'{name}.csv')}.",
        "",
        *fence(plan.sql.strip(), "sql"),
        "",
        *(f"- {label}: {escape_markdown(fact)}" for label, fact in said.facts if label != "cost"),
        f"- part of the cost: {escape_markdown(plan.cost)}",
        *_findings(facts),
        "",
        *_grid(said.measured),
        "",
        *_grid(said.errors),
    ]


def _code(name: str) -> str:
    """A name in the type of code."""
    return "`" + printable(name).replace("`", "'") + "`"


def _findings(facts: Mapping[str, Any]) -> list[str]:
    """What surveys and the diagnosis said."""
    found = facts.get("found", {})
    lines = [
        f"- found: bounds of {escape_markdown(c)}: [{low:g}, {high:g}]"
        for c, (low, high) in found.get("bounds", {}).items()
    ]
    if found.get("per_unit"):
        lines.append(f"- found: limits: {AtMost(**found['per_unit']).words}")
    if beyond := facts.get("beyond"):
        lines.append(f"- beyond limits and bounds: at most {beyond['most']:,} (about {beyond['about']:,})")
    seen = facts.get("diagnosis", {})
    if seen.get("left_out"):
        lines.append(f"- left out: {_share(seen['left_out'])} of the rows")
    lines += [
        f"- clamped: {_share(share)} of the rows, in {escape_markdown(c)}"
        for c, share in seen.get("clamped", {}).items()
    ]
    return lines


def _share(share: Mapping[str, float]) -> str:
    return f"{100 * share['value']:.1f} % ({100 * share['low']:.1f} to {100 * share['high']:.1f})"


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as a Markdown table."""
    head, *body = [[escape_markdown(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in body),
    ]
