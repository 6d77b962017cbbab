"""The starts of the studies: encoders that learnt masked words, leg after leg, kept as folders.

What they are is declared under ``[starts]`` in ``arms.toml``. In ``runs/claims/starts`` a start has
its vocabulary, and one folder a leg with the encoder, the MLM head and the log. While a leg is
trained, its ``.run`` beside it holds the checkpoint. A start that has passed its gate may be
published, in the repository: it is found there where ``runs`` has none.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from texts.data_sets import pages
from texts.two_languages import two_languages
from transformers import AlbertConfig, AutoModel, AutoTokenizer

from pocketquery.sdk.files import write_atomic
from pocketquery.server.corpus.groups import GroupList, Source
from pocketquery.server.corpus.new_tokenizer import TokenizerConfig, train_tokenizer
from pocketquery.server.modeling import SentenceEncoder, weights_fingerprint
from pocketquery.server.modeling.cooccurrence import begin_with_cooccurrence
from pocketquery.server.modeling.mlm_head import MLM_HEAD, load_mlm_heads, save_mlm_head
from pocketquery.server.modeling.presets import new_encoder
from pocketquery.server.modeling.sentence_encoder import to_device
from pocketquery.server.objectives import build_objective
from pocketquery.server.pretraining import Part, PretrainingConfig, pretrain
from pocketquery.server.training.log import read_log

__all__ = [
    "ARMS",
    "WORK",
    "Paused",
    "Start",
    "declared",
    "declared_entries",
    "fingerprint",
    "pausing",
    "start_names",
    "start_texts",
]

WORK = Path(__file__).resolve().parents[2] / "runs" / "claims"
ARMS = Path(__file__).with_name("arms.toml")
_PUBLISHED = Path(__file__).resolve().parents[1] / "reference" / "starts"
_CONDITIONS = 16  # positions beyond the texts', for CMLM's vectors before a sentence
_SAVED_EVERY = 50  # steps between checkpoints


_LIKE_BERT = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "type_vocab_size", "hidden_act", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "pad_token_id", "bos_token_id", "eos_token_id"),
)


def _shared_layers(preset: str, tokenizer: Any, *, max_length: int, seed: int) -> SentenceEncoder:
    """Like ``new_encoder``, with one layer's weights in all layers (ALBERT)."""
    like = new_encoder(preset, tokenizer, max_length=max_length).backbone.config
    config = AlbertConfig(
        **{name: getattr(like, name) for name in _LIKE_BERT},
        max_position_embeddings=max_length,
        embedding_size=like.hidden_size,
        num_hidden_groups=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(config, add_pooling_layer=False)
    return SentenceEncoder(backbone, tokenizer, max_length=max_length, name=preset)


class Paused(Exception):
    """The time is over, and a checkpoint has just been saved."""


OnStep = Callable[[int, float], None]


def pausing(ends: float | None, every: int, steps: int, then: OnStep | None = None) -> OnStep:
    """To be called after each step: raises :class:`Paused` at the first checkpoint after ``ends``.

    Args:
        ends: by ``time.monotonic()``; None: it never does.
        every: steps between checkpoints.
        steps: of the whole training, whose last checkpoint is its end.
        then: is called first.
    """

    def on_step(step: int, loss: float) -> None:
        if then is not None:
            then(step, loss)
        over = ends is not None and time.monotonic() > ends
        if over and step % every == 0 and step < steps:
            raise Paused

    return on_step


def declared(table: str) -> Mapping[str, Any]:
    """A table of ``arms.toml``."""
    found: Mapping[str, Any] = tomllib.loads(ARMS.read_text(encoding="utf-8"))[table]
    return found


def declared_entries(table: str) -> list[Mapping[str, Any]]:
    """An array of tables of ``arms.toml``."""
    found: list[Mapping[str, Any]] = tomllib.loads(ARMS.read_text(encoding="utf-8"))[table]
    return found


def start_names() -> list[str]:
    """All starts that are declared."""
    return list(declared("starts"))


def start_texts(name: str, data: Path, most: int | None = None) -> tuple[GroupList, list[str]]:
    """What a start is trained on, and texts that it does not see.

    Args:
        name: of the start.
        data: folder of the public sets.
        most: pages of Wikipedia to read; None for all.
    """
    if name != "manual":
        return pages(data, most)
    made = two_languages()
    return made.documents, [text for pair in made.pairs for text in pair]


class Start:
    """One start: its vocabulary, its randomly initialised weights, its legs.

    Args:
        name: in ``arms.toml``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = declared("starts")[name]

    @property
    def legs(self) -> Sequence[Mapping[str, Any]]:
        """The settings of each leg's run."""
        found: Sequence[Mapping[str, Any]] = self.settings["legs"]
        return found

    def leg_folder(self, leg: int) -> Path:
        """Of leg ``leg``, from 1; another one where it or an earlier one is declared anew."""
        named = {key: value for key, value in self.settings.items() if key not in ("legs", "gate")}
        whole = json.dumps([named, self.legs[:leg]], sort_keys=True)
        name = f"leg-{leg}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        own, published = WORK / "starts" / self.name / name, _PUBLISHED / self.name / name
        return published if published.is_dir() and not own.is_dir() else own

    def finished(self) -> int:
        """How many legs are trained to their end."""
        ends = (self.leg_folder(leg) for leg in range(1, len(self.legs) + 1))
        done = [(folder / MLM_HEAD).is_file() for folder in ends]  # written last
        return done.index(False) if False in done else len(done)

    def drawn(self, seed: int = 0) -> SentenceEncoder:
        """Randomly initialised, in the start's shape and with its vocabulary."""
        make = _shared_layers if self.settings.get("share_layers") else new_encoder
        encoder = make(
            self.settings["preset"],
            self.tokenizer(),
            max_length=self.settings["max_length"] + _CONDITIONS,
            seed=seed,
        )
        encoder.max_length = self.settings["max_length"]
        return encoder

    def trained(self, leg: int) -> SentenceEncoder:
        """What a finished leg made; 0 is the weights that the first one began with."""
        return SentenceEncoder.load(self.leg_folder(leg)) if leg else self.drawn()

    def tokenizer(self) -> Any:
        """The vocabulary.

        Raises:
            SystemExit: it has not been made; says by which command.
        """
        folder = self._vocabulary_folder()
        if not (folder / "tokenizer.json").is_file():
            raise SystemExit(
                f"{folder} holds no vocabulary; expected one trained with its start. Next: "
                f"python research/claims/start.py train --start {folder.parent.name}"
            )
        return AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)

    def make_vocabulary(self, texts: GroupList) -> None:
        """Train the vocabulary on ``texts``, unless it is there or another start's."""
        folder = self._vocabulary_folder()
        if "tokenizer_of" not in self.settings and not folder.is_dir():
            config = TokenizerConfig(kind="wordpiece", vocabulary=self.settings["vocabulary"])
            train_tokenizer(texts, folder, config)

    def train(
        self,
        leg: int,
        texts: Source,
        minutes: float | None = None,
        *,
        device: str = "cpu",
        workers: int = 0,
    ) -> bool:
        """Train leg ``leg`` to its end, or for so many minutes; goes on from its checkpoint.

        Args:
            leg: from 1, after the finished ones.
            texts: to learn from.
            minutes: after which it stops at the next checkpoint; None: at the end of the leg.
            device: torch device to train on.
            workers: processes that prepare batches; does not change the result.

        Returns:
            Whether the leg is at its end.
        """
        folder = self.leg_folder(leg)
        encoder = self.trained(leg - 1)
        torch.manual_seed(leg)  # a drawn head
        objective = build_objective("mlm", encoder, {"max_length": self.settings["max_length"]})
        if leg > 1:
            load_mlm_heads(self.leg_folder(leg - 1), [objective])
        elif self.settings.get("table") == "cooccurrence":
            rows = (" ".join(texts[row].texts) for row in range(len(texts)))
            kept = folder.with_suffix(".table.safetensors")
            begin_with_cooccurrence(encoder, [objective], rows, cache=kept)
        _set_dropout(encoder, self.settings.get("dropout"))
        config = PretrainingConfig(
            **self.legs[leg - 1],
            seed=leg,
            checkpoint_every=_SAVED_EVERY,
            diagnose_every=0,
            workers=workers,
        )
        to_device(encoder, device)
        ends = None if minutes is None else time.monotonic() + 60 * minutes
        run = folder.with_suffix(".run")
        on_step = pausing(ends, _SAVED_EVERY, config.steps)
        try:
            pretrain(encoder, [Part(objective, texts)], config, run=run, on_step=on_step)
        except Paused:
            return False
        for module in (encoder, objective):
            # What is kept, and so can be published, is what the studies start from.
            module.cpu().half()
        encoder.save(folder)
        write_atomic(folder / "log.jsonl", (run / "log.jsonl").read_bytes())
        save_mlm_head(folder, [objective])
        shutil.rmtree(run, ignore_errors=True)
        return True

    def publish(self, leg: int) -> Path:
        """Copy a finished leg and what its gate measured into the repository.

        Returns:
            Folder of the published start.
        """
        folder = _PUBLISHED / self.name
        leg_folder = self.leg_folder(leg)
        shutil.copytree(leg_folder, folder / leg_folder.name, dirs_exist_ok=True)
        figures = leg_folder.with_suffix(".gate.json")
        write_atomic(folder / figures.name, figures.read_bytes())
        return folder

    def steps_done(self, leg: int) -> int:
        """Steps of an unfinished leg that its log tells of."""
        rows = read_log(self.leg_folder(leg).with_suffix(".run") / "log.jsonl")
        return int(rows[-1]["step"]) if rows else 0

    def _vocabulary_folder(self) -> Path:
        """Where the vocabulary was trained, or else the first leg, which is saved with it."""
        named = str(self.settings.get("tokenizer_of", self.name))
        size = declared("starts")[named]["vocabulary"]
        own = WORK / "starts" / named / f"vocabulary-{size}"
        leg = Start(named).leg_folder(1)
        return leg if leg.is_dir() and not own.is_dir() else own


def _set_dropout(encoder: SentenceEncoder, rate: float | None) -> None:
    """Of this training alone: what is saved says the preset's, which the arms train with."""
    if rate is None:
        return
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = rate
        elif hasattr(module, "dropout_prob"):  # of attention that torch computes as one
            module.dropout_prob = rate  # type: ignore[assignment]


def fingerprint(encoder: SentenceEncoder) -> str:
    """Names an encoder's weights, so that runs from another start are other runs."""
    return weights_fingerprint(encoder.state_dict())[:8]
