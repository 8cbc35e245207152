"""`deniable demo`: private answers, a private model, an audit and a report, on an invented hospital.

The hospital has 4,000 patients and is the same on every machine. `visits.csv` has a row for every visit, `patients.csv`
one for every patient, with whether they came back within a year. Nobody in it exists: the numbers come from a hash of
the patient and the visit, not from a random generator, because this is data and not noise.

Commands and pieces of Python are printed as a person would type them, and then run unchanged.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from deniable._files import write_text
from deniable.cli.printing import Json, print_json, say

CITIES = ("Basel", "Bern", "Geneva", "Lausanne", "Zurich")
WARDS = ("cardiology", "maternity", "oncology", "surgery")
PATIENTS = 4000


def write_visits(path: Path) -> int:
    """Write the table of visits as CSV; returns the number of rows."""
    rows: list[Sequence[object]] = []
    for patient in range(PATIENTS):
        home = CITIES[_below(len(CITIES), patient, "home")]
        age = 18 + _below(72, patient, "age")
        # A few patients come very often: the reason why contributions are bounded per person.
        visits = 1 + int(-3.0 * math.log(1.0 - _unit(patient, "visits")))
        for visit in range(visits):
            away = _unit(patient, visit, "away") < 0.15
            city = CITIES[_below(len(CITIES), patient, visit, "city")] if away else home
            ward = WARDS[_below(len(WARDS), patient, visit, "ward")]
            cost = round(180.0 * (1 + WARDS.index(ward)) * math.exp(1.2 * _unit(patient, visit, "cost")), 2)
            rows.append((f"p{patient:04d}", city, ward, age, cost))
    _write(path, ("patient_id", "city", "ward", "age", "cost"), rows)
    return len(rows)


def write_patients(path: Path) -> None:
    """Write one row per patient: age, body mass index, smoker, and whether they came back."""
    rows = []
    for patient in range(PATIENTS):
        age = 18 + _below(72, patient, "age")
        bmi = round(18 + 17 * _unit(patient, "bmi"), 1)
        smoker = int(_unit(patient, "smoker") < 0.3)
        score = (age - 54) / 12 + (bmi - 26.5) / 5 + 1.5 * (smoker - 0.3)
        rows.append((age, bmi, smoker, int(_unit(patient, "returned") < 1 / (1 + math.exp(-score)))))
    _write(path, ("age", "bmi", "smoker", "returned"), rows)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    write_text(path, text.getvalue())


def _unit(*what: object) -> float:
    """A number in [0, 1) that depends only on the arguments."""
    digest = hashlib.sha256(repr(what).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _below(n: int, *what: object) -> int:
    return int(_unit(*what) * n)


MODEL = """\
from pathlib import Path
import numpy as np
import deniable as dn
from sklearn.linear_model import LogisticRegression

table = np.loadtxt("patients.csv", delimiter=",", skiprows=1)
X = dn.learning.RangeScaler(bounds=[(18, 90), (15, 40), (0, 1)]).fit_transform(table[:, :3])
y = table[:, 3].astype(int)

private = dn.learning.LogisticRegression(
    epsilon=0.5, delta=1e-6, data_norm=3**0.5, classes=[0, 1], ledger="hospital.ledger", unit="patient_id"
).fit(X[:3000], y[:3000])
plain = LogisticRegression().fit(X[:3000], y[:3000])
print(f"right about patients it has not seen: {private.score(X[3000:], y[3000:]):.1%} with privacy,"
      f" {plain.score(X[3000:], y[3000:]):.1%} without")
print(private.profile_.cost(delta=1e-6))
"""

AUDIT = """\
few = np.column_stack([X, y])[:60]
one_more = np.vstack([few, [1, 1, 1, 1]])  # the same patients, and one who stands out

def train(patients):
    model = dn.learning.LogisticRegression(
        epsilon=0.5, delta=1e-6, data_norm=3**0.5, classes=[0, 1], size=60, solver="output")
    return model.fit(patients[:, :3], patients[:, 3].astype(int)).coef_.ravel()

