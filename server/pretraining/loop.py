"""The pretraining loop on one page, for any objective and any mixture of them.

pretrain(
    encoder: SentenceEncoder,           # trained in place, on its device
    parts: Sequence[Part],              # Part(objective, source, weight=1.0)
    config: PretrainingConfig,
    *,
    run: Path | None = None,            # checkpoint.pt and log.jsonl; None keeps nothing
    held_out: HeldOut = HeldOut(),      # texts of the diagnoses
    processes: Processes = Processes(), # from join_processes(), under torchrun
    show_progress_bar: bool = False,
    on_step: Callable[[int, float], None] | None = None,
) -> SentenceEncoder                    # what ships: objective.export(encoder); .save(output)
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.data import DataLoader

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.progress import Progress
from pocketquery.server.corpus import Passages
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.autocast import bfloat16_products
from pocketquery.server.objectives.objective import LossParts, with_head
from pocketquery.server.pretraining.chunked_encoder import ChunkedEncoder
from pocketquery.server.pretraining.config import PretrainingConfig
from pocketquery.server.pretraining.diagnostics import Watch, diagnose
from pocketquery.server.pretraining.distributed import Processes
from pocketquery.server.pretraining.gradient_norms import gradient_norms, token_states
from pocketquery.server.pretraining.held_out import HeldOut
from pocketquery.server.pretraining.mixture import (
    MicroBatch,
    MixtureStream,
    Part,
    SkippedBatches,
    name_left_out,
)
from pocketquery.server.pretraining.not_finite import check_finite
from pocketquery.server.pretraining.run_state import RunState, run_identity
from pocketquery.server.training.log import Meter, append_line
from pocketquery.server.training.optimizer import (
    make_optimizer,
    set_learning_rate,
    trained_parameters,
)

__all__ = ["pretrain"]

Value = TypeVar("Value")

_SINGLE_PROCESS = Processes()
_NO_HELD_OUT = HeldOut()
_PASSAGE = 400  # bytes: some 90 tokens of English
_BYTES_A_TOKEN = 4  # of English; other scripts have more
_BUCKET = 32  # texts of like length that a processor encodes together


def pretrain(
    encoder: SentenceEncoder,
    parts: Sequence[Part],
    config: PretrainingConfig,
    *,
    run: Path | None = None,
    held_out: HeldOut = _NO_HELD_OUT,
    processes: Processes = _SINGLE_PROCESS,
    show_progress_bar: bool = False,
    on_step: Callable[[int, float], None] | None = None,
) -> SentenceEncoder:
    """Train ``encoder`` and the objectives' heads in place until ``config.steps``.

    Killed and called again with the same arguments, it continues from the last checkpoint to the
    same weights, bit for bit on a processor.

    Args:
        encoder: to train, on the device to train on.
        parts: objectives, built around ``encoder``, with their sources and weights.
        config: hyper-parameters.
        run: folder of ``checkpoint.pt`` and ``log.jsonl``; None keeps nothing. Languages with too
            few texts for a batch are named in the log and on stderr.
        held_out: texts on which the geometry is diagnosed, every ``config.diagnose_every`` steps
            (when the losses' gradient norms are measured, too, where there are several).
        processes: this process among those that train together.
        show_progress_bar: loss and time left on stderr.
        on_step: called after each step with the number of steps done and the step's loss.

    Returns:
        The encoder that ships, on the same weights and without training-only heads.

    Raises:
        InvalidInputError: no part, or one whose groups give it no batch.
        ArtifactError: the checkpoint is another run's; a loss or gradient was not finite (the
            batch is saved beside the last good checkpoint); or the vectors collapsed and
            ``config.patience`` is over.
    """
    if not parts:
        raise InvalidInputError("there is no objective to train with; expected at least one part")
    # 1. State, and whatever an earlier, interrupted call left of it.
    identity = run_identity(encoder, parts, config, processes)
    learner = _learner(encoder, config)
    parts = [_with_passages(part) for part in parts]
    objectives = nn.ModuleList([part.objective for part in parts]).to(encoder.device)
    parameters = trained_parameters([learner, objectives])
    trained = list(parameters.values())
    optimizer = make_optimizer(parameters, config)
    watch = Watch(config.patience)
    state = RunState(learner, objectives, optimizer, watch, run, identity, processes)
    start = state.resume()
    for part in parts:
        part.objective.prepare(part.source, encoder.tokenizer)
    stream = MixtureStream(parts, config, encoder.tokenizer, config.accumulate * processes.count)
    batches = _batches(stream, config, processes, start)
    _log_left_out(stream.languages_left_out(), run, processes, start)
    if config.diagnose_every and held_out and start == 0:
        _log(run, processes, 0, _geometry(learner, held_out, parts, watch, 0, {}))
    meter, figures, skipped_batches = Meter(), dict[str, float](), SkippedBatches(parts)
    bar = Progress(
        config.steps, "pretrain", "step", done=start, show=show_progress_bar and processes.first
    )
    learner.train()
    objectives.train()
    for step in range(start, config.steps):
        # 2. The micro-batches of this step: their losses, and the sum of their gradients.
        taken: list[MicroBatch] = []
        loss, pulls = 0.0, dict[str, float]()
        looks = config.diagnose_every > 0 and (step + 1) % config.diagnose_every == 0
        compares = looks and run is not None and not config.cache_rows  # it would encode again
        for number in _numbers(step, config, processes):
            for piece in next(batches):
                taken.append(piece)
                skipped_batches.see(piece)
                if piece.batch is None:
                    continue
                part = parts[piece.part]
                with token_states(learner, enabled=compares) as states:
                    losses = _loss(learner, part, piece, number, config)
                pulls |= gradient_norms(_named(part, losses.parts), states)
                weight = part.weight if config.mixture == "sum" else 1.0
                total = losses.total * (weight / config.accumulate)
                if total.requires_grad:
                    total.backward()  # type: ignore[no-untyped-call]
                loss += float(total.detach())
                meter.add(_named(part, {**losses.parts, **losses.stats}))
        # 3. The mean over all processes; one that is no number ends the run in all of them.
        processes.average_gradients(trained)
        norm = torch.nn.utils.clip_grad_norm_(trained, config.max_gradient_norm)
        loss, tokens, examples, skipped = processes.sum(_done(loss, taken), learner.device)
        loss /= processes.count
        check_finite(loss, norm, step, taken, run, processes)
        # 4. The update, and what follows it: targets, memory banks.
        rate = set_learning_rate(optimizer, step, config, config.schedule)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        _after_step(learner, parts, taken, step, config)
        # 5. What a person sees, and what a kill leaves.
        now = step + 1
        bar.note(f"loss {loss:.4f}")
        bar.update()
        meter.add({"loss": loss, "gradient_norm": norm})
        meter.count(tokens=tokens, examples=examples, skipped=skipped)
        save = now % config.checkpoint_every == 0 or now == config.steps
        if save or now % config.log_every == 0:
            figures = meter.read()
            _log(run, processes, now, {"learning_rate": rate, **figures})
            meter = Meter()
        if looks and len(pulls) > 1:
            _log(run, processes, now, {"gradient_norms": pulls})
        if looks and held_out:
            _log(run, processes, now, _geometry(learner, held_out, parts, watch, now, figures))
            learner.train()
            objectives.train()
            watch.check(now)
        if save:
            state.save(now)
        if on_step is not None:
            on_step(now, loss)
    bar.close()
    return _shipped(encoder, parts)


def _learner(encoder: SentenceEncoder, config: PretrainingConfig) -> SentenceEncoder:
    """The encoder as the losses see it; on accelerators padding costs less than more launches."""
    if config.cache_rows:
        return ChunkedEncoder(encoder, config.cache_rows, twice=True)
    return ChunkedEncoder(encoder, _BUCKET) if encoder.device.type == "cpu" else encoder


def _with_passages(part: Part) -> Part:
    """An objective of passages reads documents and sessions in pieces that it need not cut."""
    if not part.objective.passages or part.source.kind not in ("documents", "sessions"):
        return part
    if isinstance(part.source, Passages):
        return part
    most = _PASSAGE
    if part.objective.least_texts == 1:  # others take a passage apart
        most = min(most, _BYTES_A_TOKEN * part.objective.max_length)
    return replace(part, source=Passages(part.source, most, most // 4))


def _numbers(step: int, config: PretrainingConfig, processes: Processes) -> range:
    """The numbers of this process's micro-batches of ``step``, among those of the whole run."""
    a_step = config.accumulate * processes.count
    return range(step * a_step + processes.rank, (step + 1) * a_step, processes.count)


