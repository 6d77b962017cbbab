"""A run of a second or two: a tiny encoder, two objectives' worth of texts, and its settings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, Processes, pretrain
from tests.tiny_models import bert_teacher, sentences

CONFIG = PretrainingConfig(
    steps=12, batch_size=8, learning_rate=3e-3, checkpoint_every=4, log_every=2
)


class Killed(Exception):
    """Raised where a test ends a run."""


def documents(count: int = 60, lang: str = "", texts: int = 1) -> GroupList:
    """Documents of consecutive synthetic sentences."""
    found = sentences(count * texts)
    groups = [
        Group(f"{lang}{i}", tuple(found[i * texts : (i + 1) * texts]), lang=lang)
        for i in range(count)
    ]
    return GroupList(groups, "documents")


def make_encoder(seed: int = 0) -> SentenceEncoder:
    return bert_teacher(layers=1, width=16, seed=seed)


def make_parts(encoder: SentenceEncoder, **weights: float) -> list[Part]:
    """Parts over :func:`documents` by objective and weight; heads drawn with one seed."""
    torch.manual_seed(0)
    return [
        Part(build_objective(name, encoder), documents(), weight)
        for name, weight in (weights or {"mlm": 1.0}).items()
    ]


def losses(
    config: PretrainingConfig = CONFIG,
    run: Path | None = None,
    *,
    weights: dict[str, float] | None = None,
    stop_after: int | None = None,
    processes: Processes | None = None,
    make: Callable[[], tuple[SentenceEncoder, list[Part]]] | None = None,
    **options: Any,
) -> list[float]:
    """Losses of the steps a new process would take, until ``stop_after`` of the run are done."""
    if make is None:
        encoder = make_encoder()
        parts = make_parts(encoder, **(weights or {}))
    else:
        encoder, parts = make()
    found: list[float] = []

    def on_step(done: int, loss: float) -> None:
        found.append(loss)
        if done == stop_after:
            raise Killed

    with contextlib.suppress(Killed):
        pretrain(
            encoder,
            parts,
            config,
            run=run,
            processes=processes or Processes(),
            on_step=on_step,
            **options,
        )
    return found
