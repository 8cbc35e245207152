"""What is refused by name, before anything runs: layers that mix the examples of a batch, and what to use instead."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deniable.errors import NotSupported

_MIXING: tuple[tuple[tuple[type[nn.Module], ...], str, str], ...] = (
    (
        (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
        "normalizes by the statistics of the whole batch",
        "use nn.GroupNorm, which normalizes each example by itself",
    ),
)


def refuse_mixing(model: nn.Module) -> None:
    """Raise if a layer of the model is known to mix examples, or to change itself by what it sees."""
    for name, module in model.named_modules():
        where = f"{name or 'the model'} ({type(module).__name__})"
        for kinds, why, instead in _MIXING:
            if isinstance(module, kinds) and (module.training or not module.track_running_stats):
                raise NotSupported(f"{where} {why}, so one example changes the gradients of the others; {instead}")
        if isinstance(module, torch.jit.ScriptModule):
            raise NotSupported(
                f"{where} is compiled by TorchScript, which hides its operations; give the module itself"
            )
        if isinstance(module, nn.modules.batchnorm._LazyNormBase | nn.modules.lazy.LazyModuleMixin):
            raise NotSupported(f"{where} has no shape yet; run the model once on made-up data first")
        if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            raise NotSupported(
                f"{where} keeps running statistics of private data; set track_running_stats=False, or use nn.GroupNorm"
            )
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise NotSupported(
                f"{where} with max_norm rewrites its table by what the batch looked up; drop max_norm and normalize "
                "the looked-up vectors in the forward pass"
            )
        if hasattr(nn.utils, "spectral_norm") and any(
            type(hook).__name__ == "SpectralNorm" for hook in module._forward_pre_hooks.values()
        ):
            raise NotSupported(f"{where} has spectral_norm, which changes a buffer in every forward pass; remove it")


def refuse_parameters(loss: Any, model: nn.Module) -> None:
    """Raise if a loss has trainable parameters that the model does not: nobody would train them."""
    if not isinstance(loss, nn.Module):
        return
    own = {id(each) for each in model.parameters()}
    others = [name for name, each in loss.named_parameters() if each.requires_grad and id(each) not in own]
    if others:
        raise NotSupported(
            f"the loss has trainable parameters of its own ({', '.join(others)}), which would never change; make the"
            " loss a part of the model, or freeze them with requires_grad_(False)"
        )
