"""A new vocabulary from raw text: sentencepiece's unigram model in XLM-R's layout, or WordPiece.

The unigram model is of "Subword Regularization: Improving Neural Network Translation Models with
Multiple Subword Candidates", section 3.2, as `sentencepiece` trains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from pocketquery.sdk.errors import InvalidInputError
from pocketquery.sdk.folders import replace_folder
from pocketquery.sdk.settings.common import Seed
from pocketquery.sdk.settings.declaration import Settings
from pocketquery.server.corpus.groups import Source
from pocketquery.server.corpus.sentencepiece_training import ASCII, run_trainer
from pocketquery.server.corpus.wordpiece_vocabulary import wordpiece_tokenizer

__all__ = [
    "language_quotas",
    "sampled_texts",
    "TokenizerConfig",
    "default_vocabulary",
    "train_sentencepiece",
    "train_tokenizer",
]

KINDS = ("unigram", "wordpiece")


@dataclass(frozen=True)
class TokenizerConfig(Settings):
    """Settings of :func:`train_tokenizer`."""

    kind: Annotated[
        str, '"unigram" (for several languages, or one without spaces) or "wordpiece"'
    ] = "unigram"
    vocabulary: Annotated[
        int,
        "ids, specials included; 0: by the corpus. A small corpus may give fewer",
    ] = 0
    coverage: Annotated[float, "share of the text's characters that get a piece of their own"] = (
        0.9995
    )
    byte_fallback: Annotated[
        bool, "unigram: other characters are spelled by bytes instead of <unk>"
    ] = True
    lowercase: Annotated[bool, "wordpiece: fold case and accents"] = True
    exponent: Annotated[float, "of the languages' shares, see language_quotas"] = 0.3
    most_texts: Annotated[int, "trained on; sentencepiece holds them in memory"] = 1_000_000
    max_length: Annotated[int, "ids of a text at most, as the tokenizer states it"] = 512
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise InvalidInputError(f'kind is "{self.kind}"; expected one of {", ".join(KINDS)}')
        if self.vocabulary < 0 or not 0 < self.coverage <= 1:
            raise InvalidInputError(
                f"vocabulary is {self.vocabulary} and coverage {self.coverage}; expected a "
                "positive number, or 0 for the default, and a share above 0 up to 1"
            )


def default_vocabulary(languages: int) -> int:
    """Ids for so many languages: 8,000 for one, 16,000 up to 5, 32,000 up to 15, then 64,000."""
    steps = ((1, 8_000), (5, 16_000), (15, 32_000))
    return next((size for most, size in steps if languages <= most), 64_000)


def train_tokenizer(
    source: Source, folder: Path | str, config: TokenizerConfig | None = None
) -> Any:
    """Train a vocabulary on ``source`` and write its Hugging Face tokenizer to ``folder``.

    The result depends on the corpus and the settings alone: one thread trains.

    Args:
        source: the texts, of one language or several.
        folder: replaced in one step where it holds a tokenizer already.
        config: settings.

    Returns:
        The fast tokenizer, as ``AutoTokenizer.from_pretrained(folder)`` gives it.

    Raises:
        InvalidInputError: ``folder`` holds something else, or the vocabulary is too small for the
            text's characters.
        CorpusError: no text.
    """
    from pocketquery.server.modeling.loading import load_tokenizer
    from pocketquery.server.modeling.sentencepiece_tokenizer import xlm_roberta_tokenizer
    from pocketquery.server.modeling.tokenizer_file import MODEL_FILE, save_tokenizer

    config, folder = config or TokenizerConfig(), Path(folder)
    _check_replaceable(folder)
    size = config.vocabulary or default_vocabulary(len(source.languages))
    texts = sampled_texts(
        source, most_texts=config.most_texts, exponent=config.exponent, seed=config.seed
    )
    with replace_folder(folder) as place:
        if config.kind == "wordpiece":
            tokenizer = wordpiece_tokenizer(
                texts,
                size,
                coverage=config.coverage,
                lowercase=config.lowercase,
                max_length=config.max_length,
            )
        else:
            model = train_sentencepiece(texts, size - 2, config)  # <pad> and <mask> are beside it
            (place / MODEL_FILE).write_bytes(model)
            tokenizer = xlm_roberta_tokenizer(
                place / MODEL_FILE, model_max_length=config.max_length
            )
        save_tokenizer(tokenizer, place)
    return load_tokenizer(folder)


def train_sentencepiece(texts: Iterable[str], pieces: int, config: TokenizerConfig) -> bytes:
    """The bytes of a unigram model with at most so many pieces, its three specials included.

    Raises:
        InvalidInputError: fewer pieces than characters and bytes.
        CorpusError: no text.
    """
    model = run_trainer(
        texts,
        vocab_size=pieces,
        model_type="unigram",
        character_coverage=config.coverage,
        byte_fallback=config.byte_fallback,
        normalization_rule_name="nmt_nfkc",  # NFKC, and every kind of blank made one
        required_chars=ASCII,
    )
    return _with_exact_scores(model)


def _with_exact_scores(model: bytes) -> bytes:
    """The model with its log probabilities rounded to multiples of 2^-10.

    Two orders of the same pieces ("aa a", "a aa") are equally likely. Sentencepiece adds in float32
    and the fast tokenizers in float64, so which one wins would hang on rounding; sums of these
    scores are exact in both (up to 2^14), and both then take the same.
    """
    from transformers.convert_slow_tokenizer import import_protobuf

    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model)
    for piece in proto.pieces:
        piece.score = round(piece.score * 1024) / 1024
    written: bytes = proto.SerializeToString(deterministic=True)
    return written


def _check_replaceable(folder: Path) -> None:
    """A tokenizer may replace a tokenizer or an empty folder, and nothing else."""
    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
    if folder.is_file() or (names and ("tokenizer.json" not in names or "config.json" in names)):
        raise InvalidInputError(
            f"{folder} exists and is not a tokenizer's folder; it is left alone. Name another "
            "place or remove it"
        )


def language_quotas(
    counts: NDArray[np.int64], most_texts: int, exponent: float
) -> NDArray[np.int64]:
    """How many texts each language gives, int64 (languages,).

    Language i with n_i texts has the share n_i^exponent / sum_j n_j^exponent: 1 leaves the
    languages as they are, 0 makes them equal ("Unsupervised Cross-lingual Representation Learning
    at Scale", section 3.1, where it is 0.3).

    Args:
        counts: int64 (languages,), texts of each.
        most_texts: of all together; fewer where there are fewer.
        exponent: in [0, 1].

    Raises:
        InvalidInputError: ``exponent`` or ``most_texts`` out of range.
    """
    if not 0 <= exponent <= 1 or most_texts < 1:
        raise InvalidInputError(
            f"exponent is {exponent} and most_texts {most_texts}; expected 0 to 1, and at least 1"
        )
    weights = np.where(counts > 0, counts.astype(np.float64) ** exponent, 0.0)
    total = min(most_texts, int(counts.sum()))
    quotas: NDArray[np.float64] = np.rint(total * weights / max(weights.sum(), 1.0))
    return quotas.astype(np.int64)


def sampled_texts(
    source: Source, *, most_texts: int, exponent: float, seed: int = 0
) -> Iterator[str]:
    """Texts of ``source``, as many of each language as :func:`language_quotas` says.

    Groups come in random order; where a language has fewer texts than its quota, they come again.
    """
    codes, counts = source.language_codes(), source.counts().astype(np.int64)
    texts = np.bincount(codes, weights=counts, minlength=len(source.languages)).astype(np.int64)
    rng = np.random.default_rng(seed)
    for code, quota in enumerate(language_quotas(texts, most_texts, exponent)):
        rows = rng.permutation((codes == code).nonzero()[0])
        yield from _cycled(source, rows, int(quota))


def _cycled(source: Source, rows: NDArray[np.int64], quota: int) -> Iterator[str]:
    """``quota`` texts of the groups at ``rows``, from the first again after the last."""
    while quota > 0:
        for row in rows.tolist():
            texts = source[row].texts[:quota]
            yield from texts
            quota -= len(texts)
            if quota <= 0:
                return
