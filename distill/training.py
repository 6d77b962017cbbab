"""The distillation loop on one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from pocketquery.distill.batches import Batch, BatchStream
from pocketquery.distill.losses import cosine_loss, ranking_loss, share_loss
from pocketquery.distill.quantization_noise import quantised_forward
from pocketquery.distill.settings import TrainingConfig
from pocketquery.distill.targets import Targets
from pocketquery.sdk.errors import ArtifactError
from pocketquery.sdk.progress import Progress
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.autocast import bfloat16_products
from pocketquery.server.training.checkpoints import load_checkpoint, save_checkpoint
from pocketquery.server.training.log import Meter, append_line, trim_log
from pocketquery.server.training.optimizer import (
    make_optimizer,
    set_learning_rate,
    trained_parameters,
)

__all__ = ["interpolate", "train"]


def train(
    student: SentenceEncoder,
    texts: list[str],
    targets: Targets,
    config: TrainingConfig,
    *,
    checkpoint: Path,
    identity: Mapping[str, Any],
    log: Path | None = None,
    show_progress_bar: bool = False,
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Train ``student`` in place until ``config.steps``, resuming from ``checkpoint`` if it exists.

    Args:
        student: the encoder to train, on the device to train on.
        texts: n training texts; row i of ``targets.vectors`` belongs to text i.
        targets: the teacher's vectors.
        config: hyper-parameters.
        checkpoint: file written every ``config.checkpoint_every`` steps and at the end.
        identity: of the run; a checkpoint of another run is refused.
        log: JSON lines of loss parts and throughput, one per checkpoint interval.
        show_progress_bar: loss, texts a second and time left on stderr.
        on_step: called with the number of steps done after each one.

    Raises:
        ArtifactError: the checkpoint is another run's, or the loss or the weights became NaN or
            infinite (the last good checkpoint is kept).
    """
    device = student.device
    # 1. State: optimiser, and whatever an earlier, interrupted call left behind.
    student.backbone.get_input_embeddings().requires_grad_(config.train_vocabulary)
    parameters = trained_parameters([student])
    optimizer = make_optimizer(parameters, config)
    start = _resume(student, optimizer, checkpoint, identity)
    if log is not None:
        trim_log(log, start)
    vectors = torch.from_numpy(targets.vectors).to(device)
    documents = torch.from_numpy(targets.documents).to(device)
    nearest = torch.from_numpy(targets.nearest)  # here, where a sample is counted without waiting
    # Where it is unsure, a student is drawn to the mean, which then ranks where vectors lie close
    # together. Directions from the mean do not draw it there.
    mean = torch.as_tensor(targets.mean, device=device)
    shares = None if targets.shares is None else torch.from_numpy(targets.shares).to(device)
    student.train()
    progress = Progress(config.steps, "distil", "step", done=start, show=show_progress_bar)
    meter = Meter()
    for step, batch in _batches(student, texts, config, start):
        # 2. Both views of the batch: the student's, and the teacher's on the clean text.
        rows = batch.rows.to(device, non_blocking=True)
        with _forward(student, step, config):
            online = student(
                batch.input_ids.to(device, non_blocking=True),
                batch.attention_mask.to(device, non_blocking=True),
            )
        # 3. The loss.
        sample = _document_sample(step, batch.rows, nearest, len(documents), config)
        ranked = documents[sample.to(device, non_blocking=True)]
        cosine = cosine_loss(online - mean, vectors[rows] - mean)
        if shares is None:
            ranking = ranking_loss(online, vectors[rows], ranked, config.temperature)
        else:
            places = torch.searchsorted(sample, nearest[batch.rows])  # of each text's own
            target_shares = online.new_zeros(len(rows), len(sample))
            target_shares.scatter_(1, places.to(device), shares[rows])
            ranking = share_loss(online, target_shares, ranked, config.temperature)
        loss = config.cosine_weight * cosine + config.ranking_weight * ranking
        # 4. The update.
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters.values(), config.max_gradient_norm)
        set_learning_rate(optimizer, step, config)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        # 5. What a person sees, and what a kill leaves.
        meter.add({"cosine_loss": cosine, "ranking_loss": ranking})
        meter.count(examples=len(rows))
        done = step + 1
        if done % 10 == 0 or done == config.steps:
            progress.note(_shown(_figures(meter)))
        progress.update()
        if done % config.checkpoint_every == 0 or done == config.steps:
            _checkpoint(checkpoint, identity, done, student, optimizer, meter, log)
            meter = Meter()
        if on_step is not None:
            on_step(done)
    progress.close()
    student.requires_grad_(True).eval()