def _batches(
    stream: MixtureStream, config: PretrainingConfig, processes: Processes, start: int
) -> Iterator[list[MicroBatch]]:
    steps = range(start, config.steps)
    loader = DataLoader(
        stream,
        batch_size=None,
        sampler=[number for step in steps for number in _numbers(step, config, processes)],
        num_workers=config.workers,
        collate_fn=_as_it_is,
        prefetch_factor=4 if config.workers else None,
    )
    return iter(loader)


def _log_left_out(
    left_out: Mapping[str, Mapping[str, int]], run: Path | None, processes: Processes, start: int
) -> None:
    """Say in the log, and to a person, which languages are never trained on."""
    if not left_out or not processes.first:
        return
    if start == 0:  # the log of a run that resumes says so already
        _log(run, processes, 0, {"languages_left_out": left_out})
    print(
        f"pocketquery: warning: languages are left out of training: {name_left_out(left_out)}. "
        "They have too few texts for a batch of their own; add some",
        file=sys.stderr,
    )


def _as_it_is(item: Any) -> Any:
    return item


def _loss(
    encoder: SentenceEncoder,
    part: Part,
    piece: MicroBatch,
    number: int,
    config: PretrainingConfig,
) -> LossParts:
    """The loss of a batch; its dropout follows from the seed and the batch's number."""
    key = f"{config.seed}/{piece.part}/{number}".encode()
    torch.manual_seed(int.from_bytes(hashlib.sha256(key).digest()[:8], "little") >> 1)
    device = encoder.device
    with bfloat16_products(device, config.bfloat16):
        return part.objective.loss(encoder, _moved(piece.batch, device))


