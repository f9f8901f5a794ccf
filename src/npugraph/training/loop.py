"""The one training loop."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from npugraph.errors import RunError, SettingsError
from npugraph.graph import Splits
from npugraph.model import Model
from npugraph.ranking.ranks import Ranks, ScoreAll, rank
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import VALIDATION, Training
from npugraph.training.checkpoints import Checkpoints
from npugraph.training.optimizers import make_optimizer
from npugraph.training.run_folder import Progress
from npugraph.training.step import StepRecorder, descend

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


def train(
    training: Training,
    optimizer: torch.optim.Optimizer,
    splits: Splits,
    settings: TrainSettings,
    progress: Progress,
    checkpoints: Checkpoints,
    *,
    report: Report | None = None,
    judge: Judge | None = None,
) -> list[dict[str, Any]]:
    """Train to the last epoch or until patience runs out; end at the best weights.

    A resumed run equals an unbroken one bit for bit: all that is drawn in an epoch follows from
    the seed and the number of the epoch, and all else is in a checkpoint.

    Returns:
        What was measured, one line per epoch, as ``report`` sees them.
    """
    device, lines = training.system.device, []
    rng, total = torch.Generator(device), torch.zeros((), device=device)
    # What ranks exchange is not recorded, nor are gradients of as many rows as there happen to be.
    share, sparse = training.system.share, training.system.has_sparse_steps(device)
    records = settings.cuda_graph and share.peers.size == 1 and not sparse
    recorder = StepRecorder(rng, records and device.type == "cuda")
    while not progress.finished:
        started = time.perf_counter()
        epoch = progress.epoch + 1
        batches = begin_epoch(epoch, training, optimizer, settings, recorder)
        for rows in with_step_size(batches, epoch, training, optimizer, settings):
            if not recorder.replay(rows):
                with recorder.recording(rows) as batch:
                    # Not kept under a name: a loss holds on to its step, which must be over.
                    step = descend(
                        training.loss(batch, rng), optimizer, settings.clip, share.gradients
                    )
                    total += step * len(batch)
        line = {"epoch": epoch, "loss": _mean_loss(total, training.num_items(), epoch)}
        health = training.health()
        last = epoch == settings.epochs
        checked = last or epoch % settings.validate_every == 0
        if checked:
            line |= _validate(epoch, training, splits, settings, progress, checkpoints)
        line |= health
        if judge is not None:
            line |= judge(training.system)
        progress.epoch = epoch
        progress.finished = last or progress.bad_validations >= settings.patience
        line["seconds"] = round(time.perf_counter() - started, 4)
        lines.append(line)
        log.debug("%s", ", ".join(f"{name} {value}" for name, value in line.items()))
        checkpoints.log(line)
        if progress.finished or (checked and checkpoints.is_due()):
            checkpoints.save(training, optimizer, progress)
        if report is not None:
            report({**line, **{f"progress_{k}": v for k, v in asdict(progress).items()}})
    checkpoints.restore_best(training.system)
    training.system.eval()
    return lines


def begin_epoch(
    epoch: int,
    training: Training,
    optimizer: torch.optim.Optimizer,
    settings: TrainSettings,
    recorder: StepRecorder,
) -> Sequence[Tensor]:
    """Prepare an epoch and return its batches: all items once, in a seeded order."""
    seed, device = settings.seed, training.system.device
    torch.manual_seed(number(seed, "global", epoch))
    fresh = _set_step_size(epoch, training, optimizer, settings)
    moved = training.begin_epoch(epoch, generator(seed, "begin", epoch, device=device))
    if fresh or moved:
        recorder.forget()
    recorder.rng.manual_seed(number(seed, "sampler", epoch))
    order = torch.randperm(training.num_items(), generator=generator(seed, "order", epoch))
    training.system.train()
    return torch.split(order.to(device), settings.batch_size)


def _set_step_size(
    epoch: int, training: Training, optimizer: torch.optim.Optimizer, settings: TrainSettings
) -> bool:
    """Take a tenth of the step size from ``decay_at`` on; tell whether the optimiser is fresh."""
    first = int(settings.decay_at * settings.epochs) + 1
    small = settings.decay_at > 0 and epoch >= first
    fresh = small and epoch == first
    if fresh:
        # Not state.clear(): older releases of torch give Adagrad its state when it is made.
        optimizer.load_state_dict(make_optimizer(training, settings).state_dict())
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] / 10 if small else group["initial_lr"]
    return fresh


def with_step_size(
    batches: Sequence[Tensor],
    epoch: int,
    training: Training,
    optimizer: torch.optim.Optimizer,
    settings: TrainSettings,
) -> Iterator[Tensor]:
    """Yield the batches of an epoch, each with the share of the step size that is left for it."""
    sizes = [group["lr"] for group in optimizer.param_groups]
    for before, rows in enumerate(batches):
        done = (epoch - 1 + before / len(batches)) / settings.epochs
        for group, size in zip(optimizer.param_groups, sizes, strict=True):
            group["lr"] = size * training.step_share(done)
        yield rows


def _mean_loss(total: Tensor, count: int, epoch: int) -> float:
    """Return the mean of what was added up over an epoch, and set the sum back to 0."""
    mean = float(total) / count
    total.zero_()
    if mean != mean:
        raise RunError(f"The loss is not a number in epoch {epoch}; try a smaller step size.")
    return mean


def validate_start(
    training: Training,
    optimizer: torch.optim.Optimizer,
    splits: Splits,
    settings: TrainSettings,
    progress: Progress,
    checkpoints: Checkpoints,
    *,
    ends: bool,
) -> None:
    """Validate what a training starts from, as epoch 0; with ``ends`` it is all there is."""
    line = {"epoch": 0, **_validate(0, training, splits, settings, progress, checkpoints)}
    progress.finished = ends
    checkpoints.log(line)
    if ends:
        checkpoints.save(training, optimizer, progress)


def _validate(
    epoch: int,
    training: Training,
    splits: Splits,
    settings: TrainSettings,
    progress: Progress,
    checkpoints: Checkpoints,
) -> dict[str, Any]:
    """Rank the validation facts, filtered by train and valid alone; remember the best."""
    training.system.eval()
    started = time.perf_counter()
    metrics = validation_metrics(training, splits, settings)
    # The last bits may differ between ranks; what follows from them must not.
    metrics = training.system.share.peers.same(metrics)
    if metrics["mrr"] > progress.best_mrr or len(splits.valid) == 0:
        progress.best_mrr = metrics["mrr"]
        progress.best_epoch = epoch
        progress.bad_validations = 0
        checkpoints.keep_best(training.system)
    else:
        progress.bad_validations += 1
    return {
        **{f"valid_{name}": value for name, value in metrics.items()},
        "best_mrr": progress.best_mrr,
        "validation_seconds": round(time.perf_counter() - started, 4),
    }


def validation_metrics(
    training: Training, splits: Splits, settings: TrainSettings
) -> dict[str, float]:
    """Rank (a seeded sample of) the validation facts; the test facts are not looked at.

    Returns:
        ``mrr``, ``hits@10``, the ``mrr`` of every kind of facts that the system tells apart, and
        what a training has chosen by them.
    """
    system = training.system
    facts = splits.valid.facts
    if 0 < settings.valid_facts < len(facts):
        chosen = torch.randperm(len(facts), generator=generator(settings.seed, "valid"))
        facts = facts[chosen[: settings.valid_facts]]
    facts = facts.to(system.device)
    known = torch.cat([splits.train.facts, splits.valid.facts])

    def ranked(score_all: ScoreAll) -> Ranks:
        sizes = splits.num_entities, splits.num_relations
        return rank(score_all, facts, *sizes, {VALIDATION: known})

    ranks, choices = training.validate(ranked)
    found = {name: ranks.metrics(VALIDATION)[name] for name in ("mrr", "hits@10")}
    for name, mask in system.kinds_of(facts).items():
        found[f"mrr_{name}"] = ranks.metrics(VALIDATION, where=mask.cpu().numpy())["mrr"]
    return found | choices
