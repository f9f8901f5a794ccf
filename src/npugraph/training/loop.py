"""The one training loop."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from npugraph.errors import RunError, SettingsError
from npugraph.graph import Splits
from npugraph.model import Model
from npugraph.ranking.ranks import rank
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training
from npugraph.training.run_folder import Progress, Run
from npugraph.training.step import GraphStepper, Stepper

log = logging.getLogger(__name__)

Report = Callable[[dict[str, Any]], object]
Judge = Callable[[Model], dict[str, Any]]


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` takes a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SettingsError(f"device={name!r} is not a device; try cpu, cuda or auto.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device={name}: no GPU that PyTorch can use was found; try cpu.")
    return device


def make_optimizer(training: Training, settings: TrainSettings) -> torch.optim.Optimizer:
    """Return the optimiser that the settings ask for."""
    kinds: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adagrad": torch.optim.Adagrad,
        "adam": torch.optim.Adam,
        "sgd": torch.optim.SGD,
    }
    options: dict[str, Any] = {}
    if settings.optimizer == "adam":
        graphs = settings.cuda_graph and training.system.device.type == "cuda"
        options = {"capturable": graphs, "fused": True}
    groups = training.parameter_groups()
    optimizer = kinds[settings.optimizer](groups, lr=settings.learning_rate, **options)
    for group in optimizer.param_groups:
        # A group may have a step size of its own; what it starts from follows from the settings.
        group["initial_lr"] = group["lr"]
    return optimizer


def make_stepper(
    training: Training, optimizer: torch.optim.Optimizer, settings: TrainSettings
) -> Stepper:
    """Return what takes a step with a batch: as it comes, or recorded as a CUDA graph."""
    device = training.system.device
    graphs = settings.cuda_graph and device.type == "cuda"
    kind = GraphStepper if graphs else Stepper
    return kind(training.loss, optimizer, device, settings.clip)


@contextlib.contextmanager
def precision(name: str, device: torch.device) -> Any:
    """Set the arithmetic of matrix products for the time of training."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if name == "float32" else "high")
    try:
        # Said aloud: sparse gradients are not checked, or PyTorch warns that they are not.
        with (
            torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16"),
            torch.sparse.check_sparse_tensor_invariants(enable=False),  # type: ignore[no-untyped-call]
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass
class Loop:
    """All that the loop holds between epochs; ``train`` is the loop."""

    splits: Splits
    settings: TrainSettings
    device: torch.device
    training: Training
    optimizer: torch.optim.Optimizer
    run: Run | None
    progress: Progress
    report: Report | None
    judge: Judge | None
    checkpoint_seconds: float
    metrics: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stepper = make_stepper(self.training, self.optimizer, self.settings)
        self.saved = time.monotonic()

    def train(self) -> None:
        """Train to the last epoch or until patience runs out; end at the best weights."""
        while not self.progress.finished:
            started = time.perf_counter()
            epoch = self.progress.epoch + 1
            record: dict[str, Any] = {"epoch": epoch, "loss": self._epoch(epoch)}
            health = self.training.health()
            last = epoch == self.settings.epochs
            validate = last or epoch % self.settings.validate_every == 0
            if validate:
                record.update(self._validate())
            record.update(health)
            if self.judge is not None:
                record.update(self.judge(self.training.system))
            self.progress.epoch = epoch
            self.progress.finished = last or (
                self.progress.bad_validations >= self.settings.patience
            )
            record["seconds"] = round(time.perf_counter() - started, 4)
            self._keep(record, checkpoint=validate)
        if self.run is not None and not self.best:
            self.run.load_best(self.training.system)
        else:
            self.training.system.load_state_dict(self.best)
        self.training.system.eval()

    def _epoch(self, epoch: int) -> float:
        """Go once over the facts in a seeded order; return the mean loss."""
        seed, count = self.settings.seed, self.training.num_items()
        torch.manual_seed(number(seed, "global", epoch))
        self._set_step_size(epoch)
        if self.training.begin_epoch(epoch, generator(seed, "begin", epoch, device=self.device)):
            self.stepper.forget()
        self.stepper.begin(number(seed, "sampler", epoch))
        order = torch.randperm(count, generator=generator(seed, "order", epoch))
        self.training.system.train()
        for rows in torch.split(order.to(self.device), self.settings.batch_size):
            self.stepper(rows)
        mean = float(self.stepper.total) / count
        if mean != mean:
            raise RunError(f"The loss is not a number in epoch {epoch}; try a smaller step size.")
        return mean

    def _set_step_size(self, epoch: int) -> None:
        """Take a tenth of the step size, with a fresh optimiser, from ``decay_at`` on."""
        first = int(self.settings.decay_at * self.settings.epochs) + 1
        if self.settings.decay_at == 0 or epoch < first:
            return
        if epoch == first:
            # Not state.clear(): older releases of torch give Adagrad its state when it is made.
            fresh = make_optimizer(self.training, self.settings)
            self.optimizer.load_state_dict(fresh.state_dict())
            self.stepper.forget()
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] / 10

    def _validate(self) -> dict[str, Any]:
        """Rank the validation facts, filtered by train and valid alone; remember the best."""
        self.training.system.eval()
        started = time.perf_counter()
        metrics = validation_metrics(self.training.system, self.splits, self.settings)
        better = metrics["mrr"] > self.progress.best_mrr or len(self.splits.valid) == 0
        if better:
            self.progress.best_mrr = metrics["mrr"]
            self.progress.best_epoch = self.progress.epoch + 1
            self.progress.bad_validations = 0
            self._keep_best()
        else:
            self.progress.bad_validations += 1
        return {
            "valid_mrr": metrics["mrr"],
            "valid_hits@10": metrics["hits@10"],
            "best_mrr": self.progress.best_mrr,
            "validation_seconds": round(time.perf_counter() - started, 4),
        }

    def _is_due(self) -> bool:
        """Tell whether the last checkpoint is old enough for another one."""
        return time.monotonic() - self.saved >= self.checkpoint_seconds

    def _keep_best(self) -> None:
        """Write the weights as the best ones, or keep them here until the next checkpoint."""
        state = self.training.system.state_dict()
        if self.run is not None and self._is_due():
            self.run.save_best(state)
            self.best = {}
        else:
            self.best = {name: tensor.clone() for name, tensor in state.items()}

    def _save(self) -> None:
        """Write all that resuming needs; the best weights first, for they may be older."""
        assert self.run is not None
        if self.best:
            self.run.save_best(self.best)
            self.best = {}
        self.run.save_last(self.training, self.optimizer, self.progress)
        self.saved = time.monotonic()

    def _keep(self, record: dict[str, Any], checkpoint: bool) -> None:
        self.metrics.append(record)
        log.debug("%s", ", ".join(f"{name} {value}" for name, value in record.items()))
        if self.run is not None:
            self.run.log(record)
            if self.progress.finished or (checkpoint and self._is_due()):
                self._save()
        if self.report is not None:
            self.report(
                {**record, **{f"progress_{k}": v for k, v in asdict(self.progress).items()}}
            )


def validation_metrics(system: Model, splits: Splits, settings: TrainSettings) -> dict[str, float]:
    """Rank (a seeded sample of) the validation facts; the test facts are not looked at."""
    facts = splits.valid.facts
    if 0 < settings.valid_facts < len(facts):
        chosen = torch.randperm(len(facts), generator=generator(settings.seed, "valid"))
        facts = facts[chosen[: settings.valid_facts]]
    known = torch.cat([splits.train.facts, splits.valid.facts])
    ranks = rank(
        system.score_all,
        facts.to(system.device),
        splits.num_entities,
        splits.num_relations,
        {"seen": known},
    )
    return ranks.metrics("seen")
