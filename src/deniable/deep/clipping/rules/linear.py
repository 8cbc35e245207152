"""Rows times a matrix: F.linear, matmul, addmm (also the packed projections of attention, adapters, tied heads)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch, as_multiplied
from deniable.deep.clipping.contributions import Contribution, Factors, Stack
from deniable.deep.clipping.origins import Origin
from deniable.deep.clipping.precision import widened
from deniable.deep.clipping.rules.anything import anything


def linear(call: Call) -> Sketch:
    """x Wᵀ + b: rows of x against rows of the output gradient."""
    inputs, weight, bias = call.argument(0, "input"), call.argument(1, "weight"), call.argument(2, "bias")
    if call.origin(inputs) is not None:
        return anything(call)
    return _product(inputs, weight, bias, call, transposed=False)


def matmul(call: Call) -> Sketch:
    """x W, W a matrix: the same with the sides exchanged."""
    inputs, weight = call.argument(0, "input"), call.argument(1, "other", call.kwargs.get("mat2"))
    if call.origin(inputs) is not None or weight.dim() != 2:
        return anything(call)
    return _product(inputs, weight, None, call, transposed=True)


def affine(call: Call) -> Sketch:
    """b + x W (torch.addmm)."""
    bias, inputs, weight = (call.argument(at, name) for at, name in enumerate(("input", "mat1", "mat2")))
    plain = call.kwargs.get("beta", 1) == 1 and call.kwargs.get("alpha", 1) == 1
    if not plain or bias.dim() != 1 or call.origin(inputs) is not None:
        return anything(call)
    return _product(inputs, weight, bias, call, transposed=True)


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None, call: Call, *, transposed: bool) -> Sketch:
    weight_origin, bias_origin, shape = call.origin(weight), call.origin(bias), tuple(weight.shape)

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        outs = gradient.flatten(1, -2)
        parts: list[tuple[Origin, Contribution]] = []
        if weight_origin is not None:
            rows = saved[0].flatten(1, -2)
            parts.append((weight_origin, Factors(rows, outs, shape) if transposed else Factors(outs, rows, shape)))
        if bias_origin is not None:
            parts.append((bias_origin, Stack(widened(outs).sum(1))))
        return parts

    kept = () if weight_origin is None else (inputs,)
    return Sketch(kept, tuple(as_multiplied(each) for each in kept), contribute)
