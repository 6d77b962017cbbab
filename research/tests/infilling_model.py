"""A small encoder and decoder that know four sentences by heart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pocketquery.server.objectives.gur import Gur, GurConfig, GurExample
from tests.tiny_models import bert_teacher

__all__ = ["FACTS", "infilling_model"]

FACTS = (
    "the leaf of the plant light sugar",
    "the norman king of the castle battle",
    "the rock of the mountain geology water",
    "the blood of the heart cell oxygen",
)
_STEPS = 300
_MASK_RATES = (0.1, 0.29)


def infilling_model(path: Path) -> Path:
    """Save a model overfitted to :data:`FACTS` and to their last words as titles; some seconds."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = bert_teacher(layers=1, width=48)
        config = GurConfig(vector_size=16, max_length=24, mask_rate=_MASK_RATES[1])
        gur = Gur(encoder, config)
        for module in gur.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        pairs = [GurExample(fact, fact, fact) for fact in FACTS]
        titles = [GurExample(fact, fact.split()[-1], fact, writes_title=True) for fact in FACTS]
        optimizer = torch.optim.AdamW([*encoder.parameters(), *gur.parameters()], lr=3e-3)
        # To rest at the end: at a constant rate it depends on the processor what it knows by then.
        decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=_STEPS)
        for step in range(_STEPS):
            rng = np.random.default_rng(step)
            gur.config = replace(config, mask_rate=rng.uniform(*_MASK_RATES))
            batch = gur.collate([*pairs, *titles], rng)
            loss = gur.loss(encoder, batch).parts["lm"]
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            decay.step()
    exported = gur.eval().export(encoder)
    exported.save(path)
    gur.save_beside(path, exported)
    return path
