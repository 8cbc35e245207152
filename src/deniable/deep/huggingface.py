"""A `transformers.Trainer` that trains privately: everything of it but the training loop, which is the plan's.

    trainer = dn.deep.HuggingFaceTrainer(model, arguments, train_dataset=data, plan=plan, ledger="run.ledger")
    trainer.train()

Optimizer, schedule, callbacks, collator, evaluation and saving are those of `transformers`. How many steps there are,
who is in a batch and how large it is, clipping and noise are the plan's. `per_device_train_batch_size` is how many rows
go through the model at once; an epoch, for those who evaluate or save by epochs, is size/batch steps. What the plan
says is not said twice: `num_train_epochs` and `max_grad_norm`, which always have a value, are not read; `max_steps` and
`gradient_accumulation_steps` are refused where they differ from the plan. The training loss is private and not logged.
Adapters of `peft` are ordinary frozen and trainable parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional
from transformers.trainer_utils import TrainOutput

from deniable import _files
from deniable.deep.cards import model_card
from deniable.deep.plan import Plan
from deniable.deep.progress import Observer
from deniable.deep.randomness import Generator
from deniable.deep.trainer import Trainer
from deniable.errors import FileError, InvalidArgument, NotSupported
from deniable.ledger import Ledger

CHECKPOINT = "private.pt"
"""The name of the checkpoint in the output folder."""


def per_example_loss(model: nn.Module, *, smoothing: float = 0.0) -> Callable[[Any, Tensor], Tensor]:
    """The model's own loss of each example, averaged over its own tokens where it has many.

    Cross entropy for classes and tokens, with `smoothing` if given; squared error for real labels; one binary cross
    entropy per class where `config.problem_type` says so; the mean of both ends for questions with answers in a text.
    A label of −100 does not count. A model for causal language predicts the next token, so its labels move by one.
    """
    several = getattr(getattr(model, "config", None), "problem_type", None) == "multi_label_classification"
    causal = any(kind.__name__.endswith(("ForCausalLM", "LMHeadModel")) for kind in _kinds(model))

    def loss(output: Any, labels: Tensor) -> Tensor:
        if getattr(output, "start_logits", None) is not None:
            return (_place_loss(output.start_logits, labels[:, 0]) + _place_loss(output.end_logits, labels[:, 1])) / 2
        logits = output.logits
        if smoothing and (several or labels.is_floating_point()):
            raise NotSupported("label_smoothing_factor is for labels that are one class each; leave it out.")
        if several:
            targets = labels.to(logits.dtype)
            return functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").flatten(1).mean(1)
        if labels.is_floating_point():
            return functional.mse_loss(logits.reshape(labels.shape), labels, reduction="none").flatten(1).mean(1)
        if labels.dim() == 1:
            return functional.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
        if causal:
            logits, labels = logits[:, :-1], labels[:, 1:]
        each = functional.cross_entropy(
            logits.transpose(1, 2), labels, reduction="none", ignore_index=-100, label_smoothing=smoothing
        )
        return each.sum(1) / (labels != -100).sum(1).clamp_min(1)

    return loss


def _place_loss(logits: Tensor, place: Tensor) -> Tensor:
    """The cross entropy of the place of a token; one outside the text does not count."""
    beyond = logits.shape[1]
    return functional.cross_entropy(logits, place.clamp(0, beyond), reduction="none", ignore_index=beyond)


def _kinds(model: nn.Module) -> list[type]:
    """The classes of a model and of what an adapter wraps."""
    return [type(module) for module in model.modules()]


class HuggingFaceTrainer(transformers.Trainer):  # type: ignore[misc, unused-ignore]
    """`transformers.Trainer` with a private training loop. `loss(output, labels)` gives one loss per example."""

    def __init__(
        self,
        *arguments: Any,
        plan: Plan,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        run: str | None = None,
        loss: Callable[[Any, Tensor], Tensor] | None = None,
        people: ArrayLike | None = None,
        generator: Generator | None = None,
        observers: Sequence[Observer] = (),
        **keywords: Any,
    ) -> None:
        if keywords.get("compute_loss_func") is not None:
            raise InvalidArgument("compute_loss_func", "...", "left out", "Give loss=, with one loss per example.")
        super().__init__(*arguments, **keywords)
        if self.args.world_size > 1 or self.args.n_gpu > 1:
            raise NotSupported(
                "private training runs in one process on one device; set CUDA_VISIBLE_DEVICES to one GPU."
            )
        self._network = cast(nn.Module, self.model)
        settings = getattr(self._network, "config", None)
        if getattr(settings, "use_cache", False):
            settings.use_cache = False  # type: ignore[union-attr]  # past keys and values are of no use in training
        self._refuse_other_plans(plan)
        own = per_example_loss(self._network, smoothing=float(self.args.label_smoothing_factor))
        if loss is not None and self.args.label_smoothing_factor:
            raise InvalidArgument("label_smoothing_factor", self.args.label_smoothing_factor, "0 beside a loss=")
        self.plan, self._people, self._loss = plan, people, loss or own
        self._settings: dict[str, Any] = {"ledger": ledger, "generator": generator, "observers": observers}
        self._run = run
        self.private: Trainer | None = None

    def _refuse_other_plans(self, plan: Plan) -> None:
        """Refuse arguments that say something else than the plan, or that nothing here would do."""
        given = self.args
        if given.max_steps > 0 and given.max_steps != plan.steps:
            raise InvalidArgument("max_steps", given.max_steps, f"left out, or {plan.steps} as in the plan")
        if given.gradient_accumulation_steps != 1:
            raise InvalidArgument(
                "gradient_accumulation_steps",
                given.gradient_accumulation_steps,
                "1: the plan says how many rows a step has, and per_device_train_batch_size how many go at once",
            )
        best = "load_best_model_at_end" if given.load_best_model_at_end else "save_strategy"
        if given.load_best_model_at_end or given.save_strategy == "best":
            raise InvalidArgument(
                best,
                getattr(given, best),
                "another: one checkpoint is kept, that of the last save, and the run goes on from it",
                "Keep the weights of the best evaluation in a callback.",
            )

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Take the steps of the plan; with `resume_from_checkpoint`, those that remain of the run saved there."""
        if trial is not None:
            raise NotSupported("a search over settings trains many times, and every training is charged; train once.")
        if not resume_from_checkpoint and self.args.save_strategy != "no":
            self._check_place()
        self.create_optimizer_and_scheduler(num_training_steps=self.plan.steps)
        self.private = self._trainer(resume_from_checkpoint)
        if self.args.gradient_checkpointing:
            again = {"use_reentrant": False, **cast(dict[str, Any], self.args.gradient_checkpointing_kwargs or {})}
            cast(Any, self._network).gradient_checkpointing_enable(gradient_checkpointing_kwargs=again)
        self._network.train()
        self.state.max_steps, self.state.global_step = self.plan.steps, self.private.progress.step
        cast(Any, self.state).compute_steps(self.args, self.plan.steps)
        handler = self.callback_handler
        self.control = handler.on_train_begin(self.args, self.state, self.control)
        batches = self.private.batches(
            self.train_dataset,
            people=self._people,
            collate=self._collated,
            num_workers=self.args.dataloader_num_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor or 2,
        )
        epoch = max(1, round(self.plan.size / self.plan.batch))
        for batch in batches:
            if self.state.global_step % epoch == 0:
                self.control = handler.on_epoch_begin(self.args, self.state, self.control)
            self.control = handler.on_step_begin(self.args, self.state, self.control)
            self.state.global_step = self.private.step(batch).step
            self.state.epoch = self.state.global_step / epoch
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
            self.control = handler.on_step_end(self.args, self.state, self.control)
            if self.state.global_step % epoch == 0:
                self.control = handler.on_epoch_end(self.args, self.state, self.control)
            self._answer(ignore_keys_for_eval)
            if self.control.should_training_stop:
                break
        self.control = handler.on_train_end(self.args, self.state, self.control)
        return TrainOutput(self.state.global_step, float("nan"), {"steps": float(self.state.global_step)})

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Score public data. Scores are exact, so the training data are refused."""
        self._refuse_training_data("eval_dataset", self.eval_dataset if eval_dataset is None else eval_dataset)
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)

    def predict(self, test_dataset: Any, ignore_keys: list[str] | None = None, metric_key_prefix: str = "test") -> Any:
        """Answers of the model on public data, and their scores. Both are exact, so the training data are refused."""
        self._refuse_training_data("test_dataset", test_dataset)
        return super().predict(test_dataset, ignore_keys, metric_key_prefix)

    def _refuse_training_data(self, name: str, data: Any) -> None:
        given = list(data.values()) if isinstance(data, dict) else [data]
        if any(each is self.train_dataset for each in given):
            raise InvalidArgument(name, "the training data", "public data", "Scores of private rows would be exact.")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the weights as `transformers` does, and a card beside them unless a README.md is there."""
        super().save_model(output_dir, _internal_call)
        self._write_card(Path(output_dir or str(self.args.output_dir)))

    def create_model_card(self, *arguments: Any, **keywords: Any) -> None:
        """Write the card of the private run into the output folder, unless a README.md is there."""
        self._write_card(Path(str(self.args.output_dir)))

    def _write_card(self, folder: Path) -> None:
        place = folder / "README.md"
        if self.private is not None and not os.path.lexists(place):
            text = model_card(self.private.progress, name=type(self._network).__name__, library="transformers")
            _files.write_text(place, text)

    def training_step(self, *arguments: Any, **keywords: Any) -> Tensor:
        """Refused: a step by itself would be neither clipped nor paid for."""
        raise NotSupported("a step by itself is not private; train() takes the steps of the plan.")

    def _trainer(self, resume: str | bool | None) -> Trainer:
        arguments, optimizer = self.args, cast(torch.optim.Optimizer, self.optimizer)
        settings: dict[str, Any] = {
            **self._settings,
            "microbatch": max(1, arguments.per_device_train_batch_size // self.plan.rows_per_unit),
            "compile": True if arguments.torch_compile else "auto",
            "autocast": torch.bfloat16 if arguments.bf16 else torch.float16 if arguments.fp16 else None,
            "loss_scale": 2.0**12 if arguments.fp16 else 1.0,
        }
        if not resume:
            return Trainer(self._network, optimizer, self._loss, self.plan, run=self._run, **settings)
        path = resume if isinstance(resume, str) else self._place
        found = Trainer.resume(path, self._network, optimizer, self._loss, **settings)
        if found.plan != self.plan:
            raise InvalidArgument("plan", self.plan, "the plan of the checkpoint")
        if self.lr_scheduler is not None:
            step = found.progress.step
            self.lr_scheduler.load_state_dict(
                {**self.lr_scheduler.state_dict(), "last_epoch": step, "_step_count": step + 1}
            )
        return found

    @property
    def _place(self) -> Path:
        """Where the run is saved."""
        return Path(str(self.args.output_dir)) / CHECKPOINT

    def _check_place(self) -> None:
        """Refuse, before the charge, a folder that holds another run or cannot be written."""
        _files.make_folder(self._place.parent)
        if os.path.lexists(self._place):
            raise FileError(
                self._place,
                f"{_files.show_path(self._place)} is the checkpoint of another run; go on with that one by"
                " train(resume_from_checkpoint=True), or choose another output_dir.",
            )
        _files.check_target(self._place)

    def _answer(self, ignore_keys_for_eval: list[str] | None) -> None:
        """Do what callbacks asked for. The loss on the training data is not among it."""
        if self.control.should_log:
            self.log({"learning_rate": cast(torch.optim.Optimizer, self.optimizer).param_groups[0]["lr"]})
        if self.control.should_evaluate:
            self._evaluate(None, ignore_keys_for_eval)
            self._network.train()
        if self.control.should_save and self.private is not None:
            _files.make_folder(self._place.parent)
            self.private.save(self._place)

    def _collated(self, items: list[Any]) -> tuple[dict[str, Any], Tensor]:
        """The collator's batch as inputs and labels."""
        collate = self._get_collator_with_removed_columns(self.data_collator, description="training")
        batch = dict(collate(items))
        if "start_positions" in batch and "end_positions" in batch:
            return batch, torch.stack([batch.pop("start_positions"), batch.pop("end_positions")], 1)
        if "labels" not in batch:
            raise InvalidArgument("train_dataset", sorted(batch), "one whose batches hold labels")
        labels = batch.pop("labels")
        shift = getattr(self._network, "prepare_decoder_input_ids_from_labels", None)
        if shift is not None and "decoder_input_ids" not in batch:
            batch["decoder_input_ids"] = shift(labels=labels)
        return batch, labels
