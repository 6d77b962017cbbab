"""PROP: the hinge by hand, the batch's sets, its statistics of the corpus, and that it learns."""

from __future__ import annotations

import copy
import io
import math
import random
from typing import Any

import numpy as np
import pytest
import torch

from pocketquery.sdk.errors import CorpusError
from pocketquery.server.corpus.groups import Group, GroupList
from pocketquery.server.modeling import SentenceEncoder
from pocketquery.server.objectives import Batch, build_objective
from pocketquery.server.objectives.shared.masking import special_mask
from pocketquery_research.objectives.prop import Prop, WordModel, preference_hinge
from tests.tiny_models import WORDS, bert_teacher

TEACHER = bert_teacher(layers=1, width=32)


def documents(count: int = 8) -> list[str]:
    """Each repeats two words of its own among some that all have."""
    return [f"{WORDS[i]} of the {WORDS[i + 9]} of the {WORDS[i]} of sky" for i in range(count)]


SOURCE = GroupList([Group(str(i), (text,)) for i, text in enumerate(documents())], "documents")


def objective(encoder: SentenceEncoder = TEACHER, **options: Any) -> Prop:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        built = build_objective("prop", encoder, options)
    assert isinstance(built, Prop)
    return built


def batch_of(built: Prop, texts: list[str], seed: int = 0) -> Batch:
    return built.collate(texts, np.random.default_rng(seed))


def test_the_hinge_by_hand_and_zero_from_the_margin_on() -> None:
    likelier, other = torch.tensor([0.5, 0.2, 0.5]), torch.tensor([0.4, 0.3, 0.3])
    found = preference_hinge(likelier, other, 0.2)
    assert float(found) == pytest.approx((0.1 + 0.3 + 0.0) / 3, abs=1e-6)
    assert float(preference_hinge(torch.tensor([0.7]), torch.tensor([0.5]), 0.2)) < 1e-7
    assert float(preference_hinge(torch.ones(2), torch.ones(2), 0.2)) == pytest.approx(0.2)
    assert float(preference_hinge(torch.zeros(0), torch.zeros(0), 0.2)) == 0


def test_the_likelier_set_comes_first_and_both_are_of_one_size() -> None:
    built = objective(set_pairs=4)
    built.prepare(SOURCE, built.tokenizer)
    batch = batch_of(built, documents())
    ids, owners = batch["set_ids"], batch["owners"]
    model = built._collection
    assert model is not None
    assert len(owners) > 8
    sets = [
        row[~hidden].numpy()
        for row, hidden in zip(ids, special_mask(ids, built.tokenizer), strict=True)
    ]
    texts = batch["input_ids"]
    words = [
        row[~hidden].numpy()
        for row, hidden in zip(texts, special_mask(texts, built.tokenizer), strict=True)
    ]
    for likelier, other, owner in zip(
        sets[: len(owners)], sets[len(owners) :], owners.tolist(), strict=True
    ):
        assert len(likelier) == len(other) > 0
        scores = [model.log_likelihood(found, words[owner]) for found in (likelier, other)]
        assert scores[0] > scores[1]


def test_a_set_is_framed_as_a_text_is() -> None:
    built = objective()
    batch = batch_of(built, documents())
    lengths = batch["set_mask"].sum(dim=1)
    assert (batch["set_ids"][:, 0] == built.tokenizer.cls_token_id).all()
    last = batch["set_ids"].gather(1, (lengths - 1).unsqueeze(1))
    assert (last == built.tokenizer.sep_token_id).all()


def test_set_sizes_are_poisson_without_zero() -> None:
    built, rng = objective(), np.random.default_rng(0)
    sizes = [built._set_size(rng) for _ in range(5000)]
    assert min(sizes) == 1
    assert np.mean(sizes) == pytest.approx(3 / (1 - np.exp(-3)), abs=0.08)
    short = objective(max_length=4)
    assert max(short._set_size(rng) for _ in range(200)) == 2


def test_ties_are_left_out_and_a_batch_of_them_costs_its_mlm_alone() -> None:
    built = objective()
    batch = batch_of(built, ["water", "water"])  # one word: every two sets are equal
    assert len(batch["owners"]) == 0
    found = built.loss(TEACHER, batch)
    assert float(found.parts["prop"].detach()) == 0
    assert torch.equal(found.total, found.parts["mlm"])