def _moved(value: Any, device: torch.device) -> Any:
    """Tensors to ``device``, also inside lists, tuples and dicts; the rest as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {name: _moved(inner, device) for name, inner in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_moved(inner, device) for inner in value)
    if isinstance(value, tuple):  # a named one
        return type(value)(*(_moved(inner, device) for inner in value))
    return value


def _named(part: Part, values: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{part.objective.name}/{name}": value for name, value in values.items()}


def _done(loss: float, taken: Sequence[MicroBatch]) -> list[float]:
    """Loss, tokens, examples and skipped batches of this process's step."""
    tokens = sum(piece.tokens for piece in taken)
    examples = sum(piece.examples for piece in taken)
    return [loss, tokens, examples, sum(piece.batch is None for piece in taken)]


def _after_step(
    encoder: SentenceEncoder,
    parts: Sequence[Part],
    taken: Sequence[MicroBatch],
    step: int,
    config: PretrainingConfig,
) -> None:
    """Once a step for every objective that had a batch, with the last one."""
    last = {piece.part: piece.batch for piece in taken if piece.batch is not None}
    for place, batch in last.items():
        moved = _moved(batch, encoder.device)
        parts[place].objective.after_step(encoder, moved, step, config.steps)


def _geometry(
    encoder: SentenceEncoder,
    held_out: HeldOut,
    parts: Sequence[Part],
    watch: Watch,
    step: int,
    figures: Mapping[str, float],
) -> dict[str, Any]:
    """What the vectors look like, and all that is alarming, also in the last logged figures."""
    diagnoses = diagnose(encoder, held_out, parts)
    own_alarms: list[str] = []
    for part in parts:
        prefix = f"{part.objective.name}/"
        own = {n.removeprefix(prefix): v for n, v in figures.items() if n.startswith(prefix)}
        own_alarms += [f"{part.objective.name}.{name}" for name in part.objective.alarms(own)]
    alarms = watch.alarms(diagnoses, own_alarms, counts=step > 0)
    return {"geometry": {view: one.figures() for view, one in diagnoses.items()}, "alarms": alarms}


def _log(run: Path | None, processes: Processes, step: int, row: Mapping[str, Any]) -> None:
    if run is not None and processes.first:
        append_line(run / "log.jsonl", {"step": step, **row})


def _shipped(encoder: SentenceEncoder, parts: Sequence[Part]) -> SentenceEncoder:
    """What the objectives export: a new encoder on the same weights, in a space of its own."""
    for part in parts:
        part.objective.eval()
        encoder = part.objective.export(encoder)
    return with_head(encoder, encoder.head)
