"""Every public callable is under the law of neighbours, or says why it reads no private data.

What is public: the names of `deniable.__all__` and of every room's `__all__`, the methods of public classes, and the
commands of the command line. A name is registered when an entry point in `tests/laws/neighbours/` has it in `covers`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import deniable
from tests.laws.test_no_record_decides import ENTRIES

READS_NO_PRIVATE_DATA: dict[str, str] = {
    # A pattern for dotted names: * is one part of a name, ** is all that follows.
    "deniable.units.**": "says who is protected",
    "deniable.guarantees.**": "promises",
    "deniable.events.**": "descriptions of what was done, without data",
    "deniable.conversions.**": "from promise to promise",
    "deniable.accounting.**": "from events to curves",
    "deniable.textbook.**": "theorems about promises",
    "deniable.calibration.**": "solves for a parameter",
    "deniable.strategies.**": "correlated noise: factors and streams, without data",
    "deniable.explaining.**": "from promises, curves and descriptions",
    "deniable.auditing.**": "attacks mechanisms on neighbours that the auditor makes up",
    "deniable.descriptions.**": "a summary of what was released",
    "deniable.ledger.**": "takes events, never data",
    "deniable.cli.main": "the commands are registered one by one",
    # noise
    "deniable.noise.*Source.**": "random words",
    "deniable.noise.secure": "random words",
    "deniable.noise.bernoulli*": "draws from a law whose parameters are public",
    "deniable.noise.blocks": "sizes of arrays",
    "deniable.noise.categorical": "draws from a law whose parameters are public",
    "deniable.noise.discrete_*": "draws from a law whose parameters are public",
    "deniable.noise.permutation": "draws from a law whose parameters are public",
    "deniable.noise.uniform": "draws from a law whose parameters are public",
    "deniable.noise.ContinuousNoise": "names a law",
    "deniable.noise.Categorical.**": "draws from a law whose parameters are public",
    "deniable.noise.Grid": "a grid is made of public bounds",
    "deniable.noise.Grid.value*": "turns grid points that were released into numbers",
    # mechanisms
    "deniable.mechanisms.[a-z]*": "makes a mechanism from public parameters",
    "deniable.mechanisms.[A-Z]*": "a frozen value of public parameters",
    "deniable.mechanisms.*.error": "accuracy from public parameters",
    "deniable.mechanisms.*.statement": "accuracy from public parameters",
    "deniable.mechanisms.*.shortfall": "accuracy from public parameters",
    "deniable.mechanisms.*.needed": "accuracy from public parameters",
    "deniable.mechanisms.*.variance": "accuracy from public parameters",
    "deniable.mechanisms.*.to_dict": "a plan, from public parameters",
    "deniable.mechanisms.*.to_json": "a plan, from public parameters",
    "deniable.mechanisms.*.estimate": "reads reports that are private already",
    "deniable.mechanisms.BestOf.draw_trials": "draws a number of trials",
    "deniable.mechanisms.BestOf.generating": "the law of the number of trials",
    "deniable.mechanisms.PrivateSearch.event": "the event of a search",
    "deniable.mechanisms.PrivateSearch.guarantee": "the promise of a search",
    "deniable.mechanisms.Mechanism.**": "abstract",
    # queries
    "deniable.query.AtMost": "limits, stated in public",
    "deniable.query.AtMost.within": "limits, stated in public",
    "deniable.query.QueryPlan.errors": "a plan, made before any row is read",
    "deniable.query.QueryPlan.rows_cut": "limits of a plan, made before any row is read",
    "deniable.query.QueryPlan": "made by Session.plan",
    "deniable.query.QueryPlan.explain": "describes a plan",
    "deniable.query.QueryPlan.on": "changes a plan, without data",
    "deniable.query.StagedPlan.on": "changes a plan, without data",
    "deniable.query.StagedPlan.settle": "makes a plan of what surveys released",
    "deniable.query.*.to_dict": "describes a plan or what was released",
    "deniable.query.QueryPlan.to_json": "describes a plan",
    "deniable.query.StagedPlan.to_json": "describes a plan",
    "deniable.query.StagedPlan": "made by Session.plan",
    "deniable.query.*Plan.pay": "charges the ledger; reads no row",
    "deniable.query.*Plan.rehearse": "reads made-up rows",
    "deniable.query.Session.as_": "names another analyst",
    "deniable.query.StagedPlan.explain": "describes a plan",
    "deniable.query.QueryPlan.why": "describes a plan",
    "deniable.query.StagedPlan.why": "describes a plan",
    "deniable.query.Release.**": "reads what was released",
    "deniable.query.Value": "a released number",
    "deniable.query.*.close": "lets go of files",
    # service: the client sends questions; what computes them is a Session
    "deniable.service.**": "asks a service over HTTP",
    # synthesis
    "deniable.synthesis.ColumnBins.**": "cells, stated in public",
    "deniable.synthesis.ColumnCategories.**": "cells, stated in public",
    "deniable.synthesis.MarginalsPlan": "made by Session.marginals",
    "deniable.synthesis.MarginalsPlan.release": "adds noise to exact counts; the caller has charged for it",
    "deniable.synthesis.MarginalsPlan.to_*": "describes a plan",
    "deniable.synthesis.SynthesisPlan": "made by Session.synthesize",
    "deniable.synthesis.SynthesisPlan.explain": "describes a plan",
    "deniable.synthesis.SynthesisPlan.to_*": "describes a plan",
    "deniable.synthesis.SyntheticTable.**": "reads what was released",
    "deniable.synthesis.ErrorStatement": "a statement about what was released",
    "deniable.synthesis.Marginal.**": "reads what was released",
    "deniable.synthesis.MarginalsRelease.**": "reads what was released",
    # learning
    "deniable.learning.[A-Z]*": "the constructor stores public parameters",
    "deniable.learning.losses.**": "formulas that a method evaluates inside; they release nothing",
    "deniable.learning.*.describe": "describes what was released",
    "deniable.learning.*.get_feature_names_out": "names from public parameters",
    "deniable.learning.*.plan": "a method's noise and steps, from public parameters",
    "deniable.learning.*.outlook": "what to expect, from public numbers",
    "deniable.learning.*.coefficient_intervals": "computed from what was released",
    "deniable.learning.*.shape_functions": "computed from what was released",
    "deniable.learning.*.plot": "draws what was released",
    "deniable.learning.Columns.*_params": "declared columns, by name",
    "deniable.learning.AdditiveDescent.*": "a matrix from public parameters",
    "deniable.learning.*.plan_size": "numbers from theorems",
    "deniable.learning.*.compare_solvers": "what theorems predict, from public numbers",
    "deniable.learning.*.refuse": "says whether a method applies, from public parameters",
    "deniable.learning.*.smooth": "says whether a loss is rounded off, from public parameters",
    "deniable.learning.*.work": "a step inside a method, before its noise; it releases nothing",
    "deniable.learning.*.descend": "walks along gradients that have their noise already",
    "deniable.learning.disclose_data_problems": "tells exact facts to whoever holds the data, and says so",
    "deniable.learning.*.inside": "a region, from public parameters",
    # training
    "deniable.deep.Plan.**": "a plan is made of public parameters",
    "deniable.deep.Observation": "what a trainer reports of a step",
    "deniable.deep.*Generator.**": "random words",
    "deniable.deep.*Noise.**": "noise of public parameters",
    "deniable.deep.NoiseShares.**": "noise of public parameters",
    "deniable.deep.Poisson.**": "draws positions, without data",
    "deniable.deep.CyclicPoisson.**": "draws positions, without data",
    "deniable.deep.*Clipping.**": "a rule of a plan, without data",
    "deniable.deep.Padding": "lengths, stated in public",
    "deniable.deep.Stage.**": "factors, stated in public",
    "deniable.deep.Stage": "factors, stated in public",
    "deniable.deep.stages": "factors, stated in public",
    "deniable.deep.LossSeries.**": "a part of a plan, without data",
    "deniable.deep.LossSeries": "a part of a plan, without data",
    "deniable.deep.SeriesPoint": "what was released with noise",
    "deniable.deep.EarlyStopping": "looks at what was released with noise",
    "deniable.deep.EarlyStopping.**": "looks at what was released with noise",
    "deniable.deep.*Logger": "is told public numbers",
    "deniable.deep.*Logger.**": "is told public numbers",
    "deniable.deep.Trainer.averaged": "weights that were released",
    "deniable.deep.FixedBatches.**": "draws positions, without data",
    "deniable.deep.BallsAndBins.**": "draws positions, without data",
    "deniable.deep.WithoutReplacement.**": "draws positions, without data",
    "deniable.deep.Trainer.close": "lets go of files",
    "deniable.deep.HuggingFaceTrainer.create_model_card": "public numbers of the run",
    "deniable.deep.HuggingFaceTrainer.save_model": "weights, which are released already, and public numbers",
    "deniable.deep.model_card": "public numbers of the run",
    "deniable.deep.HuggingFaceTrainer.evaluate": "exact scores of public data; the training data are refused",
    "deniable.deep.HuggingFaceTrainer.predict": "exact answers on public data; the training data are refused",
    "deniable.deep.HuggingFaceTrainer.training_step": "refused, whatever it is given",
    # commands
    "deniable calibrate": "solves for a parameter",
    "deniable size": "accuracy from public parameters",
    "deniable demo": "makes up its own data",
    "deniable ledger create": "takes events, never data",
    "deniable ledger dashboard": "reads the ledger, never data",
    "deniable serve init": "makes a folder and a ledger; reads no table",
    "deniable serve run": "answers by sessions, which are registered",
    "deniable serve check": "looks at settings and modes of files",
    "deniable ledger allot": "takes a name and a budget, never data",
}

STILL_TO_REGISTER: dict[str, set[str]] = {
    # Public ways to private data that no entry point exercises yet, by room. Register one in tests/laws/neighbours/
    # and take its line away. The sets are empty before a release.
}

DATA_METHODS = {
    "evaluate", "fit", "fit_predict", "fit_transform", "predict", "predict_proba", "score", "train", "training_step",
    "transform",
}  # fmt: skip
"""Methods that count even where another library defines them."""


def rooms() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(deniable.__path__):
        if not found.name.startswith("_"):
            yield importlib.import_module(f"deniable.{found.name}")


def exports(room: ModuleType) -> dict[str, Any]:
    """The public names of a room: its `__all__`, else what it defines itself."""
    names = getattr(room, "__all__", None)
    if names is None:
        names = [n for n, value in vars(room).items() if getattr(value, "__module__", None) == room.__name__]
    return {name: getattr(room, name) for name in names if not name.startswith("_")}


def methods(kind: type) -> Iterator[str]:
    """Public methods that deniable defines, and those of other libraries that take data."""
    for name in dir(kind):
        if name.startswith("_") and name != "__call__":
            continue
        value = inspect.getattr_static(kind, name)
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isroutine(function):
            own = getattr(function, "__module__", "") or ""
            if own.startswith("deniable") or name in DATA_METHODS:
                yield name


def public(module: ModuleType) -> Iterator[str]:
    """The dotted names of all callables of a room, and of the modules that it exports."""
    for name, value in exports(module).items():
        dotted = f"{module.__name__}.{name}"
        if isinstance(value, ModuleType):
            yield from public(value)
        elif inspect.isclass(value):
            if not issubclass(value, BaseException):
                yield dotted
                yield from (f"{dotted}.{method}" for method in methods(value))
        elif inspect.isroutine(value):
            yield dotted


def commands() -> set[str]:
    path = Path(__file__).parents[2] / "docs" / "commands.py"
    spec = importlib.util.spec_from_file_location("commands", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return set(module.COMMANDS)


def home(name: str) -> str:
    """A name of `deniable` itself by its room: deniable.Session is deniable.query.Session."""
    first, _, rest = name.removeprefix("deniable.").partition(".")
    return ".".join(filter(None, (deniable._HOMES[first], first, rest))) if first in deniable._HOMES else name


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern is for a name. `deniable.units.**` is for `deniable.units` too."""
    whole = pattern.removesuffix(".**")
    parts = (
        "[^. ]*" if part == "*" else part if part.startswith("[") else re.escape(part)
        for part in re.split(r"(\*|\[[^]]*\])", whole)
    )
    return re.fullmatch("".join(parts) + (r"(\..*)?" if whole != pattern else ""), name) is not None


