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
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from deniable import _checks
from deniable.deep import clips
from deniable.deep.clipping.checks import SelfCheck, check
from deniable.deep.clipping.fast import clip_fast
from deniable.deep.clipping.observing import observe
from deniable.deep.clipping.passes import Loss, chosen, row_count
from deniable.deep.clipping.per_example import clip_per_example
from deniable.deep.clipping.refusals import refuse_mixing
from deniable.deep.clipping.sharding import Sharding, is_sharded, local
from deniable.deep.clipping.steps import Clipped, Question, Recipe
from deniable.deep.clipping.tape import Step
from deniable.deep.clipping.tracing import Stage, compiled, signature
from deniable.deep.clipping.two_pass import clip_two_pass
from deniable.errors import InvalidArgument, NotSupported

WAYS: dict[str, Callable[[Recipe, Question], Clipped]] = {
    "fast": clip_fast,
    "two_pass": clip_two_pass,
    "vmap": clip_per_example,
}


class ClippingEngine:
    """Sums of per-unit gradients, each clipped to one norm.

    `loss(output, y)` returns one loss per example. `mode` is "fast" (one backward pass, inputs and output gradients
    kept), "two_pass" (less memory, a second backward pass, half of the batch at a time), "vmap" (the gradient of every
    unit, for models that the tape cannot follow) or "auto" (fast, or vmap where the tape cannot follow). With
    `rows_per_unit`=R a unit is R rows in succession, padded by masked rows. `microbatch` rows are worked on at a time.
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
        compile: bool = False,
        autocast: torch.dtype | None = None,
        loss_scale: float = 1.0,
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
        self.mode, self.compile = mode, compile
        self.microbatch = None if microbatch is None else _checks.count("microbatch", microbatch)
        self.recipe = Recipe(
            model=model,
            loss=loss,
            names=tuple(self.parameters),
            rows_per_unit=_checks.count("rows_per_unit", rows_per_unit),
            norm=norm,
            autocast=autocast,
            loss_scale=float(loss_scale),
            sharding=Sharding.of(model) if is_sharded(model) else None,
        )
        if self.recipe.sharding is not None and (compile or mode == "vmap"):
            raise NotSupported("a model under FSDP2 is clipped eagerly: leave out compile=True and mode='vmap'")
        if self.microbatch is not None and self.microbatch % self.recipe.rows_per_unit:
            raise InvalidArgument("microbatch", microbatch, f"a multiple of rows_per_unit={rows_per_unit}")
        self._scripts: dict[bool, tuple[str, list[Step]]] = {}
        self._compiled: dict[Any, Stage] = {}
        self._kinds: dict[Any, int] = {}
        self._seen: tuple[tuple[int, ...], dict[str, Tensor], int] | None = None

    def __call__(self, batch: tuple[Any, Any], *, clip: float | Tensor, mask: Tensor | None = None) -> Clipped:
        """Clip a batch (inputs, targets). `mask` is False for rows that are padding; no row at all gives zero sums."""
        rows = row_count(batch)
        # A gradient that also runs into the data would take another way than the one that is watched.
        batch = tree_map(lambda each: each.detach() if isinstance(each, Tensor) else each, batch)
        device = next(iter(self.parameters.values())).device
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

    def check(self, batch: tuple[Any, Any], *, clip: float = 1.0, mask: Tensor | None = None) -> SelfCheck:
        """The start-up self-check (checks.py) on a real batch; raises NotSupported if the model must not be trained."""
        return check(self, batch, clip=clip, mask=mask)

    def way(self, batch: tuple[Any, Any]) -> str:
        """The way this batch is clipped: "fast", "two_pass" or "vmap"."""
        return self._plan(batch)[0]

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
        )

    def _usual(self, rows: int) -> int:
        """How many rows are worked on at a time when nobody says."""
        # Ranks that share a model must make the same number of passes, however many rows each of them has.
        if self.mode != "two_pass" or self.recipe.sharding is not None:
            return rows
        return math.ceil(rows / self.recipe.rows_per_unit / 2) * self.recipe.rows_per_unit

    def _run(self, batch: tuple[Any, Any], mask: Tensor, clip: Tensor) -> Clipped:
        way, script = self._plan(batch)
        if not self.compile:
            return WAYS[way](self.recipe, Question(self.tensors(), batch, mask, clip, script))
        tensors, kind = self._held()

        def step(tensors: Mapping[str, Tensor], changing: tuple[Any, Tensor, Tensor]) -> Clipped:
            return WAYS[way](self.recipe, Question(tensors, *changing, script))

        changing = (batch, mask, clip)
        key = (self.recipe.model.training, kind, signature(changing))
        if key not in self._compiled:
            self._compiled[key] = compiled(step, tensors, changing)
        with torch.no_grad():
            return Clipped(*self._compiled[key](tensors, changing))

    def _plan(self, batch: tuple[Any, Any]) -> tuple[str, list[Step]]:
        """The way and its script, found at the first batch and again when the model changes between train and eval."""
        training = self.recipe.model.training
        if training not in self._scripts:
            if self.mode == "vmap":
                self._scripts[training] = ("vmap", [])
            else:
                self._scripts[training] = self._observed(batch)
        return self._scripts[training]

    def _observed(self, batch: tuple[Any, Any]) -> tuple[str, list[Step]]:
        tensors = self.tensors()
        try:
            with self.recipe.precision(next(iter(tensors.values())).device):
                script = observe(
                    self.recipe.model, {name: tensors[name] for name in self.parameters}, tensors, batch[0]
                )
        except NotSupported:
            if self.mode == "auto" and self.recipe.sharding is None:
                return "vmap", []
            raise
        return ("fast" if self.mode == "auto" else self.mode), script

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
        sums = {name: torch.zeros(local(each).shape, device=device) for name, each in self.parameters.items()}
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
