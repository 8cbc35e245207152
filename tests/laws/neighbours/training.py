"""Private training: clipped sums, runs over tensors and over data sets of any items, people, checkpoints, searches.

A unit is a list of rows, each of them (x, y) in whatever form its owner gave it. Tensors take what a tensor can hold;
data sets that are not in memory may hold anything, in the place of a number or in the place of the whole item, and may
raise when they are read. Every plan draws everybody in every step, so that the hostile unit is always there.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from deniable.units import Relation
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World

COUNT = 12
WIDTH = 3
CLASSES = 3
Row = tuple[Any, Any]
OWN: list[Row] = [([math.cos(i), math.sin(2 * i), 0.1 * i], i % CLASSES) for i in range(COUNT)]
TOKENS: list[Row] = [([i % 7, 3, (2 * i) % 7], i % CLASSES) for i in range(COUNT)]

NUMBERS: dict[str, Any] = {
    "NaN": math.nan, "inf": math.inf, "-inf": -math.inf, "1e38": 1e38, "-3e38": -3e38, "smallest": 1e-45, "zero": 0.0,
}  # fmt: skip
INTEGERS: dict[str, Any] = {
    "no class": 77, "-1": -1, "-100": -100, "2^31": 2**31, "2^63-1": 2**63 - 1, "-2^63": -(2**63),
}  # fmt: skip

TENSORS: dict[str, Any] = {
    "removed": REMOVED,
    **{f"a number: {label}": [([value, 0.5, 0.5], 1)] for label, value in NUMBERS.items()},
    **{f"all numbers: {label}": [([value] * WIDTH, 1)] for label, value in NUMBERS.items()},
    **{f"label: {label}": [([0.5] * WIDTH, value)] for label, value in INTEGERS.items()},
    "far away": [([3e38, -3e38, 3e38], 2)],
    "twice": [OWN[0], OWN[0]],
    "many rows": [([0.5] * WIDTH, 1)] * 40,
}
LOOKED_UP: dict[str, Any] = {
    "removed": REMOVED,
    **{f"token: {label}": [([value, 3, 3], 1)] for label, value in INTEGERS.items()},
    **{f"label: {label}": [([3, 3, 3], value)] for label, value in INTEGERS.items()},
}


class Reading:
    """An item that does something when the data set is asked for it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act


class Panic(BaseException):
    """How a library written in Rust fails: no `Exception`."""


