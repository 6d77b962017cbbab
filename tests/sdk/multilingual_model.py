"""A small sentencepiece model, trained on words made up in several scripts."""

from __future__ import annotations

import io
import random
from typing import Any

from sentencepiece import SentencePieceTrainer

SCRIPTS = (
    "abcdefghilmnoprstuvw",
    "абвгдежзиклмнопрст",
    "αβγδεζηθικλμνξοπρστ",
    "אבגדהוזחטיכלמנסעפצ",
    "กขคงจฉชซญดตถทธนบปผ",
    "अआइकखगघचजटडतनपबमरल",
    "的一是在不了有和人这中大为上个国我以要他",
    "あいうえおかきくけこさしすせそ",
)


def made_up_texts(count: int, seed: int) -> list[str]:
    """Texts of 60 words in each script, some words far more frequent than others."""
    rng = random.Random(1)
    words = [
        "".join(rng.choices(script, k=rng.randrange(2, 8))) for _ in range(60) for script in SCRIPTS
    ]
    rng = random.Random(seed)
    weights = [1 / (1 + rank) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(1, 9))) for _ in range(count)]


def train_model(**options: Any) -> bytes:
    """A model of 500 pieces at most; ``options`` are the trainer's."""
    model = io.BytesIO()
    defaults: dict[str, Any] = {
        "vocab_size": 500,
        "hard_vocab_limit": False,
        "character_coverage": 1.0,
        "normalization_rule_name": "nmt_nfkc",
        "num_threads": 1,
        "minloglevel": 2,
    }
    SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_texts(2000, seed=2)),
        model_writer=model,
        **(defaults | options),
    )
    return model.getvalue()
