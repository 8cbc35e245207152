"""What is shown of a run while it goes on: public numbers alone, to loggers, and a rule that stops it early.

| name | what it is |
|---|---|
| `learning_rate`, `clip` | of the step: functions of what was released before |
| `released/loss` | the plan's series, with its noise, where there is one |
| `evaluation/…` | what `evaluate(model)` returned: it is yours to say, and must come from public data |

Losses and norms without noise (`trainer.private`) are in none of them. A run that is stopped early costs what its whole
plan costs, and stopping it by released numbers is post-processing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import nn

from deniable import _checks
from deniable.errors import InvalidArgument, NotSupported

if TYPE_CHECKING:
    from deniable.deep.trainer import Trainer

Evaluate = Callable[[nn.Module], Mapping[str, float]]
"""A model, in evaluation mode and with averaged weights where some are kept, to numbers by name."""


@runtime_checkable
class Logger(Protocol):
    """Takes the public numbers of a step."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Step number `step`, from 1, and numbers by name."""


class TensorBoardLogger:
    """Writes numbers to a folder that TensorBoard shows; needs the package `tensorboard`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise NotSupported("TensorBoardLogger needs tensorboard; run: pip install tensorboard") from error
        self._writer: Any = SummaryWriter(os.fspath(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the numbers of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the released losses no longer fall: their mean over the last `window` steps was not below the least
    mean before it for `patience` steps. It looks at `trainer.series`, so the plan needs one."""

    patience: int
    window: int = 20

    def __post_init__(self) -> None:
        _checks.count("patience", self.patience)
        _checks.count("window", self.window)

    def __call__(self, trainer: Trainer) -> bool:
        losses = [point.loss for point in trainer.series]
        if len(losses) < self.window + self.patience:
            return False
        means = [sum(losses[end - self.window : end]) for end in range(self.window, len(losses) + 1)]
        return min(means[-self.patience :]) >= min(means[: -self.patience])


class Monitor:
    """Evaluates, logs and stops, as `fit` was told."""

    def __init__(
        self,
        trainer: Trainer,
        *,
        evaluate: Evaluate | None,
        evaluate_every: int,
        loggers: Sequence[Logger],
        stop: Callable[[Trainer], bool] | None,
    ) -> None:
        self._trainer, self._evaluate, self._loggers, self._stop = trainer, evaluate, tuple(loggers), stop
        self._often = _checks.count("evaluate_every", evaluate_every)
        for name, given in (("evaluate", evaluate), ("stop", stop)):
            if given is not None and not callable(given):
                raise InvalidArgument(name, type(given).__name__, "a function")
        if not all(isinstance(each, Logger) for each in self._loggers):
            raise InvalidArgument(
                "loggers", [type(each).__name__ for each in loggers], "with a method log(step, values)"
            )
        if isinstance(stop, EarlyStopping) and trainer.plan.series is None:
            raise InvalidArgument("stop", stop, "given with a plan that has a series", "Plan(series=LossSeries(…)).")

    def take(self, clip: float) -> bool:
        """Show a step that clipped to `clip`; whether the run is to stop."""
        trainer, step = self._trainer, self._trainer.progress.step
        values: dict[str, float] = {"learning_rate": float(trainer.optimizer.param_groups[0]["lr"]), "clip": clip}
        if trainer.series:
            values["released/loss"] = trainer.series[-1].loss
        if self._evaluate is not None and (step % self._often == 0 or step == trainer.plan.steps):
            found = self._scores(self._evaluate)
            trainer.evaluations.append((step, found))
            values |= {f"evaluation/{name}": each for name, each in found.items()}
        for logger in self._loggers:
            logger.log(step, values)
        return self._stop is not None and bool(self._stop(trainer))

    def _scores(self, evaluate: Evaluate) -> dict[str, float]:
        """The numbers of the averaged model in evaluation mode; training goes on as if nobody had asked."""
        model = self._trainer.model
        modes = [(module, module.training) for module in model.modules()]
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        try:
            model.eval()
            with torch.random.fork_rng(devices), torch.no_grad(), self._trainer.averaged():
                return {str(name): float(each) for name, each in evaluate(model).items()}
        finally:
            for module, training in modes:
                module.training = training