def free(name: str) -> bool:
    return any(matches(pattern, name) for pattern in READS_NO_PRIVATE_DATA)


@cache
def everything() -> frozenset[str]:
    """All public names. Opens every room, which takes seconds: when a test asks, not when it is collected."""
    return frozenset(name for room in rooms() for name in public(room)) | commands()


COVERED = {home(name) for entry in ENTRIES.values() for name in entry.covers}
STILL = {name for names in STILL_TO_REGISTER.values() for name in names}


def test_the_walk_finds_what_is_known() -> None:
    known = {"deniable.query.Session.sql", "deniable.mechanisms.Sum.__call__", "deniable.deep.Trainer.fit"}
    assert (
        known | {"deniable.learning.BinEncoder.fit_transform", "deniable query", "deniable ledger show"} <= everything()
    )


def test_every_public_callable_is_under_the_law() -> None:
    missing = sorted(name for name in everything() - COVERED - STILL if not free(name))
    assert not missing, (
        f"public, and in no `covers` of tests/laws/neighbours/: {', '.join(missing)}. What reads private data gets an "
        "entry point, EntryPoint(name, covers, hostile, call); what does not says why in READS_NO_PRIVATE_DATA. "
        "STILL_TO_REGISTER takes no new names: it is empty before a release."
    )


def test_entry_points_cover_what_exists() -> None:
    unknown = sorted(COVERED - everything())
    assert not unknown, f"`covers` names what is not public: {', '.join(unknown)}. Is it misspelt, or renamed?"


def test_what_is_left_is_really_left() -> None:
    unknown, done = sorted(STILL - everything()), sorted(STILL & COVERED)
    assert not unknown, f"not public any more, so take it out of STILL_TO_REGISTER: {', '.join(unknown)}"
    assert not done, f"registered now, so take it out of STILL_TO_REGISTER: {', '.join(done)}"
    both = sorted(name for name in STILL | COVERED if free(name))
    assert not both, f"READS_NO_PRIVATE_DATA says that these read none, another list says they do: {', '.join(both)}"


def test_every_reason_is_needed() -> None:
    idle = [pattern for pattern in READS_NO_PRIVATE_DATA if not any(matches(pattern, name) for name in everything())]
    assert not idle, f"these patterns match no public name, so take them away: {', '.join(idle)}"


def test_nothing_is_left_to_register() -> None:
    assert not STILL, f"STILL_TO_REGISTER must be empty: register {', '.join(sorted(STILL))}"
