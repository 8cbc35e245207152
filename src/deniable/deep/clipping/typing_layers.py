"""Rules for layers: convolutions, normalizations, attention, pooling, matrices in stacks, losses.

Each of them says on which axes a batch may lie. The gradient of a weight is a sum over the batch, so such results
have a fault; nobody asks for them, for parameters require no gradient here.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from deniable.deep.clipping.labels import Fault, Place
from deniable.deep.clipping.typing_rules import (
    RULES,
    SUMMED,
    VARIES,
    Mixing,
    Operation,
    Places,
    Rule,
    asked_for,
    broadcast,
    joined,
    only_first,
    pointwise,
    refuse_along,
    rule,
    varies,
)


def together(op: Operation, *tensors: Any) -> Place | None:
    """The place of rows that several tensors have in common, on one axis of each; none of them may vary there."""
    given = [each for each in tensors if isinstance(each, Tensor) and each.numel()]
    found: Place | None = None
    for each in given:
        found = joined(found, op.place(each))
    if found is not None and any(op.place(each) is None and varies(each, found.axis) for each in given):
        raise Mixing(VARIES)
    return found


# convolutions


@rule("convolution convolution_overrideable cudnn_convolution miopen_convolution mkldnn_convolution")
def convolution(op: Operation) -> Places:
    """Filters over [rows, channels, …]."""
    op.shared(op["weight"], op.get("bias"))
    return only_first(op.place(op.get("input", "self")))


@rule("convolution_backward convolution_backward_overrideable")
def convolution_backward(op: Operation) -> Places:
    """The gradients of input, weight and bias."""
    op.shared(op["weight"])
    place = only_first(together(op, op["grad_output"], op["input"]))
    return asked_for(op, [place, SUMMED, SUMMED], op["output_mask"])


# recurrent layers


@rule("deniable::recurrence deniable::recurrence_backward")
def recurrence(op: Operation) -> Places:
    """[tokens, rows, width], and states [rows, width]: each row has its own, and meets weights alone."""
    weights = [op[name] for name in ("weight", "bias", "projection") if op.get(name) is not None]
    op.shared(*weights)
    rows = [each for each in op.tensors if each.numel() and not any(each is one for one in weights)]
    place = broadcast(op, rows, 3)
    if place is None or place.axis != 1:
        raise Mixing("it takes the rows of a batch on its second axis alone")
    return [Place(each.dim() - 2, place.inner) for each in op.results]


# normalizations


@rule("native_layer_norm _fused_rms_norm")
def layer_norm(op: Operation) -> Places:
    """Over the last axes."""
    values: Tensor = op["input"]
    place = op.place(values)
    op.shared(op.get("weight"), op.get("bias"))
    refuse_along(place, range(values.dim() - len(op["normalized_shape"]), values.dim()))
    return [place] * len(op.results)


@rule("native_layer_norm_backward _fused_rms_norm_backward")
def layer_norm_backward(op: Operation) -> Places:
    """The gradients of input, scale and shift."""
    values: Tensor = op["input"]
    place = together(op, op["grad_out"], values, op.get("mean"), op.get("rstd"))
    op.shared(op.get("weight"), op.get("bias"))
    refuse_along(place, range(values.dim() - len(op["normalized_shape"]), values.dim()))
    return asked_for(op, [place, SUMMED, SUMMED], op["output_mask"])


@rule("native_group_norm", sizes="N")
def group_norm(op: Operation) -> Places:
    """Over groups of the channels of each row."""
    op.shared(op.get("weight"), op.get("bias"))
    return [only_first(op.place(op["input"]))] * len(op.results)


@rule("native_group_norm_backward", sizes="N")
def group_norm_backward(op: Operation) -> Places:
    """The gradients of input, scale and shift."""
    op.shared(op.get("weight"))
    place = only_first(together(op, op["grad_out"], op["input"], op["mean"], op["rstd"]))
    return asked_for(op, [place, SUMMED, SUMMED], op["output_mask"])


@rule(
    "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm _batch_norm_with_update"
    " _batch_norm_no_update _native_batch_norm_legit_no_training"
)
def batch_norm(op: Operation) -> Places:
    """With statistics of its own in training: then only along channels, which instance normalization makes of rows."""
    place = op.place(op["input"])
    training = op.get("training", default=op.name == "_batch_norm_with_update")
    scales, statistics = (op.get("weight"), op.get("bias")), (op.get("running_mean"), op.get("running_var"))
    if not training:
        op.shared(*scales, *statistics)
        refuse_along(place, {1})
        return [place, *[SUMMED] * (len(op.results) - 1)]
    if place is None or place.axis != 1 or any(each is not None for each in statistics):
        raise Mixing("batch normalization takes its statistics over the batch")
    own = Place(0, place.inner)
    if any(each is not None and joined(own, op.place(each)) != op.place(each) for each in scales):
        raise Mixing(VARIES)
    return [place, *[own if each.dim() == 1 and each.numel() else SUMMED for each in op.results[1:]]]


@rule("native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward")
def batch_norm_backward(op: Operation) -> Places:
    """The gradients of input, scale and shift."""
    place = together(op, op.get("grad_out", "grad_output"), op["input"])
    statistics = (op.get("running_mean"), op.get("running_var"))
    mask = op.get("output_mask", default=[True] * 3)
    if not op.get("train", "update", default=op.name.startswith(("cudnn", "miopen"))):
        op.shared(op.get("weight"), *statistics)
        refuse_along(place, {1})
        return asked_for(op, [place, SUMMED, SUMMED], mask)
    if place is None or place.axis != 1 or any(each is not None for each in statistics):
        raise Mixing("batch normalization takes its statistics over the batch")
    own = Place(0, place.inner)
    for each in (op.get(name) for name in ("weight", "save_mean", "save_invstd", "save_var")):
        if each is not None and each.numel() and (op.place(each) is None or joined(own, op.place(each)) is None):
            raise Mixing(VARIES)
    return asked_for(op, [place, own, own], mask)


# attention

_KERNELS = "flash_attention_for_cpu flash_attention efficient_attention cudnn_attention fused_attention_overrideable"


@rule(" ".join(f"_scaled_dot_product_{name}" for name in _KERNELS.split()))
def attention(op: Operation) -> Places:
    """[rows, heads, tokens, width]: each head of each row by itself. What comes behind outputs and their scales is the
    state of the generator."""
    place = _attended(op, (op["query"], op["key"], op["value"]))
    return [place, place, *[None] * (len(op.results) - 2)]


@rule(" ".join(f"_scaled_dot_product_{name}_backward" for name in _KERNELS.split()))
def attention_backward(op: Operation) -> Places:
    """The gradients of queries, keys, values and of the bias."""
    inputs = (op["query"], op["key"], op["value"])
    place = _attended(op, (op.get("grad_out", "grad_out_"), *inputs, op["out"], op["logsumexp"]))
    found: list[Place | Fault | None] = [SUMMED if op.place(each) is None else place for each in inputs]
    return [*found, *[SUMMED] * (len(op.results) - 3)]


def _attended(op: Operation, given: tuple[Tensor, ...]) -> Place | None:
    place = together(op, *given)
    refuse_along(place, {2, 3})
    mask = op.get("attn_mask", "attn_bias")
    if not isinstance(mask, Tensor) or not mask.numel():
        return place
    own, behind = op.place(mask), 4 - mask.dim()
    if own is not None:
        if place is None or joined(place, Place(own.axis + behind, own.inner)) is None:
            raise Mixing("a mask has rows, and what it masks has none")
        return joined(place, Place(own.axis + behind, own.inner))
    if place is not None and varies(mask, place.axis - behind):
        raise Mixing(VARIES)
    return place


# rows before the last axes: images, signals, stacks of matrices


def before_last(last: int, *names: str) -> Rule:
    """Rows lie before the last axes, of which these arguments and all results have so many. Other tensors are
    shared."""

    def placed(op: Operation) -> Places:
        given = [op.arguments[name] for name in names if isinstance(op.arguments.get(name), Tensor)]
        op.shared(*(each for each in op.tensors if all(each is not one for one in given)))
        depth = max(each.dim() for each in given)
        place = broadcast(op, given, depth)
        refuse_along(place, range(depth - last, depth))
        return place

    return placed


_BEFORE_LAST: dict[tuple[int, str], str] = {
    (1, "self input"): "adaptive_max_pool1d adaptive_avg_pool1d avg_pool1d upsample_nearest1d upsample_linear1d"
    " _upsample_nearest_exact1d reflection_pad1d replication_pad1d",
    (
        2,
        "self input A",
    ): "max_pool2d_with_indices avg_pool2d adaptive_max_pool2d _adaptive_avg_pool2d upsample_nearest2d"
    " upsample_bilinear2d upsample_bicubic2d _upsample_nearest_exact2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"
    " reflection_pad2d replication_pad2d tril triu linalg_inv_ex linalg_cholesky_ex cholesky cholesky_inverse linalg_qr"
    " _linalg_eigh linalg_eig _linalg_svd _linalg_det _linalg_slogdet linalg_matrix_exp linalg_lu_factor_ex linalg_lu"
    " linalg_ldl_factor_ex _linalg_eigvals",
    (3, "self input"): "max_pool3d_with_indices avg_pool3d adaptive_max_pool3d _adaptive_avg_pool3d upsample_nearest3d"
    " upsample_trilinear3d _upsample_nearest_exact3d reflection_pad3d replication_pad3d pixel_shuffle pixel_unshuffle"
    " channel_shuffle native_channel_shuffle",
    (1, "grad_output self"): "reflection_pad1d_backward replication_pad1d_backward",
    (2, "grad_output self indices"): "max_pool2d_with_indices_backward avg_pool2d_backward adaptive_max_pool2d_backward"
    " _adaptive_avg_pool2d_backward reflection_pad2d_backward replication_pad2d_backward",
    (3, "grad_output self indices"): "max_pool3d_with_indices_backward avg_pool3d_backward adaptive_max_pool3d_backward"
    " _adaptive_avg_pool3d_backward reflection_pad3d_backward replication_pad3d_backward",
    (2, "self B"): "linalg_solve_triangular",
    (2, "self A"): "triangular_solve",
    (2, "self input2"): "cholesky_solve",
}
for (_last, _arguments), _operations in _BEFORE_LAST.items():
    for _operation in _operations.split():
        RULES[_operation] = before_last(_last, *_arguments.split())


@rule("linalg_lu_solve")
def lu_solve(op: Operation) -> Places:
    """[…, n, n] with pivots […, n] and […, n, k]."""
    factors, pivots, right = op["LU"], op["pivots"], op["B"]
    depth = max(factors.dim(), pivots.dim() + 1, right.dim())
    place = joined(broadcast(op, (factors, right), depth), _shifted(op, pivots, depth - 1))
    refuse_along(place, range(depth - 2, depth))
    if place is not None:
        for each, missing in ((factors, 0), (right, 0), (pivots, 1)):
            if op.place(each) is None and varies(each, place.axis - depth + each.dim() + missing):
                raise Mixing(VARIES)
    return place


def _shifted(op: Operation, tensor: Tensor, depth: int) -> Place | None:
    place = op.place(tensor)
    return None if place is None else Place(place.axis + depth - tensor.dim(), place.inner)


@rule("_linalg_solve_ex")
def solve(op: Operation) -> Places:
    """[…, n, n] and […, n, k] or […, n]: stacks of both one by one. The results are the solution, factors, pivots and
    whether it failed."""
    left, right = op["A"], op["B"]
    vector = right.dim() == 1 or (right.dim() + 1 == left.dim() and right.shape == left.shape[:-1])
    if vector and op.place(right) is not None and op.place(left) is None:
        raise Mixing("it is not known which axes of this right side are one by one")
    depth = max(left.dim(), right.dim() + int(vector))
    one, two = _shifted(op, left, depth), _shifted(op, right, depth - int(vector))
    place = joined(one, two)
    refuse_along(place, range(depth - 2, depth))
    if place is None:
        return None
    for each, missing in ((left, 0), (right, int(vector))):
        if op.place(each) is None and varies(each, place.axis - depth + each.dim() + missing):
            raise Mixing(VARIES)
    if not op["left"]:
        raise Mixing("it is not known which axes of this right side are one by one")
    solution = Place(place.axis - (depth - int(vector) - op.results[0].dim()), place.inner)
    if one is None:
        return [solution, SUMMED, SUMMED, SUMMED]
    return [solution, *[Place(one.axis - depth + left.dim(), one.inner)] * 3]


_UPSAMPLING = (
    "upsample_nearest1d upsample_linear1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest3d"
    " upsample_trilinear3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"
    " _upsample_bilinear2d_aa _upsample_bicubic2d_aa"
)


@rule(" ".join(f"{name}_backward" for name in _UPSAMPLING.split()), sizes="input_size")
def upsampling_backward(op: Operation) -> Places:
    """[rows, channels, …]."""
    op_sizes = op["input_size"]
    if op.before is not None and list(op.before["input_size"])[2:] != list(op_sizes)[2:]:
        raise Mixing("a number depends on how many rows there are")
    place = op.place(op["grad_output"])
    refuse_along(place, range(2, op["grad_output"].dim()))
    return place


@rule("im2col col2im")
def columns(op: Operation) -> Places:
    """[rows, channels, height, width] to [rows, patches, places], and back."""
    if op["self"].dim() != (4 if op.name == "im2col" else 3):
        raise Mixing("it takes the rows of a batch on its first axis alone")
    return only_first(op.place(op["self"]))


@rule("grid_sampler_2d grid_sampler_3d")
def grid_sampler(op: Operation) -> Places:
    """An image and a grid for each row."""
    return only_first(together(op, op["input"], op["grid"]))


@rule("_cdist_forward")
def distances(op: Operation) -> Places:
    """[…, n, k] and […, m, k] to […, n, m]."""
    place = broadcast(op, (op["x1"], op["x2"]), op.results[0].dim())
    refuse_along(place, {op.results[0].dim() - 2, op.results[0].dim() - 1})
    return place


# losses: one for each row, or refused


def _refuse_mean(op: Operation) -> None:
    if op["reduction"] != 0:
        raise Mixing("a loss is averaged or summed over the batch; use reduction='none'")


@rule(
    "mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits soft_margin_loss"
    " mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward"
    " soft_margin_loss_backward"
)
def loss(op: Operation) -> Places:
    """Element by element."""
    _refuse_mean(op)
    return pointwise(op)


@rule("nll_loss_forward nll_loss2d_forward")
def nll_loss(op: Operation) -> Places:
    """[rows, classes, …] and [rows, …]; the second result is a sum of weights."""
    _refuse_mean(op)
    op.shared(op["weight"])
    place = only_first(together(op, op["self"], op["target"]))
    if place is not None and op["self"].dim() == 1:
        raise Mixing("it takes the rows of a batch on its first axis alone")
    return [place, SUMMED]


@rule("nll_loss_backward nll_loss2d_backward")
def nll_loss_backward(op: Operation) -> Places:
    """The gradient of the scores; the sum of weights is used for means only."""
    _refuse_mean(op)
    op.shared(op["weight"])
    place = only_first(together(op, op["grad_output"], op["self"], op["target"]))
    if place is not None and op["self"].dim() == 1:
        raise Mixing("it takes the rows of a batch on its first axis alone")
    return place


@rule("multi_margin_loss multilabel_margin_loss_forward multi_margin_loss_backward multilabel_margin_loss_backward")
def margin_loss(op: Operation) -> Places:
    """[rows, classes] and a label, or labels, for each row."""
    _refuse_mean(op)
    op.shared(op.get("weight"))
    if op["self"].dim() != 2:
        raise Mixing("it takes the rows of a batch on its first axis alone")
    return only_first(together(op, op.get("grad_output"), op["self"], op["target"], op.get("is_target")))