def test_the_corpus_is_counted_once_and_its_words_weigh_in_every_batch() -> None:
    built = objective()
    built.prepare(SOURCE, built.tokenizer)
    model = built._collection
    assert model is not None
    word = built.tokenizer.convert_tokens_to_ids
    assert model.counts[word("of")] == 24
    assert model.counts[word("the")] == 16
    assert model.counts[built.tokenizer.cls_token_id] == 0
    assert model.smoothing == model.counts.sum() / 8
    other = GroupList([Group("x", ("sugar",))], "documents")
    built.prepare(other, built.tokenizer)
    assert built._collection is model
    assert objective(smoothing=7.0)._model(model.counts, 8).smoothing == 7
    assert objective(subsampling=0.5)._model(model.counts, 8).threshold == 0.5


def test_words_of_the_corpus_that_no_text_of_the_batch_has_are_drawn_too() -> None:
    built = objective(set_pairs=4)
    sugar = built.tokenizer.convert_tokens_to_ids("sugar")
    assert not (batch_of(built, documents())["set_ids"] == sugar).any()
    built.prepare(GroupList([Group("x", ("sugar " * 20,))], "documents"), built.tokenizer)
    assert (batch_of(built, documents())["set_ids"] == sugar).any()


def test_without_a_corpus_the_batch_is_its_own_collection() -> None:
    built = objective()
    batch = batch_of(built, documents())
    ids = batch["input_ids"][~special_mask(batch["input_ids"], built.tokenizer)]
    told = objective()
    counts = np.bincount(ids.numpy(), minlength=len(built.tokenizer))
    told._collection = WordModel(counts, len(ids) / 8)
    for key, value in batch_of(told, documents()).items():
        assert torch.equal(value, batch[key])


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(CorpusError, match="no groups"):
        objective().prepare(GroupList([], "documents"), TEACHER.tokenizer)


def test_the_total_is_the_weighted_sum_of_the_parts() -> None:
    built = objective(mlm_weight=0.5)
    found = built.loss(TEACHER, batch_of(built, documents()))
    assert torch.equal(found.total, found.parts["prop"] + 0.5 * found.parts["mlm"])
    alone = objective(mlm_weight=0.0).loss(TEACHER, batch_of(built, documents()))
    assert set(alone.parts) == {"prop"}


def test_the_ranking_by_plain_arithmetic() -> None:
    for similarity in ("cosine", "dot"):
        built = objective(similarity=similarity, mlm_weight=0.0)
        batch = batch_of(built, documents())
        vectors = TEACHER.pooled(batch["input_ids"], batch["attention_mask"]).detach()
        sets = TEACHER.pooled(batch["set_ids"], batch["set_mask"]).detach()
        pairs, total = len(batch["owners"]), 0.0
        for row, owner in enumerate(batch["owners"].tolist()):
            scores = [vectors[owner] @ sets[place] for place in (row, row + pairs)]
            if similarity == "cosine":
                norms = [vectors[owner].norm() * sets[place].norm() for place in (row, row + pairs)]
                scores = [score / norm for score, norm in zip(scores, norms, strict=True)]
            total += max(0.0, 0.2 - float(scores[0]) + float(scores[1]))
        found = built.loss(TEACHER, batch).total.detach()
        assert float(found) == pytest.approx(total / pairs, abs=1e-4)


def test_the_likelier_set_comes_to_lie_nearer() -> None:
    encoder = bert_teacher(layers=1, width=32)
    built = objective(encoder, set_pairs=4, mlm_weight=0.1)
    built.prepare(SOURCE, built.tokenizer)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *built.parameters()], lr=2e-3)
    losses, right = [], []
    for step in range(60):
        found = built.loss(encoder, batch_of(built, documents(), step))
        found.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(found.parts["prop"].detach()))
        right.append(float(found.stats["set_accuracy"]))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    assert np.mean(right[-5:]) > 0.8


def test_a_run_that_resumes_draws_and_costs_the_same_to_the_bit() -> None:
    built = objective(smoothing=3.5, subsampling=1e-3)
    built.prepare(SOURCE, built.tokenizer)
    with torch.no_grad():
        built.head.bias.add_(0.1)
    saved = io.BytesIO()
    torch.save(built.state_dict(), saved)
    saved.seek(0)
    resumed = objective(smoothing=3.5, subsampling=1e-3)
    resumed.load_state_dict(torch.load(saved, weights_only=True))
    batches = [batch_of(found, documents()[:3]) for found in (built, resumed)]
    for key, value in batches[0].items():
        assert torch.equal(value, batches[1][key])
    assert torch.equal(
        built.loss(TEACHER, batches[0]).total, resumed.loss(TEACHER, batches[1]).total
    )
    fresh = objective()
    fresh.load_state_dict(copy.deepcopy(objective().state_dict()))
    assert fresh._collection is None


