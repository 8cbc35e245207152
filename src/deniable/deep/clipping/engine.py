"""The clipping engine: built once for a model and a loss, called with a batch and a clip.

>>> import torch
>>> from torch import nn
>>> model = nn.Linear(2, 1, bias=False)
>>> engine = ClippingEngine(model, lambda made, y: ((made - y) ** 2).squeeze(1))
>>> out = engine((torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[100.0], [1.0]])), clip=1.0)
>>> round(out.sums["weight"].norm().item(), 3), out.factors[1].item()
(1.0, 1.0)
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from deniable import _checks
from deniable.deep import clips
from deniable.deep.clipping.checks import UNITS, SelfCheck, check, compare_compiled, refuse_mixing_losses
from deniable.deep.clipping.fast import clip_fast
from deniable.deep.clipping.forms import Form, dense
from deniable.deep.clipping.guards import Guard, plain_attributes
from deniable.deep.clipping.passes import Loss, chosen, row_count
from deniable.deep.clipping.per_example import clip_per_example, learn_outside
from deniable.deep.clipping.proving import prove
from deniable.deep.clipping.refusals import refuse_mixing, refuse_parameters
from deniable.deep.clipping.sharding import Sharding, is_sharded, local
from deniable.deep.clipping.steps import Clipped, Question, Recipe
from deniable.deep.clipping.tape import Script, Strayed
from deniable.deep.clipping.tracing import Stage, signature, traced
from deniable.deep.clipping.two_pass import clip_two_pass
from deniable.deep.clips import AutomaticClipping, Clipping, FlatClipping
from deniable.errors import DeniableError, InvalidArgument, NotSupported

WAYS: dict[str, Callable[[Recipe, Question], Clipped]] = {
    "fast": clip_fast,
    "two_pass": clip_two_pass,
    "vmap": clip_per_example,
}


_UNTOLD: tuple[type[BaseException], ...] = (DeniableError, MemoryError, torch.OutOfMemoryError)
"""What is no fault of an example."""
if hasattr(torch, "AcceleratorError"):
    _UNTOLD = (*_UNTOLD, torch.AcceleratorError)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How inputs of a form are clipped while the model is in a state."""

    state: int
    way: str
    script: Script
    unused: tuple[str, ...] = ()
    """Trainable parameters that have no gradient."""
    outside: dict[int, Any] | None = None
    """Under vmap: the memory from outside that steps may use."""


MOST_PLANS = 256
"""Plans that are kept; the oldest goes first."""
PASSES_BEFORE_GRAPH = 20
"""With compile="auto": eager passes of one shape before it is traced. A trace takes as long as some fifty of them."""
MOST_GRAPHS = 8
"""With compile="auto": shapes that are traced. On a GPU every graph holds memory of its own."""


