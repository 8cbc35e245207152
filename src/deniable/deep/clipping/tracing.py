"""One graph for the whole step: forward, backward, norms and clipped sums.

The step is an ordinary function of tensors. It is traced once per shape into a graph of plain tensor operations,
autograd included; whoever runs the graph never sees the tape, the rules or the model's Python. A forward pass whose
course depends on the data cannot be traced, and says so. The graph runs as it is, or through torch's compiler, which
takes a minute or two and joins operations. On a GPU the step is then captured as a CUDA graph and replayed: one launch
for everything, with no work for Python in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
import torch._inductor
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

Tensors: TypeAlias = Mapping[str, Tensor]
Stage: TypeAlias = Callable[[Tensors, Any], Any]
"""A step: (the model's tensors, everything that changes from call to call) → a nest of tensors."""


def traced(step: Stage, tensors: Tensors, changing: Any, *, optimized: bool) -> Stage:
    """The step as a graph for arguments of these shapes, through torch's compiler if `optimized`. On a GPU what it
    returns is overwritten by the next call."""
    graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(tensors, changing)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    on_gpu = all(each.is_cuda for each in tensors.values())
    if not optimized:
        return Replay(graph, tensors, changing) if on_gpu else graph
    # A capture allocates once and for all. Buffers that wait to be used again would only be held meanwhile.
    options = {"allow_buffer_reuse": False} if on_gpu else {}
    made = _compiled(graph, tensors, changing, **options)
    return Replay(made, tensors, changing) if on_gpu else made


def _compiled(graph: GraphModule, tensors: Tensors, changing: Any, **options: Any) -> Stage:
    """The graph through inductor alone: torch.compile would trace it once more. Memory that runs out meanwhile is
    memory that runs out."""
    arguments: list[Any] = [tensors, changing]
    # With an environment for shapes, though all are fixed: without one inductor's cache on disk is passed by, and the
    # same step is compiled anew in every process.
    fixed = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    try:
        with torch.no_grad(), tracing(TracingContext(fixed)):
            made: Stage = torch._inductor.compile(graph, arguments, options)
    except BackendCompilerFailed as error:
        if isinstance(error.inner_exception, torch.OutOfMemoryError):
            raise error.inner_exception from None
        raise
    return made


class Replay:
    """A step captured as a CUDA graph. Inputs are copied into place; the model's tensors are read where they are."""

    def __init__(self, step: Stage, tensors: Tensors, changing: Any) -> None:
        self._step = step
        self._capture(tensors, changing)

    def __call__(self, tensors: Tensors, changing: Any) -> Any:
        if tensors is not self._tensors and self._places != _places(tensors):
            self._capture(tensors, changing)
        for place, each in zip(tree_leaves(self._inputs), tree_leaves(changing), strict=True):
            if isinstance(each, Tensor):
                place.copy_(each, non_blocking=True)
        self._graph.replay()
        return tree_map(lambda each: each, self._outputs)  # the same tensors in new containers

    def _capture(self, tensors: Tensors, changing: Any) -> None:
        self._tensors, self._places = tensors, _places(tensors)
        self._inputs = tree_map(lambda each: each.clone() if isinstance(each, Tensor) else each, changing)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warms up what allocates on first use
            for _ in range(2):
                self._step(tensors, self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = self._step(tensors, self._inputs)


def _places(tensors: Tensors) -> tuple[int, ...]:
    return tuple(each.data_ptr() for each in tensors.values())


def signature(arguments: Any) -> tuple[Any, ...]:
    """What a compiled step is good for: shapes, layouts, types and devices of its arguments."""
    leaves, form = tree_flatten(arguments)
    kinds = tuple(
        (each.shape, each.stride(), each.dtype, each.device) if isinstance(each, Tensor) else each for each in leaves
    )
    return kinds, str(form)