honest = dn.audit(train, neighbours=(few, one_more), claim=dn.ApproxDP(0.5, 1e-6), runs=600)
print(honest)
Path("audit.json").write_text(honest.to_json(), encoding="utf-8")
"""

BROKEN = """\
generator = np.random.default_rng()

def train_wrongly(patients):  # divides the noise by the number of patients twice
    model = LogisticRegression().fit(patients[:, :3], patients[:, 3].astype(int))
    return model.coef_.ravel() + generator.normal(scale=1 / (0.5 * len(few) ** 2), size=3)

broken = dn.audit(train_wrongly, neighbours=(few, one_more), claim=dn.ApproxDP(0.5, 1e-6), runs=600)
print(broken)
Path("broken.json").write_text(broken.to_json(), encoding="utf-8")
"""


BOUNDED = ["--groups-per-unit", "2", "--rows-per-unit", "4", "--ledger", "hospital.ledger"]
CITY_KEYS = ["--keys", "city=Basel,Bern,Geneva,Lausanne,Zurich"]
WARD_KEYS = ["--keys", "ward=cardiology,maternity,oncology,surgery"]
COSTS = ["--bounds", "cost=0:2500"]
FILES = (
    "visits.csv", "patients.csv", "hospital.ledger", "hospital.ledger-wal", "hospital.ledger-shm", "audit.json",
    "broken.json", "broken.svg", "report.html", "report.registry.json",
)  # fmt: skip
"""What the demo writes."""
WIDTH = 100


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the demo's files; a new temporary folder if left out.")
    ] = None,
    json: Json = False,
) -> None:
    """Private answers, a private model, an audit and a report, on a made-up hospital.

    Every step prints the command or the code that a person would type. With --json the story goes to standard error.

    Example: deniable demo
    """
    import tempfile

    root = folder or Path(tempfile.mkdtemp(prefix="deniable-demo-"))
    _check_folder(root)
    with contextlib.redirect_stdout(sys.stderr if json else sys.stdout), contextlib.chdir(root):
        _ask(root)
        _learn_and_audit()
        _explain()
        _narrate(f"The files are in {root}. Open {root / 'report.html'} in a browser.")
    if json:
        print_json({"folder": str(root), "report": str(root / "report.html"), "ledger": str(root / "hospital.ledger")})


def _check_folder(root: Path) -> None:
    """Refuse a folder that holds a file of the demo's names, before any is written."""
    from deniable._files import check_target, make_folder, show_path
    from deniable.errors import FileError

    make_folder(root)
    there = [name for name in FILES if os.path.lexists(root / name)]
    if there:
        raise FileError(
            root,
            f"the folder {show_path(root)} already holds {', '.join(there)}, which the demo writes; choose another.",
        )
    check_target(root / FILES[0])


def _ask(root: Path) -> None:

    _chapter("Ask")
    _narrate(f"A hospital keeps its visits in {root / 'visits.csv'}.")
    rows = write_visits(Path("visits.csv"))
    write_patients(Path("patients.csv"))
    say(f"{rows} visits by {PATIENTS} made-up patients: patient_id, city, ward, age, cost.")

    _narrate("It promises each patient ε ≤ 3 over everything that will ever be published, and writes the promise down.")
    _type("ledger", "create", "hospital.ledger", "--epsilon", "3", "--delta", "1e-5", "--unit", "patient_id")

    _narrate("How many visits does each city see? Looking at the plan is free and reads no data.")
    count = ["query", "visits.csv", "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city", "--epsilon", "0.5"]
    _type(*count, *CITY_KEYS, *BOUNDED, "--dry-run", lines=11)

    _narrate("An error of ± 48 will do. Now it costs: the ledger is charged first, then the table is read.")
    _type(*count, *CITY_KEYS, *BOUNDED)

    _narrate("What does a visit cost, by ward? Bounds come from the price list, never from the data.")
    by_ward = "SELECT ward, AVG(cost) AS cost FROM visits GROUP BY ward"
    _type("query", "visits.csv", by_ward, "--epsilon", "0.8", *COSTS, *WARD_KEYS, *BOUNDED)

    _narrate("A third question asks for more than is left. It is refused, and says what would fit.")
    older = ["query", "visits.csv", "SELECT SUM(cost) AS total FROM visits WHERE age >= 65", *COSTS, *BOUNDED]
    _type(*older, "--epsilon", "3")

    _narrate("So it asks for less.")
    _type(*older, "--epsilon", "0.3")