class ClippingEngine:
    """Sums of per-unit gradients, each clipped to one norm.

    `loss(output, y)` returns one loss per example. `mode` is "fast" (one backward pass, inputs and output gradients
    kept), "two_pass" (less memory, a second backward pass, half of the batch at a time), "vmap" (the gradient of every
    unit, for models that the tape cannot follow) or "auto" (fast, or vmap where the tape cannot follow). With
    `rows_per_unit`=R a unit is R rows in succession, padded by masked rows. `microbatch` rows are worked on at a time.
    With `bits` sums are exact integers, in steps of clip/2^bits (integers.py), by way of vmap. `clipping` is the rule
    by which a gradient is brought to the clip (`deniable.deep.clips`): one norm over all parameters if it is left out.

    `compile` is False (eager), "graph" (traced once per shape, in seconds; on a GPU replayed as a CUDA graph), True
    (the graph through torch's compiler too, in a minute or two) or "auto" ("graph" on a GPU, for shapes that come often
    and where tracing works; eager elsewhere).
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        mode: str = "auto",
        norm: str = "l2",
        rows_per_unit: int = 1,
        microbatch: int | None = None,
        compile: bool | str = False,
        autocast: torch.dtype | None = None,
        loss_scale: float = 1.0,
        bits: int | None = None,
        clipping: Clipping | None = None,
    ) -> None:
        if mode not in ("auto", *WAYS):
            raise InvalidArgument("mode", mode, "'auto', 'fast', 'two_pass' or 'vmap'")
        if norm not in ("l1", "l2"):
            raise InvalidArgument("norm", norm, "'l2' or 'l1'")
        if autocast not in (None, torch.bfloat16, torch.float16):
            raise InvalidArgument("autocast", autocast, "torch.bfloat16, torch.float16 or None")
        _checks.positive("loss_scale", loss_scale)
        self.parameters: dict[str, nn.Parameter] = {
            name: each for name, each in model.named_parameters() if each.requires_grad
        }
        if not self.parameters:
            raise InvalidArgument("model", type(model).__name__, "a model with a parameter that requires gradients")
        refuse_mixing(model)
        refuse_parameters(loss, model)
        for name, each in self.parameters.items():
            if each.is_complex():
                raise NotSupported(
                    f"the parameter {name} is complex, and noise is added to real numbers; keep it as real numbers of"
                    " shape [..., 2], and use torch.view_as_complex on it in the forward pass"
                )
        if compile not in (False, True, "graph", "auto"):
            raise InvalidArgument("compile", compile, "True, False, 'graph' or 'auto'")
        self.mode, self.compile = mode if bits is None else "vmap", compile
        self.microbatch = None if microbatch is None else _checks.count("microbatch", microbatch)
        self.clipping = FlatClipping() if clipping is None else clipping
        _checks.member("clipping", self.clipping, Clipping, remedy="For example dn.deep.AutomaticClipping().")
        self.recipe = Recipe(
            model=model,
            loss=loss,
            names=tuple(self.parameters),
            groups=self.clipping.groups(tuple(self.parameters), norm),
            stability=float(self.clipping.stability) if isinstance(self.clipping, AutomaticClipping) else None,
            rows_per_unit=_checks.count("rows_per_unit", rows_per_unit),
            norm=norm,
            autocast=autocast,
            loss_scale=float(loss_scale),
            bits=bits,
            sharding=Sharding.of(model) if is_sharded(model) else None,
        )
        if compile == "auto" and (self.recipe.sharding is not None or self.device.type != "cuda"):
            self.compile = False
        if self.recipe.sharding is not None and (self.compile or mode == "vmap"):
            raise NotSupported("a model under FSDP2 is clipped eagerly: leave out compile=True and mode='vmap'")
        if self.microbatch is not None and self.microbatch % self.recipe.rows_per_unit:
            raise InvalidArgument("microbatch", microbatch, f"a multiple of rows_per_unit={rows_per_unit}")
        self._guard = Guard(model)
        self._plans: dict[tuple[int, Form], _Plan | NotSupported] = {}
        self._graphs: dict[Any, Stage | None] = {}
        """By state and shapes; None where tracing failed under compile="auto"."""
        self._passes: Counter[Any] = Counter()
        self._kinds: dict[Any, int] = {}
        self._seen: tuple[tuple[int, ...], dict[str, Tensor], int] | None = None

    def __call__(self, batch: tuple[Any, Any], *, clip: float | Tensor, mask: Tensor | None = None) -> Clipped:
        """Clip a batch (inputs, targets). `mask` is False for rows that are padding; no row at all gives zero sums."""
        rows = row_count(batch)
        # A gradient that also runs into the data would take another way than the one that is watched.
        batch = dense(batch)
        device = self.device
        if mask is None:
            mask = torch.ones(rows, dtype=torch.bool, device=device)
        if mask.shape != (rows,) or mask.dtype != torch.bool:
            raise InvalidArgument("mask", (tuple(mask.shape), mask.dtype), f"{rows} booleans, one per row")
        if rows % self.recipe.rows_per_unit:
            raise InvalidArgument("batch", rows, f"a multiple of rows_per_unit={self.recipe.rows_per_unit} rows")
        if not isinstance(clip, Tensor):
            clip = torch.full((), float(clips.checked(clip)), device=device)
        if rows == 0:
            return self._nothing(device)
        size = self.microbatch or self._usual(rows)
        if size >= rows:
            return self._run(batch, mask, clip)
        return _joined((self._run(part, flags, clip) for part, flags in _pieces(batch, mask, size)), rows, self)

    def check(self, sample: tuple[Any, Any] | Form, *, clip: float = 1.0, rows: int | None = None) -> SelfCheck:
        """Prove the model for inputs of a form, and check the numbers on made-up values of that form (checks.py).

        Raises NotSupported if the model must not be trained. Of a sample only the form is used. A compiled engine is
        compared with the eager one on so many rows, those of the sample if they are not given.
        """
        form = sample if isinstance(sample, Form) else Form.of(dense(sample))
        plan = self._plan(form)
        self._compare(plan, form, clip=clip, shaken=True)
        if self.compile and self.compile != "auto":
            many = rows if rows is not None else row_count(sample)
            batch = form.made_up(max(1, many // self.recipe.rows_per_unit) * self.recipe.rows_per_unit)
            with torch.random.fork_rng():
                eager = self.eager()
                one, again, two = eager(batch, clip=clip), eager(batch, clip=clip), self(batch, clip=clip)
                if torch.equal(one.norms, again.norms):  # nothing is drawn at random
                    compare_compiled(self.recipe, one, two)
        return SelfCheck(plan.way, UNITS, plan.unused)

    def _compare(self, plan: _Plan, form: Form, *, clip: float = 1.0, shaken: bool = False) -> tuple[str, ...]:
        """Compare numbers on made-up values, at the present weights or at others (checks.py)."""

        def question(batch: Any, tensors: Mapping[str, Tensor]) -> Question:
            return self._question(batch, tensors, plan, clip=clip)

        return check(self.recipe, WAYS[plan.way], self.tensors(), question, form, clip=clip, shaken=shaken)

    def _question(self, batch: Any, tensors: Mapping[str, Tensor], plan: _Plan, *, clip: float = 1.0) -> Question:
        """A question about a made-up batch."""
        rows, device = row_count(batch), self.device
        real, bound = torch.ones(rows, dtype=torch.bool, device=device), torch.full((), clip, device=device)
        return Question(tensors, batch, real, bound, plan.script, real=False)

    def prove(self, form: Form) -> None:
        """Raise NotSupported unless the model is proved for a form of input."""
        self._plan(form)

    def way(self, batch: tuple[Any, Any]) -> str:
        """The way this batch is clipped: "fast", "two_pass" or "vmap"."""
        return self._plan(Form.of(dense(batch))).way

    def eager(self) -> ClippingEngine:
        """The same engine, not compiled."""
        recipe = self.recipe
        return ClippingEngine(
            recipe.model,
            recipe.loss,
            mode=self.mode,
            norm=recipe.norm,
            rows_per_unit=recipe.rows_per_unit,
            microbatch=self.microbatch,
            autocast=recipe.autocast,
            loss_scale=recipe.loss_scale,
            bits=recipe.bits,
            clipping=self.clipping,
        )

    def _usual(self, rows: int) -> int:
        """How many rows are worked on at a time when nobody says."""
        # Ranks that share a model must make the same number of passes, however many rows each of them has.
        if self.mode != "two_pass" or self.recipe.sharding is not None:
            return rows
        return math.ceil(rows / self.recipe.rows_per_unit / 2) * self.recipe.rows_per_unit

    def _run(self, batch: tuple[Any, Any], mask: Tensor, clip: Tensor) -> Clipped:
        """One pass. What was not proved, and what a kernel refuses because of one example, is done unit by unit."""
        form = Form.of(batch)
        for again in (False, True):
            try:
                return self._pass(self._plan(form), batch, mask, clip)
            except Strayed:
                if self.recipe.sharding is not None:
                    raise
                if not again:  # proved again, once: what the model keeps may have changed
                    self._plans.pop((self._guard(), form), None)
            except _UNTOLD:
                raise
            except Exception:  # whatever a kernel says about a value: which example it was is found below
                if self.recipe.sharding is not None:
                    raise
                break
        return self._apart(form, batch, mask, clip)

    def _pass(self, plan: _Plan, batch: tuple[Any, Any], mask: Tensor, clip: Tensor, *, eager: bool = False) -> Clipped:
        graph = None
        if self.compile and not eager:
            tensors, kind = self._held()
            changing = (batch, mask, clip)
            key: tuple[Any, ...] = (plan.state, kind, signature(changing))
            if self.compile == "auto":  # nobody asked for a graph, so it holds only while Python would read the same
                key = (*key, plain_attributes(self.recipe.model))
            graph = self._graph(key, plan, tensors, changing)
        if graph is None:
            question = Question(self.tensors(), batch, mask, clip, plan.script, outside=plan.outside)
            return WAYS[plan.way](self.recipe, question)
        with torch.no_grad():
            return Clipped(*graph(tensors, changing))

    def _graph(
        self, key: Any, plan: _Plan, tensors: Mapping[str, Tensor], changing: tuple[Any, Tensor, Tensor]
    ) -> Stage | None:
        """The graph of a pass; None where it is to be eager."""
        if key in self._graphs:
            return self._graphs[key]

        def step(tensors: Mapping[str, Tensor], changing: tuple[Any, Tensor, Tensor]) -> Clipped:
            return WAYS[plan.way](self.recipe, Question(tensors, *changing, plan.script))

        if self.compile != "auto":
            self._verify(plan, changing[0])
            self._graphs[key] = traced(step, tensors, changing, optimized=self.compile is True)
            return self._graphs[key]
        self._passes[key] += 1
        if self._passes[key] <= PASSES_BEFORE_GRAPH or len(self._graphs) >= MOST_GRAPHS:
            return None
        self._graphs[key] = None
        try:
            self._verify(plan, changing[0])
            graph = traced(step, tensors, changing, optimized=False)
            self._compare_graph(graph, plan, tensors, changing)
        except Exception:  # noqa: BLE001  of any kind: the eager pass, which was proved and checked, needs no graph
            torch.cuda.empty_cache()
            return None
        self._graphs[key] = graph
        return graph

    def _compare_graph(
        self, graph: Stage, plan: _Plan, tensors: Mapping[str, Tensor], changing: tuple[Any, Tensor, Tensor]
    ) -> None:
        """The graph against eager passes, on made-up rows."""
        batch, mask, clip = changing
        made_up = Form.of(batch).made_up(row_count(batch))
        with torch.random.fork_rng([self.device.index] if self.device.type == "cuda" else []):
            question = Question(self.tensors(), made_up, torch.ones_like(mask), clip, plan.script, real=False)
            one, again = (WAYS[plan.way](self.recipe, question) for _ in range(2))
            if torch.equal(one.norms, again.norms):  # nothing is drawn at random
                with torch.no_grad():
                    compare_compiled(self.recipe, one, Clipped(*graph(tensors, (made_up, question.mask, clip))))

    def _verify(self, plan: _Plan, batch: tuple[Any, Any]) -> None:
        """Before a graph is drawn: an eager pass over made-up rows, as many, in which the tape compares constants."""
        rows, device = row_count(batch), self.device
        if plan.way == "vmap" or rows // self.recipe.rows_per_unit in plan.script.verified:
            return
        real, bound = torch.ones(rows, dtype=torch.bool, device=device), torch.ones((), device=device)
        with torch.random.fork_rng([device.index] if device.type == "cuda" else []):
            WAYS[plan.way](
                self.recipe,
                Question(self.tensors(), Form.of(batch).made_up(rows), real, bound, plan.script, real=False),
            )

    def _apart(self, form: Form, batch: tuple[Any, Any], mask: Tensor, clip: Tensor) -> Clipped:
        """Every unit in a pass of its own, so that what becomes of it depends on nobody else. A unit for which that
        fails contributes nothing; its norm reads inf."""
        size, device = self.recipe.rows_per_unit, self.device
        units = mask.shape[0] // size
        total = self._nothing(device)
        norms, losses = (torch.zeros(many, device=device) for many in (units, units * size))
        groups = len(self.recipe.groups)
        factors = torch.zeros((units, groups) if groups > 1 else (units,), device=device)
        plan = self._plan(form)
        for unit in range(units):
            rows = torch.arange(unit * size, (unit + 1) * size, device=device)
            if not bool(mask[rows].any()):
                continue
            # Beside a masked copy of itself, since for a single row some calls drop the axis of the rows.
            pair, flags = chosen(batch, rows.repeat(2)), torch.cat([mask[rows], torch.zeros_like(mask[rows])])
            try:
                found = self._pass(plan, pair, flags, clip, eager=True)
            except Strayed:
                found = None
            except _UNTOLD:
                raise
            except Exception:  # noqa: BLE001  whatever a kernel says about a value
                found = None
            if found is None:
                norms[unit] = torch.inf
                continue
            for name, each in found.sums.items():
                total.sums[name] = total.sums[name] + each
            norms[unit], factors[unit] = found.norms[0], found.factors[0]
            losses[rows] = found.losses[:size].to(losses.dtype)
        return Clipped(total.sums, norms, losses, factors)

    def _plan(self, form: Form) -> _Plan:
        """The way and its script: proved for every form of input, and again when something about the model changes."""
        key = self._guard(), form
        found = self._plans.get(key)
        if found is None:
            try:
                found = self._proved(*key)
            except NotSupported as refusal:
                found = refusal
            except _UNTOLD:
                raise
            except Exception as error:  # noqa: BLE001  of any kind: the model is not made for inputs of this form
                found = NotSupported(
                    f"model and loss do not run on made-up inputs of this form ({type(error).__name__}: {error})"
                )
                found.__cause__ = error
            self._plans[key] = found
            while len(self._plans) > MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        if isinstance(found, NotSupported):
            raise found
        return found

    def _proved(self, state: int, form: Form) -> _Plan:
        if self.mode == "vmap":
            return self._isolated(state, form)
        try:
            script = prove(self.recipe, self.tensors(), form)
            plan = _Plan(state, "fast" if self.mode == "auto" else self.mode, script)
            plan = replace(plan, unused=self._compare(plan, form))
        except NotSupported as refusal:
            if self.mode != "auto" or self.recipe.sharding is not None:
                raise
            try:
                return self._isolated(state, form)
            except NotSupported:
                raise refusal from None
        return plan

    def _isolated(self, state: int, form: Form) -> _Plan:
        """Every unit by itself under vmap. Nobody can meet anybody there, so the batch must mean the same without."""
        plan = _Plan(state, "vmap", Script())
        try:
            refuse_mixing_losses(self.recipe, self.tensors(), form)
            unused = self._compare(plan, form)
            made_up = form.made_up(UNITS * self.recipe.rows_per_unit)
            with torch.random.fork_rng([self.device.index] if self.device.type == "cuda" else []):
                outside = learn_outside(self.recipe, self._question(made_up, self.tensors(), plan))
            return replace(plan, unused=unused, outside=outside)
        except _UNTOLD:
            raise
        except Exception as error:  # of any kind: vmap refuses in many ways
            raise NotSupported(f"the model does not run under vmap ({type(error).__name__}: {error})") from error

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(iter(self.parameters.values())).device

    def tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, none of which requires a gradient; tied ones are one tensor."""
        if self.recipe.sharding is not None:
            return self.recipe.sharding.tensors()
        model = self.recipe.model
        made: dict[int, Tensor] = {}
        found = {}
        both = model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)
        for name, each in itertools.chain(*both):
            found[name] = made.setdefault(id(each), each.detach())
        return found

    def _held(self) -> tuple[dict[str, Tensor], int]:
        """The tensors and the number of their signature: the same until a tensor moves. A device waits meanwhile."""
        places = tuple(
            each.data_ptr()
            for module in self.recipe.model.modules()
            for group in (module._parameters, module._buffers)
            for each in group.values()
            if each is not None
        )
        if self._seen is None or self._seen[0] != places:
            tensors = self.tensors()
            self._seen = places, tensors, self._kinds.setdefault(signature(tensors), len(self._kinds))
        return self._seen[1:]

    def _nothing(self, device: torch.device) -> Clipped:
        kind = torch.float32 if self.recipe.bits is None else torch.int64
        sums = {
            name: torch.zeros(local(each).shape, dtype=kind, device=device) for name, each in self.parameters.items()
        }
        none = torch.zeros(0, device=device)
        return Clipped(sums, none, none, none)