def _raise(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def _warn() -> Any:
    import torch

    warnings.warn("a row of one person is odd: secret 4711", stacklevel=1)
    return torch.zeros(WIDTH), torch.tensor(0)


def _tensor_of(kind: str) -> Callable[[], Any]:
    def act() -> Any:
        import numpy as np
        import torch

        if kind == "frozen":
            array = np.zeros(WIDTH, dtype=np.float32)
            array.flags.writeable = False
            return array, 0
        made: Any = torch.zeros(WIDTH)
        if kind == "nowhere":
            made = made.to("meta")
        elif kind == "sparse":
            made = made.to_sparse()
        elif kind == "a parameter":
            made = torch.nn.Parameter(made)
        elif kind == "nested":
            made = torch.nested.nested_tensor([made, made])
        return made, torch.tensor(0)

    return act


ACTS: dict[str, Any] = {
    "a broken file": [Reading(_raise(OSError("a file of one person is broken: secret 4711")))],
    "a panic": [Reading(_raise(Panic("secret 4711")))],
    "an exit": [Reading(_raise(SystemExit(3)))],
    "an end": [Reading(_raise(StopIteration()))],
    "a warning": [Reading(_warn)],
    **{kind: [Reading(_tensor_of(kind))] for kind in ("frozen", "nowhere", "sparse", "a parameter", "nested")},
}
"""What a data set may do when it is asked for one item."""


ITEMS: dict[str, Any] = {
    "removed": REMOVED,
    "no item": [None],
    "not to be read": ACTS["a broken file"],
    "text": ["seven"],
    "an item of one": [([0.5] * WIDTH,)],
    "an item of three": [([0.5] * WIDTH, 1, 2)],
    "no numbers": [([], 1)],
    "too long": [([0.5] * 5, 1)],
    "much too long": [([0.5] * 5000, 1)],
    "a table": [([[0.5] * WIDTH] * 2, 1)],
    "integers": [([1, 2, 3], 1)],
    "complex": [([1j, 2j, 3j], 1)],
    "flags": [([True, False, True], 1)],
    "a real label": [([0.5] * WIDTH, 0.5)],
    "many labels": [([0.5] * WIDTH, [1, 2])],
    "a dictionary": [{"x": [0.5] * WIDTH, "y": 1}],
    **{f"in the place of x: {label}": [(value, 1)] for label, value in hostile.ANY.items()},
    **{f"in the place of y: {label}": [([0.5] * WIDTH, value)] for label, value in hostile.ANY.items()},
    **{f"in the place of a number: {label}": [([0.5, value, 0.5], 1)] for label, value in hostile.ANY.items()},
    **{label: unit for label, unit in TENSORS.items() if label != "removed"},
}


def mix(pool: Sequence[Any], *, usual: float = 0.5) -> Callable[[random.Random], Any]:
    """Some rows, each with hostile values in some places and the usual one in the others."""

    def make(rng: random.Random) -> Any:
        return [
            ([rng.choice(pool) if rng.random() < 0.5 else usual for _ in range(WIDTH)], rng.choice([0, 1, 2, 77, -100]))
            for _ in range(rng.randint(1, 5))
        ]

    return make


def rows(own: list[Row], unit: Any, *, relation: Relation = Relation.ADD_REMOVE) -> list[Row]:
    """D; D with a unit, added or in another's place; D without its last row."""
    if unit is None or (unit is REMOVED and relation is not Relation.ADD_REMOVE):
        return own
    if unit is REMOVED:
        return own[:-1]
    return [*own, *unit] if relation is Relation.ADD_REMOVE else [*own[:-1], unit[0]]


# forms of data


def tensors(given: list[Row]) -> Any:
    import torch

    return torch.tensor([x for x, _ in given], dtype=torch.float32), torch.tensor([y for _, y in given])


def tokens(given: list[Row]) -> Any:
    import torch

    return torch.tensor([x for x, _ in given]), torch.tensor([y for _, y in given])


class Items:
    """A data set that makes tensors of an item when it is asked for it, as most do."""

    def __init__(self, given: list[Any]) -> None:
        self._given = given

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, at: int) -> Any:
        import torch

        item = self._given[at]
        if isinstance(item, Reading):
            return item.act()
        x, y = item
        return torch.as_tensor(x), torch.as_tensor(y)


class Untouched(Items):
    """A data set that hands out what it holds; `default_collate` makes tensors of it."""

    def __getitem__(self, at: int) -> Any:
        return self._given[at]


def mappings(given: list[Any]) -> Any:
    """Rows by name, where they are rows."""
    return [
        {"input": item[0], "label": item[1]} if isinstance(item, tuple) and len(item) == 2 else item for item in given
    ]


# models


def linear() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Dropout(0.1), nn.Linear(4, CLASSES))


def looking_up() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(4 * WIDTH, CLASSES))


def cross_entropy(output: Any, y: Any) -> Any:
    from torch.nn import functional

    return functional.cross_entropy(output, y, reduction="none")


def planned(world: World, **changed: Any) -> tuple[Any, Any]:
    """A plan that draws everybody, and a ledger that it is charged to."""
    from deniable import deep
    from deniable.guarantees import ApproxDP

    usual: dict[str, Any] = {"size": COUNT, "batch": COUNT, "steps": 2, "clip": 1, "noise_multiplier": 2}
    plan = deep.Plan(**{**usual, **changed})
    column = plan.unit.column
    return plan, world.ledger(unit=column or "row", budget=ApproxDP(10**6, 1e-2, relation=plan.relation))