def _learn_and_audit() -> None:

    names: dict[str, Any] = {}
    _chapter("Learn")
    _narrate(
        "Who comes back within a year? A private model, charged to the same ledger, beside its twin without privacy."
    )
    if not _run(MODEL, names):
        return
    _chapter("Attack")
    _narrate("Why should anybody believe that? An auditor trains it hundreds of times, with and without one patient.")
    _run(AUDIT, names)
    _narrate("A colleague's version adds too little noise. A few dozen runs show it.")
    _run(BROKEN, names)
    _type("explain", "broken.json", "--picture", "broken.svg", lines=5)


def _explain() -> None:
    _chapter("Explain")
    _narrate("What does the promise mean for a patient?")
    _type("explain", "hospital.ledger", "--prior", "0.1")
    _narrate("Everything that was charged is in the record, the record verifies, and there is a page to show.")
    _type("ledger", "show", "hospital.ledger")
    _type("ledger", "verify", "hospital.ledger")
    audits = ["--audit", "audit.json"] if Path("audit.json").exists() else []
    _type("report", "hospital.ledger", *audits, "--curator", "the hospital", "--use", "planning")


def _chapter(name: str) -> None:
    say(f"\n━━ {name} " + "━" * (WIDTH - 4 - len(name)), fg=typer.colors.GREEN)


def _narrate(line: str) -> None:
    say(f"\n{line}", bold=True)


def _type(*words: str, lines: int | None = None) -> None:
    """Print a command as a person would type it, run it in this process, print its refusal if it is refused."""
    import io

    from deniable.cli.app import command
    from deniable.errors import DeniableError

    say(_wrap(words) + (f" | head -n {lines}" if lines else ""), fg=typer.colors.CYAN)
    output = io.StringIO() if lines else sys.stdout
    try:
        with contextlib.redirect_stdout(output):
            command()(list(words), standalone_mode=False)
    except DeniableError as refusal:
        say(f"deniable: {refusal}")
    if isinstance(output, io.StringIO):
        say("\n".join(output.getvalue().splitlines()[:lines]))


def _wrap(words: tuple[str, ...]) -> str:
    """The command in lines that fit a terminal; an option stays with its value."""
    lines, line = [], "$ deniable"
    pieces = [shlex.quote(word) for word in words]
    while pieces:
        value = len(pieces) > 1 and pieces[0].startswith("--") and not pieces[1].startswith("--")
        piece = " ".join(pieces[: 1 + value])
        pieces = pieces[1 + value :]
        if len(line) + len(piece) + 3 > WIDTH:
            lines.append(line + " \\")
            line = "   "
        line += " " + piece
    return "\n".join([*lines, line])


def _run(code: str, names: dict[str, Any]) -> bool:
    """Print a piece of Python and run it; where an extra is missing, say how to install it."""
    from deniable.errors import MissingExtra

    say(code.rstrip(), fg=typer.colors.CYAN)
    try:
        exec(compile(code, "<demo>", "exec"), names)
    except MissingExtra as missing:
        say(f"deniable: {missing}")
        return False
    except ModuleNotFoundError as missing:
        say(f"deniable: {missing}; run: pip install 'deniable[learn]'")
        return False
    return True
