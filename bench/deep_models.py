"""The models that training steps are measured on: a transformer, WRN-16-4 with GroupNorm, LeNet, a perceptron,
recurrent layers and cells, and models of `transformers`."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        shape = (rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, vocabulary: int = 32_000) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.table(x))).mean(1))


class Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(16, into), nn.Conv2d(into, out, 3, stride, 1)
        self.norm2, self.conv2 = nn.GroupNorm(16, out), nn.Conv2d(out, out, 3, 1, 1)
        self.skip = nn.Conv2d(into, out, 1, stride) if into != out or stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(F.relu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.relu(self.norm2(inner)))


def wide_resnet(width: int = 4, depth: int = 2) -> nn.Module:
    sizes = [16, 16 * width, 32 * width, 64 * width]
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1)]
    for group in range(3):
        for at in range(depth):
            into = sizes[group] if at == 0 else sizes[group + 1]
            layers.append(Residual(into, sizes[group + 1], 2 if at == 0 and group else 1))
    end = [nn.GroupNorm(16, sizes[3]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[3], 10)]
    return nn.Sequential(*layers, *end)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10)
    )  # fmt: skip


class Recurrent(nn.Module):
    """A recurrent layer over [rows, tokens, width], its outputs averaged."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.hidden_size, 2)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(self.layer(x)[0].mean(1))
        return made


class Stepper(nn.Module):
    """An LSTM cell, token by token."""

    def __init__(self, into: int, width: int) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(into, width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), self.cell.hidden_size), x.new_zeros(len(x), self.cell.hidden_size)
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        made: Tensor = self.head(state[0])
        return made


class Logits(nn.Module):
    """The logits of a model of transformers."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x).logits
        return logits


def transformers_model(name: str) -> nn.Module:
    """A model of transformers with random weights, of its published size: gpt2, roberta, vit, llama or llama_lora."""
    import transformers

    if name == "gpt2":
        no_dropout = {"attn_pdrop": 0, "resid_pdrop": 0, "embd_pdrop": 0}
        return Logits(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, **no_dropout)))
    no_dropout = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    if name == "vit":
        sizes: dict[str, Any] = {"num_labels": 100}
        return Logits(transformers.ViTForImageClassification(transformers.ViTConfig(**sizes, **no_dropout)))
    if name == "roberta":
        sizes = {"num_labels": 3, "vocab_size": 50_265, "max_position_embeddings": 514, "type_vocab_size": 1}
        config = transformers.RobertaConfig(**sizes, **no_dropout)
        return Logits(transformers.RobertaForSequenceClassification(config))
    sizes = {"vocab_size": 32_000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, **sizes, **heads))
    if name == "llama":
        return Logits(model)
    import peft

    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return Logits(peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules=targets)))
