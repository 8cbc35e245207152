"""Models of transformers, adapters of peft, and the subclass of its trainer; tiny random configurations, no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from torch import nn

import deniable as dn
from deniable.deep import HuggingFaceTrainer, Observation
from deniable.deep.huggingface import per_example_loss
from deniable.errors import DataError, FileError, InvalidArgument, LedgerError, NotSupported
from tests.deep.models import ledger, plan

SIZES: dict[str, Any] = {"vocab_size": 50, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}


def causal() -> Any:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, attn_pdrop=0, resid_pdrop=0, embd_pdrop=0))


def classifier() -> Any:
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(  # type: ignore[call-arg]
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
            num_labels=3,
        )
    )


def texts(count: int = 40, *, labelled: bool = False) -> list[dict[str, Any]]:
    random = torch.Generator().manual_seed(1)
    found = []
    for _ in range(count):
        tokens = torch.randint(0, 50, (8,), generator=random)
        labels = int(tokens[0]) % 3 if labelled else tokens.clone()
        found.append({"input_ids": tokens, "attention_mask": torch.ones(8, dtype=torch.long), "labels": labels})
    return found


def arguments(folder: Path, **changed: Any) -> Any:
    return transformers.TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, report_to=[], use_cpu=True, learning_rate=0.01,
        save_strategy="no", disable_tqdm=True, **changed,
    )  # fmt: skip


def run(model: Any, data: Any, folder: Path, **settings: Any) -> HuggingFaceTrainer:
    chosen = {"plan": plan(size=40, batch=10, steps=3), "train_dataset": data, **settings}
    trainer = HuggingFaceTrainer(model, arguments(folder), **chosen)
    trainer.train()
    return trainer


def test_a_causal_model_is_trained_with_its_tied_weights(tmp_path: Path) -> None:
    model = causal()
    seen: list[Observation] = []
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trainer = run(model, texts(), tmp_path, observers=[seen.append], ledger=ledger(tmp_path / "a.ledger"))
    assert trainer.state.global_step == 3
    assert len(seen) == 3
    assert all(not torch.equal(before[name], p) for name, p in model.named_parameters())
    assert "charged for the whole plan" in str(trainer.private.progress)  # type: ignore[union-attr]


def test_the_loss_is_the_models_own_for_one_example() -> None:
    for model, data in ((causal(), texts()), (classifier(), texts(labelled=True))):
        model.eval()
        batch = transformers.default_data_collator(data[:1])
        labels = batch.pop("labels")
        ours = per_example_loss(model)(model(**batch), labels)
        assert ours.shape == (1,)
        torch.testing.assert_close(ours[0], model(**batch, labels=labels).loss)


@pytest.mark.parametrize("task", ["classes", "several classes", "tokens", "smooth", "answers", "translation"])
def test_every_task_has_the_loss_of_its_model(task: str) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "max_position_embeddings": 16, "num_labels": 3, "problem_type": None,
    }  # fmt: skip
    tokens = torch.randint(3, 50, (1, 8))
    inputs, smoothing = {"input_ids": tokens}, 0.0
    labels: dict[str, Any] = {"labels": torch.tensor([2])}
    kind = transformers.BertForSequenceClassification
    if task == "several classes":
        sizes["problem_type"], labels = "multi_label_classification", {"labels": torch.tensor([[1.0, 0.0, 1.0]])}
    elif task == "tokens":
        kind, labels = (
            transformers.BertForTokenClassification,
            {"labels": torch.tensor([[0, 1, 2, -100, 1, 0, 2, -100]])},
        )
    elif task == "answers":
        kind, sizes["num_labels"] = transformers.BertForQuestionAnswering, 2
        labels = {"start_positions": torch.tensor([1]), "end_positions": torch.tensor([99])}
    if task == "translation":
        config = transformers.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
        config.decoder_start_token_id, config.dropout_rate = 0, 0.0
        model: Any = transformers.T5ForConditionalGeneration(config).eval()
        labels = {"labels": torch.tensor([[4, 5, 6, -100]])}
    else:
        model = kind(transformers.BertConfig(**sizes)).eval()
    given = {name: each.clone() for name, each in labels.items()}
    expected = model(**inputs, **given).loss
    output = model(**inputs, **given)
    if task == "smooth":
        smoothing = 0.1
        expected = transformers.trainer_pt_utils.LabelSmoother(0.1)({"logits": output.logits}, labels["labels"])
    targets = torch.stack(list(labels.values()), 1) if task == "answers" else labels["labels"]
    ours = per_example_loss(model, smoothing=smoothing)(output, targets)
    assert ours.shape == (1,)
    if task == "answers":  # the end is beyond the text: torch's mean over nothing is no number
        expected = nn.functional.cross_entropy(output.start_logits, labels["start_positions"]) / 2
    torch.testing.assert_close(ours[0], expected)
    if task == "several classes":  # the same as whole numbers
        torch.testing.assert_close(per_example_loss(model)(output, targets.long())[0], expected)


def test_translations_and_answers_are_trained(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(vocab_size=50, use_cache=False, **sizes)
    config.decoder_start_token_id = 0
    run(transformers.T5ForConditionalGeneration(config), texts(), tmp_path)
    small = classifier().config
    small.num_labels = 2
    answers = [
        {**{name: each for name, each in row.items() if name != "labels"}, "start_positions": 1, "end_positions": 3}
        for row in texts()
    ]
    run(transformers.BertForQuestionAnswering(small), answers, tmp_path)


def test_epochs_and_checkpointing_are_the_models(tmp_path: Path) -> None:
    ends: list[float] = []

    class Watching(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_epoch_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            ends.append(state.epoch)

    chosen = arguments(tmp_path, eval_strategy="epoch", gradient_checkpointing=True)
    settings = {"train_dataset": texts(labelled=True), "eval_dataset": texts(4, labelled=True)}
    stated = plan(size=40, batch=10, steps=8)
    trainer = HuggingFaceTrainer(classifier(), chosen, plan=stated, callbacks=[Watching()], **settings)
    trainer.train()
    assert ends == [1, 2]
    assert [each["epoch"] for each in trainer.state.log_history if "eval_loss" in each] == [1, 2]
    assert trainer.model.is_gradient_checkpointing


@pytest.mark.parametrize(
    "other",
    [
        {"max_steps": 99},
        {"gradient_accumulation_steps": 4},
        {"load_best_model_at_end": True},
        {"save_strategy": "best"},
    ],
)
def test_arguments_that_say_something_else_than_the_plan_are_refused(other: dict[str, Any], tmp_path: Path) -> None:
    chosen = arguments(tmp_path)
    chosen.metric_for_best_model = "loss"
    for name, value in other.items():
        setattr(chosen, name, value)
    with pytest.raises(InvalidArgument, match=next(iter(other))):
        HuggingFaceTrainer(classifier(), chosen, train_dataset=texts(labelled=True), plan=plan(size=40, steps=3))


def test_labels_of_padding_do_not_count() -> None:
    model = causal().eval()
    batch = transformers.default_data_collator(texts(2))
    labels = batch.pop("labels")
    labels[0, 4:] = -100
    output = model(**batch)
    expected = nn.functional.cross_entropy(output.logits[0, :3], labels[0, 1:4])
    torch.testing.assert_close(per_example_loss(model)(output, labels)[0], expected)


def test_a_classifier_and_an_adapter(tmp_path: Path) -> None:
    run(classifier(), texts(labelled=True), tmp_path)
    adapted = peft.get_peft_model(
        causal(), peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
    )
    before = {name: p.detach().clone() for name, p in adapted.named_parameters()}
    seen: list[Observation] = []
    run(adapted, texts(), tmp_path, observers=[seen.append])
    changed = {name for name, p in adapted.named_parameters() if not torch.equal(before[name], p)}
    assert changed == set(seen[0].released)
    assert changed == {name for name in before if "lora" in name}


def test_callbacks_schedule_and_checkpoint(tmp_path: Path) -> None:
    rates: list[float] = []

    class Watching(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
            assert "loss" not in logs
            rates.append(logs["learning_rate"])

    stated = plan(size=40, batch=10, steps=6)
    chosen = arguments(tmp_path / "out", logging_steps=1, max_steps=6, num_train_epochs=7)
    chosen.save_strategy, chosen.save_steps = transformers.trainer_utils.SaveStrategy.STEPS, 3
    model = causal()
    trainer = HuggingFaceTrainer(model, chosen, train_dataset=texts(), plan=stated, callbacks=[Watching()])
    assert trainer.train().global_step == 6
    assert rates == sorted(rates, reverse=True)
    assert len(rates) >= 6
    trainer.private.close()  # type: ignore[union-attr]
    again = HuggingFaceTrainer(causal(), chosen, train_dataset=texts(), plan=stated)
    assert again.train(resume_from_checkpoint=True).global_step == 6
    with pytest.raises(LedgerError, match="another trainer"):
        HuggingFaceTrainer(causal(), chosen, train_dataset=texts(), plan=stated).train(resume_from_checkpoint=True)


def test_the_folder_of_another_run_is_refused_before_the_charge(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    stated = plan(size=40, batch=10, steps=2)
    chosen = arguments(tmp_path / "out")
    chosen.save_strategy, chosen.save_steps = transformers.trainer_utils.SaveStrategy.STEPS, 1
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "private.pt").write_bytes(b"another run")
    with pytest.raises(FileError, match="choose another output_dir"):
        HuggingFaceTrainer(causal(), chosen, train_dataset=texts(), plan=stated, ledger=book).train()
    assert list(book.charges()) == []
    assert (tmp_path / "out" / "private.pt").read_bytes() == b"another run"


def test_a_saved_model_has_a_card(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    trainer = run(classifier(), texts(labelled=True), tmp_path / "out", ledger=book)
    trainer.save_model()
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    (row,) = book.charges()
    assert card.startswith('---\nlibrary_name: "transformers"\n')
    assert row.hash in card
    assert str(trainer.plan.guarantee).splitlines()[0] in card
    (tmp_path / "out" / "README.md").write_text("mine", encoding="utf-8")
    trainer.save_model()
    trainer.create_model_card()
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "mine"


def test_a_card_says_what_it_must_and_shows_no_markup() -> None:
    from deniable.deep import model_card
    from deniable.deep.progress import Progress

    stated = plan(size=40, batch=10, steps=3)
    hostile = "a\n# b <script> | `c` ---"
    card = model_card(Progress(2, stated, secure=False), name=hostile, about=hostile, license='x"\nevil: 1')
    heading = card.split("---\n")[1]
    assert heading.splitlines() == [
        'library_name: "pytorch"',
        'license: "x\\"\\nevil: 1"',
        "tags:",
        "- differential-privacy",
    ]
    assert "seeded generator" in card
    assert "2 of 3; the promise is that of all of them" in card
    assert "charged to none" in card
    assert sum(line.startswith("# ") for line in card.splitlines()) == 1
    assert not re.search(r"(?<!\\)<", card)
    with pytest.raises(InvalidArgument, match="name"):
        model_card(Progress(2, stated), name=None)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="compute_loss_func"):
        run(causal(), texts(), tmp_path, compute_loss_func=lambda *_: None)
    with pytest.raises(DataError, match="no row of the dataset could be read"):
        run(causal(), [{"input_ids": torch.arange(4)}] * 40, tmp_path)
    trainer = HuggingFaceTrainer(causal(), arguments(tmp_path), train_dataset=texts(), plan=plan(size=40))
    with pytest.raises(NotSupported, match="search"):
        trainer.train(trial=object())


def test_exact_answers_are_for_public_data(tmp_path: Path) -> None:
    data, public = texts(labelled=True), texts(4, labelled=True)
    trainer = HuggingFaceTrainer(classifier(), arguments(tmp_path), train_dataset=data, plan=plan(size=40))
    assert "eval_loss" in trainer.evaluate(public)
    assert len(trainer.predict(public).predictions) == 4
    for call in (trainer.evaluate, trainer.predict, lambda given: trainer.evaluate({"a": public, "b": given})):
        with pytest.raises(InvalidArgument, match="public data"):
            call(data)
    with pytest.raises(NotSupported, match="train\\(\\) takes the steps"):
        trainer.training_step(trainer.model, {"input_ids": torch.zeros(1, 2, dtype=torch.long)})


def test_people_with_several_texts(tmp_path: Path) -> None:
    stated = plan(size=10, batch=5, steps=2, unit="user_id", rows_per_unit=4)
    trainer = run(causal(), texts(), tmp_path, plan=stated, people=[row // 4 for row in range(40)])
    assert trainer.private is not None
    assert trainer.private.plan.unit == dn.Unit.of("user_id")