def trainer_of(world: World, model: Any, *, plan: dict[str, Any], **settings: Any) -> Any:
    import torch

    from deniable import deep

    stated, book = planned(world, **plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return deep.Trainer(model, optimizer, cross_entropy, stated, ledger=book, run="the run", **settings)


def released(trainer: Any) -> Any:
    """What a run shows: the model, where it stands, what was checked."""
    return {
        "model": trainer.model, "progress": str(trainer.progress), "checked": str(trainer.checked),
        "series": [each.step for each in trainer.series], "deviation": [each.deviation for each in trainer.series],
    }  # fmt: skip


Data = Callable[[list[Row]], Any]


def fit(
    data: Data,
    *,
    own: list[Row] = OWN,
    model: Callable[[], Any] = linear,
    plan: dict[str, Any] | None = None,
    reading: dict[str, Any] | None = None,
    **settings: Any,
) -> Callable[[World, Any], Any]:
    """A whole run; `reading` says how the data are read."""
    relation = (plan or {}).get("relation", Relation.ADD_REMOVE)

    def call(world: World, unit: Any) -> Any:
        trainer = trainer_of(world, model(), plan=plan or {}, **settings)
        return released(trainer.fit(data(rows(own, unit, relation=relation)), **(reading or {})))

    return call


def fit_people(world: World, unit: Any) -> Any:
    """Rows of people; the hostile unit is a person with a hostile id."""
    ids: list[Any] = [at // 2 for at in range(COUNT)]
    given, names = list(OWN), ids
    if unit is REMOVED:
        given, names = given[:-2], ids[:-2]
    elif unit is not None:
        given, names = [*given, OWN[0], OWN[1], OWN[2]], [*ids, unit, unit, unit]
    trainer = trainer_of(
        world, linear(), plan={"size": COUNT // 2, "batch": COUNT // 2, "unit": "person", "rows_per_unit": 2}
    )
    return released(trainer.fit(tensors(given), people=names))


def step_and_resume(world: World, unit: Any) -> Any:
    """Step by step, saved in between, and taken up again."""
    import torch

    from deniable import deep

    data = tensors(rows(OWN, unit))
    trainer = trainer_of(world, linear(), plan={"steps": 3})
    batches = trainer.batches(data)
    seen = [str(trainer.step(next(batches)))]
    trainer.save("run.pt")
    seen.append(str(trainer.step(next(batches))))
    trainer.close()
    model = linear()
    again = deep.Trainer.resume(
        "run.pt", model, torch.optim.SGD(model.parameters(), lr=0.1), cross_entropy, ledger=world.ledgers[0]
    )
    for batch in again.batches(data):
        seen.append(str(again.step(batch)))
    again.close()
    return {"steps": len(seen), **released(again)}


def clip(data: Data, own: list[Row], model: Callable[[], Any]) -> Callable[[World, Any], Any]:
    def call(world: World, unit: Any) -> Any:
        from deniable import deep

        return deep.clipped_gradients(model(), cross_entropy, data(rows(own, unit)), 1.0)[0]

    return call


def search(world: World, unit: Any) -> Any:
    import torch

    from deniable import deep

    stated, book = planned(world)
    data = tensors(rows(OWN, unit))

    def train(plan: Any) -> Any:
        model = linear()
        return deep.Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), cross_entropy, plan).fit(data).model

    best = deep.search([stated], train, score=lambda _: 1.0, trials=1, delta=1e-5, ledger=book, run="the search")
    return {"model": best.output, "candidate": best.candidate}


def train_transformer(world: World, unit: Any) -> Any:
    """A tiny classifier of `transformers`, by its trainer."""
    import torch
    import transformers

    from deniable import deep

    torch.manual_seed(3)
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(  # type: ignore[call-arg]
            vocab_size=7, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4,
            max_position_embeddings=8, num_labels=CLASSES,
        )
    )  # fmt: skip
    stated, book = planned(world, steps=1)
    arguments = transformers.TrainingArguments(
        output_dir="out", report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    items: list[Any] = []
    for row in rows(TOKENS, unit):
        items.append({"input_ids": row[0], "labels": row[1]} if isinstance(row, tuple) and len(row) == 2 else row)
    trainer = deep.HuggingFaceTrainer(model, arguments, train_dataset=items, plan=stated, ledger=book, run="the run")
    made = trainer.train()
    return {"step": made.global_step, "loss": made.training_loss, "model": model, "log": trainer.state.log_history}


TRAINER = ("deniable.deep.Trainer", "deniable.deep.Trainer.fit")
LABELS = [*NUMBERS.values(), 0.5]


def runs() -> list[EntryPoint]:
    """Whole runs over every kind of data, noise, sampling and way of clipping."""
    from deniable import deep

    padding = deep.Padding(lengths=(WIDTH,), values={0: 0})
    replaced = {"relation": Relation.REPLACE, "sampling": deep.FixedBatches()}
    every = {
        "tensors": (fit(tensors), TENSORS, 12),
        "tensors, two passes": (fit(tensors, mode="two_pass"), TENSORS, 3),
        "tensors, vmap": (fit(tensors, mode="vmap"), TENSORS, 3),
        "tensors, grid": (
            fit(tensors, plan={"noise": deep.GridNoise(), "clipping": deep.AutomaticClipping()}),
            TENSORS,
            3,
        ),
        "tensors, Laplace": (
            fit(tensors, plan={"noise": deep.LaplaceNoise(), "clipping": deep.PerLayerClipping()}),
            TENSORS,
            3,
        ),
        "tensors, small parts": (fit(tensors, microbatch=5), TENSORS, 3),
        "tensors, one replaced": (fit(tensors, plan=replaced), TENSORS, 3),
        "tokens": (fit(tokens, own=TOKENS, model=looking_up), LOOKED_UP, 8),
        "tokens, vmap": (fit(tokens, own=TOKENS, model=looking_up, mode="vmap"), LOOKED_UP, 3),
        "items": (fit(Items), ITEMS, 16),
        "items that act": (fit(Items, plan={"steps": 1}), ACTS, 3),
        "items, one replaced": (fit(Items, plan=replaced), ITEMS, 4),
        "items, by workers": (fit(Items, plan={"steps": 1}, reading={"num_workers": 1}), ITEMS, 2),
        "items that act, by workers": (fit(Items, plan={"steps": 1}, reading={"num_workers": 1}), ACTS, 1),
        "items, padded": (fit(Items, reading={"padding": padding, "num_workers": 0}), ITEMS, 4),
        "items, augmented": (fit(Items, plan={"augmentations": 2}), ITEMS, 2),
        "items, measured": (
            fit(Items, plan={"clipping": deep.AdaptiveClipping(), "series": deep.LossSeries(bound=2)}),
            ITEMS,
            4,
        ),
        "mappings": (fit(mappings, model=linear), ITEMS, 3),
        "items, not converted": (fit(Untouched, own=[(x[0], y) for x, y in OWN], model=scalars), ITEMS, 6),
    }
    return [
        EntryPoint(
            f"Trainer.fit, {name}", TRAINER, units, call, sample=sample,
            mix=mix(list(INTEGERS.values()), usual=3) if units is LOOKED_UP else mix(LABELS),
        )
        for name, (call, units, sample) in every.items()
    ]  # fmt: skip


def scalars() -> Any:
    """A model of one number."""
    import torch
    from torch import nn

    torch.manual_seed(3)

    class Scalar(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, CLASSES)

        def forward(self, x: Any) -> Any:
            return self.layer(x.float().unsqueeze(-1))

    return Scalar()


ENTRY_POINTS = [
    *runs(),
    EntryPoint(
        "Trainer.fit, people", TRAINER, {"removed": REMOVED, **hostile.values(hostile.ANY)}, fit_people, sample=10
    ),
    EntryPoint(
        "Trainer.batches, step, save, resume",
        tuple(f"deniable.deep.Trainer.{name}" for name in ("batches", "step", "save", "resume")),
        TENSORS,
        step_and_resume,
        mix=mix(LABELS),
        sample=3,
    ),
    EntryPoint(
        "clipped_gradients, tensors", ("deniable.deep.clipped_gradients",), TENSORS, clip(tensors, OWN, linear),
        mix=mix(LABELS),
    ),
    EntryPoint(
        "clipped_gradients, tokens", ("deniable.deep.clipped_gradients",), LOOKED_UP, clip(tokens, TOKENS, looking_up),
        mix=mix(list(INTEGERS.values()), usual=3),
    ),
    EntryPoint("deep.search", ("deniable.deep.search",), TENSORS, search, mix=mix(LABELS), sample=3),
    EntryPoint(
        "HuggingFaceTrainer.train",
        ("deniable.deep.HuggingFaceTrainer", "deniable.deep.HuggingFaceTrainer.train"),
        {**LOOKED_UP, "no item": [None], "no tokens": [([], 1)], "too long": [([1] * 20, 1)], "text": [("a", "b")]},
        train_transformer,
        sample=4,
    ),
]  # fmt: skip