def interpolate(
    student: SentenceEncoder, start: Mapping[str, torch.Tensor], interpolation: float
) -> None:
    """Set the student's weights to ``start`` (0), its own (1), or between them.

    Source: Wortsman et al., "Robust fine-tuning of zero-shot models" (CVPR 2022).
    """
    trained = student.state_dict()
    student.load_state_dict(
        {
            name: torch.lerp(start[name], value, interpolation)
            if value.is_floating_point()
            else value
            for name, value in trained.items()
        }
    )


def _batches(
    student: SentenceEncoder, texts: list[str], config: TrainingConfig, start: int
) -> Iterator[tuple[int, Batch]]:
    stream = BatchStream(
        texts,
        student.tokenizer,
        batch_size=config.batch_size,
        max_length=min(config.max_length, student.max_length),
        seed=config.seed,
        typo_share=config.typo_share,
        typo_rate=config.typo_rate,
        prompt=student.prompts.get("query", ""),
    )
    steps = range(start, config.steps)
    loader = DataLoader(
        stream,
        batch_size=None,
        sampler=steps,
        num_workers=config.workers,
        pin_memory=student.device.type == "cuda",
        prefetch_factor=8 if config.workers else None,
    )
    return zip(steps, loader, strict=True)


def _document_sample(
    step: int, rows: torch.Tensor, nearest: torch.Tensor, count: int, config: TrainingConfig
) -> torch.Tensor:
    """Rows of the documents this step ranks: each text's nearest, and some at random."""
    generator = torch.Generator().manual_seed(config.seed * 1_000_003 + step)
    drawn = torch.randint(count, (config.random_documents,), generator=generator)
    sample: torch.Tensor = torch.unique(torch.cat([nearest[rows].flatten(), drawn]))
    return sample


@contextmanager
def _forward(student: SentenceEncoder, step: int, config: TrainingConfig) -> Iterator[None]:
    """How this step computes: rounded as in the file at the end, before that as configured."""
    with ExitStack() as context:
        if step >= config.steps * (1 - config.quantised_share):
            context.enter_context(quantised_forward(student))
        elif config.bfloat16:
            context.enter_context(bfloat16_products(student.device))
        yield


def _resume(
    student: SentenceEncoder,
    optimizer: torch.optim.Optimizer,
    checkpoint: Path,
    identity: Mapping[str, Any],
) -> int:
    state = load_checkpoint(checkpoint, identity)
    if state is None:
        return 0
    student.load_state_dict(state["student"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _figures(meter: Meter) -> dict[str, float]:
    means = meter.read()
    losses = {name: means[name] for name in ("cosine_loss", "ranking_loss")}
    return {**losses, "texts_per_second": means["examples_per_second"]}


def _shown(figures: Mapping[str, float]) -> str:
    losses = f"cosine {figures['cosine_loss']:.4f} ranking {figures['ranking_loss']:.4f}"
    return f"{losses} {figures['texts_per_second']:.0f} texts/s"


def _checkpoint(
    path: Path,
    identity: Mapping[str, Any],
    done: int,
    student: SentenceEncoder,
    optimizer: torch.optim.Optimizer,
    meter: Meter,
    log: Path | None,
) -> None:
    now = _figures(meter)
    known = all(math.isfinite(value) for value in now.values())
    # The losses are those before the last update, which may have spoilt the weights.
    if not known or not all(torch.isfinite(values).all() for values in student.parameters()):
        raise ArtifactError(
            f"the {'weights are' if known else 'loss is'} not finite by step {done} ({now}); the "
            f"last good checkpoint is kept in {path}. Lower learning_rate or raise temperature and "
            "run again"
        )
    state = {"step": done, "student": student.state_dict(), "optimizer": optimizer.state_dict()}
    save_checkpoint(path, identity, state)
    if log is not None:
        append_line(log, {"step": done, **now})