def test_empty_groups_give_nothing() -> None:
    assert objective().draw(Group("d", ("", " ")), random.Random(0)) is None
    assert objective().draw(Group("d", ("a", "b")), random.Random(0)) == "a b"


# Three words: 6, 3 and 1 of 10 in the collection; the document is "a a b c".
COUNTS = np.array([6, 3, 1])
DOCUMENT = np.array([0, 0, 1, 2])


def test_the_likelihood_of_a_set_by_hand() -> None:
    model = WordModel(COUNTS, smoothing=4.0)
    # p(a|D) = (2 + 4 * 0.6) / 8 = 0.55, p(b|D) = (1 + 1.2) / 8 = 0.275, p(c|D) = 1.4 / 8 = 0.175
    for words, expected in (([0], 0.55), ([1], 0.275), ([2], 0.175), ([0, 2], 0.55 * 0.175)):
        found = model.log_likelihood(np.array(words), DOCUMENT)
        assert found == pytest.approx(math.log(expected), abs=1e-12)


def test_the_probabilities_of_all_words_sum_to_one() -> None:
    model = WordModel(np.array([5, 0, 2, 9]), smoothing=3.0)
    singles = [model.log_likelihood(np.array([word]), np.array([1, 3, 3])) for word in range(4)]
    assert sum(map(math.exp, singles)) == pytest.approx(1, abs=1e-12)


def test_the_order_of_words_and_of_the_document_is_free() -> None:
    model = WordModel(COUNTS, smoothing=4.0)
    found = model.log_likelihood(np.array([0, 1]), DOCUMENT)
    assert model.log_likelihood(np.array([1, 0]), DOCUMENT[::-1]) == pytest.approx(found)


def test_a_word_that_occurs_nowhere_is_impossible() -> None:
    model = WordModel(np.array([1, 0]), smoothing=2.0)
    assert model.log_likelihood(np.array([1]), np.array([0])) == -math.inf


def shares(model: WordModel, draws: int = 20_000) -> list[float]:
    rng = np.random.default_rng(0)
    words = [int(model.draw(DOCUMENT, 1, rng)[0]) for _ in range(draws)]
    return [words.count(word) / draws for word in range(3)]


def test_words_are_drawn_by_their_probability_in_the_document() -> None:
    everything = WordModel(COUNTS, smoothing=4.0, threshold=1.0)  # nothing is sub-sampled
    assert shares(everything) == pytest.approx([0.55, 0.275, 0.175], abs=0.012)


def test_frequent_words_are_sub_sampled() -> None:
    # sqrt(0.1 / f) is 0.408 for a, 0.577 for b and 1 for c.
    weights = np.array([0.55 * 0.408248, 0.275 * 0.577350, 0.175])
    expected = (weights / weights.sum()).tolist()
    found = shares(WordModel(COUNTS, smoothing=4.0, threshold=0.1))
    assert found == pytest.approx(expected, abs=0.012)


def test_a_set_holds_distinct_words_and_as_many_as_there_are() -> None:
    model, rng = WordModel(COUNTS, smoothing=4.0), np.random.default_rng(0)
    for _ in range(200):
        assert len(set(model.draw(DOCUMENT, 2, rng).tolist())) == 2
    assert sorted(model.draw(DOCUMENT, 9, rng).tolist()) == [0, 1, 2]


def test_words_that_nothing_has_are_never_drawn() -> None:
    rng = np.random.default_rng(0)
    model = WordModel(np.array([0, 4, 0, 4, 0]), smoothing=2.0)
    drawn = np.concatenate([model.draw(np.array([1]), 2, rng) for _ in range(500)])
    assert set(drawn.tolist()) == {1, 3}


def test_an_empty_document_has_the_collections_words_and_an_empty_world_none() -> None:
    rng = np.random.default_rng(0)
    nothing = np.zeros(0, np.int64)
    assert len(WordModel(COUNTS, smoothing=4.0).draw(nothing, 2, rng)) == 2
    assert len(WordModel(np.zeros(3, np.int64), smoothing=0.0).draw(nothing, 2, rng)) == 0
