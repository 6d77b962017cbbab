"""One study: a paper's arms on one corpus, every run kept when it is done.

The arms, budgets and seeds stand in ``arms.toml``, written down before the runs. All arms of
a study share the tokenizer, the warm start by masked language modelling (one checkpoint), the
processed sequences and the learning rate. A run (corpus, arm, seed) is kept in ``runs/claims``:
killed and started again, a study goes on with the next run. A changed arm is another run; of
changed texts or code the files know nothing, and have to be deleted.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus.groups import Source
from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.modeling.mlm_head import MLM_HEAD, load_mlm_heads, save_mlm_head
from pocketquery.server.modeling.presets import new_encoder
from pocketquery.server.objectives import Objective, build_objective
from pocketquery.server.pretraining import HeldOut, Part, PretrainingConfig, pretrain

__all__ = ["Corpus", "Scores", "Study", "Trained", "settings_of"]

WORK = Path(__file__).resolve().parents[2] / "runs" / "claims"
ARMS = Path(__file__).with_name("arms.toml")
_DIAGNOSED = 100  # steps between looks at the geometry
_LOOKED_AT = 128  # texts
_CONDITIONS = 16  # positions beyond the texts', for CMLM's vectors before a sentence


Scores = dict[str, NDArray[np.float64]]
"""Metric -> score of every item (query, pair, or a single figure), float64 (items,)."""


def settings_of(study: str) -> Mapping[str, Any]:
    """The table of a study in ``arms.toml``."""
    found: Mapping[str, Any] = tomllib.loads(ARMS.read_text(encoding="utf-8"))[study]
    return found


@dataclass(frozen=True)
class Trained:
    """What an arm made, as its evaluation gets it.

    Attributes:
        arm: its name.
        seed: its seed.
        encoder: a :class:`SentenceEncoder`, or another thing with its ``encode``.
        objectives: what it was trained with, heads included.
    """

    arm: str
    seed: int
    encoder: Any
    objectives: Sequence[Objective[Any]] = ()


@dataclass(frozen=True)
class Corpus:
    """What a study trains and tests on.

    Attributes:
        name: names it in tables and files.
        warm: what the warm start reads.
        sources: what an objective draws from, by the objective's name; ``"*"`` for the others.
        evaluate: the scores of what an arm made.
    """

    name: str
    warm: Source
    sources: Mapping[str, Source]
    evaluate: Callable[[Trained], Scores]

    def source(self, objective: str) -> Source:
        return self.sources.get(objective, self.sources.get("*", self.warm))


@dataclass
class Study:
    """A paper's arms and budgets on one corpus."""

    name: str
    corpus: Corpus
    settings: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        settings = dict(settings_of(self.name))
        of_corpora = settings.pop("corpora", {})
        self.settings = settings | of_corpora.get(self.corpus.name, {})

    def results(self, arms: Iterable[str] | None = None) -> dict[str, Scores]:
        """Arm -> metric -> float64 (seeds, items); runs what has not been run."""
        names = list(arms or self.settings.get("only", self.settings["arms"]))
        found: dict[str, Scores] = {}
        for arm in names:
            runs = [self.run(arm, seed) for seed in self._seeds(arm)]
            found[arm] = {metric: np.stack([run[metric] for run in runs]) for metric in runs[0]}
        return found

    def _seeds(self, arm: str) -> list[int]:
        """The arm's own seeds, of arms that differ by nothing else, or the study's."""
        seeds: list[int] = self.settings["arms"][arm].get("seeds", self.settings["seeds"])
        return seeds

    def run(self, arm: str, seed: int) -> Scores:
        """One arm from one seed, from its file where it was run before."""
        path = self.path(arm, seed)
        if not path.is_file():
            run = path.with_suffix("")
            trained = self.train(arm, seed, run)
            if (run / "log.jsonl").is_file():
                write_atomic(path.with_suffix(".jsonl"), (run / "log.jsonl").read_bytes())
            scores = self.corpus.evaluate(trained)
            packed = io.BytesIO()
            np.savez_compressed(packed, allow_pickle=False, **scores)
            write_atomic(path, packed.getvalue())
            shutil.rmtree(run, ignore_errors=True)
            shown = " ".join(f"{metric} {values.mean():.4f}" for metric, values in scores.items())
            print(f"{self.name} {self.corpus.name} {arm} seed {seed}: {shown}", flush=True)
        with np.load(path) as saved:
            return {metric: saved[metric] for metric in saved.files}

    def path(self, arm: str, seed: int) -> Path:
        """Where a run's scores are kept; its log lies beside them, as ``.jsonl``."""
        return WORK / self.name / self.corpus.name / f"{arm}-{seed}-{self._key(arm)}.npz"

    def _key(self, arm: str) -> str:
        """Of the arm's settings but its seeds: a changed arm is another run."""
        others = ("arms", "seeds", "only")
        shared = {name: value for name, value in self.settings.items() if name not in others}
        own = {name: value for name, value in self.settings["arms"][arm].items() if name != "seeds"}
        whole = json.dumps([shared, own, self.corpus.name], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()[:8]

    def train(self, arm: str, seed: int, run: Path | None = None) -> Trained:
        """What an arm makes from a seed; its log and checkpoint lie in ``run``."""
        settings = self.settings["arms"][arm]
        torch.manual_seed(seed)  # drawn weights
        encoder = self.start(settings.get("start", "warm"))
        encoder.pooling = settings.get("pooling", self.settings.get("pooling", "mean"))
        torch.manual_seed(seed)  # the heads are drawn
        parts = [
            self._part(name, options, encoder)
            for name, options in settings.get("objectives", {}).items()
        ]
        if parts:
            chosen = {**self.settings["train"], **settings.get("train", {})}
            config = PretrainingConfig(**chosen, seed=seed, diagnose_every=_DIAGNOSED)
            encoder = pretrain(encoder, parts, config, run=run, held_out=self._held_out())
        return Trained(arm, seed, encoder.eval(), [part.objective for part in parts])

    def _held_out(self) -> HeldOut:
        """Texts, trained on, whose geometry is looked at on the way; they decide nothing."""
        rows = range(0, len(self.corpus.warm), max(1, len(self.corpus.warm) // _LOOKED_AT))
        return HeldOut([" ".join(self.corpus.warm[row].texts[:3]) for row in rows][:_LOOKED_AT])

    def _part(self, name: str, options: Mapping[str, Any], encoder: SentenceEncoder) -> Part:
        options = {"max_length": self.settings["max_length"], **options}
        share = options.pop("share", 1.0)
        source = self.corpus.source(options.pop("source", name))
        objective = build_objective(name, encoder, options)
        load_mlm_heads(self._warm_folder(), [objective])  # the same for all arms
        return Part(objective, source, share)

    def start(self, kind: str = "warm") -> SentenceEncoder:
        """The warm start that all arms share, made once; or the drawn weights it began with."""
        folder = self._warm_folder()
        if not (folder / MLM_HEAD).is_file():  # written last
            encoder = self._drawn()
            torch.manual_seed(0)
            objective = build_objective("mlm", encoder, {"max_length": self.settings["max_length"]})
            config = PretrainingConfig(**self.settings["warm"])
            part = Part(objective, self.corpus.warm)
            pretrain(encoder, [part], config, run=folder.with_suffix(".run"))
            encoder.save(folder)
            save_mlm_head(folder, [objective])
        return SentenceEncoder.load(folder) if kind == "warm" else self._drawn()

    def _warm_folder(self) -> Path:
        names = ("warm", "preset", "vocabulary", "max_length", "share_layers")
        chosen = [self.settings[name] for name in names if name in self.settings]
        key = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]
        return WORK / self.name / self.corpus.name / f"warm-{key}"

    def _drawn(self) -> SentenceEncoder:
        encoder = new_encoder(
            self.settings["preset"],
            self._tokenizer(),
            pooling=self.settings.get("pooling", "mean"),
            share_layers=self.settings.get("share_layers", False),
            max_length=self.settings["max_length"] + _CONDITIONS,
        )
        encoder.max_length = self.settings["max_length"]
        return encoder

    def _tokenizer(self) -> Any:
        size = int(self.settings["vocabulary"])
        kind = self.settings.get("tokenizer", "wordpiece")
        folder = WORK / self.name / self.corpus.name / f"tokenizer-{kind}-{size}"
        if not folder.is_dir():
            return train_tokenizer(
                self.corpus.warm, folder, TokenizerConfig(kind=kind, vocabulary=size)
            )
        return AutoTokenizer.from_pretrained(folder, use_fast=True)