def clipped_gradients(
    model: nn.Module, loss: Loss, batch: tuple[Any, Any], clip: float, *, mask: Tensor | None = None
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """(sums, norms, losses): Σ of the examples' gradients by parameter name, each gradient clipped to L2 norm `clip`.

    `loss(output, y)` returns one loss per example. No noise is added; norms and losses are private.
    """
    return ClippingEngine(model, loss)(batch, clip=clip, mask=mask)[:3]


def _pieces(batch: tuple[Any, Any], mask: Tensor, size: int) -> list[tuple[Any, Tensor]]:
    """The batch in parts of one size; the last is filled up with masked copies of its first row."""
    rows = mask.shape[0]
    found = []
    for start in range(0, rows, size):
        index = torch.arange(start, start + size, device=mask.device)
        real = index < rows
        index = torch.where(real, index, start)
        found.append((chosen(batch, index), mask[index] & real))
    return found


def _joined(parts: Iterator[Clipped], rows: int, engine: ClippingEngine) -> Clipped:
    """The parts added up as they come: a compiled step overwrites its last answer."""
    sums: dict[str, Tensor] = {}
    others: list[list[Tensor]] = [[], [], []]
    for part in parts:
        for name, each in part.sums.items():
            sums[name] = sums[name].add_(each) if name in sums else each.clone()
        for kept, values in zip(others, (part.norms, part.losses, part.factors), strict=True):
            kept.append(values.clone())
    units = rows // engine.recipe.rows_per_unit
    norms, losses, factors = (torch.cat(each) for each in others)
    return Clipped(sums, norms[:units], losses[:rows], factors[:units])
