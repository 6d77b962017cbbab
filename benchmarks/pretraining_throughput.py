"""Tokens a second of contrastive training, against sentence-transformers' own trainer.

    python benchmarks/pretraining_throughput.py [--steps 12] [--rounds 3]

The same model (the preset "mini" with the demo teacher's vocabulary), the same pairs (neighbouring
sentences of the demo's articles), the same batch of 64 pairs, the same loss (cross entropy over the
batch's cosines times 20, which sentence-transformers calls MultipleNegativesRankingLoss), AdamW,
clipping, dropout, and one thread. Both trainers run as they come. Each run is a process of its own,
and they take turns; counted are real tokens, without padding, and the CPU time from the third step
on, which with one thread is the wall clock's on a machine with nothing else to do. The figure is
the median over the rounds of ours by theirs.

Must reach 1.3. Needs the extra bench. The last line is one JSON object; the exit code is 1 where
the figure is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

LEAST = 1.3
PAIRS, BATCH, LENGTH, RATE, SKIPPED = 4000, 64, 128, 3e-4, 2
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=12, help="timed steps of a run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contestant")
    parser.add_argument("--contestant", choices=["ours", "theirs"], help="for itself")
    parser.add_argument("--folder", type=Path, help="for itself")
    options = parser.parse_args()
    if options.contestant:
        run = train_ours if options.contestant == "ours" else train_theirs
        print(json.dumps(run(options.folder, options.steps + SKIPPED)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        rounds = [compare(Path(folder), options.steps) for _ in range(options.rounds)]
    figures = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    for name in ("ours", "theirs"):
        print(
            f"{name:7}{figures[f'{name}_tokens_per_second']:9.0f} tokens/s, of 100 that are "
            f"encoded {100 * figures[f'{name}_real_share']:.0f} are no padding"
        )
    reached = figures["ratio"] >= LEAST
    print(f"ratio {figures['ratio']:.2f}, expected at least {LEAST}")
    print(json.dumps({**figures, "reached": reached}))
    return 0 if reached else 1


def build(folder: Path) -> None:
    """The model both start from, and the pairs both learn from."""
    from pocketquery.server.corpus import split_sentences
    from pocketquery.server.modeling import SentenceEncoder
    from pocketquery.server.modeling.presets import new_encoder
    from pocketquery_demo.corpus import read_demo_corpus

    tokenizer = SentenceEncoder.load("demo").tokenizer
    new_encoder("mini", tokenizer, max_length=LENGTH).save(folder / "model")
    pairs: list[tuple[str, str]] = []
    for document in read_demo_corpus().documents:
        found = split_sentences(document.text)
        pairs += pairwise(found)
    (folder / "pairs.json").write_text(json.dumps(pairs[:PAIRS]), encoding="utf-8")


def compare(folder: Path, steps: int) -> dict[str, float]:
    """One round: both, one after the other."""
    figures: dict[str, float] = {}
    for name in ("theirs", "ours"):
        command = [sys.executable, __file__, "--contestant", name]
        command += ["--folder", str(folder), "--steps", str(steps)]
        done = subprocess.run(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
        )
        found = json.loads(done.stdout.splitlines()[-1])
        figures[f"{name}_tokens_per_second"] = found["tokens"] / found["seconds"]
        figures[f"{name}_real_share"] = found["tokens"] / found["padded"]
    figures["ratio"] = figures["ours_tokens_per_second"] / figures["theirs_tokens_per_second"]
    return figures


class Count:
    """Real and padded tokens that a model was given, and the CPU time, from ``SKIPPED`` on."""

    def __init__(self, backbone: Any) -> None:
        self.tokens = self.padded = self.steps = 0
        self.started = 0.0
        backbone.get_input_embeddings().register_forward_pre_hook(self._encoded)

    def _encoded(self, table: Any, arguments: Any) -> None:
        ids = arguments[0]
        self.tokens += int((ids != table.padding_idx).sum())
        self.padded += ids.numel()

    def step(self) -> None:
        """One more is done."""
        self.steps += 1
        if self.steps == SKIPPED:
            self.tokens = self.padded = 0
            self.started = time.process_time()

    def result(self) -> dict[str, float]:
        """What one run came to; call it at once after the last step."""
        seconds = time.process_time() - self.started
        return {"tokens": self.tokens, "padded": self.padded, "seconds": seconds}


def train_ours(folder: Path, steps: int) -> dict[str, float]:
    """Ours, by ``pretrain``."""
    import torch

    from pocketquery.server.corpus import Group, GroupList
    from pocketquery.server.modeling import SentenceEncoder
    from pocketquery.server.objectives import build_objective
    from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain

    torch.set_num_threads(1)
    pairs = json.loads((folder / "pairs.json").read_text("utf-8"))
    source = GroupList([Group(str(i), tuple(pair)) for i, pair in enumerate(pairs)], "pairs")
    encoder = SentenceEncoder.load(folder / "model")
    options = {"loss": "info_nce", "temperature": 0.05, "max_length": LENGTH}
    part = Part(build_objective("contrastive", encoder, options), source)
    config = PretrainingConfig(steps=steps, batch_size=BATCH, learning_rate=RATE)
    count = Count(encoder.backbone)
    found: dict[str, float] = {}

    def on_step(done: int, loss: float) -> None:
        count.step()
        if done == steps:
            found.update(count.result())

    pretrain(encoder, [part], config, run=folder / "run", on_step=on_step)
    (folder / "run" / "checkpoint.pt").unlink()  # the next round is a run of its own
    return found


def train_theirs(folder: Path, steps: int) -> dict[str, float]:
    """Theirs, by SentenceTransformerTrainer."""
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    torch.set_num_threads(1)
    pairs = json.loads((folder / "pairs.json").read_text("utf-8"))
    model = SentenceTransformer(str(folder / "model"), device="cpu")
    count = Count(model[0].auto_model)
    found: dict[str, float] = {}

    class Counted(TrainerCallback):  # type: ignore[misc]
        """Counts steps."""

        def on_step_end(self, arguments: Any, state: Any, control: Any, **rest: Any) -> None:
            """After the update."""
            count.step()
            if state.global_step == steps:
                found.update(count.result())

    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        warmup_ratio=0.1,
        weight_decay=0.01,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict(
            {"anchor": [p[0] for p in pairs], "positive": [p[1] for p in pairs]}
        ),
        loss=MultipleNegativesRankingLoss(model),
        callbacks=[Counted()],
    ).train()
    return found


if __name__ == "__main__":
    sys.exit(main())
