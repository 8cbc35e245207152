"""Models of transformers and adapters of peft as they come: the tape follows all of them, no vmap needed."""

from __future__ import annotations

from typing import Any

import peft
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from deniable.deep.clipping import ClippingEngine, indices

ROWS, LENGTH, VOCABULARY = 3, 7, 40
SMALL: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
LLAMA: dict[str, Any] = {"vocab_size": VOCABULARY, "use_cache": False, **SMALL}


def tokens() -> Tensor:
    return torch.randint(0, VOCABULARY, (ROWS, LENGTH))


def padded() -> dict[str, Tensor]:
    mask = torch.ones(ROWS, LENGTH, dtype=torch.long)
    mask[1, 4:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def next_token(made: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(made.logits.transpose(1, 2), y, reduction="none")


def label(made: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(made.logits, y, reduction="none")


def gpt2() -> tuple[Any, ...]:
    """Tied head, products by addmm, position ids shared by all rows."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=9, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config), padded(), tokens(), next_token


def llama() -> tuple[Any, ...]:
    """Grouped heads, rotary positions, a normalization of its own."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_key_value_heads=1, **LLAMA))
    return model, padded(), tokens(), next_token


def t5() -> tuple[Any, ...]:
    """One table for encoder, decoder and head; learned position biases added to scores."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2, use_cache=False
    )
    both = {"input_ids": tokens(), "decoder_input_ids": tokens()}
    return transformers.T5ForConditionalGeneration(config), both, tokens(), next_token


def vit() -> tuple[Any, ...]:
    """A class token and positions that belong to no layer."""
    model = transformers.ViTForImageClassification(transformers.ViTConfig(image_size=16, patch_size=8, **SMALL))
    return model, {"pixel_values": torch.randn(ROWS, 3, 16, 16)}, torch.randint(0, 2, (ROWS,)), label


def lora() -> tuple[Any, ...]:
    """Adapters on layers and on the table, and a head that is trained whole."""
    config = transformers.BertConfig(vocab_size=VOCABULARY, **SMALL)
    adapters = peft.LoraConfig(r=2, target_modules=["query", "word_embeddings"], modules_to_save=["classifier"])
    model = peft.get_peft_model(transformers.BertForSequenceClassification(config), adapters)
    return model, padded(), torch.randint(0, 2, (ROWS,)), label


def dora() -> tuple[Any, ...]:
    """Adapters that normalize the merged weight."""
    adapters = peft.LoraConfig(r=2, use_dora=True, target_modules=["q_proj", "v_proj"])
    model = peft.get_peft_model(transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)), adapters)
    return model, padded(), tokens(), next_token


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [gpt2, llama, t5, vit, lora, dora])
def test_models_of_transformers(make: Any) -> None:
    model, inputs, targets, loss = make()
    found = ClippingEngine(model, loss, mode="fast").check((inputs, targets))
    assert found.mode == "fast"


@pytest.mark.parametrize("make", [gpt2, t5])
def test_models_of_transformers_where_indices_are_brought_into_range(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indices, "is_needed", lambda device, sharded: True)  # as on a GPU
    test_models_of_transformers(make)
