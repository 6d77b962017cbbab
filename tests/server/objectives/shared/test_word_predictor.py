"""The words that a vector predicts: the decoder's own, from its file, of its encoder alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from pocketquery.sdk.errors import (
    ArtifactNotFoundError,
    CorruptArtifactError,
    InvalidInputError,
    SpaceMismatchError,
)
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import WordPredictor
from pocketquery.server.objectives.cpdae import Cpdae, CpdaeConfig
from pocketquery.server.objectives.gur import Gur, GurConfig
from pocketquery.server.objectives.shared.word_predictor import WORDS_FILE
from pocketquery.server.pretraining import Part, PretrainingConfig
from pocketquery.server.pretraining.training_run import pretrain_to_folder
from tests.server.objectives.small_training import adam, train
from tests.tiny_models import bert_teacher, sentences

TEXT = "water of the sky"


def corpus() -> GroupList:
    groups = [Group(str(i), (text,)) for i, text in enumerate([*sentences(60), TEXT])]
    return GroupList(groups, "documents")


def trained(steps: int = 2, **options: Any) -> tuple[SentenceEncoder, Cpdae]:
    encoder = bert_teacher(layers=1, width=32)
    objective = Cpdae(encoder, CpdaeConfig(**options))
    objective.prepare(corpus(), encoder.tokenizer)
    train(encoder, objective, adam(encoder, objective), range(steps))
    return encoder.eval(), objective.eval()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    encoder, objective = trained()
    encoder.save(tmp_path / "encoder")
    objective.save_beside(tmp_path / "encoder", encoder)
    return tmp_path / "encoder"


def test_what_is_read_is_what_was_trained() -> None:
    encoder, objective = trained()
    predictor = WordPredictor(encoder, objective.decoder, objective.pooling)
    ids = encoder.tokenize([TEXT, "sky"])
    with torch.no_grad():
        vectors = encoder.pooled(ids["input_ids"], ids["attention_mask"])
        right = objective.decoder(vectors, encoder).sigmoid()
    right = right / right.sum(dim=1, keepdim=True)
    torch.testing.assert_close(predictor.distributions([TEXT, "sky"]), right, rtol=1e-4, atol=1e-7)
    [best, second] = predictor.words(TEXT, 2)
    assert best.probability == pytest.approx(float(right[0].max()), rel=1e-4)
    assert encoder.tokenizer.convert_tokens_to_ids(best.token) == int(right[0].argmax())
    assert best.probability >= second.probability


def test_the_file_gives_the_same_words(saved: Path) -> None:
    encoder, objective = trained()
    read = WordPredictor.load(saved)
    assert read.words(TEXT) == WordPredictor(encoder, objective.decoder, "mean").words(TEXT)
    assert len(read.words(TEXT, most=10**6)) == len(objective.decoder.bias)
    with pytest.raises(InvalidInputError, match="most is 0"):
        read.words(TEXT, most=0)


@pytest.mark.slow
def test_a_text_predicts_its_own_words() -> None:
    encoder, objective = trained(400, rec_reduction="per_positive")  # the fastest to learn
    predictor = WordPredictor(encoder, objective.decoder, objective.pooling)
    found = {word.token for word in predictor.words(TEXT, 6)}
    assert len(found & set(TEXT.split())) >= 3


def test_a_run_leaves_the_decoder_also_beside_another_objectives_head(tmp_path: Path) -> None:
    encoder = bert_teacher(layers=1, width=32)
    gur = Gur(encoder, GurConfig(vector_size=16, pooling="cls", max_length=32))
    parts = [Part(Cpdae(encoder), corpus()), Part(gur, pairs())]
    pretrain_to_folder(encoder, parts, PretrainingConfig(steps=1, batch_size=4), tmp_path / "both")
    predictor = WordPredictor.load(tmp_path / "both")
    assert (predictor.encoder.pooling, predictor.pooling) == ("cls", "mean")
    as_trained = WordPredictor(predictor.encoder, predictor.decoder, "mean")
    as_shipped = WordPredictor(predictor.encoder, predictor.decoder, "cls")
    assert torch.equal(predictor.distributions([TEXT]), as_trained.distributions([TEXT]))
    assert not torch.equal(predictor.distributions([TEXT]), as_shipped.distributions([TEXT]))


def pairs() -> GroupList:
    texts = sentences(40)
    groups = [Group(str(i), (a, b)) for i, (a, b) in enumerate(pairwise(texts))]
    return GroupList(groups, "pairs")


def test_another_encoders_decoder_is_refused(saved: Path, tmp_path: Path) -> None:
    other = bert_teacher(layers=1, width=32, seed=7)
    other.save(tmp_path / "other")
    with pytest.raises(ArtifactNotFoundError, match='trained by the objective "cpdae", and saved'):
        WordPredictor.load(tmp_path / "other")
    (tmp_path / "other" / WORDS_FILE).write_bytes((saved / WORDS_FILE).read_bytes())
    with pytest.raises(SpaceMismatchError, match="the decoder"):
        WordPredictor.load(tmp_path / "other")


@pytest.mark.parametrize("size", [0, 100, -8])
def test_a_damaged_file_is_named(saved: Path, size: int) -> None:
    whole = (saved / WORDS_FILE).read_bytes()
    (saved / WORDS_FILE).write_bytes(whole[:size])
    with pytest.raises(CorruptArtifactError, match=r"words\.safetensors is not a readable decoder"):
        WordPredictor.load(saved)
