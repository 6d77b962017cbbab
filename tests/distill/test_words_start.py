"""A start of texts and vectors alone finds what its teacher finds, before it has learnt."""

from __future__ import annotations

import copy
import random

import numpy as np
import torch

from pocketquery.distill.starts import fit_head
from pocketquery.distill.student import StudentShape, build_student
from pocketquery.distill.student_of_bundle import load_student
from pocketquery.distill.teachers import VectorTeacher
from pocketquery.distill.words_start import fit_words, unfitted_words
from pocketquery.server.modeling import SentenceEncoder
from pocketquery_research.presets.overlap import nearest_shared

WORDS = "stone bridge river harbour night train garden letter winter bread mountain clock".split()
SHAPE = "1x64x128"


def test_words_that_are_fitted_find_what_random_ones_do_not() -> None:
    drawn, rng = random.Random(0), np.random.default_rng(0)
    meaning = {word: rng.normal(size=64) for word in WORDS}
    texts = list({" ".join(drawn.sample(WORDS, 3)) for _ in range(300)})
    sums = np.stack([sum(meaning[word] for word in text.split()) for text in texts])
    vectors = (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)
    tokenizer = load_student("default").tokenizer
    shape = StudentShape.parse(SHAPE)
    drawn_start = unfitted_words(shape, tokenizer, max_length=128, seed=0)
    fitted = copy.deepcopy(drawn_start)
    fit_words(fitted, texts, vectors)
    table = fitted.backbone.get_input_embeddings()
    ids = torch.tensor([tokenizer(texts[0])["input_ids"]])
    normalised = torch.nn.functional.layer_norm(table(ids), (64,))
    unchanged = fitted.states(ids, torch.ones_like(ids))
    torch.testing.assert_close(unchanged, normalised, atol=1e-3, rtol=1e-3)
    assert found(fitted, texts, vectors) > 0.9
    assert found(drawn_start, texts, vectors) < 0.9


def found(start: SentenceEncoder, texts: list[str], vectors: np.ndarray) -> float:
    teacher = VectorTeacher(lambda asked, role: vectors[: len(asked)], name="t", revision="1")
    shape = StudentShape.parse(SHAPE)
    student = build_student(start, shape, max_length=32, seed=0, teacher=teacher)
    fit_head(student, texts, vectors)
    return nearest_shared(student.encode_query(texts), vectors)
