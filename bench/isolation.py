"""Architectures of transformers and peft that row typing proves: `make bench ROOM=isolation`.

Each architecture is built from a small random configuration, offline, and asked in training mode, with its dropout.
The table says whether it is proved ("fast"), trained under vmap, or refused and why; the check behind it compares
clipped sums with those of single examples. `seconds` is the first answer: survey, proof and the numbers at the present
weights; `check` is the self-check at other weights; both are processor time. Results go to bench/results:
isolation-<date>.md and the history.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import history
import torch
import torch.nn.functional as F
from torch import Tensor

from deniable.deep.clipping import ClippingEngine
from deniable.errors import NotSupported

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROWS, LENGTH, WORDS, LABELS = 4, 7, 40, 3
WIDE: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TEXT: dict[str, Any] = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **WIDE}
CAUSAL: dict[str, Any] = {"use_cache": False, "num_key_value_heads": 1, **TEXT}
IMAGE: dict[str, Any] = {"image_size": 16, "patch_size": 8, "num_labels": LABELS, **WIDE}
Case = tuple[Any, Any, Tensor, Callable[[Any, Tensor], Tensor]]


def next_token(made: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(made.logits.transpose(1, 2), y, reduction="none")


def label(made: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(made.logits, y, reduction="none")


def words() -> Tensor:
    return torch.randint(3, WORDS, (ROWS, LENGTH))


def labels() -> Tensor:
    return torch.randint(0, LABELS, (ROWS,))


def causal(name: str, **options: Any) -> Callable[[], Case]:
    """A model that predicts the next token."""

    def make() -> Case:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**CAUSAL, **options})
        suffix = "LMHeadModel" if name == "GPT2" else "ForCausalLM"
        return getattr(transformers, f"{name}{suffix}")(config), {"input_ids": words()}, words(), next_token

    return make


def classifier(name: str, **options: Any) -> Callable[[], Case]:
    """A model of texts with a head for classes, on padded rows."""

    def make() -> Case:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**TEXT, "num_labels": LABELS, **options})
        mask = torch.ones(ROWS, LENGTH, dtype=torch.long)
        mask[1, 4:] = 0
        model = getattr(transformers, f"{name}ForSequenceClassification")(config)
        return model, {"input_ids": words(), "attention_mask": mask}, labels(), label

    return make


def images(name: str, **options: Any) -> Callable[[], Case]:
    """A model of images with a head for classes."""

    def make() -> Case:
        import transformers

        config = getattr(transformers, f"{name}Config")(**{**IMAGE, **options})
        model = getattr(transformers, f"{name}ForImageClassification")(config)
        return model, {"pixel_values": torch.randn(ROWS, 3, 16, 16)}, labels(), label

    return make


def translator(name: str, **options: Any) -> Callable[[], Case]:
    """An encoder and a decoder."""

    def make() -> Case:
        import transformers

        narrow: dict[str, Any] = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
        narrow |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "vocab_size": WORDS}
        narrow |= {"use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        narrow |= {"decoder_start_token_id": 1, "max_position_embeddings": 32, "forced_eos_token_id": None}
        config = getattr(transformers, f"{name}Config")(**{**narrow, **options})
        suffix = "MTModel" if name == "Marian" else "ForConditionalGeneration"
        model = getattr(transformers, f"{name}{suffix}")(config)
        return model, {"input_ids": words(), "decoder_input_ids": words()}, words(), next_token

    return make


def adapted(make: Callable[[], Case], targets: list[str], **options: Any) -> Callable[[], Case]:
    """A model with adapters of peft."""

    def made() -> Case:
        import peft

        model, inputs, y, loss = make()
        adapters = peft.LoraConfig(r=2, lora_dropout=0.1, target_modules=targets, **options)
        return peft.get_peft_model(model, adapters), inputs, y, loss

    return made


T5 = {"d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16}
ARCHITECTURES: dict[str, Callable[[], Case]] = {
    "GPT-2": causal("GPT2", **GPT2),
    "GPT-NeoX": causal("GPTNeoX", max_position_embeddings=16),
    "GPT-J": causal("GPTJ", n_embd=16, n_layer=2, n_head=2, n_positions=16, rotary_dim=4),
    "OPT": causal("OPT", ffn_dim=24, max_position_embeddings=16, word_embed_proj_dim=16, dropout=0.1),
    "BLOOM": causal("Bloom", n_layer=2, n_head=2),
    "Llama": causal("Llama", attention_dropout=0.1, head_dim=8),
    "Mistral": causal("Mistral", head_dim=8),
    "Qwen2": causal("Qwen2"),
    "Qwen3": causal("Qwen3", head_dim=8),
    "Gemma": causal("Gemma", head_dim=8),
    "Gemma 2": causal("Gemma2", head_dim=8),
    "Phi": causal("Phi", resid_pdrop=0.1),
    "StableLM": causal("StableLm"),
    "OLMo": causal("Olmo"),
    "Falcon": causal("Falcon", new_decoder_architecture=False),
    "Granite": causal("Granite"),
    "Starcoder2": causal("Starcoder2", residual_dropout=0.1),
    "Mixtral": causal("Mixtral", head_dim=8, num_local_experts=4),
    "Mamba": causal("Mamba", state_size=4, expand=2, num_key_value_heads=None),
    "BERT": classifier("Bert"),
    "RoBERTa": classifier("Roberta", max_position_embeddings=32),
    "DistilBERT": classifier("DistilBert", dim=16, n_layers=2, n_heads=2, hidden_dim=24),
    "ALBERT": classifier("Albert", embedding_size=8),
    "ELECTRA": classifier("Electra", embedding_size=8),
    "DeBERTa v2": classifier("DebertaV2", type_vocab_size=0),
    "MPNet": classifier("MPNet", max_position_embeddings=32),
    "XLM-RoBERTa": classifier("XLMRoberta", max_position_embeddings=32),
    "FNet": classifier("FNet", attention_mask=None),
    "XLNet": classifier("XLNet", d_model=16, n_layer=2, n_head=2, d_inner=24),
    "Longformer": classifier("Longformer", attention_window=4, max_position_embeddings=32),
    "T5": translator("T5", **T5),
    "BART": translator("Bart"),
    "Pegasus": translator("Pegasus"),
    "Marian": translator("Marian"),
    "ViT": images("ViT"),
    "DeiT": images("DeiT"),
    "BEiT": images("Beit"),
    "Swin": images(
        "Swin", num_hidden_layers=2, embed_dim=8, depths=[1, 1], num_attention_heads=[2, 2], window_size=2, patch_size=2
    ),
    "ConvNeXt": images("ConvNext", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, drop_path_rate=0.1),
    "BERT with LoRA": adapted(classifier("Bert"), ["query", "value"], modules_to_save=["classifier"]),
    "Llama with LoRA": adapted(causal("Llama", head_dim=8), ["q_proj", "v_proj"]),
    "Llama with DoRA": adapted(causal("Llama", head_dim=8), ["q_proj"], use_dora=True),
}


def asked(name: str, make: Callable[[], Case]) -> tuple[str, float, float, str]:
    """(way, seconds of the first answer, seconds of the check, reason)."""
    torch.manual_seed(0)
    try:
        model, inputs, y, loss = make()
    except (ImportError, AttributeError) as error:
        return "not installed", 0.0, 0.0, str(error)
    except Exception as error:  # noqa: BLE001  of any kind: this version has another configuration
        return "not built", 0.0, 0.0, f"{type(error).__name__}: {error}"
    model.train()
    engine = ClippingEngine(model, loss)
    start = time.process_time()
    try:
        way = engine.way((inputs, y))
        first = time.process_time() - start
        engine.check((inputs, y))
    except NotSupported as refusal:
        return "refused", time.process_time() - start, 0.0, str(refusal)
    return way, first, time.process_time() - start - first, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="architectures whose name contains this")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    lines = ["| architecture | way | seconds | check | reason |", "|---|---|---|---|---|"]
    counts = {"fast": 0, "vmap": 0, "refused": 0}
    cost = 0.0
    for name, make in ARCHITECTURES.items():
        if only.lower() not in name.lower():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            way, first, check, reason = asked(name, make)
        if way in counts:
            counts[way] += 1
            cost = max(cost, first)
        lines.append(f"| {name} | {way} | {first:.2f} | {check:.2f} | {' '.join(reason.split())[:160]} |")
        print(lines[-1], flush=True)
    total = sum(counts.values())
    summary = f"{counts['fast']} of {total} proved, {counts['vmap']} under vmap, {counts['refused']} refused."
    print(summary)
    if only:
        return
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    history.add("isolation", "architectures proved or trained by vmap", counts["fast"] + counts["vmap"], f"of {total}")
    history.add("isolation", "longest first answer of a small architecture", cost, "s of a processor")
    history.keep("isolation", "\n".join([f"# Isolation, {today}", "", summary, "", *lines]))


if __name__ == "__main__":
    main()
